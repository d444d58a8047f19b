//! Updates and deletions, again and again, of what writes all the time: no record is torn, no two copies
//! write, and no data is gone that nobody said may go.
//!
//! `PERSYS_CHURN=n` sets how often each is changed; `make churn` takes a hundred.

use std::time::Instant;

use persys_e2e::engine::{Engine, IMAGE};
use persys_e2e::processes::{PATIENCE, Stack, Wish};
use persys_proto::control::v1::{ApplyWorkloadRequest, ManagedVolumeSpec};

use crate::stacks;

/// Rounds where nobody says how many.
const FEW: usize = 8;
/// One round in so many is a deletion.
const DELETES_EVERY: usize = 3;

/// Has the volume to itself, writes records of many lines, and ends between two of them when it is asked
/// to. What it finds that should not be goes into a file of its own.
const WRITES: &str = "\
    end=; trap 'end=1' TERM; cd /data; \
    mkdir lock 2>/dev/null || echo \"$VERSION: another copy writes or was killed\" >> faults; \
    [ ! -e log ] || [ \"$(tail -n 1 log)\" = whole ] || echo \"$VERSION: a torn record\" >> faults; \
    echo \"$VERSION\" >> starts; \
    while [ -z \"$end\" ]; do \
      i=0; while [ $i -lt 50 ]; do echo \"$VERSION $i\"; i=$((i + 1)); done > record; \
      cat record >> log; sleep 0.02; echo whole >> log; \
    done; \
    rmdir lock";

fn rounds() -> usize {
    std::env::var("PERSYS_CHURN").ok().and_then(|text| text.parse().ok()).unwrap_or(FEW)
}

fn container(id: &str, round: usize) -> ApplyWorkloadRequest {
    let mut wish = Wish::shell(id, WRITES).revised(&format!("r{round}"));
    wish.container.env.insert("VERSION".to_owned(), round.to_string());
    wish.container.managed_volumes = vec![ManagedVolumeSpec {
        name: id.to_owned(),
        driver: "local".to_owned(),
        size_gb: 1,
        mount_path: "/data".to_owned(),
        retain_policy: "Retain".to_owned(),
        ..ManagedVolumeSpec::default()
    }];
    wish.request()
}

fn compose(id: &str, round: usize) -> ApplyWorkloadRequest {
    let script = WRITES.replace('$', "$$").replace('\\', "\\\\").replace('"', "\\\"");
    let file = format!(
        "services:\n  db:\n    image: {IMAGE}\n    restart: always\n    command: [sh, -c, \"{script}\"]\n    \
         environment: {{VERSION: '{round}'}}\n    volumes: ['data:/data']\nvolumes: {{data: {{}}}}\n"
    );
    stacks::request(id, &format!("r{round}"), file)
}

/// Says a file of the volume of the one container of a workload; empty if there is none.
async fn inside(stack: &Stack, id: &str, file: &str) -> String {
    let all = Engine::shared().containers(&stack.cluster).await;
    let ours = all.iter().find(|one| one.workload == id && one.running).expect("it runs");
    let read = format!("cat /data/{file} 2>/dev/null || true");
    Engine::shared().docker(&["exec", &ours.id, "sh", "-c", &read])
}

/// Changes it so many times, and waits each time until the version that was asked for writes.
async fn churn(stack: &mut Stack, id: &str, request: impl Fn(&str, usize) -> ApplyWorkloadRequest) {
    for round in 0..=rounds() {
        if round > 0 && round.is_multiple_of(DELETES_EVERY) {
            stack.delete(id).await;
        }
        stack.apply(&request(id, round)).await;
        let revision = format!("r{round}");
        stack.until(id, |view| view.status == "Running" && view.revision_id == revision).await;
        let deadline = Instant::now() + PATIENCE;
        let wanted: Vec<_> = (0..=round).map(|one| one.to_string()).collect();
        loop {
            let starts = inside(stack, id, "starts").await;
            let starts: Vec<_> = starts.lines().map(ToOwned::to_owned).collect();
            if starts == wanted {
                break;
            }
            let what = format!("{id}: each version wrote once, on what was there: {starts:?}");
            stack.wait_a_little(deadline, &what).await;
        }
        assert_eq!(inside(stack, id, "faults").await, "", "{id}, round {round}");
    }
    let ended = inside(stack, id, "log").await;
    assert!(ended.lines().filter(|line| *line == "whole").count() > rounds(), "it wrote");
}

#[tokio::test]
async fn containers_that_write_all_the_time_lose_nothing() {
    let mut stack = stacks::stack().await;
    let id = stack.id("writer");
    churn(&mut stack, &id, container).await;
    stack.delete(&id).await;
}

#[tokio::test]
async fn stacks_that_write_all_the_time_lose_nothing() {
    let mut stack = stacks::stack().await;
    let id = stack.id("writers");
    churn(&mut stack, &id, compose).await;
    stack.delete(&id).await;
    let furniture = Engine::shared().furniture().await;
    let kept = furniture.iter().filter(|name| name.contains(&stack.cluster)).count();
    assert_eq!(kept, 1, "its volume is there, and nothing else of it: {furniture:?}");
}
