//! Disks, as the contract calls managed volumes: what there is, where, and for whom.
//!
//! A volume comes with the workload that asks for it and goes by its policy, so both are said here
//! and done there.

use persys_cluster::volumes::volumes;
use persys_proto::control::v1 as wire;
use persys_proto::convert::view::disk as shown;
use tonic::Status;

use super::Control;
use crate::handle::Looked;

const WITH_A_WORKLOAD: &str = "a disk is made together with the workload that uses it: apply one \
                               with managed_volumes";

impl Control {
    pub(super) async fn disks(&self) -> Result<Looked<wire::ListDisksResponse>, Status> {
        let disks =
            self.handle.look(|world| volumes(world).values().map(shown::to_wire).collect()).await?;
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

    pub(super) fn create_disk_alone(
        request: &wire::CreateDiskRequest,
    ) -> Result<wire::CreateDiskResponse, Status> {
        let name = &request.name;
        Err(Status::failed_precondition(format!("disk {name:?} was not made: {WITH_A_WORKLOAD}")))
    }

    pub(super) async fn delete_disk_of(
        &self,
        request: wire::DeleteDiskRequest,
    ) -> Result<wire::DeleteDiskResponse, Status> {
        let disk_id = request.disk_id;
        let found = self.disk(wire::GetDiskRequest { disk_id }).await?;
        let disk = found.value.disk.unwrap_or_default();
        let users = disk.workload_refs.join(", ");
        let after = match disk.retain_policy.as_str() {
            "Retain" => "its data then stays, as its policy says",
            _ => "its data goes with the last of them",
        };
        let error_message =
            format!("disk {} is used by {users}: delete them instead; {after}", disk.id);
        Ok(wire::DeleteDiskResponse { success: false, error_message })
    }
}
