//! Who wants more memory or disk than was set aside is ended, and people are told that it was that.

use std::time::Instant;

use persys_e2e::engine::{Engine, IMAGE};
use persys_e2e::processes::{PATIENCE, Wish};
use persys_proto::control::v1 as api;

use crate::lifecycle::only;
use crate::stacks::stack;
use crate::typed::{done, typed};

const EATS: &str = "x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done";
const WHY: &str = "out of memory, it needed more than its limit";

fn message(view: &api::WorkloadView) -> &str {
    view.reason.as_ref().map_or("", |reason| &reason.message)
}

#[tokio::test]
async fn want_of_memory_is_told_by_its_name() {
    let mut stack = stack().await;
    let (one, several) = (stack.id("one"), stack.id("several"));
    let mut wish = Wish::shell(&one, EATS);
    "no".clone_into(&mut wish.container.restart_policy);
    stack.apply(&wish.request()).await;
    stack.until(&one, |view| message(view).contains(WHY)).await;
    let told = done(&stack, &format!("why {one}"), "").await;
    assert!(told.contains(WHY), "{told}");

    // The service has no limit of its own: that of the stack holds.
    let file = format!(
        "services:\n  calm:\n    image: {IMAGE}\n    command: [sleep, '1000']\n    restart: 'no'\n  \
         eats:\n    image: {IMAGE}\n    command: [sh, -c, \"{}\"]\n    restart: 'no'\n",
        EATS.replace('$', "$$")
    );
    let file = format!(
        "workload_id: {several}\nspec:\n  type: compose\n  resources: {{cpu_millicores: 50, memory_mb: \
         32}}\n  compose:\n    source_type: inline\n    inline_yaml: |\n{}",
        file.lines().flat_map(|line| ["      ", line, "\n"]).collect::<String>()
    );
    typed(&stack, "apply - --detach", &file).await;
    let view = stack.until(&several, |view| message(view).contains(WHY)).await;
    assert!(message(&view).contains("service eats"), "{view:?}");
    stack.delete(&one).await;
    stack.delete(&several).await;
    assert_eq!(Engine::shared().containers(&stack.cluster).await, []);
}

#[tokio::test]
async fn a_layer_that_fills_is_warned_of_and_then_stopped() {
    let mut stack = stack().await;
    let id = stack.id("writer");
    let mut request = Wish::runs(&id).request();
    let spec = request.spec.as_mut().unwrap();
    spec.resources.as_mut().unwrap().disk_gb = 1;
    stack.apply(&request).await;
    stack.until_status(&id, "Running").await;
    let container = only(&stack, &id).await.id;
    let engine = Engine::shared();
    let write = |size: &str, name: &str| {
        engine.docker(&["exec", &container, "fallocate", "-l", size, name]);
    };

    write("960M", "/first");
    // The agent counts files every half a minute.
    let deadline = Instant::now() + 2 * PATIENCE;
    let told = loop {
        let told = done(&stack, &format!("why {id}"), "").await;
        if told.contains("into layers of their own") {
            break told;
        }
        stack.wait_a_little(deadline, &format!("no warning: {told}")).await;
    };
    assert!(told.contains("960 MiB") && told.contains("the 1024 MiB of disk"), "{told}");
    assert_eq!(only(&stack, &id).await.id, container, "it runs on");
    let view = stack.look(&id).await.unwrap().unwrap();
    assert_eq!(view.status, "Running");

    write("100M", "/second");
    let deadline = Instant::now() + 2 * PATIENCE;
    let view = loop {
        let view = stack.look(&id).await.unwrap().unwrap();
        if view.failure_reason == "STORAGE_ERROR" && message(&view).contains("it was stopped") {
            break view;
        }
        stack.wait_a_little(deadline, &format!("it was not stopped: {view:?}")).await;
    };
    let said = message(&view);
    assert!(said.contains("1060 MiB") && said.contains("1024 MiB"), "{said}");
    assert!(said.contains("resources.disk_gb"), "it names what to set: {said}");
    stack.delete(&id).await;
    assert_eq!(engine.containers(&stack.cluster).await, []);
}
