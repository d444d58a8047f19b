//! What people try who want more than a workload: refused with its reason at every door alike, and
//! nothing happens on the host.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use persys_gateway::app as gateway;
use persys_gateway::clusters::file::{ClusterPlan, Plan, SchedulerPlan};
use persys_gateway::clusters::order::Routing;
use persys_gateway::limits::Limits;
use persys_identity::{Bundle, Connector, Credentials, Expected, Role};
use persys_proto::control::v1::agent_control_client::AgentControlClient;
use persys_proto::control::v1::{ApplyWorkloadRequest, WorkloadSpec};
use persys_proto::json;
use serde_json::{Value, json};
use tonic::transport::{Channel, Endpoint};

use crate::rig::Rig;

/// A case: the id, the spec, and a part of the reason.
type Case = (&'static str, Value, &'static str);

fn container(part: &Value) -> Value {
    let mut body = json!({"image": "web"});
    for (key, value) in part.as_object().unwrap() {
        body[key] = value.clone();
    }
    json!({"type": "container", "container": body})
}

fn stack(file: &str) -> Value {
    json!({"type": "compose", "compose": {"source_type": "inline", "inline_yaml": file}})
}

fn repository(part: &Value) -> Value {
    let mut body = json!({"source_type": "git", "git_repo": "https://git.example.org/a/b"});
    for (key, value) in part.as_object().unwrap() {
        body[key] = value.clone();
    }
    json!({"type": "compose", "compose": body})
}

fn machine(part: &Value) -> Value {
    let mut body = json!({"vcpus": 1, "memory_mb": 64, "os_image": "tiny", "disk_gb": 1});
    for (key, value) in part.as_object().unwrap() {
        body[key] = value.clone();
    }
    json!({"type": "vm", "vm": body})
}

/// Names of workloads: they become names of containers and machines, keys and folders.
const NAMES: &[&str] = &[
    "../../etc/cron.d/x",
    "a/b",
    ".",
    "..",
    "-rf",
    "--help",
    "$(touch CANARY)",
    "`touch CANARY`",
    "a;touch CANARY",
    "a|b",
    "a b",
    "a\nb",
    "a\u{0}b",
    "a\"b",
    "a'b",
    "a<b>",
    "a&b;",
    "ａ",
    "",
    "%2e%2e%2f",
    "a\\b",
    "*",
    "~root",
];

/// Names of images: they become arguments and addresses.
const IMAGES: &[&str] = &[
    "-v",
    "--privileged",
    "web;touch CANARY",
    "$(touch CANARY)",
    "web\nRUN x",
    "../web",
    "web:",
    "web@sha256:short",
    "http://169.254.169.254/latest",
    "web tag",
    "web\u{0}",
];

/// Repositories: they become arguments of git, which runs programs if it is asked well.
const REPOSITORIES: &[&str] = &[
    "--upload-pack=touch CANARY",
    "ext::sh -c 'touch CANARY'",
    "-u./x",
    "https://-oProxyCommand=x/a",
    "ssh://-oProxyCommand=touch%20CANARY/a",
    "https://user:secret@git.example.org/a",
    "https://git.example.org/a;touch",
    "file://relative",
    "git@host:-oProxyCommand=x",
    "fd::17",
    "https://git.example.org/../../etc",
];

/// References and paths within a repository.
const REFERENCES: &[&str] =
    &["--exec=touch CANARY", "-x", "a..b", "a b", "a\nb", "refs/heads/x.lock", "@{u}", "a:b"];
const PATHS: &[&str] =
    &["../../etc/passwd", "/etc/passwd", "--output=CANARY", "a/../../b", "a\nb", ".git/config"];

/// Compose files that want the host, or its time.
const FILES: &[&str] = &[
    "services: {a: {build: .}}",
    "services: {a: {image: web, env_file: /etc/shadow}}",
    "services: {a: {image: web, volumes: ['../../etc:/e']}}",
    "services: {a: {image: web, volumes: ['./here:/e']}}",
    "services: {a: {extends: {file: /etc/passwd, service: b}}}",
    "include: ['oci://registry.example.org/x']\nservices: {a: {image: web}}",
    "services: {a: {image: '--privileged'}}",
    "services: {'../a': {image: web}}",
    "services: {a: {image: web, unheard_of: 1}}",
    "services: {a: {image: '${HOME:?}'}}",
    "services: {a: {image: web, environment: {'A=B': c}}}",
    "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\nservices: {a: {image: web, command: *f}}",
    "services: !!python/object/apply:os.system ['touch CANARY']",
    "[]",
];

