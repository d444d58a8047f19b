//! Commands and options of docker, kubectl, nomad and virsh: understood where they mean the same, else
//! answered with the command to type.

use crate::rig::Rig;

#[tokio::test(flavor = "multi_thread")]
async fn words_of_other_tools_do_what_they_mean() {
    let rig = Rig::start().await;
    rig.types("run web --name web --cpus 0.1 -m 64m").await.ended(0);
    rig.types("run web --name nodes").await.ended(0);
    for (line, shown) in [
        ("ps -a", "web "),
        ("ls -A", "web "),
        ("inspect web", "container"),
        ("job status", "web "),
        ("job status web", "container"),
        ("alloc logs web", ""),
        ("node status", "n1"),
        ("node status n1", "n1"),
        ("get pods", "web "),
        ("get all", "web "),
        ("get ns", "default"),
        ("get events", "WorkloadRunning"),
        ("info", "leader"),
        ("namespaces", "default"),
        ("secrets", ""),
        ("disks", ""),
        ("volume ls", ""),
        ("suspend web", "paused"),
        ("unpause web", "runs"),
        ("reboot web", "runs"),
        ("shutdown web", "web"),
        ("rollout history web", "NUMBER"),
        ("config view", "endpoint"),
        // A workload comes before a kind of that name.
        ("get nodes", "container"),
    ] {
        let told = rig.types(line).await.ended(0);
        assert!(told.out.contains(shown), "{line}: {told:?}");
    }
    assert_eq!(rig.types("ps -q").await.ended(0).out, "nodes\nweb\n");
    rig.types("rm -f nodes").await.ended(0);
    let told = rig.types("get nodes").await.ended(0);
    assert!(told.out.contains("n1") && told.out.contains("Ready"), "{told:?}");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn words_that_mean_something_else_are_answered_with_what_to_type() {
    let rig = Rig::start().await;
    for (line, next) in [
        ("ps --format json", "persys list -o json"),
        ("get --format json web", "persys list -o json"),
        ("ps --filter status=running", "persys list --status running"),
        ("get pod web", "persys get web"),
        ("get node n1", "persys node get n1"),
        ("describe node n1", "persys node get n1"),
        ("kill web", "persys stop web"),
        ("destroy web", "persys delete web"),
        ("dumpxml box", "persys get box -o yaml"),
        ("compose down", "persys delete NAME"),
        ("attach web", "persys exec -it web sh"),
        ("edit web", "persys get web --secrets -o yaml > web.yaml"),
        ("cordon n1", "persys node taint n1 cordoned=yes:NoSchedule"),
        ("pull nginx", "persys run nginx"),
        ("logs -c db shop", "persys logs NAME/db"),
        ("logs --previous web", "persys why web"),
        ("stop -t 5 web", "persys get web -o yaml"),
        ("rm -v web", "persys delete web --volumes"),
        ("run -u 1000 web", "user: \"1000\""),
        ("run --network host web", "network_mode: host"),
        ("run --name x --image=nginx", "persys run nginx --name NAME"),
        ("apply --dry-run a.yaml", "persys plan -f FILE"),
        ("secret create db x", "persys secret set NAME"),
        ("secret set db --value x", "persys secret set NAME --file FILE"),
        ("exec -w /tmp web ls", "persys exec NAME sh -c"),
    ] {
        let told = rig.types(line).await.ended(64);
        assert!(told.err.contains(next), "{line}: {told:?}");
        assert!(told.err.contains("next: "), "{line}: {told:?}");
    }
    let told = rig.types("apply -f https://example.test/a.yaml").await.ended(1);
    let next = "curl -fsSL https://example.test/a.yaml | persys apply -f -";
    assert!(told.err.contains(next), "{told:?}");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_on_one_address_is_shown_with_it() {
    let rig = Rig::start().await;
    rig.types("run web --name web -p 127.0.0.1:8080:80 -p [::1]:8080:80").await.ended(0);
    let shown = rig.types("get web").await.ended(0).out;
    assert!(shown.contains("127.0.0.1:8080->80/tcp"), "{shown}");
    assert!(shown.contains("[::1]:8080->80/tcp"), "{shown}");
    let addresses = rig.types("get web -o json").await.ended(0).json();
    assert_eq!(
        addresses["addresses"],
        serde_json::json!(["127.0.0.1:8080/tcp", "[::1]:8080/tcp"]),
        "never an address where nobody answers"
    );
    let told = rig.types("run web --name no -p localhost:8080:80").await.ended(64);
    assert!(told.err.contains("\"localhost\" is not an IP address"), "{told:?}");
    rig.stop().await;
}

/// What `get` shows of any kind is what `apply` takes, and it is the same content.
#[tokio::test(flavor = "multi_thread")]
async fn what_get_shows_of_every_kind_can_be_applied() {
    let rig = Rig::start().await;
    rig.types("run web --name one -p 127.0.0.1:8080:80 -v data:/d --cpus 0.1").await.ended(0);
    let stack = "services:\n  web:\n    image: web:1\n    ports: ['127.0.0.1:8081:80']\n    \
                 volumes: [data:/d]\nvolumes: {data: {}}\n";
    let file = rig.folder.path().join("compose.yaml");
    std::fs::write(&file, stack).unwrap();
    rig.types(&format!("apply {} --id shop", file.display())).await.ended(0);
    let machine = rig.folder.path().join("vm.yaml");
    rig.types(&format!("init --type vm {}", machine.display())).await.ended(0);
    rig.types(&format!("apply -f {} --detach", machine.display())).await.ended(0);
    let all = rig.types("ps -q").await.ended(0).out;
    assert_eq!(all.lines().count(), 3, "{all}");
    for id in all.lines() {
        let shown = rig.types(&format!("get {id} --secrets -o yaml")).await.ended(0).out;
        rig.types_with("apply -f - --detach", &shown).await.ended(0);
        let (before, after) = (revision(&shown), rig.types(&format!("get {id} -o yaml")).await);
        assert_eq!(before, revision(&after.out), "{id}: {shown}");
        let history = rig.types(&format!("history {id} -o json")).await.ended(0).json();
        assert_eq!(history["revisions"].as_array().map(Vec::len), Some(1), "{id}: {history}");
    }
    rig.stop().await;
}

fn revision(shown: &str) -> Option<&str> {
    shown.lines().map(str::trim).find(|line| line.starts_with("revision_id:"))
}

#[tokio::test(flavor = "multi_thread")]
async fn init_writes_and_names_the_file_it_was_given() {
    let rig = Rig::start().await;
    for kind in ["container", "compose", "vm"] {
        let file = rig.folder.path().join(format!("{kind}-box.yaml"));
        let told = rig.types(&format!("init --type {kind} {}", file.display())).await.ended(0);
        assert!(file.is_file(), "{told:?}");
        assert!(told.out.contains(&file.display().to_string()), "{told:?}");
        assert!(!told.out.contains("persys.yaml"), "{told:?}");
        rig.types(&format!("apply --check {}", file.display())).await.ended(0);
    }
    rig.stop().await;
}
