//! What is well, what is doubtful and what stands in the way, decided from values alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use persys_identity::authority::Stage;
use persys_proto::compute::v1::StandingResponse;
use semver::Version;

use super::facts::{Copy, Facts};
use crate::manifest::count;
use crate::show::moment::length;

/// Names in one sentence.
const NAMES: usize = 5;
/// States of a workload that do not last.
const PASSING: [&str; 7] =
    ["Pending", "Starting", "NotResponding", "Restarting", "Stopping", "Backoff", "Deleting"];

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Ok,
    Warn,
    Blocking,
}

impl Verdict {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Blocking => "blocking",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) subject: &'static str,
    pub(super) verdict: Verdict,
    pub(super) says: String,
    /// What to type.
    pub(super) next: Vec<String>,
}

fn ok(subject: &'static str, says: impl Into<String>) -> Finding {
    Finding { subject, verdict: Verdict::Ok, says: says.into(), next: Vec::new() }
}

fn warn(subject: &'static str, says: impl Into<String>) -> Finding {
    Finding { verdict: Verdict::Warn, ..ok(subject, says) }
}

fn blocking(subject: &'static str, says: impl Into<String>) -> Finding {
    Finding { verdict: Verdict::Blocking, ..ok(subject, says) }
}

impl Finding {
    fn next(mut self, command: impl Into<String>) -> Self {
        self.next.push(command.into());
        self
    }
}

/// Everything that was looked at, in the order in which it is mended.
pub(super) fn judge(facts: &Facts, now: SystemTime) -> Vec<Finding> {
    let standings: Vec<&StandingResponse> =
        facts.schedulers.iter().filter_map(|(_, told)| told.as_ref().ok()).collect();
    let mut findings = vec![schedulers(facts)];
    if standings.is_empty() {
        return findings;
    }
    findings.push(leader(&standings));
    findings.push(mode(&standings));
    findings.push(agents(facts));
    findings.push(nodes(facts));
    findings.push(workloads(facts));
    findings.push(drift(facts));
    findings.push(secrets(facts));
    findings.push(rotation(facts));
    findings.push(etcd(facts));
    let cluster = standings.first().map(|standing| standing.cluster.as_str()).unwrap_or_default();
    findings.extend(copy(facts, cluster, now));
    findings
}

/// How a version stands to the one that is to be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Same,
    /// The release before, or a fix of the same.
    OneUp,
    TooFar,
    Down,
    Unknown,
}

/// Version of the program behind what an agent tells: `0.1.0`, or `name(0.1.0)` where an operator named
/// the installation.
fn program_of(told: &str) -> &str {
    let named = told.strip_suffix(')').and_then(|told| told.rsplit_once('('));
    named.map_or(told, |(_, program)| program)
}

fn step(from: &str, to: &Version) -> Step {
    let Ok(from) = Version::parse(program_of(from)) else { return Step::Unknown };
    if from == *to {
        return Step::Same;
    }
    if from > *to {
        return Step::Down;
    }
    let near = from.major == to.major && to.minor.saturating_sub(from.minor) <= 1;
    if near { Step::OneUp } else { Step::TooFar }
}

