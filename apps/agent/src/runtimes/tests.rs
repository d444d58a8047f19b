//! Several runtimes, one of which is away.

use persys_model::id::RevisionId;
use persys_model::resources::Resources;
use persys_model::spec::vm::CloudInit;
use persys_model::spec::{ContainerSpec, Kind, Placement, VmSpec};
use persys_model::token::Epoch;
use persys_runtime::Clock;
use persys_runtime::sim::Settings;

use super::*;

fn start(name: &'static str, kind: Kind) -> Start {
    let spec = Spec {
        kind,
        resources: Resources::default(),
        placement: Placement::default(),
        metadata: BTreeMap::new(),
        secrets: Vec::new(),
        stop_grace_ms: None,
        health: persys_model::spec::health::HealthChecks::default(),
    };
    Start {
        workload: WorkloadId::fixed(name),
        revision: RevisionId::fixed("r1"),
        epoch: Epoch(1),
        spec: Arc::new(spec),
        volumes: BTreeMap::new(),
        secrets: Arc::default(),
        secrets_at: None,
        not_after: None,
        resume: false,
    }
}

fn container() -> Kind {
    Kind::Container(ContainerSpec { image: Arc::from("web:1"), ..ContainerSpec::default() })
}

fn machine() -> Kind {
    Kind::Vm(VmSpec {
        name: None,
        vcpus: 1,
        memory_mib: 32,
        disks: Vec::new(),
        networks: Vec::new(),
        cloud_init: CloudInit::default(),
        os_image: Some(Arc::from("web:1")),
        managed_volumes: Vec::new(),
        metadata: BTreeMap::new(),
    })
}

/// Containers by one runtime, machines by another.
fn two() -> (Runtimes, Sim, Sim) {
    let sim = || Sim::new(Settings::default(), Clock::since_boot());
    let (one, other) = (sim(), sim());
    let parts = vec![
        Part::new([WorkloadType::Container].into(), one.clone()),
        Part::new([WorkloadType::Vm].into(), other.clone()),
    ];
    (Runtimes { parts, missing: Arc::default(), usages: Arc::default() }, one, other)
}

fn names(seen: &[Seen]) -> Vec<&str> {
    seen.iter().map(|seen| seen.workload.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_one_hides_the_others_show() {
    let (both, one, other) = two();
    both.start(&start("web", container())).await.unwrap();
    both.start(&start("box", machine())).await.unwrap();
    let Observation::Complete(all) = both.observe(true).await else { panic!("both answer") };
    assert_eq!(names(&all), ["web", "box"]);
    other.set_silent(true);
    let Observation::Partial { seen, blind } = both.observe(true).await else {
        panic!("one answers")
    };
    assert_eq!((names(&seen), blind), (vec!["web"], [WorkloadType::Vm].into()));
    assert!(both.list().await.is_err(), "a list is all or nothing");
    one.set_silent(true);
    assert_eq!(both.observe(true).await, Observation::Unknown);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_away_holds_up_only_what_it_may_have() {
    let (both, one, other) = two();
    let (web, cube) = (WorkloadId::fixed("web"), WorkloadId::fixed("box"));
    both.start(&start("web", container())).await.unwrap();
    other.set_silent(true);
    assert!(both.remove(&web, true).await.is_err(), "it never told what it has");
    other.set_silent(false);
    both.observe(true).await;
    both.start(&start("web", container())).await.unwrap();
    both.start(&start("box", machine())).await.unwrap();

    other.set_silent(true);
    both.stop(&web, Some(Duration::ZERO)).await.unwrap();
    assert!(both.inspect(&web).await.unwrap().is_some());
    both.remove(&web, true).await.unwrap();
    assert!(both.inspect(&web).await.unwrap().is_none());
    assert!(both.stop(&cube, Some(Duration::ZERO)).await.unwrap_err().is_unknown());
    assert!(both.remove(&cube, true).await.unwrap_err().is_unknown());

    other.set_silent(false);
    one.set_silent(true);
    both.remove(&cube, true).await.unwrap();
    // What is brought over another revision may have been of another type.
    both.start(&start("box", machine())).await.unwrap();
}

#[tokio::test]
async fn containers_that_are_switched_off_are_not_offered_and_still_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let owner = persys_runtime::Owner {
        cluster: Arc::from("test"),
        node: persys_model::id::NodeId::fixed("n1"),
    };
    let settings = persys_runtime::docker::settings::Settings {
        host: format!("unix://{}", folder.path().join("none.sock").display()),
        ..persys_runtime::docker::settings::Settings::default()
    };
    let docker = Docker::new(owner, settings, Clock::since_boot());
    let stacks =
        persys_runtime::compose::settings::Settings::in_folder(folder.path().join("compose"));
    let mut runtimes = Runtimes::without_containers(docker.clone(), Compose::new(docker, stacks));
    let machines = Sim::new(Settings::default(), Clock::since_boot());
    runtimes.parts.push(Part::new([WorkloadType::Vm].into(), machines));
    runtimes.lacks().remove(&WorkloadType::Vm);

    assert_eq!(runtimes.offered(), [WorkloadType::Vm].into());
    for kind in [WorkloadType::Container, WorkloadType::Compose] {
        assert!(runtimes.missing()[&kind].contains("PERSYS_DOCKER_ENABLED"), "{kind:?}");
    }
    let refused = runtimes.start(&start("web", container())).await;
    assert!(matches!(refused, Err(Error::WrongKind { .. })), "{refused:?}");
    runtimes.start(&start("box", machine())).await.unwrap();
    runtimes.stop(&WorkloadId::fixed("box"), Some(Duration::ZERO)).await.unwrap();
    // Docker does not answer: nobody concludes that a container is gone.
    let Observation::Partial { seen, blind } = runtimes.observe(true).await else {
        panic!("whole")
    };
    assert_eq!(seen.len(), 1);
    assert_eq!(blind, [WorkloadType::Container, WorkloadType::Compose].into());
    // It is not missed either: whether it comes is no matter to what is offered.
    assert_eq!(runtimes.arrived(Duration::from_millis(1)).await, (false, true));
}
