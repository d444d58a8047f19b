//! Exclusive stacks and machines end at their deadline as exclusive containers do.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command as Process;
use std::sync::Arc;
use std::time::Duration;

use persys_agent::app;
use persys_model::id::PoolName;
use persys_model::inventory::State;
use persys_model::spec::compose::ComposeSource;
use persys_model::spec::secret::Secret;
use persys_model::spec::vm::{CloudInit, DiskFormat, DiskSource, VmDisk};
use persys_model::spec::{Class, ComposeSpec, Kind, VmSpec};
use persys_runtime::Clock;
use persys_runtime::vm::settings::Settings as MachineSettings;
use rustix::process::test_kill_process;

use crate::fence::{LATE_MS, guards, pid};
use crate::node::{
    IMAGE, cluster, config, docker, number, of_kind, order_spec, runs, spawn, until,
};

/// Bringing a stack up takes a good part of this on a busy machine.
const LEASE_MS: u64 = 20_000;
/// What a watchdog gives work that does not end by itself.
const GRACE_MS: u64 = 5_000;

fn stack() -> Kind {
    let file = format!(
        "services: {{web: {{image: '{IMAGE}', restart: always, command: [sh, -c, \"trap 'exit 0' TERM; \
         sleep 1000 & wait\"]}}}}\n"
    );
    Kind::Compose(ComposeSpec {
        source: ComposeSource::Inline(Secret::new(&file)),
        project: None,
        env: BTreeMap::new(),
        host_ports: Vec::new(),
        has_named_volumes: false,
    })
}

/// A machine without a system: it runs, and finds nothing to boot.
fn machine() -> Kind {
    Kind::Vm(VmSpec {
        name: None,
        vcpus: 1,
        memory_mib: 32,
        disks: vec![VmDisk {
            device: Arc::from("vda"),
            source: DiskSource::Pool { pool: None, size_gib: 1 },
            format: DiskFormat::Qcow2,
            cdrom: false,
            boot: true,
            backing_file: None,
        }],
        networks: Vec::new(),
        cloud_init: CloudInit::default(),
        os_image: None,
        managed_volumes: Vec::new(),
        metadata: BTreeMap::new(),
    })
}

/// The agent that is killed.
pub(crate) async fn agent(state: &Path, cluster: &str) {
    let mut config = config(state, cluster, true);
    config.settings.fence_ms = LEASE_MS;
    let mut machines = MachineSettings::default();
    machines.storage.home = state.join("machines");
    machines.storage.pools = [(PoolName::fixed("default"), state.join("pool"))].into();
    config.machines = Some(machines);
    let agent = app::start(config).await.unwrap();
    std::fs::write(state.join("http"), agent.http.unwrap().to_string()).unwrap();
    for (name, epoch, kind) in [("pair", 5, stack()), ("box", 6, machine())] {
        let spec = of_kind(kind, Class::Exclusive);
        order_spec(&agent, &format!("{cluster}-{name}"), epoch, Some(spec)).await;
    }
    loop {
        let held = agent.handle.read(|agent, _| agent.inventory().held).await.unwrap();
        for held in held {
            assert!(!matches!(held.report.state, State::Failed(_)), "{:?}", held.report);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn virsh(words: &[&str]) -> String {
    let output = Process::new("virsh").args(["-q", "-c", "qemu:///system"]).args(words).output();
    let output = output.expect("virsh: run hack/libvirt-up");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

pub(crate) fn story() {
    let dir = tempfile::tempdir().unwrap();
    let (state, cluster) = (dir.path(), cluster("kinds"));
    // The emulator runs as another user.
    for folder in ["", "machines", "pool"] {
        std::fs::create_dir_all(state.join(folder)).unwrap();
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(state.join(folder), open).unwrap();
    }
    let (pair, cube) = (format!("persys-{cluster}-pair_web_1"), format!("persys-{cluster}-box"));
    let machine_runs = || virsh(&["domstate", &cube]) == "running";

    let mut agent = spawn(state, &cluster, "kinds");
    let watchdog = guards(state);
    until("both run", || {
        assert!(agent.try_wait().unwrap().is_none(), "the agent says what is wrong");
        (runs(&pair) && machine_runs()).then_some(())
    });
    agent.kill().unwrap();
    agent.wait().unwrap();
    let clock = Clock::since_boot();
    let deadline = number(state, "lease", "fence_at_ms").unwrap();
    assert!(
        clock.now().0 >= deadline || (runs(&pair) && machine_runs()),
        "not before its deadline"
    );
    until("the end of exclusive work", || (!runs(&pair) && !machine_runs()).then_some(()));
    let now = clock.now().0;
    assert!(now >= deadline, "stopped {} ms early", deadline - now);
    // It has no system that could hear, so all of its grace passes before it is ended.
    assert!(now < deadline + LATE_MS + GRACE_MS, "stopped {} ms late", now - deadline);
    until("the watchdog has ended", || test_kill_process(pid(watchdog)).is_err().then_some(()));

    let gone = docker(&["rm", "-f", "-v", &pair]);
    assert!(gone.status.success(), "{gone:?}");
    docker(&["network", "rm", &format!("persys-{cluster}-pair_default")]);
    virsh(&["undefine", &cube]);
}
