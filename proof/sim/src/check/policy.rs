//! Restart policies: a program is started under one decision as often as its policy allows, and no more.
//!
//! A new life of the agent or a power cut may cost one start more, because the agent may not have
//! written down that it started the program. Starts that hung say nothing: they may be carried out late,
//! after another one that was given later.

use std::collections::BTreeMap;

use persys_model::id::{NodeId, WorkloadId};
use persys_model::spec::container::RestartPolicy;
use persys_model::spec::{Kind, Spec};
use persys_model::token::Epoch;
use persys_node::effects::{Run, Verb};

use super::Check;
use crate::host::Host;

/// Starts of every program, by decision.
#[derive(Debug, Default)]
pub(super) struct Programs {
    started: BTreeMap<(WorkloadId, Epoch), Starts>,
    /// Virtual time at which the first start of each decision was given to the runtime.
    given: BTreeMap<(WorkloadId, Epoch), u64>,
}

#[derive(Debug)]
struct Starts {
    count: u64,
    node: NodeId,
    /// Lives of the agent and of the machine at the first.
    lives: u64,
}

/// Starts that a policy allows; `None` where it sets no limit.
fn allowed(spec: &Spec) -> Option<u64> {
    let Kind::Container(container) = &spec.kind else { return None };
    match container.restart {
        RestartPolicy::No => Some(1),
        RestartPolicy::OnFailure { max_retries: 0 } => None,
        RestartPolicy::OnFailure { max_retries } => Some(u64::from(max_retries) + 1),
        RestartPolicy::Always | RestartPolicy::UnlessStopped | RestartPolicy::AlwaysUpTo { .. } => {
            None
        }
    }
}

impl Check {
    /// A start is given to a runtime.
    pub(super) fn start_given(&mut self, now: u64, run: &Run) {
        if let Verb::Start { epoch, .. } = &run.verb {
            self.programs.given.entry((run.workload.clone(), *epoch)).or_insert(now);
        }
    }

    /// A start was carried out, and the program did not run before.
    pub(crate) fn program_started(&mut self, now: u64, host: &Host, run: &Run) {
        let Verb::Start { epoch, spec, .. } = &run.verb else { return };
        let Some(allowed) = allowed(spec) else { return };
        let lives = host.lives + host.boots;
        let key = (run.workload.clone(), *epoch);
        let given = self.programs.given.get(&key).copied().unwrap_or(now);
        let first = || Starts { count: 0, node: host.id.clone(), lives };
        let starts = self.programs.started.entry(key).or_insert_with(first);
        starts.count += 1;
        let hung = host.verbs_hang_until.max(host.runtime.out_until) >= given;
        let allowed = allowed + lives.saturating_sub(starts.lives);
        let count = starts.count;
        if count > allowed && !hung {
            let (id, policy) = (&run.workload, &spec.kind);
            self.violate(now, "restart policy", || {
                format!("{id} was started {count} times by decision {epoch}: {policy:?}")
            });
        }
    }

    /// A ledger is lost, and with it the number of restarts.
    pub(crate) fn ledger_lost(&mut self, node: &NodeId) {
        self.programs.started.retain(|_, starts| starts.node != *node);
    }

    /// Somebody removed it by hand: that it is made again is no restart.
    pub(crate) fn removed_by_hand(&mut self, id: &WorkloadId) {
        self.programs.started.retain(|(workload, _), _| workload != id);
    }
}
