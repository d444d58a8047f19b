//! Those who wait for an answer of the core.

use std::collections::BTreeMap;

use persys_cluster::effects::Reply;
use persys_cluster::input::RequestId;
use persys_model::link::{BeatAnswer, RegistrationAnswer};
use tokio::sync::oneshot;

use crate::handle::Unanswered;

/// Where an answer goes.
pub(crate) type To<T> = oneshot::Sender<Result<T, Unanswered>>;

/// One who waits.
#[derive(Debug)]
pub(crate) enum Caller {
    Registration(To<RegistrationAnswer>),
    Beat(To<BeatAnswer>),
    Ask(To<Reply>),
}

/// All who wait, by the number the core knows them by. One who went away is forgotten when the
/// list is next swept; the list is as long as callers are patient.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    waiting: BTreeMap<RequestId, Caller>,
    last: u64,
}

/// How many may join between two sweeps.
const SWEEP_EVERY: u64 = 1024;

impl Callers {
    pub(crate) fn join(&mut self, caller: Caller) -> RequestId {
        self.last += 1;
        if self.last.is_multiple_of(SWEEP_EVERY) {
            self.waiting.retain(|_, caller| !caller.is_gone());
        }
        let request = RequestId(self.last);
        self.waiting.insert(request, caller);
        request
    }

    pub(crate) fn registered(&mut self, request: RequestId, answer: RegistrationAnswer) {
        if let Some(Caller::Registration(to)) = self.waiting.remove(&request) {
            drop(to.send(Ok(answer)));
        }
    }

    pub(crate) fn heard(&mut self, request: RequestId, answer: BeatAnswer) {
        if let Some(Caller::Beat(to)) = self.waiting.remove(&request) {
            drop(to.send(Ok(answer)));
        }
    }

    pub(crate) fn replied(&mut self, request: RequestId, reply: Reply) {
        if let Some(Caller::Ask(to)) = self.waiting.remove(&request) {
            drop(to.send(Ok(reply)));
        }
    }

    /// This process does not lead.
    pub(crate) fn turn_away(&mut self, request: RequestId) {
        match self.waiting.remove(&request) {
            Some(Caller::Registration(to)) => drop(to.send(Err(Unanswered::NotLeader))),
            Some(Caller::Beat(to)) => drop(to.send(Err(Unanswered::NotLeader))),
            Some(Caller::Ask(to)) => drop(to.send(Err(Unanswered::NotLeader))),
            None => {}
        }
    }
}

impl Caller {
    fn is_gone(&self) -> bool {
        match self {
            Self::Registration(to) => to.is_closed(),
            Self::Beat(to) => to.is_closed(),
            Self::Ask(to) => to.is_closed(),
        }
    }
}
