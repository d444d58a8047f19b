//! Real etcd processes for tests, on loopback ports and in a folder of their own.
//!
//! A [`Host`] is one etcd of one or three members. It can be paused, killed, started again, wiped and
//! set back to an older copy of its data, and it ends with the test, however that ends.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that cannot have its etcd fails"
)]

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use persys_etcd::{Client, Endpoint, Settings};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

/// How long etcd may take to answer once it was started.
const START: Duration = Duration::from_secs(20);
/// How often it is looked whether it does.
const POLL: Duration = Duration::from_millis(50);
/// How often other ports are tried when somebody else was quicker.
const TRIES: usize = 5;

/// What is asked of an etcd.
#[derive(Debug, Clone)]
pub struct Options {
    /// One or three.
    pub members: usize,
    /// Further words on the command line.
    pub flags: Vec<String>,
    /// How clients reach it, beyond the address: TLS and login.
    pub way: Settings,
}

impl Options {
    /// So many members, plain.
    #[must_use]
    pub fn new(members: usize) -> Self {
        Self { members, flags: Vec::new(), way: Settings::new(Vec::new()) }
    }

    /// With further words on the command line.
    #[must_use]
    pub fn with(mut self, flags: &[&str]) -> Self {
        self.flags.extend(flags.iter().map(|flag| (*flag).to_owned()));
        self
    }
}

/// An etcd.
#[derive(Debug)]
pub struct Host {
    folder: TempDir,
    options: Options,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    name: String,
    client_port: u16,
    peer_port: u16,
    process: Option<Child>,
}

impl Host {
    /// Starts an etcd and waits until it answers.
    pub async fn start(options: Options) -> Self {
        for _ in 0..TRIES {
            let members = (0..options.members).map(|number| Member {
                name: format!("m{number}"),
                client_port: free_port(),
                peer_port: free_port(),
                process: None,
            });
            let mut host = Self {
                folder: tempfile::tempdir().unwrap(),
                options: options.clone(),
                members: members.collect(),
            };
            for member in 0..host.members.len() {
                host.spawn(member);
            }
            if host.answers().await {
                return host;
            }
            for member in 0..host.members.len() {
                println_log(&host.log(member));
            }
        }
        panic!("etcd does not start; its log is above");
    }

    /// One plain member.
    pub async fn one() -> Self {
        Self::start(Options::new(1)).await
    }

    /// Where its members listen, `host:port`.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(|member| format!("127.0.0.1:{}", member.client_port)).collect()
    }

    /// The way to all its members.
    #[must_use]
    pub fn way(&self) -> Settings {
        let endpoints = self.endpoints();
        let endpoints = endpoints.iter().map(|text| text.parse::<Endpoint>().unwrap());
        Settings { endpoints: endpoints.collect(), ..self.options.way.clone() }
    }

    /// The same, for whoever does not mind how long it takes on a busy machine.
    #[must_use]
    pub fn patient_way(&self) -> Settings {
        Settings { deadline: START, ..self.way() }
    }

    /// A client of its own, with patience.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(self.patient_way())
    }

    /// How many members it has.
    #[must_use]
    pub fn count(&self) -> usize {
        self.members.len()
    }

    /// Stops a member in its tracks: it keeps its connections and answers nothing.
    pub fn pause(&self, member: usize) {
        self.signal(member, Signal::STOP);
    }

    /// Lets a paused member go on.
    pub fn resume(&self, member: usize) {
        self.signal(member, Signal::CONT);
    }

    /// Kills a member as a power cut would.
    pub fn kill(&mut self, member: usize) {
        if let Some(mut process) = self.members[member].process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Kills all members.
    pub fn kill_all(&mut self) {
        (0..self.members.len()).for_each(|member| self.kill(member));
    }

    /// Starts a member that was killed. It does not wait.
    pub fn spawn(&mut self, member: usize) {
        let cluster: Vec<_> = self
            .members
            .iter()
            .map(|member| format!("{}=http://127.0.0.1:{}", member.name, member.peer_port))
            .collect();
        let log = File::options().create(true).append(true).open(self.log(member)).unwrap();
        let Member { name, client_port, peer_port, .. } = &self.members[member];
        let secure = self.options.flags.iter().any(|flag| flag.starts_with("--cert-file"));
        let scheme = if secure { "https" } else { "http" };
        let client = format!("{scheme}://127.0.0.1:{client_port}");
        let peer = format!("http://127.0.0.1:{peer_port}");
        let process = Command::new("etcd")
            .args(["--name", name, "--initial-cluster-state", "new"])
            .arg("--data-dir")
            .arg(self.data(member))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &cluster.join(","), "--logger", "zap"])
            .args(&self.options.flags)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        let process = process.expect("etcd cannot be started; hack/etcd-install installs it");
        self.members[member].process = Some(process);
    }

    /// Starts all members that were killed, and waits until etcd answers.
    pub async fn restart(&mut self) {
        for member in 0..self.members.len() {
            if self.members[member].process.is_none() {
                self.spawn(member);
            }
        }
        assert!(self.answers().await, "etcd does not come back");
    }

    /// Throws away the data of all members, which must be dead.
    pub fn wipe(&mut self) {
        for member in 0..self.members.len() {
            assert!(self.members[member].process.is_none(), "it is alive");
            fs::remove_dir_all(self.data(member)).unwrap();
        }
    }

    /// Copies the data of all members, which must be dead, to a folder beside them.
    pub fn save(&self, name: &str) {
        for member in 0..self.members.len() {
            assert!(self.members[member].process.is_none(), "it is alive");
            copy(&self.data(member), &self.folder.path().join(format!("{name}-{member}")));
        }
    }

    /// Puts back what was saved; all members must be dead.
    pub fn restore(&mut self, name: &str) {
        self.wipe();
        for member in 0..self.members.len() {
            copy(&self.folder.path().join(format!("{name}-{member}")), &self.data(member));
        }
    }

    /// Waits until etcd answers; says whether it does in time.
    pub async fn answers(&mut self) -> bool {
        let end = Instant::now() + START;
        while Instant::now() < end {
            // A client of its own: no breaker remembers what went before.
            let answered = self.client().get("/").await.is_ok();
            let ended = |member: &mut Member| {
                member.process.as_mut().is_some_and(|process| process.try_wait().unwrap().is_some())
            };
            // Then somebody else answers at its address.
            if self.members.iter_mut().any(ended) {
                return false;
            }
            if answered {
                return true;
            }
            sleep(POLL).await;
        }
        false
    }

    /// The process of a member.
    #[must_use]
    pub fn pid(&self, member: usize) -> Option<u32> {
        self.members[member].process.as_ref().map(Child::id)
    }

    fn signal(&self, member: usize, signal: Signal) {
        let process = self.members[member].process.as_ref().expect("it is dead");
        kill_process(Pid::from_child(process), signal).unwrap();
    }

    fn data(&self, member: usize) -> PathBuf {
        self.folder.path().join(format!("data-{member}"))
    }

    fn log(&self, member: usize) -> PathBuf {
        self.folder.path().join(format!("log-{member}"))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        for member in &mut self.members {
            if let Some(process) = &mut member.process {
                // One that has ended by itself is fine too.
                drop(process.kill());
                drop(process.wait());
            }
        }
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}

#[expect(clippy::print_stderr, reason = "a test shows why its etcd did not start")]
fn println_log(path: &Path) {
    let log = fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<_> = log.lines().collect();
    eprintln!("{}:\n{}", path.display(), lines[lines.len().saturating_sub(20)..].join("\n"));
}
