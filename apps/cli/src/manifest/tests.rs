use serde_json::{Value, json};

use super::*;

fn requests(text: &str) -> Vec<ApplyWorkloadRequest> {
    let wanted = read("f.yaml", text, &Beside::default()).unwrap();
    wanted.into_iter().map(|one| one.request).collect()
}

fn faults(text: &str, beside: &Beside) -> Vec<String> {
    read("f.yaml", text, beside).unwrap_err().why
}

fn with(id: &str, kind: Option<&str>) -> Beside {
    Beside { id: Some(id.to_owned()), kind: kind.map(str::to_owned), ..Beside::default() }
}

fn shown(request: &ApplyWorkloadRequest) -> Value {
    let name = "persys.control.v1.ApplyWorkloadRequest";
    persys_proto::json::write(name, request, persys_proto::json::Style::Plain)
}

#[test]
fn a_name_and_a_spec() {
    let text = "name: web\nspec:\n  container:\n    image: nginx\n---\nworkload_id: two\nspec: {container: {image: x}}\n";
    let found = requests(text);
    assert_eq!(found[0].workload_id, "web");
    assert_eq!(found[1].workload_id, "two");
    let wanted = json!({"workload_id": "web", "spec": {"container": {"image": "nginx"}}});
    assert_eq!(shown(&found[0]), wanted);
}

#[test]
fn json_with_tabs_is_yaml_enough() {
    let found =
        requests("{\n\t\"name\": \"web\",\n\t\"spec\": {\"container\": {\"image\": \"x\"}}\n}\n");
    assert_eq!(found[0].workload_id, "web");
}

#[test]
fn bare_bodies_in_either_shape() {
    let control = r#"{"image": "x", "restart_policy": "always", "ports": [{"host_port": 1, "container_port": 2}]}"#;
    let agent = r#"{"image": "x", "args": ["a"], "restart_policy": {"policy": "on-failure", "max_retry_count": 3}, "resources": {"memory_bytes": 67108864}}"#;
    let read_one = |text: &str, kind| {
        let found = read("f.json", text, &with("w", kind)).unwrap();
        shown(&found[0].request)
    };
    let found = read_one(control, None);
    assert_eq!(found["spec"]["container"]["restart_policy"], json!("always"));
    let found = read_one(agent, Some("container"));
    assert_eq!(found["spec"]["container"]["restart_policy"], json!("on-failure"));
    assert_eq!(found["spec"]["container"]["max_retry_count"], json!(3));
    assert_eq!(found["spec"]["container"]["limits"]["memory_bytes"], json!(67_108_864));
    let vm = r#"{"name": "box", "vcpus": 1, "memory_mb": 512, "os_image": "debian", "networks": [{"network": "default"}], "cloud_init": "I2Nsb3VkLWNvbmZpZwo="}"#;
    let found = read_one(vm, Some("vm"));
    assert_eq!(found["spec"]["type"], json!("vm"));
    assert_eq!(found["spec"]["vm"]["networks"][0]["network"], json!("default"));
    let compose = r#"{"project_name": "p", "compose_yaml": "c2VydmljZXM6IHthOiB7aW1hZ2U6IGJ9fQo=", "env": {}}"#;
    let found = read_one(compose, Some("compose"));
    assert_eq!(found["spec"]["compose"]["inline_yaml"], json!("services: {a: {image: b}}\n"));
    // The agent's shape within our own.
    let found = requests(
        "name: w\nspec:\n  resources: {cpu_millicores: 7}\n  container: {image: x, restart_policy: {policy: always}}\n",
    );
    let found = shown(&found[0]);
    assert_eq!(found["spec"]["resources"]["cpu_millicores"], json!(7));
    assert_eq!(found["spec"]["container"]["restart_policy"], json!("always"));
}

#[test]
fn a_compose_file_as_it_is() {
    let text = "name: shop\nservices:\n  web:\n    image: nginx # a comment\n";
    let found = requests(text);
    let found = shown(&found[0]);
    assert_eq!(found["workload_id"], json!("shop"));
    assert_eq!(found["spec"]["compose"]["inline_yaml"], json!(text));
}

#[test]
fn a_compose_file_is_named_and_filled_in_as_people_are_used_to() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("My Shop.2");
    fs::create_dir(&folder).unwrap();
    let file = folder.join("compose.yaml");
    let env = |all: &[(&str, &str)]| -> std::collections::BTreeMap<String, String> {
        all.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    };
    let world = World::kept(env(&[("SHELL_TAG", "s"), ("UNUSED", "x")]), b"");
    let found = |text: &str, beside: &Beside| {
        fs::write(&file, text).unwrap();
        let found = load(&world, std::slice::from_ref(&file), &[], beside).unwrap();
        shown(&found[0].request)
    };
    fs::write(folder.join(".env"), "# note\nexport TAG=1 # one\nOTHER=x\n").unwrap();
    let text = "services: {web: {image: 'nginx:${TAG}', command: 'a $MORE $SHELL_TAG'}}";
    let plain = found(text, &Beside::default());
    assert_eq!(plain["workload_id"], json!("myshop2"));
    assert_eq!(plain["spec"]["compose"]["inline_yaml"], json!(text));
    assert_eq!(plain["spec"]["compose"]["env"], json!({"TAG": "1", "SHELL_TAG": "s"}));
    let typed = env(&[("TAG", "2"), ("MORE", "b")]);
    let typed = Beside { id: Some("mine".to_owned()), env: typed, ..Beside::default() };
    let all = json!({"TAG": "2", "MORE": "b", "SHELL_TAG": "s"});
    assert_eq!(found(text, &typed)["spec"]["compose"]["env"], all);
    let named = format!("name: other\n{text}");
    assert_eq!(found(&named, &Beside::default())["workload_id"], json!("other"));
    assert_eq!(found(&named, &typed)["workload_id"], json!("mine"));
    let wrong = faults("name: w\nspec: {container: {image: x}}", &typed);
    assert!(wrong[0].starts_with("--env: is for a Compose file"), "{wrong:?}");
}

