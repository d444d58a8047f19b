//! An explanation, for a person.

use persys_proto::compute::v1::WhyResponse;

use super::event;
use super::table::clean;
use crate::manifest::count;
use crate::problem::as_called;

/// Verdicts that are shown unless everything is wanted.
const VERDICTS: usize = 10;

/// The explanation as text.
pub(crate) fn text(why: &WhyResponse, program: &str, wide: bool) -> String {
    let mut lines = vec![why.summary.clone()];
    lines.extend(why.facts.iter().map(|fact| format!("  {fact}")));
    let most = if wide { usize::MAX } else { VERDICTS };
    // Where every node speaks for itself, the counts would say the same again.
    let counted = why.verdicts.is_empty() || why.verdicts.len() > most;
    section(
        &mut lines,
        "refused by:",
        why.refusals.iter().filter(|_| counted).map(|refusal| {
            let nodes = usize::try_from(refusal.nodes).unwrap_or(usize::MAX);
            format!("{}: {}", count(nodes, "node"), refusal.reason)
        }),
    );
    section(
        &mut lines,
        "nodes:",
        why.verdicts.iter().take(most).map(|verdict| {
            let said = if verdict.fits { "fits".to_owned() } else { verdict.faults.join("; ") };
            format!("{}: {said}", verdict.node_id)
        }),
    );
    if why.verdicts.len() > most {
        lines.push(format!("  and {} more; -o wide shows them", why.verdicts.len() - most));
    }
    section(&mut lines, "left of its last failure:", why.evidence.iter().cloned());
    section(&mut lines, "what happened:", why.events.iter().map(event::line));
    section(&mut lines, "what would help:", why.suggestions.iter().cloned());
    section(&mut lines, "next:", why.next.iter().map(|line| as_called(program, line)));
    lines.iter().map(|line| clean(line) + "\n").collect()
}

fn section(lines: &mut Vec<String>, title: &str, inner: impl Iterator<Item = String>) {
    let inner: Vec<String> =
        inner.flat_map(|text| text.lines().map(|l| format!("  {l}")).collect::<Vec<_>>()).collect();
    if !inner.is_empty() {
        lines.push(title.to_owned());
        lines.extend(inner);
    }
}

#[cfg(test)]
mod tests {
    use persys_proto::compute::v1::{Refusal, Verdict};

    use super::*;

    #[test]
    fn an_explanation_reads_from_answer_to_next_command() {
        let why = WhyResponse {
            summary: "big waits: no node fits".to_owned(),
            facts: vec!["it asks for 100 cores".to_owned()],
            refusals: vec![Refusal { reason: "not enough CPU".to_owned(), nodes: 1 }],
            verdicts: vec![Verdict {
                node_id: "n1".to_owned(),
                fits: false,
                faults: vec!["has 2 cores".to_owned()],
            }],
            suggestions: vec!["ask for 2 cores".to_owned()],
            next: vec!["persys get big".to_owned()],
            ..WhyResponse::default()
        };
        assert_eq!(
            text(&why, "persysctl", false),
            "big waits: no node fits\n  it asks for 100 cores\nnodes:\n  n1: has 2 cores\nwhat would help:\n  ask for 2 cores\nnext:\n  persysctl get big\n"
        );
    }
}
