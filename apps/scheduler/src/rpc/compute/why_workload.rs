//! Why a workload is as it is: told from the cluster in memory, without asking anybody.

use persys_cluster::discovery::Zones;
use persys_cluster::placement::{Explanation, Reason as Filter};
use persys_cluster::world::{Judged, WorkloadView, World};
use persys_model::assignment::{Place, ReasonCode, UpdateState};
use persys_model::failure::{Failure, FailureStage};
use persys_model::id::{NodeId, WorkloadId};
use persys_model::inventory::State;
use persys_model::mode::Mode;
use persys_model::phase::Phase;
use persys_model::spec::OnNodeLoss;
use persys_model::time::WallMillis;
use persys_model::volume::VolumeKey;
use persys_model::workload::Desired;
use persys_proto::compute::v1 as api;

use super::words::{amounts, first_line, node_word, tell_judgement};
use crate::moment::{ago, rfc3339};

/// Most nodes whose judgement is told.
const MOST_VERDICTS: usize = 50;

/// The answer, but for the events. `attempts` is how many failures one incident may have.
pub(super) fn explain(
    world: &World,
    id: &WorkloadId,
    attempts: u32,
    now: WallMillis,
    zones: &Zones,
) -> Option<api::WhyResponse> {
    let view = world.workload(id)?;
    let judged = if wants_room(&view) { world.judge(id, MOST_VERDICTS) } else { None };
    let asked = Asked { world, view, judged: judged.as_ref(), attempts, now, zones };
    let summary = asked.summary();
    let mut left = evidence(asked.trouble().or(view.assignment.reason.failure.as_ref()));
    left.extend(asked.check_output());
    // The same sentence stands once on a page.
    left.retain(|line| !summary.contains(line.trim()));
    let mut why = api::WhyResponse {
        facts: asked.facts(&summary),
        evidence: left,
        summary,
        next: asked.next(),
        ..api::WhyResponse::default()
    };
    if let Some(judged) = judged {
        tell_judgement(&mut why, judged);
    }
    Some(why)
}

/// Whether it waits for room: for its first version or for a new one.
fn wants_room(view: &WorkloadView<'_>) -> bool {
    let code = view.assignment.reason.code;
    view.assignment.phase == Phase::Pending || code == ReasonCode::UpdateWaits
}

/// What was left of a failure, line by line.
pub(super) fn evidence(failure: Option<&Failure>) -> Vec<String> {
    failure.map_or_else(Vec::new, |failure| failure.message.lines().map(str::to_owned).collect())
}

/// One question and what it is answered from.
pub(super) struct Asked<'a> {
    pub(super) world: &'a World,
    pub(super) view: WorkloadView<'a>,
    judged: Option<&'a Judged>,
    attempts: u32,
    pub(super) now: WallMillis,
    zones: &'a Zones,
}

