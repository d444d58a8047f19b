//! Who wants more memory or disk than was set aside is ended, and people are told that it was that.

use std::collections::BTreeMap;
use std::time::Instant;

use persys_e2e::engine::{Engine, IMAGE};
use persys_e2e::processes::{PATIENCE, Stack, Wish};
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

    let limit = "its limit of 16 MiB, which its spec sets: raise it with --memory";
    assert!(told.contains(limit), "{told}");

    // The limit is the service's own; what the stack reserves is none.
    let file = format!(
        "services:\n  calm:\n    image: {IMAGE}\n    command: [sleep, '1000']\n    restart: 'no'\n  \
         eats:\n    image: {IMAGE}\n    command: [sh, -c, \"{}\"]\n    restart: 'no'\n    \
         mem_limit: 24m\n",
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
    let own = "its limit of 24 MiB, which the service sets itself: raise mem_limit";
    assert!(message(&view).contains(own), "{view:?}");
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

/// What Docker limits a container to: memory, swap, CPU quota, as it was made.
fn limits_of(container: &str) -> String {
    let format = "{{.HostConfig.Memory}} {{.HostConfig.NanoCpus}} {{.HostConfig.CpuQuota}}";
    Engine::shared().docker(&["inspect", "--format", format, container])
}

#[tokio::test]
async fn nothing_is_limited_that_nobody_asked_for() {
    let mut stack = stack().await;
    let (free, bound) = (stack.id("free"), stack.id("bound"));
    done(&stack, &format!("run {IMAGE} --name {free} -- sleep 1000"), "").await;
    assert_eq!(limits_of(&only(&stack, &free).await.id), "0 0 0");
    let line = format!("run {IMAGE} --name {bound} --memory 64m --cpu 0.5 -- sleep 1000");
    done(&stack, &line, "").await;
    let bound_to = limits_of(&only(&stack, &bound).await.id);
    assert_eq!(bound_to, format!("{} 0 50000", 64 << 20), "what is asked for holds");
    // What is shown can be applied again, and means the same.
    let shown = done(&stack, &format!("get {free} -o yaml"), "").await;
    assert!(shown.contains("memory_unlimited: true"), "{shown}");

    let five = stack.id("five");
    let file = |changed: &str| {
        let service = |name: &str| {
            let more = match name {
                "c" => "    mem_limit: 48m\n    cpus: 0.25\n",
                "d" => "    deploy: {resources: {limits: {memory: 40m}}}\n",
                _ => "",
            };
            let version = if name == changed { "2" } else { "1" };
            format!(
                "  {name}:\n    image: {IMAGE}\n    init: true\n    command: [sleep, '1000']\n    \
                 environment: {{V: '{version}'}}\n{more}"
            )
        };
        let services: String = ["a", "b", "c", "d", "e"].map(service).concat();
        format!("services:\n{services}")
    };
    let up = format!("apply - --id {five}");
    done(&stack, &up, &file("none")).await;
    let before = services(&stack, &five);
    let limits: Vec<_> = before.values().map(|id| limits_of(id)).collect();
    let own = format!("{} 250000000 0", 48 << 20);
    let deployed = format!("{} 0 0", 40 << 20);
    assert_eq!(limits, ["0 0 0", "0 0 0", &own, &deployed, "0 0 0"]);

    done(&stack, &up, &file("b")).await;
    let after = services(&stack, &five);
    let made_anew: Vec<_> = after.iter().filter(|one| before.get(one.0) != Some(one.1)).collect();
    assert_eq!(made_anew.len(), 1, "one of five changed: {made_anew:?}");
    assert_eq!(made_anew[0].0, "b");
    // One more service is one more container, and no other one is touched.
    let sixth =
        format!("{}  f: {{image: {IMAGE}, init: true, command: [sleep, '9']}}\n", file("b"));
    done(&stack, &up, &sixth).await;
    let mut grown = services(&stack, &five);
    assert!(grown.remove("f").is_some());
    assert_eq!(grown, after);
    for id in [&free, &bound, &five] {
        stack.delete(id).await;
    }
}

/// The containers of a stack, by service.
fn services(stack: &Stack, id: &str) -> BTreeMap<String, String> {
    let (cluster, workload) = (
        format!("label=persys.cluster={}", stack.cluster),
        format!("label=persys.workload_id={id}"),
    );
    let format = "{{.Label \"com.docker.compose.service\"}} {{.ID}}";
    let args =
        ["ps", "--no-trunc", "--filter", &cluster, "--filter", &workload, "--format", format];
    let listed = Engine::shared().docker(&args);
    let pairs = listed.lines().filter_map(|line| line.split_once(' '));
    pairs.map(|(name, id)| (name.to_owned(), id.to_owned())).collect()
}
