//! A virtual machine from a file that somebody applies, through stops and changes and a dead
//! libvirtd, to a disk that is left because it was never ours.

#[path = "../../../../adapters/runtime/tests/vms/daemon.rs"]
#[allow(dead_code, reason = "the tests of the runtime use more of it")]
mod daemon;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use persys_e2e::engine::Engine;
use persys_e2e::part::{Libvirt, Pace};
use persys_e2e::processes::{Stack, Wish};
use persys_proto::compute::v1 as compute;
use persys_proto::compute::v1::compute_client::ComputeClient;
use persys_proto::control::v1 as api;

use self::daemon::{Daemon, open_to_all};
use crate::lifecycle::only;
use crate::program;
use crate::typed::{done, typed};

/// A guest without hardware help takes its time to boot on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// The image of the tests.
fn guest() -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hack/test-guest");
    let made = Command::new(script).output().expect("hack/test-guest");
    assert!(made.status.success(), "{made:?}: run hack/libvirt-up");
    PathBuf::from(String::from_utf8_lossy(&made.stdout).trim())
}

/// One node with containers and machines, and the libvirtd of its own behind it.
pub(crate) struct Scene {
    pub(crate) stack: Stack,
    pub(crate) daemon: Daemon,
    guest: PathBuf,
}

impl Scene {
    pub(crate) async fn set() -> Self {
        let (guest, daemon) = (guest(), Daemon::start().await);
        for name in ["machines", "pool", "mine"] {
            let path = daemon.folder.join(name);
            std::fs::create_dir_all(&path).unwrap();
            open_to_all(&path);
        }
        daemon.start_network();
        let mut stack = Stack::new(program(), Pace::Product);
        stack.libvirt = Some(Libvirt {
            socket: daemon.socket(),
            images: guest.parent().unwrap().to_owned(),
            folder: daemon.folder.clone(),
        });
        stack.start_scheduler(None).await;
        stack.start_agent("n1", Some(&Engine::shared()), None).await;
        stack.until_ready(1).await;
        let mut scene = Self { stack, daemon, guest };
        scene.until_offered("vm").await;
        scene
    }

    /// Waits until the node takes work of this type.
    async fn until_offered(&mut self, kind: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let nodes = self.stack.client().list_nodes(api::ListNodesRequest::default()).await;
            let nodes = nodes.map(|nodes| nodes.into_inner().nodes).unwrap_or_default();
            let offers = |node: &api::NodeView| {
                node.supported_workload_types.iter().any(|offered| offered == kind)
            };
            if nodes.iter().any(offers) {
                return;
            }
            let what = format!("no node offers {kind}: {nodes:?}");
            self.stack.wait_a_little(deadline, &what).await;
        }
    }

    /// A file that asks for a machine with a disk of ours and one of the user's.
    fn file(&self, id: &str, revision: &str, memory: u32, words: &[&str]) -> String {
        let words: String =
            words.iter().flat_map(|line| ["          #tiny: ", line, "\n"]).collect();
        let mine = self.daemon.folder.join("mine/data.img");
        let image = self.guest.file_stem().unwrap().to_string_lossy();
        format!(
            "workload_id: {id}\nrevision_id: {revision}\nspec:\n  type: vm\n  vm:\n    vcpus: 1\n    \
             memory_mb: {memory}\n    os_image: {image}\n    disk_gb: 1\n    disks:\n      - path: \
             {mine}\n        device: vdb\n        format: raw\n    networks:\n      - network: \
             default\n        dhcp: true\n    cloud_init:\n      user_data: |\n{words}",
            mine = mine.display(),
        )
    }

    /// Waits until the guest has said a fact so many times; gives what it said last.
    async fn fact(&mut self, id: &str, name: &str, times: usize) -> String {
        let deadline = Instant::now() + PATIENCE;
        let wanted = format!("guest: {name}=");
        loop {
            let said = typed(&self.stack, &format!("logs {id}"), "").await;
            // A line that has not ended may still become longer.
            let whole = said.printed.rsplit_once('\n').map_or("", |(whole, _)| whole);
            let facts: Vec<_> = whole.lines().filter_map(|line| line.split_once(&wanted)).collect();
            if let Some((_, fact)) = facts.get(times - 1) {
                return fact.trim().to_owned();
            }
            let what = format!("{name} is not said {times} times: {said:?}");
            self.stack.wait_a_little(deadline, &what).await;
        }
    }

    fn files(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.daemon.folder.join(folder)).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }
}

