//! Restart policies: a program is started as often as its policy says. The retries of the scheduler are
//! for what could not be started.

use persys_e2e::engine::{Engine, IMAGE};
use persys_e2e::processes::{Wish, now_seconds};

use crate::stacks::stack;
use crate::typed::done;

/// Starts that Docker saw of a workload.
fn starts(history: &[String]) -> usize {
    history.iter().filter(|event| *event == "start").count()
}

#[tokio::test]
async fn a_program_runs_as_often_as_its_restart_policy_says() {
    let mut stack = stack().await;
    let mut recorder = Engine::shared().record(&stack.cluster, now_seconds());
    let mut wanted = Vec::new();
    for (name, policy, retries, runs) in [("once", "no", 0, 1), ("thrice", "on-failure", 2, 3)] {
        let id = stack.id(name);
        let mut wish = Wish::shell(&id, "echo ran; exit 3");
        wish.container.restart_policy = policy.to_owned();
        wish.container.max_retry_count = retries;
        stack.apply(&wish.request()).await;
        wanted.push((id, runs));

        let id = stack.id(&format!("stack-{name}"));
        let policy = if retries == 0 { policy.to_owned() } else { format!("{policy}:{retries}") };
        let file = format!(
            "workload_id: {id}\nspec:\n  type: compose\n  resources: {{cpu_millicores: 20, memory_mb: \
             32}}\n  compose:\n    source_type: inline\n    inline_yaml: |\n      services:\n        \
             job:\n          image: {IMAGE}\n          command: [sh, -c, 'echo ran; exit 3']\n          \
             restart: '{policy}'\n"
        );
        done(&stack, "apply - --detach", &file).await;
        wanted.push((id, runs));
    }
    for (id, runs) in &wanted {
        let view = stack.until_status(id, "Failed").await;
        assert_eq!(usize::try_from(view.restarts).unwrap(), runs - 1, "{id}");
        let why = done(&stack, &format!("why {id}"), "").await;
        assert!(why.contains("exited with code 3; its restart policy"), "{why}");
        assert!(why.contains("1 of 5 attempts failed; none is planned"), "{why}");
    }
    // Neither a new life of its agent nor one of its scheduler is a reason to run it again.
    for process in ["n1", "scheduler"] {
        stack.kill(process).await;
        stack.start_again(process).await;
        stack.until_ready(1).await;
    }
    let mark = stack.id("mark");
    stack.apply(&Wish::runs(&mark).request()).await;
    stack.until_status(&mark, "Running").await;
    let history = recorder.history().await;
    for (id, runs) in &wanted {
        assert_eq!(starts(&history[id]), *runs, "{id}: {:?}", history[id]);
    }
    // Somebody who wants it again says so.
    let (id, runs) = &wanted[0];
    done(&stack, &format!("retry {id} --detach"), "").await;
    stack.until(id, |view| view.status == "Failed" && view.epoch > 0).await;
    let deadline = std::time::Instant::now() + persys_e2e::processes::PATIENCE;
    while starts(&recorder.history().await[id]) <= *runs {
        stack.wait_a_little(deadline, "it was not started again by hand").await;
    }
    stack.until_status(id, "Failed").await;
    assert_eq!(starts(&recorder.history().await[id]), runs + 1);
    for (id, _) in wanted.iter().chain([&(mark, 0)]) {
        stack.delete(id).await;
    }
}
