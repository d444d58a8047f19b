//! The file systems behind the pools of the node. Pools on one file system share it: whatever is counted
//! over several pools counts each file system once, told apart by its device number.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use persys_model::id::PoolName;
use persys_model::node::Pool;
use rustix::fs::{stat, statvfs};

const GIB: u64 = 1024 * 1024 * 1024;

/// Pools of the node and the folder each is in, the default pool first.
#[derive(Debug, Clone, Default)]
pub struct Disks {
    pools: Vec<(PoolName, PathBuf)>,
    /// Folders whose files are data of workloads, each with the beginning of their names.
    ours: Vec<(PathBuf, &'static str)>,
}

/// One file system, as it is at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystem {
    /// Pools in it, in the order of the node.
    pub pools: Vec<PoolName>,
    /// Its number.
    pub device: u64,
    /// Size in bytes.
    pub total: u64,
    /// Bytes that nothing occupies, those kept back for root included.
    pub free: u64,
}

impl Disks {
    /// These pools.
    #[must_use]
    pub fn new(pools: Vec<(PoolName, PathBuf)>) -> Self {
        Self { pools, ours: Vec::new() }
    }

    /// Counts files below `folder` whose names begin with `prefix` as data of workloads.
    #[must_use]
    pub fn with_data(mut self, folder: PathBuf, prefix: &'static str) -> Self {
        self.ours.push((folder, prefix));
        self
    }

    /// The file systems of all pools that can be seen, in the order of their first pools.
    #[must_use]
    pub fn file_systems(&self) -> Vec<FileSystem> {
        self.read(look)
    }

    fn read(&self, look: impl Fn(&Path) -> Option<(u64, u64, u64)>) -> Vec<FileSystem> {
        let mut places = BTreeMap::new();
        let mut all: Vec<FileSystem> = Vec::new();
        for (name, folder) in &self.pools {
            let Some((device, total, free)) = look(folder) else { continue };
            let place = *places.entry(device).or_insert(all.len());
            match all.get_mut(place) {
                Some(known) => known.pools.push(name.clone()),
                None => all.push(FileSystem { pools: vec![name.clone()], device, total, free }),
            }
        }
        all
    }

    /// The pools as the scheduler is told of them: those in one file system say so.
    #[must_use]
    pub fn pools(&self) -> Vec<Pool> {
        let mut all = Vec::new();
        for FileSystem { pools, total, .. } in self.file_systems() {
            let first = pools.first().cloned();
            for name in pools {
                let shares = first.clone().filter(|first| *first != name);
                all.push(Pool { name, total_gib: total / GIB, shares });
            }
        }
        all
    }

    /// Present capacity in GiB of pools whose file systems have less than their size for workloads: what
    /// is free, and what workloads already use there.
    #[must_use]
    pub fn limits(&self) -> BTreeMap<PoolName, u64> {
        let mut used: BTreeMap<u64, u64> = BTreeMap::new();
        for (folder, prefix) in &self.ours {
            if let Some((device, _, _)) = look(folder) {
                let sum = used.entry(device).or_default();
                *sum = sum.saturating_add(occupied(folder, prefix));
            }
        }
        let mut limits = BTreeMap::new();
        for FileSystem { pools, device, total, free } in self.file_systems() {
            let ours = used.get(&device).copied().unwrap_or(0);
            let limit = free.saturating_add(ours).min(total) / GIB;
            if limit < total / GIB {
                limits.extend(pools.into_iter().map(|name| (name, limit)));
            }
        }
        limits
    }

    /// Use of all of them, each file system once.
    #[must_use]
    pub fn used_gib(&self) -> u64 {
        let used = |one: &FileSystem| one.total.saturating_sub(one.free);
        let bytes = self.file_systems().iter().map(used).fold(0, u64::saturating_add);
        bytes.div_ceil(GIB)
    }
}

/// Most files looked at for one sum; beyond them what is there counts as the use of others.
const MOST_FILES: usize = 20_000;

