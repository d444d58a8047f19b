//! For whom a scheduler passes a request on.
//!
//! A scheduler that does not lead passes requests to the one that does, and says who made them. The
//! word of a scheduler of this cluster is taken for that, proven by its certificate; from anybody else
//! it counts for nothing and is taken out. On plain connections everybody is the same operator
//! already, so that there it only tells that a request was passed on.

use persys_identity::{ConnectInfo, Name, Peer, Role};
use tonic::Status;
use tonic::codegen::http::{HeaderMap, HeaderValue, Request};

/// Who made the request: `<role>/<name>`.
pub(crate) const HEADER: &str = "persys-on-behalf-of";

/// Settles who is calling: from here on the connection's information names whoever made the
/// request. Says whether it was passed on by another scheduler.
pub(super) fn settle<B>(request: &mut Request<B>) -> Result<bool, Status> {
    let Some(said) = request.headers_mut().remove(HEADER) else { return Ok(false) };
    let Some(info) = request.extensions().get::<ConnectInfo>() else { return Ok(false) };
    if info.peer.certificate.is_none() {
        return Ok(true);
    }
    if info.peer.role != Role::Scheduler {
        return Ok(false);
    }
    let bad = || Status::invalid_argument(format!("{HEADER}: is not <role>/<name>"));
    let (role, name) = said.to_str().ok().and_then(|text| text.split_once('/')).ok_or_else(bad)?;
    let (Ok(role), Ok(name)) = (Role::parse(role), Name::new(name)) else { return Err(bad()) };
    let info = ConnectInfo { peer: Peer { role, name, ..info.peer.clone() }, ..info.clone() };
    request.extensions_mut().insert(info);
    Ok(true)
}

/// Says for whom a request is passed on.
pub(super) fn name(headers: &mut HeaderMap, peer: &Peer) -> Result<(), Status> {
    let text = format!("{}/{}", peer.role, peer.name);
    let value = HeaderValue::from_str(&text)
        .map_err(|fault| Status::internal(format!("{HEADER}: {fault}")))?;
    headers.insert(HEADER, value);
    Ok(())
}