#[test]
fn what_is_sent_of_a_project_means_what_was_judged() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let world = World::kept([("HOME".into(), "/h".into())].into(), b"");
    let mut seen = 0;
    for entry in fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()) {
        let Some(file) = project::in_folder(&entry) else { continue };
        let project = project::read(&world, &[file], true, &Beside::default()).unwrap();
        let sent = persys_compose::read(&project.text, &project.variables);
        assert_eq!(sent.document, project.reading.document, "{}", entry.display());
        assert!(sent.document.is_some(), "{}", entry.display());
        seen += 1;
    }
    assert_eq!(seen, 39);
}

#[test]
fn a_compose_file_that_cannot_run_is_told_line_by_line() {
    let text = "services:\n  web:\n    build: .\n    ports: [http]\n";
    let found = faults(text, &with("w", None));
    assert!(found[0].starts_with("line 3, services.web.build: "), "{found:?}");
    assert!(found[1].starts_with("line 4, services.web.ports[0]: "), "{found:?}");
}

#[test]
fn a_manifest_with_kind() {
    let text = "
apiVersion: persys.io/v1
kind: Workload
metadata: {name: web, labels: {team: a}}
spec:
  type: container
  image: nginx
  env: {A: \"1\"}
  labels: {x: y}
  resources: {cpu: 0.5, memoryMb: 64, diskMb: 1500}
  ports: [{host: 8080, container: 80, protocol: TCP}]
  volumes: [{name: /srv, mountPath: /data, readOnly: true}]
  restartPolicy: always
  nodeSelector: {zone: a}
";
    let found = requests(text);
    assert_eq!(
        shown(&found[0]),
        json!({
            "workload_id": "web",
            "spec": {
                "type": "container",
                "resources": {"cpu_millicores": 500, "memory_mb": 64, "disk_gb": 2},
                "container": {
                    "image": "nginx",
                    "env": {"A": "1"},
                    "labels": {"x": "y"},
                    "ports": [{"host_port": 8080, "container_port": 80, "protocol": "tcp"}],
                    "volumes": [{"host_path": "/srv", "container_path": "/data", "read_only": true}],
                    "restart_policy": "always",
                },
                "metadata": {"team": "a"},
                "placement": {"constraints": [{"key": "zone", "operator": "in", "values": ["a"]}]},
            },
        })
    );
    let wrong =
        text.replace("persys.io/v1", "v1").replace("mountPath", "path").replace("image:", "imaeg:");
    let found = faults(&wrong, &Beside::default());
    assert_eq!(
        found,
        [
            "apiVersion: must be persys.io/v1",
            "spec.volumes[0].path: is not a known key here",
            "spec.imaeg: is not a known key here",
        ]
    );
}

#[test]
fn every_fault_of_every_document_is_named() {
    let text = "
name: up/per
spec:
  type: vm
  container: {image: '', ports: [{host_port: 99999, container_port: 80}]}
---
name: two
spec: {container: {imagee: x}}
---
just a text
";
    let found = faults(text, &Beside::default());
    let all = found.join("\n");
    for part in [
        "document 1: workload_id: has the character '/'",
        "document 1: spec.type: says vm, but container is given",
        "document 1: spec.container.image",
        "document 1: spec.container.ports[0].host_port",
        "document 2: spec.container.imagee: ContainerSpec has no key \"imagee\"; its keys are image,",
        "document 3: is not an object of keys and values",
    ] {
        assert!(all.contains(part), "{part} is missing in\n{all}");
    }
}

#[test]
fn what_is_said_twice_must_agree() {
    let text = "name: web\nspec: {type: container, container: {image: x}}\n";
    let beside = with("other", Some("vm"));
    assert_eq!(
        faults(text, &beside),
        [
            "--id: says \"other\", but the file says \"web\"",
            "--type: says \"vm\", but the file says \"container\"",
        ]
    );
    assert_eq!(
        faults("{image: x}", &Beside::default()),
        ["name: is missing; write it in the file or say --id NAME"]
    );
    let found = faults("{foo: 1, bar: 2}", &with("x", None));
    assert!(found[0].contains("it has the keys bar, foo"), "{found:?}");
}

#[test]
fn what_is_not_well_formed_says_where() {
    let problem = read("f.yaml", "name: web\nspec: {\n", &Beside::default()).unwrap_err();
    assert_eq!(problem.what, "f.yaml is not well-formed YAML or JSON");
    assert!(problem.why[0].contains("line"), "{problem:?}");
    let problem = read("f.yaml", "name: a\nname: b\n", &Beside::default()).unwrap_err();
    assert!(problem.why[0].contains("duplicate"), "{problem:?}");
    let problem = read("f.yaml", "", &Beside::default()).unwrap_err();
    assert_eq!(problem.what, "f.yaml is empty");
    // A word is a word.
    let found = requests("name: w\nspec: {container: {image: x, env: {A: yes}}}");
    assert_eq!(shown(&found[0])["spec"]["container"]["env"]["A"], json!("yes"));
    let found = faults("name: w\nspec: {container: {image: x, env: {A: 1}}}", &Beside::default());
    assert_eq!(found, ["spec.container.env.A: must be a text, not a number; put it in quotes"]);
}
