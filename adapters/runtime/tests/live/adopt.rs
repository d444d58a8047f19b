//! Containers of an earlier installation are taken over as they run.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bollard::models::{ContainerCreateBody, HostConfig, RestartPolicy, RestartPolicyNameEnum};
use bollard::query_parameters::InspectContainerOptions;
use persys_model::spec::secret::Secret;
use persys_model::spec::{ADOPT_ON_KEY, ContainerSpec};
use persys_node::input::Existing;
use persys_runtime::docker::Docker;
use persys_runtime::{Clock, Error, Runtime, Start};

use super::bench::{DockerBench, IMAGE, bench_with, owner, settings, sleeper};
use crate::contract::{self, start};

/// A container as the earlier agent made it for this workload.
fn made_earlier(workload: &str) -> ContainerCreateBody {
    let labels = [
        ("persys.managed", "true"),
        ("persys.workload_id", workload),
        ("persys.revision_id", "rev-3"),
        ("persys.test", "live"),
    ];
    let always =
        RestartPolicy { name: Some(RestartPolicyNameEnum::ALWAYS), maximum_retry_count: None };
    ContainerCreateBody {
        env: Some(vec!["MODE=blue".to_owned()]),
        labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
        host_config: Some(HostConfig { restart_policy: Some(always), ..HostConfig::default() }),
        ..sleeper()
    }
}

/// The same as it is imported.
fn imported(workload: &str, revision: &str, node: &str) -> Start {
    let container = ContainerSpec {
        image: Arc::from(IMAGE),
        args: ["/bin/sleep", "1000"].map(Arc::from).to_vec(),
        env: [(Arc::from("MODE"), Secret::new("blue"))].into(),
        labels: [(Arc::from("persys.test"), Arc::from("live"))].into(),
        ..ContainerSpec::default()
    };
    let mut order = start(workload, revision, container);
    let spec = Arc::make_mut(&mut order.spec);
    spec.metadata.insert(Arc::from(ADOPT_ON_KEY), Arc::from(node));
    order
}

fn bench(folder: &Path) -> DockerBench {
    bench_with(|settings| settings.adopted = Some(folder.to_owned()))
}

fn unique(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

#[tokio::test]
async fn a_container_of_an_earlier_installation_runs_on_as_ours() {
    let folder = tempfile::tempdir().unwrap();
    let bench = bench(folder.path());
    let web = unique("adopt");
    let id = bench.plant(&web, made_earlier(&web)).await;
    let look = || bench.raw.inspect_container(&id, None::<InspectContainerOptions>);
    let began = look().await.unwrap().state.unwrap().started_at;

    let order = imported(&web, "rev-3", "n1");
    bench.docker.start(&order).await.unwrap();
    bench.docker.start(&order).await.unwrap();
    let thing = bench.docker.inspect(&order.workload).await.unwrap().unwrap();
    assert_eq!(
        (&thing.id, &thing.started_at),
        (&id, &began),
        "the same container, never restarted"
    );
    let raw = look().await.unwrap();
    let policy = raw.host_config.unwrap().restart_policy.unwrap().name;
    assert_eq!(policy, Some(RestartPolicyNameEnum::NO), "the agent restarts it, not Docker");
    assert!(contract::listed(&bench, &order.workload).await.is_some());

    // The next process of the agent knows it, and by the same name nothing else is made.
    let again = settings(&bench.prefix);
    let again = persys_runtime::docker::settings::Settings {
        adopted: Some(folder.path().to_owned()),
        ..again
    };
    let docker = Docker::new(owner(&bench.prefix), again, Clock::since_boot());
    let seen = docker.list().await.unwrap();
    assert_eq!((seen.len(), &seen[0].state), (1, &Existing::Running));
    assert!(
        bench
            .raw
            .inspect_container(&bench.name(&web), None::<InspectContainerOptions>)
            .await
            .is_err()
    );

    // A new revision is an update as any other; a removal leaves nothing.
    let newer = imported(&web, "rev-4", "n1");
    let refused = docker.start(&newer).await.unwrap_err();
    assert!(matches!(refused, Error::OtherRevision { .. }), "{refused}");
    docker.stop(&order.workload, Some(Duration::ZERO)).await.unwrap();
    docker.remove(&order.workload, true).await.unwrap();
    assert!(look().await.is_err(), "removed");
    assert!(docker.list().await.unwrap().is_empty());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "forgotten");
}

#[tokio::test]
async fn another_container_is_replaced_and_one_that_was_not_imported_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let bench = bench(folder.path());
    let web = unique("replace");
    let body = ContainerCreateBody { env: Some(vec!["MODE=red".to_owned()]), ..made_earlier(&web) };
    let id = bench.plant(&web, body).await;

    // From another node, or not imported at all: nothing of the earlier installation is touched.
    let elsewhere = imported(&web, "rev-3", "n2");
    bench.docker.start(&elsewhere).await.unwrap();
    assert!(bench.is_up(&id).await);
    bench.docker.remove(&elsewhere.workload, true).await.unwrap();
    assert!(bench.is_up(&id).await);

    let order = imported(&web, "rev-3", "n1");
    bench.docker.start(&order).await.unwrap();
    assert!(bench.raw.inspect_container(&id, None::<InspectContainerOptions>).await.is_err());
    assert!(bench.is_up(&bench.name(&web)).await, "one of ours in its place");
    bench.docker.remove(&order.workload, true).await.unwrap();
}
