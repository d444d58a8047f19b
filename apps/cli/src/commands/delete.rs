//! `delete`: says what goes and what stays, asks whoever sits at a terminal, and then does it.
//!
//! Data is kept unless it is said that it may go: volumes that a Compose file names go only with
//! `--volumes`, managed volumes by their policy. A script is not asked, and so has to say `--yes` where
//! data would go that is kept otherwise.

use persys_model::id::WorkloadId;
use persys_model::spec::vm::DiskSource;
use persys_model::spec::{Kind, Spec};
use persys_model::volume::VolumeKey;
use persys_proto::compute::v1 as compute;
use persys_proto::control::v1 as wire;
use persys_proto::control::v1::workload_spec::Workload;
use persys_proto::convert::spec as convert;

use super::find;
use super::lifecycle::{self, Verb};
use crate::args::Delete;
use crate::connect::Client;
use crate::problem::Problem;
use crate::shell::Shell;

/// What becomes of a workload and its data.
#[derive(Debug, Default, PartialEq, Eq)]
struct Fate {
    goes: Vec<String>,
    stays: Vec<String>,
}

/// `delete`.
pub(super) async fn run(shell: &Shell, wanted: &Delete) -> Result<u8, Problem> {
    let asks = shell.world.in_terminal && !wanted.yes;
    if wanted.volumes && !shell.world.in_terminal && !wanted.yes {
        return Err(Problem::usage("--volumes deletes data, and nobody is there to be asked")
            .why("without a terminal it takes --yes beside it"));
    }
    let client = shell.client()?;
    // All are found before anything is done to any, by whole ids.
    let mut views: Vec<wire::WorkloadView> = Vec::new();
    for typed in &wanted.ids.ids {
        let view = find::exact_workload(&client, typed).await?;
        if !views.iter().any(|known| known.workload_id == view.workload_id) {
            views.push(view);
        }
    }
    if asks {
        for view in &views {
            shell.world.remark(describe(&client, view, wanted.volumes).await.as_bytes());
        }
        confirm(shell, "delete? [y/N] ").await?;
    }
    let verb = if wanted.volumes { Verb::DeleteWithVolumes } else { Verb::Delete };
    let ids = views.into_iter().map(|view| view.workload_id).collect();
    lifecycle::all(shell, &client, (ids, wanted.ids.detach), verb).await
}

/// Asks whoever sits at the terminal; anything but yes is no.
pub(super) async fn confirm(shell: &Shell, question: &str) -> Result<(), Problem> {
    shell.world.remark(question.as_bytes());
    let said = shell.world.keys().recv().await.unwrap_or_default();
    let said = String::from_utf8_lossy(&said).trim().to_ascii_lowercase();
    if matches!(said.as_str(), "y" | "yes") {
        return Ok(());
    }
    Err(Problem::new("nothing was deleted").why("it was not confirmed; --yes answers beforehand"))
}

async fn describe(client: &Client, view: &wire::WorkloadView, volumes: bool) -> String {
    let id = &view.workload_id;
    let request = compute::DescribeRequest { workload_id: id.clone(), secrets: false };
    let shown = client.answer(client.compute().describe(request)).await.ok();
    let shown = shown.and_then(|found| found.spec).unwrap_or_default();
    let fate = match &shown.workload {
        Some(Workload::Compose(stack)) => fate_of_stack(id, stack, volumes),
        Some(Workload::Container(_) | Workload::Vm(_)) | None => match convert::from_wire(shown) {
            Ok(spec) => fate(&spec),
            Err(_) => Fate { goes: vec!["all that was made for it".to_owned()], stays: Vec::new() },
        },
    };
    let on = match view.assigned_node_id.as_str() {
        "" => String::new(),
        node => format!(" on node {node}"),
    };
    let mut text = format!("{id}{on}\n");
    for (word, what) in [("goes", &fate.goes), ("stays", &fate.stays)] {
        for one in what {
            text.extend([format!("  {word:<6} {one}\n")]);
        }
    }
    text
}

/// The file of a stack may be hidden; the names of its volumes are told beside it.
fn fate_of_stack(id: &str, stack: &wire::ComposeSpec, volumes: bool) -> Fate {
    let mut fate = Fate::default();
    fate.goes.push("the containers and networks of the stack".to_owned());
    let owner = WorkloadId::new(id).ok();
    for name in &stack.found_volume_names {
        let key = owner.as_ref().map(|id| VolumeKey::of_stack(id, name).to_string());
        let disk = format!("disk {}", key.as_ref().unwrap_or(name));
        if volumes {
            fate.goes.push(format!("{disk}, with its data"));
        } else {
            fate.stays.push(format!("{disk}; --volumes deletes it too"));
        }
    }
    fate
}

fn fate(spec: &Spec) -> Fate {
    let mut fate = Fate::default();
    match &spec.kind {
        Kind::Container(container) => {
            fate.goes.push(format!("the container ({})", container.image));
            let binds = container.binds.iter();
            fate.stays.extend(binds.map(|bind| format!("{} of the node", bind.host_path)));
        }
        Kind::Compose(_) => fate.goes.push("the containers and networks of the stack".to_owned()),
        Kind::Vm(machine) => {
            fate.goes.push("the machine".to_owned());
            for disk in &machine.disks {
                match &disk.source {
                    DiskSource::Pool { size_gib, .. } | DiskSource::Driver { size_gib, .. } => {
                        let text = format!("its disk {} ({size_gib} GiB)", disk.device);
                        fate.goes.push(format!("{text}, with its data"));
                    }
                    DiskSource::External { path, .. } => fate.stays.push(format!("{path}")),
                    DiskSource::Rbd { .. } | DiskSource::Nfs { .. } => {
                        fate.stays.push(format!("disk {}, which is not ours", disk.device));
                    }
                }
            }
        }
    }
    for volume in spec.managed_volumes() {
        let disk = format!("disk {}", VolumeKey::of(volume));
        if volume.retain {
            fate.stays.push(format!("{disk}: its policy is Retain"));
        } else {
            fate.goes.push(format!("{disk}, with its data: its policy is Delete"));
        }
    }
    fate
}
