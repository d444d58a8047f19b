//! Questions of the same caller that many ask at a time are asked once, and where the cluster can
//! answer several as one, different ones too.
//!
//! ```text
//!   first  ──▶ a task asks ──────────────────────────▶ answers it ─▶ takes all who wait ─▶ …
//!   second ──▶ waits ··· (came after the question was sent) ·········▶ is asked for, together
//!   third  ──▶ waits ··· ············································▶ with the third
//! ```
//!
//! Once half as many wait as are asked for, another task asks for them: while the scheduler works for
//! some, this process and its callers work for the others.
//!
//! Nobody gets an answer to a question that was sent before they asked theirs: what somebody changed
//! before they asked is in what they read. Nothing is kept once it was answered.
//!
//! Asking is done by tasks that belong to no caller. Whoever goes away, at whatever moment, takes
//! nothing with them that others wait for.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use persys_proto::together::MOST;
use tokio::sync::oneshot;
use tonic::Status;

/// How often all others have their turn before a question is sent.
const ROUNDS: usize = 4;
/// Questions under way at a time where different ones go together: one is with the scheduler, one on the
/// way there, one on the way back.
const MOST_UNDER_WAY: usize = 3;

/// What a scheduler answered.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The message, in binary form.
    pub message: Bytes,
    /// How old it is, in milliseconds, where it is not of the present.
    pub age: Option<u64>,
}

/// What comes of a question.
pub type Given = Result<Answer, Status>;

/// Whoever can ask, for one and for all who wait with them.
pub trait Asker: Send + 'static {
    /// Asks each of these questions, which are at most [`MOST`], and no two the same; gives as many
    /// answers, in the same order.
    fn ask(self, messages: Vec<Bytes>) -> impl Future<Output = Vec<Given>> + Send;
}

/// What makes it possible to ask two questions as one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// The cluster that is asked.
    pub cluster: String,
    /// For whom.
    pub caller: Arc<str>,
    /// What tells which scheduler of it is asked; nothing where that does not depend on the request.
    pub way: String,
    /// The method.
    pub rpc: &'static str,
    /// The one question there is; nothing where different ones go together.
    pub message: Option<Bytes>,
}

/// One who waits.
struct Waiting<A> {
    asker: A,
    message: Bytes,
    to: oneshot::Sender<Given>,
}

/// Everybody of one key; it is there as long as a task asks.
struct Lane<A> {
    /// Those who are not asked for yet.
    waiting: Vec<Waiting<A>>,
    /// How many tasks ask.
    tasks: usize,
    /// For how many they ask.
    asked: usize,
}

impl<A> Lane<A> {
    /// Whether those who wait are enough for one more task.
    fn is_enough(&self) -> bool {
        self.asked > 0 && self.waiting.len() * 2 >= self.asked
    }
}

type Lanes<A> = Mutex<HashMap<Arc<Key>, Lane<A>>>;

/// Questions that are under way, each with those who wait for the next one.
pub struct Shared<A>(Arc<Lanes<A>>);

impl<A> std::fmt::Debug for Shared<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl<A> Default for Shared<A> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<A: Asker> Shared<A> {
    /// The answer to a question that is sent no earlier than now: by `asker`, or by somebody else
    /// who asks the same, or something else together with it.
    pub async fn ask(&self, key: Key, message: Bytes, asker: A) -> Given {
        let (to, given) = oneshot::channel();
        let most = if key.message.is_some() { 1 } else { MOST_UNDER_WAY };
        let key = Arc::new(key);
        let begins = {
            let mut all = locked(&self.0);
            let lane = match all.entry(Arc::clone(&key)) {
                Entry::Occupied(there) => there.into_mut(),
                Entry::Vacant(free) => {
                    free.insert(Lane { waiting: Vec::new(), tasks: 0, asked: 0 })
                }
            };
            lane.waiting.push(Waiting { asker, message, to });
            let begins = lane.tasks == 0 || lane.tasks < most && lane.is_enough();
            lane.tasks += usize::from(begins);
            begins
        };
        if begins {
            let turn = Turn { lanes: Arc::clone(&self.0), key, asked: 0, is_over: false };
            tokio::spawn(turn.run());
        }
        given.await.unwrap_or_else(|_| Err(broke_off()))
    }
}

