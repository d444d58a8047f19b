//! Output and commands of workloads.

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

use super::{PATIENCE, Site, container};

async fn talk(site: &Site, path: &str, typed: &[Message]) -> (Vec<u8>, Value) {
    let url = site.url(path).replace("http://", "ws://");
    let (mut socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
    for message in typed {
        socket.send(message.clone()).await.unwrap();
    }
    let (mut shown, mut last) = (Vec::new(), Value::Null);
    while let Some(message) = timeout(PATIENCE, socket.next()).await.expect("in time") {
        match message.unwrap() {
            Message::Binary(bytes) => shown.extend_from_slice(&bytes[1..]),
            Message::Text(text) => last = serde_json::from_str(&text).unwrap(),
            Message::Close(_) => break,
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
        }
    }
    (shown, last)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_is_read_and_commands_are_run_and_typed_into() {
    let site = Site::start().await;
    site.post("/v1/workloads", &container("web")).await;
    site.until("/v1/workloads/web", |shown| shown["workload"]["status"] == "Running").await;

    let response = site.http.get(site.url("/v1/workloads/web/logs")).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
    let plain = response.text().await.unwrap();
    assert!(!plain.is_empty());
    let request =
        site.http.get(site.url("/v1/workloads/web/logs")).header("accept", "text/event-stream");
    let events = request.send().await.unwrap().text().await.unwrap();
    assert!(events.contains("event: output"), "{events}");
    let (status, _) = site.get("/v1/workloads/none/logs").await;
    assert_eq!(status, 404);

    let (shown, last) = talk(&site, "/v1/workloads/web/exec?argv=echo&argv=a%20b", &[]).await;
    assert_eq!(
        (String::from_utf8(shown).unwrap().trim(), last),
        ("echo a b", json!({"exit_code": 0}))
    );
    let (_, last) = talk(&site, "/v1/workloads/web/exec?argv=exit&argv=7", &[]).await;
    assert_eq!(last, json!({"exit_code": 7}));
    let typed = [
        Message::Text("{\"size\":{\"rows\":24,\"columns\":80}}".into()),
        Message::Binary(b"typed in".to_vec().into()),
        Message::Text("{\"end\":true}".into()),
    ];
    let (shown, last) = talk(&site, "/v1/workloads/web/exec?argv=cat", &typed).await;
    assert_eq!((shown.as_slice(), last), (&b"typed in"[..], json!({"exit_code": 0})));
    let (_, last) = talk(&site, "/v1/workloads/none/exec?argv=ls", &[]).await;
    assert_eq!(last["problem"]["status"], 404);
    let (status, _) = site.get("/v1/workloads/web/exec?argv=ls").await;
    assert_eq!(status, 400, "not a WebSocket");
    site.stop().await;
}
