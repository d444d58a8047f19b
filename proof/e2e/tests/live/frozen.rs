//! What is paused: by somebody on the node, it is shown and resumed; by its user, it stays so.

use std::time::{Duration, Instant};

use persys_e2e::engine::{Container, Engine, IMAGE};
use persys_e2e::processes::{Stack, Wish};
use persys_proto::compute::v1 as compute;
use persys_proto::compute::v1::compute_client::ComputeClient;

use crate::lifecycle::only;
use crate::stacks::stack;
use crate::typed::{done, typed};

/// Time within which anything that stands still has to be shown, with a margin to the 30 s that are
/// promised: a look is due after 18 s even where no event tells of it.
const SHOWN_WITHIN: Duration = Duration::from_secs(25);

fn is_paused(container: &Container) -> bool {
    let shown = Engine::shared().docker(&["inspect", "-f", "{{.State.Paused}}", &container.id]);
    shown.trim() == "true"
}

/// Pauses it as somebody on the node would. On a busy host runc cannot always freeze a container.
async fn pause(stack: &mut Stack, container: &Container) {
    let deadline = Instant::now() + persys_e2e::processes::PATIENCE;
    loop {
        let paused = std::process::Command::new("docker").args(["pause", &container.id]).output();
        let paused = paused.expect("docker");
        if paused.status.success() {
            return;
        }
        stack.wait_a_little(deadline, &format!("it cannot be paused: {paused:?}")).await;
    }
}

async fn drifts(stack: &Stack) -> Vec<compute::Drift> {
    let mut client = ComputeClient::new(stack.channel_of("scheduler"));
    let drifts = client.list_drifts(compute::ListDriftsRequest::default()).await;
    drifts.unwrap().into_inner().drifts
}

async fn events(stack: &Stack, id: &str) -> String {
    done(stack, &format!("events {id}"), "").await
}

/// Waits until no difference is recorded any more.
async fn until_settled(stack: &mut Stack) {
    let deadline = Instant::now() + persys_e2e::processes::PATIENCE;
    loop {
        let left = drifts(stack).await;
        if left.is_empty() {
            return;
        }
        stack.wait_a_little(deadline, &format!("differences stay: {left:?}")).await;
    }
}

#[tokio::test]
async fn a_container_and_a_stack_paused_by_hand_are_shown_and_resumed() {
    let mut stack = stack().await;
    let (web, shop) = (stack.id("web"), stack.id("shop"));
    stack.apply(&Wish::runs(&web).request()).await;
    let file = format!(
        "workload_id: {shop}\nspec:\n  type: compose\n  resources: {{cpu_millicores: 20, memory_mb: \
         32}}\n  compose:\n    source_type: inline\n    inline_yaml: |\n      services:\n        \
         a:\n          image: {IMAGE}\n          command: [sleep, '1000']\n        b:\n          \
         image: {IMAGE}\n          command: [sleep, '1000']\n"
    );
    done(&stack, "apply - --detach", &file).await;
    for id in [&web, &shop] {
        stack.until_status(id, "Running").await;
        let one = Engine::shared().containers(&stack.cluster).await;
        let one = one.into_iter().find(|container| container.workload == *id).unwrap();
        let started = Engine::shared().started(&one.id).await.0;
        let begun = Instant::now();
        pause(&mut stack, &one).await;
        let view = stack.until_status(id, "Paused").await;
        assert!(begun.elapsed() < SHOWN_WITHIN, "shown after {:?}", begun.elapsed());
        assert_eq!((view.desired_state.as_str(), view.restarts), ("Running", 0));
        let drift = drifts(&stack).await;
        assert!(
            drift.iter().any(|one| one.workload_id == *id && one.kind == "state_mismatch"),
            "{drift:?}"
        );
        let why = done(&stack, &format!("why {id}"), "").await;
        assert!(why.contains("was found paused"), "{why}");
        let view = stack.until_status(id, "Running").await;
        assert_eq!(view.restarts, 0, "resumed, not restarted");
        assert!(!is_paused(&one));
        assert_eq!(Engine::shared().started(&one.id).await.0, started);
        until_settled(&mut stack).await;
        let told = events(&stack, id).await;
        assert!(told.contains("WorkloadPaused"), "{told}");
        stack.delete(id).await;
    }
}

#[tokio::test]
async fn what_its_user_paused_stays_paused_whoever_is_restarted() {
    let mut stack = stack().await;
    let id = stack.id("web");
    stack.apply(&Wish::runs(&id).request()).await;
    stack.until_status(&id, "Running").await;
    let container = only(&stack, &id).await;
    let said = done(&stack, &format!("pause {id}"), "").await;
    assert!(said.contains(&format!("{id} is paused")), "{said}");
    assert!(is_paused(&container));
    let why = done(&stack, &format!("why {id}"), "").await;
    assert!(why.contains("is paused by "), "{why}");
    for process in ["n1", "scheduler"] {
        stack.kill(process).await;
        stack.start_again(process).await;
        stack.until_ready(1).await;
    }
    let mark = stack.id("mark");
    stack.apply(&Wish::runs(&mark).request()).await;
    stack.until_status(&mark, "Running").await;
    let view = stack.until_status(&id, "Paused").await;
    assert_eq!(view.desired_state, "Paused");
    assert!(is_paused(&container), "nobody resumes it");
    assert!(drifts(&stack).await.is_empty());
    let said = typed(&stack, &format!("restart {id}"), "").await;
    assert!(said.code != 0 && said.remarked.contains("persys resume"), "{said:?}");
    // Somebody resumes it by hand: that is not what its user wants.
    Engine::shared().docker(&["unpause", &container.id]);
    let deadline = Instant::now() + persys_e2e::processes::PATIENCE;
    while !is_paused(&container) {
        stack.wait_a_little(deadline, "it was not paused again").await;
    }
    done(&stack, &format!("resume {id}"), "").await;
    stack.until_status(&id, "Running").await;
    assert!(!is_paused(&container));
    assert_eq!(only(&stack, &id).await.id, container.id);
    done(&stack, &format!("pause {id}"), "").await;
    done(&stack, &format!("delete {id}"), "").await;
    stack.delete(&mark).await;
    assert!(Engine::shared().containers(&stack.cluster).await.is_empty());
}
