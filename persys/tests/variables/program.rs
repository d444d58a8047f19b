//! The program as a process of its own, with nothing in its environment but what a test puts there.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant, SystemTime};

use hickory_proto::op::{Message, Query};
use hickory_proto::rr::{Name as DnsName, RecordType};
use persys_identity::authority::Validity;
use persys_identity::{Authority, ClusterName, Grant, Name, Role, Source, TrustDomain};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(30);

/// A program that runs; it ends with the test.
pub(crate) struct Program {
    child: Child,
    log: PathBuf,
}

impl Drop for Program {
    fn drop(&mut self) {
        // One that has ended by itself is fine too.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The program with these words and variables alone.
fn command(words: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_persys"));
    // Lines for people, unless a test says otherwise: most tests read a word or two of them.
    command.env_clear().env("LOG_FORMAT", "text").envs(variables.iter().copied());
    command.args(words).stdin(Stdio::null());
    // Colours would stand between what is looked for.
    command.env("NO_COLOR", "1");
    command
}

/// What the program says and how it ends.
pub(crate) fn ends(words: &[&str], variables: &[(&str, &str)]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command(words, variables).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap_or(-1), text(stdout), text(stderr))
}

impl Program {
    pub(crate) fn start(folder: &Path, words: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::spawn(folder, command(words, variables))
    }

    /// A line as somebody types it into a shell, where `persys` is the program.
    pub(crate) fn typed(folder: &Path, line: &str) -> Self {
        let persys = format!("'{}'", env!("CARGO_BIN_EXE_persys"));
        let line = line.replacen("persys", &format!("exec {persys}"), 1);
        let mut shell = Command::new("/bin/sh");
        shell
            .env_clear()
            .env("NO_COLOR", "1")
            .env("LOG_FORMAT", "text")
            .args(["-c", &line])
            .stdin(Stdio::null());
        Self::spawn(folder, shell)
    }

    pub(crate) fn spawn(folder: &Path, mut command: Command) -> Self {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let log = folder.join(format!("log-{count}"));
        let file = File::create(&log).unwrap();
        let child = command.stdout(Stdio::null()).stderr(file).spawn().unwrap();
        Self { child, log }
    }

    /// Stops it in its tracks: it keeps its connections and answers nothing.
    pub(crate) fn pause(&self) {
        kill_process(Pid::from_child(&self.child), Signal::STOP).unwrap();
    }

    /// Has it end, and says whether it ends well.
    pub(crate) fn stops(&mut self) -> bool {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.child.wait().unwrap().success()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// The first line of its log with this in it, once it is there.
    pub(crate) fn says(&mut self, text: &str) -> String {
        let (log, child) = (&self.log, &mut self.child);
        until(text, || {
            let whole = std::fs::read_to_string(log).unwrap();
            let line = whole.lines().find(|line| line.contains(text)).map(str::to_owned);
            let ended = line.is_none() && child.try_wait().unwrap().is_some();
            assert!(!ended, "it ended without {text:?}: {whole}");
            line
        })
    }

    /// An address it tells of when it serves, such as `grpc`.
    pub(crate) fn at(&mut self, what: &str) -> SocketAddr {
        let line = self.says(" serves");
        let (_, rest) = line.split_once(&format!(" {what}=")).unwrap_or_else(|| panic!("{line}"));
        let word = rest.split_whitespace().next().unwrap().trim_matches('"');
        word.parse().unwrap_or_else(|_| panic!("{what} in {line}"))
    }
}

/// What comes of asking again and again.
#[expect(clippy::disallowed_methods, reason = "a condition is awaited; there is no runtime here")]
pub(crate) fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// A port nobody has at the moment.
pub(crate) fn free_port() -> String {
    // Below the ports the kernel gives to outgoing connections of other tests: one of those might be
    // taken again before the program binds it.
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + u16::try_from(std::process::id() % 500).unwrap() * 20;
    loop {
        let port = first + NEXT.fetch_add(1, Ordering::Relaxed) % 2_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port.to_string();
        }
    }
}

/// A page, if somebody serves it.
pub(crate) fn page(at: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(at).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
}

/// `/health` once it is well.
pub(crate) fn healthy(at: SocketAddr) -> Value {
    until("healthy", || {
        let health: Value = serde_json::from_str(&page(at, "/health")?).ok()?;
        matches!(health["status"].as_str(), Some("ok" | "healthy")).then_some(health)
    })
}

/// What the name is answered with, once it is.
pub(crate) fn name(server: SocketAddr, name: &str, kind: &str) -> String {
    until(name, || {
        let mut question = Message::query();
        let asked = DnsName::from_ascii(format!("{name}.")).unwrap();
        question.add_query(Query::query(asked, kind.parse::<RecordType>().unwrap()));
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        socket.send_to(&question.to_vec().unwrap(), server).unwrap();
        let mut buffer = [0; 2_048];
        let length = socket.recv(&mut buffer).ok()?;
        let reply = Message::from_vec(&buffer[..length]).unwrap();
        reply.answers.first().map(|record| record.data.to_string())
    })
}

/// A folder, and certificates of a cluster in it.
pub(crate) struct Folder {
    folder: TempDir,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn at(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// `<name>.crt`, `<name>.key`, `ca.pem` and, with all of them, `<name>.pem`.
    pub(crate) fn certify(&self, cluster: &str, role: Role, name: &str) {
        let domain = TrustDomain::new("persys.local").unwrap();
        let now = SystemTime::now();
        let ca = self.folder.path().join("authority");
        let cluster = ClusterName::new(cluster).unwrap();
        let authority = Authority::open_or_create(&ca, &domain, &cluster, now).unwrap();
        let grant = Grant::new(role, Name::new(name).unwrap());
        let grant = if role == Role::Scheduler { grant.on_loopback() } else { grant };
        let validity = Validity { now, lifetime: Duration::from_hours(1) };
        let issued = authority.issue(&grant, validity).unwrap();
        let path = |end: &str| self.folder.path().join(format!("{name}.{end}"));
        let roots = self.folder.path().join("ca.pem");
        let separate = Source::Separate { certificate: path("crt"), key: path("key"), roots };
        separate.save(&issued).unwrap();
        Source::Bundle(path("pem")).save(&issued).unwrap();
    }
}

/// A command somebody types, without a home.
pub(crate) fn types(folder: &Folder, line: &str) -> (i32, String, String) {
    let words: Vec<_> = line.split_whitespace().collect();
    ends(&words, &[("PERSYS_HOME", &folder.at("home"))])
}

/// The nodes of a cluster, once there is one that is ready.
pub(crate) fn ready_node(folder: &Folder, way: &str) -> Value {
    until("a node", || {
        let (code, out, _) = types(folder, &format!("nodes -o json {way}"));
        let nodes: Value = (code == 0).then(|| serde_json::from_str(&out).unwrap())?;
        (nodes[0]["status"] == "Ready").then(|| nodes[0].clone())
    })
}
