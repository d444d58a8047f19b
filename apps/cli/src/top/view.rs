//! What is seen, decided from values alone: no terminal, no clock.

use std::time::{Duration, SystemTime};

use persys_proto::control::v1::{NodeView, WorkloadView};

use super::heard::Heard;
use super::state::{Focus, Over, State};
use crate::manifest::count;
use crate::show::moment::{age, length, now_text};
use crate::show::node::{cores, gib, status as node_status};
use crate::show::table::{clean, or_dash};
use crate::show::workload::{reason, status};

/// Silence that is worth a word: more than one question had no answer.
const SILENT: Duration = Duration::from_secs(5);
/// A copy older than this is worth a word.
const OLD_COPY_MS: u64 = 3_000;
/// Alarms that are shown.
const ALARMS: usize = 5;
/// Names in one alarm.
const NAMES: usize = 4;

/// How something is, for its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mood {
    Plain,
    Good,
    Moving,
    Bad,
    Quiet,
}

/// A share of something: what is in use, what is promised, and both in words.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bar {
    /// From 0 to 1; nothing where nobody measures it.
    pub(super) used: Option<f64>,
    pub(super) reserved: f64,
    pub(super) text: String,
}

/// A node.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NodeRow {
    pub(super) id: String,
    pub(super) state: (String, Mood),
    pub(super) workloads: String,
    pub(super) cpu: Bar,
    pub(super) memory: Bar,
    pub(super) disk: Option<Bar>,
    /// How long ago it renewed its lease.
    pub(super) lease: String,
}

/// A workload.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WorkloadRow {
    pub(super) id: String,
    pub(super) kind: String,
    pub(super) state: (String, Mood),
    pub(super) node: String,
    pub(super) cpu: String,
    pub(super) memory: String,
    pub(super) age: String,
    pub(super) why: String,
}

/// A list with its title.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pane<R> {
    pub(super) title: String,
    pub(super) rows: Vec<R>,
    pub(super) chosen: Option<usize>,
    pub(super) focused: bool,
    /// Why there is nothing in it.
    pub(super) empty: String,
}

/// A page over the lists.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Page {
    pub(super) title: String,
    pub(super) lines: Vec<String>,
    pub(super) from: u16,
}

/// Everything that is seen.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct View {
    /// Which cluster, how it stands, who leads.
    pub(super) title: (String, Mood),
    pub(super) counts: String,
    pub(super) alarms: Vec<String>,
    pub(super) nodes: Pane<NodeRow>,
    pub(super) workloads: Pane<WorkloadRow>,
    pub(super) page: Option<Page>,
    pub(super) keys: String,
    pub(super) color: bool,
}

/// What is seen of a state at a moment.
pub(super) fn view(state: &State, now: SystemTime) -> View {
    let heard = state.heard.as_ref().map(|(_, heard)| heard);
    View {
        title: title(heard, now),
        counts: heard.map(counts).unwrap_or_default(),
        alarms: alarms(state, now),
        nodes: nodes(state, now),
        workloads: workloads(state, now),
        page: page(state),
        keys: keys(state),
        color: state.color,
    }
}

fn title(heard: Option<&Heard>, now: SystemTime) -> (String, Mood) {
    let clock = now_text(now);
    let Some(heard) = heard else { return (format!("nothing heard yet  {clock}"), Mood::Moving) };
    let Ok(standing) = &heard.standing else {
        return (format!("how the cluster stands is not shown to you  {clock}"), Mood::Plain);
    };
    let mode = if standing.mode.is_empty() { "of unknown mode" } else { &standing.mode };
    let leader = match (standing.leader.as_str(), standing.role.as_str()) {
        ("", "leader") => "the one asked leads".to_owned(),
        ("", _) => "nobody is known to lead".to_owned(),
        (leader, _) => format!("leader {leader}"),
    };
    let text = format!(
        "cluster {}  {mode}  {leader}  term {}  version {}  {clock}",
        standing.cluster, standing.term, standing.version
    );
    let mood = if standing.mode == "normal" { Mood::Good } else { Mood::Bad };
    (clean(&text), mood)
}

fn counts(heard: &Heard) -> String {
    let mut parts = Vec::new();
    if let Ok(nodes) = &heard.nodes {
        let ready = nodes.iter().filter(|node| node.status == "Ready").count();
        parts.push(format!("{} ({ready} ready)", count(nodes.len(), "node")));
    }
    if let Ok(workloads) = &heard.workloads {
        let mut words = Vec::new();
        for word in ["Running", "Pending", "Failed"] {
            let number = workloads.iter().filter(|one| one.status == word).count();
            words.push(format!("{number} {}", word.to_lowercase()));
        }
        parts.push(format!("{}: {}", count(workloads.len(), "workload"), words.join(", ")));
    }
    parts.join("  ")
}

