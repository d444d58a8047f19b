//! Machines on a libvirtd of the test's own, booted from the tiny guest that `hack/test-guest` makes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::StreamExt as _;
use persys_model::id::{NodeId, PoolName, RevisionId, WorkloadId};
use persys_model::resources::Resources;
use persys_model::spec::secret::Secret;
use persys_model::spec::vm::{
    Address, Attach, CloudInit, DiskFormat, DiskSource, NicModel, VmDisk, VmNetwork,
};
use persys_model::spec::{Kind, Placement, Spec, VmSpec};
use persys_model::token::Epoch;
use persys_node::input::Existing;
use persys_runtime::inside::LogRange;
use persys_runtime::vm::Machines;
use persys_runtime::vm::settings::Settings;
use persys_runtime::vm::storage::Storage;
use persys_runtime::{Clock, Logs as _, Owner, Runtime as _, Start};

use super::daemon::{Daemon, open_to_all, until};

/// How long a guest has to go down.
pub(crate) const GRACE: Duration = Duration::from_secs(20);

pub(crate) struct MachineBench {
    pub(crate) daemon: Daemon,
    pub(crate) machines: Machines,
}

/// The image, made once.
fn guest() -> &'static Path {
    static GUEST: OnceLock<PathBuf> = OnceLock::new();
    GUEST.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hack/test-guest");
        let made = Command::new(script).output().expect("hack/test-guest");
        assert!(made.status.success(), "{made:?}: run hack/libvirt-up");
        PathBuf::from(String::from_utf8_lossy(&made.stdout).trim())
    })
}

pub(crate) fn owner() -> Owner {
    Owner { cluster: Arc::from("test"), node: NodeId::fixed("n1") }
}

pub(crate) async fn bench() -> MachineBench {
    bench_with(|_| ()).await
}

pub(crate) async fn bench_with(change: impl FnOnce(&mut Settings)) -> MachineBench {
    let daemon = Daemon::start().await;
    let folder = |name: &str| {
        let path = daemon.folder.join(name);
        std::fs::create_dir_all(&path).unwrap();
        open_to_all(&path);
        path
    };
    let mut settings = Settings {
        storage: Storage {
            home: folder("machines"),
            pools: BTreeMap::from([(PoolName::fixed("default"), folder("pool"))]),
            images: guest().parent().unwrap().to_owned(),
            roots: vec![folder("mine")],
            ..Storage::default()
        },
        stop_grace: GRACE,
        ..Settings::default()
    };
    settings.libvirt.sockets = vec![daemon.socket()];
    change(&mut settings);
    let machines = Machines::new(owner(), settings, Clock::since_boot());
    MachineBench { daemon, machines }
}

/// A machine of the tiny guest that does what `words` say when it has booted.
pub(crate) fn vm(words: &str) -> VmSpec {
    let user_data: Vec<_> = words.lines().map(|line| format!("#tiny: {}\n", line.trim())).collect();
    let source = DiskSource::Pool { pool: None, size_gib: 1 };
    VmSpec {
        name: None,
        vcpus: 1,
        memory_mib: 128,
        disks: vec![VmDisk {
            device: Arc::from("vda"),
            source,
            format: DiskFormat::Qcow2,
            cdrom: false,
            boot: true,
            backing_file: None,
        }],
        networks: Vec::new(),
        cloud_init: CloudInit {
            user_data: Secret::new(&user_data.concat()),
            ..CloudInit::default()
        },
        os_image: Some(Arc::from(guest().file_stem().unwrap().to_str().unwrap())),
        managed_volumes: Vec::new(),
        metadata: BTreeMap::new(),
    }
}

/// A disk of the user's own.
pub(crate) fn external(device: &str, path: &Path, create_gib: Option<u64>) -> VmDisk {
    VmDisk {
        device: Arc::from(device),
        source: DiskSource::External { path: Arc::from(path.to_str().unwrap()), create_gib },
        format: DiskFormat::Raw,
        cdrom: false,
        boot: false,
        backing_file: None,
    }
}

pub(crate) fn lends_addresses() -> VmNetwork {
    VmNetwork {
        attach: Attach::Network(Arc::from("default")),
        mac: None,
        address: Address::Dhcp,
        model: NicModel::Virtio,
    }
}

pub(crate) fn order(workload: &str, revision: &str, vm: VmSpec) -> Start {
    let spec = Spec {
        kind: Kind::Vm(vm),
        resources: Resources::default(),
        placement: Placement::default(),
        metadata: BTreeMap::new(),
        secrets: Vec::new(),
        stop_grace_ms: None,
        health: persys_model::spec::health::HealthChecks::default(),
    };
    Start {
        workload: WorkloadId::new(workload).unwrap(),
        revision: RevisionId::new(revision).unwrap(),
        epoch: Epoch(7),
        spec: Arc::new(spec),
        volumes: BTreeMap::new(),
        secrets: Arc::default(),
        secrets_at: None,
        not_after: None,
        resume: false,
    }
}

impl MachineBench {
    pub(crate) async fn state(&self, workload: &WorkloadId) -> Option<Existing> {
        self.machines.inspect(workload).await.unwrap().map(|thing| thing.seen.state)
    }

    /// All that the machine wrote on its console so far.
    pub(crate) async fn console(&self, workload: &WorkloadId) -> String {
        let mut output = self.machines.logs(workload, LogRange::default()).await.unwrap();
        let mut text = Vec::new();
        while let Some(chunk) = output.next().await {
            text.extend_from_slice(&chunk.unwrap().bytes);
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Waits until the console has so many lines with a fact, and gives the last one's value.
    pub(crate) async fn fact(&self, workload: &WorkloadId, name: &str, times: usize) -> String {
        let wanted = format!("guest: {name}=");
        let mut value = String::new();
        until(&format!("{workload} says {name} {times} times"), async || {
            let text = self.console(workload).await;
            // A line that has not ended may still become longer.
            let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
            let said: Vec<_> = whole.lines().filter_map(|line| line.split_once(&wanted)).collect();
            if let Some((_, last)) = said.get(times - 1) {
                last.trim().clone_into(&mut value);
            }
            said.len() >= times
        })
        .await;
        value
    }

    /// Waits until it has ended, and says with which code.
    pub(crate) async fn ended(&self, workload: &WorkloadId) -> i32 {
        let mut code = 0;
        until(&format!("{workload} ends"), async || match self.state(workload).await {
            Some(Existing::Exited { code: ended }) => {
                code = ended;
                true
            }
            _ => false,
        })
        .await;
        code
    }

    /// The process of a machine, as the namespace counts it, and when it was started.
    pub(crate) fn process(&self, workload: &WorkloadId) -> String {
        self.daemon.virsh(&["domid", &format!("persys-{workload}")])
    }

    pub(crate) fn files(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.daemon.folder.join(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }
}
