//! What happens, as it happens.

use std::time::Duration;

use futures::StreamExt as _;
use serde_json::Value;
use tokio::time::timeout;

use super::{PATIENCE, Site, container};

/// A stream of events as a browser reads it.
struct Reader {
    bytes: std::pin::Pin<Box<dyn futures::Stream<Item = reqwest::Result<bytes::Bytes>> + Send>>,
    text: String,
}

#[derive(Debug)]
struct Message {
    name: String,
    id: String,
    body: Value,
}

impl Reader {
    async fn open(site: &Site, path: &str, last: &str) -> Self {
        let request = site.http.get(site.url(path)).header("last-event-id", last);
        let response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { bytes: Box::pin(response.bytes_stream()), text: String::new() }
    }

    async fn next(&mut self) -> Message {
        loop {
            if let Some((message, rest)) = self.text.clone().split_once("\n\n") {
                rest.clone_into(&mut self.text);
                let field = |name: &str| {
                    let lines = message.lines().filter_map(|line| line.split_once(':'));
                    let found = lines.into_iter().find(|(key, _)| *key == name);
                    found.map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
                };
                if field("event").is_empty() {
                    continue;
                }
                let body = serde_json::from_str(&field("data")).unwrap();
                return Message { name: field("event"), id: field("id"), body };
            }
            let piece = timeout(PATIENCE, self.bytes.next()).await.expect("in time").unwrap();
            self.text.push_str(std::str::from_utf8(&piece.unwrap()).unwrap());
        }
    }

    /// Reads on until a workload is in this state; gives all that came.
    async fn until(&mut self, workload: &str, to: &str) -> Vec<Message> {
        let mut all = Vec::new();
        loop {
            let next = self.next().await;
            let is = next.body["workload_id"] == workload && next.body["details"]["to"] == to;
            all.push(next);
            if is {
                return all;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_is_seen_to_run_and_who_was_away_misses_nothing() {
    let site = Site::start().await;
    let mut reader = Reader::open(&site, "/v1/events/stream", "").await;
    site.post("/v1/workloads", &container("one")).await;
    let seen = reader.until("one", "Running").await;
    assert!(
        seen.iter().any(|message| message.name == "state" && message.body["connected"] == true)
    );
    let last = seen.last().unwrap().id.clone();
    drop(reader);
    site.post("/v1/workloads", &container("two")).await;
    site.until("/v1/workloads/two", |shown| shown["workload"]["status"] == "Running").await;

    let mut reader = Reader::open(&site, "/v1/events/stream", &last).await;
    let missed = reader.until("two", "Running").await;
    let events: Vec<_> = missed.iter().filter(|message| message.name == "event").collect();
    assert!(events.iter().all(|message| message.id > last), "{events:?}");
    let mut ids: Vec<_> = events.iter().map(|message| &message.id).collect();
    ids.dedup();
    assert!(ids.is_sorted() && ids.len() == events.len(), "each once and in order");

    // The route existing clients use has events alone, and filters them.
    let mut reader = Reader::open(&site, "/events/watch?workload_id=two", "").await;
    let seen = reader.until("two", "Running").await;
    assert!(seen.iter().all(|one| one.name == "event" && one.body["workload_id"] == "two"));
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_pages_share_one_stream_and_a_dead_scheduler_is_told_of() {
    let site = Site::start().await;
    let mut readers = Vec::new();
    // More than a scheduler would serve.
    for _ in 0..300 {
        readers.push(Reader::open(&site, "/v1/events/stream", "").await);
    }
    site.post("/v1/workloads", &container("one")).await;
    for reader in &mut readers {
        reader.until("one", "Running").await;
    }
    let Site { stack, gateway, .. } = site;
    stack.stop().await;
    for reader in readers.iter_mut().take(3) {
        loop {
            let next = reader.next().await;
            if next.name == "state" && next.body["connected"] == false {
                break;
            }
        }
    }
    timeout(Duration::from_secs(10), gateway.stop()).await.expect("streams do not keep it");
}
