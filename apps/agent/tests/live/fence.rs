//! Exclusive work ends at its deadline, whatever becomes of the agent.

use std::path::Path;
use std::time::{Duration, Instant};

use persys_runtime::Clock;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::node::{FENCE_MS, ask, cluster, docker, health, number, page, runs, spawn, until};

/// What a stop may take beyond the deadline: its grace, a look, and a slow machine.
pub(crate) const LATE_MS: u64 = 7_000;

pub(crate) fn pid(number: u64) -> Pid {
    Pid::from_raw(i32::try_from(number).unwrap()).unwrap()
}

/// The watchdog that guards.
pub(crate) fn guards(state: &Path) -> u64 {
    until("a fence", || {
        let (code, health) = health(state)?;
        (code == 200 && health["fence"] == true).then(|| number(state, "watchdog", "pid"))?
    })
}

/// Waits for the end of exclusive work, and holds it to its deadline.
fn ends_in_time(state: &Path, alone: &str) {
    let clock = Clock::since_boot();
    until("the end of exclusive work", || (!runs(alone)).then_some(()));
    let (now, deadline) = (clock.now().0, number(state, "lease", "fence_at_ms").unwrap());
    assert!(now >= deadline, "stopped {} ms early", deadline - now);
    assert!(now < deadline + LATE_MS, "stopped {} ms late", now - deadline);
}

pub(crate) fn story() {
    let dir = tempfile::tempdir().unwrap();
    let (state, cluster) = (dir.path(), cluster("fence"));
    let (alone, common) = (format!("persys-{cluster}-alone"), format!("persys-{cluster}-common"));
    let born = |name: &str| ask(name, "{{.State.StartedAt}}").unwrap();

    let mut agent = spawn(state, &cluster, "fence");
    let first = guards(state);
    until("both run", || (runs(&alone) && runs(&common)).then_some(()));
    let (alone_born, common_born) = (born(&alone), born(&common));
    let (_, text) = page(state, "/metrics").unwrap();
    assert!(text.contains("persys_agent_fence_available 1"), "{text}");
    assert!(text.contains("persys_agent_runtime_health_status{runtime_type=\"container\"} 1"));

    // As long as the lease is renewed, nothing happens.
    let long = Instant::now() + Duration::from_millis(2 * FENCE_MS);
    while Instant::now() < long {
        assert!(runs(&alone) && runs(&common));
        std::thread::yield_now();
    }

    // A dead watchdog is no fence, and there is soon another.
    kill_process(pid(first), Signal::KILL).unwrap();
    until("the fence is told to be gone", || (health(state)?.1["fence"] == false).then_some(()));
    let second = guards(state);
    assert_ne!(first, second);
    assert_eq!((born(&alone), born(&common)), (alone_born, common_born.clone()), "left alone");

    // A killed agent.
    agent.kill().unwrap();
    agent.wait().unwrap();
    assert!(runs(&alone), "not before its deadline");
    ends_in_time(state, &alone);
    assert!(runs(&common));
    until("the watchdog has nothing left to guard", || {
        test_kill_process(pid(second)).is_err().then_some(())
    });

    // The next agent goes on, and hangs.
    let mut agent = spawn(state, &cluster, "fence");
    let third = guards(state);
    until("both run again", || (runs(&alone) && runs(&common)).then_some(()));
    kill_process(pid(agent.id().into()), Signal::STOP).unwrap();
    ends_in_time(state, &alone);
    assert!(runs(&common));
    assert_eq!(born(&common), common_born, "never touched");
    agent.kill().unwrap();
    agent.wait().unwrap();
    until("the watchdog has ended", || test_kill_process(pid(third)).is_err().then_some(()));
    let gone = docker(&["rm", "-f", "-v", &alone, &common]);
    assert!(gone.status.success(), "{gone:?}");
}
