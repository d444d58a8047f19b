//! A Compose stack from a wish to something that runs, through updates good and bad, to nothing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use persys_e2e::engine::{Engine, IMAGE};
use persys_e2e::part::Pace;
use persys_e2e::processes::{PATIENCE, Stack, now_seconds};
use persys_proto::compute::v1 as compute;
use persys_proto::compute::v1::compute_client::ComputeClient;
use persys_proto::control::v1 as api;
use tokio_stream::StreamExt as _;

use crate::program;
use crate::typed::done;

const STAYS: &str = "trap 'exit 0' TERM; echo up; sleep 1000 & wait";

/// A database with a volume, and a web server that needs it.
fn file(web: &str) -> String {
    format!(
        "services:\n\
         \x20 db:\n    image: {IMAGE}\n    command: [sh, -c, \"{STAYS}\"]\n    restart: always\n\
         \x20   volumes: ['data:/data']\n\
         \x20 web:\n    {web}\n    restart: always\n    depends_on: [db]\n\
         volumes: {{data: {{}}}}\n"
    )
}

fn good(version: &str) -> String {
    file(&format!(
        "image: {IMAGE}\n    command: [sh, -c, \"{STAYS}\"]\n    environment: {{VERSION: '{version}'}}"
    ))
}

pub(crate) fn request(id: &str, revision: &str, file: String) -> api::ApplyWorkloadRequest {
    let stack = api::ComposeSpec {
        source_type: "inline".to_owned(),
        inline_yaml: file,
        ..api::ComposeSpec::default()
    };
    api::ApplyWorkloadRequest {
        workload_id: id.to_owned(),
        revision_id: revision.to_owned(),
        desired_state: "Running".to_owned(),
        plan: String::new(),
        spec: Some(api::WorkloadSpec {
            r#type: "compose".to_owned(),
            resources: Some(api::ResourceRequirements {
                cpu_millicores: 20,
                memory_mb: 64,
                disk_gb: 0,
            }),
            workload: Some(api::workload_spec::Workload::Compose(stack)),
            ..api::WorkloadSpec::default()
        }),
    }
}

/// What runs: the containers by their ids, with the moments they were started.
pub(crate) async fn moments(stack: &Stack, id: &str) -> BTreeMap<String, String> {
    let engine = Engine::shared();
    let mut all = BTreeMap::new();
    for container in engine.containers(&stack.cluster).await {
        assert_eq!(container.workload, id);
        assert!(container.running, "{container:?}");
        all.insert(container.id.clone(), engine.started(&container.id).await.0);
    }
    all
}

pub(crate) async fn stack() -> Stack {
    let mut stack = Stack::on_docker(program(), Pace::Product).await;
    // Its program may take a while to say its version; the node joins anew then.
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let nodes = stack.client().list_nodes(api::ListNodesRequest::default()).await;
        let nodes = nodes.map(|nodes| nodes.into_inner().nodes).unwrap_or_default();
        let offers = |node: &api::NodeView| {
            node.supported_workload_types.iter().any(|kind| kind == "compose")
        };
        if nodes.iter().any(offers) {
            return stack;
        }
        stack.wait_a_little(deadline, &format!("no node offers stacks: {nodes:?}")).await;
    }
}

