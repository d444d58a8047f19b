//! Stop, start, restart, retry, delete; and nodes.

use crate::rig::{Rig, Told, tell};

#[tokio::test(flavor = "multi_thread")]
async fn a_life_by_its_shortened_name() {
    let rig = Rig::start().await;
    rig.types("run web --name a-long-name -p 8080:80").await.ended(0);
    let told = rig.types("stop a-lo").await.ended(0);
    assert!(told.out.starts_with("a-long-name is stopped\n"), "{told:?}");
    assert!(told.err.contains("a-long-name: stopped"), "{told:?}");
    let told = rig.types("start a-long-name").await.ended(0);
    assert!(
        told.out.starts_with("a-long-name runs on node n1\n  http://127.0.0.1:8080\n"),
        "{told:?}"
    );
    rig.types("restart a-long-name").await.ended(0);
    let told = rig.types("delete a-long-name").await.ended(0);
    assert_eq!(told.out, "a-long-name is deleted\n");
    let told = rig.types("list").await.ended(0);
    assert_eq!(told.out, "there are no workloads\n");
    rig.stop().await;
}

/// Types a line where somebody sits at a terminal and answers so.
async fn answering(rig: &Rig, line: &str, answer: &str) -> Told {
    let mut world = rig.world(answer);
    world.in_terminal = true;
    tell(&world, line).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_deletes_takes_whole_ids_and_asks_at_a_terminal() {
    let rig = Rig::start().await;
    rig.types("run web --name shop-web").await.ended(0);
    for line in ["delete shop", "delete shop-we --yes", "rm shop"] {
        let told = rig.types(line).await.ended(1);
        assert!(told.err.contains("did you mean shop-web?"), "{told:?}");
        assert!(told.err.contains("whole ids only"), "{told:?}");
    }
    let told = rig.types("node remove n").await.ended(1);
    assert!(told.err.contains("did you mean n1? this command takes whole ids only"), "{told:?}");

    for answer in ["n\n", "\n", ""] {
        let told = answering(&rig, "delete shop-web", answer).await.ended(1);
        assert!(
            told.err.contains("shop-web on node n1\n  goes   the container (web)\n"),
            "{told:?}"
        );
        assert!(told.err.contains("delete? [y/N] "), "{told:?}");
        assert!(told.err.contains("nothing was deleted"), "{told:?}");
    }
    assert_eq!(rig.types("list -o json").await.json().as_array().map(Vec::len), Some(1));
    let told = answering(&rig, "delete shop-web", "y\n").await.ended(0);
    assert_eq!(told.out, "shop-web is deleted\n");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_of_a_stack_are_kept_shown_and_deleted_by_name() {
    let rig = Rig::start().await;
    let file = "services:\n  db: {image: postgres, volumes: ['data:/data']}\nvolumes: {data: {}}\n";
    let file = rig.file("compose.yml", file);
    let up = format!("apply {file} --id shop");
    rig.types(&up).await.ended(0);
    let told = rig.types("disk list").await.ended(0);
    assert!(told.out.starts_with("there are no disks"), "{told:?}");

    let told = rig.types("delete shop --volumes").await.ended(64);
    assert!(told.err.contains("it takes --yes beside it"), "a script says it twice: {told:?}");
    let told = answering(&rig, "delete shop", "y\n").await.ended(0);
    assert!(
        told.err.contains("  stays  disk compose:shop.data; --volumes deletes it too\n"),
        "{told:?}"
    );
    assert!(told.out.starts_with("shop is deleted; its volumes are kept on n1: compose:shop.data"));
    let told = rig.types("disk list").await.ended(0);
    assert!(told.out.contains("compose:shop.data  Retained  -     n1"), "{told:?}");

    rig.types(&up).await.ended(0);
    let told = rig.types("disk list").await.ended(0);
    assert!(told.out.starts_with("there are no disks"), "taken again: {told:?}");
    rig.types("delete shop").await.ended(0);
    let told = answering(&rig, "disk delete compose:shop.data", "n\n").await.ended(1);
    assert!(told.err.contains("delete disk compose:shop.data and its data? [y/N]"), "{told:?}");
    rig.types("disk delete compose:shop.data").await.ended(0);
    rig.until("disk list", |told| told.out.starts_with("there are no disks")).await;

    rig.types(&up).await.ended(0);
    let told = answering(&rig, "delete shop --volumes", "yes\n").await.ended(0);
    assert!(told.err.contains("  goes   disk compose:shop.data, with its data\n"), "{told:?}");
    rig.until("disk list", |told| told.out.starts_with("there are no disks")).await;
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_at_once_and_none_if_one_is_unknown() {
    let rig = Rig::start().await;
    rig.types("run web --name one").await.ended(0);
    rig.types("run web --name two").await.ended(0);
    let told = rig.types("delete one twoo").await.ended(1);
    assert!(
        told.err.contains("error: there is no workload \"twoo\"\n  why:  did you mean two?"),
        "{told:?}"
    );
    assert_eq!(rig.types("list -o json").await.json().as_array().map(Vec::len), Some(2));
    let told = rig.types("delete one two one -o json").await.ended(0);
    assert_eq!(told.json().as_array().map(Vec::len), Some(2));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_one_is_tried_again() {
    let rig = Rig::start().await;
    rig.types("run fail:IMAGE_NOT_FOUND --name gone").await.ended(3);
    let told = rig.types("retry gone").await.ended(3);
    assert!(told.err.contains("IMAGE_NOT_FOUND"), "{told:?}");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_looked_at_and_changed() {
    let rig = Rig::start().await;
    let told = rig.types("nodes").await.ended(0);
    assert!(told.out.starts_with("NODE  STATUS  WORKLOADS  CPU FREE"), "{told:?}");
    let told = rig.types("node label n1 disk=fast zone-").await.ended(0);
    assert!(told.out.contains("node n1 is labelled"), "{told:?}");
    let json = rig.types("node get n1 -o json").await.ended(0).json();
    assert_eq!(json["labels"]["disk"], "fast");
    rig.types("node taint n1 only=db:NoSchedule").await.ended(0);
    let told = rig.types("run web --name x").await.ended(2);
    assert!(told.err.contains("taint"), "{told:?}");
    rig.types("node untaint n1 only").await.ended(0);
    rig.until("get x -o json", |told| told.json()["workload"]["status"] == "Running").await;
    rig.types("node drain n1 --reason tidy").await.ended(0);
    let told = rig.types("why node/n1").await.ended(0);
    assert!(told.out.contains("n1"), "{told:?}");
    let told = rig.types("nodes -o wide").await.ended(0);
    assert!(told.out.contains("Draining") && told.out.contains("tidy"), "{told:?}");
    rig.types("node undrain n1").await.ended(0);
    let told = rig.types("node remove n1").await.ended(1);
    assert!(told.err.contains("error: node n1 cannot be removed"), "{told:?}");
    let told = rig.types("node label n1 nothing").await.ended(64);
    assert!(told.err.contains("write key=value"), "{told:?}");
    rig.stop().await;
}
