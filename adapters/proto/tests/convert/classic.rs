//! What an old agent is sent.

use persys_model::id::WorkloadId;
use persys_model::spec::check::check;
use persys_model::spec::draft::{
    ComposeDraft, ContainerDraft, DiskDraft, Draft, Fetched, PlacementDraft, ResourcesDraft,
    VmDraft,
};
use persys_proto::agent::v1 as wire;
use persys_proto::agent::v1::workload_spec::Spec as Body;
use persys_proto::convert::{agent_draft, classic};

use crate::generator::draft;
use crate::paths;
use crate::random::Random;

fn id() -> WorkloadId {
    WorkloadId::fixed("web")
}

fn sent(draft: &Draft) -> Body {
    let spec = check(draft).unwrap();
    classic::to_wire(&id(), &spec).unwrap().spec.unwrap()
}

#[test]
fn a_container_has_its_reservation_as_limits() {
    let body = ContainerDraft {
        image: "nginx".into(),
        restart_policy: "on-failure".into(),
        max_retry_count: 4,
        ..ContainerDraft::default()
    };
    let resources = ResourcesDraft { cpu_millicores: 1500, memory_mb: 256, disk_gb: 0 };
    let Body::Container(container) =
        sent(&Draft { container: Some(body), resources, ..Draft::default() })
    else {
        panic!("not a container")
    };
    let limits = container.resources.unwrap();
    assert_eq!((limits.cpu_shares, limits.memory_bytes), (1500, 256 << 20));
    let restart = container.restart_policy.unwrap();
    assert_eq!((restart.policy.as_str(), restart.max_retry_count), ("on-failure", 4));
}

#[test]
fn a_compose_file_is_base64() {
    let file = "services: {a: {image: b}}\n".to_owned();
    let inline = ComposeDraft { inline_yaml: file.clone(), ..ComposeDraft::default() };
    let commit = "0123456789abcdef0123456789abcdef01234567".to_owned();
    let git = ComposeDraft {
        git_repo: "https://h/x".into(),
        fetched: Some(Fetched { commit, path: "compose.yaml".into(), file }),
        ..ComposeDraft::default()
    };
    for body in [inline, git] {
        let Body::Compose(compose) = sent(&Draft { compose: Some(body), ..Draft::default() })
        else {
            panic!("not a stack")
        };
        assert_eq!(compose.compose_yaml, "c2VydmljZXM6IHthOiB7aW1hZ2U6IGJ9fQo=");
        assert_eq!(compose.project_name, "web");
    }
}

#[test]
fn a_vm_has_its_disks_where_the_agent_looks() {
    let disks = vec![
        DiskDraft { size_gb: 10, ..DiskDraft::default() },
        DiskDraft { size_gb: 5, format: "raw".into(), ..DiskDraft::default() },
    ];
    let mut body = VmDraft { vcpus: 2, memory_mb: 1024, disks, ..VmDraft::default() };
    let vm = |body: &VmDraft| match sent(&Draft { vm: Some(body.clone()), ..Draft::default() }) {
        Body::Vm(vm) => vm,
        Body::Container(_) | Body::Compose(_) => panic!("not a VM"),
    };
    let paths: Vec<_> = vm(&body).disks.into_iter().map(|disk| disk.path).collect();
    assert_eq!(
        paths,
        ["/var/lib/libvirt/images/web-vda.qcow2", "/var/lib/libvirt/images/web-vdb.img"]
    );

    // With an image, the agent makes the first one itself.
    body.os_image = "ubuntu-24.04".into();
    let with_image = vm(&body);
    assert_eq!((with_image.os_image.as_str(), with_image.disk_gb), ("ubuntu-24.04", 10));
    assert_eq!(with_image.disks.len(), 1);
}

#[test]
fn what_an_old_agent_cannot_do_is_refused_by_name() {
    let refused = |draft: &Draft| paths(classic::to_wire(&id(), &check(draft).unwrap()));
    let container = ContainerDraft {
        image: "x".into(),
        privileged: true,
        restart_policy: "always".into(),
        max_retry_count: 3,
        ..ContainerDraft::default()
    };
    let exclusive = PlacementDraft { class: "exclusive".into(), ..PlacementDraft::default() };
    let draft = Draft { container: Some(container), placement: exclusive, ..Draft::default() };
    assert_eq!(
        refused(&draft),
        ["spec.placement.class", "spec.container.privileged", "spec.container.max_retry_count"]
    );

    let disks = vec![DiskDraft { pool_name: "fast".into(), ..DiskDraft::default() }];
    let vm = VmDraft { vcpus: 1, memory_mb: 64, disks, ..VmDraft::default() };
    let draft = Draft { vm: Some(vm), ..Draft::default() };
    assert_eq!(refused(&draft), ["spec.vm.disks[0].pool_name"]);
}

/// What is sent to an old agent is a request that we would accept ourselves.
#[test]
fn what_is_sent_is_well_formed() {
    let mut sent = 0;
    for seed in 0..4_000 {
        let Ok(spec) = check(&draft(&mut Random(seed))) else { continue };
        let Ok(message) = classic::to_wire(&id(), &spec) else { continue };
        let request = wire::ApplyWorkloadRequest {
            id: "web".into(),
            r#type: classic::workload_type(spec.workload_type()).into(),
            spec: Some(message),
            ..wire::ApplyWorkloadRequest::default()
        };
        let draft = agent_draft::from_apply(request).unwrap().spec.unwrap();
        let again = check(&draft).unwrap_or_else(|faults| panic!("seed {seed}: {faults}"));
        assert_eq!(again.workload_type(), spec.workload_type(), "seed {seed}");
        assert_eq!(again.host_ports(), spec.host_ports(), "seed {seed}");
        sent += 1;
    }
    assert!(sent > 200, "only {sent} were sent");
}
