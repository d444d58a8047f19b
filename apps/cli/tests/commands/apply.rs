//! `apply`: files, and nothing sent when anything is wrong.

use crate::rig::Rig;

const TWO: &str = "\
name: one
spec: {container: {image: web}}
---
name: two
spec: {container: {image: web}}
";

#[tokio::test(flavor = "multi_thread")]
async fn files_are_applied_and_changed() {
    let rig = Rig::start().await;
    let file = rig.file("two.yaml", TWO);
    let told = rig.types(&format!("apply -f {file}")).await.ended(0);
    assert!(told.out.contains("one runs on node n1"), "{told:?}");
    assert!(told.out.contains("two runs on node n1"), "{told:?}");
    // The same again changes nothing; what was shown can be applied again.
    rig.types(&format!("apply -f {file}")).await.ended(0);
    let shown = rig.types("get one --secrets -o json").await.ended(0).json();
    let again = serde_json::json!({"name": "one", "spec": shown["spec"]}).to_string();
    rig.types_with("apply -f -", &again).await.ended(0);
    let stopped = TWO.replace("name: two\n", "name: two\ndesired_state: Stopped\n");
    let told = rig.types_with("apply -f -", &stopped).await.ended(0);
    assert!(told.out.contains("two is stopped"), "{told:?}");
    let told = rig.types_with("apply -f - --check", TWO).await.ended(0);
    assert!(told.out.contains("two is sound"), "{told:?}");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_when_anything_is_wrong() {
    let rig = Rig::start().await;
    let wrong = "
name: fine
spec: {container: {image: web}}
---
name: bad name
spec:
  type: vm
  container: {image: web, ports: [{host_port: 80, container_port: 0}], restart_policy: sometimes}
";
    let told = rig.types_with("apply -f -", wrong).await.ended(1);
    for part in [
        "error: standard input has 4 faults; nothing was sent",
        "document 2: workload_id: has the character ' '",
        "document 2: spec.type: says vm, but container is given",
        "document 2: spec.container.ports[0].container_port:",
        "document 2: spec.container.restart_policy:",
    ] {
        assert!(told.err.contains(part), "{part} is missing in {}", told.err);
    }
    let told = rig.types("apply -f /does/not/exist.yaml").await.ended(1);
    assert!(told.err.contains("error: /does/not/exist.yaml cannot be read\n  why:  there is no such file\n  next: persys init"), "{told:?}");
    let told = rig.types_with("apply -f -", "name: x\nspec: [\n").await.ended(1);
    assert!(told.err.contains("not well-formed") && told.err.contains("line"), "{told:?}");
    let told = rig.types("apply -f /").await.ended(1);
    assert!(told.err.contains("it is a folder"), "{told:?}");
    assert_eq!(rig.types("list -o json").await.ended(0).out, "[]\n");
    rig.stop().await;
}