fn locked<A>(lanes: &Lanes<A>) -> MutexGuard<'_, HashMap<Arc<Key>, Lane<A>>> {
    lanes.lock().unwrap_or_else(PoisonError::into_inner)
}

fn broke_off() -> Status {
    Status::unavailable("the question broke off; ask again")
}

/// A task that asks for those who wait until nobody does, or until there are too few for it beside another.
/// However it ends, it leaves nobody waiting for it.
struct Turn<A> {
    lanes: Arc<Lanes<A>>,
    key: Arc<Key>,
    /// For how many it asks.
    asked: usize,
    is_over: bool,
}

/// Those who are asked for together.
struct Round<A> {
    asker: A,
    messages: Vec<Bytes>,
    /// Who waits for the answer to which of them.
    waiting: Vec<(usize, oneshot::Sender<Given>)>,
}

impl<A: Asker> Turn<A> {
    async fn run(mut self) {
        others_first().await;
        while let Some(Round { asker, messages, mut waiting }) = self.next() {
            let given = tokio::select! {
                biased;
                given = asker.ask(messages) => given,
                // What nobody wants to know any more need not be answered.
                () = all_gone(&mut waiting) => continue,
            };
            for (nth, to) in waiting {
                // Whoever went away does not want to know.
                drop(to.send(given.get(nth).cloned().unwrap_or_else(|| Err(broke_off()))));
            }
            others_first().await;
        }
    }
}

impl<A> Turn<A> {
    /// Takes those who wait, as many as can be asked for at once. Where there are none, or another task
    /// will take them, it is over.
    fn next(&mut self) -> Option<Round<A>> {
        let mut all = locked(&self.lanes);
        let lane = all.get_mut(&self.key)?;
        lane.asked = lane.asked.saturating_sub(std::mem::take(&mut self.asked));
        lane.waiting.retain(|one| !one.to.is_closed());
        let is_needed = if lane.tasks > 1 { lane.is_enough() } else { !lane.waiting.is_empty() };
        if !is_needed {
            self.is_over = true;
            leave(&mut all, &self.key);
            return None;
        }
        let mut left = std::mem::take(&mut lane.waiting).into_iter();
        let first = left.next()?;
        let mut messages = vec![first.message.clone()];
        let mut places = HashMap::from([(first.message, 0)]);
        let mut waiting = vec![(0, first.to)];
        for one in left {
            let place = places.get(&one.message).copied();
            if place.is_none() && messages.len() >= MOST {
                lane.waiting.push(one);
                continue;
            }
            let place = place.unwrap_or_else(|| {
                messages.push(one.message.clone());
                places.insert(one.message, messages.len() - 1);
                messages.len() - 1
            });
            waiting.push((place, one.to));
        }
        self.asked = waiting.len();
        lane.asked += self.asked;
        Some(Round { asker: first.asker, messages, waiting })
    }
}

/// One task less asks for this. Who still waits when it was the last is told that nobody asks.
fn leave<A>(all: &mut HashMap<Arc<Key>, Lane<A>>, key: &Arc<Key>) {
    if let Some(lane) = all.get_mut(key) {
        lane.tasks = lane.tasks.saturating_sub(1);
        if lane.tasks == 0 {
            all.remove(key);
        }
    }
}

/// Lets those come who are about to ask: what is ready runs, and what came in by now is ready. Where
/// nobody is, it takes no time.
async fn others_first() {
    for _ in 0..ROUNDS {
        tokio::task::yield_now().await;
    }
}

/// Waits until nobody waits.
async fn all_gone(waiting: &mut [(usize, oneshot::Sender<Given>)]) {
    for (_, to) in waiting {
        to.closed().await;
    }
}

impl<A> Drop for Turn<A> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // It was ended in the middle.
        let mut all = locked(&self.lanes);
        if let Some(lane) = all.get_mut(&self.key) {
            lane.asked = lane.asked.saturating_sub(self.asked);
        }
        leave(&mut all, &self.key);
    }
}
