//! A libvirtd of the test's own, that can be killed, frozen and started again.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

pub(crate) struct Daemon {
    process: Child,
    pub(crate) folder: PathBuf,
    _temporary: tempfile::TempDir,
}

/// Polls until `done`, at most [`PATIENCE`].
pub(crate) async fn until(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !done().await {
        assert!(begun.elapsed() < PATIENCE, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

impl Daemon {
    pub(crate) async fn start() -> Self {
        let temporary = tempfile::Builder::new().prefix("persys-vms-").tempdir().unwrap();
        let folder = temporary.path().to_owned();
        // The emulator runs as another user.
        open_to_all(&folder);
        let log = std::fs::File::create(folder.join("log")).unwrap();
        let script = folder.join("inside.sh");
        std::fs::write(&script, include_str!("inside.sh")).unwrap();
        let process = Command::new("unshare")
            .args(["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .arg("bash")
            .args([&script, &folder])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("unshare and libvirtd: run hack/libvirt-up");
        let daemon = Self { process, folder, _temporary: temporary };
        daemon.wait().await;
        daemon
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("sock/libvirt-sock")
    }

    async fn wait(&self) {
        until("libvirtd answers", async || self.try_virsh(&["version"]).is_ok()).await;
    }

    /// What `virsh` prints.
    pub(crate) fn virsh(&self, args: &[&str]) -> String {
        self.try_virsh(args).unwrap_or_else(|error| panic!("virsh {args:?}: {error}"))
    }

    fn try_virsh(&self, args: &[&str]) -> Result<String, String> {
        let uri = format!("qemu+unix:///system?socket={}", self.socket().display());
        let output = Command::new("virsh").args(["-q", "-c", &uri]).args(args).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// The network `default`, which lends addresses.
    pub(crate) fn start_network(&self) {
        self.virsh(&["net-define", "/usr/share/libvirt/networks/default.xml"]);
        self.virsh(&["net-start", "default"]);
    }

    fn flag(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Kills it, and keeps it away. Machines run on.
    pub(crate) async fn kill(&self) {
        let held = self.flag("held");
        std::fs::remove_file(&held).ok();
        std::fs::write(self.flag("hold"), "").unwrap();
        until("libvirtd is gone", async || held.exists()).await;
    }

    /// Lets it come back.
    pub(crate) async fn start_again(&self) {
        std::fs::remove_file(self.flag("hold")).unwrap();
        self.wait().await;
    }

    /// Stops it where it stands.
    pub(crate) async fn freeze(&self) {
        std::fs::write(self.flag("freeze"), "").unwrap();
        let frozen = self.flag("frozen");
        until("libvirtd is frozen", async || frozen.exists()).await;
    }

    /// Lets it go on.
    pub(crate) async fn thaw(&self) {
        std::fs::remove_file(self.flag("freeze")).unwrap();
        self.wait().await;
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Everything in its namespaces goes with the first process there.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

pub(crate) fn open_to_all(folder: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
}
