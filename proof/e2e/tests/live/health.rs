//! Health on real Docker: what its checks say is on every page, and whoever applies waits for it.

use persys_e2e::engine::{Engine, IMAGE};
use persys_e2e::processes::Stack;
use persys_proto::control::v1::WorkloadView;

use crate::lifecycle::only;
use crate::stacks::stack;
use crate::typed::{done, typed};

/// An image with a check of its own: the file /ok has to exist.
struct CheckedImage(String);

impl CheckedImage {
    fn make(stack: &Stack) -> Self {
        let engine = Engine::shared();
        let name = format!("{}:checked", stack.cluster);
        let made = engine.docker(&["create", IMAGE, "true"]);
        let check = "HEALTHCHECK --interval=1s --timeout=2s --start-period=30s --retries=1 CMD [\"sh\", \"-c\", \
                     \"test -f /ok || { echo no file; exit 7; }\"]";
        engine.docker(&["commit", "--change", check, &made, &name]);
        engine.docker(&["rm", &made]);
        Self(name)
    }
}

impl Drop for CheckedImage {
    fn drop(&mut self) {
        let removed = std::process::Command::new("docker").args(["rmi", "-f", &self.0]).output();
        drop(removed);
    }
}

fn inside(container: &str, script: &str) {
    Engine::shared().docker(&["exec", container, "sh", "-c", script]);
}

async fn until_health(stack: &mut Stack, id: &str, word: &str) -> WorkloadView {
    stack.until(id, |view| view.health == word).await
}

#[tokio::test]
async fn the_check_of_an_image_is_on_every_page_and_restarts_nothing() {
    let mut stack = stack().await;
    let image = CheckedImage::make(&stack);
    let id = stack.id("web");
    let file = format!(
        "name: {id}\nspec:\n  container:\n    image: {}\n    command: [sh, -c, 'sleep 2; touch /ok; \
         exec sleep 1000']\n",
        image.0
    );
    // It is not done before the check has passed.
    let said = done(&stack, "apply -", &file).await;
    assert!(said.contains(&format!("{id} runs on node n1")), "{said}");
    let list = done(&stack, "list", "").await;
    assert!(list.contains("Running (healthy)"), "{list}");
    let one = only(&stack, &id).await;
    let started = Engine::shared().started(&one.id).await.0;

    inside(&one.id, "rm /ok");
    let view = until_health(&mut stack, &id, "Unhealthy").await;
    assert_eq!((view.status.as_str(), view.restarts), ("Running", 0));
    assert_eq!(view.health_message, "its check ended with exit code 7: no file");
    let list = done(&stack, "list", "").await;
    assert!(list.contains("Running (unhealthy)") && list.contains("exit code 7"), "{list}");
    let get = done(&stack, &format!("get {id}"), "").await;
    assert!(get.contains("unhealthy"), "{get}");
    let why = done(&stack, &format!("why {id}"), "").await;
    assert!(why.contains(&format!("{id} runs on n1 and is unhealthy, since")), "{why}");
    let events = done(&stack, &format!("events {id}"), "").await;
    assert!(events.contains("WorkloadUnhealthy"), "{events}");
    let again = typed(&stack, "apply -", &file).await;
    assert_eq!(again.code, 3, "what is unhealthy is not well: {again:?}");

    // Who is restarted does not forget it.
    for process in ["n1", "scheduler"] {
        stack.kill(process).await;
        stack.start_again(process).await;
        stack.until_ready(1).await;
        let view = stack.until_status(&id, "Running").await;
        assert_eq!(view.health, "Unhealthy", "after {process}");
    }
    inside(&one.id, "touch /ok");
    until_health(&mut stack, &id, "Healthy").await;
    assert_eq!(Engine::shared().started(&one.id).await.0, started, "nothing was restarted");

    let off = file.replace("spec:\n", "spec:\n  health: {ready: {disable: true}}\n");
    done(&stack, "apply -", &off).await;
    let view = stack.until(&id, |view| view.status == "Running").await;
    assert_eq!(view.health, "", "no check was asked for");
    stack.delete(&id).await;
}

