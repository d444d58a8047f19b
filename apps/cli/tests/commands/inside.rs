//! Output of workloads, and commands inside them.

use crate::rig::Rig;

#[tokio::test(flavor = "multi_thread")]
async fn output_is_shown() {
    let rig = Rig::start().await;
    rig.types("run web --name web").await.ended(0);
    let told = rig.types("logs web").await.ended(0);
    assert!(!told.out.is_empty(), "{told:?}");
    let told = rig.types("logs web --tail 1 --since 1h").await.ended(0);
    assert!(told.out.lines().count() <= 1, "{told:?}");
    let told = rig.types("logs web --since yesterday").await.ended(64);
    assert!(told.err.contains("write 10m"), "{told:?}");
    rig.types("logs nobody").await.ended(1);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_inside_tells_its_own_exit_code() {
    let rig = Rig::start().await;
    rig.types("run web --name web").await.ended(0);
    let told = rig.types("exec web -- echo hello").await.ended(0);
    assert!(told.out.contains("hello"), "{told:?}");
    let told = rig.types_with("exec -i web -- cat", "typed\n").await.ended(0);
    assert!(told.out.contains("typed"), "{told:?}");
    rig.types("exec web -- exit 7").await.ended(7);
    let told = rig.types("exec -it web -- sh").await.ended(64);
    assert!(told.err.contains("-t needs a terminal"), "{told:?}");
    rig.types("exec web").await.ended(64);
    rig.stop().await;
}

const BOX: &str = "\
name: box
spec: {vm: {vcpus: 1, memory_mb: 256, os_image: debian-12}}
";

#[tokio::test(flavor = "multi_thread")]
async fn the_console_of_a_machine_is_held_until_it_ends() {
    let rig = Rig::start().await;
    rig.types_with("apply -f -", BOX).await.ended(0);
    let told = rig.types_with("console box", "root\n").await.ended(0);
    assert_eq!(told.out, "root\n", "{told:?}");
    rig.types_with("console box --force", "again\n").await.ended(0);
    rig.types("stop box").await.ended(0);
    let told = rig.types("console box").await.ended(1);
    assert!(told.err.contains("it does not run"), "{told:?}");
    rig.types("run web --name web").await.ended(0);
    let told = rig.types("console web").await.ended(1);
    assert!(told.err.contains("persys exec -it web -- sh"), "{told:?}");
    rig.types("console nobody").await.ended(1);
    rig.stop().await;
}
