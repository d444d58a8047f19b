//! Heartbeats of contract agents: states without a version.

use std::collections::BTreeSet;

use persys_model::id::NodeId;
use persys_model::inventory::{State, Tombstone};
use persys_model::time::Millis;

use super::agent::{Agent, Awaits, Watch};
use super::here::Here;
use super::report::{AMISS_GRACE_MS, News, report};
use super::told::{Meaning, Told};
use crate::world::{Wanted, World};

/// Heartbeats in a row without a workload that prove its removal where nothing can be asked: the first
/// may have been on its way when the order was, the second was not.
const BEATS_WITHOUT: u8 = 2;

/// One status of a heartbeat.
pub(super) fn heard(
    world: &World,
    node: &NodeId,
    agent: &mut Agent,
    told: &Told,
    (news, now): (&mut News, Millis),
) {
    let workload = &told.workload;
    let Wanted::Here { epoch, revision, spec, run, phase } = world.wanted_on(node, workload) else {
        return;
    };
    let here = Here { epoch, revision, spec, run, phase };
    let holds = agent.holds(workload, epoch);
    if here.is_open() && !holds {
        // Under way: what it says may still be about the decision before.
        return;
    }
    let meaning = told.meaning(&here.spec, run);
    if agent.is_only_heard() {
        let state = match meaning {
            Meaning::State(state) => state,
            Meaning::Missing => return,
            Meaning::Amiss { now: state, then } => {
                let since =
                    agent.copies.get_mut(workload).map(|copy| *copy.amiss_since.get_or_insert(now));
                let stays = since.is_none_or(|since| now.since(since) >= AMISS_GRACE_MS);
                if stays { State::Failed(then) } else { state }
            }
        };
        if let Some(copy) = agent.copies.get_mut(workload)
            && matches!(state, State::Running)
        {
            copy.amiss_since = None;
        }
        return news.reports.push(report(workload, epoch, state));
    }
    if agent.watches.contains_key(workload) || agent.strays.contains(workload) {
        return;
    }
    let last = agent.copies.get(workload).and_then(|copy| copy.last.as_ref());
    match meaning {
        Meaning::State(state) if here.is_open() => {
            let kind = std::mem::discriminant::<State>;
            if last.map(kind) != Some(kind(&state)) {
                agent
                    .watches
                    .insert(workload.clone(), Watch::new(epoch, Awaits::Applied, now, now));
            }
        }
        Meaning::State(state) => {
            if let Some(copy) = agent.copies.get_mut(workload) {
                copy.last = Some(state.clone());
            } else if matches!(state, State::Failed(_)) {
                agent.failed.insert(workload.clone());
            } else {
                agent.failed.remove(workload);
            }
            news.reports.push(report(workload, epoch, state));
        }
        Meaning::Missing | Meaning::Amiss { .. } if matches!(last, Some(State::Failed(_))) => {}
        // The list compares it with the record, and it is watched from there.
        Meaning::Missing | Meaning::Amiss { .. } => agent.list.wanted = true,
    }
}

/// Removals that heartbeats prove where nothing can be asked.
pub(super) fn prove_by_absence(
    world: &World,
    node: &NodeId,
    agent: &mut Agent,
    statuses: &[Told],
    news: &mut News,
) {
    if !agent.is_only_heard() {
        return;
    }
    let named: BTreeSet<_> = statuses.iter().map(|told| &told.workload).collect();
    let copies = &mut agent.copies;
    agent.watches.retain(|workload, watch| {
        if watch.awaits != Awaits::Removed {
            return true;
        }
        let absent = !named.contains(workload);
        watch.beats_without = if absent { watch.beats_without.saturating_add(1) } else { 0 };
        let open = matches!(
            world.wanted_on(node, workload),
            Wanted::Gone { epoch, .. } if epoch == watch.epoch
        );
        let proved = watch.beats_without >= BEATS_WITHOUT;
        if proved && open {
            copies.remove(workload);
            let (workload, epoch) = (workload.clone(), watch.epoch);
            // Such an agent does not say what became of the data.
            news.removed.push(Tombstone { workload, epoch, purged: false });
        }
        open && !proved
    });
}
