//! The same question of the same caller, asked by many at a time, is asked once.
//!
//! ```text
//!   first ──▶ asks ─────────────────────▶ has its answer, hands the turn on
//!   second ──▶ waits ··· (came after the question was sent) ···▶ asks, for itself and
//!   third  ──▶ waits ··· ······································▶ for all who waited with it
//! ```
//!
//! Nobody gets an answer to a question that was sent before they asked theirs: what somebody changed
//! before they asked is in what they read. Nothing is kept once it was answered.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::oneshot;
use tonic::Status;

/// What a scheduler answered.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The message, in binary form.
    pub message: Bytes,
    /// How old it is, in milliseconds, where it is not of the present.
    pub age: Option<u64>,
}

type Given = Result<Answer, Status>;

/// What makes two questions the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// The cluster that is asked.
    pub cluster: String,
    /// For whom.
    pub caller: String,
    /// What tells which scheduler of it is asked; nothing where that does not depend on the request.
    pub way: String,
    /// The method.
    pub rpc: &'static str,
    /// Its message.
    pub message: Bytes,
}

/// What one who waits is told.
enum Turn {
    /// This is the answer.
    Given(Given),
    /// It is your turn to ask, for these too.
    Yours(Vec<Waiter>),
}

type Waiter = oneshot::Sender<Turn>;

/// Questions that are under way, each with those who wait for the next one.
#[derive(Default)]
pub struct Shared(Mutex<HashMap<Key, Vec<Waiter>>>);

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// One who asks, for itself and for others. Dropped before there is an answer, it hands the turn on.
struct Asking<'a> {
    shared: &'a Shared,
    key: Key,
    others: Vec<Waiter>,
    given: Option<Given>,
}

impl Shared {
    /// The answer to a question that is sent no earlier than now: by `ask`, or by somebody else who
    /// asks the same.
    pub async fn ask<F>(&self, key: Key, ask: impl FnOnce() -> F) -> Given
    where
        F: Future<Output = Given>,
    {
        let turn = match self.locked().entry(key.clone()) {
            std::collections::hash_map::Entry::Vacant(free) => {
                free.insert(Vec::new());
                None
            }
            std::collections::hash_map::Entry::Occupied(mut taken) => {
                let (to, turn) = oneshot::channel();
                taken.get_mut().push(to);
                Some(turn)
            }
        };
        let others = match turn {
            None => Vec::new(),
            Some(turn) => match turn.await {
                Ok(Turn::Given(given)) => return given,
                Ok(Turn::Yours(others)) => others,
                // Whoever had the turn is gone without a word, which cannot be; asking is right.
                Err(_) => return ask().await,
            },
        };
        let mut asking = Asking { shared: self, key, others, given: None };
        let given = ask().await;
        asking.given = Some(given.clone());
        given
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<Key, Vec<Waiter>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut all = self.shared.locked();
        let mut next = all.get_mut(&self.key).map(std::mem::take).unwrap_or_default();
        match self.given.take() {
            Some(given) => {
                for other in self.others.drain(..) {
                    // Whoever went away does not want to know.
                    drop(other.send(Turn::Given(given.clone())));
                }
            }
            // They came before the next question, so that will do for them too.
            None => next.splice(0..0, self.others.drain(..)).for_each(drop),
        }
        next.reverse();
        while let Some(first) = next.pop() {
            next.reverse();
            match first.send(Turn::Yours(next)) {
                Ok(()) => return,
                Err(Turn::Yours(rest)) => next = rest,
                Err(Turn::Given(_)) => next = Vec::new(),
            }
            next.reverse();
        }
        all.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::sync::Semaphore;
    use tokio::task::JoinSet;

    use super::*;

    fn key(caller: &str) -> Key {
        Key {
            cluster: "c".to_owned(),
            caller: caller.to_owned(),
            way: String::new(),
            rpc: "/x",
            message: Bytes::new(),
        }
    }

    /// A server whose answer is how often it was asked, given when somebody says so.
    #[derive(Clone)]
    struct Server {
        asked: Arc<AtomicU64>,
        answers: Arc<Semaphore>,
    }

    impl Server {
        fn new() -> Self {
            Self { asked: Arc::default(), answers: Arc::new(Semaphore::new(0)) }
        }

        async fn ask(self) -> Given {
            let nth = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
            self.answers.acquire().await.unwrap().forget();
            Ok(Answer { message: Bytes::new(), age: Some(nth) })
        }
    }

    /// Everybody is where they wait: there is one thread, and each has had its turns.
    async fn settled() {
        for _ in 0..16 {
            tokio::task::yield_now().await;
        }
    }

    async fn come(shared: &Arc<Shared>, server: &Server, tasks: &mut JoinSet<u64>, caller: &str) {
        let (shared, server, key) = (Arc::clone(shared), server.clone(), key(caller));
        tasks.spawn(async move { shared.ask(key, || server.ask()).await.unwrap().age.unwrap() });
        settled().await;
    }

    #[tokio::test]
    async fn nobody_gets_an_answer_to_a_question_that_was_sent_before_theirs() {
        let (shared, server, mut tasks) = (Arc::<Shared>::default(), Server::new(), JoinSet::new());
        come(&shared, &server, &mut tasks, "a").await;
        for _ in 0..9 {
            come(&shared, &server, &mut tasks, "a").await;
        }
        server.answers.add_permits(1);
        assert_eq!(tasks.join_next().await.unwrap().unwrap(), 1, "the first has its own");
        settled().await;
        come(&shared, &server, &mut tasks, "a").await;
        server.answers.add_permits(5);
        let mut all = Vec::new();
        while let Some(one) = tasks.join_next().await {
            all.push(one.unwrap());
        }
        assert_eq!(all.iter().filter(|nth| **nth == 2).count(), 9, "{all:?}");
        assert_eq!(all.iter().filter(|nth| **nth == 3).count(), 1, "who came later: {all:?}");
        assert_eq!(server.asked.load(Ordering::SeqCst), 3);
        assert!(shared.locked().is_empty(), "nothing is kept");
    }

    #[tokio::test]
    async fn callers_do_not_share_with_each_other() {
        let (shared, server, mut tasks) = (Arc::<Shared>::default(), Server::new(), JoinSet::new());
        come(&shared, &server, &mut tasks, "a").await;
        come(&shared, &server, &mut tasks, "b").await;
        assert_eq!(server.asked.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn who_goes_away_in_the_middle_hands_the_turn_on() {
        let (shared, server) = (Arc::<Shared>::default(), Server::new());
        let (mut first, mut second, mut rest) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
        come(&shared, &server, &mut first, "a").await;
        come(&shared, &server, &mut second, "a").await;
        for _ in 0..3 {
            come(&shared, &server, &mut rest, "a").await;
        }
        second.shutdown().await;
        first.shutdown().await;
        settled().await;
        assert_eq!(server.asked.load(Ordering::SeqCst), 2, "the third asks in their place");
        server.answers.add_permits(9);
        while let Some(one) = rest.join_next().await {
            assert_eq!(one.unwrap(), 2);
        }
        assert!(shared.locked().is_empty());
    }
}
