//! What costs a gateway little, whatever somebody sends.

use std::time::{Duration, Instant};

use persys_gateway::limits::Limits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{PATIENCE, Site};

async fn say(site: &Site, text: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(site.gateway.public).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let shown = heard(&mut stream).await;
    (stream, shown)
}

/// What comes until the head is complete or the connection ends.
async fn heard(stream: &mut TcpStream) -> String {
    let mut shown = Vec::new();
    let mut piece = [0; 4096];
    while !shown.windows(4).any(|end| end == b"\r\n\r\n") {
        match timeout(PATIENCE, stream.read(&mut piece)).await.expect("in time") {
            Ok(0) | Err(_) => break,
            Ok(size) => shown.extend_from_slice(&piece[..size]),
        }
    }
    String::from_utf8_lossy(&shown).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_are_too_large_too_slow_or_without_end_are_refused() {
    let site = Site::with(|config| {
        config.limits = Limits { body_within: Duration::from_millis(300), ..Limits::default() };
    })
    .await;
    let head = "POST /v1/workloads HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";
    let begun = Instant::now();
    let (_, shown) = say(&site, &format!("{head}content-length: 1073741824\r\n\r\n")).await;
    assert!(shown.starts_with("HTTP/1.1 413"), "{shown}");
    assert!(begun.elapsed() < Duration::from_secs(5), "refused before it came");
    let (_, shown) = say(&site, &format!("{head}content-length: 10\r\n\r\n{{")).await;
    assert!(shown.starts_with("HTTP/1.1 408"), "{shown}");
    // Without a length it is read as far as it may go.
    let mut stream = TcpStream::connect(site.gateway.public).await.unwrap();
    stream.write_all(format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes()).await.unwrap();
    let piece = format!("10000\r\n{}\r\n", " ".repeat(0x1_0000));
    for _ in 0..80 {
        if stream.write_all(piece.as_bytes()).await.is_err() {
            break;
        }
    }
    let shown = heard(&mut stream).await;
    assert!(
        shown.is_empty() || shown.starts_with("HTTP/1.1 413") || shown.starts_with("HTTP/1.1 408")
    );
    let packed = format!("{head}content-encoding: gzip\r\ncontent-length: 2\r\n\r\n{{}}");
    assert!(say(&site, &packed).await.1.starts_with("HTTP/1.1 415"));
    let (status, _) = site.get("/nodes").await;
    assert_eq!(status, 200);
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_of_headers_and_tricks_in_paths_are_refused() {
    let site = Site::start().await;
    let flood: Vec<_> = (0..500).map(|nth| format!("x-{nth}: {nth}\r\n")).collect();
    let flood = flood.concat();
    let (_, shown) = say(&site, &format!("GET /health HTTP/1.1\r\nhost: x\r\n{flood}\r\n")).await;
    assert!(shown.starts_with("HTTP/1.1 431"), "{shown}");
    let long = "y".repeat(64 * 1024);
    let (_, shown) =
        say(&site, &format!("GET /health HTTP/1.1\r\nhost: x\r\nx: {long}\r\n\r\n")).await;
    assert!(shown.starts_with("HTTP/1.1 431"), "{shown}");
    for path in [
        "/workloads/../nodes",
        "/workloads/%2e%2e/nodes",
        "/workloads/a%2Fb",
        "//nodes",
        "/workloads/a%00",
    ] {
        let (_, shown) =
            say(&site, &format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"))
                .await;
        assert!(shown.starts_with("HTTP/1.1 400"), "{path}: {shown}");
    }
    let (_, shown) =
        say(&site, &format!("GET /nodes?{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(5000))).await;
    assert!(shown.starts_with("HTTP/1.1 414"), "{shown}");
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_do_nothing_are_few_and_do_not_last() {
    let site = Site::with(|config| {
        config.limits = Limits {
            connections_per_source: 50,
            head_within: Duration::from_millis(500),
            ..Limits::default()
        };
    })
    .await;
    let mut idle = Vec::new();
    for _ in 0..300 {
        idle.push(TcpStream::connect(site.gateway.public).await.unwrap());
    }
    // Those beyond the limit are closed at once, the others when they said nothing for too long.
    for stream in &mut idle {
        let mut piece = [0; 1];
        let read = timeout(PATIENCE, stream.read(&mut piece)).await.expect("it is closed");
        assert!(matches!(read, Ok(0) | Err(_)));
    }
    let (status, _) = site.get("/nodes").await;
    assert_eq!(status, 200, "there is room again");
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_too_often_is_told_to_wait() {
    let site = Site::with(|config| {
        config.limits = Limits { requests_per_second: 5, ..Limits::default() };
    })
    .await;
    let mut waits = 0;
    for _ in 0..40 {
        let response = site.http.get(site.url("/health")).send().await.unwrap();
        if response.status().as_u16() == 429 {
            assert_eq!(response.headers()["retry-after"], "1");
            waits += 1;
        }
    }
    assert!(waits > 10, "{waits}");
    site.stop().await;
}
