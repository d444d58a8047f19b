//! Compose files: looked at without a cluster, and applied as they are.

use crate::rig::{Rig, tell, world};

const GOOD: &str = "\
version: '3'
services:
  web:
    image: nginx:${TAG}
    container_name: mine
    ports: ['8080:80']
    volumes: ['data:/data']
    environment:
      - PASSWORD
volumes:
  data:
";

const BAD: &str = "\
services:
  web:
    image: a
    cgroup_parent: /
    volumes: ['/var/run/docker.sock:/s', './x:/x', 'y:z']
";

#[tokio::test]
async fn every_key_is_told_of_without_a_cluster() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("My Shop");
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join("docker-compose.yml");
    std::fs::write(&path, GOOD).unwrap();
    std::fs::write(folder.join(".env"), "TAG=1.27\nUNUSED=x\n").unwrap();
    let world = || world(home.path(), GOOD);
    let checked = |options: &'static str| {
        let (world, path) = (world(), path.display().to_string());
        async move {
            let mut words = vec!["compose", "check", path.as_str()];
            words.extend(options.split_whitespace());
            crate::rig::tell_words(&world, &words).await
        }
    };
    let told = checked("--env PASSWORD=hunter2 -o wide").await.ended(0);
    for part in [
        "LINE  KEY ",
        "services.web.container_name",
        "changed   containers are named after the workload and the service",
        "ignored   files of every version are read alike",
        "5 honoured, 1 changed, 1 ignored, 0 refused",
        "it can run",
        "ports of the node: 8080/tcp",
        "volumes that are kept: data",
    ] {
        assert!(told.out.contains(part), "{part} is missing in {}", told.out);
    }
    assert!(!told.out.contains("hunter2"), "{}", told.out);
    let told = checked("-o json").await.ended(0).json();
    assert_eq!(told["can_run"], true);
    assert_eq!(told["images"][0], "nginx:1.27");
    assert_eq!(told["host_ports"][0]["port"], 8080);
    let pass = &told["findings"].as_array().unwrap().iter().find(|f| f["line"] == 9).unwrap();
    assert_eq!(pass["verdict"], "changed");

    // Typed in, there is no folder and so no variable: the image has an empty tag.
    let told = tell(&world(), "compose check -").await.ended(1);
    assert!(told.out.contains("the variable TAG is not given"), "{}", told.out);
    assert!(told.out.contains("it cannot run: mend what is refused"), "{}", told.out);
    let told = tell(&crate::rig::world(home.path(), BAD), "compose check - -o json").await.ended(1);
    let words: Vec<_> = told.json()["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| format!("{} {}", one["line"], one["verdict"].as_str().unwrap()))
        .collect();
    assert_eq!(
        words,
        ["3 honoured", "4 refused", "5 withheld", "5 refused", "5 refused"],
        "{}",
        told.out
    );
    assert!(told.out.contains("what is typed has no folder; name the file"), "{}", told.out);
    tell(&world(), "compose check /does/not/exist").await.ended(1);
    tell(&world(), "compose check - --env =x").await.ended(64);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compose_file_is_applied_as_it_is() {
    let rig = Rig::start().await;
    let file = rig.file("docker-compose.yml", GOOD);
    rig.file(".env", "TAG=1.27\n");
    rig.types(&format!("apply {file} --id shop -e PASSWORD=hunter2 --detach")).await.ended(0);
    let told = rig.types("get shop --secrets -o json").await.ended(0).json();
    let compose = &told["spec"]["compose"];
    assert_eq!(compose["inline_yaml"], GOOD, "kept as it is");
    assert_eq!(compose["env"], serde_json::json!({"PASSWORD": "hunter2", "TAG": "1.27"}));
    assert_eq!(compose["found_ports"][0]["host_port"], 8080);
    assert_eq!(compose["found_volumes"], true);
    // What was shown can be applied again.
    let again = serde_json::json!({"name": "shop", "spec": told["spec"]}).to_string();
    rig.types_with("apply -f - --detach", &again).await.ended(0);
    let again = rig.types("get shop --secrets -o json").await.ended(0).json();
    assert_eq!(again["workload"]["revision_id"], told["workload"]["revision_id"]);
    let shown = rig.types("get shop --secrets").await.ended(0).out;
    assert!(shown.contains("container_name: mine"), "{shown}");
    let shown = rig.types("get shop").await.ended(0).out;
    assert!(!shown.contains("hunter2") && !shown.contains("container_name"), "{shown}");

    rig.types(&format!("run {file} --name second --detach")).await.ended(0);
    let told = rig.types(&format!("run {file} -p 80:80")).await.ended(64);
    assert!(told.err.contains("is a file, not an image"), "{told:?}");
    let bad = rig.file("bad.yml", BAD);
    let told = rig.types(&format!("apply {bad}")).await.ended(1);
    assert!(told.err.contains("line 4, services.web.cgroup_parent: would take"), "{told:?}");
    assert!(told.err.contains("line 5, services.web.volumes[2]: "), "{told:?}");
    rig.stop().await;
}
