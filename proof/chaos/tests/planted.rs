//! The checker is shown to fail: a second copy of exclusive work, and a workload that was answered
//! and is gone, are played behind the product's back and must be found.
//!
//! Needs `dockerd` and etcd (`hack/docker-up`, `hack/etcd-install`); runs only when it is named.

#![allow(clippy::unwrap_used, reason = "a test may stop")]

use std::path::PathBuf;
use std::time::Duration;

use persys_chaos::options::{Options, Store};
use persys_chaos::plant::Plant;
use persys_chaos::report::Report;
use persys_chaos::run;

/// The program of this workspace, beside the tests.
fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.ancestors().nth(2).unwrap().join("persys")
}

async fn planted(plant: Option<Plant>) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        program: program(),
        folder: folder.path().to_owned(),
        seed: 1,
        length: Duration::ZERO,
        kills: 0,
        store: Store::Embedded,
        only: Vec::new(),
        plant,
        brief: true,
    };
    run::run(&options, &|_| {}).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_planted_fault_nothing_is_found() {
    let report = planted(None).await;
    assert!(report.is_clean(), "{}", report.page());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_copy_of_exclusive_work_is_found() {
    let report = planted(Some(Plant::Twice)).await;
    let found = report.violations.iter().any(|line| line.starts_with("exclusive: "));
    assert!(found, "{}", report.page());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workload_that_was_answered_and_is_gone_is_found() {
    let report = planted(Some(Plant::Lost)).await;
    let found = report.violations.iter().any(|line| line.starts_with("history: "));
    assert!(found, "{}", report.page());
}
