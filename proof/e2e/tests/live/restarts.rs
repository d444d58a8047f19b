//! Restart policies: a program is started as often as its policy says. The retries of the scheduler are
//! for what could not be started.

use std::collections::BTreeMap;

use persys_e2e::engine::{Engine, IMAGE};
use persys_e2e::processes::{Stack, Wish, now_seconds};

use crate::stacks::stack;
use crate::typed::done;

/// Starts that Docker saw of a workload.
fn starts(history: &[String]) -> usize {
    history.iter().filter(|event| *event == "start").count()
}

/// How often each service of a workload ran, by what its container printed.
async fn runs(stack: &Stack, id: &str) -> BTreeMap<String, usize> {
    let engine = Engine::shared();
    let mut runs = BTreeMap::new();
    for container in engine.containers(&stack.cluster).await {
        if container.workload == id {
            let label = r#"{{index .Config.Labels "com.docker.compose.service"}}"#;
            let service = engine.docker(&["inspect", "--format", label, &container.id]);
            let printed = engine.docker(&["logs", &container.id]);
            runs.insert(service, printed.lines().filter(|line| *line == "ran").count());
        }
    }
    runs
}

/// A file for a stack of services with a policy and the end of a script each.
fn mixed(id: &str, services: &[(&str, &str, &str)]) -> String {
    let service = |(name, policy, end): &(&str, &str, &str)| {
        format!(
            "        {name}:\n          image: {IMAGE}\n          command: [sh, -c, 'echo ran; {end}']\n          \
             restart: '{policy}'\n"
        )
    };
    let services: String = services.iter().map(service).collect();
    format!(
        "workload_id: {id}\nspec:\n  type: compose\n  resources: {{cpu_millicores: 20, memory_mb: \
         64}}\n  compose:\n    source_type: inline\n    inline_yaml: |\n      services:\n{services}"
    )
}

#[tokio::test]
async fn services_of_one_stack_follow_each_its_own_policy() {
    let mut stack = stack().await;
    let (id, over) = (stack.id("mixed"), stack.id("over"));
    let services = [
        ("done", "no", "exit 0"),
        ("dies", "no", "exit 3"),
        ("tries", "on-failure:2", "exit 4"),
        ("stays", "always", "exec sleep 100000"),
        ("comes", "always", "sleep 1; exit 5"),
    ];
    done(&stack, "apply - --detach", &mixed(&id, &services)).await;
    let ends = [("dies", "no", "exit 3"), ("does", "on-failure:2", "exit 0")];
    done(&stack, "apply - --detach", &mixed(&over, &ends)).await;
    let deadline = std::time::Instant::now() + 2 * persys_e2e::processes::PATIENCE;
    let seen = loop {
        let seen = runs(&stack, &id).await;
        let of = |name: &str| seen.get(name).copied().unwrap_or_default();
        if of("tries") >= 3 && of("comes") >= 4 {
            break seen;
        }
        stack.wait_a_little(deadline, &format!("not yet: {seen:?}")).await;
    };
    assert_eq!(
        (seen["done"], seen["dies"], seen["tries"], seen["stays"]),
        (1, 1, 3, 1),
        "{seen:?}"
    );
    let deadline = std::time::Instant::now() + persys_e2e::processes::PATIENCE;
    loop {
        let why = done(&stack, &format!("why {id}"), "").await;
        if why.contains("service dies exited with code 3, and its restart policy does not start it")
        {
            break;
        }
        stack.wait_a_little(deadline, &format!("nobody says that a service failed: {why}")).await;
    }
    // Once nothing of it is started again, it is over.
    let view = stack.until_status(&over, "Failed").await;
    assert_eq!(view.restarts, 0, "{view:?}");
    let seen = runs(&stack, &over).await;
    assert_eq!((seen["dies"], seen["does"]), (1, 1), "{seen:?}");
    stack.delete(&id).await;
    stack.delete(&over).await;
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
