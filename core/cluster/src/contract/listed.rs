//! One entry of a contract agent's list, as the World compares it with the record.

use persys_model::id::{NodeId, RevisionId};
use persys_model::inventory::{Held, Report, State};
use persys_model::phase::Phase;
use persys_model::time::Millis;
use persys_model::token::Epoch;

use super::agent::{Agent, Awaits, Watch};
use super::here::Here;
use super::report::{UPDATE_GRACE_MS, raw, report, while_leaving};
use super::told::{Meaning, Told, Word, has_data};
use crate::world::{Wanted, World};

/// One entry of a list, as the World compares it; `None` where it must not be compared.
pub(super) fn listed(
    world: &World,
    node: &NodeId,
    agent: &mut Agent,
    told: &Told,
    (asked, now): (Millis, Millis),
) -> Option<Held> {
    let workload = &told.workload;
    let touched = agent.touched_since(workload, asked);
    let made = |report: Report, run: bool| Some(made(told, report, run));
    match world.wanted_on(node, workload) {
        Wanted::Here { epoch, revision, spec, run, phase } => {
            let here = Here { epoch, revision, spec, run, phase };
            listed_here(agent, told, &here, (touched, now))
        }
        Wanted::Gone { epoch, placed: true } => {
            let confirmed = agent.watches.get(workload).is_some_and(|watch| watch.epoch == epoch);
            let report = report(workload, epoch, while_leaving(told));
            made(Report { confirmed, ..report }, false)
        }
        Wanted::Gone { .. } if touched || agent.watches.contains_key(workload) => None,
        Wanted::Gone { epoch, placed: false } => {
            made(report(workload, Epoch(epoch.0.saturating_sub(1)), State::Unknown), false)
        }
        // Stopped in place of a removal: that is how its data is kept here.
        Wanted::Elsewhere(spec) if has_data(spec) && told.run == Some(false) => None,
        Wanted::Elsewhere(spec) => made(report(workload, Epoch(0), raw(told, spec, true)), true),
        Wanted::Unknown if touched => None,
        Wanted::Unknown => {
            let state = of_stranger(told.word);
            // Newer than anything it is known to have removed: it was made since.
            let removed = world.removed_on(node, workload).map(|epoch| Epoch(epoch.0 + 1));
            let epoch = removed.unwrap_or_default().max(world.head().epoch);
            made(report(workload, epoch, state), true)
        }
    }
}

fn made(told: &Told, report: Report, run: bool) -> Held {
    let unnamed = || RevisionId::fixed("unknown");
    let revision = told.revision.clone().unwrap_or_else(unnamed);
    Held { report, revision, run: told.run.unwrap_or(run), pause: false, spec: None }
}

/// An entry of a workload whose place the node is.
fn listed_here(
    agent: &mut Agent,
    told: &Told,
    here: &Here,
    (touched, now): (bool, Millis),
) -> Option<Held> {
    let (workload, epoch, run) = (&told.workload, here.epoch, here.run);
    let holds = agent.holds(workload, epoch);
    let last = agent.copies.get(workload).and_then(|copy| copy.last.clone());
    if told.is_gone() {
        return None;
    }
    let given_up = here.phase == Phase::Failed && (!holds || !here.is_other(told));
    let not_ordered = here.phase == Phase::Pending && !holds;
    if (given_up || not_ordered) && !touched && told.word == Word::Running {
        // It runs all the same: the agent came to it late, or a recovery forgot the order.
        let older = Epoch(epoch.0.saturating_sub(1));
        return Some(made(told, report(workload, older, State::Running), run));
    }
    if touched || (here.is_open() && !holds) {
        // The state before belongs to another decision.
        let state = last.filter(|_| holds).unwrap_or(State::Pending);
        return Some(made(
            told,
            Report { confirmed: holds, ..report(workload, epoch, state) },
            run,
        ));
    }
    if here.is_other(told) {
        let coming = holds && agent.is_coming(workload, UPDATE_GRACE_MS, now);
        if !here.is_open() && !coming {
            agent.strays.insert(workload.clone());
        }
        let (epoch, state) = match (here.is_open() && holds, coming) {
            (true, _) => (epoch, State::Pending),
            (false, true) => (epoch, last.unwrap_or(State::Unknown)),
            (false, false) => (Epoch(epoch.0.saturating_sub(1)), raw(told, &here.spec, run)),
        };
        return Some(made(told, report(workload, epoch, state), run));
    }
    agent.reached(workload, told);
    agent.strays.remove(workload);
    let amiss = matches!(told.meaning(&here.spec, run), Meaning::Amiss { .. });
    let failed = matches!(last, Some(State::Failed(_)));
    let open = here.is_under_way();
    if !agent.watches.contains_key(workload) && (open || (amiss && !failed)) {
        agent.watches.insert(workload.clone(), Watch::new(epoch, Awaits::Applied, now, now));
    }
    let state = match (amiss && failed, last) {
        (true, Some(last)) => last,
        _ => raw(told, &here.spec, run),
    };
    if open && agent.is_of_before(workload, &state, now) {
        return Some(made(told, report(workload, epoch, State::Pending), run));
    }
    if !run && agent.may_yet_start(workload, now) {
        return Some(made(told, report(workload, epoch, State::Pending), run));
    }
    // An agent that keeps it running is told once more to have it rest.
    let keeps = !run && told.run == Some(true);
    let coming = agent.is_coming(workload, UPDATE_GRACE_MS, now);
    let confirmed = !keeps || (holds && coming);
    Some(made(told, Report { confirmed, ..report(workload, epoch, state) }, run))
}

/// The state of something without a record.
fn of_stranger(word: Word) -> State {
    match word {
        Word::Running => State::Running,
        Word::Stopped => State::Stopped,
        Word::Pending => State::Pending,
        Word::Failed | Word::Unknown => State::Unknown,
    }
}