fn names(ids: &[String]) -> String {
    let shown = ids.iter().take(NAMES).cloned().collect::<Vec<_>>().join(", ");
    match ids.len().saturating_sub(NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The release to go through first.
fn before(to: &Version) -> String {
    match to.minor.checked_sub(1) {
        Some(minor) => format!("{}.{minor}", to.major),
        None => format!("the last release before {}.0", to.major),
    }
}

fn schedulers(facts: &Facts) -> Finding {
    let to = &facts.own;
    let silent: Vec<String> = facts
        .schedulers
        .iter()
        .filter_map(|(at, told)| Some(format!("{at} ({})", told.as_ref().err()?)))
        .collect();
    if silent.len() == facts.schedulers.len() {
        return blocking("schedulers", format!("none answers: {}", names(&silent)))
            .next("persys config");
    }
    let mut by_version: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (at, told) in &facts.schedulers {
        if let Ok(standing) = told {
            by_version.entry(&standing.version).or_default().push(at.clone());
        }
    }
    let all: Vec<String> =
        by_version.iter().map(|(version, at)| format!("{} on {version}", at.join(", "))).collect();
    let said = all.join("; ");
    let steps: Vec<Step> = by_version.keys().map(|version| step(version, to)).collect();
    if steps.contains(&Step::Down) {
        return blocking(
            "schedulers",
            format!("{said}: newer than {to}, and there is no way back"),
        )
        .next("persys version");
    }
    if steps.contains(&Step::TooFar) {
        return blocking("schedulers", format!("{said}: too far from {to} for one step"))
            .next(format!("install {} first", before(to)));
    }
    if steps.contains(&Step::Unknown) {
        return warn("schedulers", format!("{said}: not all say a version that is known"));
    }
    if !silent.is_empty() {
        return warn("schedulers", format!("no answer from {}", names(&silent)))
            .next("persys status");
    }
    if by_version.len() > 1 {
        return warn("schedulers", format!("an upgrade is under way: {said}"));
    }
    ok("schedulers", said)
}

fn leader(standings: &[&StandingResponse]) -> Finding {
    let leads = standings.iter().find(|standing| standing.role == "leader");
    let named = standings.iter().map(|standing| &standing.leader).find(|at| !at.is_empty());
    match (leads, named) {
        (_, Some(at)) => ok("leader", at.clone()),
        (Some(_), None) => ok("leader", "the one that was asked"),
        (None, None) => blocking("leader", "nobody leads").next("persys status"),
    }
}

fn mode(standings: &[&StandingResponse]) -> Finding {
    let odd = standings.iter().find(|standing| standing.mode != "normal");
    if let Some(odd) = odd {
        let says = format!("{}: {}", odd.mode, odd.reason);
        return blocking("mode", says).next("persys status");
    }
    if standings.iter().any(|standing| standing.brake) {
        return blocking("mode", "so many nodes are silent that nothing moves")
            .next("persys nodes")
            .next("persys release-brake");
    }
    ok("mode", "normal")
}

fn agents(facts: &Facts) -> Finding {
    let to = &facts.own;
    let nodes = match &facts.nodes {
        Ok(nodes) => nodes,
        Err(why) => return warn("agents", format!("nodes are not told: {why}")),
    };
    let of = |wanted: Step| -> Vec<String> {
        let fits = nodes.iter().filter(|node| step(&node.agent_version, to) == wanted);
        fits.map(|node| match node.agent_version.as_str() {
            "" => node.node_id.clone(),
            version => format!("{} on {version}", node.node_id),
        })
        .collect()
    };
    let (far, newer, unknown) = (of(Step::TooFar), of(Step::Down), of(Step::Unknown));
    if !far.is_empty() {
        return blocking("agents", format!("too old for a scheduler of {to}: {}", names(&far)))
            .next(format!("install {} on these nodes first", before(to)));
    }
    if !newer.is_empty() {
        return blocking("agents", format!("newer than {to}: {}", names(&newer)))
            .next("install the newest release on the schedulers first");
    }
    if !unknown.is_empty() {
        return warn("agents", format!("nobody knows the version of {}", names(&unknown)))
            .next("persys nodes");
    }
    let old = of(Step::OneUp).len();
    match (nodes.len(), old) {
        (0, _) => ok("agents", "there are none"),
        (_, 0) => ok("agents", format!("all on {to}")),
        (all, old) => ok("agents", format!("{old} of {all} will be one step behind, which works")),
    }
}

fn nodes(facts: &Facts) -> Finding {
    let Ok(nodes) = &facts.nodes else { return warn("nodes", "are not told") };
    let of = |wanted: &str| -> Vec<String> {
        nodes.iter().filter(|one| one.status == wanted).map(|one| one.node_id.clone()).collect()
    };
    let (silent, draining) = (of("NotReady"), of("Draining"));
    if !silent.is_empty() {
        return warn("nodes", format!("{} not ready: {}", silent.len(), names(&silent)))
            .next(format!("persys why node/{}", silent.first().map_or("", String::as_str)));
    }
    if !draining.is_empty() {
        return warn("nodes", format!("being emptied: {}", names(&draining)))
            .next(format!("persys node undrain {}", draining.first().map_or("", String::as_str)));
    }
    ok("nodes", format!("{}, all ready", count(nodes.len(), "node")))
}

fn workloads(facts: &Facts) -> Finding {
    let workloads = match &facts.workloads {
        Ok(workloads) => workloads,
        Err(why) => return warn("workloads", format!("are not told: {why}")),
    };
    let passing: Vec<String> = workloads
        .iter()
        .filter(|one| PASSING.contains(&one.status.as_str()))
        .map(|one| format!("{} {}", one.workload_id, one.status.to_lowercase()))
        .collect();
    if passing.is_empty() {
        return ok("workloads", format!("{}, none is between two states", workloads.len()));
    }
    warn("workloads", format!("{} not at rest: {}", passing.len(), names(&passing)))
        .next("persys list --watch")
}

fn drift(facts: &Facts) -> Finding {
    match &facts.drifts {
        Err(why) => warn("drift", format!("is not told: {why}")),
        Ok(drifts) => match drifts.iter().filter(|drift| !drift.ignored).count() {
            0 => ok("drift", "nodes have what is recorded"),
            open => warn("drift", format!("{} not settled", count(open, "difference")))
                .next("persys drift list"),
        },
    }
}

/// Whether a change of the key of secrets was left half done.
fn secrets(facts: &Facts) -> Finding {
    let secrets = match &facts.secrets {
        Ok(secrets) => secrets,
        Err(why) => return warn("secrets", format!("are not told: {why}")),
    };
    let closed: Vec<String> =
        secrets.iter().filter(|one| !one.readable).map(|one| one.name.clone()).collect();
    if !closed.is_empty() {
        return blocking("secrets", format!("cannot be opened: {}", names(&closed)))
            .next("persys secret list");
    }
    let keys: BTreeSet<&str> = secrets.iter().map(|one| one.key.as_str()).collect();
    match keys.len() {
        0 => ok("secrets", "there are none"),
        1 => ok("secrets", format!("{}, sealed with one key", secrets.len())),
        many => warn("secrets", format!("sealed with {many} keys: a change was left half done"))
            .next("persys secret rotate-key"),
    }
}

fn rotation(facts: &Facts) -> Finding {
    match &facts.stage {
        None => ok("authority", "not looked at; name its folder with --ca-dir where it is"),
        Some(Ok(Stage::Settled)) => ok("authority", "one root; none is being replaced"),
        Some(Ok(Stage::Prepared | Stage::Switched)) => {
            blocking("authority", "its root is being replaced; finish that first")
                .next("persys ca rotate")
        }
        Some(Err(why)) => warn("authority", why.clone()),
    }
}

fn etcd(facts: &Facts) -> Finding {
    match &facts.alarms {
        None => ok("etcd", "not looked at; name it with --etcd where the store is there"),
        Some(Ok(alarms)) if alarms.is_empty() => ok("etcd", "answers, and no alarm is raised"),
        Some(Ok(alarms)) => blocking("etcd", format!("an alarm is raised: {}", names(alarms)))
            .next("etcdctl alarm list"),
        Some(Err(why)) => blocking("etcd", why.clone()),
    }
}

fn copy(facts: &Facts, cluster: &str, now: SystemTime) -> Vec<Finding> {
    let copy = match &facts.copy {
        None => {
            let file = "before-upgrade.snapshot";
            return vec![
                warn("snapshot", "none was named: there would be no way back")
                    .next(format!("persys snapshot save {file}"))
                    .next(format!("persys upgrade-check --snapshot {file}")),
            ];
        }
        Some(Err(why)) => {
            return vec![blocking("snapshot", why.clone()).next("persys snapshot save FILE")];
        }
        Some(Ok(copy)) => copy,
    };
    vec![whole(copy, facts, cluster, now), format(copy)]
}

fn whole(copy: &Copy, facts: &Facts, cluster: &str, now: SystemTime) -> Finding {
    let file = &copy.file;
    // An identity is the name of the cluster and what tells it from others of the name.
    let ours = copy.cluster.as_deref().is_some_and(|of| {
        of.strip_prefix(cluster).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    });
    if !ours {
        let of = copy.cluster.as_deref().unwrap_or("nobody knows which");
        return blocking("snapshot", format!("{file} is of another cluster: {of}"))
            .next("persys snapshot save FILE");
    }
    let old = now.duration_since(copy.taken).unwrap_or_default();
    if old > facts.fresh {
        return warn("snapshot", format!("{file} is {} old", length(old)))
            .next("persys snapshot save FILE");
    }
    ok("snapshot", format!("{file}, {} old, {} records", length(old), copy.records))
}

/// Whether this release understands what the one before has stored.
fn format(copy: &Copy) -> Finding {
    if copy.unreadable.is_empty() {
        return ok("store", format!("all {} records are understood", copy.records));
    }
    let says = format!("{} records are not understood", copy.unreadable.len());
    blocking("store", format!("{says}: {}", names(&copy.unreadable)))
        .next(format!("persys snapshot inspect {}", copy.file))
}