/// What somebody has to know, most important first.
fn alarms(state: &State, now: SystemTime) -> Vec<String> {
    let mut alarms = Vec::new();
    alarms.extend(silence(state, now));
    let Some((_, heard)) = &state.heard else { return alarms };
    if let Ok(standing) = &heard.standing {
        if !matches!(standing.mode.as_str(), "normal" | "") {
            alarms.push(format!("the cluster is {}: {}", standing.mode, standing.reason));
        }
        if standing.brake {
            alarms.push("too many nodes are silent: nothing moves until they are back".to_owned());
        }
        if standing.copy_age_ms > OLD_COPY_MS {
            let old = length(Duration::from_millis(standing.copy_age_ms));
            alarms.push(format!("this is a copy that is {old} old"));
        }
    }
    let nodes = heard.nodes.as_deref().unwrap_or_default();
    let gone = nodes.iter().filter(|node| node.status == "NotReady");
    let gone: Vec<&str> = gone.map(|node| node.node_id.as_str()).collect();
    alarms.extend(names("not ready", "node", &gone));
    let workloads = heard.workloads.as_deref().unwrap_or_default();
    let of = |wanted: &dyn Fn(&WorkloadView) -> bool| -> Vec<&str> {
        let found = workloads.iter().filter(|one| wanted(one));
        found.map(|one| one.workload_id.as_str()).collect()
    };
    alarms.extend(names("failed", "workload", &of(&|one| one.status == "Failed")));
    alarms.extend(names("without a node", "workload", &of(&|one| one.status == "Pending")));
    alarms.extend(names("on a silent node", "workload", &of(&|one| one.uncertain)));
    alarms.truncate(ALARMS);
    alarms.iter().map(|alarm| clean(alarm)).collect()
}

fn silence(state: &State, now: SystemTime) -> Option<String> {
    let since = state.heard.as_ref().map(|(at, _)| *at).or(state.begun)?;
    let silent = now.duration_since(since).unwrap_or_default();
    let why = state.missed.as_deref()?;
    // One that was missed is asked again before anybody is alarmed.
    (silent >= SILENT || state.heard.is_none())
        .then(|| format!("no answer for {}: {why}", length(silent)))
}

fn names(what: &str, noun: &str, ids: &[&str]) -> Option<String> {
    let shown = ids.iter().take(NAMES).copied().collect::<Vec<_>>().join(", ");
    let more = match ids.len().saturating_sub(NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!ids.is_empty()).then(|| format!("{} {what}: {shown}{more}", count(ids.len(), noun)))
}

fn nodes(state: &State, now: SystemTime) -> Pane<NodeRow> {
    let shown = state.nodes();
    let chosen = state.chosen_node().map(|node| &node.node_id);
    let denied = state.heard.as_ref().and_then(|(_, heard)| heard.nodes.as_ref().err());
    Pane {
        title: pane_title("nodes", state, &state.node_filter),
        chosen: shown.iter().position(|node| Some(&node.node_id) == chosen),
        rows: shown.into_iter().map(|node| node_row(node, now)).collect(),
        focused: state.focus == Focus::Nodes,
        empty: empty(state, denied, "there are no nodes", &state.node_filter),
    }
}

fn workloads(state: &State, now: SystemTime) -> Pane<WorkloadRow> {
    let shown = state.workloads();
    let chosen = state.chosen_workload().map(|one| &one.workload_id);
    let denied = state.heard.as_ref().and_then(|(_, heard)| heard.workloads.as_ref().err());
    Pane {
        title: pane_title("workloads", state, &state.workload_filter),
        chosen: shown.iter().position(|one| Some(&one.workload_id) == chosen),
        rows: shown.into_iter().map(|one| workload_row(one, now)).collect(),
        focused: state.focus == Focus::Workloads,
        empty: empty(state, denied, "there are no workloads", &state.workload_filter),
    }
}

fn pane_title(what: &str, state: &State, filter: &str) -> String {
    let filter =
        if filter.is_empty() { String::new() } else { format!(", with {:?}", clean(filter)) };
    format!("{what} by {}{filter}", state.sort.word())
}

