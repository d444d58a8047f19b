//! A daemon of our own that can be killed, started again and frozen.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{IMAGE, fresh_prefix};

const PATIENCE: Duration = Duration::from_secs(40);

pub(crate) struct Daemon {
    process: Child,
    folder: PathBuf,
}

impl Daemon {
    pub(crate) fn start() -> Self {
        let folder = std::env::temp_dir().join(format!("{}daemon", fresh_prefix()));
        std::fs::create_dir_all(&folder).unwrap();
        let daemon = Self { process: Self::spawn(&folder), folder };
        daemon.wait();
        daemon
    }

    fn spawn(folder: &std::path::Path) -> Child {
        let path = |name: &str| folder.join(name).display().to_string();
        let log = std::fs::File::create(folder.join("log")).unwrap();
        // In a network of its own: a daemon without a bridge takes the bridge of the others away.
        Command::new("unshare")
            .args(["--net", "dockerd"])
            .args(["--data-root", &path("data"), "--exec-root", &path("run")])
            .args(["--pidfile", &path("pid"), "-H", &format!("unix://{}", path("socket"))])
            .args(["--bridge", "none", "--iptables=false", "--live-restore"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("dockerd: run hack/docker-up")
    }

    pub(crate) fn host(&self) -> String {
        format!("unix://{}", self.folder.join("socket").display())
    }

    fn wait(&self) {
        let begun = Instant::now();
        let answers = || {
            let docker = Command::new("docker").args(["-H", &self.host(), "version"]).output();
            docker.unwrap().status.success()
        };
        while !answers() {
            let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(begun.elapsed() < PATIENCE, "the daemon does not start: {log}");
        }
    }

    pub(crate) fn load_image(&self) {
        let mut save = Command::new("docker")
            .args(["-H", &super::host(), "save", IMAGE])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let load = Command::new("docker")
            .args(["-H", &self.host(), "load"])
            .stdin(save.stdout.take().unwrap())
            .output()
            .unwrap();
        assert!(save.wait().unwrap().success() && load.status.success(), "{load:?}");
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.process.id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// Stops it where it stands, and waits until it really does.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
        let begun = Instant::now();
        let threads = format!("/proc/{}/task", self.process.id());
        let frozen = |thread: std::io::Result<std::fs::DirEntry>| {
            let stat = std::fs::read_to_string(thread.unwrap().path().join("stat"));
            stat.is_ok_and(|stat| stat.contains(") T "))
        };
        while !std::fs::read_dir(&threads).unwrap().all(frozen) {
            assert!(begun.elapsed() < PATIENCE, "the daemon does not freeze");
            std::thread::yield_now();
        }
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub(crate) fn start_again(&mut self) {
        // Its own containerd outlives it; the pid files would keep the next one from starting.
        let children = self.folder.join("run/containerd/containerd.pid");
        if let Ok(text) = std::fs::read_to_string(&children) {
            let id = text.trim().parse().ok().and_then(Pid::from_raw).unwrap();
            kill_process(id, Signal::KILL).ok();
            std::fs::remove_file(&children).unwrap();
        }
        std::fs::remove_file(self.folder.join("pid")).ok();
        self.process = Self::spawn(&self.folder);
        self.wait();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.signal(Signal::CONT);
        // Containers outlive their daemon; a failed test must not leave any.
        let docker = |args: &[&str]| {
            let output = Command::new("docker").args(["-H", &self.host()]).args(args).output();
            String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
        };
        for id in docker(&["ps", "-aq"]).lines() {
            docker(&["rm", "-f", id]);
        }
        self.signal(Signal::TERM);
        self.process.wait().unwrap();
        // What is still mounted belongs to nobody any more.
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
        let ours = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        for mount in ours.filter(|path| path.starts_with(self.folder.to_str().unwrap())) {
            Command::new("umount").args(["-l", mount]).status().unwrap();
        }
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}
