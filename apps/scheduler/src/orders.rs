//! The orders of one agent: several under way at a time, those about one workload in turn.
//!
//! Orders about different workloads have nothing to do with each other, and an agent that waits for
//! its disk answers many at once as quickly as one. About one workload the later order is the one
//! that counts. Ours would refuse an earlier one that comes late, by its epoch; old agents know no
//! epochs.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use persys_cluster::input::{Input, Undelivered};
use persys_model::command::Command;
use persys_model::id::WorkloadId;
use persys_telemetry::trace;
use tokio::sync::mpsc;

use crate::links::{Links, OrderAnswer, Target, Unreachable};
use crate::metrics::{self, Metrics};
use crate::operations::Operations;

/// Most orders under way at one agent.
const MOST_UNDER_WAY: usize = 32;

/// Gives the orders of `queue` until it ends, and passes the answers on.
pub(crate) async fn give(
    links: Arc<dyn Links>,
    mut queue: mpsc::Receiver<(Target, Command)>,
    answers: mpsc::Sender<Input>,
    (counted, operations): (Arc<Metrics>, Arc<Operations>),
) {
    let mut under_way = FuturesUnordered::new();
    let mut busy: BTreeSet<WorkloadId> = BTreeSet::new();
    // The next order, while an earlier one about its workload is under way.
    let mut waits: Option<(Target, Command)> = None;
    loop {
        if let Some((to, command)) = waits.take_if(|(_, next)| !busy.contains(&next.workload)) {
            busy.insert(command.workload.clone());
            under_way.push(one(links.as_ref(), (&counted, &operations), to, command));
        }
        let room = waits.is_none() && under_way.len() < MOST_UNDER_WAY;
        tokio::select! {
            Some((workload, answer)) = under_way.next() => {
                busy.remove(&workload);
                if answers.send(answer).await.is_err() {
                    return;
                }
            }
            Some(next) = queue.recv(), if room => waits = Some(next),
            else => return,
        }
    }
}

/// Gives one order; what becomes of it is for the core.
async fn one(
    links: &dyn Links,
    (counted, operations): (&Metrics, &Operations),
    to: Target,
    command: Command,
) -> (WorkloadId, Input) {
    let (session, workload, epoch) = (command.session, command.workload.clone(), command.epoch);
    let action = metrics::action(&command.order);
    let mut span = operations.dispatched(&to, &command);
    let answer = trace::scope(span.trail().clone(), links.order(&to, command)).await;
    counted.ordered(action, answer.as_ref().ok().map(|given| &given.answer));
    operations.answered(&mut span, &to, (&workload, epoch), &answer);
    let (node, about) = (to.node, workload.clone());
    let input = match answer {
        Ok(OrderAnswer { answer, task }) => {
            Input::Answered { node, session, workload: about, epoch, answer, task }
        }
        Err(Unreachable { why, may_have_arrived }) => {
            let why = Arc::from(why);
            let workload = about;
            Input::Undelivered(Undelivered {
                node,
                session,
                workload,
                epoch,
                may_have_arrived,
                why,
            })
        }
    };
    (workload, input)
}
