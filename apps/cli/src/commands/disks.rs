//! `disk …`.

use std::time::SystemTime;

use persys_proto::control::v1 as wire;
use serde_json::Value;

use super::delete::confirm;
use crate::args::{CreateDisk, DiskCommand};
use crate::connect::Client;
use crate::problem::Problem;
use crate::shell::Shell;
use crate::show;
use crate::show::moment::{age, clock};
use crate::show::table::{or_dash, pairs, table};

/// `disk …`.
pub(super) async fn run(shell: &Shell, command: DiskCommand) -> Result<u8, Problem> {
    let client = shell.client()?;
    match command {
        DiskCommand::List => list(shell, &client).await,
        DiskCommand::Get { disk } => get(shell, &client, disk).await,
        DiskCommand::Create(wanted) => create(shell, &client, wanted).await,
        DiskCommand::Delete { disk, yes } => delete(shell, &client, disk, yes).await,
    }
}

async fn list(shell: &Shell, client: &Client) -> Result<u8, Problem> {
    let question = wire::ListDisksRequest {};
    let found = client.ask("disks cannot be listed", client.control().list_disks(question)).await?;
    if shell.output().is_data() {
        let all = found.disks.iter().map(|disk| show::control("DiskView", disk)).collect();
        shell.data(&Value::Array(all))?;
        return Ok(0);
    }
    if found.disks.is_empty() {
        shell.line("there are no disks; make one with persys disk create, or with a workload")?;
        return Ok(0);
    }
    let now = SystemTime::now();
    let row = |disk: &wire::DiskView| {
        vec![
            disk.id.clone(),
            disk.phase.clone(),
            size(disk.size_gb),
            or_dash(&disk.node_id),
            disk.workload_refs.join(","),
            disk.retain_policy.clone(),
            age(disk.created_at.as_ref(), now),
        ]
    };
    let header = ["DISK", "PHASE", "SIZE", "DATA ON", "USED BY", "POLICY", "AGE"];
    shell.print(&table(&header, found.disks.iter().map(row).collect()))?;
    Ok(0)
}

/// The size as it is read; nobody knows that of a volume Docker keeps.
fn size(gib: i64) -> String {
    if gib == 0 { "-".to_owned() } else { format!("{gib}Gi") }
}

async fn get(shell: &Shell, client: &Client, disk_id: String) -> Result<u8, Problem> {
    let what = format!("disk {disk_id} cannot be looked at");
    let question = wire::GetDiskRequest { disk_id };
    let found = client.ask(&what, client.control().get_disk(question)).await?;
    let disk = found.disk.unwrap_or_default();
    if shell.output().is_data() {
        shell.data(&show::control("DiskView", &disk))?;
        return Ok(0);
    }
    shell.print(&pairs(&[
        ("disk", disk.id),
        ("phase", disk.phase),
        ("note", disk.last_error),
        ("size", size(disk.size_gb)),
        ("access", disk.access_mode),
        ("policy", disk.retain_policy),
        ("data on", disk.node_id),
        ("seen at", disk.mount_path),
        ("used by", disk.workload_refs.join(", ")),
        ("attached", disk.attached_nodes.join(", ")),
        ("created", clock(disk.created_at.as_ref())),
    ]))?;
    Ok(0)
}

async fn create(shell: &Shell, client: &Client, wanted: CreateDisk) -> Result<u8, Problem> {
    let CreateDisk { name, driver, size, node, access, fs, policy } = wanted;
    let what = format!("disk {name} cannot be made");
    let question = wire::CreateDiskRequest {
        name,
        driver,
        size_gb: size,
        fs_type: fs.unwrap_or_default(),
        access_mode: access.unwrap_or_default(),
        retain_policy: policy,
        node_id: node.unwrap_or_default(),
        mount_path: String::new(),
    };
    let made = client.ask(&what, client.control().create_disk(question)).await;
    let made = made.map_err(|problem| problem.next("persys disk list"))?;
    let disk = made.disk.unwrap_or_default();
    if shell.output().is_data() {
        shell.data(&show::control("DiskView", &disk))?;
        return Ok(0);
    }
    shell.line(&format!("disk {} is {}", disk.id, disk.phase))?;
    shell.line(&format!(
        "use it in a workload with managed_volumes: [{{name: {}, driver: {}, size_gb: {}, \
         retain_policy: {}, mount_path: /data}}]",
        disk.name, disk.driver, disk.size_gb, disk.retain_policy
    ))?;
    Ok(0)
}

async fn delete(shell: &Shell, client: &Client, disk_id: String, yes: bool) -> Result<u8, Problem> {
    if shell.world.in_terminal && !yes {
        confirm(shell, &format!("delete disk {disk_id} and its data? [y/N] ")).await?;
    }
    let what = format!("disk {disk_id} cannot be deleted");
    let question = wire::DeleteDiskRequest { disk_id: disk_id.clone(), force: false };
    let answer = client.ask(&what, client.control().delete_disk(question)).await?;
    if !answer.success {
        let next = format!("persys disk get {disk_id}");
        return Err(Problem::new(what).why(answer.error_message).next(&next));
    }
    let question = wire::GetDiskRequest { disk_id: disk_id.clone() };
    let still = client.ask(&what, client.control().get_disk(question)).await.is_ok();
    shell.line(&match &*answer.error_message {
        "" if still => format!("disk {disk_id} is being deleted; see persys disk get {disk_id}"),
        "" => format!("disk {disk_id} is deleted"),
        note => format!("disk {disk_id}: {note}"),
    })?;
    Ok(0)
}
