//! Where records are, as variables say it; and a command that is printed to be typed.

use persys_etcd_host::Host;

use crate::program::{Folder, Program, healthy, page, ready_node, types, until};

#[tokio::test(flavor = "multi_thread")]
async fn records_are_in_the_etcd_that_was_said() {
    let host = Host::one().await;
    let folder = Folder::new();
    let (state, etcd) = (folder.at("scheduler"), host.endpoints().join(","));
    let variables = [
        ("ETCD_ENDPOINTS", etcd.as_str()),
        ("PERSYS_STATE_DIR", &state),
        ("GRPC_PORT", "0"),
        ("METRICS_PORT", "0"),
        ("PERSYS_DNS_PORT", "0"),
    ];
    let mut scheduler = Program::start(folder.path(), &["scheduler", "-insecure"], &variables);
    let http = scheduler.at("http");
    tokio::task::spawn_blocking(move || healthy(http)).await.unwrap();
    assert!(host.client().get("/meta/leader").await.unwrap().is_some());
    assert!(!folder.path().join("scheduler/store.redb").exists(), "nothing in a file");
    assert!(page(http, "/metrics").unwrap().contains("etcd"), "etcd is watched");
}

/// `store migrate` ends with the command that goes on there: typed as it stands, it does.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_that_is_printed_starts_a_scheduler_on_etcd() {
    let host = Host::one().await;
    let folder = Folder::new();
    let (state, etcd) = (folder.at("scheduler"), host.endpoints().join(","));
    // Without certificates and on any free port: that is no matter of the store.
    let common = "-insecure --grpc-port 0 --metrics-port 0 --dns-port 0";
    let first = format!("persys scheduler --state-dir {state} {common}");
    let mut scheduler = Program::typed(folder.path(), &first);
    let at = scheduler.at("grpc");
    let agent = format!(
        "persys agent -insecure --runtime sim --scheduler-addr {at} --state-path {} \
         --grpc-port 0 --metrics-port 0",
        folder.at("agent")
    );
    let agent = Program::typed(folder.path(), &agent);
    tokio::task::block_in_place(|| ready_node(&folder, &format!("--insecure --endpoint {at}")));
    drop((agent, scheduler));
    let line = format!("store migrate --from {state} --to etcd:{etcd} --etcd-root /my-root");
    let (code, out, err) = tokio::task::block_in_place(|| types(&folder, &line));
    assert_eq!(code, 0, "{out}{err}");
    let next = out.split_once("next:\n").unwrap().1.trim();
    let other = folder.at("other");
    let mut scheduler =
        Program::typed(folder.path(), &format!("{next} --state-dir {other} {common}"));
    let http = scheduler.at("http");
    tokio::task::block_in_place(|| {
        until("a leader", || {
            page(http, "/health").filter(|text| text.contains("\"role\":\"leader\""))
        });
    });
    assert!(host.client().get("/my-root/meta/leader").await.unwrap().is_some());
    assert!(host.client().get("/meta/leader").await.unwrap().is_none());
}
