//! Who wants more memory than was set aside is ended, and people are told that it was that.

use persys_e2e::engine::{Engine, IMAGE};
use persys_e2e::processes::Wish;
use persys_proto::control::v1 as api;

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
        "services:\n  calm:\n    image: {IMAGE}\n    command: [sleep, '1000']\n    restart: always\n  \
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
