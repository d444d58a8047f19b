//! Bad words, bad files, no scheduler, no certificate.

use crate::rig::{Rig, tell, world};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_understood_ends_with_64() {
    let home = tempfile::tempdir().unwrap();
    for line in [
        "",
        "frobnicate",
        "run",
        "run --what nginx",
        "list -o xml",
        "run nginx --timeout soon",
        "list --endpoint h:99999",
        "get up:per",
        "delete",
        "list --transport http",
        "node taint n1 =x",
        "list --identity a --ca b",
        "recover",
        "logs x --tail 0",
    ] {
        // Whether a certificate is there is looked at only after what was typed.
        let told = tell(&world(home.path(), ""), &format!("{line} --insecure")).await;
        let line = if line.is_empty() { tell(&world(home.path(), ""), "").await } else { told };
        assert_eq!(line.code, 64, "{line:?}");
        assert!(!line.err.is_empty(), "{line:?}");
    }
    let told = tell(
        &world(home.path(), ""),
        "run nginx --name A! -p 99999 -v ./x:/y --cpu much --memory lots -e =x -e NOT_SET --label l --insecure",
    )
    .await
    .ended(64);
    for part in [
        "--name: ",
        "--publish: ",
        "--volume: ",
        "--cpu: ",
        "--memory: ",
        "--env: ",
        "--label: ",
        "NOT_SET",
    ] {
        assert!(told.err.contains(part), "{part} is missing in {}", told.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn help_version_init_and_completion_need_nothing() {
    let home = tempfile::tempdir().unwrap();
    let at = |line: &str| {
        let (world, line) = (world(home.path(), ""), line.to_owned());
        async move { tell(&world, &line).await }
    };
    assert!(at("--help").await.ended(0).out.contains("Exit codes: 0 done"));
    assert!(at("run --help").await.ended(0).out.contains("--publish"));
    assert_eq!(at("version").await.ended(0).out, format!("persys {}\n", env!("CARGO_PKG_VERSION")));
    assert!(at("completion bash").await.ended(0).out.contains("_persys"));
    let file = home.path().join("spec.yaml").display().to_string();
    at(&format!("init {file}")).await.ended(0);
    let told = at(&format!("init {file}")).await.ended(1);
    assert!(told.err.contains("is there already"), "{told:?}");
    assert!(at("init - --type vm").await.ended(0).out.contains("vcpus: 2"));
    let told = at(&format!("apply -f {file} --check")).await.ended(0);
    assert!(told.out.contains("web is sound"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_certificate_it_says_how_to_get_one() {
    let home = tempfile::tempdir().unwrap();
    let told = tell(&world(home.path(), ""), "list").await.ended(1);
    assert!(told.err.contains("error: there is no certificate to show"), "{told:?}");
    assert!(told.err.contains("persys dev"), "{told:?}");
    let told = tell(&world(home.path(), ""), "list --identity /no/such.pem").await.ended(1);
    assert!(told.err.contains("/no/such.pem") && told.err.contains("does not exist"), "{told:?}");
    let told = tell(&world(home.path(), ""), "list --ca a --cert b").await.ended(1);
    assert!(told.err.contains("there is no --key"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_that_is_away_or_says_no() {
    let mut rig = Rig::start().await;
    let told = rig.types("get nobody").await.ended(1);
    assert!(told.err.contains("error: there is no workload \"nobody\"\n  why:  there are no workloads\n  next: persys list\n"), "{told:?}");
    let guest = rig.folder.path().join("guest-user.pem").display().to_string();
    let told = rig.types(&format!("list --identity {guest}")).await.ended(1);
    assert!(told.err.contains("does not allow it: the user guest may not call"), "{told:?}");
    let told = rig.types("list --insecure").await.ended(1);
    assert!(told.err.contains("error: workloads cannot be listed"), "{told:?}");
    rig.stop_scheduler().await;
    let told = rig.types("list").await.ended(1);
    assert!(told.err.contains("error: workloads cannot be listed\n"), "{told:?}");
    assert!(told.err.contains("nobody listens there"), "{told:?}");
    assert!(told.err.contains("persys dev"), "{told:?}");
    let told = rig.types("run web").await.ended(1);
    assert!(told.err.contains("nobody listens there"), "{told:?}");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_address_is_tried_when_nobody_answers_at_one() {
    let rig = Rig::start().await;
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let identity = rig.folder.path().join("admin-operator.pem");
    let at = |endpoints: String| {
        format!("nodes -o json --endpoint {endpoints} --identity {}", identity.display())
    };
    let told = rig.types(&at(format!("{nobody},{}", rig.endpoint))).await.ended(0);
    assert_eq!(told.json().as_array().unwrap().len(), 1);
    let told = rig.types(&at(format!("{nobody},{nobody}"))).await;
    assert_ne!(told.code, 0);
    assert!(told.err.contains("nobody listens there"), "{told:?}");
    assert_eq!(rig.types(&at(format!("{},h:99999", rig.endpoint))).await.code, 64);
    let told = rig.types("status").await.ended(0);
    assert!(told.out.contains("leader"), "{told:?}");
    rig.stop().await;
}
