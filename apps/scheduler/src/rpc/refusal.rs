//! How a caller is told no.

use persys_cluster::effects::{RefusalCode, Reply};
use persys_model::fault::Faults;
use persys_model::id::{NameError, NodeId, WorkloadId};
use tonic::Status;
use tonic::metadata::MetadataValue;

use crate::handle::Unanswered;

/// Seconds after which asking again may help.
const RETRY_AFTER: &str = "1";
/// Letters of a wrong word that are repeated to its sender.
const MOST_ECHOED: usize = 64;

/// Not at present; the same request later may succeed.
pub(super) fn unavailable(why: impl Into<String>) -> Status {
    let mut status = Status::unavailable(why);
    status.metadata_mut().insert("retry-after", MetadataValue::from_static(RETRY_AFTER));
    status
}

/// The same refusal in other words; what it says about when to come again stays.
pub(super) fn saying(why: &Status, text: String) -> Status {
    Status::with_metadata(why.code(), text, why.metadata().clone())
}

impl From<Unanswered> for Status {
    fn from(why: Unanswered) -> Self {
        match why {
            Unanswered::NotLeader | Unanswered::Stopping => unavailable(why.to_string()),
            Unanswered::TimedOut => Self::deadline_exceeded(why.to_string()),
        }
    }
}

/// The remark of what was done; or the refusal as a status, for requests whose response has no room
/// for one.
pub(super) fn done(reply: Reply) -> Result<String, Status> {
    match reply {
        Reply::Done { note } => Ok(note.to_string()),
        Reply::Unknown { why } => Err(unavailable(&*why)),
        Reply::Refused { code, why } => Err(status(code, &why)),
    }
}

/// The same for requests that are refused in their response: only what is no fault of the request
/// is a status.
pub(super) fn in_band(reply: Reply) -> Result<Result<String, (RefusalCode, String)>, Status> {
    match reply {
        Reply::Done { note } => Ok(Ok(note.to_string())),
        Reply::Unknown { why } => Err(unavailable(&*why)),
        // Who may not is told so in the same way by every method.
        Reply::Refused {
            code: code @ (RefusalCode::Unavailable | RefusalCode::Forbidden),
            why,
        } => Err(status(code, &why)),
        Reply::Refused { code, why } => Ok(Err((code, why.to_string()))),
    }
}

fn status(code: RefusalCode, why: &str) -> Status {
    match code {
        RefusalCode::Invalid => Status::invalid_argument(why),
        RefusalCode::NotFound => Status::not_found(why),
        RefusalCode::Conflict => Status::failed_precondition(why),
        RefusalCode::Unavailable => unavailable(why),
        RefusalCode::Exhausted => Status::resource_exhausted(why),
        RefusalCode::Forbidden => Status::permission_denied(why),
    }
}

pub(super) fn faults(faults: &Faults) -> Status {
    Status::invalid_argument(faults.to_string())
}

pub(super) fn workload_id(text: &str) -> Result<WorkloadId, Status> {
    WorkloadId::new(text).map_err(|fault| bad_name("workload_id", &fault))
}

pub(super) fn node_id(text: &str) -> Result<NodeId, Status> {
    NodeId::new(text).map_err(|fault| bad_name("node_id", &fault))
}

/// A filter by state names a state there is, in any case; an empty one wants all.
pub(super) fn known_status(
    wanted: &str,
    mut words: impl Iterator<Item = &'static str> + Clone,
) -> Result<(), Status> {
    let listed = words.clone();
    if wanted.is_empty() || words.any(|word| word.eq_ignore_ascii_case(wanted)) {
        return Ok(());
    }
    let wanted: String = wanted.chars().take(MOST_ECHOED).collect();
    let listed: Vec<_> = listed.collect();
    let why = format!("status: there is no state {wanted:?}; there are {}", listed.join(", "));
    Err(Status::invalid_argument(why))
}

fn bad_name(field: &str, fault: &NameError) -> Status {
    Status::invalid_argument(format!("{field}: {fault}"))
}