#[tokio::test]
async fn the_whole_life_of_a_machine() {
    let mut scene = Scene::set().await;
    let id = scene.stack.id("box");
    let mine = scene.daemon.folder.join("mine/data.img");
    std::fs::File::create(&mine).unwrap().set_len(128 << 20).unwrap();

    let words = ["value from-the-seed", "mark vda on-ours", "mark vdb on-mine"];
    let file = scene.file(&id, "r1", 128, &words);
    let printed = done(&scene.stack, "apply -", &file).await;
    assert!(printed.contains("runs on node n1"), "{printed}");
    assert_eq!(scene.fact(&id, "value", 1).await, "from-the-seed");
    assert_eq!(scene.fact(&id, "marked_vda", 1).await, "on-ours");
    assert_eq!(scene.fact(&id, "marked_vdb", 1).await, "on-mine");
    let small: u64 = scene.fact(&id, "memory_kib", 1).await.parse().unwrap();
    let told = scene.fact(&id, "ip_eth0", 1).await;
    let mut client = ComputeClient::new(scene.stack.channel_of("scheduler"));
    let asked = compute::DescribeRequest { workload_id: id.clone(), secrets: false };
    let described = client.describe(asked).await.unwrap().into_inner();
    let inside = described.inside.expect(&described.inside_missing);
    assert_eq!(
        inside.ip_addresses,
        std::slice::from_ref(&told),
        "the guest and its status say the same"
    );
    let shown = done(&scene.stack, &format!("describe {id}"), "").await;
    assert!(shown.contains(&told), "{shown}");

    // The same again is no news, for it and for libvirt.
    let born = scene.daemon.virsh(&["domid", &format!("persys-{id}")]);
    done(&scene.stack, "apply -", &file).await;
    assert_eq!(scene.daemon.virsh(&["domid", &format!("persys-{id}")]), born);

    done(&scene.stack, &format!("stop {id}"), "").await;
    let state = scene.daemon.virsh(&["domstate", &format!("persys-{id}")]);
    assert_eq!(state, "shut off");
    let console = typed(&scene.stack, &format!("logs {id}"), "").await.printed;
    assert!(console.contains("guest: button=off"), "it was asked, not torn down: {console}");
    done(&scene.stack, &format!("start {id}"), "").await;
    assert_eq!(scene.fact(&id, "marker_vda", 2).await, "on-ours");
    assert_eq!(scene.fact(&id, "first_boot", 2).await, "no");

    let larger = scene.file(&id, "r2", 256, &words);
    done(&scene.stack, "apply -", &larger).await;
    let large: u64 = scene.fact(&id, "memory_kib", 3).await.parse().unwrap();
    assert!(large > small + 100 * 1024, "{small} KiB, then {large} KiB");
    assert_eq!(scene.fact(&id, "marker_vda", 3).await, "on-ours");
    assert_eq!(scene.fact(&id, "marker_vdb", 3).await, "on-mine");

    while_libvirt_is_away(&mut scene, &id).await;

    done(&scene.stack, &format!("delete {id}"), "").await;
    scene.stack.delete(&id).await;
    assert_eq!(scene.daemon.virsh(&["list", "--all", "--name"]), "");
    assert_eq!(scene.files("pool"), Vec::<String>::new());
    assert_eq!(scene.files("machines"), Vec::<String>::new());
    assert_eq!(scene.files("mine"), ["data.img"]);
    let kept = std::fs::read(&mine).unwrap();
    assert!(kept.windows(7).any(|bytes| bytes == b"on-mine"), "with what was on it");
}

