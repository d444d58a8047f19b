//! Where a page is played: a folder instead of a machine, free ports instead of the usual ones, and a
//! cluster where the page begins with one.

use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use persys_etcd_host::Host;
use serde_json::Value;
use tempfile::TempDir;

use crate::shell::Shell;

/// Programs of the machine itself.
const SYSTEM: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What runs containers.
#[allow(dead_code, reason = "each suite has one of them")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runtime {
    Sim,
    Docker,
}

/// A machine for one page.
pub(crate) struct Stage {
    pub(crate) shell: Shell,
    runtime: Runtime,
    folder: TempDir,
    /// What stands on the page, and what is meant here.
    meant: Vec<(String, String)>,
    /// Images that were made for it.
    images: Vec<&'static str>,
    /// An etcd, from when a page first needs one.
    etcd: Option<(tokio::runtime::Runtime, Host)>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        // What went on in the background by itself is not of our shell.
        if self.home().join("dev").join("cluster").exists() {
            let mut down = Command::new(env!("CARGO_BIN_EXE_persys"));
            down.args(["dev", "down"]).env("PERSYS_HOME", self.home());
            drop(down.output());
        }
        if !self.images.is_empty() {
            drop(Command::new("docker").args(["rmi", "--force"]).args(&self.images).output());
        }
    }
}

