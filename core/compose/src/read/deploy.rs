//! How much a service may use, what is set aside for it, and how often it runs.
//!
//! The same amount may be said beside the service or under `deploy`; said twice, it must be the same.

use super::process::{copies, only};
use super::run::KEPT_BY_AGENT;
use super::service::{Draft, word};
use super::value::{bytes, count, map, parsed, thousandths};
use crate::finding::Place;
use crate::limits::{CPU_MILLICORES, ENTRIES, MEMORY_BYTES, MEMORY_MIN_BYTES};
use crate::service::Restart;
use crate::yaml::{Node, Value};

/// Takes over what was said; what was said before must be the same.
fn agree<T: PartialEq + Copy>(at: &Place<'_>, slot: &mut Option<T>, said: Option<T>) {
    if let (Some(before), Some(now)) = (*slot, said)
        && before != now
    {
        at.refused("says something else than the same limit elsewhere");
    }
    *slot = said.or(*slot);
}

fn millicores(at: &Place<'_>, node: &Node) -> Option<u64> {
    let what = "a number of cores such as 0.5 or 2";
    parsed(at, node, what, |text| thousandths(text).filter(|n| (1..=CPU_MILLICORES).contains(n)))
}

pub(super) fn cpus(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    let said = millicores(at, node);
    agree(at, &mut draft.service.limits.cpu_millicores, said);
}

pub(super) fn cpu_shares(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    draft.service.limits.cpu_shares = count(at, node, 2, 262_144);
}

pub(super) fn mem_limit(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    let said = bytes(at, node, MEMORY_MIN_BYTES, MEMORY_BYTES);
    agree(at, &mut draft.service.limits.memory_bytes, said);
}

pub(super) fn mem_reservation(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    let said = bytes(at, node, MEMORY_MIN_BYTES, MEMORY_BYTES);
    agree(at, &mut draft.service.limits.reserved_memory_bytes, said);
}

pub(super) fn memswap_limit(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    let is_unlimited = matches!(&node.value, Value::Scalar(scalar) if scalar.text == "-1");
    draft.service.limits.swap_bytes = if is_unlimited {
        Some(-1)
    } else {
        bytes(at, node, MEMORY_MIN_BYTES, MEMORY_BYTES).and_then(|n| i64::try_from(n).ok())
    };
}

pub(super) fn shm_size(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    draft.service.limits.shm_bytes = bytes(at, node, 1, MEMORY_BYTES);
}

pub(super) fn pids_limit(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    if matches!(&node.value, Value::Scalar(scalar) if matches!(scalar.text.as_str(), "-1" | "0")) {
        return at.changed("there is always a limit; the agent's own is set");
    }
    let said = count(at, node, 1, 4_194_304);
    agree(at, &mut draft.service.limits.pids, said);
}

pub(super) fn scale(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    copies(draft, at, node);
}

pub(super) fn deploy(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    for entry in map(at, node, ENTRIES).unwrap_or_default() {
        let (here, node) = (at.key(&entry.key, entry.line), &entry.value);
        if node.value == Value::Null {
            here.ignored("has no value");
            continue;
        }
        match entry.key.as_str() {
            "resources" => here.honouring(|at| resources(draft, at, node)),
            "replicas" => here.honouring(|at| replicas(draft, at, node)),
            "restart_policy" => restart_policy(draft, &here, node),
            "mode" => here.honouring(|at| only(at, node, &["replicated"])),
            "placement" => {
                here.ignored("a stack is placed as one; use the workload's own placement rules");
            }
            "update_config" | "rollback_config" => {
                here.ignored("a stack is updated as one, and returns to its last good revision");
            }
            "endpoint_mode" | "labels" => here.ignored("is for Swarm"),
            key if key.starts_with("x-") => here.ignored("is the file's own"),
            key => {
                let known = ["resources", "replicas", "restart_policy", "mode"];
                here.refused(super::unknown("deploy", key, known));
            }
        }
    }
}

fn replicas(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    let before = draft.places.contains_key("scale").then_some(draft.service.replicas);
    copies(draft, at, node);
    if before.is_some_and(|before| before != draft.service.replicas && before != 1) {
        at.refused("says something else than scale");
    }
}

fn resources(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    for entry in map(at, node, ENTRIES).unwrap_or_default() {
        let here = at.key(&entry.key, entry.line);
        match entry.key.as_str() {
            "limits" => amounts(draft, &here, &entry.value, true),
            "reservations" => amounts(draft, &here, &entry.value, false),
            key => {
                let known = ["limits", "reservations"];
                here.refused(super::unknown("resources", key, known));
            }
        }
    }
}

fn amounts(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node, are_limits: bool) {
    for entry in map(at, node, ENTRIES).unwrap_or_default() {
        let (here, node) = (at.key(&entry.key, entry.line), &entry.value);
        let limits = &mut draft.service.limits;
        match (entry.key.as_str(), are_limits) {
            ("cpus", true) => cpus(draft, &here, node),
            ("memory", true) => mem_limit(draft, &here, node),
            ("pids", true) => pids_limit(draft, &here, node),
            ("cpus", false) => limits.reserved_cpu_millicores = millicores(&here, node),
            ("memory", false) => mem_reservation(draft, &here, node),
            ("devices" | "generic_resources", false) => {
                here.refused("are not supported; name the devices with devices");
            }
            (key, _) => {
                let known = ["cpus", "memory", "pids"];
                here.refused(super::unknown("resources", key, known));
            }
        }
    }
}

fn restart_policy(draft: &mut Draft<'_>, at: &Place<'_>, node: &Node) {
    let (mut condition, mut max_retries) = ("any".to_owned(), 0);
    for entry in map(at, node, ENTRIES).unwrap_or_default() {
        let (here, node) = (at.key(&entry.key, entry.line), &entry.value);
        match entry.key.as_str() {
            "condition" => {
                condition = word(&here, node, &["any", "none", "on-failure"]).unwrap_or_default();
            }
            "max_attempts" => {
                let said = count(&here, node, 0, 10_000).unwrap_or_default();
                max_retries = u32::try_from(said).unwrap_or_default();
            }
            "delay" | "window" => here.ignored("the pauses are the agent's"),
            key => {
                let known = ["condition", "max_attempts"];
                here.refused(super::unknown("restart_policy", key, known));
            }
        }
    }
    draft.deploy_restart = Some(match condition.as_str() {
        "none" => Restart::No,
        "on-failure" => Restart::OnFailure { max_retries },
        _ => Restart::Always { max_retries },
    });
    at.changed(KEPT_BY_AGENT);
}

/// Amounts that contradict each other.
pub(super) fn consistent(draft: &Draft<'_>) {
    let limits = &draft.service.limits;
    if let (Some(most), Some(least)) = (limits.memory_bytes, limits.reserved_memory_bytes)
        && least > most
    {
        draft.at.refused("sets aside more memory than its limit lets it use; lower one");
    }
    if let (Some(most), Some(least)) = (limits.cpu_millicores, limits.reserved_cpu_millicores)
        && least > most
    {
        draft.at.refused("sets aside more CPU than its limit lets it use; lower one");
    }
    let swap = limits.swap_bytes.and_then(|swap| u64::try_from(swap).ok());
    match (limits.swap_bytes, limits.memory_bytes) {
        (Some(_), None) => {
            let why = "counts memory and swap together, so mem_limit must be given";
            draft.place("memswap_limit").refused(why);
        }
        (Some(_), Some(memory)) if swap.is_some_and(|swap| swap < memory) => {
            draft.place("memswap_limit").refused("is less than mem_limit");
        }
        _ => {}
    }
}
