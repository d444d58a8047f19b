//! A cluster at rest: everybody says the same, and nothing that was answered is lost.

use std::collections::{BTreeMap, BTreeSet};

use super::{Row, Seen};
use crate::history::{Model, Wanted};

/// All that is not as it should be at rest. Empty: the cluster has converged.
#[must_use]
pub fn differences(seen: &Seen, model: &Model) -> Vec<String> {
    let mut found = Vec::new();
    for (scheduler, mode) in &seen.modes {
        if mode != "normal" {
            found.push(format!("{scheduler} is in mode {mode:?}"));
        }
    }
    for node in seen.nodes.iter().filter(|node| node.condition != "Ready") {
        found.push(format!("node {} is {}", node.id, node.condition));
    }
    let silent = seen.copies.keys().filter(|id| seen.nodes.iter().all(|node| node.id != **id));
    found.extend(silent.map(|node| format!("node {node} is not listed")));
    found.extend(seen.drifts.iter().map(|drift| format!("on record: {drift}")));
    wishes(seen, model, &mut found);
    for row in &seen.workloads {
        copies(row, seen, &mut found);
    }
    ghosts(seen, &mut found);
    found
}

/// Every workload is what the history allows.
fn wishes(seen: &Seen, model: &Model, found: &mut Vec<String>) {
    let rows: BTreeMap<_, _> = seen.workloads.iter().map(|row| (&row.id, row)).collect();
    for id in model.workloads() {
        let is = rows.get(id).map_or(Wanted::Absent, |row| wanted(row));
        let allowed = model.allowed(id);
        if !allowed.contains(&is) {
            found.push(format!("history: {id} is {is:?}, and may be {allowed:?}"));
        }
    }
    let known: BTreeSet<_> = model.workloads().collect();
    for row in seen.workloads.iter().filter(|row| !known.contains(&row.id)) {
        found.push(format!("history: {} was never asked for", row.id));
    }
}

/// What a workload is to be, by its record.
#[must_use]
pub fn wanted(row: &Row) -> Wanted {
    match &*row.desired {
        "Deleted" => Wanted::Absent,
        desired => Wanted::There { revision: row.revision.clone(), running: desired == "Running" },
    }
}

/// What runs of a workload is what is wanted: once, at its node, in its revision.
fn copies(row: &Row, seen: &Seen, found: &mut Vec<String>) {
    let Row { id, desired, status, node, why, .. } = row;
    if status != desired {
        found.push(format!("{id} is {status} and is to be {desired}: {why}"));
    }
    let mut running = 0;
    for (at, copies) in &seen.copies {
        for copy in copies.iter().filter(|copy| copy.workload == *id) {
            running += usize::from(copy.running);
            if at != node {
                found.push(format!("{id} has a copy on {at} and its place on {node}"));
            }
            if copy.running && copy.revision != row.revision {
                let (has, is) = (&copy.revision, &row.revision);
                found.push(format!("{id} runs in {has} and is to run in {is}"));
            }
        }
    }
    let right = usize::from(desired == "Running");
    if running != right {
        found.push(format!("{id} is to be {desired}, and {running} copies run"));
    }
}

/// Copies and locks of what nobody knows.
fn ghosts(seen: &Seen, found: &mut Vec<String>) {
    let known: BTreeSet<_> = seen.workloads.iter().map(|row| &row.id).collect();
    for (node, copies) in &seen.copies {
        for copy in copies.iter().filter(|copy| !known.contains(&copy.workload)) {
            found.push(format!("{} is left on {node}", copy.workload));
        }
    }
    for id in seen.held.iter().filter(|id| !known.contains(id)) {
        found.push(format!("{id} is unknown and its witness runs"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Copy, Node};
    use super::*;
    use crate::history::{Ask, Outcome};

    fn seen() -> (Seen, Model) {
        let mut model = Model::default();
        model.ended("c1", &Ask::Apply("r1".to_owned()), Outcome::Ok);
        let row = Row {
            id: "c1".to_owned(),
            desired: "Running".to_owned(),
            status: "Running".to_owned(),
            revision: "r1".to_owned(),
            node: "d1".to_owned(),
            why: String::new(),
        };
        let copy = Copy { workload: "c1".to_owned(), revision: "r1".to_owned(), running: true };
        let node =
            |id: &str| Node { id: id.to_owned(), condition: "Ready".to_owned(), ..Node::default() };
        let seen = Seen {
            modes: [("s1".to_owned(), "normal".to_owned())].into(),
            workloads: vec![row],
            nodes: vec![node("d1"), node("d2")],
            drifts: Vec::new(),
            copies: [("d1".to_owned(), vec![copy]), ("d2".to_owned(), Vec::new())].into(),
            held: vec!["c1".to_owned()],
        };
        (seen, model)
    }

    #[test]
    fn a_cluster_at_rest_has_no_differences() {
        let (seen, model) = seen();
        assert_eq!(differences(&seen, &model), Vec::<String>::new());
    }

    #[test]
    fn everything_that_is_wrong_is_found() {
        let is_found = |change: &dyn Fn(&mut Seen), word: &str| {
            let (mut seen, model) = seen();
            change(&mut seen);
            let found = differences(&seen, &model);
            assert!(found.iter().any(|line| line.contains(word)), "{word}: {found:?}");
        };
        is_found(&|seen| seen.workloads.clear(), "history: c1 is Absent");
        is_found(&|seen| seen.workloads.clear(), "left on d1");
        is_found(&|seen| seen.workloads.clear(), "its witness runs");
        is_found(&|seen| seen.workloads[0].revision = "r0".to_owned(), "history: c1");
        is_found(&|seen| seen.workloads[0].id = "c2".to_owned(), "c2 was never asked for");
        is_found(&|seen| seen.workloads[0].status = "Failed".to_owned(), "c1 is Failed");
        is_found(&|seen| seen.nodes[1].condition = "Lost".to_owned(), "node d2 is Lost");
        is_found(&|seen| drop(seen.nodes.pop()), "node d2 is not listed");
        is_found(&|seen| drop(seen.modes.insert("s2".into(), String::new())), "s2 is in mode");
        is_found(&|seen| seen.drifts.push("missing".to_owned()), "on record: missing");
        is_found(
            &|seen| {
                let copy = seen.copies["d1"][0].clone();
                seen.copies.get_mut("d2").unwrap().push(copy);
            },
            "2 copies run",
        );
        is_found(&|seen| seen.copies.get_mut("d1").unwrap().clear(), "0 copies run");
    }
}
