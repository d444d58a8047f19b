//! Records as the etcd plugin of `CoreDNS` reads them: one key per place, the name from the root
//! down.
//!
//! | record | key | value |
//! |---|---|---|
//! | agent | `/skydns/cloud/persys/agents/default/n1` | `{"host":"10.0.0.1","ttl":300}` |
//! | scheduler | `/skydns/local/persys/persys-scheduler` | `{"host":"10.0.0.1","ttl":300}` |
//! | its service | `/skydns/local/persys/_persys-scheduler` | `{"host":"10.0.0.1","port":8085,"ttl":300}` |
//! | a workload | `/skydns/local/persys/workloads/web` | `{"host":"10.0.0.1","ttl":30}` |
//! | with ports | `/skydns/local/persys/workloads/web/tcp-8081` | `{"host":"10.0.0.1","port":8081,"ttl":30}` |
//!
//! Priority and weight are left out: their defaults are what we mean. The plugin answers a name from
//! the keys below it, and only without any from its own key, so a workload has either.

use std::collections::BTreeMap;

use persys_cluster::discovery::{Host, Name, Record, Shape, Zones};
use persys_model::spec::Protocol;
use serde_json::{Map, Value};

/// Where all of it is.
pub const ROOT: &str = "/skydns/";

/// The keys of a record, and what stands there.
#[must_use]
pub fn entries(name: &Name, record: &Record) -> BTreeMap<String, String> {
    let key = key(name);
    match &record.shape {
        Shape::Address => BTreeMap::from([(key, value(record, None))]),
        Shape::Service { port, .. } => BTreeMap::from([(key, value(record, Some(*port)))]),
        Shape::Workload { ports } if ports.is_empty() => {
            BTreeMap::from([(key, value(record, None))])
        }
        Shape::Workload { ports } => ports
            .iter()
            .map(|port| {
                let protocol = match port.protocol {
                    Protocol::Tcp => "tcp",
                    Protocol::Udp => "udp",
                };
                (format!("{key}/{protocol}-{}", port.port), value(record, Some(port.port)))
            })
            .collect(),
    }
}

/// Keys that nobody but us writes: whole branches, and single keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ours {
    /// All keys that begin like this.
    pub branches: Vec<String>,
    /// These keys.
    pub keys: Vec<String>,
}

impl Ours {
    /// Those of a cluster.
    #[must_use]
    pub fn of(zones: &Zones) -> Self {
        let branch = |name: &Name| format!("{}/", key(name));
        let [service, tcp] = zones.services();
        Self {
            branches: vec![branch(zones.agents()), branch(zones.workloads())],
            keys: [zones.scheduler(), service, tcp].iter().map(key).collect(),
        }
    }

    /// Whether `key` is one.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.branches.iter().any(|branch| key.starts_with(branch.as_str()))
            || self.keys.iter().any(|own| own == key)
    }
}

fn key(name: &Name) -> String {
    format!("{ROOT}{}", name.path())
}

fn value(record: &Record, port: Option<u16>) -> String {
    let host = match &record.host {
        Host::Ip(ip) => ip.to_string(),
        Host::Name(name) => name.trim_end_matches('.').to_owned(),
    };
    let mut fields = Map::new();
    fields.insert("host".to_owned(), Value::from(host));
    if let Some(port) = port {
        fields.insert("port".to_owned(), Value::from(port));
    }
    fields.insert("ttl".to_owned(), Value::from(record.ttl_s));
    Value::Object(fields).to_string()
}
