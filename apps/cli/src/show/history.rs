//! Revisions, their differences, and plans, for a person.

use std::time::SystemTime;

use persys_proto::compute::v1::{CheckResponse, Difference, RevisionView};

use super::moment::age;
use super::table::{clean, or_dash, short, table};

/// Lines of a long text that are shown around a difference.
const AROUND: usize = 2;
/// Lines of the longest texts that are compared line by line.
const MOST_LINES: usize = 2_000;

/// The revisions, newest first.
pub(crate) fn list(revisions: &[RevisionView], (wide, now): (bool, SystemTime)) -> String {
    let mut header = vec!["NUMBER", "STATE", "AGE", "BY", "REVISION"];
    if wide {
        header.push("CONTENT");
    }
    header.push("NOTE");
    let row = |one: &RevisionView| {
        let age = one.since.as_ref().map(|at| age(Some(at), now));
        let mut row = vec![
            one.number.to_string(),
            state(one),
            age.unwrap_or_else(|| "-".to_owned()),
            or_dash(&one.by),
            or_dash(&if wide { one.revision_id.clone() } else { short(&one.revision_id, 20) }),
        ];
        if wide {
            row.push(one.content.clone());
        }
        let back = match one.rolled_back_to {
            0 => String::new(),
            number => format!("content of revision {number}"),
        };
        row.push(if one.failed.is_empty() { back } else { short(&one.failed, 60) });
        row
    };
    table(&header, revisions.iter().map(row).collect())
}

fn state(one: &RevisionView) -> String {
    match (one.running, one.present, one.failed.is_empty()) {
        (true, true, _) => "present",
        (true, false, _) => "running",
        (false, true, true) => "updating",
        (false, true, false) => "update failed",
        (false, false, true) => "-",
        (false, false, false) => "failed",
    }
    .to_owned()
}

/// Differences, a line each; long texts line by line.
pub(crate) fn differences(differences: &[Difference], indent: &str) -> String {
    let mut text = String::new();
    for Difference { path, before, after } in differences {
        let (before, after) = (before.as_str(), after.as_str());
        if before.contains('\n') || after.contains('\n') {
            text.extend([format!("{indent}{path}:\n")]);
            text.extend(lines(before, after).iter().map(|line| format!("{indent}  {line}\n")));
            continue;
        }
        let (old, new) = (clean(before), clean(after));
        text.extend([match (before, after) {
            ("", _) => format!("{indent}+ {path}: {new}\n"),
            (_, "") => format!("{indent}- {path}: {old}\n"),
            (_, _) => format!("{indent}~ {path}: {old} -> {new}\n"),
        }]);
    }
    text
}

/// The lines that differ, with a few around them.
fn lines(before: &str, after: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    if old.len() > MOST_LINES || new.len() > MOST_LINES {
        return vec![format!("{} lines became {}", old.len(), new.len())];
    }
    let mut told: Vec<(char, &str)> = Vec::new();
    let (mut at, mut to) = (0, 0);
    let common = longest_common(&old, &new);
    for (here, there) in common.into_iter().chain([(old.len(), new.len())]) {
        told.extend(old.get(at..here).unwrap_or_default().iter().map(|line| ('-', *line)));
        told.extend(new.get(to..there).unwrap_or_default().iter().map(|line| ('+', *line)));
        told.extend(old.get(here).map(|line| (' ', *line)));
        (at, to) = (here.saturating_add(1), there.saturating_add(1));
    }
    let near = |at: usize| {
        let from = at.saturating_sub(AROUND);
        let around = told.get(from..told.len().min(at.saturating_add(AROUND + 1)));
        around.is_some_and(|lines| lines.iter().any(|(mark, _)| *mark != ' '))
    };
    let (mut shown, mut skipped) = (Vec::new(), false);
    for (at, (mark, line)) in told.iter().enumerate() {
        if near(at) {
            shown.push(format!("{mark} {}", clean(line)).trim_end().to_owned());
            skipped = false;
        } else if !std::mem::replace(&mut skipped, true) {
            shown.push("...".to_owned());
        }
    }
    shown
}

