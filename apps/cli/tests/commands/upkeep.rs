//! Looking on, before an upgrade, and the pages of the program itself.

use std::collections::BTreeSet;

use persys_identity::{Authority, ClusterName, TrustDomain};

use crate::rig::{Rig, tell, world};

#[tokio::test(flavor = "multi_thread")]
async fn one_picture_of_the_cluster_is_printed_where_no_terminal_is() {
    let mut rig = Rig::start().await;
    rig.types("run web --name web").await.ended(0);
    for line in ["top --once", "top"] {
        let told = rig.types(line).await.ended(0);
        assert!(told.out.starts_with("cluster test  normal  leader "), "{told:?}");
        assert!(told.out.contains("1 node (1 ready)  1 workload: 1 running"), "{told:?}");
        let row = |id: &str| told.out.lines().find(|line| line.starts_with(id)).unwrap().to_owned();
        assert!(row("n1 ").contains("Ready") && row("n1 ").contains('·'), "{told:?}");
        assert!(row("web ").contains("Running") && row("web ").contains("n1"), "{told:?}");
        assert!(!told.out.contains("q end"), "nobody can press a key: {told:?}");
    }
    let json = rig.types("top --once -o json").await.ended(0).json();
    assert_eq!(json["standing"]["mode"], "normal");
    assert_eq!(json["nodes"][0]["node_id"], "n1");
    assert_eq!(json["workloads"][0]["workload_id"], "web");
    rig.stop_scheduler().await;
    let told = rig.types("top --once").await.ended(1);
    assert!(told.err.contains("error: the cluster cannot be looked at"), "{told:?}");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn before_an_upgrade_everything_is_looked_at() {
    let mut rig = Rig::start().await;
    rig.types("run web --name web").await.ended(0);
    let own = env!("CARGO_PKG_VERSION");
    let told = rig.types("node get n1").await.ended(0);
    assert!(told.out.contains(&format!("agent      {own}\n")), "{told:?}");

    let told = rig.types("upgrade-check").await.ended(0);
    assert!(told.out.contains(&format!("ok    agents      all on {own}\n")), "{told:?}");
    assert!(told.out.contains("warn  snapshot    none was named"), "{told:?}");
    let file = rig.path("before.snapshot");
    rig.types(&format!("snapshot save {file}")).await.ended(0);
    let line = format!("upgrade-check --snapshot {file}");
    let told = rig.types(&line).await.ended(0);
    assert!(told.out.contains("records are understood"), "{told:?}");
    assert!(told.out.ends_with(&format!("Nothing stands in the way of {own}.\n")), "{told:?}");

    // A copy from a release to come.
    let bytes = std::fs::read(&file).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.contains("\"v\":1"), "records have their version");
    let cut = rig.file("cut.snapshot", &text[..text.len() / 2]);
    let json = rig.types(&format!("upgrade-check --snapshot {cut} -o json")).await.ended(1).json();
    assert_eq!(json["blocked"], true);
    let findings = json["findings"].as_array().unwrap();
    let snapshot = findings.iter().find(|one| one["subject"] == "snapshot").unwrap();
    assert_eq!(snapshot["verdict"], "blocking", "{snapshot}");

    // A root that is being replaced.
    let folder = rig.folder.path().join("another-ca");
    let now = std::time::SystemTime::now();
    let (domain, name) =
        (TrustDomain::new("persys.local").unwrap(), ClusterName::new("test").unwrap());
    let authority = Authority::open_or_create(&folder, &domain, &name, now).unwrap();
    let line = format!("{line} --ca-dir {}", folder.display());
    rig.types(&line).await.ended(0);
    authority.prepare(now).unwrap();
    let told = rig.types(&line).await.ended(1);
    assert!(told.out.contains("STOP  authority   its root is being replaced"), "{told:?}");
    assert!(told.out.contains("Do not install"), "{told:?}");

    rig.stop_scheduler().await;
    let told = rig.types("upgrade-check").await.ended(1);
    assert!(told.out.contains("STOP  schedulers  none answers: "), "{told:?}");
    assert!(told.out.contains("nobody listens there"), "{told:?}");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_has_a_manual_page() {
    fn names(command: &clap::Command, name: &str, all: &mut BTreeSet<String>) {
        all.insert(format!("{name}.1"));
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            if inner.get_name() != "help" {
                names(inner, &format!("{name}-{}", inner.get_name()), all);
            }
        }
    }
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("man");
    let told = tell(&world(home.path(), ""), &format!("man --out {}", folder.display())).await;
    let told = told.ended(0);
    let mut wanted = BTreeSet::new();
    names(&persys_cli::command(), "persys", &mut wanted);
    let found: BTreeSet<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(found, wanted);
    assert!(wanted.contains("persys-node-drain.1") && wanted.contains("persys-top.1"));
    assert!(told.out.contains(&format!("{} pages", wanted.len())), "{told:?}");
    let page = std::fs::read_to_string(folder.join("persys-node-drain.1")).unwrap();
    assert!(page.contains("persys node drain") || page.contains("persys\\-node\\-drain"), "{page}");
    assert!(page.contains("Move its work away"), "{page}");
}