fn cases() -> Vec<Case> {
    let mut all: Vec<Case> = Vec::new();
    all.extend(NAMES.iter().map(|name| (*name, container(&json!({})), "workload_id")));
    all.extend(IMAGES.iter().map(|image| ("a", container(&json!({"image": image})), "image")));
    all.extend(
        REPOSITORIES.iter().map(|it| ("a", repository(&json!({"git_repo": it})), "git_repo")),
    );
    all.extend(REFERENCES.iter().map(|it| ("a", repository(&json!({"git_ref": it})), "git_ref")));
    all.extend(PATHS.iter().map(|it| ("a", repository(&json!({"git_path": it})), "git_path")));
    all.extend(FILES.iter().map(|file| ("a", stack(file), "inline_yaml")));
    let socket = "services: {a: {image: web, volumes: ['/var/run/docker.sock:/s']}}";
    all.push(("a", stack(socket), "rule withheld-paths"));
    for (part, reason) in [
        (json!({"env": {"A=B": "c"}}), "env"),
        (json!({"env": {"": "c"}}), "env"),
        (json!({"env": {"A": "b\u{0}c"}}), "env"),
        (json!({"volumes": [{"host_path": "../etc", "container_path": "/e"}]}), "host_path"),
        (json!({"volumes": [{"host_path": "/a/../etc", "container_path": "/e"}]}), "host_path"),
        (json!({"volumes": [{"host_path": "/a:/b", "container_path": "/e"}]}), "host_path"),
        (json!({"volumes": [{"host_path": "/a", "container_path": "e"}]}), "container_path"),
        (json!({"ports": [{"host_port": 70000, "container_port": 80}]}), "host_port"),
        (json!({"command": ["a\u{0}b"]}), "command"),
        (json!({"managed_volumes": [{"name": "../v", "size_gb": 1, "mount_path": "/v"}]}), "name"),
        (json!({"managed_volumes": [{"name": "v", "size_gb": -1, "mount_path": "/v"}]}), "size_gb"),
        (
            json!({"managed_volumes": [{"name": "v", "driver": "rm -rf", "size_gb": 1, "mount_path": "/v"}]}),
            "driver",
        ),
    ] {
        all.push(("a", container(&part), reason));
    }
    for (part, reason) in [
        (json!({"os_image": "../../etc/passwd"}), "os_image"),
        (json!({"os_image": "/etc/../shadow"}), "os_image"),
        (json!({"os_image": "-drive"}), "os_image"),
        (json!({"networks": [{"network": "a'/><hostdev>", "dhcp": true}]}), "network"),
        (json!({"networks": [{"bridge": "br0; touch CANARY", "dhcp": true}]}), "bridge"),
        (json!({"networks": [{"network": "default", "mac_address": "<x>"}]}), "mac_address"),
        (json!({"networks": [{"network": "default", "static_ip": "1.2.3.4'"}]}), "static_ip"),
        (json!({"disks": [{"pool_name": "../../etc", "size_gb": 1}]}), "pool_name"),
        (
            json!({"disks": [{"pool_name": "p", "size_gb": 1, "mount_point": "vda'/><x"}]}),
            "mount_point",
        ),
        (json!({"cloud_init": {"user_data": "#cloud-config\n", "username": "a"}}), "cloud_init"),
        (json!({"vcpus": 100_000}), "vcpus"),
        (json!({"memory_mb": -1}), "memory_mb"),
    ] {
        all.push(("a", machine(&part), reason));
    }
    all
}

async fn connect(rig: &Rig) -> AgentControlClient<Channel> {
    let pem = std::fs::read(rig.folder.path().join("admin-operator.pem")).unwrap();
    let bundle = Bundle::from_pem(&pem, SystemTime::now()).unwrap();
    let credentials = Arc::new(Credentials::new(bundle));
    let connector = Connector::tls(&credentials, Expected::Scheduler).unwrap();
    let endpoint = Endpoint::from_shared(format!("http://{}", rig.endpoint)).unwrap();
    AgentControlClient::new(endpoint.connect_with_connector(connector).await.unwrap())
}

/// What the scheduler itself says; the command would have refused it before.
async fn refusal(client: &mut AgentControlClient<Channel>, id: &str, spec: &Value) -> String {
    let spec: WorkloadSpec = match json::read("persys.control.v1.WorkloadSpec", "spec", spec) {
        Ok(spec) => spec,
        Err(faults) => panic!("{id} {spec} cannot be sent: {faults}"),
    };
    let workload_id = id.to_owned();
    let request = ApplyWorkloadRequest { workload_id, spec: Some(spec), ..Default::default() };
    match client.apply_workload(request).await {
        Ok(answer) => {
            let answer = answer.into_inner();
            if answer.success { "it was taken".to_owned() } else { answer.error_message }
        }
        Err(status) => status.message().to_owned(),
    }
}

