//! Secrets on real Docker: the workload has its own, and of all that can be looked at only what it was
//! put into on purpose shows it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use persys_e2e::engine::{Engine, IMAGE};
use persys_e2e::part::Pace;
use persys_e2e::processes::{Stack, Wish};
use persys_proto::compute::v1 as compute;
use persys_proto::compute::v1::secrets_client::SecretsClient;
use persys_proto::control::v1 as api;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::lifecycle::only;
use crate::program;

const CANARY: &str = "canary-e19b44f07a63";
const STAYS: &str = "trap 'exit 0' TERM; sleep 1000 & wait";

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

fn holds(bytes: &[u8]) -> bool {
    String::from_utf8_lossy(bytes).contains(CANARY)
}

/// Processes whose file of this name holds it.
fn processes(file: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let with =
        all.filter(|one| std::fs::read(one.path().join(file)).is_ok_and(|bytes| holds(&bytes)));
    with.map(|one| one.file_name().to_string_lossy().into_owned()).collect()
}

pub(crate) async fn page(stack: &Stack, process: &str, path: &str) -> String {
    let mut connection = TcpStream::connect(stack.pages_of(process)).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    connection.read_to_string(&mut text).await.unwrap();
    text
}

fn seen_as(mut request: api::ApplyWorkloadRequest, env: &str) -> api::ApplyWorkloadRequest {
    let used = api::SecretUse { name: "db".into(), env: env.to_owned(), ..Default::default() };
    request.spec.as_mut().unwrap().secrets.push(used);
    request
}

fn compose(id: &str, script: &str, secret: &str) -> api::ApplyWorkloadRequest {
    let inline_yaml = format!(
        "services:\n  db:\n    image: {IMAGE}\n    command: [sh, -c, \"{script}\"]\n    secrets: [db]\n\
         secrets:\n  db: {{external: true{secret}}}\n"
    );
    let stack = api::ComposeSpec {
        source_type: "inline".to_owned(),
        inline_yaml,
        ..api::ComposeSpec::default()
    };
    let mut request = Wish::runs(id).request();
    let spec = request.spec.as_mut().unwrap();
    spec.r#type = "compose".to_owned();
    spec.workload = Some(api::workload_spec::Workload::Compose(stack));
    request
}

#[tokio::test]
async fn docker_shows_a_secret_only_where_it_was_asked_to() {
    let mut stack = Stack::on_docker(program(), Pace::Product).await;
    let engine = Engine::shared();
    let scheduler = stack.front.clone();
    let mut secrets = SecretsClient::new(stack.channel_of(&scheduler));
    let value = CANARY.as_bytes().to_vec();
    let set = compute::SetSecretRequest { name: "db".into(), value, ..Default::default() };
    secrets.set_secret(set).await.unwrap();

    // As a file: in memory, and nothing that Docker tells of the container shows it.
    let (file, shop) = (stack.id("file"), stack.id("shop"));
    stack.apply(&seen_as(Wish::shell(&file, STAYS).request(), "")).await;
    stack.apply(&compose(&shop, STAYS, "")).await;
    for id in [&file, &shop] {
        stack.until_status(id, "Running").await;
        let container = only(&stack, id).await;
        let read = engine.docker(&["exec", &container.id, "cat", "/run/secrets/db"]);
        assert_eq!(read.trim(), CANARY, "the workload has it");
        for words in [["inspect", &container.id], ["logs", &container.id], ["diff", &container.id]]
        {
            assert!(!engine.docker(&words).contains(CANARY), "docker {words:?} shows it");
        }
    }
    assert_eq!(processes("cmdline"), Vec::<String>::new());
    assert_eq!(processes("environ"), Vec::<String>::new());

    // As a variable: Docker shows it to who may inspect the container, and nobody else does.
    let env = stack.id("env");
    stack.apply(&seen_as(Wish::shell(&env, STAYS).request(), "PASSWORD")).await;
    stack.until_status(&env, "Running").await;
    let container = only(&stack, &env).await;
    let inspected = engine.docker(&["inspect", &container.id]);
    assert_eq!(inspected.matches(CANARY).count(), 1, "in its environment, and once");
    assert_eq!(processes("cmdline"), Vec::<String>::new());
    // A container runs a moment before its process is the one that was asked for.
    let deadline = Instant::now() + Duration::from_secs(10);
    while processes("environ").is_empty() {
        stack.wait_a_little(deadline, "where it belongs, it is not").await;
    }

    for path in ["/metrics", "/health"] {
        assert!(!page(&stack, &scheduler, path).await.contains(CANARY), "{path}");
    }
    for process in [&*scheduler, "n1"] {
        assert!(!stack.log(process).contains(CANARY), "the log of {process}");
        for file in files(&stack.folder_of(process)) {
            let bytes = std::fs::read(&file).unwrap_or_default();
            assert!(!holds(&bytes), "{} has it", file.display());
        }
    }
    for id in [&file, &shop, &env] {
        stack.delete(id).await;
    }
}

/// Waits until a container has printed a line, and tells how often it did.
async fn printed(stack: &mut Stack, container: &str, line: &str) -> usize {
    let (engine, deadline) = (Engine::shared(), Instant::now() + Duration::from_secs(30));
    loop {
        let text = engine.docker(&["logs", container]);
        let times = text.lines().filter(|found| *found == line).count();
        if times > 0 {
            return times;
        }
        stack.wait_a_little(deadline, &format!("{line} is not in {text}")).await;
    }
}

#[tokio::test]
async fn a_new_value_is_signalled_to_what_runs_and_nothing_is_started_anew() {
    let mut stack = Stack::on_docker(program(), Pace::Product).await;
    let engine = Engine::shared();
    let mut secrets = SecretsClient::new(stack.channel_of(&stack.front));
    let mut set = async |value: &str| {
        let value = value.as_bytes().to_vec();
        let set = compute::SetSecretRequest { name: "db".into(), value, ..Default::default() };
        secrets.set_secret(set).await.unwrap();
    };
    set("the first value").await;
    let script = "trap 'cat /run/secrets/db; echo' HUP; trap 'exit 0' TERM; echo ready; \
                  sleep 1000 & while :; do wait; done";
    let (one, shop) = (stack.id("one"), stack.id("shop"));
    let mut request = seen_as(Wish::shell(&one, script).request(), "");
    request.spec.as_mut().unwrap().secrets[0].signal = "SIGHUP".to_owned();
    stack.apply(&request).await;
    stack.apply(&compose(&shop, script, ", x-persys-signal: SIGHUP")).await;
    let mut before = Vec::new();
    for id in [&one, &shop] {
        stack.until_status(id, "Running").await;
        let container = only(&stack, id).await.id;
        printed(&mut stack, &container, "ready").await;
        let started = engine.started(&container).await;
        before.push((id.clone(), container, started));
    }
    // A shorter one, a longer one, and one that changes while nobody is there to tell of it.
    for value in ["second", "the third and longest value"] {
        set(value).await;
        for (_, container, _) in &before {
            assert_eq!(printed(&mut stack, container, value).await, 1);
        }
    }
    stack.kill("n1").await;
    set("fourth").await;
    stack.start_again("n1").await;
    for (id, container, started) in &before {
        assert_eq!(printed(&mut stack, container, "fourth").await, 1);
        assert_eq!(only(&stack, id).await.id, *container, "it is the same container");
        assert_eq!(engine.started(container).await, *started, "it was not started again");
        assert_eq!(stack.until_status(id, "Running").await.revision_id, request.revision_id);
    }
    for id in [&one, &shop] {
        stack.delete(id).await;
    }
}
