//! A Docker daemon of our own, in a network of its own: it can be killed and frozen, and nobody else
//! notices.

#![expect(clippy::expect_used, reason = "a test stops at what cannot be")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::engine::{Engine, IMAGE};

const PATIENCE: Duration = Duration::from_mins(1);

/// What kind of daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Its containers outlive it, and have no network.
    Lasting,
    /// As Docker is by itself: with a bridge, and able to be a swarm.
    Usual,
    /// The same, with folders of the machine that are its own as soon as something is written there,
    /// and with a second runtime, which is the usual one under the name of another.
    Apart,
}

/// The name of the second runtime.
pub const RUNTIME: &str = "io.containerd.wasmedge.v1";

/// Has what is written to the folders of the machine written to a folder in memory.
const OWN_FOLDERS: &str = "mount -t tmpfs none \"$OWN\" && for f in etc usr media; do \
    mkdir -p /$f \"$OWN/$f.upper\" \"$OWN/$f.work\" && mount -t overlay overlay -o \
    lowerdir=/$f,upperdir=\"$OWN/$f.upper\",workdir=\"$OWN/$f.work\" /$f || exit 1; done; ";

/// A daemon that ends, with all its containers, when it is dropped.
#[derive(Debug)]
pub struct Daemon {
    kind: Kind,
    process: Child,
    folder: tempfile::TempDir,
}

impl Daemon {
    /// Starts one without any image.
    #[must_use]
    pub fn empty(kind: Kind) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let daemon = Self { kind, process: spawn(kind, folder.path()), folder };
        daemon.wait();
        daemon
    }

    /// Starts one that has the image of the tests.
    #[must_use]
    pub fn start(kind: Kind) -> Self {
        let daemon = Self::empty(kind);
        let mut save = Command::new("docker")
            .args(["-H", &Engine::shared().host, "save", IMAGE])
            .stdout(Stdio::piped())
            .spawn()
            .expect("docker: run hack/docker-up");
        let saved = save.stdout.take().expect("its output");
        let load =
            Command::new("docker").args(["-H", &daemon.host(), "load"]).stdin(saved).output();
        let load = load.expect("docker");
        let whole = save.wait().expect("its end").success() && load.status.success();
        assert!(whole, "{load:?}");
        daemon
    }

    /// Where it is.
    #[must_use]
    pub fn host(&self) -> String {
        format!("unix://{}", self.folder.path().join("socket").display())
    }

    fn wait(&self) {
        let begun = Instant::now();
        let host = self.host();
        let answers = || {
            let asked = Command::new("docker").args(["-H", &host, "version"]).output();
            asked.expect("docker: run hack/docker-up").status.success()
        };
        while !answers() {
            let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(begun.elapsed() < PATIENCE, "the daemon does not start: {log}");
        }
    }

    /// Its process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        kill_process(id.expect("its id"), signal).expect("it runs");
    }

    /// Ends it without a word.
    pub fn kill(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("its end");
    }

    /// Starts it after it was killed.
    pub fn start_again(&mut self) {
        // Its own containerd outlives it; the pid files would keep the next one from starting.
        let folder = self.folder.path();
        let children = folder.join("run/containerd/containerd.pid");
        if let Ok(text) = std::fs::read_to_string(&children) {
            if let Some(id) = text.trim().parse().ok().and_then(Pid::from_raw) {
                kill_process(id, Signal::KILL).ok();
            }
            std::fs::remove_file(&children).expect("the pid file");
        }
        std::fs::remove_file(folder.join("pid")).ok();
        self.process = spawn(self.kind, folder);
        self.wait();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let id = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        let signal = |signal| id.is_some_and(|id| kill_process(id, signal).is_ok());
        signal(Signal::CONT);
        // Containers outlive their daemon; a failed test must not leave any.
        let host = self.host();
        let docker = |args: &[&str]| {
            let output = Command::new("docker").args(["-H", &host]).args(args).output();
            output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let all = docker(&["ps", "-aq"]).unwrap_or_default();
        let args: Vec<_> = ["rm", "-f"].into_iter().chain(all.lines()).collect();
        docker(&args).ok();
        signal(Signal::TERM);
        self.process.wait().ok();
        // What is still mounted belongs to nobody any more.
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
        let ours = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        for mount in ours.filter(|path| Path::new(path).starts_with(self.folder.path())) {
            Command::new("umount").args(["-l", mount]).status().ok();
        }
    }
}

fn spawn(kind: Kind, folder: &Path) -> Child {
    let path = |name: &str| folder.join(name).display().to_string();
    let log = std::fs::File::create(folder.join("log")).expect("a log");
    let second = &format!("{RUNTIME}=runc");
    let (namespaces, first): (&[&str], &str) = match kind {
        Kind::Lasting | Kind::Usual => (&["--net"], ""),
        Kind::Apart => (&["--net", "--mount"], OWN_FOLDERS),
    };
    let own = folder.join("own");
    std::fs::create_dir_all(&own).expect("a folder");
    let more: &[&str] = match kind {
        Kind::Lasting => &["--bridge", "none", "--iptables=false", "--live-restore"],
        Kind::Usual => &[],
        Kind::Apart => &["--add-runtime", second],
    };
    // In a network of its own: two daemons take each other's bridge and rules away. `ip` gives it a
    // loopback to be a swarm on.
    Command::new("unshare")
        .args(namespaces)
        .args(["sh", "-c"])
        .arg(format!("{first}ip link set lo up; exec dockerd \"$@\""))
        .arg("dockerd")
        .env("OWN", own)
        .args(["--data-root", &path("data"), "--exec-root", &path("run")])
        .args(["--pidfile", &path("pid"), "-H", &format!("unix://{}", path("socket"))])
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("dockerd: run hack/docker-up")
}
