//! Several schedulers on one etcd, and one whose etcd is away.

use std::path::Path;
use std::time::Duration;

use persys_etcd_host::{Host, Options};
use persys_identity::Exposure;
use persys_proto::control::v1::agent_control_client::AgentControlClient;
use persys_scheduler::app::{self, Config, Running, Security};
use persys_scheduler::place::Place;
use persys_scheduler::standing::Standing;
use persys_store::{EtcdSettings, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::transport::Endpoint;

use crate::bench::{config, leads, node};

const PATIENCE: Duration = Duration::from_secs(30);

fn on(host: &Host, folder: &Path, name: &str) -> Config {
    let (way, store) = (host.way(), Settings::default());
    let settings = EtcdSettings { way, store, quota_bytes: None };
    let plain = Security::Insecure(Exposure::Loopback);
    Config { store: Place::Etcd(Box::new(settings)), ..config(&folder.join(name), plain) }
}

async fn page(running: &Running, path: &str) -> String {
    let mut stream = TcpStream::connect(running.http).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn two_schedulers_share_an_etcd_and_the_second_takes_over() {
    let host = Host::start(Options::new(1)).await;
    let folder = tempfile::tempdir().unwrap();
    let first = app::start(on(&host, folder.path(), "one")).await.unwrap();
    leads(&first).await;
    let second = app::start(on(&host, folder.path(), "two")).await.unwrap();
    let has_asked = async {
        while !page(&second, "/metrics").await.contains("persys_scheduler_etcd_up 1") {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, has_asked).await.unwrap();
    assert_eq!(second.handle.standing().borrow().mode, None, "one leads at a time");
    let mut standing = second.handle.standing();
    let follows = standing.wait_for(|standing| standing.leader.is_some());
    drop(timeout(PATIENCE, follows).await.unwrap().unwrap());
    assert!(page(&second, "/health").await.contains(r#""role":"follower""#));

    first.stop().await;
    let takes_over = standing.wait_for(Standing::is_normal);
    timeout(PATIENCE, takes_over).await.unwrap().unwrap();
    second.stop().await;
}

#[tokio::test]
async fn a_scheduler_waits_for_its_etcd_and_says_so() {
    let mut host = Host::start(Options::new(1)).await;
    host.kill_all();
    let folder = tempfile::tempdir().unwrap();
    let running = app::start(on(&host, folder.path(), "one")).await.unwrap();
    let mut standing = running.handle.standing();
    let told = standing.wait_for(|standing| standing.why.contains("unavailable"));
    drop(timeout(PATIENCE, told).await.unwrap().unwrap());
    let health = page(&running, "/health").await;
    assert!(health.starts_with("HTTP/1.1 503") && health.contains("the store is"), "{health}");
    host.restart().await;
    timeout(PATIENCE, standing.wait_for(Standing::is_normal)).await.unwrap().unwrap();
    assert!(page(&running, "/health").await.starts_with("HTTP/1.1 200"));
    running.stop().await;
}

/// Names are in the same etcd as the records, as `CoreDNS` reads them, and go with those they name.
#[tokio::test]
async fn names_are_kept_in_etcd_for_other_servers() {
    let host = Host::start(Options::new(1)).await;
    let folder = tempfile::tempdir().unwrap();
    let mut config = on(&host, folder.path(), "one");
    config.discovery.publish = true;
    let running = app::start(config).await.unwrap();
    leads(&running).await;
    let client = host.client();
    let until = async |key: &str, there: bool| {
        let looked = async {
            loop {
                let found = client.get(key).await.unwrap();
                if found.is_some() == there {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(PATIENCE, looked).await.expect(key)
    };
    let own = until("/skydns/local/persys/persys-scheduler", true).await.unwrap();
    assert_eq!(&*own.value, br#"{"host":"127.0.0.1","ttl":300}"#);
    assert!(own.lease != 0, "it goes with its lease");

    let endpoint = Endpoint::from_shared(format!("http://{}", running.grpc)).unwrap();
    let mut operator = AgentControlClient::new(endpoint.connect_lazy());
    let node = node("n1", "127.0.0.3:9".parse().unwrap());
    assert!(operator.register_node(node).await.unwrap().into_inner().accepted);
    let agent = until("/skydns/cloud/persys/agents/default/n1", true).await.unwrap();
    assert_eq!(&*agent.value, br#"{"host":"127.0.0.3","ttl":300}"#);
    let before = client.status().await.unwrap().revision;
    let mut standing = running.handle.standing();
    assert!(standing.borrow_and_update().is_normal());

    running.stop().await;
    until("/skydns/local/persys/persys-scheduler", false).await;
    until("/skydns/cloud/persys/agents/default/n1", false).await;
    assert!(client.status().await.unwrap().revision > before);
}
