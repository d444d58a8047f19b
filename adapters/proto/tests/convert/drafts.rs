//! What clients of either package ask for.

use persys_model::spec::check::check_apply;
use persys_model::workload::Desired;
use persys_proto::convert::{agent_draft, draft};
use persys_proto::{agent::v1 as agent, control::v1 as control};

use crate::paths;

fn request(workload: control::workload_spec::Workload) -> control::ApplyWorkloadRequest {
    control::ApplyWorkloadRequest {
        workload_id: "web".into(),
        spec: Some(control::WorkloadSpec { workload: Some(workload), ..Default::default() }),
        ..Default::default()
    }
}

#[test]
fn a_change_of_desired_state_has_no_spec() {
    let request = control::ApplyWorkloadRequest {
        workload_id: "web".into(),
        desired_state: "stop".into(),
        ..Default::default()
    };
    let apply = draft::apply(request).unwrap();
    assert_eq!((apply.desired, apply.spec, apply.revision), (Desired::Stopped, None, None));
}

/// A field that the check reads must reach it, and one that stands for another must not be lost:
/// each row breaks one field, which is then named.
#[test]
fn every_field_of_a_container_reaches_the_check() {
    type Break = fn(&mut control::ContainerSpec);
    let rows: &[(&str, Break)] = &[
        ("image", |c| c.image = "-x".into()),
        ("command[0]", |c| c.command = vec![String::new()]),
        ("args[0]", |c| c.args = vec!["\0".into()]),
        ("env[1]", |c| drop(c.env.insert("1".into(), String::new()))),
        ("volumes[0].host_path", |c| {
            let container_path = "/x".into();
            c.volumes = vec![control::VolumeMount { container_path, ..Default::default() }];
        }),
        ("ports[0].container_port", |c| c.ports = vec![control::Port::default()]),
        ("restart_policy", |c| c.restart_policy = "maybe".into()),
        ("restart_policy.max_retry_count", |c| c.max_retry_count = -1),
        ("labels[persys.x]", |c| drop(c.labels.insert("persys.x".into(), String::new()))),
        ("resources.cpu_shares", |c| {
            c.limits = Some(control::ResourceLimits { cpu_shares: 1, ..Default::default() });
        }),
        ("resources.memory_bytes", |c| {
            c.limits = Some(control::ResourceLimits { memory_bytes: 1, ..Default::default() });
        }),
        ("resources.memory_swap_bytes", |c| {
            c.limits =
                Some(control::ResourceLimits { memory_swap_bytes: -2, ..Default::default() });
        }),
    ];
    for (path, change) in rows {
        let mut body = control::ContainerSpec { image: "nginx".into(), ..Default::default() };
        change(&mut body);
        let request = request(control::workload_spec::Workload::Container(body));
        assert_eq!(paths(draft::apply(request)), [format!("spec.container.{path}")]);
    }
}

