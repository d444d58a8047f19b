//! What a "no" of the daemon means.
//!
//! Docker has few status codes and says the rest in words. The words are matched here and nowhere
//! else; what is not recognised is a refusal in Docker's own words.

use super::call::No;
use crate::error::Error;

/// A refusal to make or start a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A port is taken; which one, if the words say so.
    Port(Option<u16>),
    /// Everything else is final.
    Other(Error),
}

/// What a refusal to make or start means.
pub(crate) fn of_start(verb: &'static str, image: &str, no: No) -> Refusal {
    let words = no.message.to_lowercase();
    let says = |parts: &[&str]| parts.iter().any(|part| words.contains(part));
    let detail = no.message;
    if says(&["port is already allocated", "address already in use"]) {
        return Refusal::Port(port_in(&words));
    }
    Refusal::Other(if no.status == 404 && says(&["no such image"]) {
        Error::ImagePull { image: image.to_owned(), detail: "it is not on this node".to_owned() }
    } else if says(&["bind source path does not exist", "no space left", "read-only file system"]) {
        Error::Storage { detail }
    } else if says(&["cannot allocate memory"]) {
        Error::Resources { detail }
    } else if says(&[
        "executable file not found",
        "exec format error",
        "permission denied: unknown",
    ]) || (says(&["exec: "]) && says(&["no such file or directory", "permission denied"]))
        || no.status == 400
    {
        Error::Invalid { detail }
    } else if says(&["failed to create endpoint", "no available ipv4 addresses", "iptables"]) {
        Error::Network { detail }
    } else {
        Error::Refused { verb, detail }
    })
}

/// Whether a container was not started because somebody is removing it, or just has.
pub(crate) fn is_going(no: &No) -> bool {
    let words = no.message.to_lowercase();
    let going = ["marked for removal", "removal of container"].iter().any(|w| words.contains(w));
    let gone = no.status == 404 && words.contains("no such container");
    going || gone
}

/// What a refusal to fetch `image` means.
pub(crate) fn of_pull(image: &str, no: No) -> Error {
    let words = no.message.to_lowercase();
    let says = |parts: &[&str]| parts.iter().any(|part| words.contains(part));
    let image = image.to_owned();
    let detail = no.message;
    if no.status == 400 || says(&["invalid reference format"]) {
        return Error::Invalid { detail: format!("image {image}: {detail}") };
    }
    // A registry that hides what it has says "denied" to both a wrong name and a wrong password.
    if says(&["denied", "unauthorized", "authentication required", "no basic auth"]) {
        let detail = format!("{detail} (wrong name, or credentials missing or wrong)");
        return Error::ImageDenied { image, detail };
    }
    if says(&[
        "manifest unknown",
        "name unknown",
        "not found",
        "no such image",
        "no matching manifest",
    ]) && !says(&["dial tcp", "lookup "])
    {
        return Error::ImageNotFound { image, detail };
    }
    if says(&["no space left"]) {
        return Error::Storage { detail: format!("image {image}: {detail}") };
    }
    Error::ImagePull { image, detail }
}

/// The port in Docker's words: `Bind for 0.0.0.0:8080 failed: port is already allocated`,
/// `listen tcp4 0.0.0.0:8080: bind: address already in use`.
fn port_in(words: &str) -> Option<u16> {
    let before = ["failed: port is already allocated", ": bind: address already in use"];
    let end = before.iter().find_map(|mark| words.find(mark))?;
    let address = words.get(..end)?.split_whitespace().next_back()?;
    address.rsplit(':').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use persys_model::failure::FailureReason;

    fn no(status: u16, message: &str) -> No {
        No { status, message: message.to_owned() }
    }

    #[test]
    fn the_port_is_found_in_the_words() {
        for words in [
            "driver failed programming external connectivity on endpoint persys-a (0af): Bind for 0.0.0.0:8080 failed: port is already allocated",
            "Error starting userland proxy: listen tcp4 0.0.0.0:8080: bind: address already in use",
            "Error starting userland proxy: listen tcp6 [::]:8080: bind: address already in use",
        ] {
            assert_eq!(of_start("start", "web", no(500, words)), Refusal::Port(Some(8080)));
        }
        let vague = no(500, "address already in use");
        assert_eq!(of_start("start", "web", vague), Refusal::Port(None));
    }

    #[test]
    fn a_refused_start_has_its_class() {
        for (status, words, reason) in [
            (404, "No such image: web:1", FailureReason::ImagePullFailed),
            (
                400,
                "invalid mount config for type \"bind\": bind source path does not exist: /x",
                FailureReason::StorageError,
            ),
            (500, "mkdir /var/lib/docker/x: no space left on device", FailureReason::StorageError),
            (400, "Minimum memory limit allowed is 6MB", FailureReason::InvalidSpec),
            (
                400,
                "OCI runtime create failed: exec: \"x\": executable file not found in $PATH: unknown",
                FailureReason::InvalidSpec,
            ),
            (500, "something new", FailureReason::RuntimeError),
        ] {
            let Refusal::Other(error) = of_start("start", "web:1", no(status, words)) else {
                panic!("{words}")
            };
            assert_eq!(error.reason(), reason, "{words}");
        }
    }

    #[test]
    fn a_container_that_is_being_removed_is_told_from_one_that_cannot_start() {
        for (status, words, going) in [
            (409, "container is marked for removal and cannot be started", true),
            (404, "No such container: 0123abcd", true),
            (404, "network 0123abcd not found", false),
            (409, "cannot start a paused container, try unpause instead", false),
        ] {
            assert_eq!(is_going(&no(status, words)), going, "{words}");
        }
    }

    #[test]
    fn a_refused_pull_has_its_class() {
        for (status, words, reason) in [
            (
                404,
                "manifest for r/x:1 not found: manifest unknown: manifest unknown",
                FailureReason::ImageNotFound,
            ),
            (
                404,
                "pull access denied for x, repository does not exist or may require 'docker login': denied",
                FailureReason::ImagePullFailed,
            ),
            (
                500,
                "Head \"http://127.0.0.1:5000/v2/x/manifests/1\": no basic auth credentials",
                FailureReason::ImagePullFailed,
            ),
            (
                500,
                "Get \"http://127.0.0.1:1/v2/\": dial tcp 127.0.0.1:1: connect: connection refused",
                FailureReason::ImagePullFailed,
            ),
            (
                500,
                "Get \"https://r/v2/\": dial tcp: lookup r: no such host (not found)",
                FailureReason::ImagePullFailed,
            ),
            (400, "invalid reference format", FailureReason::InvalidSpec),
            (500, "write /var/lib/docker/x: no space left on device", FailureReason::StorageError),
        ] {
            assert_eq!(of_pull("x:1", no(status, words)).reason(), reason, "{words}");
        }
    }
}
