//! Events of the daemon, as hints to look again.
//!
//! The stream finds the daemon again after an outage and then says "look at everything". It asks for
//! events since just before that, so nothing falls between looking and listening.
//!
//! Docker tells of some changes before its lists show them: a container that ended is listed as
//! running for a moment after its `die`. Whoever looked at once would see nothing, and no other event
//! would come. Docker holds the container's lock until its lists are right, and an inspection waits
//! for that lock; so such an event is passed on when an inspection has come back.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bollard::models::EventMessage;
use bollard::query_parameters::{EventsOptionsBuilder, InspectContainerOptions};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, FuturesUnordered};
use persys_model::id::WorkloadId;

use crate::error::Error;
use crate::inside::{Wakeup, Wakeups};

use super::{Docker, call, identity};

/// What can change how a container is.
const EVENTS: [&str; 9] =
    ["create", "start", "die", "oom", "pause", "unpause", "destroy", "rename", "health_status"];
/// Events after which lists are right at once.
const SHOWN: [&str; 3] = ["create", "start", "destroy"];
/// The first wait after a lost connection; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

type Events = BoxStream<'static, Result<EventMessage, bollard::errors::Error>>;

/// Where the listener stands.
struct Listener {
    docker: Docker,
    whose: Whose,
    events: Option<Events>,
    wait: Duration,
    ready: VecDeque<Wakeup>,
    /// What lists may not show yet. Each waits on its own: a container the daemon is stuck on holds
    /// up no other.
    unsettled: FuturesUnordered<BoxFuture<'static, Wakeup>>,
}

/// Whose events are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Those of containers that are workloads themselves.
    Containers,
    /// Those of containers that belong to a stack.
    Stacks,
}

impl Wakeups for Docker {
    fn wakeups(&self) -> BoxStream<'static, Wakeup> {
        self.hints(Whose::Containers)
    }
}

impl Docker {
    pub(crate) fn hints(&self, whose: Whose) -> BoxStream<'static, Wakeup> {
        let listener = Listener {
            docker: self.clone(),
            whose,
            events: None,
            wait: Duration::ZERO,
            ready: VecDeque::new(),
            unsettled: FuturesUnordered::new(),
        };
        stream::unfold(listener, |mut listener| async {
            let wakeup = listener.next().await;
            Some((wakeup, listener))
        })
        .boxed()
    }
}

impl Listener {
    async fn next(&mut self) -> Wakeup {
        loop {
            if let Some(wakeup) = self.ready.pop_front() {
                return wakeup;
            }
            let Some(events) = &mut self.events else {
                self.connect().await;
                continue;
            };
            let event = tokio::select! {
                event = events.next() => event,
                Some(wakeup) = self.unsettled.next() => return wakeup,
            };
            match event {
                Some(Ok(event)) => {
                    self.wait = Duration::ZERO;
                    self.hear(event);
                }
                // One event we cannot read is still a sign that something happened.
                Some(Err(bollard::errors::Error::JsonDataError { .. })) => {
                    self.ready.push_back(Wakeup::Everything);
                }
                Some(Err(_)) | None => self.lost(),
            }
        }
    }

    fn hear(&mut self, event: EventMessage) {
        let shown = event.action.as_deref().is_some_and(|action| SHOWN.contains(&action));
        let Some((id, workload)) = subject_of(&self.docker, event, self.whose) else { return };
        let wakeup = Wakeup::Workload(workload);
        if shown {
            self.ready.push_back(wakeup);
        } else {
            self.unsettled.push(Box::pin(settled(self.docker.clone(), id, wakeup)));
        }
    }

    async fn connect(&mut self) {
        tokio::time::sleep(self.wait).await;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let since = since.saturating_sub(Duration::from_secs(1));
        match open(&self.docker, since).await {
            Ok(events) => {
                self.events = Some(events);
                self.ready.push_back(Wakeup::Everything);
            }
            Err(_) => self.lost(),
        }
    }

    fn lost(&mut self) {
        self.events = None;
        self.wait = (self.wait * 2).clamp(FIRST_WAIT, LONGEST_WAIT);
    }
}

async fn open(docker: &Docker, since: Duration) -> Result<Events, Error> {
    let client = docker.client()?;
    // The event stream is silent when all is well; only a question tells whether it is.
    call::ask("events", docker.settings.deadlines.ask, client.ping()).await?;
    let filters = HashMap::from([
        ("type", vec!["container".to_owned()]),
        // What was taken over names neither cluster nor node.
        ("label", vec![format!("{}=true", identity::MANAGED)]),
        ("event", EVENTS.map(ToOwned::to_owned).to_vec()),
    ]);
    let since = since.as_secs().to_string();
    let options = EventsOptionsBuilder::default().since(&since).filters(&filters).build();
    Ok(client.events(Some(options)).boxed())
}

/// Passes `wakeup` on when lists show what happened to the container.
async fn settled(docker: Docker, id: String, wakeup: Wakeup) -> Wakeup {
    if let Ok(client) = docker.client() {
        let inspection = client.inspect_container(&id, None::<InspectContainerOptions>);
        // Whatever it says: it has come back, or never will.
        drop(call::ask("events", docker.settings.deadlines.ask, inspection).await);
    }
    wakeup
}

/// The container and the workload an event is about.
fn subject_of(docker: &Docker, event: EventMessage, whose: Whose) -> Option<(String, WorkloadId)> {
    let actor = event.actor?;
    let attributes = actor.attributes?;
    // The containers of a stack are in no revision of their own.
    let of =
        if attributes.contains_key(identity::REVISION) { Whose::Containers } else { Whose::Stacks };
    if of != whose {
        return None;
    }
    let id = actor.id?;
    let workload = identity::workload_of(&docker.owner, &attributes)
        .or_else(|| docker.adopted.workload_of(&id))?;
    Some((id, workload))
}
