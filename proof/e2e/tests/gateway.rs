//! REST and events, from an HTTP client through a gateway and a scheduler to an agent and back.

#![allow(clippy::unwrap_used, reason = "a test may stop")]
#![allow(clippy::panic, reason = "a test may stop")]

use std::time::{Duration, Instant};

use persys_e2e::gateway;
use persys_e2e::stack::{Stack, Wire};
use persys_gateway::app::Running;
use serde_json::{Value, json};

/// How long something may take to become true.
const PATIENCE: Duration = Duration::from_secs(20);

struct Site {
    stack: Stack,
    gateway: Running,
    http: reqwest::Client,
}

impl Site {
    async fn start() -> Self {
        let mut stack = Stack::start(Wire::Plain).await;
        stack.add_agent("n1").await;
        let gateway = gateway::start(&stack, |_| ()).await;
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { stack, gateway, http }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.gateway.public)
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        told(self.http.get(self.url(path)).send().await.unwrap()).await
    }

    async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        told(self.http.post(self.url(path)).json(body).send().await.unwrap()).await
    }

    async fn until(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (_, shown) = self.get(path).await;
            if wanted(&shown) {
                return shown;
            }
            assert!(Instant::now() < deadline, "{path}: {shown}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn stop(self) {
        self.gateway.stop().await;
        self.stack.stop().await;
    }
}

async fn told(response: reqwest::Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

fn container(id: &str) -> Value {
    json!({
        "workload_id": id,
        "spec": {
            "type": "container",
            "resources": {"cpu_millicores": "100", "memory_mb": 64},
            "container": {"image": "nginx", "restart_policy": "always"},
        },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_is_asked_for_and_seen_to_run_by_the_routes_existing_clients_use() {
    let site = Site::start().await;
    let (status, nodes) = site.get("/nodes").await;
    assert_eq!((status, &nodes["nodes"][0]["node_id"]), (200, &json!("n1")));
    assert!(nodes["nodes"][0]["total_memory_mb"].is_string(), "64-bit numbers are text: {nodes}");
    let (status, said) = site.post("/workloads/schedule", &container("web")).await;
    assert_eq!((status, said), (200, json!({"success": true})));
    let web = site.until("/workloads/web", |shown| shown["workload"]["status"] == "Running").await;
    assert_eq!(web["workload"]["assigned_node_id"], "n1");
    for path in ["/workloads", "/list", "/clusters/stack/workloads", "/workloads?status=running"] {
        let (status, list) = site.get(path).await;
        assert_eq!((status, &list["workloads"][0]["workload_id"]), (200, &json!("web")), "{path}");
    }
    let (_, summary) = site.get("/cluster/metrics").await;
    assert_eq!((&summary["total_nodes"], &summary["running_workloads"]), (&json!(1), &json!(1)));
    let (_, clusters) = site.get("/clusters").await;
    assert_eq!(clusters["default_cluster_id"], "stack");
    assert_eq!(clusters["clusters"][0]["healthy_schedulers"], 1, "{clusters}");

    // What the contract refuses inside its answer stays there; what is not there is not found.
    let (status, said) = site
        .post("/workloads/schedule", &json!({"workload_id": "bad", "spec": {"type": "container"}}))
        .await;
    assert_eq!((status, &said["failure_reason"]), (200, &json!("INVALID_SPEC")), "{said}");
    let (status, problem) = site.get("/workloads/nobody").await;
    assert_eq!((status, &problem["code"]), (404, &json!("not_found")));
    assert!(problem["error"].as_str().unwrap().contains("nobody"));
    let (status, _) = site.get("/clusters/nowhere/nodes").await;
    assert_eq!(status, 404);

    let deleted = site.http.delete(site.url("/workloads/web")).send().await.unwrap();
    assert_eq!(told(deleted).await, (200, json!({"success": true})));
    site.until("/workloads", |shown| shown["workloads"].as_array().is_none_or(Vec::is_empty)).await;
    site.stop().await;
}
