//! A copy in shadow runs beside the original on one host, and takes its port when shadow ends.

use std::time::{Duration, Instant};

use persys_e2e::engine::{Engine, IMAGE};
use persys_e2e::part::Pace;
use persys_e2e::processes::{Stack, Wish, free_port};
use persys_model::spec::NAMESPACE_KEY;
use persys_proto::control::v1 as api;
use tokio::net::TcpStream;

use crate::lifecycle::only;
use crate::program;
use crate::typed::{done, typed};

const SERVES: &str = "trap 'exit 0' TERM; httpd -f -p 80 & wait";

fn in_shop(mut request: api::ApplyWorkloadRequest) -> api::ApplyWorkloadRequest {
    if let Some(spec) = &mut request.spec {
        spec.metadata.insert(NAMESPACE_KEY.to_owned(), "shop".to_owned());
    }
    request
}

fn container(id: &str, port: u16) -> api::ApplyWorkloadRequest {
    let mut wish = Wish::shell(id, SERVES);
    wish.container.ports = vec![api::Port {
        host_port: i32::from(port),
        container_port: 80,
        protocol: "tcp".to_owned(),
        host_ip: String::new(),
    }];
    in_shop(wish.request())
}

fn stack_of(id: &str, port: u16) -> api::ApplyWorkloadRequest {
    let file = format!(
        "services:\n  web:\n    image: {IMAGE}\n    command: [sh, -c, \"{SERVES}\"]\n    restart: \
         always\n    ports: ['{port}:80']\n"
    );
    let body = api::ComposeSpec { inline_yaml: file, ..api::ComposeSpec::default() };
    in_shop(api::ApplyWorkloadRequest {
        workload_id: id.to_owned(),
        revision_id: "r1".to_owned(),
        desired_state: "Running".to_owned(),
        plan: String::new(),
        spec: Some(api::WorkloadSpec {
            r#type: "compose".to_owned(),
            resources: Some(api::ResourceRequirements {
                cpu_millicores: 20,
                memory_mb: 64,
                disk_gb: 0,
            }),
            workload: Some(api::workload_spec::Workload::Compose(body)),
            ..api::WorkloadSpec::default()
        }),
    })
}

async fn until_open(port: u16) {
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        assert!(begun.elapsed() < Duration::from_secs(30), "nobody listens on {port}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A container of another system; removed at the end, however that comes.
struct Original(String);

impl Original {
    fn start(port: u16) -> Self {
        let publish = format!("127.0.0.1:{port}:80");
        let words = ["run", "-d", "-p", &publish, IMAGE, "sh", "-c", SERVES];
        Self(Engine::shared().docker(&words).trim().to_owned())
    }

    fn is_untouched(&self) -> bool {
        let words = ["inspect", "-f", "{{.State.Running}} {{.RestartCount}}", &self.0];
        Engine::shared().docker(&words).trim() == "true 0"
    }
}

impl Drop for Original {
    fn drop(&mut self) {
        Engine::shared().docker(&["rm", "-f", &self.0]);
    }
}

#[tokio::test]
async fn a_copy_in_shadow_runs_beside_the_original_and_then_takes_its_port() {
    let mut stack = Stack::on_docker(program(), Pace::Product).await;
    done(&stack, "namespace create shop --shadow", "").await;
    let (port, other) = (free_port(), free_port());
    let original = Original::start(port);
    until_open(port).await;

    let (web, pair) = (stack.id("web"), stack.id("pair"));
    stack.apply(&container(&web, port)).await;
    stack.apply(&stack_of(&pair, other)).await;
    for id in [&web, &pair] {
        assert!(stack.until_status(id, "Running").await.shadow, "{id}");
        assert!(only(&stack, id).await.ports.is_empty(), "{id}");
    }
    assert!(TcpStream::connect(("127.0.0.1", other)).await.is_err(), "nothing is published");
    let why = done(&stack, &format!("why {web}"), "").await;
    assert!(why.contains(&format!("shadow: port {port}/tcp is not published")), "{why}");

    // The port of the original is taken: that is told, and it goes on.
    done(&stack, "namespace shadow shop off", "").await;
    until_open(other).await;
    let view = stack.until(&web, |view| !view.failure_reason.is_empty()).await;
    assert!(format!("{view:?}").contains(&port.to_string()), "{view:?}");
    assert!(original.is_untouched());
    drop(original);
    // Whether it waits for the next attempt or has none left.
    typed(&stack, &format!("retry {web}"), "").await;
    stack.until(&web, |view| view.status == "Running" && !view.shadow).await;
    until_open(port).await;
    assert_eq!(only(&stack, &web).await.ports, [port]);

    done(&stack, "namespace shadow shop on", "").await;
    stack.until(&web, |view| view.status == "Running" && view.shadow).await;
    assert!(only(&stack, &web).await.ports.is_empty());
    for id in [&web, &pair] {
        stack.delete(id).await;
    }
}
