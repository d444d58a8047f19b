//! Ids as people type them: whole, shortened, or misspelt.

use persys_model::id::{NodeId, WorkloadId};
use persys_proto::control::v1 as wire;
use tonic::Code;

use crate::connect::Client;
use crate::problem::Problem;

/// Names that are offered for a misspelt one.
const OFFERED: usize = 3;

/// The workload that is meant.
pub(super) async fn workload(client: &Client, typed: &str) -> Result<wire::WorkloadView, Problem> {
    let id = WorkloadId::new(typed).map_err(|why| bad_name("workload", typed, &why))?;
    let what = format!("{id} cannot be looked at");
    let request = wire::GetWorkloadRequest { workload_id: id.to_string() };
    match client.answer(client.control().get_workload(request)).await {
        Ok(found) => return Ok(found.workload.unwrap_or_default()),
        Err(status) if status.code() == Code::NotFound => {}
        Err(status) => return Err(client.refused(&what, &status)),
    }
    let request = wire::ListWorkloadsRequest::default();
    let found = client.ask(&what, client.control().list_workloads(request)).await?;
    let mut all = found.workloads;
    if all.is_empty() && !found.note.is_empty() {
        return Err(Problem::new(what).why(found.note).next("persys status"));
    }
    let names: Vec<String> = all.iter().map(|view| view.workload_id.clone()).collect();
    let chosen = pick("workload", typed, &names, "persys list")?;
    let at = all.iter().position(|view| view.workload_id == chosen);
    Ok(at.map(|at| all.swap_remove(at)).unwrap_or_default())
}

/// The workload with exactly this id: what deletes must not guess.
pub(super) async fn exact_workload(
    client: &Client,
    typed: &str,
) -> Result<wire::WorkloadView, Problem> {
    let found = workload(client, typed).await?;
    if found.workload_id == typed {
        return Ok(found);
    }
    Err(not_exact("workload", typed, &found.workload_id, "persys list"))
}

/// The node with exactly this id.
pub(super) async fn exact_node(client: &Client, typed: &str) -> Result<wire::NodeView, Problem> {
    let found = node(client, typed).await?;
    if found.node_id == typed {
        return Ok(found);
    }
    Err(not_exact("node", typed, &found.node_id, "persys nodes"))
}

fn not_exact(kind: &str, typed: &str, near: &str, list: &str) -> Problem {
    Problem::new(format!("there is no {kind} {typed:?}"))
        .why(format!("did you mean {near}? this command takes whole ids only"))
        .next(list)
}

/// What was typed as `workload/service`, taken apart. No workload has a `/` in its name.
pub(super) fn with_service(typed: &str) -> (&str, String) {
    match typed.split_once('/') {
        Some((workload, service)) => (workload, service.to_owned()),
        None => (typed, String::new()),
    }
}

/// The node that is meant.
pub(super) async fn node(client: &Client, typed: &str) -> Result<wire::NodeView, Problem> {
    let id = NodeId::new(typed).map_err(|why| bad_name("node", typed, &why))?;
    let what = format!("node {id} cannot be looked at");
    let request = wire::GetNodeRequest { node_id: id.to_string() };
    match client.answer(client.control().get_node(request)).await {
        Ok(found) => return Ok(found.node.unwrap_or_default()),
        Err(status) if status.code() == Code::NotFound => {}
        Err(status) => return Err(client.refused(&what, &status)),
    }
    let request = wire::ListNodesRequest::default();
    let mut all = client.ask(&what, client.control().list_nodes(request)).await?.nodes;
    let names: Vec<String> = all.iter().map(|view| view.node_id.clone()).collect();
    let chosen = pick("node", typed, &names, "persys nodes")?;
    let at = all.iter().position(|view| view.node_id == chosen);
    Ok(at.map(|at| all.swap_remove(at)).unwrap_or_default())
}

