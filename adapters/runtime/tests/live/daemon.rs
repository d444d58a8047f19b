//! A daemon of our own that is killed, comes back, and hangs. Containers live on through all of it.

use std::time::{Duration, Instant};

use futures::StreamExt;
use persys_node::input::{Existing, Observation, Outcome};
use persys_runtime::docker::settings::Deadlines;
use persys_runtime::error::outcome;
use persys_runtime::inside::Wakeup;
use persys_runtime::runtime::observation;
use persys_runtime::{Error, Runtime, Wakeups};
use rustix::process::Signal;

use super::bench::{DockerBench, bench_with};
use crate::contract::{start, state};
use crate::support::daemon::Daemon;

const PATIENCE: Duration = Duration::from_secs(40);

fn hasty(daemon: &Daemon) -> DockerBench {
    let mut bench = bench_with(|settings| {
        settings.host = daemon.host();
        settings.deadlines = Deadlines { ask: Duration::from_secs(2), ..Deadlines::default() };
    });
    bench.raw = bollard::Docker::connect_with_host(&daemon.host()).unwrap();
    bench
}

#[tokio::test]
async fn work_outlives_a_killed_and_a_hanging_daemon() {
    let mut daemon = Daemon::start();
    daemon.load_image();
    let bench = hasty(&daemon);
    let (tell, mut wakeups) = tokio::sync::mpsc::channel(100);
    let mut hints = bench.docker.wakeups();
    let listener = tokio::spawn(async move {
        while let Some(hint) = hints.next().await {
            tell.send(hint).await.unwrap();
        }
    });
    let order = start("survivor", "r1", bench.runs());
    bench.docker.start(&order).await.unwrap();
    let before = bench.docker.inspect(&order.workload).await.unwrap().unwrap();
    assert_eq!(wakeups.recv().await, Some(Wakeup::Everything));
    let of_start = Wakeup::Workload(order.workload.clone());
    assert_eq!(wakeups.recv().await, Some(of_start));

    daemon.kill();
    assert_eq!(observation(bench.docker.list().await), Observation::Unknown);
    assert_eq!(outcome(&bench.docker.remove(&order.workload, true).await), Outcome::Unknown);
    daemon.start_again();
    let after = bench.docker.inspect(&order.workload).await.unwrap().unwrap();
    assert_eq!((&after.id, &after.started_at), (&before.id, &before.started_at));
    bench.docker.start(&order).await.unwrap();
    assert_eq!(state(&bench, &order.workload).await, Some(Existing::Running));
    let found_again = async { while wakeups.recv().await != Some(Wakeup::Everything) {} };
    tokio::time::timeout(PATIENCE, found_again).await.expect("the listener finds it again");

    daemon.freeze();
    let begun = Instant::now();
    let (list, stop) = tokio::join!(
        bench.docker.list(),
        bench.docker.stop(&order.workload, Some(Duration::from_secs(1)))
    );
    assert!(matches!(list, Err(Error::NoAnswer { .. })), "{list:?}");
    assert_eq!(outcome(&stop), Outcome::Unknown);
    assert!(begun.elapsed() < Duration::from_secs(10));
    daemon.signal(Signal::CONT);
    assert_eq!(bench.docker.list().await.unwrap().len(), 1, "it was there all the time");
    bench.docker.remove(&order.workload, true).await.unwrap();
    assert_eq!(bench.docker.list().await.unwrap(), []);
    listener.abort();
}
