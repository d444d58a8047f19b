//! Queries, read as far as is needed to know which families and labels they name. Whether they are well
//! formed is for Prometheus to say.

use super::Families;

/// Labels that Prometheus adds, and that of a histogram.
const ALWAYS: [&str; 3] = ["job", "instance", "le"];
/// What is not of ours.
const OTHERS: [&str; 1] = ["up"];

/// What a query names.
pub(super) struct Query {
    /// Series, each with the labels it is picked by.
    series: Vec<(String, Vec<String>)>,
    /// Labels it groups or matches by.
    groups: Vec<String>,
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// Names before an operator, in what stands between braces.
fn picked_by(inside: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (nth, part) in inside.split('"').enumerate() {
        // Every second part is a value.
        if nth % 2 == 0 {
            let name = part.trim_start_matches([',', ' ']).trim_end_matches(['=', '~', '!', ' ']);
            names.extend((!name.is_empty()).then(|| name.to_owned()));
        }
    }
    names
}

impl Query {
    pub(super) fn read(expr: &str) -> Self {
        let (mut series, mut groups, mut rest) = (Vec::new(), Vec::new(), expr);
        while let Some(at) = rest.find(|letter: char| letter.is_ascii_alphabetic() || letter == '"')
        {
            rest = &rest[at..];
            if let Some(text) = rest.strip_prefix('"') {
                rest = text.split_once('"').map_or("", |(_, after)| after);
                continue;
            }
            let end = rest.find(|letter| !is_word(letter)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            rest = after;
            let ours = word.starts_with("persys_") || word.starts_with("process_");
            if ours || OTHERS.contains(&word) {
                let inside = after.strip_prefix('{').and_then(|after| after.split_once('}'));
                let labels = inside.map(|(inside, _)| picked_by(inside)).unwrap_or_default();
                rest = inside.map_or(after, |(_, after)| after);
                series.push((word.to_owned(), labels));
            } else if ["by", "ignoring", "on", "without"].contains(&word) {
                let inside =
                    after.trim_start().strip_prefix('(').and_then(|one| one.split_once(')'));
                let (inside, after) = inside.unwrap_or(("", after));
                groups.extend(inside.split(',').map(|one| one.trim().to_owned()));
                rest = after;
            }
        }
        Self { series, groups }
    }

    /// The family of a series, which may be a part of a histogram.
    fn family<'a>(all: &'a Families, series: &str) -> Option<&'a super::Family> {
        let part = ["_bucket", "_sum", "_count"].iter().find_map(|end| series.strip_suffix(end));
        let of_histogram =
            part.and_then(|name| all.get(name)).filter(|one| one.kind == "histogram");
        of_histogram.or_else(|| all.get(series).filter(|one| one.kind != "histogram"))
    }

    fn knows(&self, all: &Families, label: &str) -> bool {
        let of_series = |series: &str| {
            Self::family(all, series).is_some_and(|family| family.labels.contains(&label))
        };
        ALWAYS.contains(&label) || self.series.iter().any(|(series, _)| of_series(series))
    }

    /// What it names that is not there.
    pub(super) fn faults(&self, all: &Families) -> Vec<String> {
        let mut faults = Vec::new();
        if self.series.is_empty() {
            faults.push("it names nothing of ours".to_owned());
        }
        for (series, labels) in &self.series {
            let family = Self::family(all, series);
            if family.is_none() && !OTHERS.contains(&series.as_str()) {
                faults.push(format!("there is no {series}"));
            }
            for label in labels {
                let its = family.is_some_and(|family| family.labels.contains(&label.as_str()));
                if !its && !ALWAYS.contains(&label.as_str()) {
                    faults.push(format!("{series} has no label {label}"));
                }
            }
        }
        let unknown = self.groups.iter().filter(|label| !self.knows(all, label));
        faults.extend(unknown.map(|label| format!("nothing has a label {label}")));
        faults
    }

    /// Labels between `begin` and `end` in a text for people that no series of the query has.
    pub(super) fn unknown_words(
        &self,
        all: &Families,
        begin: &str,
        end: &str,
        text: &str,
    ) -> Vec<String> {
        let words = text.split(begin).skip(1).filter_map(|after| after.split_once(end));
        let words = words.map(|(word, _)| word.trim()).filter(|word| !word.starts_with('$'));
        words.filter(|word| !self.knows(all, word)).map(str::to_owned).collect()
    }
}

#[test]
fn a_query_that_names_what_is_not_there_is_found_out() {
    let all = super::everything();
    let faults = |expr: &str| Query::read(expr).faults(&all);
    let good = r#"histogram_quantile(0.99, sum by (le, method) (rate(
        persys_scheduler_grpc_server_request_duration_seconds_bucket{code!="OK", job="a"}[5m]))) > 1"#;
    assert_eq!(faults(good), Vec::<String>::new());
    for bad in [
        "persys_scheduler_no_such_thing > 1",
        "persys_scheduler_leader_bucket",
        "persys_scheduler_store_commit_duration_seconds",
        r#"persys_scheduler_mode{mood="normal"}"#,
        "sum by (weather) (persys_scheduler_mode)",
        "vector(1)",
        r#"sum(rate(persys_gateway_requests_total{code=~"5..", path="/"}[5m]))"#,
    ] {
        assert!(!faults(bad).is_empty(), "{bad}");
    }
    let query = Query::read("sum by (mode) (persys_scheduler_mode)");
    assert_eq!(query.unknown_words(&all, "{{", "}}", "{{mode}} {{mood}}"), ["mood"]);
}
