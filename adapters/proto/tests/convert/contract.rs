//! Orders for those who know the contract alone.

use std::sync::Arc;

use persys_model::command::{Command, Order};
use persys_proto::control::v1 as wire;
use persys_proto::control::v1::control_message::Message;
use persys_proto::control::v1::workload_spec::Workload;
use persys_proto::convert::{contract, spec};

use crate::paths;
use crate::random::Random;
use crate::samples;

/// An order to have this.
fn order(workload: Workload) -> Command {
    let r#type = match &workload {
        Workload::Container(_) => "container",
        Workload::Compose(_) => "compose",
        Workload::Vm(_) => "vm",
    };
    let message = wire::WorkloadSpec {
        r#type: r#type.to_owned(),
        resources: Some(wire::ResourceRequirements {
            cpu_millicores: 100,
            memory_mb: 64,
            disk_gb: 0,
        }),
        workload: Some(workload),
        placement: Some(wire::PlacementRules { strategy: "binpack".into(), ..Default::default() }),
        ..wire::WorkloadSpec::default()
    };
    let whole = Arc::new(spec::from_wire(message).unwrap());
    for seed in 0.. {
        let command = samples::command(&mut Random(seed));
        if let Order::Apply(apply) = command.order.clone() {
            let apply = persys_model::command::Apply { spec: whole, ..apply };
            return Command { order: Order::Apply(apply), ..command };
        }
    }
    unreachable!("there is always a next seed")
}

fn container() -> wire::ContainerSpec {
    wire::ContainerSpec {
        image: "nginx:1.27".into(),
        command: vec!["serve".into()],
        command_is_cmd: true,
        ..wire::ContainerSpec::default()
    }
}

fn sent(command: &Command) -> Workload {
    let Message::Apply(apply) = contract::to_stream(command).unwrap() else { panic!("no apply") };
    assert_eq!(apply.workload_id, command.workload.as_str());
    let spec = apply.spec.unwrap();
    assert_eq!(spec.placement, None);
    spec.workload.unwrap()
}

#[test]
fn arguments_follow_the_command() {
    let body = wire::ContainerSpec { args: vec!["--fast".into()], ..container() };
    let Workload::Container(body) = sent(&order(Workload::Container(body))) else { panic!() };
    assert_eq!(body.command, ["serve", "--fast"]);
    assert!(body.args.is_empty());
}

#[test]
fn what_would_be_dropped_is_refused_by_name() {
    let cases = [
        ("spec.container.labels", {
            let labels = [("a".to_owned(), "b".to_owned())].into();
            wire::ContainerSpec { labels, ..container() }
        }),
        ("spec.container.limits", {
            let limits = wire::ResourceLimits { cpu_shares: 512, ..Default::default() };
            wire::ContainerSpec { limits: Some(limits), ..container() }
        }),
        ("spec.container.max_retry_count", {
            let restart_policy = "on-failure".to_owned();
            wire::ContainerSpec { restart_policy, max_retry_count: 3, ..container() }
        }),
        ("spec.container.entrypoint", {
            wire::ContainerSpec { entrypoint: vec!["x".into()], ..container() }
        }),
    ];
    for (path, body) in cases {
        assert_eq!(paths(contract::to_stream(&order(Workload::Container(body)))), [path]);
    }
    let body = wire::ComposeSpec {
        source_type: "inline".into(),
        inline_yaml: "services: {web: {image: nginx}}".into(),
        project_name: "shop".into(),
        ..wire::ComposeSpec::default()
    };
    let refused = contract::to_stream(&order(Workload::Compose(body)));
    assert_eq!(paths(refused), ["spec.compose.project_name"]);
}

#[test]
fn a_removal_takes_data_along_or_is_refused() {
    let command = order(Workload::Container(container()));
    let with = |purge| Command { order: Order::Remove { purge }, ..command.clone() };
    let Message::Delete(delete) = contract::to_stream(&with(true)).unwrap() else { panic!() };
    assert_eq!(delete.workload_id, command.workload.as_str());
    assert_eq!(paths(contract::to_stream(&with(false))), ["purge"]);
}

/// Whatever is sent says nothing in fields from 100 up, which the receiver would drop.
#[test]
fn nothing_of_ours_is_sent() {
    let mut taken = 0;
    for seed in 0..2_000 {
        let Ok(Message::Apply(apply)) = contract::to_stream(&samples::command(&mut Random(seed)))
        else {
            continue;
        };
        taken += 1;
        let workload = apply.spec.unwrap().workload.unwrap();
        let bare = match workload.clone() {
            Workload::Container(body) => Workload::Container(wire::ContainerSpec {
                args: vec![],
                entrypoint: vec![],
                command_is_cmd: false,
                labels: [].into(),
                limits: None,
                max_retry_count: 0,
                ..body
            }),
            Workload::Compose(body) => Workload::Compose(wire::ComposeSpec {
                project_name: String::new(),
                found_ports: vec![],
                found_volumes: false,
                git_path: String::new(),
                git_commit: String::new(),
                git_file: String::new(),
                ..body
            }),
            Workload::Vm(mut body) => {
                for disk in &mut body.disks {
                    *disk = wire::DiskConfig {
                        pool_name: std::mem::take(&mut disk.pool_name),
                        size_gb: disk.size_gb,
                        mount_point: std::mem::take(&mut disk.mount_point),
                        ..wire::DiskConfig::default()
                    };
                }
                for card in &mut body.networks {
                    *card = wire::NetworkConfig {
                        bridge: std::mem::take(&mut card.bridge),
                        dhcp: card.dhcp,
                        static_ip: std::mem::take(&mut card.static_ip),
                        ..wire::NetworkConfig::default()
                    };
                }
                let (name, runtime) = (String::new(), String::new());
                Workload::Vm(wire::VmSpec {
                    name,
                    runtime,
                    disk_gb: 0,
                    metadata: [].into(),
                    ..body
                })
            }
        };
        assert!(bare == workload, "seed {seed}");
    }
    assert!(taken > 50, "only {taken} could be sent");
}
