//! Names of a cluster, asked for over a plain socket.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use hickory_proto::op::{Message, Query};
use hickory_proto::rr::{Name, RecordType};
use persys_e2e::names::{self, Answer, Asks};
use persys_scheduler::discovery::Dns;
use tokio::net::UdpSocket;
use tokio::time::timeout;

struct Plain;

#[async_trait]
impl Asks for Plain {
    async fn ask(&self, server: SocketAddr, name: &str, kind: &str) -> Option<Answer> {
        let mut question = Message::query();
        let name = Name::from_ascii(format!("{name}.")).unwrap();
        question.add_query(Query::query(name, kind.parse::<RecordType>().unwrap()));
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.send_to(&question.to_vec().unwrap(), server).await.unwrap();
        let mut buffer = [0; 2_048];
        let length = timeout(Duration::from_secs(5), socket.recv(&mut buffer)).await.ok()?.ok()?;
        let reply = Message::from_vec(buffer.get(..length)?).unwrap();
        let words =
            BTreeMap::from([(0, "NOERROR"), (2, "SERVFAIL"), (3, "NXDOMAIN"), (5, "REFUSED")]);
        let status = words.get(&u16::from(reply.metadata.response_code))?;
        let record = |record: &hickory_proto::rr::Record| {
            format!("{} {}", record.record_type(), record.data)
        };
        let mut records: Vec<_> = reply.answers.iter().map(record).collect();
        records.sort();
        Some(Answer { status: (*status).to_owned(), records })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_follow_what_runs() {
    names::story(&Plain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_in_shadow_has_no_names() {
    names::shadow_story(&Plain).await;
}

/// Trouble with DNS is never trouble with the cluster.
#[tokio::test(flavor = "multi_thread")]
async fn a_taken_port_leaves_a_scheduler_without_names_or_with_another_port() {
    let folder = tempfile::tempdir().unwrap();
    let taken = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let at = taken.local_addr().unwrap();
    let scheduler = names::scheduler(folder.path(), Dns::At(at), None).await;
    assert_eq!(scheduler.dns, None);
    scheduler.stop().await;
    let scheduler = names::scheduler(folder.path(), Dns::Near(at), None).await;
    let elsewhere = scheduler.dns.unwrap();
    assert_ne!(elsewhere, at);
    let mut answer = None;
    // Until the cluster was looked at, nothing is denied.
    while answer.as_ref().is_none_or(|answer: &Answer| answer.status == "SERVFAIL") {
        answer = Plain.ask(elsewhere, "gone.workloads.persys.local", "A").await;
    }
    assert_eq!(answer.unwrap().status, "NXDOMAIN");
    scheduler.stop().await;
}