/// Places of the lines that both have, in order.
fn longest_common(old: &[&str], new: &[&str]) -> Vec<(usize, usize)> {
    let width = new.len() + 1;
    let mut lengths = vec![0_u32; (old.len() + 1) * width];
    let at = |row: usize, column: usize| row * width + column;
    let of = |lengths: &[u32], index: usize| lengths.get(index).copied().unwrap_or_default();
    for (row, line) in old.iter().enumerate().rev() {
        for (column, other) in new.iter().enumerate().rev() {
            let length = if line == other {
                of(&lengths, at(row + 1, column + 1)) + 1
            } else {
                of(&lengths, at(row + 1, column)).max(of(&lengths, at(row, column + 1)))
            };
            if let Some(place) = lengths.get_mut(at(row, column)) {
                *place = length;
            }
        }
    }
    let (mut row, mut column, mut common) = (0, 0, Vec::new());
    while row < old.len() && column < new.len() {
        if old.get(row) == new.get(column) {
            common.push((row, column));
            (row, column) = (row + 1, column + 1);
        } else if of(&lengths, at(row + 1, column)) >= of(&lengths, at(row, column + 1)) {
            row += 1;
        } else {
            column += 1;
        }
    }
    common
}

/// A plan for one workload.
pub(crate) fn plan(id: &str, answer: &CheckResponse) -> String {
    if !answer.accepted {
        let mut text = format!("{id}: {}\n", clean(&answer.summary));
        for fault in &answer.faults {
            text.extend([format!("  {}: {}\n", fault.path, clean(&fault.problem))]);
        }
        return text;
    }
    let mut text = format!("{}\n", clean(&answer.summary));
    let number = answer.revision_number;
    match answer.action.as_str() {
        "create" | "update" => text.extend([format!("  revision: {number}\n")]),
        _ => {}
    }
    if !answer.changes.is_empty() {
        text.push_str("  changes:\n");
        text.push_str(&differences(&answer.changes, "    "));
    }
    let restart = if answer.restart.is_empty() { "nothing" } else { &answer.restart };
    text.extend([format!("  restarts: {}\n", clean(restart))]);
    let data =
        if answer.data.is_empty() { "none is touched".to_owned() } else { answer.data.join("; ") };
    text.extend([format!("  data: {}\n", clean(&data))]);
    if answer.index > 0 {
        text.extend([format!("  index: {}\n", answer.index)]);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prost_types::Timestamp;

    use super::*;

    fn differ(path: &str, before: &str, after: &str) -> Difference {
        Difference { path: path.to_owned(), before: before.to_owned(), after: after.to_owned() }
    }

    #[test]
    fn a_history_tells_which_revision_runs_and_which_failed() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(160);
        let one = |number, running, failed: &str| RevisionView {
            number,
            revision_id: format!("r{number}"),
            since: Some(Timestamp { seconds: 100, nanos: 0 }),
            by: "user ada".to_owned(),
            present: number == 2,
            running,
            failed: failed.to_owned(),
            ..RevisionView::default()
        };
        let shown = list(&[one(2, false, "no image app:2"), one(1, true, "")], (false, now));
        assert_eq!(
            shown,
            "NUMBER  STATE          AGE  BY        REVISION  NOTE\n\
             2       update failed  60s  user ada  r2        no image app:2\n\
             1       running        60s  user ada  r1\n"
        );
    }

    #[test]
    fn differences_tell_added_removed_and_changed() {
        let all = [
            differ("a.image", "app:1", "app:2"),
            differ("a.env.X", "", "1"),
            differ("a.env.Y", "2", ""),
            differ("file", "a\nb\nc\nd\ne\nf\n", "a\nb\nc\nd\nE\nf\n"),
        ];
        assert_eq!(
            differences(&all, "  "),
            "  ~ a.image: app:1 -> app:2\n  + a.env.X: 1\n  - a.env.Y: 2\n  file:\n    ...\n      c\n      d\n    - e\n    + E\n      f\n"
        );
    }

    #[test]
    fn a_plan_says_what_changes_restarts_and_becomes_of_data() {
        let answer = CheckResponse {
            accepted: true,
            summary: "web would get a new version and run on n1".to_owned(),
            action: "update".to_owned(),
            changes: vec![differ("container.image", "app:1", "app:2")],
            restart: "its container is stopped and made anew".to_owned(),
            data: vec!["volume local:db stays as it is".to_owned()],
            revision_number: 3,
            index: 12,
            ..CheckResponse::default()
        };
        assert_eq!(
            plan("web", &answer),
            "web would get a new version and run on n1\n  revision: 3\n  changes:\n    ~ container.image: app:1 -> app:2\n  restarts: its container is stopped and made anew\n  data: volume local:db stays as it is\n  index: 12\n"
        );
    }
}