#[tokio::test]
async fn a_machine_that_cannot_boot_has_failed_with_its_screen_and_its_console() {
    let mut scene = Scene::set().await;
    let id = scene.stack.id("box");
    let mine = scene.daemon.folder.join("mine/data.img");
    std::fs::File::create(&mine).unwrap().set_len(128 << 20).unwrap();
    let file = scene.file(&id, "r1", 128, &["panic"]);
    typed(&scene.stack, "apply - --detach", &file).await;
    let deadline = Instant::now() + 3 * PATIENCE;
    let view = loop {
        let found = scene.stack.look(&id).await;
        match found {
            Ok(Some(view)) if view.status == "Failed" => break view,
            found => {
                let what = format!("it has not failed: {found:?}");
                scene.stack.wait_a_little(deadline, &what).await;
            }
        }
    };
    assert_eq!(view.failure_reason, "VM_BOOT_FAILED", "{view:?}");
    assert_eq!(view.restarts, 2, "three boots: {view:?}");
    let why = done(&scene.stack, &format!("why {id}"), "").await;
    assert!(why.contains("the machine did not boot in 3 attempts"), "{why}");
    assert!(why.contains("Kernel panic"), "the console is told: {why}");
    let screen = why.split_whitespace().find(|word| word.contains("/screen.")).unwrap_or_default();
    let screen = screen.trim_end_matches([';', ',', '.']);
    assert!(std::fs::metadata(screen).is_ok_and(|about| about.len() > 1000), "{screen}: {why}");
    let counted = |page: &str, family: &str| {
        let line = page.lines().find(|line| line.starts_with(family) && line.contains("VM_BOOT"));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).unwrap_or_default()
    };
    let page = crate::secrets::page(&scene.stack, "scheduler", "/metrics").await;
    let failures = counted(&page, "persys_scheduler_workload_failures_total");
    assert!(failures >= 2.0, "the last boot and a restart at least: {failures}");
    scene.stack.delete(&id).await;
}

#[tokio::test]
async fn a_machine_keeps_its_data_on_a_managed_volume() {
    let mut scene = Scene::set().await;
    // Folders above those of the agent are the operator's; those it makes itself it has to open.
    let root = scene.stack.folder_of("n1");
    for folder in [root.parent().unwrap(), &root] {
        let passable = std::os::unix::fs::PermissionsExt::from_mode(0o711);
        std::fs::set_permissions(folder, passable).unwrap();
    }
    let id = scene.stack.id("box");
    let image = scene.guest.file_stem().unwrap().to_string_lossy().into_owned();
    let file = |revision: &str, words: &[&str]| {
        let words: String =
            words.iter().flat_map(|line| ["          #tiny: ", line, "\n"]).collect();
        format!(
            "workload_id: {id}\nrevision_id: {revision}\nspec:\n  type: vm\n  vm:\n    vcpus: 1\n    \
             memory_mb: 128\n    os_image: {image}\n    disk_gb: 1\n    managed_volumes:\n      - name: \
             v-machine\n        driver: local\n        size_gb: 1\n        retain_policy: Retain\n    \
             cloud_init:\n      user_data: |\n{words}"
        )
    };
    let printed = done(&scene.stack, "apply -", &file("r1", &["mark vdb on-the-volume"])).await;
    assert!(printed.contains("runs on node n1"), "{printed}");
    assert_eq!(scene.fact(&id, "marked_vdb", 1).await, "on-the-volume");
    let size: u64 = scene.fact(&id, "disk_vdb", 1).await.parse().unwrap();
    assert_eq!(size, 1 << 30);
    let used = root.join("volumes/images/v-machine.img");
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&used).unwrap());
    assert_eq!(mode & 0o077, 0, "nobody but the emulator looks into it: {mode:o}");
    done(&scene.stack, &format!("stop {id}"), "").await;
    done(&scene.stack, &format!("start {id}"), "").await;
    assert_eq!(scene.fact(&id, "marker_vdb", 2).await, "on-the-volume");

    scene.stack.delete(&id).await;
    assert_eq!(scene.daemon.virsh(&["list", "--all", "--name"]), "");
    assert!(used.exists(), "its policy is to stay");
    done(&scene.stack, "apply -", &file("r2", &["read vdb"])).await;
    assert_eq!(scene.fact(&id, "marker_vdb", 1).await, "on-the-volume");
    scene.stack.delete(&id).await;
}

