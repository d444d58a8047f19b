//! What is left when everything was deleted: nothing.

use std::path::Path;
use std::process::Command;

use crate::Fault;
use crate::cluster::Cluster;
use crate::look::docker;

/// Records that go with their workload.
const RECORDS: [&str; 9] = [
    "/workloads/",
    "/assignments/",
    "/history/",
    "/retries/",
    "/reconciliation/",
    "/drifts/",
    "/volumes/",
    "/attachments/",
    "/graves/",
];

/// All that is left.
pub fn find(cluster: &Cluster) -> Result<Vec<String>, Fault> {
    let mut found = Vec::new();
    for on in &cluster.dockers {
        let names = docker(&on.host, &["ps", "-a", "--format", "{{.Names}}"])?;
        let volumes = docker(&on.host, &["volume", "ls", "--format", "{{.Name}}"])?;
        let others = names.lines().chain(volumes.lines()).filter(|name| !name.contains("decoy"));
        found.extend(others.map(|name| format!("left over: {name} on {}", on.host)));
    }
    for agent in &cluster.agents {
        for file in files(&agent.state.join("volumes")) {
            found.push(format!("left over: {file} of {}", agent.process.name));
        }
    }
    if let Some(etcd) = &cluster.etcd {
        let endpoints = etcd.host.endpoints().join(",");
        for prefix in RECORDS {
            let asked = Command::new("etcdctl")
                .env("ETCDCTL_API", "3")
                .args(["--endpoints", &endpoints, "get", "--prefix", "--keys-only", prefix])
                .output()?;
            if !asked.status.success() {
                return Err(format!("etcdctl: {asked:?}").into());
            }
            let keys = String::from_utf8_lossy(&asked.stdout).into_owned();
            let keys = keys.lines().filter(|key| !key.is_empty());
            found.extend(keys.map(|key| format!("left over: {key} in etcd")));
        }
    }
    Ok(found)
}

/// Files below a folder, without folders and without what is only a name.
fn files(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.file_name().is_some_and(|name| name == "token") {
            found.push(path.display().to_string());
        }
    }
    found
}
