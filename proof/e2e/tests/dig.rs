//! Names of a cluster, asked for with `dig`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail as tests do")]

use std::net::SocketAddr;
use std::process::Stdio;

use async_trait::async_trait;
use persys_e2e::names::{self, Answer, Asks};
use persys_scheduler::discovery::Dns;
use tokio::process::Command;

/// `dig`, with these options.
struct Dig(&'static [&'static str]);

impl Dig {
    async fn says(&self, server: SocketAddr, name: &str, kind: &str) -> String {
        let asked = Command::new("dig")
            .args([&format!("@{}", server.ip()), "-p", &server.port().to_string()])
            .args(["+tries=1", "+time=5", "+norecurse"])
            .args(self.0)
            .args([name, kind])
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await;
        let asked = asked.expect("dig is installed; see hack/with-dig");
        String::from_utf8(asked.stdout).unwrap()
    }
}

#[async_trait]
impl Asks for Dig {
    async fn ask(&self, server: SocketAddr, name: &str, kind: &str) -> Option<Answer> {
        let text = self.says(server, name, kind).await;
        let status = text.split_once("status: ")?.1.split_once(',')?.0.to_owned();
        let section = text.split_once("ANSWER SECTION:\n").map_or("", |(_, rest)| rest);
        let lines = section.lines().take_while(|line| !line.is_empty());
        let mut records: Vec<_> = lines
            .map(|line| line.split_whitespace().skip(3).collect::<Vec<_>>().join(" "))
            .collect();
        records.sort();
        Some(Answer { status, records })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_follow_what_runs_over_udp() {
    names::story(&Dig(&[])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_follow_what_runs_over_tcp() {
    names::story(&Dig(&["+tcp", "+noedns"])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_dig_shows_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let dns = Dns::At("127.0.0.1:0".parse().unwrap());
    let scheduler = names::scheduler(folder.path(), dns, None).await;
    let server = scheduler.dns.unwrap();
    let says = async |name: &str, kind: &str| loop {
        let text = Dig(&[]).says(server, name, kind).await;
        // Until the cluster was looked at, nothing is denied.
        if !text.contains("SERVFAIL") {
            return text;
        }
    };
    let text = says("_persys-scheduler.persys.local", "SRV").await;
    let additional = text.split_once("ADDITIONAL SECTION:\n").unwrap().1;
    assert!(additional.starts_with("persys-scheduler.persys.local."), "{text}");
    assert!(text.contains("flags: qr aa;") && text.contains("EDNS: version: 0"), "{text}");
    let text = says("nobody.persys.local", "A").await;
    assert!(text.contains("AUTHORITY SECTION:\npersys.local."), "{text}");
    assert!(text.contains("SOA") && text.contains("NXDOMAIN"), "{text}");
    let text = says("example.com", "ANY").await;
    assert!(text.contains("REFUSED") && !text.contains("ANSWER SECTION"), "{text}");
    scheduler.stop().await;
}
