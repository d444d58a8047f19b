//! One Docker, one scheduler, one agent, and whoever types.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use persys_cli::context::{self, Context};
use persys_cli::world::World;
use persys_e2e::daemon::{Daemon, Kind};
use persys_e2e::engine::{Engine, IMAGE};
use persys_e2e::part::Pace;
use persys_e2e::processes::Stack;
use persys_proto::control::v1 as api;

/// The image that stands in for all others: it stays until it is asked to end, whatever it is told to
/// do, and says that all is well when it is asked.
const STAND_IN: &str = "persys-test/stand-in:1";
const MADE: &str = "printf '#!/bin/sh\\ntrap \"exit 0\" TERM INT\\nwhile :; do sleep 1000 & wait $!; done\\n' >/stand-in; \
    printf '#!/bin/sh\\nexit 0\\n' >/bin/well; chmod +x /stand-in /bin/well; \
    mkdir -p /opt/mssql-tools/bin; \
    for name in /bin/mysqladmin /bin/pg_isready /bin/curl /opt/mssql-tools/bin/sqlcmd; \
    do ln -s /bin/well $name; done; echo 'postgres:x:70:70::/:/bin/sh' >>/etc/passwd";

/// What files with secrets hold, in all of the corpus.
const PASSWORD: &str = "db-q5n2g";
/// The namespace in which an operator allows the socket of Docker.
const INFRA: &str = "infra";

pub(crate) struct Lane {
    // Before the daemon: its processes end first.
    stack: Stack,
    engine: Engine,
    home: tempfile::TempDir,
    _daemon: Daemon,
}

/// What a command came to.
struct Said {
    code: u8,
    printed: String,
    remarked: String,
}

impl Lane {
    pub(crate) async fn start() -> Self {
        let daemon = Daemon::start(Kind::Apart);
        let engine = Engine::at(daemon.host());
        engine.docker(&["run", "--name", "made", IMAGE, "sh", "-c", MADE]);
        engine.docker(&["commit", "--change", "ENTRYPOINT [\"/stand-in\"]", "made", STAND_IN]);
        engine.docker(&["rm", "made"]);
        let program = Path::new(env!("CARGO_BIN_EXE_node"));
        let mut stack = Stack::new(program, Pace::Product);
        stack.start_scheduler(None).await;
        stack.start_agent("n1", Some(&engine), None).await;
        stack.until_ready(1).await;
        let home = tempfile::tempdir().expect("a folder");
        let mut lane = Self { stack, engine, home, _daemon: daemon };
        lane.until_stacks_are_offered().await;
        let allowed = "namespace set infra --allow-host-path /var/run/docker.sock";
        assert_eq!(lane.typed(allowed).await.code, 0);
        lane
    }

    async fn until_stacks_are_offered(&mut self) {
        let deadline = Instant::now() + Duration::from_mins(1);
        loop {
            let nodes = self.stack.client().list_nodes(api::ListNodesRequest::default()).await;
            let nodes = nodes.map(|nodes| nodes.into_inner().nodes).unwrap_or_default();
            let mut kinds = nodes.iter().flat_map(|node| &node.supported_workload_types);
            if kinds.any(|kind| kind == "compose") {
                return;
            }
            self.stack.wait_a_little(deadline, "no node offers stacks").await;
        }
    }

    /// Types a command, with the Docker of this lane at hand.
    async fn typed(&self, line: &str) -> Said {
        let here = self.home.path();
        let context = Context {
            endpoint: self.stack.address_of("scheduler").to_string(),
            identity: Some(self.stack.operator_file()),
            insecure: false,
            note: None,
        };
        context::write(here, "here", &context).expect("a context");
        context::choose(here, "here").expect("a context");
        let env = BTreeMap::from([
            ("PERSYS_HOME".to_owned(), here.display().to_string()),
            ("HOME".to_owned(), here.display().to_string()),
            ("DOCKER_HOST".to_owned(), self.engine.host.clone()),
        ]);
        let world = World::kept(env, b"");
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let code = persys_cli::run_in(&world, "persys", words, Vec::new()).await;
        Said { code, printed: world.printed(), remarked: world.remarked() }
    }

