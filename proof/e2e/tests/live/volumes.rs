//! Data outlives what runs on it: updates, a restart of the agent, and by its policy the workload.

use std::path::Path;

use persys_e2e::engine::Engine;
use persys_e2e::part::Pace;
use persys_e2e::processes::{Stack, Wish};
use persys_proto::control::v1::ManagedVolumeSpec;

use crate::lifecycle::only;
use crate::program;
use crate::typed::{done, typed};

/// Says how often it was begun, by what is in its volume.
const COUNTS: &str = "trap 'exit 0' TERM; n=$(cat /data/n 2>/dev/null || echo 0); \
                      echo $((n + 1)) > /data/n; sleep 1000 & wait";

fn wish(id: &str, volume: &str, policy: &str, script: &str) -> Wish {
    let mut wish = Wish::shell(id, script);
    wish.container.managed_volumes = vec![ManagedVolumeSpec {
        name: volume.to_owned(),
        driver: "local".to_owned(),
        size_gb: 1,
        mount_path: "/data".to_owned(),
        retain_policy: policy.to_owned(),
        ..ManagedVolumeSpec::default()
    }];
    wish
}

async fn inside(stack: &Stack, id: &str, command: &[&str]) -> String {
    let container = only(stack, id).await.id;
    let args: Vec<_> = ["exec", &container].iter().chain(command).copied().collect();
    Engine::shared().docker(&args).trim().to_owned()
}

/// Waits until the container has written this count: it runs a moment before it has.
async fn until_counted(stack: &mut Stack, id: &str, count: &str) {
    let deadline = std::time::Instant::now() + persys_e2e::processes::PATIENCE;
    loop {
        let seen = inside(stack, id, &["cat", "/data/n"]).await;
        if seen == count {
            return;
        }
        stack.wait_a_little(deadline, &format!("counted {seen:?}, not {count}")).await;
    }
}

/// Whether there is data of `volume` in the node's folder.
fn kept(root: &Path, volume: &str) -> bool {
    root.join("volumes/images").join(format!("{volume}.img")).exists()
        || root.join("volumes/folders").join(volume).exists()
}

#[tokio::test]
async fn data_survives_updates_and_the_agent_and_goes_by_its_policy() {
    let mut stack = Stack::on_docker(program(), Pace::Product).await;
    let root = stack.folder_of("n1");
    let (gone, stays) = (stack.id("gone"), stack.id("stays"));
    for (id, volume, policy) in [(&gone, "v-gone", "Delete"), (&stays, "v-stays", "Retain")] {
        stack.apply(&wish(id, volume, policy, COUNTS).request()).await;
        stack.until_status(id, "Running").await;
    }
    for revision in ["r2", "r3", "r4"] {
        for (id, volume, policy) in [(&gone, "v-gone", "Delete"), (&stays, "v-stays", "Retain")] {
            let wish = wish(id, volume, policy, COUNTS).revised(revision);
            stack.apply(&wish.request()).await;
            stack.until(id, |view| view.status == "Running" && view.revision_id == revision).await;
        }
    }
    for id in [&gone, &stays] {
        until_counted(&mut stack, id, "4").await;
    }
    stack.kill("n1").await;
    stack.start_again("n1").await;
    let (id, before) = (&gone, only(&stack, &gone).await.id);
    stack.apply(&wish(id, "v-gone", "Delete", COUNTS).revised("r5").request()).await;
    stack.until(id, |view| view.status == "Running" && view.revision_id == "r5").await;
    assert_ne!(only(&stack, id).await.id, before);
    until_counted(&mut stack, id, "5").await;
    assert!(kept(&root, "v-gone") && kept(&root, "v-stays"));

    stack.delete(&gone).await;
    stack.delete(&stays).await;
    assert!(!kept(&root, "v-gone"), "its policy is to go with its workload");
    assert!(kept(&root, "v-stays"), "its policy is to stay");

    // It is there for the next one, and goes when somebody says so who means the data.
    let next = stack.id("next");
    stack.apply(&wish(&next, "v-stays", "Retain", COUNTS).request()).await;
    stack.until_status(&next, "Running").await;
    until_counted(&mut stack, &next, "5").await;
    let refused = typed(&stack, "disk delete v-stays", "").await;
    assert!(refused.code != 0 && kept(&root, "v-stays"), "{refused:?}");
    stack.delete(&next).await;
    assert!(kept(&root, "v-stays"));
    done(&stack, "disk delete v-stays", "").await;
    let deadline = std::time::Instant::now() + persys_e2e::processes::PATIENCE;
    while kept(&root, "v-stays") {
        stack.wait_a_little(deadline, "the data of a deleted disk is still there").await;
    }
}

#[tokio::test]
async fn a_workload_cannot_write_more_than_its_volume_holds() {
    let mut stack = Stack::on_docker(program(), Pace::Product).await;
    let id = stack.id("greedy");
    // Most of it is only taken, which spares the disk of whoever runs this; the rest is written.
    let script = "trap 'exit 0' TERM; fallocate -l 900M /data/taken; \
                  dd if=/dev/zero of=/data/x bs=1M count=300 2>/said; echo $? > /rc; sleep 1000 & wait";
    stack.apply(&wish(&id, "v-greedy", "Delete", script).request()).await;
    stack.until_status(&id, "Running").await;
    let deadline = std::time::Instant::now() + persys_e2e::processes::PATIENCE;
    while inside(&stack, &id, &["sh", "-c", "cat /rc 2>/dev/null || true"]).await.is_empty() {
        stack.wait_a_little(deadline, "it was never told that its volume is full").await;
    }
    assert_ne!(inside(&stack, &id, &["cat", "/rc"]).await, "0");
    let said = inside(&stack, &id, &["cat", "/said"]).await;
    assert!(said.contains("No space left"), "{said}");
    let size: u64 = inside(&stack, &id, &["sh", "-c", "wc -c < /data/x"]).await.parse().unwrap();
    assert!(size < 124 * 1024 * 1024, "{size}");
    stack.delete(&id).await;
}

#[tokio::test]
async fn a_driver_no_node_has_is_said_while_it_waits() {
    let mut stack = Stack::on_docker(program(), Pace::Product).await;
    let id = stack.id("far");
    let mut wish = wish(&id, "v-far", "Delete", COUNTS);
    "nfs".clone_into(&mut wish.container.managed_volumes[0].driver);
    stack.apply(&wish.request()).await;
    let view = stack.until(&id, |view| !view.why.is_empty()).await;
    assert_eq!(view.status, "Pending");
    assert!(view.why.contains("storage driver nfs"), "{}", view.why);
    stack.delete(&id).await;
}
