//! Events of the daemon, as hints to look again.
//!
//! The stream finds the daemon again after an outage and then says "look at everything". It asks for
//! events since just before that, so nothing falls between looking and listening.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bollard::models::EventMessage;
use bollard::query_parameters::EventsOptionsBuilder;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use persys_model::id::WorkloadId;

use crate::error::Error;
use crate::inside::{Wakeup, Wakeups};

use super::{Docker, call, identity};

/// What can change how a container is.
const EVENTS: [&str; 8] =
    ["create", "start", "die", "oom", "pause", "unpause", "destroy", "rename"];
/// The first wait after a lost connection; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

type Events = BoxStream<'static, Result<EventMessage, bollard::errors::Error>>;

/// Where the listener stands.
struct Listener {
    docker: Docker,
    events: Option<Events>,
    wait: Duration,
    ready: VecDeque<Wakeup>,
}

impl Wakeups for Docker {
    fn wakeups(&self) -> BoxStream<'static, Wakeup> {
        let docker = self.clone();
        let listener =
            Listener { docker, events: None, wait: Duration::ZERO, ready: VecDeque::new() };
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
            match events.next().await {
                Some(Ok(event)) => {
                    self.wait = Duration::ZERO;
                    self.ready.extend(workload_of(event).map(Wakeup::Workload));
                }
                // One event we cannot read is still a sign that something happened.
                Some(Err(bollard::errors::Error::JsonDataError { .. })) => {
                    self.ready.push_back(Wakeup::Everything);
                }
                Some(Err(_)) | None => self.lost(),
            }
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
        ("label", identity::label_filter(&docker.owner)),
        ("event", EVENTS.map(ToOwned::to_owned).to_vec()),
    ]);
    let since = since.as_secs().to_string();
    let options = EventsOptionsBuilder::default().since(&since).filters(&filters).build();
    Ok(client.events(Some(options)).boxed())
}

fn workload_of(event: EventMessage) -> Option<WorkloadId> {
    let attributes = event.actor?.attributes?;
    WorkloadId::new(attributes.get(identity::WORKLOAD)?).ok()
}
