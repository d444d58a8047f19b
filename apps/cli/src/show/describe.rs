//! One workload, whole.

use std::time::SystemTime;

use persys_model::health::HealthState;
use persys_proto::compute::v1::{DescribeResponse, ServiceStatus};
use persys_proto::control::v1::workload_spec::Workload;
use persys_proto::control::v1::{Port, WorkloadSpec, WorkloadView};

use super::link::link;
use super::moment::{age, clock};
use super::table::pairs;
use super::workload::{health, reason, status, update};

/// The workload as text.
pub(crate) fn text(found: &DescribeResponse, now: SystemTime) -> String {
    let view = found.workload.clone().unwrap_or_default();
    let next_try = view.retry_next_at.as_ref().map(|at| clock(Some(at))).unwrap_or_default();
    let tries = if view.retry_attempts == 0 {
        String::new()
    } else {
        format!("{} of {}", view.retry_attempts, view.retry_max_attempts)
    };
    let former: Vec<_> = found
        .former_copies
        .iter()
        .map(|copy| format!("{} (decision {})", copy.node_id, copy.epoch))
        .collect();
    let addresses: Vec<_> = found.addresses.iter().map(|address| link(address)).collect();
    let mut rows = vec![
        ("id", view.workload_id.clone()),
        ("type", view.r#type.clone()),
        ("status", status(&view)),
        ("why", reason(&view)),
        ("wanted", view.desired_state.clone()),
        ("node", view.assigned_node_id.clone()),
        ("admitted", admitted(&view)),
        ("address", addresses.join("\n")),
        ("revision", revision(view.revision_number, &view.revision_id)),
        ("running", revision(view.running_revision_number, &view.running_revision_id)),
        ("update", update_text(&view)),
        ("health", health_text(&view, now)),
        ("tries", tries),
        ("next try", next_try),
        ("created", clock(view.created_at.as_ref())),
        ("changed", format!("{} ago", age(view.last_updated.as_ref(), now))),
        ("old copies", former.join("\n")),
    ];
    if let Some(spec) = &found.spec {
        rows.extend(spec_rows(spec));
    }
    if let Some(inside) = &found.inside {
        rows.extend([
            ("runtime id", inside.runtime_id.clone()),
            ("started", inside.started_at.clone()),
            ("finished", inside.finished_at.clone()),
            ("inner ip", inside.ip_addresses.join(", ")),
            ("services", services(&inside.services)),
            ("evidence", inside.evidence.join("\n")),
        ]);
        if let Some(usage) = &inside.usage {
            let memory = usage.memory_bytes / 1024 / 1024;
            rows.push(("in use", format!("{:.1}% CPU, {memory} MiB", usage.cpu_percent)));
        }
    } else {
        rows.push(("inside", found.inside_missing.clone()));
    }
    pairs(&rows)
}

/// A revision with its short number, where that is known.
fn revision(number: u32, id: &str) -> String {
    match (number, id) {
        (_, "") | (0, _) => id.to_owned(),
        (number, id) => format!("{number} ({id})"),
    }
}

/// The state of its update, with what is to be said of it unless `why` says that already.
fn update_text(view: &WorkloadView) -> String {
    match update(view) {
        Some(state) if reason(view) == view.update_message => state.to_owned(),
        Some(state) => format!("{state}: {}", view.update_message),
        None => String::new(),
    }
}

/// The verdict of its checks with the output of the last failed one.
fn health_text(view: &WorkloadView, now: SystemTime) -> String {
    let Some(word) = health(view) else { return String::new() };
    let since = age(view.health_since.as_ref(), now);
    match view.health_message.as_str() {
        "" => format!("{word} ({since})"),
        message => format!("{word} ({since}): {message}"),
    }
}

/// When the node accepted the order, while the order is carried out; empty otherwise.
fn admitted(view: &WorkloadView) -> String {
    if !["Scheduled", "Stopping", "Deleting"].contains(&view.status.as_str())
        || view.assigned_node_id.is_empty()
    {
        return String::new();
    }
    let Some(at) = view.admitted_at.as_ref().filter(|_| view.admitted_on_node) else {
        return "not yet".to_owned();
    };
    let task = view.task.as_ref().map(|task| format!(" ({} is {})", task.task_id, task.status));
    format!("{}{}", clock(Some(at)), task.unwrap_or_default())
}

/// How each container of a stack is, a line each.
fn services(services: &[ServiceStatus]) -> String {
    let several = |name: &str| services.iter().filter(|other| other.name == name).count() > 1;
    let line = |service: &ServiceStatus| {
        let state = match (service.state.as_str(), service.exit_code) {
            ("exited", 0) if service.one_shot => "done".to_owned(),
            ("exited", code) => format!("exited with code {code}"),
            (state, _) => state.to_owned(),
        };
        let health = HealthState::ALL.into_iter().find(|one| one.word() == service.health);
        let health = match (health, service.health_message.lines().next()) {
            (None, _) => String::new(),
            (Some(health), None) => format!(" ({})", health.text()),
            (Some(health), Some(message)) => format!(" ({}: {message})", health.text()),
        };
        match service.number {
            number @ 1.. if several(&service.name) => {
                format!("{}-{number} {state}{health}", service.name)
            }
            _ => format!("{} {state}{health}", service.name),
        }
    };
    services.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// All the disk it reserves on its node: what was asked for, its disks there, its local volumes.
fn disk_gib(spec: &WorkloadSpec, asked: i64) -> i64 {
    let on_node = |storage: &str| matches!(storage, "" | "local");
    let (disks, volumes) = match &spec.workload {
        Some(Workload::Container(body)) => (&[][..], &body.managed_volumes[..]),
        Some(Workload::Vm(body)) => (&body.disks[..], &body.managed_volumes[..]),
        Some(Workload::Compose(_)) | None => (&[][..], &[][..]),
    };
    let disks = disks.iter().filter(|disk| on_node(&disk.storage)).map(|disk| disk.size_gb);
    let volumes = volumes.iter().filter(|one| on_node(&one.driver)).map(|one| one.size_gb);
    disks.chain(volumes).fold(asked, i64::saturating_add)
}

/// `127.0.0.1:8080->80/tcp`; without an address it is every address, without a port any that is free.
fn published(port: &Port) -> String {
    let address = match port.host_ip.as_str() {
        "" => String::new(),
        v6 if v6.contains(':') => format!("[{v6}]:"),
        v4 => format!("{v4}:"),
    };
    let inner = format!("{}/{}", port.container_port, port.protocol);
    match port.host_port {
        0 if address.is_empty() => inner,
        0 => format!("{address}*->{inner}"),
        host => format!("{address}{host}->{inner}"),
    }
}

fn spec_rows(spec: &WorkloadSpec) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    if let Some(asked) = &spec.resources {
        rows.push((
            "reserves",
            format!(
                "{} millicores, {} MiB memory, {} GiB disk",
                asked.cpu_millicores,
                asked.memory_mb,
                disk_gib(spec, asked.disk_gb)
            ),
        ));
    }
    match &spec.workload {
        Some(Workload::Container(body)) => {
            let ports: Vec<_> = body.ports.iter().map(published).collect();
            let env: Vec<_> =
                body.env.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let mounts: Vec<_> = body
                .volumes
                .iter()
                .map(|bind| {
                    let mode = if bind.read_only { ":ro" } else { "" };
                    format!("{}:{}{mode}", bind.host_path, bind.container_path)
                })
                .collect();
            rows.extend([
                ("image", body.image.clone()),
                ("command", [body.command.clone(), body.args.clone()].concat().join(" ")),
                ("ports", ports.join("\n")),
                ("env", env.join("\n")),
                ("volumes", mounts.join("\n")),
                ("restart", body.restart_policy.clone()),
            ]);
        }
        Some(Workload::Compose(body)) => {
            let file = if body.git_file.is_empty() { &body.inline_yaml } else { &body.git_file };
            let env: Vec<_> =
                body.env.iter().map(|(key, value)| format!("{key}={value}")).collect();
            rows.extend([
                ("source", body.source_type.clone()),
                ("git", body.git_repo.clone()),
                ("ref", body.git_ref.clone()),
                ("path", body.git_path.clone()),
                ("commit", body.git_commit.clone()),
                ("env", env.join("\n")),
                ("file", file.clone()),
            ]);
        }
        Some(Workload::Vm(body)) => rows.extend([
            ("image", body.os_image.clone()),
            ("vm", format!("{} vCPUs, {} MiB", body.vcpus, body.memory_mb)),
        ]),
        None => {}
    }
    rows
}

#[cfg(test)]
mod tests {
    use persys_proto::control::v1::{DiskConfig, ManagedVolumeSpec, VmSpec, WorkloadTask};

    use super::*;

    #[test]
    fn it_is_shown_when_the_node_accepted_the_order() {
        let mut view = WorkloadView {
            status: "Scheduled".to_owned(),
            assigned_node_id: "n1".to_owned(),
            ..WorkloadView::default()
        };
        assert_eq!(admitted(&view), "not yet");
        view.admitted_on_node = true;
        view.admitted_at = Some(prost_types::Timestamp { seconds: 0, nanos: 0 });
        let (task_id, status) = ("task-1-2".to_owned(), "running".to_owned());
        view.task = Some(WorkloadTask { task_id, status, ..WorkloadTask::default() });
        assert_eq!(admitted(&view), "1970-01-01T00:00:00Z (task-1-2 is running)");
        view.status = "Running".to_owned();
        assert_eq!(admitted(&view), "");
    }

    #[test]
    fn the_disks_of_a_machine_are_part_of_what_it_reserves() {
        let disk = |size_gb, storage: &str| DiskConfig {
            size_gb,
            storage: storage.to_owned(),
            ..DiskConfig::default()
        };
        let volume = |size_gb, driver: &str| ManagedVolumeSpec {
            size_gb,
            driver: driver.to_owned(),
            ..ManagedVolumeSpec::default()
        };
        let machine = VmSpec {
            disks: vec![disk(1, ""), disk(50, "ceph-rbd")],
            managed_volumes: vec![volume(3, "local"), volume(70, "nfs")],
            ..VmSpec::default()
        };
        let spec =
            WorkloadSpec { workload: Some(Workload::Vm(machine)), ..WorkloadSpec::default() };
        assert_eq!(disk_gib(&spec, 0), 4);
        assert_eq!(disk_gib(&spec, 2), 6);
    }
}