#[tokio::test]
async fn a_check_of_the_spec_is_asked_from_outside_or_run_inside() {
    let mut stack = stack().await;
    let id = stack.id("api");
    let file = |check: &str| {
        format!(
            "name: {id}\nspec:\n  container:\n    image: {IMAGE}\n    command: [sh, -c, 'mkdir -p \
             /www; echo up > /www/up; exec httpd -f -p 80 -h /www']\n  health:\n    ready:\n      \
             {check}\n      interval: 1s\n      timeout: 1s\n      start_period: 10s\n      retries: 2\n"
        )
    };
    for (check, breaks, mends, told) in [
        (
            "http: {port: 80, path: /up}",
            "rm /www/up",
            "echo up > /www/up",
            "GET /up on port 80: status 404",
        ),
        ("exec: [test, -f, /www/up]", "rm /www/up", "echo up > /www/up", "exit code 1"),
        ("tcp: {port: 80}", "killall -STOP httpd; true", "killall -CONT httpd", ""),
    ] {
        let said = done(&stack, "apply -", &file(check)).await;
        assert!(said.contains(&format!("{id} runs on node n1")), "{said}");
        assert_eq!(until_health(&mut stack, &id, "Healthy").await.status, "Running", "{check}");
        if told.is_empty() {
            // A process that stands still has its connections accepted by the kernel.
            continue;
        }
        let one = only(&stack, &id).await;
        inside(&one.id, breaks);
        let view = until_health(&mut stack, &id, "Unhealthy").await;
        assert!(view.health_message.contains(told), "{check}: {}", view.health_message);
        inside(&one.id, mends);
        until_health(&mut stack, &id, "Healthy").await;
    }
    // Nobody listens there: whoever waits for it is told so.
    let bad = file("tcp: {port: 81}").replace("start_period: 10s", "start_period: 0s");
    let said = typed(&stack, "apply -", &bad).await;
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.remarked.contains("runs and is unhealthy"), "{said:?}");
    assert!(said.remarked.contains("connection to port 81: Connection refused"), "{said:?}");
    let inspected = only(&stack, &id).await.id;
    let config =
        Engine::shared().docker(&["inspect", "-f", "{{json .Config.Healthcheck}}", &inspected]);
    assert!(config.contains("NONE"), "Docker runs no check beside ours: {config}");
    stack.delete(&id).await;
}

#[tokio::test]
async fn a_stack_is_as_healthy_as_its_worst_service() {
    let mut stack = stack().await;
    let id = stack.id("shop");
    let service = |name: &str, check: bool| {
        let check = if check {
            "\n          healthcheck: {test: [CMD, test, -f, /ok], interval: 1s, timeout: 1s, retries: 1}"
        } else {
            ""
        };
        format!(
            "        {name}:\n          image: {IMAGE}\n          command: [sh, -c, 'touch /ok; exec \
             sleep 1000']{check}\n"
        )
    };
    let file = format!(
        "workload_id: {id}\nspec:\n  type: compose\n  compose:\n    source_type: inline\n    \
         inline_yaml: |\n      services:\n{}{}{}",
        service("db", true),
        service("web", true),
        service("plain", false)
    );
    done(&stack, "apply -", &file).await;
    until_health(&mut stack, &id, "Healthy").await;
    let filter = "label=com.docker.compose.service=db";
    let of = format!("label={}={}", persys_e2e::engine::CLUSTER, stack.cluster);
    let db = Engine::shared().docker(&["ps", "-q", "--filter", filter, "--filter", &of]);
    inside(&db, "rm /ok");
    let view = until_health(&mut stack, &id, "Unhealthy").await;
    assert_eq!(view.status, "Running");
    assert!(view.health_message.starts_with("service db: "), "{}", view.health_message);
    let get = done(&stack, &format!("get {id}"), "").await;
    assert!(get.contains("db running (unhealthy"), "{get}");
    assert!(get.contains("web running (healthy)"), "{get}");
    assert!(get.contains("plain running\n"), "{get}");
    inside(&db, "touch /ok");
    until_health(&mut stack, &id, "Healthy").await;
    stack.delete(&id).await;
}
