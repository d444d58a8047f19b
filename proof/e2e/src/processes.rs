//! A scheduler and its agents as processes of their own, over mTLS, in one folder.

#![expect(clippy::expect_used, reason = "a test stops at what cannot be")]

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use persys_identity::{
    Authority, Bundle, ClusterName, Connector, Credentials, Expected, Grant, Issued, Name, Role,
    Source, TrustDomain, Validity,
};
use persys_proto::control::v1 as api;
use persys_proto::control::v1::agent_control_client::AgentControlClient;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

use crate::engine::Engine;
use crate::part::{Libvirt, Pace, Part, Plan, Trip};

pub use crate::wish::Wish;

/// How long a test waits for something to become true.
pub const PATIENCE: Duration = Duration::from_mins(1);
/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
const SCHEDULER: &str = "scheduler";

/// A cluster of processes. Dropping it ends them and removes their containers.
#[derive(Debug)]
pub struct Stack {
    /// Its name, which no other test has.
    pub cluster: String,
    /// Whether processes that die are started again, without a tripwire.
    pub mending: bool,
    /// Which were.
    pub mended: Vec<String>,
    /// The scheduler that is asked.
    pub front: String,
    /// What agents that are started from now on run machines with.
    pub libvirt: Option<Libvirt>,
    program: PathBuf,
    pace: Pace,
    folder: tempfile::TempDir,
    authority: Authority,
    etcd: Vec<String>,
    schedulers: Vec<Scheduler>,
    plans: BTreeMap<String, Plan>,
    processes: BTreeMap<String, Child>,
    engines: Vec<Engine>,
    /// Where each process shows its pages.
    pages: BTreeMap<String, SocketAddr>,
}

/// A scheduler: its process, where it listens, and an operator's way there.
#[derive(Debug)]
struct Scheduler {
    process: String,
    at: SocketAddr,
    channel: Channel,
}

/// Seconds since 1970.
#[must_use]
pub fn now_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// A port of loopback that nobody has at the moment.
#[must_use]
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").port()
}

