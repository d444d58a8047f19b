//! The way back to an agent that nobody can call: a stream it keeps open to the scheduler that leads.
//!
//! The stream is a tunnel. The connection inside it is served like any other; at its other end is the
//! scheduler that was dialled. When the stream ends, or another scheduler answers from now on, a new
//! one is opened.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use persys_identity::{ConnectInfo, Connection, Peer};
use persys_model::id::NodeId;
use persys_proto::control::v1::ControlMessage;
use persys_proto::tunnel;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Request, Status, Streaming};

use super::Unreachable;
use super::grpc::{CALL, Grpc};

/// Shortest and longest pause before the next attempt: orders of a new leader wait for it.
pub(super) const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// A stream that lasted this long was a good one.
pub(super) const GOOD: Duration = Duration::from_secs(5);

/// Keeps a stream open, and gives the connections inside.
pub(crate) fn keep(
    grpc: Arc<Grpc>,
    node: NodeId,
    caller: Peer,
    beside: &mut JoinSet<()>,
) -> impl Stream<Item = Result<Connection, Infallible>> + Send + 'static {
    let (to, connections) = mpsc::channel(1);
    // Its own address is known only where it was dialled, and nobody decides by it.
    let remote = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let keeper = Keeper { grpc, node, info: ConnectInfo { peer: caller, remote }, to };
    beside.spawn(keeper.run());
    futures::stream::unfold(connections, async |mut connections| {
        let next: Connection = connections.recv().await?;
        Some((Ok(next), connections))
    })
}

struct Keeper {
    grpc: Arc<Grpc>,
    node: NodeId,
    info: ConnectInfo,
    to: mpsc::Sender<Connection>,
}

impl Keeper {
    async fn run(self) {
        let mut pause = PAUSE.0;
        loop {
            let begun = Instant::now();
            let why = match self.open().await {
                Ok(opened) => self.serve(opened).await.to_string(),
                Err(why) => why.to_string(),
            };
            tracing::debug!(why, "the stream to the scheduler is not open");
            if begun.elapsed() >= GOOD {
                pause = PAUSE.0;
            }
            sleep(pause).await;
            pause = pause.saturating_mul(2).min(PAUSE.1);
        }
    }

    /// Asks one scheduler after the other. One that does not lead says no.
    async fn open(&self) -> Result<Opened, Unreachable> {
        let name = MetadataValue::<Ascii>::try_from(self.node.as_str());
        let name = name.map_err(|bad| Unreachable(bad.to_string()))?;
        self.grpc
            .ask(CALL, |mut client| {
                let name = name.clone();
                async move {
                    let (to, mut sent) = mpsc::channel(tunnel::MESSAGES);
                    let sent = futures::stream::poll_fn(move |context| sent.poll_recv(context));
                    let mut request = Request::new(sent);
                    request.metadata_mut().insert(tunnel::NODE_HEADER, name);
                    let from = client.control_stream(request).await?.into_inner();
                    Ok(Opened { from, to })
                }
            })
            .await
    }

    /// Serves what comes through until the stream ends, or the leader is another.
    async fn serve(&self, Opened { from, to }: Opened) -> Status {
        let (pipe, inside) = tunnel::pipe();
        if self.to.send(Connection::inside(inside, self.info.clone())).await.is_err() {
            return Status::cancelled("the agent is stopping");
        }
        tokio::select! {
            why = tunnel::carry(pipe, from, to, |message| message) => why,
            why = until_elsewhere(&self.grpc) => why,
        }
    }
}

/// Waits until a stream had better be opened anew: another scheduler answers, or there is another
/// certificate to show.
pub(super) async fn until_elsewhere(grpc: &Grpc) -> Status {
    let (mut favourite, mut renewals) = (grpc.favourite(), grpc.renewals());
    let renewed = async {
        if let Some(renewals) = &mut renewals
            && renewals.changed().await.is_ok()
        {
            return;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        _ = favourite.changed() => Status::aborted("another scheduler answers"),
        () = renewed => Status::aborted("there is a new certificate to show"),
    }
}

/// An open stream, both ways.
struct Opened {
    from: Streaming<ControlMessage>,
    to: mpsc::Sender<ControlMessage>,
}
