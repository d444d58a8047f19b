//! A heartbeat and its answer, both ways.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use persys_cluster::contract::Told;
use persys_model::failure::clip;
use persys_model::fault::Faults;
use persys_model::id::{NodeId, PoolName, WorkloadId};
use persys_model::link::{Beat, BeatAnswer, Removal, Usage};
use persys_model::resources::Compute;
use persys_model::spec::WorkloadType;
use persys_model::spec::check::limits::{CPU_MILLICORES, MEMORY_MIB};
use persys_model::store_mark::StoreMark;
use persys_model::time::WallMillis;
use persys_model::token::{Epoch, Session, Term};

use super::at::{At, reading};
use super::leaf::{ITEMS, POOLS, amount, count, list, name, signed, token};
use super::register::missing_to_wire;
use super::{Arrived, Said, held, report, task, time};
use crate::control::v1 as wire;

/// Bytes of the words on why a node is busy.
const BUSY_BYTES: usize = 512;

/// A heartbeat of an old agent: no session, no order, all statuses each time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegacyBeat {
    /// From whom.
    pub node: NodeId,
    /// Reserved and measured use of the machine, as far as it says.
    pub usage: Usage,
    /// How its workloads are. What it does not list may still be there.
    pub statuses: Vec<Told>,
}

/// The heartbeat on the wire.
#[must_use]
pub fn to_wire(beat: &Beat, now: WallMillis) -> wire::HeartbeatRequest {
    let inventory = beat.inventory.as_ref();
    let held = inventory.map(|all| all.held.as_slice()).unwrap_or_default();
    let buried = inventory.map(|all| all.tombstones.as_slice()).unwrap_or_default();
    wire::HeartbeatRequest {
        node_id: beat.node.to_string(),
        usage: Some(usage_to_wire(&beat.usage)),
        workload_statuses: Vec::new(),
        timestamp: Some(time::timestamp(now)),
        workload_usage: Vec::new(),
        session: beat.session.0,
        seq: beat.seq,
        reports: beat.reports.iter().map(report::to_wire).collect(),
        full_inventory: inventory.is_some(),
        inventory: held.iter().map(held::to_wire).collect(),
        tombstones: beat.removed.iter().map(held::tombstone_to_wire).collect(),
        buried: buried.iter().map(held::tombstone_to_wire).collect(),
        store_mark: held::mark_to_wire(inventory.and_then(|all| all.mark.as_ref())),
        busy: beat.busy.as_deref().unwrap_or_default().to_owned(),
        runtimes_down: missing_to_wire(&beat.down),
        denied_digest: 0,
        agent_version: String::new(),
        tasks: beat.tasks.iter().map(task::to_wire).collect(),
        pool_limits: beat.limits.iter().map(limit_to_wire).collect(),
        takes_removals: beat.takes_removals,
    }
}

/// The heartbeat a message means, or everything that is wrong with it.
pub fn from_wire(
    request: wire::HeartbeatRequest,
) -> Result<Arrived<Said<Beat, LegacyBeat>>, Faults> {
    let odd = RefCell::new(Faults::none());
    let value = reading(|at| {
        if request.session == 0 {
            return legacy(at, &odd, &request).map(Said::Legacy);
        }
        ours(at, &odd, request).map(Said::Ours)
    })?;
    Ok(Arrived { value, odd: odd.into_inner() })
}

fn ours(at: &At<'_>, odd: &RefCell<Faults>, request: wire::HeartbeatRequest) -> Option<Beat> {
    let node = name(&at.field("node_id"), &request.node_id, NodeId::new);
    let usage = usage(at, request.usage.as_ref());
    let limits = limits(&request.pool_limits);
    let reports =
        list(&at.field("reports"), request.reports, ITEMS, |at, one| report::read(at, &one));
    let removed = list(&at.field("tombstones"), request.tombstones, ITEMS, |at, one| {
        held::tombstone(at, &one)
    });
    let inventory = if request.full_inventory {
        let items = ("inventory", request.inventory);
        held::inventory(at, odd, items, ("buried", request.buried), &request.store_mark).map(Some)
    } else if request.inventory.is_empty() && request.buried.is_empty() {
        Some(None)
    } else {
        at.field("inventory").refuse("is a part, and only a full one is taken")
    };
    let tasks = request.tasks.iter().take(ITEMS).filter_map(task::from_wire).collect();
    Some(Beat {
        node: node?,
        session: Session(request.session),
        seq: request.seq,
        reports: reports?,
        removed: removed?,
        inventory: inventory?,
        tasks,
        usage: usage?,
        limits,
        busy: busy(&request.busy),
        down: runtimes_down(request.runtimes_down),
        takes_removals: request.takes_removals,
    })
}

