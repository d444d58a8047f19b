//! Disks, as the contract calls managed volumes: what there is, where, and for whom.
//!
//! Most come with the workload that asks for them and go by their policy. One can also be made by
//! itself, to be used later, and one that nobody uses can be deleted with its data.

use std::sync::Arc;

use persys_cluster::input::Ask;
use persys_cluster::world::World;
use persys_model::spec::check::check_volume;
use persys_model::spec::draft::VolumeDraft;
use persys_model::volume::{Volume, VolumeKey};
use persys_proto::control::v1 as wire;
use persys_proto::convert::view::disk as shown;
use tonic::Status;

use super::Control;
use super::refusal::{done, faults, in_band, node_id};
use crate::handle::Looked;

fn view(world: &World, volume: &Volume) -> wire::DiskView {
    let nodes = world.attachments(&volume.key).map(|one| one.node.clone()).collect();
    shown::to_wire(volume, &nodes)
}

impl Control {
    pub(super) async fn disks(&self) -> Result<Looked<wire::ListDisksResponse>, Status> {
        let all = |world: &World| world.volumes().map(|volume| view(world, volume)).collect();
        let disks = self.handle.look(all).await?;
        Ok(disks.map(|disks| wire::ListDisksResponse { disks }))
    }

    /// By its id, `<driver>:<name>`, or by its name where only one driver has it.
    pub(super) async fn disk(
        &self,
        request: wire::GetDiskRequest,
    ) -> Result<Looked<wire::GetDiskResponse>, Status> {
        let id = request.disk_id;
        let all = self.disks().await?;
        let of_name = |disk: &&wire::DiskView| disk.id == id || disk.name == id;
        let mut fitting = all.value.disks.iter().filter(of_name);
        let found = match (fitting.next(), fitting.next()) {
            (Some(one), None) => one.clone(),
            (None, _) => return Err(Status::not_found(format!("there is no disk {id:?}"))),
            (Some(_), Some(_)) => {
                let why = format!("several drivers have a disk {id:?}: write driver:name");
                return Err(Status::invalid_argument(why));
            }
        };
        Ok(all.map(|_| wire::GetDiskResponse { disk: Some(found) }))
    }

    pub(super) async fn create_disk_alone(
        &self,
        request: wire::CreateDiskRequest,
    ) -> Result<wire::CreateDiskResponse, Status> {
        let draft = VolumeDraft {
            name: request.name,
            driver: request.driver,
            size_gb: request.size_gb,
            access_mode: request.access_mode,
            fs_type: request.fs_type,
            mount_path: request.mount_path,
            read_only: false,
            retain_policy: request.retain_policy,
        };
        let asked = check_volume(&draft).map_err(|found| faults(&found))?;
        let node = match &*request.node_id {
            "" => None,
            node => Some(node_id(node)?),
        };
        let key = VolumeKey::of(&asked);
        done(self.handle.ask(Ask::CreateVolume(Arc::new(asked), node)).await?)?;
        let found = move |world: &World| world.volume(&key).map(|volume| view(world, volume));
        let made = self.handle.look(found).await?;
        Ok(wire::CreateDiskResponse { disk: made.value })
    }

    /// What is refused, and what is done but not yet proved, is said in the response.
    pub(super) async fn delete_disk_of(
        &self,
        request: wire::DeleteDiskRequest,
    ) -> Result<wire::DeleteDiskResponse, Status> {
        // However much it is wanted: nothing is deleted under anybody.
        let wire::DeleteDiskRequest { disk_id, force: _ } = request;
        let found = self.disk(wire::GetDiskRequest { disk_id }).await?;
        let id = found.value.disk.unwrap_or_default().id;
        let Some(Ok(key)) = VolumeKey::parse(&id) else {
            return Err(Status::not_found(format!("there is no disk {id:?}")));
        };
        Ok(match in_band(self.handle.ask(Ask::DeleteVolume(key)).await?)? {
            // Only what is still to come has to be said.
            Ok(note) if note == "accepted" => {
                wire::DeleteDiskResponse { success: true, error_message: String::new() }
            }
            Ok(note) => wire::DeleteDiskResponse { success: true, error_message: note },
            Err((_, why)) => wire::DeleteDiskResponse { success: false, error_message: why },
        })
    }
}
