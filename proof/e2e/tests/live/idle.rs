//! When nothing changes, neither the store nor the ledger is written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use persys_e2e::part::Pace;
use persys_e2e::processes::{Stack, Wish};

use crate::program;

/// How long nothing is to happen: some beats, some measurements of the machine, one observation.
const QUIET: Duration = Duration::from_secs(35);
/// How long the last change may take to come to rest: the history of actions may be written ten
/// seconds after the last of them.
const REST: Duration = Duration::from_secs(15);

/// All files of a folder but the lease of exclusive work, which every beat renews.
fn files(folder: &Path) -> BTreeMap<PathBuf, (u64, SystemTime)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries
        .filter(|entry| entry.file_name() != "lease")
        .map(|entry| {
            let about = entry.metadata().unwrap();
            (entry.path(), (about.len(), about.modified().unwrap()))
        })
        .collect()
}

#[tokio::test]
async fn an_idle_cluster_writes_nothing() {
    let mut stack = Stack::on_docker(program(), Pace::Product).await;
    for name in ["a", "b", "c"] {
        let id = stack.id(name);
        stack.apply(&Wish::runs(&id).request()).await;
        stack.until_status(&id, "Running").await;
    }
    tokio::time::sleep(REST).await;
    let all = ["scheduler", "n1"].map(|process| stack.folder_of(process));
    let before = all.clone().map(|folder| files(&folder));
    assert!(before.iter().all(|files| !files.is_empty()), "there is something to write to");
    tokio::time::sleep(QUIET).await;
    assert_eq!(all.map(|folder| files(&folder)), before);
}
