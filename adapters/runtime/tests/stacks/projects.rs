//! Project names: several stacks that ask for the same one, and stacks under their earlier one.

use std::process::Command;
use std::sync::Arc;

use persys_model::id::WorkloadId;
use persys_model::spec::Kind;
use persys_node::input::Existing;
use persys_runtime::Runtime;

use super::bench::{STAYS, StackBench, bench, one, service, stack};
use crate::contract::start;
use crate::support::IMAGE;

/// A stack whose client asks for a project name.
fn asking(kind: Kind, name: &str) -> Kind {
    match kind {
        Kind::Compose(mut stack) => {
            stack.project = Some(Arc::from(name));
            Kind::Compose(stack)
        }
        Kind::Container(_) | Kind::Vm(_) => panic!("not a stack"),
    }
}

#[tokio::test]
async fn stacks_that_ask_for_one_project_run_side_by_side() {
    let bench = bench();
    let kind = || asking(one(STAYS, "restart: always"), "workload");
    let orders = ["one", "Two"].map(|id| start(id, "r1", kind()));
    for order in &orders {
        bench.compose.start(order).await.unwrap();
    }
    for order in &orders {
        bench.until(&order.workload, &Existing::Running).await;
    }
    assert_eq!(bench.compose.list().await.unwrap().len(), 2);
    let asked = async |id: &WorkloadId| {
        let web = bench.service(id, "web").await.id;
        let options = None::<bollard::query_parameters::InspectContainerOptions>;
        let raw = bench.raw.inspect_container(&web, options).await.unwrap();
        raw.config.unwrap().labels.unwrap().remove("persys.project_name")
    };
    for order in &orders {
        assert_eq!(asked(&order.workload).await.as_deref(), Some("workload"));
        bench.compose.remove(&order.workload, true).await.unwrap();
    }
}

/// A stack as the version before brought it up: in the project its client asked for.
fn bring_up_as_before(bench: &StackBench, project: &str) {
    let folder = std::env::temp_dir().join(project);
    std::fs::create_dir_all(&folder).unwrap();
    let labels = format!(
        "labels: {{persys.managed: 'true', persys.cluster: '{}', persys.node: n1, \
         persys.workload_id: shop, persys.class: default}}",
        bench.prefix
    );
    let file = format!(
        "version: '3.8'\nservices: {{web: {{image: '{IMAGE}', command: [sh, -c, 'echo kept > \
         /data/x; sleep 1000'], volumes: ['data:/data'], {labels}}}}}\nvolumes: {{data: \
         {{{labels}}}}}\n"
    );
    std::fs::write(folder.join("docker-compose.yml"), file).unwrap();
    let output = Command::new("docker-compose")
        .args(["-p", project, "up", "-d"])
        .current_dir(&folder)
        .env("DOCKER_HOST", crate::support::host())
        .output()
        .expect("docker-compose: run hack/docker-up");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn a_stack_under_its_earlier_project_is_updated_there_and_keeps_its_data() {
    let bench = bench();
    let project = format!("{}-workload", bench.prefix);
    bring_up_as_before(&bench, &project);
    let id = WorkloadId::fixed("shop");
    assert_eq!(bench.compose.list().await.unwrap().len(), 1, "it is recognised");
    let services = service("web", STAYS, "restart: always\nvolumes: ['data:/data']");
    let file = format!("services:\n{services}volumes: {{data: {{}}}}\n");
    let label = format!("com.docker.compose.project={project}");
    let order = |revision: &str| start("shop", revision, asking(stack(&file), "workload"));
    // By its containers, then by what was remembered, then by its volumes alone.
    for revision in ["r2", "r3", "r4"] {
        bench.compose.start(&order(revision)).await.unwrap();
        bench.until(&id, &Existing::Running).await;
        let (containers, _, volumes) = bench.objects(&label).await;
        assert_eq!((containers, volumes.len()), (1, 1), "{revision}");
        assert_eq!(bench.compose.list().await.unwrap().len(), 1, "no second copy");
        assert_eq!(bench.say(&id, "web", "cat /data/x").await, "kept", "{revision}");
        if revision == "r3" {
            bench.compose.remove(&id, false).await.unwrap();
        }
    }
    bench.compose.remove(&id, true).await.unwrap();
    let (containers, _, volumes) = bench.objects(&label).await;
    assert_eq!((containers, volumes.len()), (0, 1), "its data stays");
}