/// Types this release does not know say nothing to it.
fn runtimes_down(down: BTreeMap<String, String>) -> BTreeMap<WorkloadType, Arc<str>> {
    let known = |(word, why): (String, String)| {
        let kind = WorkloadType::ALL.into_iter().find(|kind| kind.word() == word)?;
        Some((kind, busy(&why).unwrap_or_else(|| Arc::from("its runtime does not answer"))))
    };
    down.into_iter().filter_map(known).collect()
}

/// For people: a long text is cut.
fn busy(text: &str) -> Option<Arc<str>> {
    let text = text.replace(char::is_control, " ");
    (!text.is_empty()).then(|| Arc::from(clip(&text, BUSY_BYTES)))
}

/// An old agent is alive whatever it says of its workloads: an entry that cannot be read is odd,
/// and the node keeps its lease.
fn legacy(
    at: &At<'_>,
    odd: &RefCell<Faults>,
    request: &wire::HeartbeatRequest,
) -> Option<LegacyBeat> {
    for (field, given) in [
        ("seq", request.seq != 0),
        ("reports", !request.reports.is_empty()),
        ("full_inventory", request.full_inventory),
        ("inventory", !request.inventory.is_empty()),
        ("tombstones", !request.tombstones.is_empty()),
        ("buried", !request.buried.is_empty()),
        ("busy", !request.busy.is_empty()),
    ] {
        if given {
            at.field(field).fault("is given, but session is not");
        }
    }
    let node = name(&at.field("node_id"), &request.node_id, NodeId::new);
    let here = at.field("workload_statuses");
    count(&here, request.workload_statuses.len(), ITEMS)?;
    let noted = here.noting_in(odd);
    let mut statuses = Vec::with_capacity(request.workload_statuses.len());
    for (nth, status) in request.workload_statuses.iter().enumerate() {
        statuses.extend(report::read_status(&noted.index(nth), status));
    }
    let usage = usage(&at.noting_in(odd), request.usage.as_ref()).unwrap_or_default();
    Some(LegacyBeat { node: node?, usage, statuses })
}

fn limit_to_wire((name, limit): (&PoolName, &u64)) -> wire::PoolLimit {
    wire::PoolLimit { name: name.to_string(), limit_gb: signed(*limit) }
}

/// Limits of pools by name. One that cannot be read closes its pool rather than cost the lease.
fn limits(given: &[wire::PoolLimit]) -> BTreeMap<PoolName, u64> {
    let read = |one: &wire::PoolLimit| {
        let limit = u64::try_from(one.limit_gb).unwrap_or(0);
        PoolName::new(&one.name).ok().map(|name| (name, limit))
    };
    given.iter().take(POOLS).filter_map(read).collect()
}

fn usage_to_wire(usage: &Usage) -> wire::NodeUsage {
    wire::NodeUsage {
        cpu_allocated_millicores: signed(usage.allocated.cpu_millicores),
        cpu_used_millicores: signed(usage.used.cpu_millicores),
        memory_allocated_mb: signed(usage.allocated.memory_mib),
        memory_used_mb: signed(usage.used.memory_mib),
        disk_allocated_gb: signed(usage.allocated_disk_gib),
        disk_used_gb: signed(usage.used_disk_gib),
    }
}

/// Amounts that are only shown have no limit: a sum beyond all reason must not cost a node its lease.
fn usage(at: &At<'_>, usage: Option<&wire::NodeUsage>) -> Option<Usage> {
    let here = at.field("usage");
    let usage = usage.copied().unwrap_or_default();
    let cpu = here.field("cpu_used_millicores");
    let cpu_millicores = amount(&cpu, usage.cpu_used_millicores, 0, CPU_MILLICORES);
    let memory = here.field("memory_used_mb");
    let memory_mib = amount(&memory, usage.memory_used_mb, 0, MEMORY_MIB);
    let shown = |amount: i64| u64::try_from(amount).unwrap_or(0);
    Some(Usage {
        allocated: Compute::new(
            shown(usage.cpu_allocated_millicores),
            shown(usage.memory_allocated_mb),
        ),
        allocated_disk_gib: shown(usage.disk_allocated_gb),
        used: Compute::new(cpu_millicores?, memory_mib?),
        used_disk_gib: shown(usage.disk_used_gb),
    })
}