/// Bytes on disk of the files below `folder` whose names, at the top, begin with `prefix`. Links are not
/// followed.
fn occupied(folder: &Path, prefix: &str) -> u64 {
    let mut bytes: u64 = 0;
    let mut left = MOST_FILES;
    let mut folders = vec![folder.to_owned()];
    while let Some(inside) = folders.pop() {
        let top = inside == folder;
        for entry in inside.read_dir().into_iter().flatten().flatten() {
            let Some(less) = left.checked_sub(1) else { return bytes };
            left = less;
            if top && !entry.file_name().to_string_lossy().starts_with(prefix) {
                continue;
            }
            let Ok(about) = entry.metadata() else { continue };
            if about.is_dir() {
                folders.push(entry.path());
            }
            bytes = bytes.saturating_add(about.blocks().saturating_mul(512));
        }
    }
    bytes
}

/// Device number, size and free bytes of the file system a folder is in.
fn look(folder: &Path) -> Option<(u64, u64, u64)> {
    let (device, disk) = (stat(folder).ok()?.st_dev, statvfs(folder).ok()?);
    let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    Some((device, bytes(disk.f_blocks), bytes(disk.f_bfree)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disks() -> Disks {
        let pool = |name: &'static str| (PoolName::fixed(name), PathBuf::from(format!("/{name}")));
        Disks::new(["root", "fast", "far", "gone"].map(pool).into())
    }

    #[test]
    fn a_file_system_of_several_pools_is_one() {
        let look = |folder: &Path| match folder.to_str()? {
            "/far" => Some((2, 50 * GIB, 10 * GIB)),
            "/gone" => None,
            _ => Some((1, 252 * GIB, 54 * GIB)),
        };
        let found = disks().read(look);
        let names =
            |one: &FileSystem| one.pools.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            found.iter().map(names).collect::<Vec<_>>(),
            [vec!["root", "fast"], vec!["far"]]
        );
        assert_eq!(found.iter().map(|one| one.total / GIB).collect::<Vec<_>>(), [252, 50]);
    }

    #[test]
    fn data_of_workloads_is_no_use_of_others() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("persys-vm")).unwrap();
        for name in ["persys-web-vda.qcow2", "other.img", "persys-vm/deep"] {
            std::fs::write(dir.path().join(name), vec![7_u8; 1 << 20]).unwrap();
        }
        let all = occupied(dir.path(), "");
        let ours = occupied(dir.path(), "persys-");
        assert!(all >= 3 << 20 && (2 << 20..3 << 20).contains(&ours), "{ours} of {all}");
        let pool = (PoolName::fixed("root"), dir.path().to_owned());
        let disks = Disks::new(vec![pool]).with_data(dir.path().to_owned(), "persys-");
        let [one] = <[FileSystem; 1]>::try_from(disks.file_systems()).unwrap();
        let limit = disks.limits().values().next().copied();
        assert!(limit.is_none_or(|limit| limit < one.total / GIB), "{limit:?} {one:?}");
    }

    #[test]
    fn folders_beside_each_other_are_seen_as_one_disk() {
        let dir = tempfile::tempdir().unwrap();
        let pool = |name: &'static str| (PoolName::fixed(name), dir.path().join(name));
        let pools = [pool("one"), pool("two")];
        for (_, folder) in &pools {
            std::fs::create_dir(folder).unwrap();
        }
        let disks = Disks::new(pools.into());
        let [one] = <[FileSystem; 1]>::try_from(disks.file_systems()).unwrap();
        assert!(one.total > one.free && one.pools.len() == 2, "{one:?}");
        let pools = disks.pools();
        assert_eq!(pools[1].shares.as_ref(), Some(&pools[0].name));
        assert_eq!(persys_model::node::total_gib(&pools), one.total / GIB);
        assert_eq!(disks.used_gib(), (one.total - one.free).div_ceil(GIB));
    }
}
