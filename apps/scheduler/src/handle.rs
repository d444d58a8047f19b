//! How everybody else talks to the driver.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use persys_cluster::effects::Reply;
use persys_cluster::input::Ask;
use persys_cluster::world::World;
use persys_model::entry::Entries;
use persys_model::event::Event;
use persys_model::link::{Beat, BeatAnswer, Registration, RegistrationAnswer};
use persys_model::time::WallMillis;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::time::timeout;

use crate::author::{self, Asker};
use crate::callers::To;
use crate::copies::Copies;
use crate::operations::Operations;
use crate::standing::Standing;

/// How long a caller waits for the core before it is told to come again.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// Another process leads, or none does at present.
    #[error("this scheduler does not lead at present")]
    NotLeader,
    /// The core did not answer in time; whether the change happened is unknown.
    #[error("no answer in time; the change may or may not have happened, and asking again is safe")]
    TimedOut,
    /// The scheduler is shutting down.
    #[error("the scheduler is stopping")]
    Stopping,
}

/// What goes to the driver.
pub(crate) enum Inbox {
    Register(Box<Registration>, To<RegistrationAnswer>),
    Beat(Box<Beat>, To<BeatAnswer>),
    Ask(Asker, Box<Ask>, To<Reply>),
    /// The same, if what it rests on still holds.
    AskIf(Condition, Asker, Box<Ask>, To<Reply>),
    /// A beat that is made of the cluster as it is when the beat is taken in.
    BeatOf(Maker, To<BeatAnswer>),
    Read(Reader),
    LeaderSilent,
}

/// Makes a beat, or none.
type Maker = Box<dyn FnOnce(&World) -> Option<Beat> + Send>;

/// Looks at the cluster from inside the driver; gets `None` when this process does not lead.
type Reader = Box<dyn FnOnce(Option<&World>) + Send>;

/// Whether what a wish rests on still holds; looked at right before it is carried out.
type Condition = Box<dyn FnOnce(&World) -> bool + Send>;

/// What was seen, and how old it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Looked<T> {
    /// What was seen.
    pub value: T,
    /// Where.
    pub from: Source,
}

/// Where somebody looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// At the cluster itself.
    Present,
    /// At what the leader remembers while its store is away; since so many milliseconds.
    Memory(u64),
    /// At the copy of a process that does not lead; so many milliseconds old.
    Copy(u64),
}

impl Source {
    /// Whichever of both is further from the present.
    #[must_use]
    pub fn older(self, other: Self) -> Self {
        if other.age() > self.age() { other } else { self }
    }

    fn age(self) -> Option<u64> {
        match self {
            Self::Present => None,
            Self::Memory(age) | Self::Copy(age) => Some(age),
        }
    }
}

impl<T> Looked<T> {
    /// The same with another value.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Looked<U> {
        Looked { value: change(self.value), from: self.from }
    }
}

/// The records requests are judged by, as this process knows them.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// The records.
    pub entries: Arc<Entries>,
    /// Whether they are the leader's own; otherwise they are of a copy.
    pub leading: bool,
}

/// A way to the driver; cheap to clone.
#[derive(Clone)]
pub struct Handle {
    pub(crate) inbox: mpsc::Sender<Inbox>,
    pub(crate) events: broadcast::Sender<Arc<Event>>,
    pub(crate) standing: watch::Receiver<Standing>,
    pub(crate) copies: Arc<Copies>,
    pub(crate) entries: watch::Receiver<Known>,
    pub(crate) operations: Arc<Operations>,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

impl Handle {
    /// How many requests wait for the driver.
    pub(crate) fn waiting(&self) -> usize {
        self.inbox.max_capacity().saturating_sub(self.inbox.capacity())
    }

    /// The date, as the driver has it.
    pub(crate) fn date(&self) -> WallMillis {
        self.copies.now().wall
    }

    /// An agent begins a life.
    pub async fn register(
        &self,
        registration: Registration,
    ) -> Result<RegistrationAnswer, Unanswered> {
        self.call(|to| Inbox::Register(Box::new(registration), to)).await
    }

    /// An agent beats.
    pub async fn beat(&self, beat: Beat) -> Result<BeatAnswer, Unanswered> {
        self.call(|to| Inbox::Beat(Box::new(beat), to)).await
    }

