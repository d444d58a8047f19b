//! Follows the cluster and tells those who answer for its names: the DNS server of this process, and
//! the records that `CoreDNS` serves.
//!
//! Events say what to look at again; a look at everything now and then is the net below. Questions
//! never reach the driver.

use std::future::pending;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use persys_cluster::discovery::{Change, Directory, News, Touched, Zones};
use persys_dns::{Book, Publisher, RecordSink, Rights, Server};
use persys_model::event::Event;
use persys_model::mode::Mode;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use crate::handle::{Handle, Unanswered};
use crate::standing::Standing;

/// How long changes are gathered before the driver is asked.
const GATHER: Duration = Duration::from_millis(50);
/// How often everything is looked at, whatever the events said.
const FULL_LOOK: Duration = Duration::from_secs(30);
/// The wait before a look that failed is tried again.
const AGAIN: Duration = Duration::from_millis(500);
/// How long names are answered from what was known last, once nothing more is heard of the cluster.
const STALE: Duration = Duration::from_mins(1);
/// Batches of changes that may wait for whoever writes records.
const MOST_BATCHES: usize = 256;

/// Under which names everything is found, and who answers for them: by default nobody.
#[derive(Clone, Default)]
pub struct Discovery {
    /// The domains.
    pub zones: Zones,
    /// The DNS server of this process.
    pub dns: Dns,
    /// Whether records are kept for other servers, in the etcd of the store if there is one.
    pub publish: bool,
    /// Where else they are kept.
    pub sink: Option<Arc<dyn RecordSink>>,
}

impl Discovery {
    /// The same, with the place the store offers for names, if they are wanted and have no other.
    pub(crate) fn with_names_in(mut self, offered: Option<Arc<dyn RecordSink>>) -> Self {
        if self.publish && self.sink.is_none() {
            self.sink = offered;
        }
        self
    }
}

impl std::fmt::Debug for Discovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Discovery")
            .field("zones", &self.zones)
            .field("dns", &self.dns)
            .field("publish", &self.publish)
            .finish_non_exhaustive()
    }
}

/// The DNS server of a scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dns {
    /// There is none.
    #[default]
    Off,
    /// Here; a port that is taken is warned about, and there is none.
    At(SocketAddr),
    /// Here, or on any other port if this one is taken.
    Near(SocketAddr),
}

