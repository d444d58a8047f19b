//! A daemon that is away, hangs or comes back: unknown, and then as it was.

use std::time::Duration;

use persys_model::id::WorkloadId;
use persys_node::input::{Existing, Observation, Outcome};
use persys_runtime::Runtime;
use persys_runtime::docker::settings::Deadlines;
use persys_runtime::error::outcome;
use persys_runtime::runtime::observation;

use super::bench::{STAYS, bench_on, one};
use crate::contract::{GRACE, quiet, start};
use crate::support::daemon::Daemon;

fn hasty(settings: &mut persys_runtime::docker::settings::Settings) {
    settings.deadlines = Deadlines { ask: Duration::from_secs(2), ..Deadlines::default() };
}

#[tokio::test]
async fn no_daemon_is_unknown() {
    let bench = bench_on("unix:///no/such/socket", hasty);
    let id = WorkloadId::fixed("web");
    let order = start("web", "r1", one(STAYS, ""));
    assert_eq!(observation(bench.compose.list().await), Observation::Unknown);
    assert_eq!(outcome(&bench.compose.start(&order).await), Outcome::Unknown);
    assert_eq!(outcome(&bench.compose.prepare(&order.spec, &quiet).await), Outcome::Unknown);
    assert_eq!(outcome(&bench.compose.stop(&id, Some(GRACE)).await), Outcome::Unknown);
    assert_eq!(outcome(&bench.compose.remove(&id, true).await), Outcome::Unknown);
    assert!(bench.compose.health().await.unwrap_err().is_unknown());
}

#[tokio::test]
async fn a_stack_outlives_a_killed_and_a_hanging_daemon() {
    let mut daemon = Daemon::start();
    daemon.load_image();
    let bench = bench_on(&daemon.host(), hasty);
    // That daemon has no bridge.
    let order = start("survivor", "r1", one(STAYS, "restart: always\nnetwork_mode: none"));
    let id = &order.workload;
    bench.compose.start(&order).await.unwrap();
    let before = bench.moments(id).await;

    daemon.kill();
    let next = start("survivor", "r2", one(STAYS, "network_mode: none\nstdin_open: true"));
    assert_eq!(observation(bench.compose.list().await), Observation::Unknown);
    assert_eq!(outcome(&bench.compose.start(&next).await), Outcome::Unknown);
    assert_eq!(outcome(&bench.compose.remove(id, true).await), Outcome::Unknown);
    daemon.start_again();
    assert_eq!(bench.moments(id).await, before, "it ran on");
    bench.compose.start(&order).await.unwrap();
    assert_eq!(bench.moments(id).await, before);

    daemon.freeze();
    assert_eq!(observation(bench.compose.list().await), Observation::Unknown);
    assert_eq!(
        outcome(&bench.compose.stop(id, Some(Duration::from_secs(1))).await),
        Outcome::Unknown
    );
    daemon.signal(rustix::process::Signal::CONT);
    let seen = bench.compose.list().await.unwrap().remove(0);
    assert_eq!((seen.revision, seen.state), (order.revision.clone(), Existing::Running));
    bench.compose.remove(id, true).await.unwrap();
    assert_eq!(bench.compose.list().await.unwrap(), []);
}
