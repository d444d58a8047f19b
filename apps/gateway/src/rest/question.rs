//! A question to a cluster, with everything it takes to ask it when whoever came with it is gone.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures::future::join_all;
use persys_proto::together::Together;
use persys_telemetry::trace::{self, Trail};
use tonic::{Code, Status};

use super::shared::{Answer, Asker, Given, Key};
use super::target::Target;
use crate::clusters::Call;

/// How old an answer is that is not of the present; schedulers say so, and it is passed on.
const AGE: &str = "persys-copy-age-ms";

/// A question that changes nothing.
#[derive(Debug, Clone)]
pub struct Question {
    /// Whom it goes to, and for whom.
    pub target: Arc<Target>,
    /// The method.
    pub rpc: &'static str,
    /// Why it is asked, in the caller's words.
    pub reason: Option<String>,
    /// The trace it is asked in.
    pub trail: Trail,
    /// How it goes together with others; nothing where it does not.
    pub together: Option<Together>,
}

impl Question {
    /// Asks with this method, for `target`; together with others where its cluster takes that.
    pub fn new(target: &Arc<Target>, rpc: &'static str, reason: Option<&str>) -> Self {
        let together =
            Together::of(rpc).filter(|_| target.cluster.is_asked_together(Instant::now()));
        Self {
            target: Arc::clone(target),
            rpc,
            reason: reason.map(ToOwned::to_owned),
            trail: trace::current(),
            together,
        }
    }

    /// What it can be asked as one with.
    pub fn key(&self, message: &Bytes) -> Key {
        let Target { cluster, caller, keys, .. } = &*self.target;
        Key {
            cluster: cluster.id.clone(),
            caller: Arc::clone(caller.key()),
            way: cluster.routing.told_apart_by(keys).to_owned(),
            rpc: self.rpc,
            message: self.together.is_none().then(|| message.clone()),
        }
    }

    async fn call(&self, rpc: &'static str, message: Bytes) -> Given {
        let is_safe = true;
        ask(&self.target, rpc, message, self.reason.as_deref(), is_safe).await
    }

    /// All of them as one; nothing where the cluster does not know how.
    async fn call_together(&self, messages: &[Bytes]) -> Option<Vec<Given>> {
        let together = self.together.filter(|_| messages.len() > 1)?;
        let question = together.question(messages)?;
        let all = |refusal: Status| Some(vec![Err(refusal); messages.len()]);
        match self.call(together.together(), question).await {
            Ok(Answer { message, age }) => match together.answers(messages.len(), &message) {
                Some(answers) => {
                    let given = |message| Answer { message, age };
                    Some(answers.into_iter().map(|one| one.map(given)).collect())
                }
                None => all(Status::internal("the scheduler answered something else")),
            },
            // It is of an earlier version; it is asked as ever for a while.
            Err(why) if why.code() == Code::Unimplemented => {
                self.target.cluster.is_asked_alone(Instant::now());
                None
            }
            Err(why) => all(together.refusal(&why)),
        }
    }

    async fn asked(&self, messages: Vec<Bytes>) -> Vec<Given> {
        if let Some(given) = self.call_together(&messages).await {
            return given;
        }
        join_all(messages.into_iter().map(|message| self.call(self.rpc, message))).await
    }
}

impl Asker for Question {
    async fn ask(self, messages: Vec<Bytes>) -> Vec<Given> {
        let trail = self.trail.clone();
        trace::scope(trail, self.asked(messages)).await
    }
}

/// Asks one question.
pub(super) async fn ask(
    target: &Target,
    rpc: &'static str,
    message: Bytes,
    reason: Option<&str>,
    is_safe: bool,
) -> Given {
    let Target { cluster, caller, source, keys } = target;
    let call = Call { path: rpc, message, caller, source: *source, reason, keys, is_safe };
    let answer = cluster.call(&call).await?;
    let age = answer.metadata().get(AGE).and_then(|text| text.to_str().ok()?.parse().ok());
    Ok(Answer { message: answer.into_inner(), age })
}
