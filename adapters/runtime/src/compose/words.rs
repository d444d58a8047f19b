//! What the Compose program complains about. Its words are read here and nowhere else.

use persys_compose::Document;
use persys_model::failure::shorten;

use crate::error::Error;

/// Most bytes of its words that are passed on.
const MOST_BYTES: usize = 600;

/// What went wrong, and with which service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Complaint {
    pub(super) service: Option<String>,
    pub(super) words: String,
}

/// An error of one service.
pub(super) fn in_service(service: Option<&str>, cause: Error) -> Error {
    match service {
        Some(service) => Error::InService { service: service.to_owned(), cause: Box::new(cause) },
        None => cause,
    }
}

/// Finds the service and the daemon's own words in what the program printed:
///
/// - `ERROR: for web  Cannot start service web: driver failed …` (1.29)
/// - `Error response from daemon: driver failed …` (2)
/// - `dependency failed to start: container persys-shop-db-1 is unhealthy` (2)
pub(super) fn read(text: &str, document: &Document) -> Complaint {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let summary = |line: &&&str| !line.starts_with("Encountered errors");
    let said = |mark: &str| {
        let marked = |line: &&&str| line.to_lowercase().starts_with(mark);
        // 1.29 says everything twice, first of the container and then of the service.
        lines.iter().rev().filter(summary).find(marked)
    };
    let line = said("error").or_else(|| lines.iter().rev().find(summary));
    let line = line.copied().unwrap_or("no reason given");
    let mut words = line;
    for start in ["ERROR: for ", "ERROR: ", "Error response from daemon: "] {
        words = words.strip_prefix(start).unwrap_or(words);
    }
    let mut service = None;
    if let Some((name, rest)) = words.split_once("  ")
        && document.service(name).is_some()
    {
        service = Some(name.to_owned());
        words = rest;
    }
    if let Some((name, rest)) =
        words.strip_prefix("Cannot start service ").and_then(|rest| rest.split_once(": "))
    {
        service = Some(name.to_owned());
        words = rest;
    }
    let named = || {
        let mut names = document.services().map(|service| service.name.as_str());
        names.find(|name| mentions(words, name)).map(ToOwned::to_owned)
    };
    Complaint { service: service.or_else(named), words: shorten(words, MOST_BYTES).into_owned() }
}

/// Whether a container of the service is named, as `-web-1` or `_web_1`, or it itself, as `"web"`.
fn mentions(words: &str, service: &str) -> bool {
    [format!("-{service}-"), format!("_{service}_"), format!("\"{service}\"")]
        .iter()
        .any(|form| words.contains(form.as_str()))
}

/// The last thing it said.
pub(super) fn last(text: &str) -> String {
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty());
    shorten(line.unwrap_or("no reason given"), MOST_BYTES).into_owned()
}

/// Whether it could not speak to Docker: then nobody knows what was done.
pub(super) fn is_unreachable(text: &str) -> bool {
    [
        "Couldn't connect to Docker daemon",
        "Cannot connect to the Docker daemon",
        "Connection aborted",
        "Connection refused",
        "ConnectionRefusedError",
        "error during connect",
        "Read timed out",
        "unexpected EOF",
    ]
    .iter()
    .any(|words| text.contains(words))
        // A registry or another machine may refuse too; that is no word about the daemon.
        && !text.contains("dial tcp")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn document() -> Document {
        let text = "services: {web: {image: a}, db: {image: b}}";
        persys_compose::read(text, &BTreeMap::new()).document.unwrap()
    }

    #[test]
    fn the_service_and_dockers_own_words_are_found() {
        let rows = [
            (
                "Creating x_web_1 ... error\n\nERROR: for x_web_1  Cannot start service web: Bind for \
                 0.0.0.0:80 failed: port is already allocated\n\nERROR: for web  Cannot start service \
                 web: Bind for 0.0.0.0:80 failed: port is already allocated\nEncountered errors while \
                 bringing up the project.",
                Some("web"),
                "Bind for 0.0.0.0:80 failed: port is already allocated",
            ),
            (
                " Container x-web-1  Starting\nError response from daemon: no space left on device",
                None,
                "no space left on device",
            ),
            (
                "dependency failed to start: error: container x-db-1 is unhealthy",
                Some("db"),
                "dependency failed to start: error: container x-db-1 is unhealthy",
            ),
            (
                "ERROR: for web  Container \"0af\" is unhealthy.",
                Some("web"),
                "Container \"0af\" is unhealthy.",
            ),
            ("", None, "no reason given"),
        ];
        for (text, service, words) in rows {
            let found = read(text, &document());
            assert_eq!((found.service.as_deref(), found.words.as_str()), (service, words));
        }
    }

    #[test]
    fn an_outage_is_told_from_a_refusal() {
        let away =
            "ERROR: Couldn't connect to Docker daemon at http+docker://localhost - is it running?";
        assert!(is_unreachable(away));
        assert!(!is_unreachable("ERROR: for web  port is already allocated"));
        assert!(!is_unreachable("Get https://r/v2/: dial tcp 127.0.0.1:5000: Connection refused"));
    }
}
