//! Single workloads, asked for by many at a time: each gets its own answer, and the same as alone.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use futures::future::join_all;
use persys_cluster::input::Ask;
use persys_e2e::gateway;
use persys_e2e::stack::{Stack, Wire};
use persys_gateway::app::Running;
use persys_identity::Role;
use persys_model::entry::{Binding, Entry, Namespace, Scope, Subject, UserRole};
use persys_model::id::{EntryName, NamespaceName, SubjectName};
use persys_model::spec::NAMESPACE_KEY;
use persys_proto::compute::v1::GetWorkloadsRequest;
use persys_proto::compute::v1::reads_client::ReadsClient;
use persys_proto::compute::v1::workload_answer::Answer;
use persys_proto::control::v1::GetWorkloadRequest;
use persys_proto::control::v1::agent_control_client::AgentControlClient;
use reqwest::{Certificate, Client, Identity};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService;
use tonic::transport::{Channel, Server};
use tonic::{Code, Status};
use tower_service::Service;

use super::{PATIENCE, container, told};

const READS: &str = "/persys.compute.v1.Reads/GetWorkloads";

async fn keep(stack: &Stack, entry: Entry) {
    stack.scheduler.handle.ask(Ask::Keep(Arc::new(entry))).await.unwrap();
}

async fn bind(stack: &Stack, user: &str, role: UserRole, scope: Scope) {
    let name = EntryName::new(&format!("of-{user}")).unwrap();
    let subject = Subject::User(SubjectName::new(user).unwrap());
    keep(stack, Entry::Binding(Binding { name, subject, role, scope })).await;
}

fn client(stack: &Stack, at: SocketAddr, user: &str) -> Client {
    let pem = gateway::file(&stack.certificate(Role::User, user).unwrap());
    Client::builder()
        .no_proxy()
        .tls_certs_only(Certificate::from_pem_bundle(&pem).unwrap())
        .identity(Identity::from_pem(&pem).unwrap())
        .resolve("gateway.stack", at)
        .build()
        .unwrap()
}

fn container_in(id: &str, namespace: &str, memory_mb: u64) -> Value {
    let mut wanted = container(id);
    wanted["spec"]["metadata"] = json!({ NAMESPACE_KEY: namespace });
    wanted["spec"]["resources"]["memory_mb"] = memory_mb.into();
    wanted
}

/// What is answered at a path, to the byte.
async fn read(client: &Client, url: String) -> (u16, Option<String>, String) {
    let answer = client.get(&url).send().await.unwrap();
    let tag = answer.headers().get("etag").map(|tag| tag.to_str().unwrap().to_owned());
    (answer.status().as_u16(), tag, answer.text().await.unwrap())
}

