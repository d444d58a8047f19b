//! Events in words.

use persys_cluster::effects::Reply;
use persys_cluster::input::Ask;
use persys_cluster::record::{Unit, Write};
use persys_model::command::{Answer, Command, Order};
use persys_model::event::Happening;
use persys_model::id::NodeId;
use persys_node::effects::{Run, Verb};

/// A unit that was stored.
pub(crate) fn unit(unit: &Unit) -> String {
    let writes: String = unit.writes.iter().map(record).collect();
    format!("store {}:{writes}", unit.head.seq)
}

fn record(write: &Write) -> String {
    match write {
        Write::PutEvent(event) => format!("\n                {}", happening(&event.what)),
        Write::PutAssignment(assignment) => {
            let place = assignment.place.as_ref();
            let place = place.map(|place| format!("{}@{}", place.node, place.epoch));
            let former: Vec<_> = assignment.former.keys().map(ToString::to_string).collect();
            format!(
                " [{} {:?} {:?} at {} former {former:?}]",
                assignment.workload,
                assignment.phase,
                assignment.reason.code,
                place.unwrap_or_else(|| "no place".to_owned()),
            )
        }
        Write::PutNode(node) => {
            format!(" [{} {:?} session {}]", node.facts.id, node.condition, node.session)
        }
        Write::PutWorkload(want) => {
            format!(" [want {} {} {:?}]", want.id, want.revision, want.desired)
        }
        Write::DeleteWorkload(id) => format!(" [gone {id}]"),
        Write::PutGrave(grave) => format!(" [grave {} on {}]", grave.workload, grave.node),
        Write::DeleteGrave(node, id) => format!(" [no grave {id} on {node}]"),
        Write::PutRetry(retry) => format!(" [retry {} after {}]", retry.workload, retry.attempts),
        Write::DeleteRetry(id) => format!(" [no retry {id}]"),
        Write::PutDrift(drift) => {
            format!(" [drift {:?} {} on {}]", drift.kind, drift.workload, drift.node)
        }
        Write::DeleteDrift(node, id, kind) => format!(" [no drift {kind:?} {id} on {node}]"),
        Write::PutEntry(entry) => format!(" [{}]", entry.key()),
        Write::DeleteEntry(key) => format!(" [no {key}]"),
        Write::DeleteNode(id) => format!(" [node {id} removed]"),
        Write::PutVolume(volume) => {
            let home = volume.home.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
            format!(" [{} {:?}{home}]", volume.key, volume.phase)
        }
        Write::DeleteVolume(key) => format!(" [no {key}]"),
        Write::PutAttachment(one) => {
            format!(" [{} {:?} on {} for {}]", one.volume, one.phase, one.node, one.workload)
        }
        Write::DeleteAttachment(node, id, key) => format!(" [no {key} on {node} for {id}]"),
        Write::PutRevision(one) => format!(" [{} revision {}]", one.workload, one.number),
        Write::DeleteRevision(id, number) => format!(" [no {id} revision {number}]"),
        Write::PutBody(_) | Write::DeleteBody(..) => String::new(),
        Write::PutLease(lease) => format!(" [lease of {} {:?}]", lease.node, lease.state),
        Write::PutReconciliation(one) => {
            format!(" [{} {} {}]", one.action.word(), one.workload, one.success)
        }
        Write::DeleteLease(_) | Write::DeleteReconciliation(_) => String::new(),
        Write::DeleteAssignment(_) | Write::PutAudit(_) => String::new(),
    }
}

/// What an event says.
pub(crate) fn happening(what: &Happening) -> String {
    match what {
        Happening::Workload { id, from, to, code, message, node, .. } => {
            let word = |phase: &Option<_>| {
                phase.map_or("-", |phase: persys_model::phase::Phase| phase.word())
            };
            let at = node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
            format!("{id}: {} -> {}{at} ({}) {message}", word(from), word(to), code.word())
        }
        Happening::NodeCondition { id, from, to, why } => {
            format!("{id}: {from:?} -> {to:?} ({why})")
        }
        other => format!("{other:?}"),
    }
}

/// A command on its way out.
pub(crate) fn command(scheduler: usize, node: &NodeId, command: &Command) -> String {
    let order = match &command.order {
        Order::Apply(apply) if apply.run => format!("run {}", apply.revision),
        Order::Apply(apply) => format!("rest {}", apply.revision),
        Order::Remove { purge } => format!("remove, purge {purge}"),
    };
    format!(
        "s{scheduler} tells {node}: {} {order} (term {} session {} epoch {})",
        command.workload, command.term, command.session, command.epoch
    )
}

/// An agent's answer.
pub(crate) fn answer(node: usize, command: &Command, answer: &Answer) -> String {
    format!("n{node} answers {}@{}: {answer:?}", command.workload, command.epoch)
}

/// A verb on its way to the runtime.
pub(crate) fn verb(node: usize, run: &Run) -> String {
    let verb = match &run.verb {
        Verb::Start { epoch, revision, .. } => format!("start {revision} at epoch {epoch}"),
        Verb::Prepare { .. } => "prepare".to_owned(),
        Verb::Refresh { .. } => "signal".to_owned(),
        Verb::Pause => "pause".to_owned(),
        Verb::Stop { .. } => "stop".to_owned(),
        Verb::Remove { purge, .. } => format!("remove, purge {purge}"),
    };
    format!("n{node} verb {} {}: {verb}", run.id.0, run.workload)
}

/// A request.
pub(crate) fn ask(op: u64, ask: &Ask) -> String {
    match ask {
        Ask::Apply { workload, revision, desired, .. } => {
            let revision = revision.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("#{op} apply {workload} {revision} {desired:?}")
        }
        Ask::Recover(how) => {
            let text = format!("{how:?}");
            format!("#{op} recover {}", text.chars().take(20).collect::<String>())
        }
        other => format!("#{op} {other:?}"),
    }
}

/// The answer to a request.
pub(crate) fn reply(op: u64, reply: &Reply) -> String {
    match reply {
        Reply::Done { note } => format!("#{op} done {note}"),
        Reply::Unknown { why } => format!("#{op} unknown: {why}"),
        Reply::Refused { code, why } => format!("#{op} refused {code:?}: {why}"),
    }
}
