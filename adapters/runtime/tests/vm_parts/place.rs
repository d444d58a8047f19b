//! A place for one test: folders QEMU's own user can reach, specs, and tools by their paths.

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use persys_model::id::PoolName;
use persys_model::spec::VmSpec;
use persys_model::spec::vm::{CloudInit, DiskFormat, DiskSource, VmDisk};
use persys_runtime::process::{Child, run};
use persys_runtime::vm::disks::Disks;
use persys_runtime::vm::storage::Storage;

/// What every guest of these tests is called by; `hack/libvirt-down` goes by it.
pub(crate) const PREFIX: &str = "persys-live-";

/// A place, gone when the test is over.
pub(crate) struct Place {
    pub(crate) root: PathBuf,
    pub(crate) name: String,
    pub(crate) disks: Disks,
}

static NEXT: AtomicU32 = AtomicU32::new(0);

impl Place {
    pub(crate) fn new() -> Self {
        let name = format!("parts-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let root = PathBuf::from("/tmp/persys-libvirt").join(&name);
        for folder in ["home", "pool", "images", "open"] {
            let folder = root.join(folder);
            std::fs::DirBuilder::new().recursive(true).mode(0o711).create(folder).unwrap();
        }
        let disks = Disks::new(Storage {
            home: root.join("home"),
            pools: BTreeMap::from([(PoolName::fixed("default"), root.join("pool"))]),
            images: root.join("images"),
            roots: vec![root.join("open")],
            most_gib: 100,
            ..Storage::default()
        });
        Self { root, name, disks }
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    pub(crate) fn machine(&self) -> String {
        format!("{PREFIX}{}", self.name)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let machine = self.machine();
        for verb in ["destroy", "undefine"] {
            let _gone = std::process::Command::new("/usr/bin/virsh")
                .args(["-q", "-c", "qemu:///system", verb, &machine])
                .output();
        }
        let _gone = std::fs::remove_dir_all(&self.root);
    }
}

/// Runs a tool to its end; what it printed, or what it complained about.
pub(crate) async fn tool(program: &str, args: &[&str]) -> Result<String, String> {
    let child = Child {
        program: PathBuf::from(program),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: BTreeMap::from([("LC_ALL".to_owned(), "C".to_owned())]),
        folder: PathBuf::from("/"),
        deadline: Duration::from_mins(1),
        output_limit: 1 << 20,
    };
    let ended = run(&child).await.map_err(|error| error.to_string())?;
    match ended.code {
        Some(0) => Ok(ended.stdout.text()),
        _ => Err(ended.stderr.text()),
    }
}

pub(crate) async fn virsh(args: &[&str]) -> Result<String, String> {
    let args: Vec<_> = ["-q", "-c", "qemu:///system"].iter().chain(args).copied().collect();
    tool("/usr/bin/virsh", &args).await
}

pub(crate) async fn qemu_img(args: &[&str]) -> String {
    tool("/usr/bin/qemu-img", args).await.unwrap()
}

pub(crate) fn disk(device: &str, source: DiskSource, format: DiskFormat) -> VmDisk {
    VmDisk {
        device: Arc::from(device),
        source,
        format,
        cdrom: format == DiskFormat::Iso,
        boot: false,
        backing_file: None,
    }
}

pub(crate) fn pool(size_gib: u64) -> DiskSource {
    DiskSource::Pool { pool: None, size_gib }
}

pub(crate) fn external(path: &Path, create_gib: Option<u64>) -> DiskSource {
    DiskSource::External { path: Arc::from(path.to_str().unwrap()), create_gib }
}

pub(crate) fn vm(disks: Vec<VmDisk>) -> VmSpec {
    VmSpec {
        name: None,
        vcpus: 1,
        memory_mib: 192,
        disks,
        networks: vec![],
        cloud_init: CloudInit::default(),
        os_image: None,
        managed_volumes: vec![],
        metadata: BTreeMap::new(),
    }
}