    /// A beat for an agent that knows no decisions: it is made of the cluster as it is when the beat is
    /// taken in. `None` if there is nothing to tell.
    pub(crate) async fn beat_of(
        &self,
        make: impl FnOnce(&World) -> Option<Beat> + Send + 'static,
    ) -> Result<Option<BeatAnswer>, Unanswered> {
        let nothing = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&nothing);
        let make = move |world: &World| {
            let beat = make(world);
            seen.store(beat.is_none(), Ordering::Relaxed);
            beat
        };
        match self.call(|to| Inbox::BeatOf(Box::new(make), to)).await {
            Err(Unanswered::Stopping) if nothing.load(Ordering::Relaxed) => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Somebody wants something: whoever the request under way is from.
    pub async fn ask(&self, ask: Ask) -> Result<Reply, Unanswered> {
        let asker = author::current();
        let mut span = self.operations.asked(&ask);
        let answer = self.call(|to| Inbox::Ask(asker, Box::new(ask), to)).await;
        if let Err(why) = &answer {
            span.fail(why);
        }
        answer
    }

    /// The same, if what it rests on still holds: nothing comes in between. `None` if it does not.
    pub(crate) async fn ask_if(
        &self,
        ask: Ask,
        holds: impl FnOnce(&World) -> bool + Send + 'static,
    ) -> Result<Option<Reply>, Unanswered> {
        let asker = author::current();
        let failed = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&failed);
        let holds = move |world: &World| {
            let holds = holds(world);
            seen.store(!holds, Ordering::Relaxed);
            holds
        };
        let reply = self.call(|to| Inbox::AskIf(Box::new(holds), asker, Box::new(ask), to)).await?;
        Ok((!failed.load(Ordering::Relaxed)).then_some(reply))
    }

    /// Looks at the cluster.
    pub async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&World) -> T + Send + 'static,
    ) -> Result<T, Unanswered> {
        self.call(|to: To<T>| {
            Inbox::Read(Box::new(move |world| {
                drop(to.send(world.map(look).ok_or(Unanswered::NotLeader)));
            }))
        })
        .await
    }

    /// Looks at the cluster, or at a copy of it where this process does not lead. Nothing may be
    /// decided on what is seen.
    pub async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&World) -> T + Send + 'static,
    ) -> Result<Looked<T>, Unanswered> {
        let leads = self.standing.borrow().mode.is_some();
        if leads {
            let seen = move |world: &World| (look(world), world.unconfirmed_since());
            let (value, since) = self.read(seen).await?;
            let age = since.map(|since| self.copies.now().mono.since(since));
            return Ok(Looked { value, from: age.map_or(Source::Present, Source::Memory) });
        }
        let copy = self.copies.get().await.ok_or(Unanswered::NotLeader)?;
        let age = self.copies.now().mono.since(copy.read_at());
        Ok(Looked { value: look(copy.world()), from: Source::Copy(age) })
    }

    /// Looks at the cluster, or at the copy at hand where this process does not lead. No copy is read
    /// for it: `None` where there is none.
    pub(crate) async fn glance<T: Send + 'static>(
        &self,
        look: impl FnOnce(&World) -> T + Send + 'static,
    ) -> Option<T> {
        let leads = self.standing.borrow().mode.is_some();
        if leads {
            return self.read(look).await.ok();
        }
        let copy = self.copies.at_hand()?;
        Some(look(copy.world()))
    }

    /// The records requests are judged by, without asking the driver.
    #[must_use]
    pub fn entries(&self) -> Arc<Entries> {
        Arc::clone(&self.entries.borrow().entries)
    }

    /// The same, to be told when they change.
    #[must_use]
    pub fn watch_entries(&self) -> watch::Receiver<Known> {
        self.entries.clone()
    }

    /// Says that whoever leads does not answer, so that it is found out soon who does.
    pub(crate) fn leader_is_silent(&self) {
        // With so much to do, it is found out in a moment anyway.
        drop(self.inbox.try_send(Inbox::LeaderSilent));
    }

    /// How old the copy of a process that does not lead is, if it has one.
    #[must_use]
    pub fn copy_age(&self) -> Option<u64> {
        self.copies.age()
    }

    /// Events from now on, as they become durable.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<Arc<Event>> {
        self.events.subscribe()
    }

    /// Whether this process leads and what it may do, without asking the driver.
    #[must_use]
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.clone()
    }

    async fn call<T>(&self, message: impl FnOnce(To<T>) -> Inbox) -> Result<T, Unanswered> {
        let (to, answer) = oneshot::channel();
        if self.inbox.send(message(to)).await.is_err() {
            return Err(Unanswered::Stopping);
        }
        match timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Unanswered::Stopping),
            Err(_) => Err(Unanswered::TimedOut),
        }
    }
}