impl Asked<'_> {
    pub(super) fn id(&self) -> &WorkloadId {
        &self.view.workload.id
    }

    fn place(&self) -> Option<&Place> {
        self.view.assignment.place.as_ref()
    }

    /// ` on n1`, or nothing when it has no place.
    pub(super) fn on(&self) -> String {
        self.place().map(|place| format!(" on {}", place.node)).unwrap_or_default()
    }

    fn frozen(&self) -> Option<String> {
        let (mode, why) = self.world.mode();
        match mode {
            Mode::Normal => None,
            Mode::Degraded | Mode::Recovery => {
                Some(format!("the control plane is in {} mode ({why})", mode.word()))
            }
        }
    }

    fn summary(&self) -> String {
        let (id, on) = (self.id(), self.on());
        let since = ago(self.view.assignment.reason.since, self.now);
        let reason = self.reason();
        match self.view.assignment.phase {
            Phase::Pending => format!("{id} waits: {}", self.waits_for()),
            Phase::Running
            | Phase::Paused
            | Phase::Unresponsive
            | Phase::Starting
            | Phase::Restarting
            | Phase::Stopping
                if self.view.uncertain =>
            {
                format!("{id} ran{on} when last heard of; its node does not answer")
            }
            Phase::Starting => format!("{id} is being started{on}, {}", self.starting(&since)),
            Phase::Running if self.view.assignment.reason.code == ReasonCode::UpdateWaits => {
                format!("{id} runs{on} in its old version; the new one waits: {}", self.waits_for())
            }
            Phase::Running if self.is_hidden() => {
                format!("{id} ran{on} when last seen; the runtime of its node does not answer")
            }
            Phase::Running if self.view.workload.desired == Desired::Paused => {
                format!("{id} runs{on} and is about to be paused, since {since}{}", self.again())
            }
            Phase::Running => match self.view.update_state() {
                Some(state @ (UpdateState::Updating | UpdateState::UpdateFailed)) => {
                    let pull = self.view.pull().map(|pull| format!("; {pull}"));
                    let message = self.view.update_message();
                    format!(
                        "{id} runs{on}; {}: {message}{}",
                        state.text(),
                        pull.unwrap_or_default()
                    )
                }
                Some(UpdateState::RolledBack) | None => self.running(&since),
            },
            Phase::Paused => self.paused(&since),
            Phase::Unresponsive => {
                format!(
                    "{id} does not respond{on}, since {since}: {reason}; its node ends it and starts it again"
                )
            }
            Phase::Restarting => format!("{id} ended and is started again{on}: {reason}"),
            Phase::Stopping => format!("{id} is being stopped{on}, since {since}{}", self.again()),
            Phase::Stopped => format!("{id} is at rest because somebody wants it so"),
            Phase::Completed => {
                format!("{id} ran to its end{on}, as it should, and is not started again")
            }
            Phase::Backoff => format!("{id} failed and is tried again: {reason}"),
            Phase::Failed => format!("{id} failed: {reason}"),
            Phase::Deleting => format!("{id} is being deleted{}", self.deleting()),
        }
    }

    fn paused(&self, since: &str) -> String {
        let (id, on, said) = (self.id(), self.on(), &self.view.assignment.reason.message);
        if self.view.workload.desired != Desired::Paused {
            return format!("{id} was found paused{on}, since {since}: {}", self.reason());
        }
        let paused = if said.is_empty() { "paused by its user" } else { said };
        format!("{id} is {paused}{on}, since {since}; it keeps what it reserves")
    }

    /// Whether its node answers and what runs it there does not.
    fn is_hidden(&self) -> bool {
        self.view.seen.is_some_and(|report| report.state == State::Unknown)
    }

    /// Why the last thing its node did for it failed, where it tries again.
    fn trouble(&self) -> Option<&Failure> {
        self.view.seen.and_then(|report| report.trouble.as_ref())
    }

    /// `: no such device; its node tries again`, or nothing when all goes well.
    fn again(&self) -> String {
        let failure =
            |why: &Failure| format!(": {}; its node tries again", first_line(&why.message));
        self.trouble().map(failure).unwrap_or_default()
    }

    fn starting(&self, since: &str) -> String {
        if self.trouble().is_some() {
            return format!("since {since}{}", self.again());
        }
        if self.view.assignment.reason.code == ReasonCode::DispatchFailed {
            return format!("since {since}: {}", self.reason());
        }
        if let Some(pull) = self.view.pull() {
            return format!("since {since}: {pull}");
        }
        let said = match self.view.seen.map(|report| &report.state) {
            None => "but its node has not said anything of it yet",
            Some(State::Unknown) => "but the runtime of its node does not answer",
            Some(
                State::Pending
                | State::Running
                | State::Paused
                | State::Unresponsive
                | State::Restarting(_)
                | State::Stopped
                | State::Completed
                | State::Failed(_),
            ) => "its node prepares it (an image may have to be fetched)",
        };
        format!("since {since}: {said}")
    }

    fn deleting(&self) -> String {
        if self.view.assignment.reason.code == ReasonCode::DispatchFailed {
            return format!(": {}", self.reason());
        }
        match self.place() {
            Some(_) if self.trouble().is_some() => self.again(),
            Some(place) => format!(": {} has not said yet that it is gone", place.node),
            None => String::new(),
        }
    }

    /// What a workload without room waits for.
    fn waits_for(&self) -> String {
        if let Some(frozen) = self.frozen() {
            return format!("{frozen}, and nothing is started");
        }
        let assignment = self.view.assignment;
        if assignment.reason.code == ReasonCode::WaitsForFence {
            return self.reason();
        }
        let Some(judged) = self.judged else { return self.reason() };
        let homes = self.world.homes_of(self.id());
        match (homes.keys().next(), homes.len()) {
            (Some(home), 1) => return self.waits_for_home(home, judged),
            (Some(_), _) => return self.reason(),
            (None, _) => {}
        }
        let Explanation { total, fitting, .. } = judged.explanation;
        match (total, fitting) {
            (0, _) => "there are no nodes".to_owned(),
            (_, 0) => judged.explanation.to_string(),
            (_, _) => format!("it fits on {fitting} of {total} nodes and is placed next"),
        }
    }

    /// The first line of the reason.
    pub(super) fn reason(&self) -> String {
        let reason = &self.view.assignment.reason;
        let failure = reason.failure.as_ref().map(|failure| &*failure.message);
        let text = match (&*reason.message, failure) {
            ("", Some(failure)) => failure,
            ("", None) => reason.code.word(),
            (message, _) => message,
        };
        first_line(text).to_owned()
    }

    /// All that is known, except for what the summary says.
    fn facts(&self, summary: &str) -> Vec<String> {
        let mut facts = Vec::new();
        facts.extend(self.frozen().map(|frozen| format!("{frozen}: nothing is changed")));
        let (workload, assignment) = (self.view.workload, self.view.assignment);
        let (phase, reason) = (assignment.phase.word(), &assignment.reason);
        let since = rfc3339(reason.since);
        facts.push(format!("{phase} since {since} ({} ago)", ago(reason.since, self.now)));
        let said = self.reason();
        // The recorded reason tells how things stood then; the summary tells how they stand now.
        let known = self.judged.is_some() || summary.contains(&said);
        facts.push(match &*said {
            text if known || text == reason.code.word() => {
                format!("reason: {}", reason.code.word())
            }
            text => format!("reason: {}: {text}", reason.code.word()),
        });
        let (desired, revision) = (workload.desired.word(), &workload.revision);
        let number = workload.history.number();
        facts.push(format!("wanted: {desired}, in revision {number} ({revision})"));
        facts.extend(self.update_fact());
        facts.extend(self.health_facts());
        facts.extend(self.shadow_facts());
        facts.extend(self.place_facts());
        facts.extend(self.secret_facts());
        facts.extend(self.attempt_facts());
        facts.push(format!("asks for {}", amounts(workload.spec.resources.compute)));
        facts.extend(self.home_facts());
        for (node, copy) in &assignment.former {
            facts.push(format!(
                "a former copy (decision {}) may still be on {}",
                copy.epoch,
                node_word(self.world, node, self.now)
            ));
        }
        if self.world.brake() {
            let text = "so many nodes are silent that nothing is moved until they are back or an \
                        operator releases the brake";
            facts.push(text.to_owned());
        }
        facts
    }

    /// The state of its update. The summary tells the rest where it is about that.
    fn update_fact(&self) -> Option<String> {
        let state = self.view.update_state()?;
        Some(match (state, self.view.assignment.phase) {
            (UpdateState::Updating | UpdateState::UpdateFailed, Phase::Running) => {
                format!("update: {}", state.text())
            }
            (_, _) => format!("update: {}: {}", state.text(), self.view.update_message()),
        })
    }

    /// Everything that is held back because it is in shadow.
    fn shadow_facts(&self) -> Option<String> {
        if !self.view.shadow {
            return None;
        }
        let mut held = self.world.held_back(self.id());
        let name = self.zones.workload(self.id()).dotted();
        held.push(format!("name {} is not announced", name.trim_end_matches('.')));
        Some(format!("shadow: {}", held.join(", ")))
    }

    /// What keeps it where it is.
    fn home_facts(&self) -> Vec<String> {
        let homes = self.world.homes_of(self.id());
        let moves = self.view.workload.spec.placement.on_node_loss == OnNodeLoss::Move;
        let fact = |(home, volume): (NodeId, Option<VolumeKey>)| match volume {
            None => format!("will not move: its data is on {home}"),
            Some(key) if !key.driver.is_local() => {
                format!("will not move: one node at a time may have {key}, and {home} has it")
            }
            Some(key) if moves => format!("its data ({key}) is on {home}"),
            Some(key) => format!("will not move: its data ({key}) is on {home}"),
        };
        homes.into_iter().map(fact).collect()
    }

    fn place_facts(&self) -> Vec<String> {
        let Some(place) = self.place() else { return vec!["has no node".to_owned()] };
        let node = node_word(self.world, &place.node, self.now);
        let mut facts = vec![format!("its node is {node}, by decision {}", place.epoch)];
        facts.extend(self.admission(&place.node));
        if self.view.uncertain {
            let node = &place.node;
            facts.push(format!("{node} does not answer: what is said of it may no longer be so"));
        }
        if let Some(version) = &place.version {
            let (_, number) = self.view.running();
            let revision = &version.revision;
            facts.push(format!("{} runs revision {number} ({revision})", place.node));
        }
        facts
    }

    /// What is done when a secret changes, where its spec names a signal.
    fn secret_facts(&self) -> Option<String> {
        let (signals, node) = (self.view.workload.spec.signals(), &self.place()?.node);
        if signals.is_empty() {
            return None;
        }
        if !self.world.node(node)?.node.facts.signals {
            return Some(format!(
                "is restarted when a secret changes: {node} runs an agent that cannot signal; upgrade it"
            ));
        }
        let each: Vec<_> =
            signals.iter().map(|(name, signal)| format!("{} for {name}", signal.word())).collect();
        Some(format!("is signalled when a secret changes: {}", each.join(", ")))
    }

    /// Tells if the agent has accepted the order, while it is carried out.
    fn admission(&self, node: &NodeId) -> Option<String> {
        match self.view.assignment.phase {
            Phase::Starting | Phase::Stopping | Phase::Deleting => {}
            Phase::Pending
            | Phase::Running
            | Phase::Paused
            | Phase::Unresponsive
            | Phase::Restarting
            | Phase::Stopped
            | Phase::Completed
            | Phase::Backoff
            | Phase::Failed => return None,
        }
        let Some(at) = self.view.admitted else {
            return Some(format!("{node} has not accepted the order yet"));
        };
        let task = self
            .view
            .task
            .map_or_else(String::new, |task| format!(" ({} is {})", task.id, task.status.word()));
        Some(format!("{node} accepted the order {} ago{task}", ago(at, self.now)))
    }

    fn attempt_facts(&self) -> Vec<String> {
        let mut facts = Vec::new();
        if let Some(retry) = self.view.retry {
            let (count, most) = (retry.attempts, self.attempts);
            facts.push(match retry.next_at {
                Some(at) => {
                    format!("{count} of {most} attempts failed; the next is due {}", rfc3339(at))
                }
                None if self.is_over() => {
                    format!(
                        "{count} of {most} attempts failed; none is planned, because the program \
                         ran and ended: `persys retry {}` starts it again",
                        self.id()
                    )
                }
                None => format!("{count} of {most} attempts failed; none is planned"),
            });
            if !retry.avoid.is_empty() {
                let nodes: Vec<_> = retry.avoid.iter().map(ToString::to_string).collect();
                facts.push(format!("another node than {} is tried first", nodes.join(", ")));
            }
        }
        match self.view.seen.map_or(0, |report| report.restarts) {
            0 if self.is_over() => {
                facts.push(
                    "was not started again by its node, as its restart policy says".to_owned(),
                );
            }
            0 => {}
            1 => facts.push("was started again once by its node".to_owned()),
            times => facts.push(format!("was started again {times} times by its node")),
        }
        facts
    }

    /// True if its program ran, ended, and is not started again by its restart policy.
    fn is_over(&self) -> bool {
        let reason = &self.view.assignment.reason;
        let failure =
            reason.failure.as_ref().filter(|_| self.view.assignment.phase == Phase::Failed);
        failure.is_some_and(|failure| failure.stage == FailureStage::Run)
    }

    /// What to type next.
    fn next(&self) -> Vec<String> {
        let id = self.id();
        let of = |verb: &str| format!("persys {verb} {id}");
        let watch = || format!("persys events -f {id}");
        let node = || self.place().map(|place| format!("persys why node {}", place.node));
        match self.view.assignment.phase {
            Phase::Pending => self.next_for_room(),
            Phase::Running
            | Phase::Paused
            | Phase::Unresponsive
            | Phase::Starting
            | Phase::Restarting
            | Phase::Stopping
                if self.view.uncertain =>
            {
                node().into_iter().chain([watch()]).collect()
            }
            Phase::Starting => node().into_iter().chain([watch()]).collect(),
            Phase::Running if self.view.update_state() == Some(UpdateState::UpdateFailed) => {
                vec![of("diff"), of("rollback"), of("retry")]
            }
            Phase::Running if self.is_unhealthy() => {
                vec![of("logs"), format!("persys exec -it {id} -- sh"), of("restart")]
            }
            Phase::Running => vec![of("logs"), of("get")],
            Phase::Paused => vec![of("resume"), of("stop")],
            Phase::Unresponsive => node().into_iter().chain([watch()]).collect(),
            Phase::Restarting => vec![of("logs"), watch()],
            Phase::Stopping | Phase::Deleting => node().into_iter().chain([watch()]).collect(),
            Phase::Stopped => vec![of("start"), of("delete")],
            Phase::Completed => vec![of("logs"), of("restart"), of("delete")],
            Phase::Backoff | Phase::Failed => {
                let back = self.world.rollback_targets(id).first().map(|_| of("rollback"));
                [of("logs"), of("retry")].into_iter().chain(back).collect()
            }
        }
    }

    fn next_for_room(&self) -> Vec<String> {
        let mut next = Vec::new();
        if let Some(judged) = self.judged
            && let Some(closest) = judged.verdicts.first()
        {
            next.push(format!("persys why node {}", closest.node));
            let closed =
                judged.explanation.refusals.iter().any(|refusal| refusal.reason == Filter::Closed);
            let drained = self.world.node(&closest.node).is_some_and(|n| n.node.drain.is_some());
            if closed && drained {
                next.push(format!("persys node undrain {}", closest.node));
            }
        }
        next.push("persys nodes".to_owned());
        next
    }
}
