//! The store in etcd keeps the contract, with one member and with three, and survives its etcd.

use std::sync::Arc;

use persys_etcd::{Client, Compare, LeaseId, Op, Txn};
use persys_etcd_host::{Host, Options};
use persys_store::{Etcd, EtcdSettings, Settings, Store};

mod packs;
mod safe;
mod trouble;

use crate::contract::Fixture;

/// A store, the etcd under it, and a way past the store.
pub struct InEtcd<const MEMBERS: usize> {
    pub host: Host,
    pub past: Client,
    pub settings: Settings,
    pub etcd: Etcd,
}

/// A store that waits as long as a busy machine needs.
pub fn open(host: &Host, settings: &Settings) -> Etcd {
    let (way, store) = (host.patient_way(), settings.clone());
    Etcd::open(EtcdSettings { way, store, quota_bytes: None }).unwrap()
}

/// A store with the deadlines of a scheduler.
pub fn open_quick(host: &Host) -> Etcd {
    let (way, store) = (host.way(), Settings::default());
    Etcd::open(EtcdSettings { way, store, quota_bytes: None }).unwrap()
}

/// Puts bytes under a key, past the store.
pub async fn put(past: &Client, key: &str, bytes: &[u8]) {
    let then = vec![Op::put(key.to_owned(), bytes.to_vec())];
    past.txn(Txn { then, ..Txn::default() }).await.unwrap();
}

/// Ends the lease of whoever leads.
pub async fn revoke_leader(past: &Client, root: &str) {
    if let Some(leader) = past.get(&format!("{root}/meta/leader")).await.unwrap() {
        past.revoke(LeaseId(leader.lease)).await.unwrap();
    }
}

#[async_trait::async_trait]
impl<const MEMBERS: usize> Fixture for InEtcd<MEMBERS> {
    async fn new(settings: Settings) -> Self {
        let host = Host::start(Options::new(MEMBERS)).await;
        let etcd = open(&host, &settings);
        Self { past: host.client(), host, settings, etcd }
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.etcd.clone())
    }

    async fn succeed(&mut self) {
        revoke_leader(&self.past, &self.settings.root).await;
        self.etcd = open(&self.host, &self.settings);
    }

    async fn put_bytes(&mut self, key: &str, bytes: &[u8]) {
        put(&self.past, key, bytes).await;
    }

    async fn bytes(&mut self, key: &str) -> Option<Vec<u8>> {
        self.past.get(key).await.unwrap().map(|kv| kv.value.into())
    }
}

mod one_member {
    use super::*;
    suite!(InEtcd<1>, tokio::test);
}

mod three_members {
    use super::*;
    suite!(InEtcd<3>, tokio::test);
}

/// A transaction is refused unless its conditions hold: all else rests on that.
#[tokio::test]
async fn etcd_compares_before_it_writes() {
    let host = Host::one().await;
    let past = host.client();
    put(&past, "/a", b"1").await;
    let revision = past.get("/a").await.unwrap().unwrap().mod_revision;
    let write = |when: Vec<Compare>| Txn {
        when,
        then: vec![Op::put("/a".into(), b"2".to_vec())],
        otherwise: vec![Op::Get("/a".into())],
    };
    for when in [
        Compare::Modified("/a".into(), revision - 1),
        Compare::Modified("/a".into(), 0),
        Compare::Holds("/a".into(), b"2".to_vec()),
        Compare::Holds("/none".into(), Vec::new()),
    ] {
        let done = past.txn(write(vec![when.clone()])).await.unwrap();
        assert!(!done.held, "{when:?}");
        assert_eq!(&*done.found[0].one().unwrap().value, b"1");
    }
    let when = vec![
        Compare::Modified("/a".into(), revision),
        Compare::Holds("/a".into(), b"1".to_vec()),
        Compare::Modified("/none".into(), 0),
    ];
    assert!(past.txn(write(when)).await.unwrap().held);
}

/// The earlier system of this contract used the same keys. Its records are neither read as ours nor
/// overwritten; below another root the same etcd serves both.
#[tokio::test]
async fn records_of_an_earlier_system_are_refused_and_left_alone() {
    let host = Host::one().await;
    let past = host.client();
    let record = br#"{"nodeId":"n1","ipAddress":"10.0.0.1","status":"Ready","totalCpu":4}"#;
    put(&past, "/nodes/n1", record).await;
    put(&past, "/nodes/n1/status", b"Ready").await;
    let bare: Arc<dyn Store> = Arc::new(open(&host, &Settings::default()));
    let term = crate::contract::lead(&bare, "a#1").await;
    let refused = bare.load(term, None).await.unwrap_err();
    assert_eq!(refused, persys_store::Error::Earlier { key: "/nodes/n1".to_owned() });
    let said = refused.to_string();
    assert!(said.contains("persys import") && said.contains("--etcd-root"), "{said}");
    assert_eq!(&*past.get("/nodes/n1").await.unwrap().unwrap().value, record);

    let settings = Settings { root: "/persys".to_owned(), ..Settings::default() };
    let below: Arc<dyn Store> = Arc::new(open(&host, &settings));
    let term = crate::contract::lead(&below, "b#1").await;
    assert!(below.load(term, None).await.unwrap().snapshot.head.is_none());
}