/// The answer on the wire. `lease_ms` is the length of a lease, told to ours only when it is
/// renewed; `drain` is what old agents read, who do not know `hold`.
#[must_use]
pub fn answer_to_wire(
    answer: &BeatAnswer,
    drain: bool,
    lease_ms: u64,
    now: WallMillis,
) -> wire::HeartbeatResponse {
    match answer {
        BeatAnswer::Heard {
            term,
            session,
            seq,
            renewed,
            hold,
            drain: _,
            want_inventory,
            beat_ms,
            removals,
            mark,
        } => {
            wire::HeartbeatResponse {
                store_mark: held::mark_to_wire(mark.as_ref()),
                acknowledged: true,
                drain_node: drain || *hold,
                // For old agents, which begin anew when it has passed: that helps nobody while the
                // scheduler is in trouble.
                lease_expires_at: Some(time::timestamp_after(now, lease_ms)),
                hold: *hold,
                term: term.0,
                session: session.0,
                seq: *seq,
                want_inventory: *want_inventory,
                re_register: false,
                lease_ms: if *renewed { lease_ms.max(1) } else { 0 },
                heartbeat_interval_ms: *beat_ms,
                denied_changed: false,
                denied: Vec::new(),
                removals: removals.iter().map(removal_to_wire).collect(),
                // Known to the process, not to the answer.
                mode: String::new(),
            }
        }
        BeatAnswer::RegisterAgain { term } => wire::HeartbeatResponse {
            drain_node: drain,
            hold: drain,
            term: term.0,
            re_register: true,
            ..wire::HeartbeatResponse::default()
        },
    }
}

fn removal_to_wire(removal: &Removal) -> wire::Removal {
    wire::Removal { workload_id: removal.workload.to_string(), epoch: removal.epoch.0 }
}

/// One that cannot be read is not obeyed, and so never proved.
fn removal(given: &wire::Removal) -> Option<Removal> {
    let workload = WorkloadId::new(&given.workload_id).ok()?;
    (given.epoch > 0).then_some(Removal { workload, epoch: Epoch(given.epoch) })
}

/// What an old scheduler answers: nothing of it may stop running work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LegacyBeatAnswer {
    /// It took the heartbeat in.
    pub acknowledged: bool,
    /// It wants no new work started here.
    pub drain: bool,
    /// The moment its lease ends, by its own clock.
    pub lease_expires_at: Option<WallMillis>,
}

/// The answer a message means, or everything that is wrong with it.
pub fn answer_from_wire(
    answer: &wire::HeartbeatResponse,
) -> Result<Said<BeatAnswer, LegacyBeatAnswer>, Faults> {
    reading(|at| {
        if answer.re_register {
            let term = token(&at.field("term"), answer.term, Term)?;
            return Some(Said::Ours(BeatAnswer::RegisterAgain { term }));
        }
        if answer.session == 0 && answer.term == 0 {
            let (acknowledged, drain) = (answer.acknowledged, answer.drain_node);
            let lease_expires_at = answer.lease_expires_at.as_ref().map(time::wall);
            return Some(Said::Legacy(LegacyBeatAnswer { acknowledged, drain, lease_expires_at }));
        }
        let term = token(&at.field("term"), answer.term, Term);
        let session = token(&at.field("session"), answer.session, Session);
        if !answer.acknowledged {
            return at.field("acknowledged").refuse("is false, and nothing says why");
        }
        Some(Said::Ours(BeatAnswer::Heard {
            term: term?,
            session: session?,
            seq: answer.seq,
            renewed: answer.lease_ms > 0,
            hold: answer.hold,
            // Ours sets `drain_node` for old agents only; an agent of ours is emptied by orders.
            drain: false,
            want_inventory: answer.want_inventory,
            beat_ms: answer.heartbeat_interval_ms,
            removals: answer.removals.iter().take(ITEMS).filter_map(removal).collect(),
            mark: StoreMark::from_bytes(&answer.store_mark),
        }))
    })
}