    /// Runs one project and removes it; what was seen of it.
    pub(crate) async fn project(&mut self, folder: &Path, withheld: bool) -> String {
        let begun = Instant::now();
        let name = folder.file_name().expect("a name").to_string_lossy().to_lowercase();
        let folder = folder.display();
        let checked = self.typed(&format!("compose check {folder} -o json")).await;
        let told: serde_json::Value = serde_json::from_str(&checked.printed).expect("JSON");
        for image in told["images"].as_array().expect("images") {
            self.engine.docker(&["tag", STAND_IN, image.as_str().expect("a name")]);
        }
        let id = self.stack.id(&name);
        let mut line = format!("apply {folder} --id {id}");
        for built in told["built"].as_array().into_iter().flatten() {
            let service = built.as_str().expect("a service");
            self.engine.docker(&["tag", STAND_IN, &format!("{id}-{service}")]);
        }
        if withheld {
            let refused = self.typed(&line).await;
            assert_eq!(refused.code, 1, "{name}: {}", refused.printed);
            let sentence = "--allow-host-path /var/run/docker.sock";
            assert!(refused.remarked.contains(sentence), "{name}: {}", refused.remarked);
            assert!(refused.remarked.contains("withheld-paths"), "{name}: {}", refused.remarked);
            line.push_str(&format!(" --namespace {INFRA}"));
        }
        let said = self.typed(&line).await;
        assert_eq!(said.code, 0, "{name}: {}\n{}", said.printed, said.remarked);
        let containers = self.engine.containers(&self.stack.cluster).await;
        let services = told["services"].as_array().expect("services").len();
        assert_eq!(containers.len(), services, "{name}: {containers:?}");
        assert!(containers.iter().all(|one| one.running), "{name}: {containers:?}");
        for process in ["scheduler", "n1"] {
            let folder = self.stack.folder_of(process);
            assert_eq!(with(&folder, PASSWORD), Vec::<PathBuf>::new(), "{name}: in clear text");
        }
        let seen = self.seen(&told, &containers.iter().map(|c| c.id.as_str()).collect::<Vec<_>>());
        // Applied again as it is, nothing is another revision.
        let before = self.revision(&id).await;
        assert_eq!(self.typed(&line).await.code, 0, "{name}: a second time");
        assert_eq!(self.revision(&id).await, before, "{name}: nothing has changed");
        self.stack.delete(&id).await;
        assert!(self.engine.containers(&self.stack.cluster).await.is_empty(), "{name}");
        let kept = self.stack.folder_of("n1");
        assert!(!holds(&kept, &id), "{name}: something of it is left in {}", kept.display());
        let how = if withheld { "allowed, runs" } else { "runs" };
        format!("{how}: {services} containers, {seen} in {:.1?}", begun.elapsed())
    }

    async fn revision(&self, id: &str) -> String {
        let request = api::GetWorkloadRequest { workload_id: id.to_owned() };
        let found = self.stack.client().get_workload(request).await.expect("the workload");
        found.into_inner().workload.expect("the workload").revision_id
    }

    /// Looks inside the services for what was sent along; how much of it there was.
    fn seen(&self, told: &serde_json::Value, containers: &[&str]) -> String {
        let mut found = 0;
        let wanted = told["contents"].as_array().into_iter().flatten().collect::<Vec<_>>();
        for content in &wanted {
            let (service, target) = (&content["service"], content["target"].as_str().expect("it"));
            for id in containers {
                let label = "{{index .Config.Labels \"com.docker.compose.service\"}}";
                let of = self.engine.docker(&["inspect", "--format", label, id]);
                if Some(of.trim()) != service.as_str() {
                    continue;
                }
                let words = ["exec", id, "find", target, "-type", "f"];
                let files = self.engine.docker(&words).lines().count();
                assert_eq!(Some(files as u64), content["files"].as_u64(), "{content} of {service}");
                found += files;
            }
        }
        format!("{found} files that were sent along")
    }
}

/// Files in which a text stands.
fn with(folder: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(with(&path, text));
        } else if String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_default()).contains(text)
        {
            found.push(path);
        }
    }
    found
}

/// Whether a folder of stacks is still there.
fn holds(folder: &Path, id: &str) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| {
        let path = entry.path();
        entry.file_name() == *id || (path.is_dir() && holds(&path, id))
    })
}
