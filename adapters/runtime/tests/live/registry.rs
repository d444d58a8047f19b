//! Pulling from a real registry on loopback.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bollard::auth::DockerCredentials;
use bollard::query_parameters::{
    CommitContainerOptionsBuilder, PushImageOptionsBuilder, RemoveImageOptions,
    WaitContainerOptions,
};
use futures::StreamExt;
use persys_model::failure::FailureReason;
use persys_model::spec::compose::ComposeSource;
use persys_model::spec::secret::Secret;
use persys_model::spec::{ComposeSpec, ContainerSpec};
use persys_node::input::Existing;
use persys_runtime::compose::Compose;
use persys_runtime::compose::settings::Settings;
use persys_runtime::docker::Docker;
use persys_runtime::docker::settings::{Credentials, PullPolicy};
use persys_runtime::runtime::Fetched;
use persys_runtime::{Clock, Error, Runtime};

use super::bench::{DockerBench, bench, bench_with, fresh_prefix, sleeper};
use crate::contract::{quiet, spec, start, state};
use crate::support::IMAGE;

/// A user whose credentials need both characters in which the two base64 alphabets differ.
const USER: &str = "persys";
const PASSWORD: &str = "~~~???>>>ÿÿ";
/// Of the password, as htpasswd keeps it.
const HASH: &str = "$2b$05$abcdefghijklmnopqrstuukWH44gp6U6WqIzYrFciTfCF6ZFO71n2";

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port()
}

struct Registry {
    process: Child,
    folder: PathBuf,
    host: String,
}

impl Registry {
    fn start(with_password: bool) -> Self {
        let folder = std::env::temp_dir().join(format!("{}registry", fresh_prefix()));
        std::fs::create_dir_all(&folder).unwrap();
        let host = format!("127.0.0.1:{}", free_port());
        let auth = if with_password {
            let file = folder.join("htpasswd");
            std::fs::write(&file, format!("{USER}:{HASH}\n")).unwrap();
            format!("auth: {{htpasswd: {{realm: test, path: {}}}}}\n", file.display())
        } else {
            String::new()
        };
        let config = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: \"{host}\"}}\n{auth}",
            folder.join("data").display()
        );
        let path = folder.join("config.yml");
        std::fs::write(&path, config).unwrap();
        let process = Command::new("docker-registry")
            .arg("serve")
            .arg(&path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the package docker-registry: run hack/docker-up");
        let registry = Self { process, folder, host };
        registry.wait();
        registry
    }

