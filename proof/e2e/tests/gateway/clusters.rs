//! Several clusters behind one gateway, one of which stands still.

use std::time::{Duration, Instant};

use persys_e2e::gateway;
use persys_e2e::stack::{Stack, Wire};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::told;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_stands_still_slows_no_other_and_is_told_of() {
    let mut stack = Stack::start(Wire::Plain).await;
    stack.add_agent("n1").await;
    // Connections are taken by the system, and nobody ever reads from them.
    let frozen = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone_at = gone.local_addr().unwrap();
    drop(gone);
    let all =
        [("east", stack.scheduler.grpc), ("west", frozen.local_addr().unwrap()), ("gone", gone_at)];
    let mut config = gateway::config(&all);
    config.request_timeout = Duration::from_secs(3);
    let gateway = persys_gateway::app::start(config).await.unwrap();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = |path: &str| format!("http://{}{path}", gateway.public);

    // Many wait for the one that stands still; the other answers meanwhile as it does.
    let waiting: Vec<_> =
        (0..64).map(|_| tokio::spawn(http.get(url("/clusters/west/nodes")).send())).collect();
    let begun = Instant::now();
    for _ in 0..200 {
        let (status, nodes) = told(http.get(url("/nodes")).send().await.unwrap()).await;
        assert_eq!((status, &nodes["nodes"][0]["node_id"]), (200, &json!("n1")));
    }
    let each = begun.elapsed() / 200;
    assert!(each < Duration::from_millis(200), "{each:?} for each of 200 reads");
    for one in waiting {
        let status = one.await.unwrap().unwrap().status().as_u16();
        assert!(matches!(status, 503 | 504), "{status}");
    }
    // By now it is known to be silent, and nobody waits for it.
    for (cluster, by_header) in [("west", false), ("gone", true)] {
        let request = if by_header {
            http.get(url("/nodes")).header("x-persys-cluster-id", cluster)
        } else {
            http.get(url(&format!("/nodes?cluster_id={cluster}")))
        };
        let begun = Instant::now();
        let response = request.send().await.unwrap();
        assert_eq!(response.headers()["retry-after"], "1");
        assert_eq!(response.status().as_u16(), 503);
        assert!(begun.elapsed() < Duration::from_secs(1));
    }

    let (status, overview) = told(http.get(url("/v1/overview")).send().await.unwrap()).await;
    assert_eq!((status, &overview["partial"]), (200, &json!(true)));
    let of = |id: &str| {
        let list = overview["clusters"].as_array().unwrap();
        list.iter().find(|one| one["id"] == id).cloned().unwrap_or(Value::Null)
    };
    assert_eq!(of("east")["summary"]["total_nodes"], 1);
    assert_eq!(of("east")["standing"]["role"], "leader");
    for id in ["west", "gone"] {
        assert_eq!(
            (&of(id)["problem"]["status"], &of(id)["healthy_schedulers"]),
            (&json!(503), &json!(0))
        );
    }
    assert_eq!(http.get(url("/health")).send().await.unwrap().status().as_u16(), 200);
    gateway.stop().await;
    stack.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_does_not_make_a_scheduler_unwell_and_one_that_is_gone_is_noticed() {
    let mut stack = Stack::start(Wire::Plain).await;
    stack.add_agent("n1").await;
    let at = stack.scheduler.grpc;
    let gateway = gateway::start(&stack, |_| ()).await;
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = |path: &str| format!("http://{}{path}", gateway.public);
    for _ in 0..20 {
        let status = http.get(url("/workloads/none")).send().await.unwrap().status().as_u16();
        assert_eq!(status, 404);
    }
    let (_, clusters) = told(http.get(url("/clusters")).send().await.unwrap()).await;
    assert_eq!(clusters["clusters"][0]["healthy_schedulers"], 1);
    stack.stop().await;
    let deadline = Instant::now() + super::PATIENCE;
    while http.get(url("/health")).send().await.unwrap().status().as_u16() != 503 {
        assert!(Instant::now() < deadline, "nobody noticed that {at} is gone");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (status, problem) = told(http.get(url("/nodes")).send().await.unwrap()).await;
    assert_eq!((status, &problem["code"]), (503, &json!("unavailable")));
    gateway.stop().await;
}
