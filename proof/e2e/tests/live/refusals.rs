//! What cannot run says why, in words somebody can act on.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use persys_e2e::engine::{Engine, IMAGE};
use persys_e2e::part::Pace;
use persys_e2e::processes::{PATIENCE, Stack, Wish, free_port};
use persys_proto::control::v1 as api;

use crate::program;

async fn stack() -> Stack {
    Stack::on_docker(program(), Pace::Product).await
}

/// A registry on loopback, ended when it is dropped.
pub(crate) struct Registry {
    process: Child,
    _folder: tempfile::TempDir,
}

impl Registry {
    pub(crate) fn start(port: u16) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage:\n  filesystem: {{rootdirectory: {}}}\nhttp: {{addr: \"127.0.0.1:{port}\"}}\n",
            folder.path().join("data").display()
        );
        let path = folder.path().join("config.yml");
        std::fs::write(&path, config).unwrap();
        let process = Command::new("docker-registry")
            .arg("serve")
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("docker-registry: run hack/docker-up");
        let registry = Self { process, _folder: folder };
        let begun = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < PATIENCE, "the registry does not start");
            std::thread::yield_now();
        }
        registry
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[tokio::test]
async fn a_missing_image_is_not_found() {
    let mut stack = stack().await;
    let port = free_port();
    let _registry = Registry::start(port);
    let id = stack.id("web");
    let mut wish = Wish::runs(&id);
    wish.container.image = format!("127.0.0.1:{port}/nothing:1");
    stack.apply(&wish.request()).await;
    let view = stack.until(&id, |view| !view.failure_reason.is_empty()).await;
    assert_eq!(view.failure_reason, "IMAGE_NOT_FOUND");
    let message = view.reason.unwrap().message;
    assert!(message.contains(&wish.container.image), "{message}");
    assert_eq!(Engine::shared().containers(&stack.cluster).await, []);
}

#[tokio::test]
async fn a_registry_that_is_down_is_tried_again_until_it_is_up() {
    let mut stack = stack().await;
    let (id, port) = (stack.id("web"), free_port());
    let image = format!("127.0.0.1:{port}/{id}:1");
    let mut wish = Wish::runs(&id);
    wish.container.image.clone_from(&image);
    stack.apply(&wish.request()).await;
    let view = stack.until_status(&id, "RetryPending").await;
    assert_eq!(view.failure_reason, "IMAGE_PULL_FAILED");
    assert!(view.retry_next_at.is_some());
    let again = stack.until(&id, |view| view.retry_attempts >= 2).await;
    assert_eq!(again.failure_reason, "IMAGE_PULL_FAILED");

    let _registry = Registry::start(port);
    let docker = Engine::shared();
    docker.docker(&["tag", IMAGE, &image]);
    docker.docker(&["push", "-q", &image]);
    docker.docker(&["rmi", &image]);
    stack.until_status(&id, "Running").await;
    stack.delete(&id).await;
    docker.docker(&["rmi", &image]);
}

fn published(id: &str, port: u16) -> Wish {
    let mut wish = Wish::runs(id);
    let protocol = "tcp".to_owned();
    wish.container.ports = vec![api::Port {
        host_port: i32::from(port),
        container_port: 80,
        protocol,
        host_ip: String::new(),
    }];
    wish
}

/// What a workload says that wants a port somebody has.
async fn refused(stack: &mut Stack, port: u16) -> String {
    let id = stack.id("late");
    stack.apply(&published(&id, port).request()).await;
    let view = stack.until(&id, |view| !view.failure_reason.is_empty()).await;
    assert_eq!(view.failure_reason, "NETWORK_ERROR");
    let message = view.reason.unwrap().message;
    assert!(message.contains(&format!("{port}/tcp")), "{message}");
    message
}

#[tokio::test]
async fn a_port_that_a_process_has_is_named_with_the_process() {
    let mut stack = stack().await;
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let message = refused(&mut stack, holder.local_addr().unwrap().port()).await;
    assert!(message.contains(&format!("process {}", std::process::id())), "{message}");
}

#[tokio::test]
async fn a_port_that_another_container_has_is_named_with_the_container() {
    let mut stack = stack().await;
    let port = free_port();
    let name = stack.id("foreign");
    let _foreign = Foreign::start(&name, port);
    let message = refused(&mut stack, port).await;
    assert!(message.contains(&format!("the container {name}")), "{message}");
}

/// A container that is not ours, removed when it is dropped.
struct Foreign(String);

impl Foreign {
    fn start(name: &str, port: u16) -> Self {
        let publish = format!("{port}:80");
        let args = ["run", "-d", "--label", "test.persys=live", "--name", name, "-p", &publish];
        let args: Vec<_> = args.into_iter().chain([IMAGE, "sleep", "1000"]).collect();
        Engine::shared().docker(&args);
        Self(name.to_owned())
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        Engine::shared().docker(&["rm", "-f", &self.0]);
    }
}

#[tokio::test]
async fn a_port_that_another_workload_has_is_why_it_waits() {
    let mut stack = stack().await;
    let (first, second, port) = (stack.id("first"), stack.id("second"), free_port());
    stack.apply(&published(&first, port).request()).await;
    stack.until_status(&first, "Running").await;
    stack.apply(&published(&second, port).request()).await;
    let view = stack.until_status(&second, "Pending").await;
    assert!(view.why.contains(&port.to_string()), "{}", view.why);
    stack.delete(&first).await;
    stack.until_status(&second, "Running").await;
}

#[tokio::test]
async fn what_is_too_large_for_every_node_waits_and_says_why() {
    let mut stack = stack().await;
    let id = stack.id("huge");
    let wish = Wish { cpu_millicores: 1_000_000, ..Wish::runs(&id) };
    stack.apply(&wish.request()).await;
    let view = stack.until_status(&id, "Pending").await;
    assert!(view.why.to_lowercase().contains("cpu"), "{}", view.why);
    // Something that fits is not held up by it.
    let small = stack.id("small");
    stack.apply(&Wish::runs(&small).request()).await;
    stack.until_status(&small, "Running").await;
    let view = stack.look(&id).await.unwrap().unwrap();
    assert_eq!((&*view.status, &*view.assigned_node_id), ("Pending", ""));
    // It still waits, and runs as soon as it asks for less.
    stack.apply(&Wish::runs(&id).revised("r2").request()).await;
    stack.until_status(&id, "Running").await;
}
