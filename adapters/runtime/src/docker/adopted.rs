//! Containers of an earlier installation that were taken over.
//!
//! Docker cannot add labels to a container that exists, so what its labels would say is kept in a
//! file per workload, by the id of the container. It is a folder of its own and not part of the
//! ledger: like labels, it must still say what is ours when the ledger was lost.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use persys_model::id::{RevisionId, WorkloadId};
use persys_model::token::Epoch;
use serde::{Deserialize, Serialize};

use super::identity::Mark;

/// The version that is written, and the only one that is read.
const VERSION: u32 = 1;

/// One container that was taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Adopted {
    /// The full id of the container.
    pub(crate) container: String,
    pub(crate) mark: Mark,
}

#[derive(Serialize, Deserialize)]
struct AdoptedShape {
    v: u32,
    workload: String,
    container: String,
    revision: String,
    epoch: u64,
}

/// All containers that were taken over on this node. Clones are the same table.
#[derive(Debug, Clone, Default)]
pub(crate) struct AdoptedTable {
    folder: Option<PathBuf>,
    known: Arc<Mutex<BTreeMap<WorkloadId, Adopted>>>,
}

impl AdoptedTable {
    /// The table in `folder`. A file that cannot be read is left alone: its container is then
    /// nobody's, and nothing happens to it.
    pub(crate) fn open(folder: Option<PathBuf>) -> Self {
        let known = folder.as_deref().map(read_all).unwrap_or_default();
        Self { folder, known: Arc::new(Mutex::new(known)) }
    }

    /// True if adopted containers can be remembered at all.
    pub(crate) fn is_kept(&self) -> bool {
        self.folder.is_some()
    }

    pub(crate) fn get(&self, workload: &WorkloadId) -> Option<Adopted> {
        self.lock().get(workload).cloned()
    }

    /// The workload whose container this is.
    pub(crate) fn workload_of(&self, container: &str) -> Option<WorkloadId> {
        self.lock()
            .values()
            .find(|one| one.container == container)
            .map(|one| one.mark.workload.clone())
    }

    pub(crate) fn workloads(&self) -> Vec<WorkloadId> {
        self.lock().keys().cloned().collect()
    }

    /// Remembers a container, on disk first.
    pub(crate) fn put(&self, adopted: Adopted) -> io::Result<()> {
        let folder =
            self.folder.as_deref().ok_or_else(|| io::Error::other("there is no folder"))?;
        fs::create_dir_all(folder)?;
        let Mark { workload, revision, epoch } = &adopted.mark;
        let shape = AdoptedShape {
            v: VERSION,
            workload: workload.to_string(),
            container: adopted.container.clone(),
            revision: revision.to_string(),
            epoch: epoch.0,
        };
        let path = path_of(folder, workload);
        let beside = path.with_extension("new");
        let mut file = fs::File::create(&beside)?;
        file.write_all(&serde_json::to_vec(&shape)?)?;
        file.sync_all()?;
        fs::rename(&beside, &path)?;
        fs::File::open(folder)?.sync_all()?;
        self.lock().insert(workload.clone(), adopted);
        Ok(())
    }

    /// Forgets a container that is gone. A file that cannot be removed names a container that does
    /// not exist, which is found out when it is next read.
    pub(crate) fn forget(&self, workload: &WorkloadId) {
        if self.lock().remove(workload).is_some()
            && let Some(folder) = &self.folder
        {
            drop(fs::remove_file(path_of(folder, workload)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<WorkloadId, Adopted>> {
        // Entries are replaced as a whole; there is never half of one.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn path_of(folder: &Path, workload: &WorkloadId) -> PathBuf {
    folder.join(format!("{workload}.json"))
}

fn read_all(folder: &Path) -> BTreeMap<WorkloadId, Adopted> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let json =
        files.map(|file| file.path()).filter(|path| path.extension().is_some_and(|e| e == "json"));
    json.filter_map(|path| read(&path)).map(|one| (one.mark.workload.clone(), one)).collect()
}

fn read(path: &Path) -> Option<Adopted> {
    let shape: AdoptedShape = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    (shape.v == VERSION).then_some(())?;
    let mark = Mark {
        workload: WorkloadId::new(&shape.workload).ok()?,
        revision: RevisionId::new(&shape.revision).ok()?,
        epoch: Epoch(shape.epoch),
    };
    Some(Adopted { container: shape.container, mark })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adopted(name: &str) -> Adopted {
        let mark = Mark {
            workload: WorkloadId::new(name).unwrap(),
            revision: RevisionId::fixed("r1"),
            epoch: Epoch(7),
        };
        Adopted { container: format!("{name}-0123"), mark }
    }

    #[test]
    fn what_was_taken_over_is_known_to_the_next_process() {
        let folder = tempfile::tempdir().unwrap();
        let at = Some(folder.path().join("adopted"));
        let table = AdoptedTable::open(at.clone());
        table.put(adopted("web")).unwrap();
        table.put(adopted("db")).unwrap();
        table.forget(&WorkloadId::fixed("db"));
        let again = AdoptedTable::open(at);
        assert_eq!(again.get(&WorkloadId::fixed("web")), Some(adopted("web")));
        assert_eq!(again.workload_of("web-0123"), Some(WorkloadId::fixed("web")));
        assert_eq!(again.workloads(), [WorkloadId::fixed("web")]);
    }

    #[test]
    fn without_a_folder_nothing_is_taken_over() {
        let table = AdoptedTable::open(None);
        assert!(!table.is_kept() && table.put(adopted("web")).is_err());
        assert_eq!(table.get(&WorkloadId::fixed("web")), None);
    }
}
