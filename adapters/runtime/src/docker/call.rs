//! One call to the daemon: with a deadline, and with "no answer" kept apart from "no".

use std::future::Future;
use std::time::Duration;

use bollard::errors::Error as LibraryError;

use crate::error::Error;

/// What the daemon answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply<T> {
    /// It did it, or here it is.
    Yes(T),
    /// It refused, for certain.
    No(No),
}

/// A refusal of the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct No {
    /// HTTP status; 500 where a stream ended with an error.
    pub(crate) status: u16,
    /// In the daemon's words.
    pub(crate) message: String,
}

/// Asks, and waits at most `limit`. An error is always an unknown outcome.
pub(crate) async fn ask<T>(
    verb: &'static str,
    limit: Duration,
    call: impl Future<Output = Result<T, LibraryError>>,
) -> Result<Reply<T>, Error> {
    match tokio::time::timeout(limit, call).await {
        Ok(Ok(value)) => Ok(Reply::Yes(value)),
        Ok(Err(error)) => read(verb, limit, error).map(Reply::No),
        Err(_) => Err(no_answer(verb, limit)),
    }
}

/// Asks a question to which "no such thing" is an answer.
pub(crate) async fn find<T>(
    verb: &'static str,
    limit: Duration,
    call: impl Future<Output = Result<T, LibraryError>>,
) -> Result<Option<T>, Error> {
    match ask(verb, limit, call).await? {
        Reply::Yes(value) => Ok(Some(value)),
        Reply::No(No { status: 404, .. }) => Ok(None),
        Reply::No(No { message, .. }) => Err(Error::Refused { verb, detail: message }),
    }
}

pub(crate) fn no_answer(verb: &'static str, limit: Duration) -> Error {
    Error::NoAnswer { verb, within_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX) }
}

/// What an error of the client library means: a refusal, or that we do not know.
pub(crate) fn read(verb: &'static str, limit: Duration, error: LibraryError) -> Result<No, Error> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "what is new there is unknown here")]
    match error {
        // A proxy before the daemon speaks for itself, not for the daemon.
        LibraryError::DockerResponseServerError { status_code: 502..=504, message } => {
            Err(Error::Unreachable { detail: message })
        }
        LibraryError::DockerResponseServerError { status_code: status, message } => {
            Ok(No { status, message })
        }
        LibraryError::DockerStreamError { error: message } => Ok(No { status: 500, message }),
        LibraryError::RequestTimeoutError => Err(no_answer(verb, limit)),
        LibraryError::JsonDataError { .. }
        | LibraryError::JsonSerdeError { .. }
        | LibraryError::StrParseError { .. } => {
            Err(Error::Unreadable { verb, detail: error.to_string() })
        }
        other => Err(Error::Unreachable { detail: chain(&other) }),
    }
}

/// An error with all its causes: the outermost of a connection error says nothing.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let words = inner.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(1);

    #[test]
    fn only_the_daemons_own_word_is_a_no() {
        let refusal = |status_code| LibraryError::DockerResponseServerError {
            status_code,
            message: "m".into(),
        };
        for status in [400, 404, 409, 500] {
            assert_eq!(read("start", LIMIT, refusal(status)).unwrap().status, status);
        }
        for status in [502, 503, 504] {
            assert!(read("start", LIMIT, refusal(status)).unwrap_err().is_unknown());
        }
        let broken = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        for error in [
            LibraryError::IOError { err: broken },
            LibraryError::RequestTimeoutError,
            LibraryError::JsonDataError { message: "m".into(), column: 3 },
        ] {
            assert!(read("list", LIMIT, error).unwrap_err().is_unknown());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_hangs_ends_at_its_deadline() {
        let hangs = std::future::pending::<Result<(), LibraryError>>();
        let error = ask("stop", LIMIT, hangs).await.unwrap_err();
        assert_eq!(error, Error::NoAnswer { verb: "stop", within_ms: 1000 });
    }
}