    fn wait(&self) {
        let begun = Instant::now();
        while std::net::TcpStream::connect(&self.host).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(20), "the registry does not start");
            std::thread::yield_now();
        }
    }

    /// Puts the test image into the registry, and takes its name off the node again.
    async fn publish(&self, bench: &DockerBench, credentials: Option<DockerCredentials>) -> String {
        let repo = format!("{}/busybox", self.host);
        // A part of its own, so that something is left to fetch.
        let name = format!("{}publisher", fresh_prefix());
        let script = format!("echo {name} > /unique");
        let mut body = sleeper();
        body.cmd = Some(["/bin/sh", "-c", &script].map(ToOwned::to_owned).to_vec());
        let id = bench.plant(&name, body).await;
        let mut ends = bench.raw.wait_container(&id, None::<WaitContainerOptions>);
        ends.next().await.unwrap().unwrap();
        let options = CommitContainerOptionsBuilder::default();
        let options = options.container(&id).repo(&repo).tag("1").build();
        let config = bollard::models::ContainerConfig::default();
        bench.raw.commit_container(options, config).await.unwrap();
        bench.dig_up(&id).await;
        let options = PushImageOptionsBuilder::default().tag("1").build();
        let mut steps = bench.raw.push_image(&repo, Some(options), credentials);
        while let Some(step) = steps.next().await {
            step.unwrap();
        }
        let image = format!("{repo}:1");
        forget(bench, &image).await;
        image
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

async fn forget(bench: &DockerBench, image: &str) {
    bench.raw.remove_image(image, None::<RemoveImageOptions>, None).await.unwrap();
}

fn of(image: &str) -> ContainerSpec {
    ContainerSpec { image: Arc::from(image), ..ContainerSpec::default() }
}

#[tokio::test]
async fn an_image_is_pulled_once_and_runs() {
    let bench = bench();
    let registry = Registry::start(false);
    let image = registry.publish(&bench, None).await;
    let heard = Mutex::new(Vec::new());
    let listen = |fetched: Fetched| heard.lock().unwrap().push(fetched);
    bench.docker.prepare(&spec(of(&image)), &listen).await.unwrap();
    let last = heard.lock().unwrap().last().copied().expect("progress is told");
    assert_eq!((last.parts, last.of_parts), (2, 2));

    let order =
        start("pulled", "r1", ContainerSpec { image: Arc::from(image.as_str()), ..bench.runs() });
    bench.docker.start(&order).await.unwrap();
    assert_eq!(state(&bench, &order.workload).await, Some(Existing::Running));
    bench.docker.remove(&order.workload, true).await.unwrap();

    drop(registry);
    bench.docker.prepare(&order.spec, &quiet).await.expect("it is there: no registry is asked");
    let eager = bench_with(|settings| settings.pull = PullPolicy::Always);
    let error = eager.docker.prepare(&order.spec, &quiet).await.unwrap_err();
    assert_eq!(error.reason(), FailureReason::ImagePullFailed, "{error}");
    forget(&bench, &image).await;
}

#[tokio::test]
async fn a_failed_pull_says_why() {
    let bench = bench();
    let registry = Registry::start(false);
    registry.publish(&bench, None).await;
    let nowhere = format!("127.0.0.1:{}", free_port());
    for (image, reason) in [
        (format!("{}/busybox:none", registry.host), FailureReason::ImageNotFound),
        (format!("{}/nothing:1", registry.host), FailureReason::ImageNotFound),
        (format!("{nowhere}/busybox:1"), FailureReason::ImagePullFailed),
        ("NotAnImage".to_owned(), FailureReason::InvalidSpec),
    ] {
        let error = bench.docker.prepare(&spec(of(&image)), &quiet).await.unwrap_err();
        assert_eq!(error.reason(), reason, "{image}: {error}");
        assert!(!error.is_unknown() && error.to_string().contains(&image), "{error}");
    }
}

#[tokio::test]
async fn a_private_registry_wants_its_password() {
    let registry = Registry::start(true);
    let known = |password: &str| {
        let credentials =
            Credentials { username: USER.to_owned(), password: Secret::new(password) };
        bench_with(|settings| {
            settings.registries = [(registry.host.clone(), credentials)].into();
        })
    };
    let right = known(PASSWORD);
    let image = format!("{}/busybox:1", registry.host);
    publish_privately(&registry, &right).await;
    for (who, bench) in [("nobody", bench()), ("wrong password", known("guess"))] {
        let error = bench.docker.prepare(&spec(of(&image)), &quiet).await.unwrap_err();
        assert!(matches!(error, Error::ImageDenied { .. }), "{who}: {error}");
        assert!(error.to_string().contains("credentials"), "{who}: {error}");
        assert!(!error.to_string().contains("guess"));
    }
    right.docker.prepare(&spec(of(&image)), &quiet).await.unwrap();
    forget(&right, &image).await;

    // The same from a file, which counts as it is when the image is pulled.
    let file = registry.folder.join("config.json");
    let by_file = bench_with(|settings| settings.logins = Some(file.clone()));
    let pull = || async { by_file.docker.prepare(&spec(of(&image)), &quiet).await };
    let error = pull().await.unwrap_err();
    assert!(matches!(error, Error::ImageDenied { .. }), "{error}");
    assert!(error.to_string().contains("config.json cannot be read"), "{error}");
    let login = |password: &str| {
        let entry = format!(r#"{{"username":"{USER}","password":"{password}"}}"#);
        let text = format!(r#"{{"auths":{{"http://{}/v2/":{entry}}}}}"#, registry.host);
        std::fs::write(&file, text).unwrap();
    };
    login("guess");
    let error = pull().await.unwrap_err();
    assert!(matches!(error, Error::ImageDenied { .. }), "{error}");
    assert!(!error.to_string().contains("guess"), "{error}");
    login(PASSWORD);
    pull().await.unwrap();
    forget(&by_file, &image).await;
}

/// One service from an image everybody may have, one from an image that wants a password.
#[tokio::test]
async fn a_stack_mixes_public_and_private_images() {
    let registry = Registry::start(true);
    let credentials = || Credentials { username: USER.to_owned(), password: Secret::new(PASSWORD) };
    let logins = [(registry.host.clone(), credentials())];
    let right = bench_with(|settings| settings.registries = logins.clone().into());
    publish_privately(&registry, &right).await;
    let image = format!("{}/busybox:1", registry.host);
    let file = format!(
        "services:\n  open:\n    image: {IMAGE}\n    command: [sleep, '1000']\n    stop_grace_period: 0s\n  \
         closed:\n    image: {image}\n    command: [sleep, '1000']\n    stop_grace_period: 0s\n"
    );
    let stack = ComposeSpec {
        source: ComposeSource::Inline(Secret::new(&file)),
        project: None,
        env: BTreeMap::new(),
        host_ports: Vec::new(),
        has_named_volumes: false,
    };
    let order = start("shop", "r1", stack);
    let compose = |known: bool| {
        let mut settings = super::bench::settings(&right.prefix);
        if known {
            settings.registries = logins.clone().into();
        }
        let owner = super::bench::owner(&right.prefix);
        let docker = Docker::new(owner, settings, Clock::since_boot());
        Compose::new(docker, Settings::in_folder(registry.folder.join("stacks")))
    };
    let error = compose(false).prepare(&order.spec, &quiet).await.unwrap_err();
    assert!(error.to_string().contains("service closed"), "{error}");
    assert!(error.to_string().contains("credentials missing"), "{error}");
    let stacks = compose(true);
    stacks.prepare(&order.spec, &quiet).await.unwrap();
    stacks.start(&order).await.unwrap();
    let shop = stacks.inspect(&order.workload).await.unwrap().unwrap();
    let services: Vec<_> =
        shop.services.iter().map(|one| (one.name.as_str(), one.state.clone())).collect();
    assert_eq!(services, [("closed", Existing::Running), ("open", Existing::Running)]);
    stacks.remove(&order.workload, true).await.unwrap();
    forget(&right, &image).await;
}

/// Pushes by the registry's own rules; the library's credentials would not be understood.
async fn publish_privately(registry: &Registry, bench: &DockerBench) {
    let fixed = bench.raw.clone().with_request_modifier(|mut request| {
        if let Some(header) = request.headers_mut().get_mut("x-registry-auth") {
            let text = header.to_str().unwrap().replace('+', "-").replace('/', "_");
            *header = text.parse().unwrap();
        }
        request
    });
    let bench =
        DockerBench { docker: bench.docker.clone(), prefix: bench.prefix.clone(), raw: fixed };
    let credentials = DockerCredentials {
        username: Some(USER.to_owned()),
        password: Some(PASSWORD.to_owned()),
        serveraddress: Some(registry.host.clone()),
        ..DockerCredentials::default()
    };
    registry.publish(&bench, Some(credentials)).await;
}
