//! Neighbours that are not ours, and what services print.

use std::process::Command;

use futures::StreamExt as _;
use persys_model::id::WorkloadId;
use persys_runtime::inside::LogRange;
use persys_runtime::{Logs, Runtime};

use super::bench::{STAYS, StackBench, bench, one, service, stack};
use crate::contract::start;
use crate::support::IMAGE;

/// A project of somebody else's, brought up by hand.
struct Neighbour {
    folder: std::path::PathBuf,
    project: String,
}

impl Neighbour {
    fn new(bench: &StackBench) -> Self {
        let project = format!("{}neighbour", bench.prefix);
        let folder = std::env::temp_dir().join(&project);
        std::fs::create_dir_all(&folder).unwrap();
        let file = format!(
            "version: '3.8'\nservices: {{web: {{image: '{IMAGE}', command: [sleep, '1000'], volumes: \
             ['data:/data']}}}}\nvolumes: {{data: {{}}}}\n"
        );
        std::fs::write(folder.join("docker-compose.yml"), file).unwrap();
        let neighbour = Self { folder, project };
        neighbour.run(&["up", "-d"]);
        neighbour
    }

    fn run(&self, args: &[&str]) {
        let output = Command::new("docker-compose")
            .current_dir(&self.folder)
            .args(["-p", &self.project])
            .args(args)
            .env("DOCKER_HOST", crate::support::host())
            .output()
            .expect("docker-compose: run hack/docker-up");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.run(&["down", "-v", "-t", "0"]);
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

#[tokio::test]
async fn projects_of_others_are_never_touched() {
    let bench = bench();
    let neighbour = Neighbour::new(&bench);
    let label = format!("com.docker.compose.project={}", neighbour.project);
    let name = format!("{}_web_1", neighbour.project);
    let look = async || {
        let options = None::<bollard::query_parameters::InspectContainerOptions>;
        let raw = bench.raw.inspect_container(&name, options).await.unwrap();
        (raw.id, raw.state.unwrap().started_at, bench.objects(&label).await)
    };
    let before = look().await;
    // Its very name is taken: that is said, and nothing happens.
    let same = start("neighbour", "r1", one(STAYS, "restart: always"));
    let error = bench.compose.start(&same).await.unwrap_err();
    assert!(error.to_string().contains("belongs to the compose project"), "{error}");
    let order = start("own", "r1", one(STAYS, "restart: always"));
    bench.compose.start(&order).await.unwrap();
    assert_eq!(bench.compose.list().await.unwrap().len(), 1);
    bench.compose.stop(&same.workload, Some(std::time::Duration::ZERO)).await.unwrap();
    bench.compose.remove(&same.workload, true).await.unwrap();
    bench.compose.remove(&order.workload, true).await.unwrap();
    assert_eq!(look().await, before);
}

async fn printed(bench: &StackBench, id: &WorkloadId, service: Option<&str>) -> Vec<String> {
    let range = LogRange { service: service.map(ToOwned::to_owned), ..LogRange::default() };
    let mut output = bench.compose.logs(id, range).await.unwrap();
    let mut text = String::new();
    while let Some(chunk) = output.next().await {
        text.push_str(&String::from_utf8_lossy(&chunk.unwrap().bytes));
    }
    text.lines().map(ToOwned::to_owned).collect()
}

#[tokio::test]
async fn lines_say_whose_they_are() {
    let bench = bench();
    let mut file = "services:\n".to_owned();
    file += &service("db", &format!("echo ready; {STAYS}"), "restart: always");
    file += &service("web", &format!("echo one; echo two; {STAYS}"), "restart: always");
    let order = start("talk", "r1", stack(&file));
    let id = &order.workload;
    bench.compose.start(&order).await.unwrap();
    let begun = std::time::Instant::now();
    while printed(&bench, id, None).await.len() < 3 {
        assert!(begun.elapsed() < super::bench::PATIENCE, "they print nothing");
    }
    assert_eq!(printed(&bench, id, None).await, ["db  | ready", "web | one", "web | two"]);
    assert_eq!(printed(&bench, id, Some("web")).await, ["one", "two"]);
    let range = LogRange { service: Some("cache".to_owned()), ..LogRange::default() };
    let Err(error) = bench.compose.logs(id, range).await else { panic!("there is no cache") };
    assert!(error.to_string().contains("it has db, web"), "{error}");
    bench.compose.remove(id, true).await.unwrap();
}