impl Stack {
    /// A cluster without any process yet. `program` runs [`crate::part::main`].
    #[must_use]
    pub fn new(program: &Path, pace: Pace) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let cluster = format!("live-{}-{count}", std::process::id());
        let folder = tempfile::tempdir().expect("a folder");
        let domain = TrustDomain::new("example.org").expect("a domain");
        let name = ClusterName::new(&cluster).expect("a name");
        let begun = SystemTime::now();
        let ca = folder.path().join("ca");
        std::fs::create_dir(&ca).expect("a folder");
        let authority =
            Authority::open_or_create(&ca, &domain, &name, begun).expect("an authority");
        let mut stack = Self {
            cluster,
            mending: false,
            mended: Vec::new(),
            front: SCHEDULER.to_owned(),
            libvirt: None,
            program: program.to_owned(),
            pace,
            folder,
            authority,
            etcd: Vec::new(),
            schedulers: Vec::new(),
            plans: BTreeMap::new(),
            processes: BTreeMap::new(),
            engines: Vec::new(),
            pages: BTreeMap::new(),
        };
        stack.name_scheduler(SCHEDULER);
        stack
    }

    /// The same with records in the etcd at `endpoints`, and so many schedulers:
    /// `scheduler`, `scheduler-2`, ...
    #[must_use]
    pub fn sharing(program: &Path, pace: Pace, endpoints: Vec<String>, count: usize) -> Self {
        let mut stack = Self::new(program, pace);
        stack.etcd = endpoints;
        for nth in 2..=count {
            stack.name_scheduler(&format!("{SCHEDULER}-{nth}"));
        }
        stack
    }

    /// Agents and clients know a scheduler by its address before it runs.
    fn name_scheduler(&mut self, process: &str) {
        let at = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let channel = operator(&self.authority, at);
        self.schedulers.push(Scheduler { process: process.to_owned(), at, channel });
    }

    /// The names of all schedulers, also of those that do not run.
    #[must_use]
    pub fn schedulers(&self) -> Vec<String> {
        self.schedulers.iter().map(|scheduler| scheduler.process.clone()).collect()
    }

    /// A scheduler and one node on the shared Docker, ready for work.
    pub async fn on_docker(program: &Path, pace: Pace) -> Self {
        let mut stack = Self::new(program, pace);
        stack.start_scheduler(None).await;
        stack.start_agent("n1", Some(&Engine::shared()), None).await;
        stack.until_ready(1).await;
        stack
    }

    /// A workload's id: container names are the host's, so ids are unique among all tests.
    #[must_use]
    pub fn id(&self, name: &str) -> String {
        format!("{}-{name}", self.cluster)
    }

    /// Where a process keeps its state.
    #[must_use]
    pub fn folder_of(&self, process: &str) -> PathBuf {
        self.folder.path().join(process)
    }

    /// The process id of a process.
    #[must_use]
    pub fn process_id(&self, process: &str) -> u32 {
        self.processes.get(process).and_then(Child::id).expect("it runs")
    }

    /// Starts the first scheduler, for the first time or again.
    pub async fn start_scheduler(&mut self, trip: Option<Trip>) {
        self.start_named(SCHEDULER, trip).await;
    }

    /// Starts one of the schedulers, for the first time or again.
    pub async fn start_named(&mut self, process: &str, trip: Option<Trip>) {
        let certificate = self.certify(Role::Scheduler, process);
        let grpc = self.scheduler(process).at;
        let part = Part::Scheduler { etcd: self.etcd.clone() };
        self.begin(process, part, certificate, grpc, trip).await;
    }

    fn scheduler(&self, process: &str) -> &Scheduler {
        let found = self.schedulers.iter().find(|scheduler| scheduler.process == process);
        found.expect("a scheduler of that name")
    }

    /// Starts the agent of a node, for the first time or again. Without a Docker nothing really
    /// runs there.
    pub async fn start_agent(&mut self, node: &str, docker: Option<&Engine>, trip: Option<Trip>) {
        if let Some(engine) = docker {
            self.engines.push(engine.clone());
        }
        let part = Part::Agent {
            node: node.to_owned(),
            schedulers: self.schedulers.iter().map(|scheduler| scheduler.at).collect(),
            docker: docker.map(|engine| engine.host.clone()),
            libvirt: self.libvirt.clone(),
        };
        let certificate = self.certify(Role::Agent, node);
        let grpc = SocketAddr::from(([127, 0, 0, 1], free_port()));
        self.begin(node, part, certificate, grpc, trip).await;
    }

    /// Starts a process that ran before, as it was but without a tripwire.
    pub async fn start_again(&mut self, process: &str) {
        let plan = self.plans.get_mut(process).expect("it ran before");
        plan.trip = None;
        self.spawn(process).await;
    }

    async fn begin(
        &mut self,
        process: &str,
        part: Part,
        certificate: PathBuf,
        grpc: SocketAddr,
        trip: Option<Trip>,
    ) {
        let folder = self.folder_of(process);
        let cluster = self.cluster.clone();
        let pace = self.pace;
        let plan = Plan { part, folder, certificate, cluster, grpc, pace, trip };
        self.plans.insert(process.to_owned(), plan);
        self.spawn(process).await;
    }

    async fn spawn(&mut self, process: &str) {
        let plan = self.plans.get(process).expect("a plan");
        let path = self.folder.path().join(format!("{process}.plan"));
        std::fs::write(&path, serde_json::to_vec(plan).expect("a plan")).expect("a plan");
        let log = self.folder.path().join(format!("{process}.log"));
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log).expect("a log");
        let mut child = Command::new(&self.program)
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .expect("the process");
        let output = child.stdout.take().expect("its output");
        let mut lines = BufReader::new(output).lines();
        let first = tokio::time::timeout(PATIENCE, lines.next_line()).await;
        let ready = matches!(&first, Ok(Ok(Some(line))) if line.starts_with("ready "));
        if let Ok(Ok(Some(line))) = &first
            && let Some(pages) = line.split(' ').nth(2).and_then(|at| at.parse().ok())
        {
            self.pages.insert(process.to_owned(), pages);
        }
        // One with a tripwire may die before it is ready.
        let may_die = plan.trip.as_ref().is_some_and(|trip| trip.die_at.is_some());
        assert!(ready || may_die, "{process} does not start: {first:?}\n{}", self.log(process));
        self.processes.insert(process.to_owned(), child);
    }

    /// What a process wrote to its log.
    #[must_use]
    pub fn log(&self, process: &str) -> String {
        let path = self.folder.path().join(format!("{process}.log"));
        std::fs::read_to_string(path).unwrap_or_default()
    }

    /// Ends a process at once, without a word.
    pub async fn kill(&mut self, process: &str) {
        let mut child = self.processes.remove(process).expect("it runs");
        child.kill().await.expect("it dies");
    }

    /// Lets a process end.
    pub async fn stop(&mut self, process: &str) {
        let mut child = self.processes.remove(process).expect("it runs");
        kill_process(pid(&child), Signal::TERM).expect("it hears");
        let ended = tokio::time::timeout(PATIENCE, child.wait()).await;
        let status = ended.expect("it ends in time").expect("it ends");
        assert!(status.success(), "{process} ended badly: {status}\n{}", self.log(process));
    }

    /// Stops a process in its tracks: it keeps its connections and answers nothing.
    pub fn pause(&self, process: &str) {
        let pid = pid(self.processes.get(process).expect("it runs"));
        kill_process(pid, Signal::STOP).expect("it stands still");
        // One of its threads has to run to take the signal; until then the others go on.
        waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT)
            .expect("it stands still");
    }

    /// Lets a paused process go on.
    pub fn resume(&self, process: &str) {
        kill_process(pid(self.processes.get(process).expect("it runs")), Signal::CONT)
            .expect("it goes on");
    }

    /// Whether a process has died by itself.
    pub fn died(&mut self, process: &str) -> bool {
        let child = self.processes.get_mut(process);
        child.is_none_or(|child| child.try_wait().expect("its state").is_some())
    }

    /// Starts again whatever has died.
    async fn mend(&mut self) {
        let all: Vec<_> = self.processes.keys().cloned().collect();
        for process in all {
            if self.died(&process) {
                self.mended.push(process.clone());
                self.start_again(&process).await;
            }
        }
    }

    fn certify(&self, role: Role, name: &str) -> PathBuf {
        let path = self.folder.path().join(format!("{name}.pem"));
        if !path.exists() {
            let source = Source::Bundle(path.clone());
            source.save(&issue(&self.authority, role, name)).expect("a certificate");
        }
        path
    }

    /// A client of the scheduler in front, with an operator's certificate.
    #[must_use]
    pub fn client(&self) -> AgentControlClient<Channel> {
        self.client_of(&self.front)
    }

    /// A client of one of the schedulers, with an operator's certificate.
    #[must_use]
    pub fn client_of(&self, process: &str) -> AgentControlClient<Channel> {
        AgentControlClient::new(self.channel_of(process))
    }

    /// An operator's connection to one of the schedulers, made when it is needed.
    #[must_use]
    pub fn channel_of(&self, process: &str) -> Channel {
        self.scheduler(process).channel.clone()
    }

    /// Where one of the schedulers listens.
    #[must_use]
    pub fn address_of(&self, process: &str) -> SocketAddr {
        self.scheduler(process).at
    }

    /// Where a process shows its pages: `/health` and `/metrics` of a scheduler.
    #[must_use]
    pub fn pages_of(&self, process: &str) -> SocketAddr {
        *self.pages.get(process).expect("it showed them")
    }

    /// A file with a fresh operator's certificate.
    #[must_use]
    pub fn operator_file(&self) -> PathBuf {
        self.certify(Role::Operator, "alice")
    }

    /// Waits until so many nodes are ready.
    pub async fn until_ready(&mut self, nodes: usize) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let request = api::ListNodesRequest { status: "ready".to_owned() };
            let found = self.client().list_nodes(request).await;
            if found.is_ok_and(|found| found.into_inner().nodes.len() >= nodes) {
                return;
            }
            self.wait_a_little(deadline, "the nodes are not ready").await;
        }
    }

    /// Between two looks: mends if it should, and gives up when it is too late.
    pub async fn wait_a_little(&mut self, deadline: Instant, what: &str) {
        if Instant::now() >= deadline {
            let logs: Vec<_> = self.plans.keys().map(|process| self.log(process)).collect();
            assert!(Instant::now() < deadline, "{what}\n{}", logs.join("\n--\n"));
        }
        if self.mending {
            self.mend().await;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }

    /// Asks for a workload until the scheduler takes it in.
    pub async fn apply(&mut self, request: &api::ApplyWorkloadRequest) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let said = match self.client().apply_workload(request.clone()).await {
                Ok(answer) => answer.into_inner(),
                Err(status) => {
                    let what = format!("nobody takes {}: {status}", request.workload_id);
                    self.wait_a_little(deadline, &what).await;
                    continue;
                }
            };
            if said.success {
                return;
            }
            // A refusal without a class is one for the moment.
            assert_eq!(said.failure_reason, 0, "{} is refused: {said:?}", request.workload_id);
            self.wait_a_little(deadline, &said.error_message).await;
        }
    }

    /// Has a workload stopped or started.
    pub async fn wish(&mut self, id: &str, desired: &str) {
        let request = api::ApplyWorkloadRequest {
            workload_id: id.to_owned(),
            desired_state: desired.to_owned(),
            ..api::ApplyWorkloadRequest::default()
        };
        self.apply(&request).await;
    }

    /// Has a workload deleted, and waits until nothing is known of it.
    pub async fn delete(&mut self, id: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.look(id).await != Ok(None) {
            let request = api::DeleteWorkloadRequest { workload_id: id.to_owned(), volumes: false };
            // Whatever it says, the next look tells.
            self.client().delete_workload(request).await.ok();
            self.wait_a_little(deadline, &format!("{id} is not gone")).await;
        }
    }

    /// How a workload is; `None` if there is none.
    pub async fn look(&self, id: &str) -> Result<Option<api::WorkloadView>, String> {
        let request = api::GetWorkloadRequest { workload_id: id.to_owned() };
        match self.client().get_workload(request).await {
            Ok(found) => Ok(found.into_inner().workload),
            Err(status) if status.code() == Code::NotFound => Ok(None),
            Err(status) => Err(status.to_string()),
        }
    }

    /// Waits until a workload is as `wanted` says.
    pub async fn until(
        &mut self,
        id: &str,
        wanted: impl Fn(&api::WorkloadView) -> bool,
    ) -> api::WorkloadView {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.look(id).await;
            match found {
                Ok(Some(view)) if wanted(&view) => return view,
                Ok(_) | Err(_) => {
                    let what = format!("{id} is not as it should be: {found:?}");
                    self.wait_a_little(deadline, &what).await;
                }
            }
        }
    }

    /// Waits until a workload has this status.
    pub async fn until_status(&mut self, id: &str, status: &str) -> api::WorkloadView {
        self.until(id, |view| view.status == status).await
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        for child in self.processes.values_mut() {
            child.start_kill().ok();
        }
        // An agent that still lives would bring its containers back.
        for child in self.processes.values_mut() {
            let deadline = Instant::now() + Duration::from_secs(5);
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::yield_now();
            }
        }
        for engine in &self.engines {
            engine.clear(&self.cluster);
        }
    }
}

fn issue(authority: &Authority, role: Role, name: &str) -> Issued {
    let grant = Grant::new(role, Name::new(name).expect("a name"));
    let grant = if role == Role::Scheduler { grant.on_loopback() } else { grant };
    let validity = Validity { now: SystemTime::now(), lifetime: Duration::from_hours(2) };
    authority.issue(&grant, validity).expect("a certificate")
}

fn pid(child: &Child) -> Pid {
    let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    id.expect("it runs")
}

fn operator(authority: &Authority, scheduler: SocketAddr) -> Channel {
    let issued = issue(authority, Role::Operator, "alice");
    let bundle = Bundle::from_issued(&issued, SystemTime::now()).expect("a certificate");
    let connector = Connector::tls(&Credentials::new(bundle), Expected::Scheduler).expect("TLS");
    let endpoint = Endpoint::from_shared(format!("http://{scheduler}")).expect("an address");
    // A test fails rather than waits for ever.
    let endpoint = endpoint.timeout(PATIENCE);
    endpoint.connect_with_connector_lazy(connector)
}
