//! A scheduler that stops while others hold on to it.

use std::time::{Duration, Instant};

use persys_identity::Role;
use persys_proto::control::v1 as wire;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::{Code, Status, Streaming};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::bench::Bench;

/// All a stop may take, whoever is connected.
const SOON: Duration = Duration::from_secs(2);

/// What a stream ends with.
async fn end<T>(mut stream: Streaming<T>) -> Status {
    loop {
        match stream.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the stream ended without a word"),
            Err(status) => return status,
        }
    }
}

/// Told that another one may be asked, and when this one may be again.
fn sent_elsewhere(status: &Status) {
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    assert_eq!(status.message(), "the scheduler is stopping");
    assert!(status.metadata().contains_key("retry-after"), "{status:?}");
}

/// Streams that are open, a connection on which nothing happens, and one that was never used.
async fn held_open(bench: Bench) {
    let mut watching = bench.operator().await;
    let all = wire::WatchEventsRequest::default();
    let events = watching.watch_events(all).await.unwrap().into_inner();
    let mut asking = HealthClient::new(bench.channel(Role::Gateway, "g1").await);
    let health = asking.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    let mut idle = bench.operator().await;
    idle.list_nodes(wire::ListNodesRequest::default()).await.unwrap();
    let silent = TcpStream::connect(bench.running.grpc).await.unwrap();

    let begun = Instant::now();
    bench.running.stop().await;
    assert!(begun.elapsed() < SOON, "somebody was waited for: {:?}", begun.elapsed());
    sent_elsewhere(&end(events).await);
    sent_elsewhere(&end(health).await);
    // Who did nothing finds nobody there any more, and is not left waiting.
    let refused = idle.list_nodes(wire::ListNodesRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
    drop(silent);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_watches_is_sent_elsewhere_and_who_is_idle_is_not_waited_for() {
    held_open(Bench::insecure().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_with_certificates() {
    held_open(Bench::mtls().await).await;
}

/// Says hello as HTTP/2 begins, and then stands still: it confirms nothing, not even that it was asked
/// to go.
async fn standing_still(bench: &Bench) -> TcpStream {
    let mut stream = TcpStream::connect(bench.running.grpc).await.unwrap();
    let empty_settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    stream.write_all(&empty_settings).await.unwrap();
    // The scheduler talks to it from now on.
    stream.read_exact(&mut [0; 9]).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn who_stands_still_is_cut_off() {
    let bench = Bench::insecure().await;
    let mut frozen = standing_still(&bench).await;
    // Half a question about its health, which never ends.
    let mut page = TcpStream::connect(bench.running.http).await.unwrap();
    page.write_all(b"GET /health HTTP/1.1\r\nHost:").await.unwrap();
    let begun = Instant::now();
    // A driver that somebody still had a way to would be waited for much longer than this.
    bench.running.stop().await;
    assert!(begun.elapsed() < SOON, "somebody was waited for: {:?}", begun.elapsed());
    let mut rest = Vec::new();
    // Ends, well or not: nothing is held open for it.
    let read = tokio::time::timeout(SOON, frozen.read_to_end(&mut rest)).await;
    assert!(read.is_ok(), "its connection is still open");
}
