//! A gateway in front of one cluster, and a client of it.

use std::time::{Duration, Instant};

use persys_e2e::gateway;
use persys_e2e::stack::{Stack, Wire};
use persys_gateway::app::{Config, Running};
use serde_json::{Value, json};

/// How long something may take to become true.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Site {
    pub(crate) stack: Stack,
    pub(crate) gateway: Running,
    pub(crate) http: reqwest::Client,
}

impl Site {
    pub(crate) async fn start() -> Self {
        Self::with(|_| ()).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut Config)) -> Self {
        let mut stack = Stack::start(Wire::Plain).await;
        stack.add_agent("n1").await;
        let gateway = gateway::start(&stack, change).await;
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { stack, gateway, http }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.gateway.public)
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        told(self.http.get(self.url(path)).send().await.unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        told(self.http.post(self.url(path)).json(body).send().await.unwrap()).await
    }

    pub(crate) async fn until(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
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

    pub(crate) async fn stop(self) {
        self.gateway.stop().await;
        self.stack.stop().await;
    }
}

pub(crate) async fn told(response: reqwest::Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

pub(crate) fn container(id: &str) -> Value {
    json!({
        "workload_id": id,
        "spec": {
            "type": "container",
            "resources": {"cpu_millicores": "100", "memory_mb": 64},
            "container": {"image": "nginx", "restart_policy": "always"},
        },
    })
}
