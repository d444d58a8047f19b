//! What runs is kept running: against accidents, against people, and without burning the machine.

use std::time::{Duration, Instant};

use persys_e2e::engine::{Container, Engine, IMAGE};
use persys_e2e::part::Pace;
use persys_e2e::processes::{Stack, Wish, now_seconds};

use crate::lifecycle::only;
use crate::program;

/// What was promised.
const BACK_WITHIN: Duration = Duration::from_secs(2);
/// A host may stall for a moment of its own; a product that is slow is slow every time.
const TRIES: usize = 3;
/// Later than this is not slow but lost, and lost is wrong the first time.
const LOST_AFTER: Duration = Duration::from_secs(25);

/// The promise, or on a machine that is busy with other things six times what Docker itself takes.
fn limit() -> Duration {
    let begun = Instant::now();
    let label = "test.persys=live";
    Engine::shared().docker(&["run", "--rm", "--label", label, IMAGE, "true"]);
    BACK_WITHIN.max(begun.elapsed() * 6)
}

async fn running() -> (Stack, String, Container) {
    let mut stack = Stack::on_docker(program(), Pace::Product).await;
    let id = stack.id("web");
    stack.apply(&Wish::runs(&id).request()).await;
    stack.until_status(&id, "Running").await;
    let container = only(&stack, &id).await;
    (stack, id, container)
}

/// Waits until something of the workload runs that did not before; and says how long that took.
async fn back(stack: &Stack, before: (&str, &str)) -> (Container, Duration) {
    let begun = Instant::now();
    loop {
        let all = Engine::shared().containers(&stack.cluster).await;
        assert!(all.len() <= 1, "two at once: {all:?}");
        if let [one] = &*all
            && one.running
            && (&*one.id, &*Engine::shared().started(&one.id).await.0) != before
        {
            return (one.clone(), begun.elapsed());
        }
        assert!(begun.elapsed() <= LOST_AFTER, "not back: {all:?}\n{}", stack.log("n1"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Harms a running container, on a fresh cluster each time, and gives what it was and what came
/// back in time.
async fn back_in_time(harm: impl AsyncFn(&str)) -> (Container, Container) {
    let mut late = Vec::new();
    for _ in 0..TRIES {
        let (mut stack, id, before) = running().await;
        let started = Engine::shared().started(&before.id).await.0;
        let limit = limit();
        harm(&before.id).await;
        let (after, took) = back(&stack, (&before.id, &started)).await;
        stack.until(&id, |view| view.status == "Running" && view.restarts == 1).await;
        if took <= limit {
            return (before, after);
        }
        late.push((took, limit));
    }
    panic!("back too late each time: {late:?}");
}

#[tokio::test]
async fn killed_behind_our_back_it_is_back_within_two_seconds() {
    let (before, after) = back_in_time(async |id| Engine::shared().kill(id).await).await;
    assert_eq!(after.id, before.id, "the same container, started again");
}

#[tokio::test]
async fn removed_behind_our_back_it_is_back_within_two_seconds() {
    let (before, after) = back_in_time(async |id| Engine::shared().remove(id).await).await;
    assert_ne!(after.id, before.id, "another container of the same version");
    assert_eq!(after.revision, before.revision);
}

#[tokio::test]
async fn a_job_that_ended_well_is_complete_and_stays_so() {
    let mut stack = Stack::on_docker(program(), Pace::Product).await;
    let (id, mut recorder) =
        (stack.id("job"), Engine::shared().record(&stack.cluster, now_seconds()));
    let mut wish = Wish::shell(&id, "exit 0");
    wish.container.restart_policy = "no".to_owned();
    stack.apply(&wish.request()).await;
    let view = stack.until_status(&id, "Completed").await;
    assert_eq!((view.restarts, &*view.failure_reason), (0, ""));
    // Neither a new life of its agent nor one of its scheduler is a reason to run it again.
    for process in ["n1", "scheduler"] {
        stack.kill(process).await;
        stack.start_again(process).await;
        stack.until_ready(1).await;
    }
    let mark = stack.id("mark");
    stack.apply(&Wish::runs(&mark).request()).await;
    stack.until_status(&mark, "Running").await;
    assert_eq!(stack.look(&id).await.unwrap().unwrap().status, "Completed");
    let history = recorder.history().await;
    assert_eq!(history.get(&id).unwrap(), &["create", "start"]);
}

#[tokio::test]
async fn a_crash_loop_backs_off() {
    let mut stack = Stack::on_docker(program(), Pace::Product).await;
    let (id, mut recorder) =
        (stack.id("bad"), Engine::shared().record(&stack.cluster, now_seconds()));
    stack.apply(&Wish::shell(&id, "exit 3").request()).await;
    // Starts come after 0, 1, 2, 4 and 8 seconds: the fifth restart is 15 seconds after the first.
    stack.until(&id, |view| view.restarts == 1).await;
    let first = Instant::now();
    let view = stack.until(&id, |view| view.restarts >= 5).await;
    let took = first.elapsed();
    assert!(took >= Duration::from_secs(14), "five restarts within {took:?}");
    assert!(view.reason.unwrap().message.contains('3'), "it says how it ended");
    let history = recorder.history().await;
    let of_it = history.get(&id).unwrap();
    assert_eq!(of_it.iter().filter(|action| *action == "create").count(), 1, "{of_it:?}");
    let starts = of_it.iter().filter(|action| *action == "start").count();
    // The first start and five restarts, the last of which is counted before it happens.
    assert!((5..=7).contains(&starts), "{starts} starts in {took:?}");
    // Dashboards see a crash loop: each restart counts among the failures.
    let page = crate::secrets::page(&stack, "scheduler", "/metrics").await;
    let family = "persys_scheduler_workload_failures_total{reason=\"RUNTIME_ERROR\"} ";
    let counted: f64 =
        page.split(family).nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap();
    assert!(counted >= 4.0, "{counted} failures are counted");
}