/// The third door: a gateway, and somebody who knows a token.
struct Rest {
    gateway: gateway::Running,
    client: reqwest::Client,
    token: String,
}

impl Rest {
    async fn open(rig: &Rig) -> Self {
        let made = rig.types("access token create ci --role operator --cluster").await.ended(0);
        let token = made.out.lines().last().unwrap().trim().to_owned();
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let cluster = ClusterPlan {
            id: "rig".to_owned(),
            name: "rig".to_owned(),
            routing: Routing::LeaderOnly,
            schedulers: vec![SchedulerPlan {
                id: "s1".to_owned(),
                address: rig.endpoint.clone(),
                is_leader: true,
            }],
            identity: None,
        };
        let config = gateway::Config {
            inner: None,
            public: local,
            security: gateway::Security::Mtls(rig.certificate(Role::Gateway, "gateway")),
            public_is_plain: true,
            plan: Plan {
                default: "rig".to_owned(),
                clusters: vec![cluster],
                repositories: std::collections::BTreeMap::new(),
            },
            request_timeout: Duration::from_secs(10),
            health_interval: Duration::from_secs(5),
            discovery: None,
            limits: Limits::default(),
            webhooks: None,
        };
        let gateway = gateway::start(config).await.unwrap();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { gateway, client, token }
    }

    async fn send(&self, verb: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let url = format!("http://{}{path}", self.gateway.public);
        let request = self.client.request(verb.parse().unwrap(), url).bearer_auth(&self.token);
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        (status, serde_json::from_str(&response.text().await.unwrap()).unwrap_or_default())
    }

    /// What is wrong with how a case is refused here, if anything.
    async fn wrong(&self, id: &str, spec: &Value, reason: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        let body = json!({"workload_id": id, "spec": spec});
        for path in ["/v1/workloads", "/workloads/schedule", "/v1/check"] {
            let (status, said) = self.send("POST", path, Some(&body)).await;
            // The old route tells refusals inside an answer that is well, as its clients expect.
            let well = status == 200 && path != "/v1/workloads";
            let done = said["success"] == json!(true) || said["accepted"] == json!(true);
            let refused = matches!(status, 400 | 403 | 422) || (well && !done);
            if !refused || !said.to_string().contains(reason) {
                wrong.push(format!("POST {path}: {id:?} {spec}: {status} {said}"));
            }
        }
        // The same name in a path is refused, or there is nothing of that name.
        let encoded: Vec<_> = id.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let encoded = encoded.concat();
        let plain = id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        for verb in ["GET", "DELETE", "PUT"] {
            let path = format!("/v1/workloads/{encoded}");
            let (status, said) = self.send(verb, &path, (verb == "PUT").then_some(&body)).await;
            if !plain && !matches!(status, 400 | 404 | 405 | 422) {
                wrong.push(format!("{verb} {path}: {status} {said}"));
            }
        }
        wrong
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_wants_more_than_a_workload_is_refused_at_every_door() {
    let rig = Rig::start().await;
    let canary = rig.path("canary");
    let mut client = connect(&rig).await;
    let rest = Rest::open(&rig).await;
    let mut wrong = Vec::new();
    for (id, spec, reason) in cases() {
        let aimed = |text: &str| text.replace("CANARY", &canary);
        let (id, spec) = (aimed(id), serde_json::from_str(&aimed(&spec.to_string())).unwrap());
        let said = refusal(&mut client, &id, &spec).await;
        if !said.contains(reason) {
            wrong.push(format!("gRPC: {id:?} {spec}: {said}"));
        }
        let manifest = json!({"name": id, "spec": spec}).to_string();
        let told = rig.types_with("apply -f - --detach", &manifest).await;
        if told.code != 1 || !(told.err.contains(reason) || told.err.contains("name")) {
            wrong.push(format!("CLI: {id:?} {spec}: {told:?}"));
        }
        wrong.extend(rest.wrong(&id, &spec, reason).await);
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
    assert!(!std::path::Path::new(&canary).exists(), "something ran on the host");
    let left = rig.types("list -o json").await.ended(0).json();
    assert_eq!(left, json!([]), "nothing was taken");
    rest.gateway.stop().await;
    rig.stop().await;
}
