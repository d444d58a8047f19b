//! For whom a scheduler passes a request on.
//!
//! A scheduler that does not lead passes requests to the one that does, and says who made them. The
//! word of a scheduler of this cluster is taken for that, proven by its certificate; from anybody else
//! it counts for nothing and is taken out. On plain connections everybody is the same operator
//! already, so that there it only tells that a request was passed on. A gateway names users in the
//! same way, and operators with the certificate they showed it, which is verified here again.

use std::net::SocketAddr;

use persys_identity::{ConnectInfo, Denied, Name, Peer, Role};
use tonic::Status;
use tonic::codegen::http::{HeaderMap, HeaderValue, Request};

/// Who made the request: `<role>/<name>`.
pub(crate) const HEADER: &str = "persys-on-behalf-of";

/// By which certificate a gateway knew its user: the serial number. Whoever says it, it can only be
/// the reason for a refusal.
const CERTIFICATE: &str = "persys-certificate";

/// The certificate an operator showed a gateway.
const CHAIN: &str = "persys-certificate-chain";

/// Where the request came from, as whoever passes it on saw it.
pub(super) const SOURCE: &str = "persys-source";

/// Whether a request is made for somebody who is no longer believed: a gateway shows a certificate
/// of its own, and only this tells of the one that was shown to it.
pub(super) fn speaks_for_revoked(headers: &HeaderMap, denied: &Denied) -> Option<String> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(serial) = text(CERTIFICATE).filter(|serial| denied.serials.contains(*serial)) {
        return Some(format!("serial/{serial}"));
    }
    let (role, name) = text(HEADER)?.split_once('/')?;
    let (role, name) = (Role::parse(role).ok()?, Name::new(name).ok()?);
    denied.has_identity(role, &name).then(|| format!("{role}/{name}"))
}

/// Settles who is calling: from here on the connection's information names whoever made the
/// request, and where they called from. Says whether it was passed on by another scheduler.
pub(super) fn settle<B>(
    request: &mut Request<B>,
    vouched: impl FnOnce(&str) -> Result<Peer, String>,
) -> Result<bool, Status> {
    let said = request.headers_mut().remove(HEADER);
    let chain = request.headers_mut().remove(CHAIN);
    let source = request.headers_mut().remove(SOURCE);
    let Some(info) = request.extensions().get::<ConnectInfo>() else { return Ok(false) };
    let plain = info.peer.certificate.is_none();
    let passes_on = match info.peer.role {
        Role::Scheduler | Role::Gateway => true,
        Role::Agent | Role::Operator | Role::User | Role::Metrics => plain && said.is_some(),
    };
    if !passes_on {
        return Ok(false);
    }
    let mut info = info.clone();
    if let Some(address) = source.and_then(|text| text.to_str().ok()?.parse().ok()) {
        info.remote = SocketAddr::new(address, 0);
    }
    let by_scheduler = info.peer.role == Role::Scheduler || plain;
    if let Some(said) = said.filter(|_| !plain) {
        let bad = || Status::invalid_argument(format!("{HEADER}: is not <role>/<name>"));
        let named = said.to_str().ok().and_then(|text| text.split_once('/'));
        let (role, name) = named.ok_or_else(bad)?;
        let (Ok(role), Ok(name)) = (Role::parse(role), Name::new(name)) else { return Err(bad()) };
        if info.peer.role == Role::Gateway {
            let chain = chain.as_ref().and_then(|chain| chain.to_str().ok());
            may_name(role, &name, chain.map(vouched))?;
        }
        info.peer = Peer { role, name, ..info.peer };
        request.extensions_mut().insert(info);
        return Ok(by_scheduler);
    }
    request.extensions_mut().insert(info);
    Ok(by_scheduler && plain)
}

/// Whom a gateway may name: every user, whose rights are looked up here, and an operator whose
/// certificate it was shown and passes on. An operator has all rights by the certificate alone, so
/// the gateway's word is not enough.
fn may_name(role: Role, name: &Name, shown: Option<Result<Peer, String>>) -> Result<(), Status> {
    match (role, shown) {
        (Role::User, _) => Ok(()),
        (Role::Operator, Some(Ok(peer))) if peer.role == role && peer.name == *name => Ok(()),
        (Role::Operator, Some(Err(why))) => Err(Status::permission_denied(why)),
        (Role::Operator, Some(Ok(_)) | None) => Err(Status::permission_denied(
            "a gateway speaks for an operator only with the certificate that the operator showed it",
        )),
        (Role::Scheduler | Role::Agent | Role::Gateway | Role::Metrics, _) => {
            Err(Status::permission_denied("a gateway speaks for users and operators only"))
        }
    }
}

/// Says for whom a request is passed on.
pub(super) fn name(headers: &mut HeaderMap, info: &ConnectInfo) -> Result<(), Status> {
    let ConnectInfo { peer, remote, .. } = info;
    let texts =
        [(HEADER, format!("{}/{}", peer.role, peer.name)), (SOURCE, remote.ip().to_string())];
    for (header, text) in texts {
        let value = HeaderValue::from_str(&text)
            .map_err(|fault| Status::internal(format!("{header}: {fault}")))?;
        headers.insert(header, value);
    }
    Ok(())
}
