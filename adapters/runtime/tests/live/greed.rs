//! A container that tries to have more than it was given.

use persys_node::input::Existing;
use persys_runtime::Runtime;

use super::bench::{bench, bench_with, shell};
use crate::contract::{start, state};
use crate::support::greed::{FORKS, SPINS, has_at_most, processes, says, within};

#[tokio::test]
async fn it_gets_no_more_processor_than_was_set_aside() {
    let bench = bench();
    let order = within(start("spins", "r1", shell(SPINS)), 200, 32);
    bench.docker.start(&order).await.unwrap();
    has_at_most(&bench.docker, &order.workload, 0.2).await;
    bench.docker.remove(&order.workload, true).await.unwrap();
}

#[tokio::test]
async fn a_fork_bomb_stays_within_its_container() {
    let bench = bench_with(|settings| settings.pids_limit = 30);
    let order = within(start("forks", "r1", shell(FORKS)), 500, 64);
    bench.docker.start(&order).await.unwrap();
    says(&bench.docker, &order.workload, &["can't fork", "contained"]).await;
    let count = processes(&bench.raw, &bench.name("forks")).await;
    assert!((20..=30).contains(&count), "{count} processes");
    assert_eq!(state(&bench, &order.workload).await, Some(Existing::Running));
    bench.docker.remove(&order.workload, true).await.unwrap();
}