/// What was started.
pub(crate) struct Naming {
    /// Where questions are answered.
    pub(crate) dns: Option<SocketAddr>,
    /// Runs until the process stops, then takes records away.
    pub(crate) work: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// Starts whatever is wanted. Nothing that goes wrong here keeps a scheduler from starting.
pub(crate) async fn start(
    wanted: Discovery,
    handle: &Handle,
    own: SocketAddr,
    shadow: bool,
    stopping: watch::Receiver<bool>,
) -> Naming {
    let mut wanted = wanted;
    if shadow {
        tracing::warn!("the cluster is in shadow: no port is published and no name announced");
    }
    // In shadow the scheduler of another system may have the same names, here and in etcd.
    let announced = (!shadow).then_some(own);
    wanted.sink = wanted.sink.filter(|_| !shadow);
    let server = bind(wanted.dns).await;
    let dns = server.as_ref().map(|server| server.address);
    if server.is_none() && wanted.sink.is_none() {
        return Naming { dns, work: Box::pin(async {}) };
    }
    let book = Arc::new(Book::new(wanted.zones.clone()));
    let follower = Follower {
        directory: Directory::new(wanted.zones.clone(), announced),
        book: Arc::clone(&book),
        publish: None,
        handle: handle.clone(),
        known_at: None,
    };
    let work = async move {
        let serving = async {
            match server {
                Some(server) => server.serve(book).await,
                None => pending().await,
            }
        };
        let following = follow(follower, wanted.sink, wanted.zones, stopping);
        tokio::select! {
            () = serving => {}
            () = following => {}
        }
    };
    Naming { dns, work: Box::pin(work) }
}

async fn bind(dns: Dns) -> Option<Server> {
    let (at, near) = match dns {
        Dns::Off => return None,
        Dns::At(at) => (at, false),
        Dns::Near(at) => (at, true),
    };
    let mut bound = Server::bind(at).await;
    if near && bound.is_err() {
        bound = Server::bind(SocketAddr::new(at.ip(), 0)).await;
    }
    match bound {
        Ok(server) => Some(server),
        Err(error) => {
            tracing::warn!(%error, %at, "names are not answered: the port of DNS cannot be used");
            None
        }
    }
}

/// Runs the follower, and beside it whoever writes records.
async fn follow(
    mut follower: Follower,
    sink: Option<Arc<dyn RecordSink>>,
    zones: Zones,
    stopping: watch::Receiver<bool>,
) {
    let Some(sink) = sink else { return follower.run(stopping).await };
    let (to_publisher, changes) = mpsc::channel(MOST_BATCHES);
    let (say, rights) = watch::channel(Rights::None);
    follower.publish = Some((to_publisher, say));
    let publisher = Publisher::new(sink, &zones).run(changes, rights);
    // The follower gives up its sender at the end, which is how the publisher learns of it.
    tokio::join!(follower.run(stopping), publisher);
}

struct Follower {
    directory: Directory,
    book: Arc<Book>,
    publish: Option<(mpsc::Sender<Vec<Change>>, watch::Sender<Rights>)>,
    handle: Handle,
    /// When the cluster was last seen; nothing before the first time.
    known_at: Option<Instant>,
}

impl Follower {
    async fn run(mut self, mut stopping: watch::Receiver<bool>) {
        let mut events = self.handle.events();
        let mut standing = self.handle.standing();
        let mut touched = Touched::everything();
        let mut full_at = Instant::now();
        loop {
            self.say_rights(&standing.borrow_and_update());
            let look_at = if touched.is_empty() { full_at } else { Instant::now() + GATHER };
            tokio::select! {
                _ = stopping.wait_for(|stop| *stop) => return,
                Ok(()) = standing.changed() => {
                    touched = Touched::everything();
                    continue;
                }
                heard = gather(&mut events, &mut touched, look_at) => {
                    if heard.is_err() {
                        return;
                    }
                }
            }
            if touched.is_empty() {
                touched = Touched::everything();
            }
            match self.look(std::mem::take(&mut touched)).await {
                Ok(whole) => {
                    if whole {
                        full_at = Instant::now() + FULL_LOOK;
                    }
                }
                Err(Unanswered::Stopping) => return,
                Err(Unanswered::NotLeader | Unanswered::TimedOut) => {
                    self.grow_old();
                    touched = Touched::everything();
                    sleep(AGAIN).await;
                }
            }
        }
    }

    fn say_rights(&self, standing: &Standing) {
        let Some((_, say)) = &self.publish else { return };
        let rights = match standing.mode {
            None => Rights::None,
            Some(Mode::Degraded | Mode::Recovery) => Rights::Keep,
            Some(Mode::Normal) => Rights::Write,
        };
        say.send_if_modified(|now| std::mem::replace(now, rights) != rights);
    }

    /// Looks at what was touched and passes on what that changes; says whether that was everything.
    async fn look(&mut self, touched: Touched) -> Result<bool, Unanswered> {
        let news = self.handle.read(move |world| News::of(world, &touched)).await?;
        let whole = news.whole;
        let mut changes = self.directory.take(news);
        if self.known_at.is_none() {
            // What is known without the cluster, such as the scheduler itself, was told nobody yet.
            changes = self.directory.all_as_changes();
        }
        let first = self.known_at.replace(Instant::now()).is_none();
        self.book.apply(&changes);
        if let Some((to_publisher, _)) = &self.publish
            && (first || !changes.is_empty())
        {
            // It ends only with us.
            drop(to_publisher.send(changes).await);
        }
        Ok(whole)
    }

    /// The cluster is not seen at present.
    fn grow_old(&mut self) {
        if self.known_at.is_some_and(|at| at.elapsed() > STALE) {
            self.book.forget();
        }
    }
}

/// Takes in events until `until`. What was missed is everything. An error: there will be no more.
async fn gather(
    events: &mut broadcast::Receiver<Arc<Event>>,
    touched: &mut Touched,
    mut until: Instant,
) -> Result<(), ()> {
    loop {
        tokio::select! {
            () = sleep_until(until) => return Ok(()),
            event = events.recv() => match event {
                Ok(event) => touched.note(&event),
                Err(RecvError::Lagged(_)) => *touched = Touched::everything(),
                Err(RecvError::Closed) => return Err(()),
            }
        }
        if !touched.is_empty() {
            until = until.min(Instant::now() + GATHER);
        }
    }
}
