//! The folder of a development cluster: whose it is, who works on it, and what it says.

use std::fs::{self, File};
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use persys_identity::ClusterName;
use serde::{Deserialize, Serialize};

use super::{Error, new_cluster, system};

/// Says whose folder this is, and holds the name of its cluster.
const MARK: &str = "cluster";
const LOCK: &str = "dev.lock";
const NOTE: &str = "dev.json";
/// Is there once Docker has run something for this cluster.
const DOCKER: &str = "docker";

/// A folder of ours.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    pub(super) cluster: ClusterName,
    lock: File,
}

/// What a running process tells others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) pid: u32,
    pub(super) grpc: SocketAddr,
    pub(super) http: SocketAddr,
    pub(super) agent: SocketAddr,
    /// Where names are answered.
    #[serde(default)]
    pub(super) dns: Option<SocketAddr>,
    /// Where machines join.
    #[serde(default)]
    pub(super) enrol: Option<SocketAddr>,
    /// Where the dashboard is, with what lets a browser in once.
    #[serde(default)]
    pub(super) dashboard: String,
    pub(super) runtime: String,
    pub(super) operator: PathBuf,
    /// What the node cannot run, and how to get it.
    pub(super) missing: Vec<String>,
}

impl Folder {
    /// Opens the folder, or makes it; anything that is not ours is left alone.
    pub(super) fn open_or_make(path: &Path) -> Result<Self, Error> {
        fs::create_dir_all(path).map_err(system(format!("{} cannot be made", path.display())))?;
        let path = path.canonicalize().map_err(system(path.display().to_string()))?;
        if !path.join(MARK).exists() {
            let mut inside = fs::read_dir(&path).map_err(system(path.display().to_string()))?;
            if inside.any(|entry| entry.is_ok_and(|entry| entry.file_name() != "dev.log")) {
                return Err(Error::Foreign { path });
            }
            let cluster = new_cluster()?;
            let mark = path.join(MARK);
            fs::write(&mark, cluster.as_str()).map_err(system(mark.display().to_string()))?;
        }
        Self::open(&path)
    }

    /// Opens a folder that exists.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let Ok(cluster) = fs::read_to_string(path.join(MARK)) else {
            return Err(Error::Nothing { path: path.to_path_buf() });
        };
        let lock = path.join(LOCK);
        let lock = File::create(&lock).map_err(system(lock.display().to_string()))?;
        Ok(Self { path: path.to_path_buf(), cluster: ClusterName::new(cluster.trim())?, lock })
    }

    /// Takes the folder for this process, until it ends.
    pub(super) fn take(&self) -> Result<(), Error> {
        if self.lock.try_lock().is_ok() {
            return Ok(());
        }
        let (pid, path) = (self.note().map_or(0, |note| note.pid), self.path.clone());
        Err(Error::Running { pid, path })
    }

    /// Whether another process works on it.
    pub(super) fn is_taken(&self) -> bool {
        let taken = self.lock.try_lock().is_err();
        if !taken {
            drop(self.lock.unlock());
        }
        taken
    }

    pub(super) fn note(&self) -> Option<Note> {
        let text = fs::read_to_string(self.path.join(NOTE)).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Tells others; they find it whole or not at all.
    pub(super) fn leave_note(&self, note: &Note) -> Result<(), Error> {
        let (path, draft) = (self.path.join(NOTE), self.path.join("dev.json.new"));
        let text = serde_json::to_string_pretty(note).unwrap_or_default();
        // It holds a link that lets in whoever comes first.
        let kept = write_privately(&draft, &text).and_then(|()| fs::rename(&draft, &path));
        kept.map_err(system(path.display().to_string()))
    }

    /// Remembers that there may be containers.
    pub(super) fn use_docker(&self) -> Result<(), Error> {
        let path = self.path.join(DOCKER);
        fs::write(&path, "").map_err(system(path.display().to_string()))
    }

    /// Whether there may be containers.
    pub(super) fn has_used_docker(&self) -> bool {
        self.path.join(DOCKER).exists()
    }

    pub(super) fn take_note_away(&self) {
        // It may never have been written.
        drop(fs::remove_file(self.path.join(NOTE)));
    }

    /// Removes the folder with all that is in it.
    pub(super) fn remove(self) -> Result<(), Error> {
        let what = system(format!("{} cannot be removed", self.path.display()));
        fs::remove_dir_all(&self.path).map_err(what)
    }
}

fn write_privately(path: &Path, text: &str) -> std::io::Result<()> {
    drop(fs::remove_file(path));
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_something_else_in_it_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("thesis.txt"), "years of work").unwrap();
        let refused = Folder::open_or_make(folder.path());
        assert!(matches!(refused, Err(Error::Foreign { .. })));
        assert!(matches!(Folder::open(folder.path()), Err(Error::Nothing { .. })));
    }

    #[test]
    fn one_process_at_a_time_and_the_same_cluster_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new");
        let first = Folder::open_or_make(&path).unwrap();
        first.take().unwrap();
        let second = Folder::open_or_make(&path).unwrap();
        assert!(matches!(second.take(), Err(Error::Running { .. })));
        assert!(second.is_taken());
        assert_eq!(first.cluster, second.cluster);
        drop(first);
        assert!(!second.is_taken());
        second.take().unwrap();
        second.remove().unwrap();
        assert!(!path.exists());
    }
}