#[tokio::test]
async fn the_whole_life_of_a_stack() {
    let mut stack = stack().await;
    let id = stack.id("shop");
    let mut recorder = Engine::shared().record(&stack.cluster, now_seconds());
    stack.apply(&request(&id, "r1", good("1"))).await;
    stack.until_status(&id, "Running").await;
    let first = moments(&stack, &id).await;
    assert_eq!(first.len(), 2, "both services run");

    // A bad image in the middle: the old one runs on, and it is said so.
    let bad = file("image: 127.0.0.1:1/none:1");
    stack.apply(&request(&id, "r2", bad)).await;
    let view = stack.until(&id, |view| view.failure_reason == "IMAGE_PULL_FAILED").await;
    assert_eq!(view.status, "Running");
    let message = view.reason.unwrap().message;
    assert!(
        message.contains("revision 2 failed: service web: image 127.0.0.1:1/none:1"),
        "{message}"
    );
    assert!(message.contains("; revision 1 runs on"), "{message}");
    assert_eq!(moments(&stack, &id).await, first, "nothing was touched");
    let history = recorder.history().await;
    let starts = history.values().flatten().filter(|action| *action == "start").count();
    assert_eq!(starts, 2, "once for each service: {history:?}");

    stack.apply(&request(&id, "r3", good("3"))).await;
    let updated = |view: &api::WorkloadView| {
        view.status == "Running" && view.revision_id == "r3" && view.running_revision_id.is_empty()
    };
    stack.until(&id, updated).await;
    let third = moments(&stack, &id).await;
    let kept: Vec<_> = third.keys().filter(|id| first.contains_key(*id)).collect();
    assert_eq!((third.len(), kept.len()), (2, 1), "the database was not touched");

    let mut client = ComputeClient::new(stack.channel_of("scheduler"));
    let asked = compute::LogsRequest { workload_id: id.clone(), ..Default::default() };
    let mut output = client.logs(asked).await.unwrap().into_inner();
    let mut text = String::new();
    while let Some(Ok(chunk)) = output.next().await {
        text.push_str(&String::from_utf8_lossy(&chunk.data));
    }
    assert_eq!(text, "db  | up\nweb | up\n");

    let victim = third.keys().find(|id| !first.contains_key(*id)).unwrap();
    Engine::shared().kill(victim).await;
    stack.until(&id, |view| view.restarts == 1 && view.status == "Running").await;
    let healed = moments(&stack, &id).await;
    assert_eq!(healed.keys().collect::<Vec<_>>(), third.keys().collect::<Vec<_>>());

    stack.wish(&id, "Stopped").await;
    stack.until_status(&id, "Stopped").await;
    let resting = Engine::shared().containers(&stack.cluster).await;
    assert!(resting.len() == 2 && resting.iter().all(|one| !one.running), "{resting:?}");
    stack.wish(&id, "Running").await;
    stack.until_status(&id, "Running").await;
    assert_eq!(moments(&stack, &id).await.len(), 2);

    stack.delete(&id).await;
    assert_eq!(Engine::shared().containers(&stack.cluster).await, []);
    let left = async || {
        let furniture = Engine::shared().furniture().await;
        furniture.into_iter().filter(|name| name.contains(&stack.cluster)).collect::<Vec<_>>()
    };
    let kept = left().await;
    assert!(kept.len() == 1 && kept[0].ends_with("_data"), "only data is left: {kept:?}");
    let disk = format!("compose:{id}.data");
    let shown = done(&stack, "disk list", "").await;
    assert!(shown.contains(&format!("{disk}  Retained")), "{shown}");
    done(&stack, &format!("disk delete {disk}"), "").await;
    let deadline = Instant::now() + PATIENCE;
    while !left().await.is_empty() {
        assert!(Instant::now() < deadline, "its volume is not deleted");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_stack_finds_its_volume_again_and_loses_it_only_when_that_is_said() {
    let mut stack = stack().await;
    let id = stack.id("shop");
    let line = format!("apply - --id {id}");
    done(&stack, &line, &good("1")).await;
    let engine = Engine::shared();
    let db = async || {
        let filter = format!("label=persys.cluster={}", stack.cluster);
        let service = "label=com.docker.compose.service=db";
        engine.docker(&["ps", "-q", "--filter", &filter, "--filter", service])
    };
    engine.docker(&["exec", &db().await, "sh", "-c", "echo precious > /data/kept"]);
    done(&stack, &format!("delete {id}"), "").await;
    done(&stack, &line, &good("2")).await;
    assert_eq!(engine.docker(&["exec", &db().await, "cat", "/data/kept"]), "precious");
    done(&stack, &format!("delete {id} --volumes --yes"), "").await;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let furniture = engine.furniture().await;
        if !furniture.iter().any(|name| name.contains(&stack.cluster)) {
            break;
        }
        stack.wait_a_little(deadline, &format!("something is left: {furniture:?}")).await;
    }
    let shown = done(&stack, "disk list", "").await;
    assert!(shown.starts_with("there are no disks"), "{shown}");
}

#[tokio::test]
async fn an_agent_that_dies_finds_its_stack_as_it_was() {
    let mut stack = stack().await;
    let id = stack.id("shop");
    stack.apply(&request(&id, "r1", good("1"))).await;
    stack.until_status(&id, "Running").await;
    let before = moments(&stack, &id).await;
    stack.kill("n1").await;
    stack.start_again("n1").await;
    stack.apply(&request(&id, "r2", good("2"))).await;
    stack.until(&id, |view| view.status == "Running" && view.revision_id == "r2").await;
    let after = moments(&stack, &id).await;
    assert_eq!(after.keys().filter(|id| before.contains_key(*id)).count(), 1);
    stack.delete(&id).await;
}

/// Everything Docker knows of a cluster's things, and what it did to them since `since`.
fn known(stack: &Stack, since: u64) -> (String, String) {
    let engine = Engine::shared();
    let filter = format!("label=persys.cluster={}", stack.cluster);
    let mut all = String::new();
    for (kind, list) in [("container", "ps"), ("network", "network ls"), ("volume", "volume ls")] {
        let list = list.split(' ').chain(["-q", "--filter", &filter]);
        let names = engine.docker(&list.collect::<Vec<_>>());
        let mut names: Vec<_> = names.lines().collect();
        assert!(!names.is_empty(), "a stack with every kind of thing: {kind}");
        names.sort_unstable();
        let inspect: Vec<_> = [kind, "inspect"].into_iter().chain(names).collect();
        all.push_str(&engine.docker(&inspect));
    }
    let (since, until) = (since.to_string(), now_seconds().to_string());
    let events = ["events", "--since", &since, "--until", &until, "--filter", &filter];
    (all, engine.docker(&events))
}

/// What was promised of the program as people get it; one that is built for tests is not made fast.
const SAID_WITHIN: Duration = Duration::from_millis(if cfg!(debug_assertions) { 150 } else { 50 });

#[tokio::test]
async fn the_same_file_again_is_soon_said_and_touches_nothing() {
    let mut stack = stack().await;
    let id = stack.id("shop");
    let line = format!("apply - --id {id}");
    let printed = done(&stack, &line, &good("1")).await;
    assert!(printed.contains("runs on node n1"), "{printed}");
    let revision = stack.look(&id).await.unwrap().unwrap().revision_id;
    // What is asked of it is known of what runs for a while; a moment after the start it is measured.
    stack.until(&id, |view| view.usage.is_some()).await;
    // Docker's clock of events counts seconds, and what was done before is no news.
    let second = now_seconds();
    while now_seconds() == second {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let since = now_seconds();
    let before = known(&stack, since);
    // A machine that is busy with other things is slow now and then; a slow product is slow always.
    let mut best = Duration::MAX;
    for _ in 0..20 {
        let begun = Instant::now();
        done(&stack, &line, &good("1")).await;
        best = best.min(begun.elapsed());
    }
    let after = known(&stack, since);
    assert_eq!(after.0, before.0, "no thing of Docker's is otherwise");
    assert_eq!(after.1, "", "nothing happened to any");
    assert_eq!(stack.look(&id).await.unwrap().unwrap().revision_id, revision);
    assert!(best < SAID_WITHIN, "{best:?}");
}
