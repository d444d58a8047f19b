//! What the witnesses wrote down: exclusive work never ran twice, no data was exchanged.

use std::collections::BTreeMap;

use crate::wish::Kind;
use crate::witness::{Line, What};

/// What the witnesses prove.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verdict {
    /// Promises that were broken.
    pub violations: Vec<String>,
    /// How often work that may run twice for a moment did.
    pub overlaps: usize,
    /// How often anything was started.
    pub starts: usize,
}

/// Reads all they wrote. What was asked to go (`deleted`: when) may come back with data of its own, by a
/// request that was carried out late.
#[must_use]
pub fn judge(lines: &[Line], deleted: &BTreeMap<String, f64>) -> Verdict {
    let mut verdict = Verdict::default();
    let mut tokens: BTreeMap<&str, &str> = BTreeMap::new();
    for (nth, line) in lines.iter().enumerate() {
        let exclusive = Kind::of(&line.workload).is_none_or(Kind::is_exclusive);
        match &line.what {
            What::Start => verdict.starts += 1,
            What::Stop => {}
            What::Duplicate if exclusive => verdict.violations.push(duplicate(line, lines, nth)),
            What::Duplicate => verdict.overlaps += 1,
            What::Token { volume, token } => {
                let first = *tokens.entry(volume).or_insert(token);
                let was_deleted = deleted.get(&line.workload).is_some_and(|at| *at < line.at);
                if first != token && !was_deleted {
                    verdict.violations.push(format!(
                        "data: {volume} had the token {first} and has {token} in {}",
                        line.container
                    ));
                }
            }
        }
    }
    verdict
}

fn duplicate(line: &Line, lines: &[Line], nth: usize) -> String {
    let after = lines.get(nth + 1..).unwrap_or_default();
    let end = after.iter().find(|next| {
        next.container == line.container && matches!(next.what, What::Start | What::Stop)
    });
    let length =
        end.map_or_else(|| "to its end".to_owned(), |end| format!("{:.1} s", end.at - line.at));
    let before = lines.get(..nth).unwrap_or_default().iter().rev();
    let other = before
        .filter(|earlier| earlier.workload == line.workload && earlier.what == What::Start)
        .map(|earlier| {
            format!("{} ({}) since {:.2}", earlier.container, earlier.revision, earlier.at)
        })
        .next()
        .unwrap_or_default();
    format!(
        "exclusive: {} ran twice at {:.2} for {length}: {} ({}) beside {other}",
        line.workload, line.at, line.container, line.revision
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(text: &str) -> Verdict {
        judge(&text.lines().filter_map(Line::parse).collect::<Vec<_>>(), &BTreeMap::new())
    }

    #[test]
    fn a_second_copy_of_exclusive_work_is_a_violation_and_of_other_work_is_not() {
        let verdict = judged("START c1 r1 a 1.0\nDUP c1 r1 b 2.0\nSTOP c1 r1 a 3.0\n");
        assert_eq!((verdict.violations.len(), verdict.overlaps, verdict.starts), (0, 1, 1));
        let verdict =
            judged("START x1 r1 a 1.0\nDUP x1 r1 b 2.0\nSTOP x1 r1 a 3.0\nSTART x1 r1 b 3.5");
        assert_eq!((verdict.violations.len(), verdict.starts), (1, 2));
        assert!(verdict.violations.iter().all(|line| line.contains("for 1.5 s")), "{verdict:?}");
    }

    #[test]
    fn another_token_is_another_volume() {
        let good =
            "TOKEN v1 r1 a 1.0 vol-v1 t1\nTOKEN v1 r2 b 2.0 vol-v1 t1\nTOKEN v2 r1 c 2.0 vol-v2 t2";
        assert!(judged(good).violations.is_empty());
        let bad = "TOKEN v1 r1 a 1.0 vol-v1 t1\nTOKEN v1 r2 b 2.0 vol-v1 t2";
        assert_eq!(judged(bad).violations.len(), 1);
    }
}