/// A port nobody has at the moment.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Stage {
    /// A machine, and on it a cluster with these nodes beside its own, if a page begins with one.
    pub(crate) fn set(nodes: Option<&[String]>, runtime: Runtime) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        let desk = folder.path().join("desk");
        for made in [&home, &desk, &folder.path().join("etc/persys")] {
            fs::create_dir_all(made).unwrap();
        }
        let (grpc, http, enrol, dns) = (free_port(), free_port(), free_port(), free_port());
        let (inner, public) = (free_port(), free_port());
        let shell = Shell::start(
            &desk,
            &variables(folder.path(), runtime, &{
                [
                    ("GRPC_PORT", grpc.to_string()),
                    ("METRICS_PORT", http.to_string()),
                    ("PERSYS_ENROL_PORT", enrol.to_string()),
                    ("PERSYS_DNS_PORT", dns.to_string()),
                    ("PERSYS_GATEWAY_HTTP_ADDR", format!("127.0.0.1:{inner}")),
                    ("PERSYS_GATEWAY_HTTP_ADDR_PUBLIC", format!("127.0.0.1:{public}")),
                ]
            }),
        );
        let mut stage =
            Self { shell, runtime, folder, meant: Vec::new(), images: Vec::new(), etcd: None };
        stage.mean_folders();
        stage.mean_ports(grpc, http, enrol, dns);
        stage.mean_gateway(inner, public);
        if runtime == Runtime::Docker {
            stage.make_images();
        }
        if let Some(nodes) = nodes {
            stage.start_cluster(nodes);
        }
        stage
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(crate) fn is_live(&self) -> bool {
        self.runtime == Runtime::Docker
    }

    fn means(&mut self, page: impl Into<String>, here: impl Into<String>) {
        self.meant.push((page.into(), here.into()));
    }

    fn mean_folders(&mut self) {
        let here = self.folder.path().display().to_string();
        for folder in ["/var/lib/persys", "/etc/persys"] {
            self.means(folder, format!("{here}{folder}"));
        }
        self.means("~/.persys", self.home().display().to_string());
    }

    fn mean_ports(&mut self, grpc: u16, http: u16, enrol: u16, dns: u16) {
        for host in ["s1", "localhost", "127.0.0.1", "10.0.0.1"] {
            for (usual, port) in [(8085, grpc), (8084, http), (8086, enrol)] {
                self.means(format!("{host}:{usual}"), format!("127.0.0.1:{port}"));
            }
        }
        self.means("127.0.0.1 -p 5353", format!("127.0.0.1 -p {dns}"));
    }

    fn mean_gateway(&mut self, inner: u16, public: u16) {
        for host in ["localhost", "127.0.0.1", "g1"] {
            self.means(format!("{host}:8551"), format!("127.0.0.1:{inner}"));
            self.means(format!("{host}:8585"), format!("127.0.0.1:{public}"));
        }
    }

    /// What is meant here by a text of the page.
    pub(crate) fn meant(&mut self, text: &str) -> String {
        if text.contains("e1:2379") {
            self.start_etcd();
        }
        let mut text = text.to_owned();
        for (page, here) in &self.meant {
            text = text.replace(page, here);
        }
        text
    }

    /// Writes a file of the page.
    pub(crate) fn write(&mut self, name: &str, text: &str) {
        let path = self.folder.path().join("desk").join(self.meant(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = self.meant(text);
        fs::write(path, text).unwrap();
    }

    /// What those in the background said last, for who has to find out.
    pub(crate) fn told(&self) -> String {
        let mut told = String::new();
        for entry in fs::read_dir(self.folder.path().join("desk")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.starts_with(".beside-") {
                let text = fs::read_to_string(&path).unwrap();
                let lines: Vec<_> = text.lines().collect();
                let tail = &lines[lines.len().saturating_sub(8)..];
                writeln!(told, "--- {name}\n{}", tail.join("\n")).unwrap();
            }
        }
        told
    }

    /// Images under the names the pages use, where nobody has them: a small web server for all.
    fn make_images(&mut self) {
        let file = "FROM persys-test/busybox:1\nRUN mkdir -p /www && echo hello >/www/index.html\n\
                    CMD [\"httpd\", \"-f\", \"-p\", \"80\", \"-h\", \"/www\"]\n";
        for image in ["nginx:1.27", "nginx:latest", "redis:7"] {
            if self.shell.types(&format!("docker image inspect {image}"), None).0 == 0 {
                continue;
            }
            let (code, printed) =
                self.shell.types(&format!("docker build -t {image} -"), Some(file));
            assert_eq!(code, 0, "{printed}");
            self.images.push(image);
        }
    }

    /// One etcd stands for all the page names.
    fn start_etcd(&mut self) {
        if self.etcd.is_some() {
            return;
        }
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let host = runtime.block_on(Host::one());
        let at = host.endpoints().join(",");
        self.means("e1:2379,e2:2379,e3:2379", at.clone());
        self.means("e1:2379", at);
        self.etcd = Some((runtime, host));
    }

    /// Everything in one process, and further nodes that join as any node does.
    fn start_cluster(&mut self, nodes: &[String]) {
        let ports = "--port 0 --http 0 --agent-port 0 --dns-port 0 --enrol-port 0 --gateway-port 0";
        let line = format!("persys dev --runtime sim {ports}");
        self.shell.leaves(&line, "Ctrl-C stops it").unwrap();
        let note = fs::read_to_string(self.home().join("dev/dev.json")).unwrap();
        let note: Value = serde_json::from_str(&note).unwrap();
        let port = |key: &str| port_of(note[key].as_str().unwrap());
        self.meant.clear();
        self.mean_folders();
        self.mean_ports(port("grpc"), port("http"), port("enrol"), port("dns"));
        let dashboard = note["dashboard"].as_str().unwrap();
        let public = dashboard.split("//").nth(1).unwrap().split('/').next().unwrap();
        self.mean_gateway(0, port_of(public));
        for node in nodes {
            let state = self.folder.path().join(node);
            let line = format!(
                "$(persys token create) --node {node} --state '{}' -- --runtime sim --admit-percent 0 --admit-disk-percent 0",
                state.display()
            );
            self.shell.leaves(&line, "this machine is").unwrap();
        }
        for node in nodes {
            let ready =
                format!("until persys nodes | grep -q '^{node} .*Ready'; do sleep 0.1; done");
            assert_eq!(self.shell.types(&ready, None).0, 0, "{node}");
        }
    }
}

fn port_of(address: &str) -> u16 {
    address.rsplit(':').next().unwrap().parse().unwrap()
}

fn variables(folder: &Path, runtime: Runtime, ports: &[(&str, String)]) -> Vec<(String, String)> {
    let program = Path::new(env!("CARGO_BIN_EXE_persys")).parent().unwrap();
    let home = folder.join("home").display().to_string();
    let mut variables = vec![
        ("PATH", format!("{}:{SYSTEM}", program.display())),
        ("HOME", home.clone()),
        ("PERSYS_HOME", home),
        ("PERSYS_STATE_DIR", folder.join("var/lib/persys/scheduler").display().to_string()),
        ("PERSYS_CA_DIR", folder.join("var/lib/persys/scheduler/ca").display().to_string()),
        // Agents and further schedulers take any port.
        ("PERSYS_GRPC_PORT", "0".to_owned()),
        ("PERSYS_METRICS_PORT", "0".to_owned()),
        ("LANG", "C.UTF-8".to_owned()),
        ("NO_COLOR", "1".to_owned()),
    ];
    variables.push(match runtime {
        Runtime::Sim => ("RUNTIME", "sim".to_owned()),
        Runtime::Docker => ("RUNTIME", "docker".to_owned()),
    });
    if let Ok(host) = std::env::var("DOCKER_HOST") {
        variables.push(("DOCKER_HOST", host));
    }
    variables.extend_from_slice(ports);
    variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
