//! libvirtd is killed, comes back, and hangs. Machines run on through all of it, and while it is away
//! everything is unknown.

use std::time::Duration;

use futures::StreamExt as _;
use persys_model::id::WorkloadId;
use persys_node::input::{Existing, Observation, Outcome};
use persys_runtime::error::outcome;
use persys_runtime::inside::Wakeup;
use persys_runtime::runtime::observation;
use persys_runtime::{Runtime as _, Wakeups as _};

use super::bench::{GRACE, bench_with, order, vm};
use super::daemon::PATIENCE;

#[tokio::test]
async fn a_restart_of_libvirtd_restarts_no_machine() {
    let bench = bench_with(|settings| settings.libvirt.ask = Duration::from_secs(5)).await;
    let mut wakeups = bench.machines.wakeups();
    assert_eq!(wakeups.next().await, Some(Wakeup::Everything));
    let (runs, ended) = (order("runs", "r1", vm("value once")), order("over", "r1", vm("off")));
    for start in [&runs, &ended] {
        bench.machines.start(start).await.unwrap();
        let wanted = Wakeup::Workload(start.workload.clone());
        let heard = async { while wakeups.next().await != Some(wanted.clone()) {} };
        tokio::time::timeout(PATIENCE, heard).await.expect("the start is told");
    }
    let id = &runs.workload;
    assert_eq!(bench.fact(id, "value", 1).await, "once");
    assert_eq!(bench.ended(&ended.workload).await, 0);
    let before = bench.machines.inspect(id).await.unwrap().unwrap();
    let number = bench.process(id);

    bench.daemon.kill().await;
    assert_eq!(observation(bench.machines.list().await), Observation::Unknown);
    for unknown in [
        bench.machines.stop(id, Some(GRACE)).await,
        bench.machines.remove(id, true).await,
        bench.machines.start(&runs).await,
        bench.machines.health().await.map(|_| ()),
        bench.machines.inspect(id).await.map(|_| ()),
    ] {
        assert_eq!(outcome(&unknown), Outcome::Unknown, "{unknown:?}");
    }
    // What was never here is not: other kinds are not held up.
    let other = WorkloadId::fixed("a-container");
    bench.machines.stop(&other, Some(GRACE)).await.unwrap();
    bench.machines.remove(&other, true).await.unwrap();
    assert_eq!(bench.machines.inspect(&other).await.unwrap(), None);

    bench.daemon.start_again().await;
    assert_eq!(bench.machines.inspect(id).await.unwrap().unwrap(), before, "the very same run");
    assert_eq!(bench.process(id), number);
    let forgot = bench.daemon.virsh(&["domstate", "--reason", "persys-over"]);
    assert_eq!(bench.state(&ended.workload).await, Some(Existing::Exited { code: 0 }), "{forgot}");
    let heard = async { while wakeups.next().await != Some(Wakeup::Everything) {} };
    tokio::time::timeout(PATIENCE, heard).await.expect("the listener found it again");
    bench.machines.stop(id, Some(GRACE)).await.unwrap();
    assert_eq!(bench.console(id).await.matches("guest: boot=yes").count(), 1);
    for start in [&runs, &ended] {
        bench.machines.remove(&start.workload, true).await.unwrap();
    }
    assert_eq!(bench.machines.list().await.unwrap(), []);
}

#[tokio::test]
async fn a_libvirtd_that_hangs_is_unknown_in_time() {
    let bench = bench_with(|settings| {
        settings.libvirt.ask = Duration::from_secs(2);
        settings.libvirt.act = Duration::from_secs(3);
    })
    .await;
    let order = order("web", "r1", vm(""));
    bench.machines.start(&order).await.unwrap();
    bench.daemon.freeze().await;
    let begun = std::time::Instant::now();
    assert_eq!(observation(bench.machines.list().await), Observation::Unknown);
    let stopped = bench.machines.stop(&order.workload, Some(Duration::ZERO)).await;
    assert_eq!(outcome(&stopped), Outcome::Unknown);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    bench.daemon.thaw().await;
    assert_eq!(bench.state(&order.workload).await, Some(Existing::Running));
    bench.machines.remove(&order.workload, true).await.unwrap();
}