#[tokio::test]
async fn a_machine_suspended_by_hand_is_resumed_and_one_paused_by_its_user_is_not() {
    let mut scene = Scene::set().await;
    let id = scene.stack.id("box");
    let mine = scene.daemon.folder.join("mine/data.img");
    std::fs::File::create(&mine).unwrap().set_len(128 << 20).unwrap();
    let file = scene.file(&id, "r1", 128, &[]);
    typed(&scene.stack, "apply - --detach", &file).await;
    scene.stack.until_status(&id, "Running").await;
    let domain = format!("persys-{id}");
    let born = scene.daemon.virsh(&["domid", &domain]);

    let begun = Instant::now();
    scene.daemon.virsh(&["suspend", &domain]);
    let view = scene.stack.until_status(&id, "Paused").await;
    assert!(begun.elapsed() < Duration::from_secs(30), "shown after {:?}", begun.elapsed());
    assert_eq!(view.reason.unwrap().code, "FoundPaused");
    scene.stack.until_status(&id, "Running").await;
    assert_eq!(scene.daemon.virsh(&["domstate", &domain]), "running");

    done(&scene.stack, &format!("pause {id}"), "").await;
    assert_eq!(scene.daemon.virsh(&["domstate", &domain]), "paused");
    scene.stack.kill("n1").await;
    scene.stack.start_again("n1").await;
    scene.stack.until_ready(1).await;
    let web = scene.stack.id("web");
    scene.stack.apply(&Wish::runs(&web).request()).await;
    scene.stack.until_status(&web, "Running").await;
    scene.stack.until_status(&id, "Paused").await;
    assert_eq!(scene.daemon.virsh(&["domstate", &domain]), "paused", "nobody resumes it");
    done(&scene.stack, &format!("resume {id}"), "").await;
    assert_eq!(scene.daemon.virsh(&["domstate", &domain]), "running");
    assert_eq!(scene.daemon.virsh(&["domid", &domain]), born, "it was never started anew");
    scene.stack.delete(&web).await;
    scene.stack.delete(&id).await;
}

/// The machine is unknown and left alone; the container beside it is looked after as ever.
async fn while_libvirt_is_away(scene: &mut Scene, machine: &str) {
    const SILENT: &str = "the runtime of its node does not answer";
    let born = scene.daemon.virsh(&["domid", &format!("persys-{machine}")]);
    let web = scene.stack.id("web");
    scene.stack.apply(&Wish::runs(&web).request()).await;
    scene.stack.until_status(&web, "Running").await;

    scene.daemon.kill().await;
    let deadline = Instant::now() + PATIENCE;
    while !done(&scene.stack, &format!("why {machine}"), "").await.contains(SILENT) {
        scene.stack.wait_a_little(deadline, "the machine is not said to be unknown").await;
    }
    let told = done(&scene.stack, &format!("why {web}"), "").await;
    assert!(!told.contains(SILENT), "{told}");
    let container = only(&scene.stack, &web).await;
    Engine::shared().kill(&container.id).await;
    scene.stack.until(&web, |view| view.restarts == 1 && view.status == "Running").await;
    scene.stack.delete(&web).await;
    assert_eq!(Engine::shared().containers(&scene.stack.cluster).await, []);

    scene.daemon.start_again().await;
    let deadline = Instant::now() + PATIENCE;
    while done(&scene.stack, &format!("why {machine}"), "").await.contains(SILENT) {
        scene.stack.wait_a_little(deadline, "the machine is still unknown").await;
    }
    assert_eq!(scene.daemon.virsh(&["domid", &format!("persys-{machine}")]), born, "left alone");
}
