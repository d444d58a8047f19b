//! Whatever ends at our hand is asked to end first, and has its grace.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use persys_e2e::engine::{Engine, IMAGE};
use persys_e2e::part::Pace;
use persys_e2e::processes::{Stack, Wish};
use persys_proto::control::v1 as api;

use crate::lifecycle::only;
use crate::program;
use crate::stacks;

/// Takes a moment to end when it is asked to, and says so last.
const SAYS: &str = "trap 'sleep 1; echo asked; exit 0' TERM; echo up; while :; do sleep 0.1; done";

/// What a container prints until it ends, also if it is removed then.
pub(crate) struct Output(Child);

impl Output {
    /// Follows a container that has begun to print.
    pub(crate) async fn of(id: &str) -> Self {
        Self::of_run(1, id).await
    }

    /// Follows a container that has begun to print for the so manyth time.
    async fn of_run(run: usize, id: &str) -> Self {
        let begun = Instant::now();
        let runs =
            || Engine::shared().docker(&["logs", id]).lines().filter(|line| *line == "up").count();
        while runs() < run {
            assert!(begun.elapsed() < Duration::from_secs(20), "{id} says nothing");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let followed = Command::new("docker")
            .args(["-H", &Engine::shared().host, "logs", "--follow", id])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        Self(followed.expect("docker: run hack/docker-up"))
    }

    /// All of it, once the container has ended.
    pub(crate) async fn all(self) -> String {
        let waited = tokio::task::spawn_blocking(move || self.0.wait_with_output());
        let ended = tokio::time::timeout(Duration::from_secs(30), waited).await;
        let output = ended.expect("it ends").expect("a thread").expect("its output");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// A node with Docker, and one on which nothing really runs to go to.
async fn two_nodes() -> Stack {
    let mut stack = Stack::new(program(), Pace::Product);
    stack.start_scheduler(None).await;
    stack.start_agent("n1", Some(&Engine::shared()), None).await;
    stack.start_agent("n2", None, None).await;
    stack.until_ready(2).await;
    stack
}

async fn runs(stack: &mut Stack, wish: &Wish) -> Output {
    stack.apply(&wish.request()).await;
    let revision = wish.revision.clone();
    let id = wish.id.clone();
    stack.until(&id, |view| view.status == "Running" && view.revision_id == revision).await;
    Output::of(&only(stack, &id).await.id).await
}

#[tokio::test]
async fn a_container_is_asked_to_stop_by_update_stop_delete_move_and_drain() {
    let mut stack = two_nodes().await;
    let id = stack.id("web");
    let wish = Wish { runtime: Some("docker"), ..Wish::shell(&id, SAYS) };
    let first = runs(&mut stack, &wish).await;
    let second = runs(&mut stack, &wish.clone().revised("r2")).await;
    assert_eq!(first.all().await, "up\nasked\n", "update");

    stack.wish(&id, "Stopped").await;
    stack.until_status(&id, "Stopped").await;
    assert_eq!(second.all().await, "up\nasked\n", "stop");
    stack.wish(&id, "Running").await;
    stack.until_status(&id, "Running").await;
    let third = Output::of_run(2, &only(&stack, &id).await.id).await;
    stack.delete(&id).await;
    assert_eq!(third.all().await, "up\nasked\nup\nasked\n", "delete");
    assert_eq!(Engine::shared().containers(&stack.cluster).await, []);

    let moved = Wish { id: stack.id("moved"), ..wish.clone() };
    let fourth = runs(&mut stack, &moved).await;
    stack.apply(&Wish { runtime: Some("sim"), ..moved.clone() }.revised("r2").request()).await;
    assert_eq!(fourth.all().await, "up\nasked\n", "move");
    stack.until(&moved.id, |view| view.assigned_node_id == "n2").await;

    let drained = Wish { id: stack.id("drained"), ..wish };
    let fifth = runs(&mut stack, &drained).await;
    // It may run anywhere from now on; nothing else about it changes.
    let free = Wish { runtime: None, ..drained.clone() }.revised("r2");
    let sixth = runs_where_it_is(&mut stack, &free).await;
    assert_eq!(fifth.all().await, "up\nasked\n", "update");
    let drain = api::DrainNodeRequest { node_id: "n1".to_owned(), reason: "test".to_owned() };
    stack.client().drain_node(drain).await.unwrap();
    assert_eq!(sixth.all().await, "up\nasked\n", "drain");
    stack.until(&drained.id, |view| view.assigned_node_id == "n2").await;
}

async fn runs_where_it_is(stack: &mut Stack, wish: &Wish) -> Output {
    let output = runs(stack, wish).await;
    let view = stack.look(&wish.id).await.unwrap().unwrap();
    assert_eq!(view.assigned_node_id, "n1", "an update stays");
    output
}

#[tokio::test]
async fn the_grace_is_the_specs_own_and_the_signal_the_images() {
    let mut stack = Stack::on_docker(program(), Pace::Product).await;
    // Longer than the usual grace, and asked for by the spec that is replaced, not the new one.
    let id = stack.id("slow");
    let slow = "trap 'sleep 12; echo asked; exit 0' TERM; echo up; while :; do sleep 0.1; done";
    let wish = Wish::shell(&id, slow);
    let with = |wish: &Wish, grace: &str| {
        let mut request = wish.request();
        grace.clone_into(&mut request.spec.as_mut().unwrap().stop_grace);
        request
    };
    stack.apply(&with(&wish, "30s")).await;
    stack.until_status(&id, "Running").await;
    let output = Output::of(&only(&stack, &id).await.id).await;
    stack.apply(&with(&wish.clone().revised("r2"), "1s")).await;
    stack.until(&id, |view| view.status == "Running" && view.revision_id == "r2").await;
    assert_eq!(output.all().await, "up\nasked\n");

    // One that does not want to end is ended, once its own second is over.
    let output = Output::of(&only(&stack, &id).await.id).await;
    let begun = Instant::now();
    stack.delete(&id).await;
    assert_eq!(output.all().await, "up\n");
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());

    let image = format!("persys-test/usr1-{}:1", stack.cluster);
    image_with_signal(&image);
    let id = stack.id("usr1");
    let mut wish = Wish::shell(&id, &SAYS.replace("TERM", "USR1"));
    wish.container.image.clone_from(&image);
    let output = runs(&mut stack, &wish).await;
    stack.delete(&id).await;
    let said = output.all().await;
    Engine::shared().docker(&["rmi", &image]);
    assert_eq!(said, "up\nasked\n");
}

/// The image of the tests with another signal to end by.
fn image_with_signal(name: &str) {
    let mut build = Command::new("docker")
        .args(["-H", &Engine::shared().host, "build", "--tag", name, "-"])
        // The one that needs no plugin.
        .env("DOCKER_BUILDKIT", "0")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("docker: run hack/docker-up");
    let lines = format!("FROM {IMAGE}\nSTOPSIGNAL SIGUSR1\n");
    build.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    assert!(build.wait().unwrap().success(), "no image");
}

/// A service that says when it is asked to end, after so many seconds, on this signal.
fn service(name: &str, seconds: u32, signal: &str, version: &str, more: &str) -> String {
    format!(
        "  {name}:\n    image: {IMAGE}\n    restart: always\n    environment: {{V: '{version}'}}\n    \
         command: [sh, -c, \"trap 'sleep {seconds}; echo asked; exit 0' {signal}; echo up; while :; \
         do sleep 0.1; done\"]\n{more}"
    )
}

async fn output_of(stack: &Stack, name: &str) -> Output {
    let filter = format!("label=persys.cluster={}", stack.cluster);
    let service = format!("label=com.docker.compose.service={name}");
    let found = ["ps", "-q", "--filter", &filter, "--filter", &service];
    Output::of(&Engine::shared().docker(&found)).await
}

#[tokio::test]
async fn every_service_of_a_stack_is_asked_to_stop_in_its_own_way() {
    let mut stack = stacks::stack().await;
    let id = stack.id("shop");
    let slow = "    stop_grace_period: 30s\n    depends_on: [db]\n";
    let other = "    stop_signal: SIGUSR1\n";
    let web = |version: &str| service("web", 1, "TERM", version, "");
    let db = service("db", 1, "USR1", "1", other);
    // Together they take longer than ten seconds.
    let slow = service("slow", 11, "TERM", "1", slow);
    let file = |parts: &[&str]| format!("services:\n{}", parts.concat());
    let both = file(&[&web("1"), &slow, &db]);
    stack.apply(&stacks::request(&id, "r1", both)).await;
    stack.until_status(&id, "Running").await;
    let first = output_of(&stack, "web").await;
    stack.apply(&stacks::request(&id, "r2", file(&[&web("2"), &slow, &db]))).await;
    stack.until(&id, |view| view.status == "Running" && view.revision_id == "r2").await;
    assert_eq!(first.all().await, "up\nasked\n", "a service that changed");

    let second = output_of(&stack, "web").await;
    stack.apply(&stacks::request(&id, "r3", file(&[&slow, &db]))).await;
    stack.until(&id, |view| view.status == "Running" && view.revision_id == "r3").await;
    assert_eq!(second.all().await, "up\nasked\n", "a service that is no more");

    let (slow, db) = (output_of(&stack, "slow").await, output_of(&stack, "db").await);
    stack.delete(&id).await;
    assert_eq!(slow.all().await, "up\nasked\n", "it has thirty seconds");
    assert_eq!(db.all().await, "up\nasked\n", "another signal, after what needs it");
    assert_eq!(Engine::shared().containers(&stack.cluster).await, []);
}