#[test]
fn every_field_of_a_vm_reaches_the_check() {
    type Break = fn(&mut control::VmSpec);
    let rows: &[(&str, Break)] = &[
        ("name", |v| v.name = "-".into()),
        ("vcpus", |v| v.vcpus = 0),
        ("memory_mb", |v| v.memory_mb = -1),
        ("disk_gb", |v| v.disk_gb = 5),
        ("runtime", |v| v.runtime = "firecracker".into()),
        ("os_image", |v| v.os_image = "a/b".into()),
        ("metadata[=]", |v| drop(v.metadata.insert("=".into(), String::new()))),
        ("disks[0].pool_name", |v| v.disks[0].pool_name = "-".into()),
        ("disks[0].size_gb", |v| v.disks[0].size_gb = -1),
        ("disks[0].mount_point", |v| v.disks[0].mount_point = "/home".into()),
        ("disks[0].device", |v| v.disks[0].device = "x".into()),
        ("disks[0].path", |v| v.disks[0].path = "x".into()),
        ("disks[0].format", |v| v.disks[0].format = "vmdk".into()),
        ("disks[0].type", |v| v.disks[0].r#type = "tape".into()),
        ("disks[0].storage", |v| v.disks[0].storage = "tape".into()),
        ("disks[0].backing_file", |v| v.disks[0].backing_file = "x".into()),
        ("networks[0].bridge", |v| v.networks[0].bridge = "-".into()),
        ("networks[0].network", |v| v.networks[0].network = "-".into()),
        ("networks[0].static_ip", |v| v.networks[0].static_ip = "x".into()),
        ("networks[0].mac_address", |v| v.networks[0].mac_address = "x".into()),
        ("networks[0].model", |v| v.networks[0].model = "x".into()),
        ("cloud_init_config.username", |v| cloud_init(v).username = "Ops".into()),
        ("cloud_init_config.ssh_public_key", |v| cloud_init(v).ssh_public_key = "x".into()),
        ("cloud_init_config.password", |v| cloud_init(v).password = "hunter2".into()),
        ("cloud_init_config.user_data", |v| cloud_init(v).user_data = "\0".into()),
        ("cloud_init_config.meta_data", |v| cloud_init(v).meta_data = "\0".into()),
        ("cloud_init_config.network_config", |v| cloud_init(v).network_config = "\0".into()),
        ("cloud_init_config.vendor_data", |v| cloud_init(v).vendor_data = "\0".into()),
        ("managed_volumes[0].name", |v| v.managed_volumes = vec![volume("")]),
    ];
    for (path, change) in rows {
        let mut body = control::VmSpec {
            vcpus: 1,
            memory_mb: 512,
            disks: vec![control::DiskConfig::default()],
            networks: vec![control::NetworkConfig::default()],
            ..Default::default()
        };
        change(&mut body);
        let request = request(control::workload_spec::Workload::Vm(body));
        let at_fault = paths(draft::apply(request));
        assert!(at_fault.contains(&format!("spec.vm.{path}")), "{path}: {at_fault:?}");
    }
}

fn cloud_init(vm: &mut control::VmSpec) -> &mut control::CloudInitConfig {
    vm.cloud_init.get_or_insert_default()
}

fn volume(name: &str) -> control::ManagedVolumeSpec {
    control::ManagedVolumeSpec { name: name.into(), size_gb: 1, ..Default::default() }
}

#[test]
fn a_client_does_not_say_what_is_found() {
    let body = control::ComposeSpec {
        inline_yaml: "services: {a: {image: b, ports: ['80:80']}}".into(),
        found_ports: vec![control::Port::default()],
        found_volumes: true,
        git_commit: "0123456789abcdef0123456789abcdef01234567".into(),
        git_file: "services: {other: {image: b}}".into(),
        ..Default::default()
    };
    let checked = draft::apply(request(control::workload_spec::Workload::Compose(body))).unwrap();
    let spec = checked.spec.unwrap();
    let ports: Vec<_> = spec.host_ports().iter().map(ToString::to_string).collect();
    assert_eq!(ports, ["80/tcp"]);
    assert!(!spec.keeps_local_data());

    let body = control::ComposeSpec {
        git_repo: "https://h/x".into(),
        git_commit: "0123456789abcdef0123456789abcdef01234567".into(),
        git_file: "services: {mine: {image: b}}".into(),
        ..Default::default()
    };
    let asked = request(control::workload_spec::Workload::Compose(body));
    assert_eq!(paths(draft::apply(asked.clone())), ["spec.compose.git_repo"], "not fetched");
    assert_eq!(draft::unfetched(asked), Ok(()), "as far as its sender can know");
}

#[test]
fn placement_reaches_the_check() {
    let rules = control::PlacementRules {
        constraints: vec![control::Constraint { key: "k".into(), ..Default::default() }],
        tolerations: vec![control::Toleration::default()],
        strategy: "x".into(),
        class: "x".into(),
        on_node_loss: "x".into(),
    };
    let body = control::ContainerSpec { image: "x".into(), ..Default::default() };
    let mut request = request(control::workload_spec::Workload::Container(body));
    request.spec.as_mut().unwrap().placement = Some(rules);
    assert_eq!(
        paths(draft::apply(request)),
        [
            "spec.placement.constraints[0].operator",
            "spec.placement.tolerations[0].key",
            "spec.placement.strategy",
            "spec.placement.class",
            "spec.placement.on_node_loss"
        ]
    );
}

fn agent_container() -> agent::ApplyWorkloadRequest {
    let body = agent::ContainerSpec {
        image: "nginx".into(),
        args: vec!["-g".into()],
        resources: Some(agent::ResourceLimits { memory_bytes: 64 << 20, ..Default::default() }),
        cpu_millicores: 700,
        ..Default::default()
    };
    agent::ApplyWorkloadRequest {
        id: "web".into(),
        r#type: agent::WorkloadType::Container.into(),
        desired_state: agent::DesiredState::Stopped.into(),
        spec: Some(agent::WorkloadSpec { spec: Some(agent::workload_spec::Spec::Container(body)) }),
        ..Default::default()
    }
}

#[test]
fn an_agent_request_is_a_draft() {
    let draft = agent_draft::from_apply(agent_container()).unwrap();
    let apply = check_apply(&draft).unwrap();
    assert_eq!(apply.desired, Desired::Stopped);
    let spec = apply.spec.unwrap();
    assert_eq!(spec.resources.compute.cpu_millicores, 700);
    assert_eq!(spec.resources.compute.memory_mib, 64);
}

#[test]
fn a_number_nobody_knows_is_a_fault() {
    let mut request = agent_container();
    request.r#type = 17;
    request.desired_state = -3;
    assert_eq!(paths(agent_draft::from_apply(request)), ["type", "desired_state"]);
}

#[test]
fn a_micro_vm_is_refused_by_name() {
    let mut request = agent_container();
    request.r#type = agent::WorkloadType::Microvm.into();
    let draft = agent_draft::from_apply(request).unwrap();
    let faults = check_apply(&draft).unwrap_err();
    assert!(faults.to_string().contains("\"microvm\" is not supported"), "{faults}");
}
