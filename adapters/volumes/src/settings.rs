//! What the drivers are told.

use std::path::{Path, PathBuf};

/// What the drivers are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where it is written down who uses what.
    pub state: PathBuf,
    /// Volumes on this node.
    pub local: LocalSettings,
    /// Volumes on an NFS server; without it they are not offered.
    pub nfs: Option<NfsSettings>,
    /// Volumes on Ceph; without it they are not offered.
    pub ceph: Option<CephSettings>,
    /// The programs that are run.
    pub tools: Tools,
}

/// Volumes on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalSettings {
    /// The folder they are in.
    pub root: PathBuf,
    /// Whether their size is held.
    pub limit: Limit,
}

/// How the size of a volume on this node is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Limit {
    /// By a file system of its own, where the host lets us mount one; otherwise not.
    #[default]
    Auto,
    /// By a file system of its own in a file of that size.
    Image,
    /// Not: a volume is a folder.
    None,
}

/// Volumes on an NFS server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NfsSettings {
    /// The server.
    pub server: String,
    /// What it exports.
    pub export: String,
    /// Options of the mount, with commas.
    pub options: String,
    /// Where volumes are mounted.
    pub stage: PathBuf,
}

/// Volumes on Ceph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CephSettings {
    /// Name of the cluster; empty is Ceph's default.
    pub cluster: String,
    /// The pool.
    pub pool: String,
    /// Who we are; empty is Ceph's default.
    pub user: String,
    /// The key; empty is Ceph's default.
    pub keyring: String,
    /// Where volumes are mounted.
    pub stage: PathBuf,
}

/// The programs that are run, and where the kernel tells what is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tools {
    /// `mount`.
    pub mount: PathBuf,
    /// `umount`.
    pub umount: PathBuf,
    /// The helper by which `mount` mounts NFS.
    pub mount_nfs: PathBuf,
    /// Folder of `mkfs.*`, `resize2fs` and `blkid`.
    pub sbin: PathBuf,
    /// `rbd` of Ceph.
    pub rbd: PathBuf,
    /// What is mounted, as the kernel tells it.
    pub mountinfo: PathBuf,
    /// The file systems the kernel knows.
    pub filesystems: PathBuf,
    /// The device by which further loop devices are had.
    pub loop_control: PathBuf,
}

impl Default for Tools {
    fn default() -> Self {
        Self {
            mount: "/usr/bin/mount".into(),
            umount: "/usr/bin/umount".into(),
            mount_nfs: "/usr/sbin/mount.nfs".into(),
            sbin: "/usr/sbin".into(),
            rbd: "/usr/bin/rbd".into(),
            mountinfo: "/proc/self/mountinfo".into(),
            filesystems: "/proc/filesystems".into(),
            loop_control: "/dev/loop-control".into(),
        }
    }
}

impl Settings {
    /// Volumes of this node alone, everything below `folder`.
    #[must_use]
    pub fn within(folder: &Path, limit: Limit) -> Self {
        Self {
            state: folder.join("claims"),
            local: LocalSettings { root: folder.join("volumes"), limit },
            nfs: None,
            ceph: None,
            tools: Tools::default(),
        }
    }

    /// Faults of what was given, each with the name of its setting.
    #[must_use]
    pub fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        let mut note = |setting, sound: bool, wanted: &str| {
            if !sound {
                faults.push((setting, wanted.to_owned()));
            }
        };
        let folder = "an absolute path of letters, digits, '/', '.', '_', '-'";
        let name = "letters, digits, '.', '_', '-', none of them first but a letter or digit";
        note("storage-local-root", is_path(&self.local.root.to_string_lossy()), folder);
        if let Some(nfs) = &self.nfs {
            note("storage-nfs-server", is_host(&nfs.server), "a host name or address");
            note("storage-nfs-export", is_path(&nfs.export), folder);
            note(
                "storage-nfs-options",
                is_options(&nfs.options),
                "options as `mount -o` takes them",
            );
            note("storage-nfs-stage-dir", is_path(&nfs.stage.to_string_lossy()), folder);
        }
        if let Some(ceph) = &self.ceph {
            note("storage-ceph-pool", is_name(&ceph.pool), name);
            note("storage-ceph-cluster", ceph.cluster.is_empty() || is_name(&ceph.cluster), name);
            note("storage-ceph-user", ceph.user.is_empty() || is_name(&ceph.user), name);
            note("storage-ceph-keyring", ceph.keyring.is_empty() || is_path(&ceph.keyring), folder);
            note("storage-ceph-stage-dir", is_path(&ceph.stage.to_string_lossy()), folder);
        }
        faults
    }
}

fn plain(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-')
}

fn is_name(text: &str) -> bool {
    text.bytes().all(plain) && text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
}

/// Also what stands between the brackets of an IPv6 address.
fn is_host(text: &str) -> bool {
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    inner.map_or_else(|| is_name(text), |inner| inner.parse::<std::net::Ipv6Addr>().is_ok())
}

fn is_path(text: &str) -> bool {
    text.starts_with('/')
        && text.bytes().all(|b| plain(b) || b == b'/')
        && text.split('/').all(|part| !matches!(part, "." | ".."))
}

fn is_options(text: &str) -> bool {
    text.bytes().all(|b| plain(b) || matches!(b, b',' | b'=' | b':' | b'/'))
        && !text.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_could_be_an_option_or_lead_elsewhere_is_taken() {
        let mut settings = Settings {
            state: "/s".into(),
            local: LocalSettings {
                root: "/var/lib/persys/volumes/local".into(),
                limit: Limit::Auto,
            },
            nfs: Some(NfsSettings {
                server: "[2001:db8::1]".to_owned(),
                export: "/srv/x".to_owned(),
                options: "vers=4.2,hard".to_owned(),
                stage: "/stage".into(),
            }),
            ceph: Some(CephSettings {
                cluster: String::new(),
                pool: "rbd".to_owned(),
                user: "persys".to_owned(),
                keyring: "/etc/ceph/k".to_owned(),
                stage: "/stage".into(),
            }),
            tools: Tools::default(),
        };
        assert_eq!(settings.faults(), []);
        settings.local.root = "../x".into();
        let nfs = settings.nfs.as_mut().unwrap();
        nfs.server = "-o".to_owned();
        nfs.export = "/a/../b".to_owned();
        nfs.options = "-o exec;id".to_owned();
        let ceph = settings.ceph.as_mut().unwrap();
        ceph.pool = "--x".to_owned();
        ceph.keyring = "k".to_owned();
        let named: Vec<_> = settings.faults().into_iter().map(|(setting, _)| setting).collect();
        assert_eq!(
            named,
            [
                "storage-local-root",
                "storage-nfs-server",
                "storage-nfs-export",
                "storage-nfs-options",
                "storage-ceph-pool",
                "storage-ceph-keyring"
            ]
        );
    }
}
