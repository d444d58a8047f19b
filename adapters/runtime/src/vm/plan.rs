//! From a spec to all that a machine needs.

use std::path::PathBuf;

use persys_libvirt::{Domain as Defined, Session};
use persys_model::id::WorkloadId;
use persys_model::spec::vm::{Attach, DiskFormat, DiskSource};
use persys_model::spec::{Spec, VmSpec};

use crate::error::Error;
use crate::runtime::Start;

use super::domain::{Bus, Card, Disk, Domain, Engine, Layer, LayerFormat, Plug};
use super::record::Record;
use super::xml::Element;
use super::{Machines, call, console, identity};

/// All that a machine needs.
#[derive(Debug)]
pub(super) struct Plan {
    domain: Domain,
    /// Its description without our facts.
    pub(super) shape: String,
}

impl Machines {
    pub(super) async fn check(&self, _spec: &Spec, _vm: &VmSpec) -> Result<(), Error> {
        Ok(())
    }

    pub(super) async fn slow(&self) -> Option<String> {
        None
    }

    pub(super) async fn plan(&self, start: &Start, vm: &VmSpec) -> Result<Plan, Error> {
        let name = identity::name_of(&self.settings.name_prefix, &start.workload);
        let cluster = &self.owner.cluster;
        let mut disks = Vec::new();
        for disk in &vm.disks {
            let DiskSource::External { path, .. } = &disk.source else { continue };
            let format = match disk.format {
                DiskFormat::Qcow2 => LayerFormat::Qcow2,
                DiskFormat::Raw | DiskFormat::Iso => LayerFormat::Raw,
            };
            disks.push(Disk {
                device: disk.device.to_string(),
                bus: Bus::Virtio,
                cdrom: disk.cdrom,
                read_only: false,
                boot: disk.boot.then_some(1),
                serial: None,
                layers: vec![Layer { path: PathBuf::from(&**path), format }],
            });
        }
        let cards = vm.networks.iter().enumerate().map(|(nth, network)| Card {
            plug: match &network.attach {
                Attach::Network(name) => Plug::Network(name.to_string()),
                Attach::Bridge(name) => Plug::Bridge(name.to_string()),
            },
            mac: network.mac.unwrap_or_else(|| identity::mac_of(cluster, &name, nth)),
            model: network.model,
        });
        let domain = Domain {
            uuid: identity::uuid_of(cluster, &name),
            facts: identity::facts(&self.owner, start, &vm.metadata),
            engine: Engine::Tcg,
            emulator: None,
            machine: "q35".to_owned(),
            memory_mib: vm.memory_mib,
            vcpus: vm.vcpus,
            cpu_millicores: None,
            disks,
            cards: cards.collect(),
            console_log: console::path(&self.folder(&start.workload)),
            name,
        };
        let bare = Domain { facts: Element::new("none"), ..domain.clone() };
        Ok(Plan { shape: bare.xml()?, domain })
    }

    pub(super) async fn realise(
        &self,
        session: &Session,
        start: &Start,
        plan: &Plan,
    ) -> Result<Defined, Error> {
        let folder = self.folder(&start.workload);
        let record = Record { shape: plan.shape.clone(), ..Record::read(&folder).await };
        record.write(&folder).await?;
        let defined = session.define(&plan.domain.xml()?).await.map_err(call::of_start)?;
        let told = |said| call::told("start", said);
        if session.autostart(&defined).await.map_err(told)? {
            session.set_autostart(&defined, false).await.map_err(told)?;
        }
        Ok(defined)
    }

    pub(super) async fn clear(&self, workload: &WorkloadId, _purge: bool) -> Result<(), Error> {
        let folder = self.folder(workload);
        match tokio::fs::remove_dir_all(&folder).await {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Error::Storage { detail: format!("{}: {error}", folder.display()) }),
        }
    }
}