fn empty(state: &State, denied: Option<&String>, none: &str, filter: &str) -> String {
    match denied {
        Some(why) => clean(why),
        None if state.heard.is_none() => String::new(),
        None if !filter.is_empty() => format!("none has {:?}; esc shows all", clean(filter)),
        None => none.to_owned(),
    }
}

fn node_row(node: &NodeView, now: SystemTime) -> NodeRow {
    let mood = match node.status.as_str() {
        "Ready" => Mood::Good,
        "Draining" => Mood::Moving,
        _ => Mood::Bad,
    };
    let (cpu, free_cpu) = (node.total_cpu_cores, node.available_cpu_cores);
    let (memory, free_memory) = (node.total_memory_mb, node.available_memory_mb);
    let (disk, free_disk) = (node.total_disk_gb, node.available_disk_gb);
    NodeRow {
        id: clean(&node.node_id),
        state: (clean(&node_status(node)), mood),
        workloads: node.workloads.to_string(),
        cpu: Bar {
            used: Some(share(node.used_cpu_cores, cpu)),
            reserved: share(cpu - free_cpu, cpu),
            text: format!("{}/{}", cores(cpu - free_cpu), cores(cpu)),
        },
        memory: Bar {
            used: Some(share(number(node.used_memory_mb), number(memory))),
            reserved: share(number(memory.saturating_sub(free_memory)), number(memory)),
            text: format!("{}/{}", gib(memory.saturating_sub(free_memory)), gib(memory)),
        },
        disk: (disk > 0).then(|| Bar {
            used: None,
            reserved: share(number(disk.saturating_sub(free_disk)), number(disk)),
            text: format!("{}/{disk}Gi", disk.saturating_sub(free_disk)),
        }),
        lease: age(node.last_heartbeat.as_ref(), now),
    }
}

fn workload_row(one: &WorkloadView, now: SystemTime) -> WorkloadRow {
    let mood = match one.status.as_str() {
        _ if one.uncertain => Mood::Bad,
        "Running" | "Completed" => Mood::Good,
        "Failed" => Mood::Bad,
        "Stopped" => Mood::Quiet,
        _ => Mood::Moving,
    };
    let usage = one.usage.as_ref();
    WorkloadRow {
        id: clean(&one.workload_id),
        kind: clean(&one.r#type),
        state: (clean(&status(one)), mood),
        node: or_dash(&clean(&one.assigned_node_id)),
        cpu: usage.map_or_else(|| "-".to_owned(), |usage| format!("{:.1}%", usage.cpu_percent)),
        memory: usage.map_or_else(|| "-".to_owned(), |usage| gib(usage.memory_bytes / 1024 / 1024)),
        age: age(one.created_at.as_ref(), now),
        why: clean(&reason(one)),
    }
}

/// A part of a whole, from 0 to 1.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 }
}

/// No machine comes near the end of the smaller type.
fn number(amount: i64) -> f64 {
    f64::from(i32::try_from(amount).unwrap_or(i32::MAX))
}

fn page(state: &State) -> Option<Page> {
    match &state.over {
        Over::Nothing => None,
        Over::Help => Some(Page {
            title: "keys".to_owned(),
            lines: HELP.iter().map(|line| (*line).to_owned()).collect(),
            from: 0,
        }),
        Over::Why { of, lines, from } => Some(Page {
            title: format!("why {} is as it is", clean(of.id())),
            lines: lines.clone().unwrap_or_else(|| vec!["asking".to_owned()]),
            from: *from,
        }),
    }
}

const HELP: &[&str] = &[
    "up, down, j, k     choose",
    "page up, page down choose ten further; g and G the first and the last",
    "tab                the other list",
    "enter              why it is as it is, and what would help",
    "s                  sort by name, CPU or memory",
    "/                  show only what has a text in it; esc shows all",
    "?                  this page",
    "q, ctrl-c          end",
    "",
    "In a bar, █ is in use, ▒ is reserved beyond that, · is free; the numbers are what is",
    "reserved, of all there is. LEASE is how long ago a node renewed its lease.",
];

fn keys(state: &State) -> String {
    if state.typing {
        let text = match state.focus {
            Focus::Nodes => &state.node_filter,
            Focus::Workloads => &state.workload_filter,
        };
        return format!("/{}_   enter keeps it, esc shows all", clean(text));
    }
    match state.over {
        Over::Nothing => "q end  tab other list  enter why  s sort  / filter  ? help".to_owned(),
        Over::Help | Over::Why { .. } => "esc back  j k scroll".to_owned(),
    }
}
