//! The page itself, in the two languages scrapers speak.

use std::collections::BTreeSet;

use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use crate::families::{Described, Kind};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What a scraper gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The language it is in.
    pub content_type: &'static str,
    /// The page.
    pub text: String,
}

/// Everything a component shows.
#[derive(Debug)]
pub struct Page {
    registry: Registry,
    described: Vec<Described>,
    /// Counters by their names without `_total`.
    counters: BTreeSet<String>,
}

impl Page {
    pub(crate) fn new(registry: Registry, described: Vec<Described>) -> Self {
        let counters = described.iter().filter(|one| one.kind == Kind::Counter);
        let counters = counters.filter_map(|one| one.name.strip_suffix("_total"));
        Self { registry, counters: counters.map(str::to_owned).collect(), described }
    }

    /// What there is, for people.
    #[must_use]
    pub fn described(&self) -> &[Described] {
        &self.described
    }

    /// The page in the language a scraper prefers, by its `Accept`. People get the older one, which
    /// says `_total` where it is meant.
    #[must_use]
    pub fn answer(&self, accept: Option<&str>) -> Answer {
        let mut text = String::new();
        // Writing to a String does not fail.
        let written = text::encode(&mut text, &self.registry);
        debug_assert!(written.is_ok(), "writing to a text failed");
        if accept.is_some_and(|accept| accept.contains("application/openmetrics-text")) {
            return Answer { content_type: OPEN_METRICS, text };
        }
        Answer { content_type: CLASSIC, text: self.classic(&text) }
    }

    /// The older language describes a counter under its whole name, and has no end.
    fn classic(&self, text: &str) -> String {
        let mut classic = String::with_capacity(text.len());
        for line in text.lines().filter(|line| *line != "# EOF") {
            let about = line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE "));
            match about.and_then(|about| about.split_once(' ')) {
                Some((name, rest)) if self.counters.contains(name) => {
                    let word = line.get(..7).unwrap_or_default();
                    classic.extend([word, name, "_total ", rest, "\n"]);
                }
                Some(_) | None => classic.extend([line, "\n"]),
            }
        }
        classic
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{Families, STEPS};

    fn page() -> crate::Page {
        let mut families = Families::new("persys_thing");
        let counted = families.counters("calls_total", "Calls", ["method", "code"]);
        counted.inc(["Get", "OK"]);
        families.gauge("mode", "Mode").set(3);
        let steps = families.histograms("step_seconds", "Steps", ["input"], STEPS);
        steps.took(["tick"], Duration::from_millis(2));
        families.seen("lag_seconds", "Lag", [], || vec![([], 0.5)]);
        families.seen("used_total", "Used", ["id"], || vec![(["a\"b".to_owned()], 2.0)]);
        families.seen("absent", "Nothing", ["id"], Vec::new);
        families.page()
    }

    #[test]
    fn a_scraper_gets_the_language_it_asks_for() {
        let page = page();
        let open = page.answer(Some("application/openmetrics-text;version=1.0.0,text/plain;q=0.5"));
        assert!(open.content_type.starts_with("application/openmetrics-text"));
        assert!(open.text.ends_with("# EOF\n"));
        assert!(open.text.contains("# TYPE persys_thing_calls counter\n"));
        let classic = page.answer(None);
        assert!(classic.content_type.starts_with("text/plain"));
        assert!(!classic.text.contains("EOF"));
        for line in [
            "# HELP persys_thing_calls_total Calls.",
            "# TYPE persys_thing_calls_total counter",
            "persys_thing_calls_total{method=\"Get\",code=\"OK\"} 1",
            "persys_thing_mode 3",
            "persys_thing_step_seconds_bucket{le=\"0.005\",input=\"tick\"} 1",
            "persys_thing_step_seconds_bucket{le=\"0.001\",input=\"tick\"} 0",
            "persys_thing_lag_seconds 0.5",
            "persys_thing_used_total{id=\"a\\\"b\"} 2.0",
        ] {
            assert!(classic.text.lines().any(|found| found == line), "{line}\n{}", classic.text);
        }
        assert!(!classic.text.contains("absent"), "what is not there is not shown");
    }

    #[test]
    fn every_family_is_described_as_it_is_shown() {
        let page = page();
        let names: Vec<_> = page.described().iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names.len(), 6);
        assert!(names.contains(&"persys_thing_calls_total"));
        let calls = page.described().iter().find(|one| one.labels == ["method", "code"]).unwrap();
        assert_eq!((calls.kind.word(), calls.help), ("counter", "Calls"));
    }
}
