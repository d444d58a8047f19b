//! An order on a stream for a client that knows the contract and nothing of ours.
//!
//! Its messages carry no tokens and no field from 100 up. What a spec says only there would be
//! dropped without a word, so an order that needs it is refused here and named.

use persys_model::command::{Command, Order};
use persys_model::fault::Faults;

use super::at::{At, reading};
use super::held::desired_word;
use super::spec;
use crate::control::v1 as wire;
use crate::control::v1::control_message::Message;
use crate::control::v1::workload_spec::Workload;

/// The message, or what its receiver could not do. Its delete takes deletable data along, so a
/// removal that must keep the data is refused.
pub fn to_stream(command: &Command) -> Result<Message, Faults> {
    let workload_id = command.workload.to_string();
    reading(|at| match &command.order {
        Order::Apply(apply) => Some(Message::Apply(Box::new(wire::ApplyWorkloadRequest {
            workload_id,
            spec: Some(plain(&at.field("spec"), spec::to_wire(&apply.spec))),
            revision_id: apply.revision.to_string(),
            desired_state: desired_word(apply.run).to_owned(),
            plan: String::new(),
        }))),
        Order::Remove { purge: true } => {
            Some(Message::Delete(wire::DeleteWorkloadRequest { workload_id, volumes: false }))
        }
        Order::Remove { purge: false } => {
            at.field("purge").refuse("this agent removes a workload's data with it")
        }
    })
}

/// The spec without our fields. Placement is the scheduler's own business and is left out.
fn plain(at: &At<'_>, spec: wire::WorkloadSpec) -> wire::WorkloadSpec {
    let workload = spec.workload.map(|workload| match workload {
        Workload::Container(body) => Workload::Container(container(&at.field("container"), body)),
        Workload::Compose(body) => Workload::Compose(compose(&at.field("compose"), body)),
        Workload::Vm(body) => Workload::Vm(vm(&at.field("vm"), body)),
    });
    wire::WorkloadSpec { workload, placement: None, ..spec }
}

fn unknown(at: &At<'_>, field: &'static str, given: bool) {
    if given {
        at.field(field).fault("is not known to this agent, which would drop it");
    }
}

fn container(at: &At<'_>, mut body: wire::ContainerSpec) -> wire::ContainerSpec {
    unknown(at, "labels", !body.labels.is_empty());
    unknown(at, "limits", body.limits.is_some());
    unknown(at, "max_retry_count", body.max_retry_count != 0);
    unknown(at, "entrypoint", !body.entrypoint.is_empty());
    // Both are joined when a container starts.
    body.command.append(&mut body.args);
    wire::ContainerSpec { args: Vec::new(), command_is_cmd: false, ..body }
}

fn compose(at: &At<'_>, body: wire::ComposeSpec) -> wire::ComposeSpec {
    unknown(at, "project_name", !body.project_name.is_empty());
    // What was fetched is what runs: its own fetching could find something else by now.
    let (source_type, inline_yaml) = match body.source_type.as_str() {
        "git" => ("inline".to_owned(), body.git_file),
        _ => (body.source_type, body.inline_yaml),
    };
    wire::ComposeSpec { source_type, inline_yaml, env: body.env, ..wire::ComposeSpec::default() }
}

fn vm(at: &At<'_>, body: wire::VmSpec) -> wire::VmSpec {
    unknown(at, "name", !body.name.is_empty());
    unknown(at, "metadata", !body.metadata.is_empty());
    let (here, there) = (at.field("disks"), at.field("networks"));
    let disks = body.disks.into_iter().enumerate().map(|(nth, one)| disk(&here.index(nth), one));
    let disks = disks.collect();
    let cards = body.networks.into_iter().enumerate();
    let networks = cards.map(|(nth, one)| network(&there.index(nth), one)).collect();
    let cloud_init = body.cloud_init.inspect(|login| {
        let at = at.field("cloud_init");
        unknown(&at, "username", !login.username.is_empty());
        unknown(&at, "ssh_public_key", !login.ssh_public_key.is_empty());
        unknown(&at, "password", !login.password.is_empty());
    });
    wire::VmSpec { disks, networks, cloud_init, ..body }
}

fn disk(at: &At<'_>, disk: wire::DiskConfig) -> wire::DiskConfig {
    unknown(at, "path", !disk.path.is_empty());
    unknown(at, "storage", !disk.storage.is_empty());
    unknown(at, "backing_file", !disk.backing_file.is_empty());
    unknown(at, "format", disk.format != "qcow2");
    unknown(at, "type", disk.r#type != "disk");
    wire::DiskConfig {
        pool_name: disk.pool_name,
        size_gb: disk.size_gb,
        mount_point: disk.device,
        ..wire::DiskConfig::default()
    }
}

fn network(at: &At<'_>, card: wire::NetworkConfig) -> wire::NetworkConfig {
    unknown(at, "network", !card.network.is_empty());
    unknown(at, "mac_address", !card.mac_address.is_empty());
    unknown(at, "model", card.model != "virtio");
    wire::NetworkConfig {
        bridge: card.bridge,
        dhcp: card.dhcp,
        static_ip: card.static_ip,
        ..wire::NetworkConfig::default()
    }
}
