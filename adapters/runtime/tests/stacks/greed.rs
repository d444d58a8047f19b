//! A stack whose services try to have more than they were given.

use bollard::query_parameters::InspectContainerOptions;
use persys_node::input::Existing;
use persys_runtime::{Evidence as _, Runtime};

use super::bench::{STAYS, bench, service, stack};
use crate::contract::start;
use crate::support::greed::{EATS, FORKS, SPINS, has_at_most, processes, says, within};

#[tokio::test]
async fn each_service_stays_within_its_own_limits_and_others_have_none() {
    let bench = bench();
    let mut file = "services:\n".to_owned();
    file += &service("forks", FORKS, "restart: always\npids_limit: 30\ncpus: 0.1");
    file += &service("spins", SPINS, "restart: always\ncpus: 0.2");
    file += &service("bare", STAYS, "restart: always");
    let order = within(start("greedy", "r1", stack(&file)), 400, 64);
    let id = &order.workload;
    bench.compose.start(&order).await.unwrap();
    says(&bench.compose, id, &["can't fork", "contained"]).await;
    let forks = bench.service(id, "forks").await.id;
    let count = processes(&bench.raw, &forks).await;
    assert!((20..=30).contains(&count), "{count} processes");
    has_at_most(&bench.compose, id, 0.3).await;

    // What says nothing itself has no limit; the amounts of the stack are set aside for all of it.
    let bare = bench.service(id, "bare").await.id;
    let seen = bench.raw.inspect_container(&bare, None::<InspectContainerOptions>).await.unwrap();
    let given = seen.host_config.unwrap();
    assert_eq!((given.memory.unwrap_or(0), given.nano_cpus.unwrap_or(0)), (0, 0));
    assert_eq!(given.pids_limit, Some(4096));
    bench.compose.remove(id, true).await.unwrap();
}

#[tokio::test]
async fn a_service_that_eats_more_than_its_limit_is_ended_and_named() {
    let bench = bench();
    let mut file = "services:\n".to_owned();
    file += &service("calm", STAYS, "restart: always");
    // What ends before the stack is up makes it go back; this one is up first.
    let script = format!("sleep 2; {}", EATS.replace('$', "$$"));
    file += &service("eats", &script, "restart: always\nmem_limit: 32m");
    let order = within(start("hungry", "r1", stack(&file)), 200, 32);
    let id = &order.workload;
    bench.compose.start(&order).await.unwrap();
    bench.until(id, &Existing::Exited { code: 137 }).await;
    let end = bench.compose.evidence(id).await.unwrap().unwrap();
    assert!(end.out_of_memory, "{end:?}");
    assert_eq!(end.service.as_deref(), Some("eats"), "{end:?}");
    bench.compose.remove(id, true).await.unwrap();
}