/// A name that is none.
pub(super) fn bad_name(kind: &str, typed: &str, why: &persys_model::id::NameError) -> Problem {
    Problem::usage(format!("{typed:?} is not the name of a {kind}")).why(format!("it {why}"))
}

/// The one name that begins so; otherwise what there is instead.
fn pick(kind: &str, typed: &str, names: &[String], list: &str) -> Result<String, Problem> {
    let begin: Vec<&String> = names.iter().filter(|name| name.starts_with(typed)).collect();
    match begin.as_slice() {
        [one] => return Ok((*one).clone()),
        [] => {}
        several => {
            let shown: Vec<_> =
                several.iter().take(OFFERED * 2).map(|name| name.as_str()).collect();
            return Err(Problem::new(format!(
                "{typed:?} is the beginning of {} {kind}s",
                several.len()
            ))
            .why(format!("they are {}", shown.join(", ")))
            .next(list));
        }
    }
    let near = nearest(typed, names);
    let why = match (names.len(), near.as_slice()) {
        (0, _) => format!("there are no {kind}s"),
        (_, []) => format!("no {kind} has a name like it"),
        (_, [one]) => format!("did you mean {one}?"),
        (_, several) => format!("did you mean one of {}?", several.join(", ")),
    };
    Err(Problem::new(format!("there is no {kind} {typed:?}")).why(why).next(list))
}

/// The names that differ least, if little.
fn nearest(typed: &str, names: &[String]) -> Vec<String> {
    let far = typed.chars().count() / 2;
    let mut near: Vec<(usize, &String)> = names
        .iter()
        .map(|name| {
            let differs = match () {
                () if name.contains(typed) => 0,
                // Letters in another order are one slip.
                () if letters(typed) == letters(name) => 1,
                () => distance(typed, name),
            };
            (differs, name)
        })
        .filter(|(differs, _)| *differs <= far)
        .collect();
    near.sort();
    near.into_iter().take(OFFERED).map(|(_, name)| name.clone()).collect()
}

fn letters(name: &str) -> Vec<char> {
    let mut letters: Vec<char> = name.chars().collect();
    letters.sort_unstable();
    letters
}

/// Letters to add, drop or change to come from one to the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (nth, letter) in one.chars().enumerate() {
        let mut next = vec![nth + 1];
        for (at, pair) in row.windows(2).enumerate() {
            let [diagonal, above] = pair else { continue };
            let same = other.get(at) == Some(&letter);
            let left = next.last().copied().unwrap_or_default();
            next.push((diagonal + usize::from(!same)).min(above + 1).min(left + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        ["web", "web-2", "database", "cache"].map(str::to_owned).to_vec()
    }

    #[test]
    fn a_unique_beginning_is_enough() {
        assert_eq!(pick("workload", "data", &names(), "persys list"), Ok("database".to_owned()));
        let problem = pick("workload", "we", &names(), "persys list").unwrap_err();
        assert_eq!(problem.what, "\"we\" is the beginning of 2 workloads");
        assert_eq!(problem.why, ["they are web, web-2"]);
    }

    #[test]
    fn a_misspelt_name_gets_the_nearest() {
        let problem = pick("workload", "databse", &names(), "persys list").unwrap_err();
        assert_eq!(
            problem.text("persys", false),
            "error: there is no workload \"databse\"\n  why:  did you mean database?\n  next: persys list\n"
        );
        let problem = pick("workload", "zzzz", &names(), "persys list").unwrap_err();
        assert_eq!(problem.why, ["no workload has a name like it"]);
        let problem = pick("workload", "wbe", &names(), "persys list").unwrap_err();
        assert_eq!(problem.why, ["did you mean web?"]);
        let problem = pick("node", "n", &[], "persys nodes").unwrap_err();
        assert_eq!(problem.why, ["there are no nodes"]);
    }

    #[test]
    fn distances_are_counted_in_letters() {
        assert_eq!(distance("web", "web"), 0);
        assert_eq!(distance("web", "wep"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
