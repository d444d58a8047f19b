//! Things of others on each Docker: a container that runs, one that does not, and a volume, with names
//! and labels much like ours. Nobody may touch them.

use std::collections::BTreeMap;

use crate::Fault;
use crate::cluster::Docker;
use crate::look::docker;
use crate::witness::IMAGE;

/// What was there in the beginning, by daemon.
#[derive(Debug)]
pub struct Decoys(BTreeMap<String, String>);

impl Decoys {
    /// Makes them.
    pub fn make(dockers: &[Docker]) -> Result<Self, Fault> {
        let mut all = BTreeMap::new();
        for on in dockers {
            let labels = "persys.cluster=somebody-else";
            let sleep = [IMAGE, "/bin/sleep", "1000000"];
            for (word, name) in [("run", "persys-decoy-runs"), ("create", "persys-decoy-rests")] {
                let mut words = vec![word, "--name", name, "--label", labels, "--network", "none"];
                words.extend((word == "run").then_some("-d"));
                words.extend(sleep);
                docker(&on.host, &words)?;
            }
            docker(&on.host, &["volume", "create", "--label", labels, "persys-decoy"])?;
            all.insert(on.host.clone(), describe(&on.host)?);
        }
        Ok(Self(all))
    }

    /// Those that are no longer what they were.
    #[must_use]
    pub fn touched(&self) -> Vec<String> {
        let told = self.0.iter().filter_map(|(host, before)| match describe(host) {
            Ok(now) if now == *before => None,
            Ok(now) => Some(format!("foreign: on {host} was {before:?} and is {now:?}")),
            Err(fault) => Some(format!("foreign: on {host} was {before:?}: {fault}")),
        });
        told.collect()
    }
}

fn describe(host: &str) -> Result<String, Fault> {
    let names = ["persys-decoy-runs", "persys-decoy-rests"];
    let format = "{{.Id}} {{.State.Status}} {{.State.Pid}} {{.State.StartedAt}}";
    let containers = docker(host, &[&["inspect", "-f", format], &names[..]].concat())?;
    let volume = docker(host, &["volume", "inspect", "-f", "{{.CreatedAt}}", "persys-decoy"])?;
    Ok(format!("{containers}{volume}"))
}
