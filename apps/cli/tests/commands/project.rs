//! Compose projects with things beside them: applied as they are, by whoever types in their folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use persys_cli::world::World;

use crate::rig::{Rig, Told, tell_words};

const FILE: &str = "\
services:
  web:
    image: nginx:${TAG}
    env_file: web.env
    secrets: [pw]
    volumes: ['./nginx.conf:/etc/nginx.conf:ro', './data:/data']
  debug: {image: busybox, profiles: [dev]}
secrets:
  pw: {file: pw.txt}
";

fn write(rig: &Rig, files: &[(&str, &str)]) -> PathBuf {
    let folder = rig.folder.path().join("shop");
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

async fn types(rig: &Rig, line: &str) -> Told {
    tell_words(&rig.world(""), &line.split_whitespace().collect::<Vec<_>>()).await
}

async fn revision(rig: &Rig, id: &str) -> (String, String) {
    let told = types(rig, &format!("get {id} --secrets -o json")).await.ended(0).json();
    let text = told["spec"]["compose"]["inline_yaml"].as_str().unwrap().to_owned();
    (told["workload"]["revision_id"].as_str().unwrap().to_owned(), text)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_file_beside_a_project_is_another_revision() {
    let rig = Rig::start().await;
    let folder = write(
        &rig,
        &[
            ("compose.yaml", FILE),
            ("compose.override.yaml", "services: {web: {labels: {over: 'yes'}}}"),
            (".env", "TAG=1.27\n"),
            ("web.env", "A=1\nB='$x'\n"),
            ("pw.txt", "canary-77"),
            ("nginx.conf", "one"),
        ],
    );
    let apply = format!("apply {} --detach", folder.display());
    types(&rig, &apply).await.ended(0);
    let (first, text) = revision(&rig, "shop").await;
    for part in ["nginx:1.27", "over: yes", "B: \"$$x\"", "one", "folder-data", "x-persys-version"]
    {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    assert!(!text.contains("canary-77") && text.contains("profiles"), "{text}");
    let told = types(&rig, "secret list -o json").await.ended(0).out;
    assert!(told.contains("shop-pw") && !told.contains("canary-77"), "{told}");
    for entry in walk(rig.folder.path()) {
        let bytes = std::fs::read(&entry).unwrap_or_default();
        let has = String::from_utf8_lossy(&bytes).contains("canary-77");
        assert!(!has || entry.ends_with("shop/pw.txt"), "{} has it", entry.display());
    }

    // As it is, it is the same; each thing beside it makes it another.
    types(&rig, &apply).await.ended(0);
    assert_eq!(revision(&rig, "shop").await.0, first);
    let mut seen = vec![first];
    for (file, text) in [("nginx.conf", "two"), ("web.env", "A=2"), ("pw.txt", "canary-78")] {
        write(&rig, &[(file, text)]);
        types(&rig, &apply).await.ended(0);
        let (now, _) = revision(&rig, "shop").await;
        assert!(!seen.contains(&now), "{file}");
        seen.push(now);
    }

    // Named with -f, files are one project and nothing else is read.
    let (one, two) = (
        folder.join("compose.yaml"),
        write(&rig, &[("more.yaml", "services: {web: {hostname: h}}")]),
    );
    let line = format!(
        "apply -f {} -f {} --id two --profile dev --detach",
        one.display(),
        two.join("more.yaml").display()
    );
    types(&rig, &line).await.ended(0);
    let (_, text) = revision(&rig, "two").await;
    assert!(text.contains("hostname: h") && !text.contains("profiles"), "{text}");
    assert!(!text.contains("over: yes"), "{text}");
    rig.stop().await;
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_docker_the_next_command_is_told() {
    let rig = Rig::start().await;
    let folder = write(
        &rig,
        &[(
            "compose.yaml",
            "services: {web: {build: {context: app, target: run}, image: 'r.example/web:1'}}",
        )],
    );
    let path = folder.display();
    let home = rig.folder.path().join("home").display().to_string();
    let env = BTreeMap::from([
        ("PERSYS_HOME".to_owned(), home),
        ("PATH".to_owned(), "/nowhere".to_owned()),
    ]);
    let typed = |line: String, env: BTreeMap<String, String>| async move {
        let world = World::kept(env, b"");
        tell_words(&world, &line.split_whitespace().collect::<Vec<_>>()).await
    };
    let told = typed(format!("apply {path} --detach"), env.clone()).await.ended(1);
    for part in [
        "services.web.build",
        "there is no Docker here to build it with",
        "next: docker build -t r.example/web:1 --target run ./app",
        "docker push r.example/web:1",
        "--no-build",
    ] {
        assert!(told.err.contains(part), "{part} is missing in {}", told.err);
    }
    typed(format!("apply {path} --no-build --detach"), env).await.ended(0);
    let (_, text) = revision(&rig, "shop").await;
    assert!(text.contains("r.example/web:1") && !text.contains("build"), "{text}");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_withheld_is_refused_with_its_rule_until_an_operator_names_it() {
    let rig = Rig::start().await;
    let folder = write(
        &rig,
        &[("compose.yaml", "services: {ui: {image: a, volumes: ['/var/run/docker.sock:/s']}}")],
    );
    let path = folder.display();
    let told = types(&rig, &format!("compose check {path}")).await.ended(1);
    assert!(
        told.out.contains("it can run where an operator gives it what is withheld"),
        "{told:?}"
    );
    let told = types(&rig, &format!("apply {path} --detach")).await.ended(1);
    assert!(told.err.contains("(rule withheld-paths)"), "{told:?}");
    let command = "namespace set NAME --allow-host-path /var/run/docker.sock";
    assert!(told.err.contains(command), "{told:?}");
    types(&rig, &command.replace("NAME", "infra")).await.ended(0);
    types(&rig, &format!("apply {path} --namespace infra --detach")).await.ended(0);
    rig.stop().await;
}