/// How often a scheduler was asked for many at once.
async fn asked(scheduler: SocketAddr) -> f64 {
    let http = Client::builder().no_proxy().build().unwrap();
    let page = http.get(format!("http://{scheduler}/metrics")).send().await.unwrap();
    let text = page.text().await.unwrap();
    let lines = text.lines().filter(|line| {
        line.starts_with("persys_scheduler_grpc_server_requests_total{") && line.contains(READS)
    });
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

const IDS: [&str; 12] =
    ["w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7", "waits", "elsewhere", "nobody", "a%20b"];

/// Two namespaces with workloads, one of which no node takes; a gateway, and users of it.
struct Place {
    stack: Stack,
    gateway: Running,
    at: SocketAddr,
}

impl Place {
    async fn start() -> Self {
        let mut stack = Stack::start(Wire::Mtls).await;
        stack.add_agent("n1").await;
        let gateway = gateway::start(&stack, |_| ()).await;
        let at = gateway.inner.unwrap();
        for name in ["web", "db"] {
            keep(&stack, Entry::Namespace(Namespace::new(NamespaceName::fixed(name)))).await;
        }
        bind(&stack, "ada", UserRole::Admin, Scope::Cluster).await;
        let web = Scope::Namespaces([NamespaceName::fixed("web")].into());
        bind(&stack, "vic", UserRole::Viewer, web).await;
        let place = Self { stack, gateway, at };
        place.fill().await;
        place
    }

    async fn fill(&self) {
        let ada = client(&self.stack, self.at, "ada");
        let mut wanted: Vec<_> =
            (0..8).map(|nth| container_in(&format!("w{nth}"), "web", 16)).collect();
        wanted.push(container_in("waits", "web", 1 << 26));
        wanted.push(container_in("elsewhere", "db", 16));
        for one in &wanted {
            let asked = ada.post(self.url("/v1/workloads")).json(one).send().await.unwrap();
            let (status, body) = told(asked).await;
            assert_eq!((status, &body["success"]), (200, &json!(true)), "{body}");
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let all = ada.get(self.url("/v1/workloads?status=Running")).send().await.unwrap();
            let (_, all) = told(all).await;
            if all["workloads"].as_array().is_some_and(|all| all.len() == 9) {
                return;
            }
            assert!(Instant::now() < deadline, "{all}");
        }
    }

    fn url(&self, path: &str) -> String {
        format!("https://gateway.stack:{}{path}", self.at.port())
    }

    /// Fifty at a time, until each was compared with what is answered alone, before and after.
    async fn compare(&self, user: &str, expected: [u16; 12]) {
        let client = client(&self.stack, self.at, user);
        let all = |under: &'static str| IDS.iter().map(move |id| format!("{under}{id}"));
        let paths: Vec<_> = all("/workloads/").chain(all("/v1/workloads/")).collect();
        let before_any = asked(self.stack.scheduler.http).await;
        let (mut left, deadline) = (paths.clone(), Instant::now() + PATIENCE);
        loop {
            let mut before = BTreeMap::new();
            for path in &left {
                before.insert(path.clone(), read(&client, self.url(path)).await);
            }
            let fifty: Vec<_> = paths.iter().cycle().take(50).collect();
            let together = fifty.iter().map(|path| read(&client, self.url(path)));
            let together = join_all(together).await;
            for (nth, (path, shown)) in fifty.iter().zip(&together).enumerate() {
                let (status, _, text) = shown;
                assert_eq!(*status, expected[nth % IDS.len()], "{user}: {path}: {text}");
                let named = format!("\"workload_id\":\"{}\"", IDS[nth % IDS.len()]);
                assert!(*status != 200 || text.contains(&named), "{path}: {text}");
            }
            // What changed in between is looked at again.
            for (path, before) in before {
                if read(&client, self.url(&path)).await == before {
                    let same = fifty.iter().zip(&together).filter(|(at, _)| ***at == path);
                    same.for_each(|(_, shown)| assert_eq!(*shown, before, "{user}: {path}"));
                    left.retain(|one| *one != path);
                }
            }
            // Who may nothing is refused before it is counted what they asked for.
            let is_told = user == "eve" || asked(self.stack.scheduler.http).await > before_any;
            if left.is_empty() && is_told {
                return;
            }
            assert!(Instant::now() < deadline, "{user}: together: {is_told}, left: {left:?}");
        }
    }

    /// Without a gateway: every answer is that of `GetWorkload`.
    async fn one_by_one(&self) {
        let channel = self.stack.channel(Role::User, "vic").await;
        let mut many = ReadsClient::new(channel.clone());
        let mut one = AgentControlClient::new(channel);
        for id in ["w1", "waits", "elsewhere", "nobody", "", "a b"] {
            let (workload_id, deadline) = (id.to_owned(), Instant::now() + PATIENCE);
            loop {
                let workload_ids = vec!["w2".to_owned(), workload_id.clone(), "no".to_owned()];
                let request = GetWorkloadsRequest { workload_ids };
                let answers = many.get_workloads(request).await.unwrap().into_inner().answers;
                assert_eq!(answers.len(), 3);
                let answer = answers[1].answer.clone().unwrap();
                let workload_id = workload_id.clone();
                let alone = one.get_workload(GetWorkloadRequest { workload_id }).await;
                let same = match (&answer, &alone) {
                    (Answer::Found(found), Ok(alone)) => found == alone.get_ref(),
                    (Answer::Refused(refused), Err(alone)) => {
                        let code = Code::from_i32(refused.code);
                        (code, &*refused.message) == (alone.code(), alone.message())
                    }
                    _ => false,
                };
                if same {
                    break;
                }
                assert!(Instant::now() < deadline, "{id:?}: {answer:?} and {alone:?}");
            }
        }
        let too_many = GetWorkloadsRequest { workload_ids: vec!["w1".to_owned(); 257] };
        let refused = many.get_workloads(too_many).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
        let none = many.get_workloads(GetWorkloadsRequest::default()).await.unwrap();
        assert!(none.into_inner().answers.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_reads_of_one_caller_at_a_time_are_each_answered_as_if_there_were_no_others() {
    let place = Place::start().await;
    place.compare("vic", [200, 200, 200, 200, 200, 200, 200, 200, 200, 404, 404, 400]).await;
    place.compare("ada", [200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 404, 400]).await;
    place.compare("eve", [403; 12]).await;
    place.one_by_one().await;
    place.gateway.stop().await;
    place.stack.stop().await;
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// A scheduler of an earlier version: what it knows it passes on to one that is there.
#[derive(Clone)]
struct Earlier(Channel);

impl NamedService for Earlier {
    const NAME: &'static str = "persys.control.v1.AgentControl";
}

impl Service<Request<Body>> for Earlier {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Answering {
        let mut channel = self.0.clone();
        Box::pin(async move {
            std::future::poll_fn(|context| channel.poll_ready(context)).await.unwrap();
            Ok(channel.call(request).await.unwrap())
        })
    }
}

/// What it does not know, and how often it was asked for it.
#[derive(Clone)]
struct Unknown(Arc<AtomicUsize>);

impl NamedService for Unknown {
    const NAME: &'static str = "persys.compute.v1.Reads";
}

impl Service<Request<Body>> for Unknown {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Answering {
        self.0.fetch_add(1, Ordering::SeqCst);
        let refusal = Status::unimplemented("there is no such method");
        Box::pin(async move { Ok(refusal.into_http()) })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scheduler_of_an_earlier_version_is_asked_as_ever() {
    let mut stack = Stack::start(Wire::Plain).await;
    stack.add_agent("n1").await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let tried = Arc::<AtomicUsize>::default();
    let earlier = Server::builder()
        .add_service(Earlier(stack.channel(Role::Operator, "alice").await))
        .add_service(Unknown(Arc::clone(&tried)))
        .serve_with_incoming(TcpListenerStream::new(listener));
    let earlier = tokio::spawn(earlier);
    let gateway = persys_gateway::app::start(gateway::config(&[("old", at)])).await.unwrap();
    let http = Client::builder().no_proxy().build().unwrap();
    let url = |path: &str| format!("http://{}{path}", gateway.public);
    for nth in 0..5 {
        let asked = http.post(url("/v1/workloads")).json(&container(&format!("w{nth}")));
        assert_eq!(told(asked.send().await.unwrap()).await.0, 200);
    }
    let deadline = Instant::now() + PATIENCE;
    let mut rounds_after = 0;
    while rounds_after < 3 {
        let reads = (0..50).map(|nth| {
            let id = format!("w{}", nth % 6);
            let asked = http.get(url(&format!("/v1/workloads/{id}"))).send();
            async move { (id, told(asked.await.unwrap()).await) }
        });
        for (id, (status, shown)) in join_all(reads).await {
            if id == "w5" {
                assert_eq!((status, &shown["code"]), (404, &json!("not_found")), "{shown}");
            } else {
                assert_eq!(
                    (status, &shown["workload"]["workload_id"]),
                    (200, &json!(id)),
                    "{shown}"
                );
            }
        }
        rounds_after += usize::from(tried.load(Ordering::SeqCst) > 0);
        assert!(Instant::now() < deadline, "nothing was asked together");
    }
    // Those that were under way when the first was refused are all that tried.
    let count = tried.load(Ordering::SeqCst);
    assert!(count <= 2, "{count}");
    gateway.stop().await;
    earlier.abort();
    stack.stop().await;
}
