//! Words that people bring along from other tools.

use std::process::Command;

use crate::rig::Rig;

#[tokio::test(flavor = "multi_thread")]
async fn a_command_needs_no_dashes_before_it() {
    let rig = Rig::start().await;
    rig.types("run web --name web").await.ended(0);
    let told = rig.types("exec web echo -n hello --name x").await.ended(0);
    assert!(told.out.contains("-n hello --name x"), "{told:?}");
    rig.types("run busybox --name box sleep -v 1").await.ended(0);
    let shown = rig.types("get box -o json").await.ended(0).json();
    assert_eq!(shown["spec"]["container"]["command"], serde_json::json!(["sleep", "-v", "1"]));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_there_is_not_is_an_error() {
    let rig = Rig::start().await;
    for line in ["list --status nonsense", "nodes --status up"] {
        let told = rig.types(line).await.ended(1);
        assert!(told.err.contains("there is no state"), "{told:?}");
    }
    rig.types("list --status running").await.ended(0);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_get_shows_can_be_applied() {
    let rig = Rig::start().await;
    rig.types("run web --name web -p 8080:80").await.ended(0);
    let shown = rig.types("get web -o yaml").await.ended(0).out;
    let told = rig.types_with("apply -f -", &shown).await.ended(0);
    assert!(told.out.contains("web runs"), "{told:?}");
    let before = rig.types("get web -o json").await.ended(0).json();
    let other = shown.replace("8080", "8081");
    rig.types_with("apply -f -", &other).await.ended(0);
    let after = rig.types("get web -o json").await.ended(0).json();
    assert_ne!(before["workload"]["revision_id"], after["workload"]["revision_id"]);
    assert_eq!(after["spec"]["container"]["ports"][0]["host_port"], 8081);
    // A value that was not shown is not written over with stars.
    rig.types("run web --name hidden -e PASSWORD=x").await.ended(0);
    let shown = rig.types("get hidden -o yaml").await.ended(0).out;
    let told = rig.types_with("apply -f -", &shown).await.ended(1);
    assert!(told.err.contains("spec.container.env.PASSWORD: is hidden here"), "{told:?}");
    let shown = rig.types("get hidden --secrets -o yaml").await.ended(0).out;
    rig.types_with("apply -f -", &shown).await.ended(0);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_as_data_is_an_object_a_line() {
    let rig = Rig::start().await;
    rig.types("run web --name web").await.ended(0);
    let told = rig.types("logs web -o json").await.ended(0);
    let text = rig.types("logs web").await.ended(0);
    let lines: Vec<serde_json::Value> =
        told.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let plain =
        text.out.lines().count() + text.err.lines().filter(|l| !l.starts_with("note:")).count();
    assert_eq!(lines.len(), plain, "{told:?} {text:?}");
    assert!(lines.iter().all(|line| line["workload_id"] == "web"), "{told:?}");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn run_once_shows_its_end_and_leaves_nothing() {
    let rig = Rig::start().await;
    rig.types("run --rm exit:0 --name once").await.ended(0);
    rig.types("run --rm exit:3 --name once").await.ended(3);
    assert!(!rig.types("list").await.ended(0).out.contains("once"));
    rig.types("run web --name web").await.ended(0);
    let told = rig.types("run --rm web --name web").await.ended(1);
    assert!(told.err.contains("web is there already"), "{told:?}");
    let told = rig.types("run -it --rm busybox sh").await.ended(64);
    assert!(told.err.contains("persys exec -it busybox sh"), "{told:?}");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_has_a_name_and_stays() {
    let rig = Rig::start().await;
    rig.types("run web --name web -v data:/var/lib/data:size=2g").await.ended(0);
    let shown = rig.types("get web -o json").await.ended(0).json();
    let volume = &shown["spec"]["container"]["managed_volumes"][0];
    assert_eq!((&volume["name"], &volume["size_gb"]), (&"data".into(), &2.into()));
    assert_eq!(volume["retain_policy"], "Retain");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_completed() {
    let rig = Rig::start().await;
    rig.types("run web --name web-front").await.ended(0);
    assert_eq!(rig.types("names workloads").await.ended(0).out, "web-front\n");
    assert_eq!(rig.types("names nodes").await.ended(0).out, "n1\n");
    // A script that zsh loads by its name is called at once, and asks for names then, too.
    let zsh = rig.types("completion zsh").await.ended(0).out;
    assert_eq!(zsh.matches("$funcstack[1]").count(), 1, "{zsh}");
    assert!(
        zsh.contains("\n    _persys_names \"$@\"\n") && !zsh.contains("compdef _persys persys")
    );
    let script = rig.types("completion bash").await.ended(0).out;
    let file = rig.folder.path().join("persys.bash");
    std::fs::write(&file, script).unwrap();
    // The program stands in for itself: the script must ask it for names.
    let typed = format!(
        "persys() {{ [ \"$*\" = 'names workloads' ] && echo web-front; }}; source {}; \
         COMP_WORDS=(persys logs we); COMP_CWORD=2; _persys_names persys we logs; echo \"${{COMPREPLY[*]}}\"; \
         COMP_WORDS=(persys lo); COMP_CWORD=1; _persys_names persys lo persys; echo \"${{COMPREPLY[*]}}\"",
        file.display()
    );
    let done = Command::new("bash").args(["-c", &typed]).output().unwrap();
    let out = String::from_utf8_lossy(&done.stdout).into_owned();
    assert_eq!(out.lines().next(), Some("web-front"), "{done:?}");
    assert!(out.lines().nth(1).is_some_and(|line| line.contains("logs")), "{done:?}");
    rig.stop().await;
}
