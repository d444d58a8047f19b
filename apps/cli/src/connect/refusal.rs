//! Why a question was not answered, for the person who asked.

use std::error::Error;

use persys_identity::ConnectError;
use tonic::{Code, Status};

use crate::problem::Problem;

/// Lists in which one finds what there is, by the noun of "there is no ...".
const LISTS: [(&str, &str); 5] = [
    ("secret", "persys secret list"),
    ("disk", "persys disk list"),
    ("namespace", "persys namespace list"),
    ("binding", "persys access list"),
    ("user token", "persys access token list"),
];

/// Where somebody looks who named what there is not.
fn where_to_look(said: &str) -> Vec<&'static str> {
    let noun = said.strip_prefix("there is no ").unwrap_or_default();
    let known = LISTS.iter().find(|(word, _)| noun.starts_with(word));
    known.map_or_else(|| vec!["persys list", "persys nodes"], |(_, list)| vec![*list])
}

/// What went wrong with a question to `whom`.
pub(super) fn explain(what: &str, whom: &str, status: &Status) -> Problem {
    if let Some(error) = ConnectError::within(status) {
        return not_reached(what, whom, error);
    }
    let said = status.message();
    let problem = Problem::new(what);
    match status.code() {
        Code::NotFound => {
            where_to_look(said).iter().fold(problem.why(said), |problem, next| problem.next(*next))
        }
        Code::InvalidArgument | Code::FailedPrecondition | Code::AlreadyExists | Code::Aborted => {
            problem.why(said)
        }
        Code::OutOfRange => problem.why(said),
        Code::ResourceExhausted => problem.why(said).next("persys status"),
        Code::PermissionDenied => problem
            .why(format!("{whom} does not allow it: {said}"))
            .next("persys config                 (shows which certificate is used)"),
        Code::Unauthenticated => problem
            .why(format!("{whom} does not know who asks: {said}"))
            .next("persys config                 (shows which certificate is used)"),
        Code::Unimplemented => problem
            .why(format!(
                "{whom} cannot do this: {}",
                if said.is_empty() { "it is of another version" } else { said }
            ))
            .next("persys status"),
        Code::DeadlineExceeded => problem
            .why(format!("{whom} did not answer in time: {said}"))
            .next("persys status")
            .next("persys --rpc-timeout-seconds 60 ..."),
        Code::Unavailable | Code::Cancelled | Code::Unknown if status.source().is_some() => problem
            .why(format!("the connection to {whom} failed: {}", chain(status)))
            .next("persys config                 (shows where and how it connects)"),
        Code::Unavailable => {
            problem.why(format!("{whom} cannot at present: {said}")).next("persys status")
        }
        Code::Ok | Code::Cancelled | Code::Unknown | Code::Internal | Code::DataLoss => {
            problem.why(format!("{whom} says: {said}")).next("persys status")
        }
    }
}

fn not_reached(what: &str, whom: &str, error: &ConnectError) -> Problem {
    let problem = Problem::new(what);
    match error {
        ConnectError::NotListening { .. } => problem
            .why(format!("{whom} does not run: nobody listens there"))
            .next("persys dev                    (starts a cluster here)")
            .next("persys config                 (shows where the address comes from)"),
        ConnectError::Unreachable { source, .. } => problem
            .why(format!("{whom} is not reached: {source}"))
            .next("persys config                 (shows where the address comes from)"),
        ConnectError::Address { .. } => problem.why(error.to_string()).next("persys config"),
        ConnectError::WrongPeer { source, .. } => problem
            .why(format!("somebody else answers for {whom}: {source}"))
            .next("persys config                 (shows which certificate is used)"),
        ConnectError::Handshake { source, .. } => problem
            .why(format!("{whom} and this program do not trust each other: {source}"))
            .next("persys config                 (shows which certificate is used)")
            .next("persys --insecure ...         (only where the scheduler runs without certificates)"),
    }
}

/// An error and what is behind it, each said once.
fn chain(error: &dyn Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut next = error.source();
    while let Some(behind) = next {
        let text = behind.to_string();
        if parts.last() != Some(&text) {
            parts.push(text);
        }
        next = behind.source();
    }
    parts.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_not_leads_to_the_list_of_what_there_is() {
        let next = |said: &str| explain("it cannot be shown", "s1", &Status::not_found(said)).next;
        assert_eq!(next("there is no secret db in the namespace web"), ["persys secret list"]);
        assert_eq!(next("there is no user token zzz"), ["persys access token list"]);
        assert_eq!(next("there is no workload web"), ["persys list", "persys nodes"]);
        assert_eq!(next("nothing of that kind"), ["persys list", "persys nodes"]);
    }

    #[test]
    fn each_refusal_says_what_why_and_what_next() {
        let whom = "the scheduler at h:1";
        for code in (0..17).map(Code::from) {
            let problem = explain("nodes cannot be listed", whom, &Status::new(code, "so"));
            assert_eq!(problem.what, "nodes cannot be listed");
            assert!(!problem.why.is_empty(), "{code:?}");
        }
        let denied = Status::permission_denied("the user x may not call y");
        assert_eq!(
            explain("nodes cannot be listed", whom, &denied).text("persys", false),
            "error: nodes cannot be listed\n  why:  the scheduler at h:1 does not allow it: the user x may not call y\n  next: persys config                 (shows which certificate is used)\n"
        );
    }
}
