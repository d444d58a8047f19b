//! Where each record is.
//!
//! Ids are checked names without `/`, so a key has exactly one reading. Events sort by time and
//! number: both are padded to full width.

use std::sync::Arc;

use persys_model::drift::DriftKind;
use persys_model::entry::{EntryKey, EntryKind};
use persys_model::id::{NodeId, RevisionId, WorkloadId};
use persys_model::time::WallMillis;
use persys_model::token::{CommitSeq, EventSeq};
use persys_model::volume::VolumeKey;

/// A root that keys cannot stand under.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the root {root:?} must be empty, or start with '/' and not end with it")]
pub struct BadRoot {
    root: String,
}

/// The layout below one root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    root: Arc<str>,
}

/// What kind of record is under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Noun {
    Head,
    Leader,
    Node,
    Lease,
    Workload,
    Assignment,
    Retry,
    /// Outcomes of reconciliation: not read.
    Reconciliation,
    Grave,
    Drift,
    Entry(EntryKind),
    Volume,
    Attachment,
    Event,
    /// Records of the audit log.
    Audit,
    /// Earlier revisions and their contents: no load reads them.
    History,
    /// What was moved aside, and whatever is not below the root: not read.
    Other,
    /// Below the root and nothing of ours.
    Foreign,
}

impl Keys {
    /// The layout below `root`.
    pub fn new(root: &str) -> Result<Self, BadRoot> {
        let fits = root.is_empty() || (root.starts_with('/') && !root.ends_with('/'));
        if fits { Ok(Self { root: Arc::from(root) }) } else { Err(BadRoot { root: root.into() }) }
    }

    /// The layout below no root.
    pub(crate) fn bare() -> Self {
        Self { root: Arc::from("") }
    }

    /// `/meta/head`
    #[must_use]
    pub fn head(&self) -> String {
        format!("{}/meta/head", self.root)
    }

    /// `/meta/leader`
    #[must_use]
    pub fn leader(&self) -> String {
        format!("{}/meta/leader", self.root)
    }

    /// `/meta/term`: who led last, in a store whose leader key goes with its lease.
    pub(crate) fn term(&self) -> String {
        format!("{}/meta/term", self.root)
    }

    /// `/meta/filling`: this store is being filled from elsewhere and is not whole yet.
    pub(crate) fn filling(&self) -> String {
        format!("{}/meta/filling", self.root)
    }

    /// `/meta/journal/open`: a commit that did not fit into one transaction is being carried out.
    pub(crate) fn journal(&self) -> String {
        format!("{}/meta/journal/open", self.root)
    }

    /// `/meta/journal/<seq>-<part>`: a part of what such a commit writes.
    pub(crate) fn journal_part(&self, seq: CommitSeq, part: usize) -> String {
        format!("{}/meta/journal/{:020}-{part:06}", self.root, seq.0)
    }

    /// The first key below a folder, and the first behind it; `""` is the root itself.
    pub(crate) fn folder(&self, name: &str) -> (String, String) {
        let root = &self.root;
        let path = if name.is_empty() { root.to_string() } else { format!("{root}/{name}") };
        // `0` is what follows `/`.
        (format!("{path}/"), format!("{path}0"))
    }

    /// All that is needed to read the audit log before a record, and little else.
    pub(crate) fn of_audit(&self, before: u64) -> [(String, String); 2] {
        let (from, mut to) = self.folder("audit");
        if before < u64::MAX {
            to = format!("{from}{before:020}");
        }
        [(from, to), self.folder("meta")]
    }

    /// `/nodes/<id>`
    #[must_use]
    pub fn node(&self, id: &NodeId) -> String {
        format!("{}/nodes/{id}", self.root)
    }

    /// `/nodes/<id>/lease`
    #[must_use]
    pub fn lease(&self, id: &NodeId) -> String {
        format!("{}/nodes/{id}/lease", self.root)
    }

    /// `/reconciliation/<id>`
    #[must_use]
    pub fn reconciliation(&self, id: &WorkloadId) -> String {
        format!("{}/reconciliation/{id}", self.root)
    }

    /// `/workloads/<id>`
    #[must_use]
    pub fn workload(&self, id: &WorkloadId) -> String {
        format!("{}/workloads/{id}", self.root)
    }

    /// `/assignments/<id>`
    #[must_use]
    pub fn assignment(&self, id: &WorkloadId) -> String {
        format!("{}/assignments/{id}", self.root)
    }

    /// `/retries/<id>`
    #[must_use]
    pub fn retry(&self, id: &WorkloadId) -> String {
        format!("{}/retries/{id}", self.root)
    }

    /// `/graves/<node>/<workload>`
    #[must_use]
    pub fn grave(&self, node: &NodeId, workload: &WorkloadId) -> String {
        format!("{}/graves/{node}/{workload}", self.root)
    }

    /// `/drifts/<node>/<workload>/<type>`
    #[must_use]
    pub fn drift(&self, node: &NodeId, workload: &WorkloadId, kind: DriftKind) -> String {
        format!("{}/drifts/{node}/{workload}/{}", self.root, kind.word())
    }

    /// `/<kind, in the plural>/<name>`
    #[must_use]
    pub fn entry(&self, key: &EntryKey) -> String {
        format!("{}/{}/{}", self.root, key.kind.folder(), key.name)
    }

    /// `/volumes/<driver>:<name>`
    #[must_use]
    pub fn volume(&self, key: &VolumeKey) -> String {
        format!("{}/volumes/{key}", self.root)
    }

    /// `/attachments/<node>/<workload>/<driver>:<name>`
    #[must_use]
    pub fn attachment(&self, node: &NodeId, workload: &WorkloadId, key: &VolumeKey) -> String {
        format!("{}/attachments/{node}/{workload}/{key}", self.root)
    }

    /// `/history/<workload>/<number>`
    #[must_use]
    pub fn revision(&self, workload: &WorkloadId, number: u32) -> String {
        format!("{}/history/{workload}/{number:010}", self.root)
    }

    /// `/history/<workload>/spec-<content>`
    #[must_use]
    pub fn body(&self, workload: &WorkloadId, content: &RevisionId) -> String {
        format!("{}/history/{workload}/spec-{content}", self.root)
    }

    /// The folder with the earlier revisions of a workload.
    pub(crate) fn of_history(&self, workload: &WorkloadId) -> (String, String) {
        self.folder(&format!("history/{workload}"))
    }

    /// `/events/<time>-<seq>`
    #[must_use]
    pub fn event(&self, at: WallMillis, seq: EventSeq) -> String {
        format!("{}/events/{:020}-{:020}", self.root, at.0, seq.0)
    }

    /// `/audit/<first>-<last>-<hash of the last>`
    pub(crate) fn audit(&self, first: u64, last: u64, hash: &str) -> String {
        format!("{}/audit/{first:020}-{last:020}-{hash}", self.root)
    }

    /// `/meta/audit`: where the audit log goes on after what was dropped.
    pub(crate) fn audit_anchor(&self) -> String {
        format!("{}/meta/audit", self.root)
    }

    /// `/quarantine/<key>@<seq>`: where unreadable bytes go when unit `seq` needs their key.
    #[must_use]
    pub fn quarantine(&self, key: &str, seq: CommitSeq) -> String {
        let below = key.strip_prefix(&*self.root).unwrap_or(key);
        format!("{}/quarantine{below}@{seq}", self.root)
    }

    /// A key as [`Self::lasting`] gave it, below this root.
    #[must_use]
    pub fn below_root(&self, below: &str) -> String {
        format!("{}{below}", self.root)
    }

    /// The key without its root, if it is one of ours and belongs into a copy of the store: who
    /// leads, leases of nodes and names of the moment are made anew wherever a store comes to life.
    #[must_use]
    pub fn lasting<'k>(&self, key: &'k str) -> Option<&'k str> {
        let below = key.strip_prefix(&*self.root).filter(|below| below.starts_with('/'))?;
        let lease = below.starts_with("/nodes/") && below.ends_with("/lease");
        let ends = below == "/meta/leader" || below.starts_with("/skydns/") || lease;
        (!ends).then_some(below)
    }

    /// What kind of record is under `key`.
    pub(crate) fn noun(&self, key: &str) -> Noun {
        let Some(below) = key.strip_prefix(&*self.root).and_then(|key| key.strip_prefix('/'))
        else {
            return Noun::Other;
        };
        match below.split_once('/') {
            Some(("meta", "head")) => Noun::Head,
            Some(("meta", "leader")) => Noun::Leader,
            Some(("meta", "term" | "filling" | "audit")) => Noun::Other,
            Some(("meta", rest)) if rest.starts_with("journal/") => Noun::Other,
            Some(("nodes", rest)) if rest.ends_with("/lease") => Noun::Lease,
            Some(("nodes", _)) => Noun::Node,
            Some(("workloads", _)) => Noun::Workload,
            Some(("assignments", _)) => Noun::Assignment,
            Some(("retries", _)) => Noun::Retry,
            Some(("graves", _)) => Noun::Grave,
            Some(("drifts", _)) => Noun::Drift,
            Some(("volumes", _)) => Noun::Volume,
            Some(("attachments", _)) => Noun::Attachment,
            Some(("events", _)) => Noun::Event,
            Some(("audit", _)) => Noun::Audit,
            Some(("reconciliation", _)) => Noun::Reconciliation,
            Some(("history", _)) => Noun::History,
            Some(("quarantine" | "skydns", _)) => Noun::Other,
            Some((folder, _)) => EntryKind::of_folder(folder).map_or(Noun::Foreign, Noun::Entry),
            None => Noun::Foreign,
        }
    }
}

/// Time and number in the key of an event.
pub(crate) fn event_of(key: &str) -> Option<(WallMillis, EventSeq)> {
    let (at, seq) = key.rsplit('/').next()?.split_once('-')?;
    Some((WallMillis(at.parse().ok()?), EventSeq(seq.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_the_documents_are_used() {
        let keys = Keys::new("").unwrap();
        let (node, web) = (NodeId::fixed("n1"), WorkloadId::fixed("web"));
        assert_eq!(keys.node(&node), "/nodes/n1");
        assert_eq!(keys.lease(&node), "/nodes/n1/lease");
        assert_eq!(keys.workload(&web), "/workloads/web");
        assert_eq!(keys.assignment(&web), "/assignments/web");
        assert_eq!(keys.retry(&web), "/retries/web");
        assert_eq!(keys.reconciliation(&web), "/reconciliation/web");
        let drift = keys.drift(&node, &web, DriftKind::StateMismatch);
        assert_eq!(drift, "/drifts/n1/web/state_mismatch");
        let at = WallMillis(1_700_000_000_250);
        let event = keys.event(at, EventSeq(7));
        assert!(event.starts_with("/events/"), "{event}");
        assert_eq!(event_of(&event), Some((at, EventSeq(7))), "it begins with its time");
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let keys = Keys::new("/persys").unwrap();
        let (node, web) = (NodeId::fixed("n1"), WorkloadId::fixed("web"));
        assert_eq!(keys.head(), "/persys/meta/head");
        assert_eq!(keys.grave(&node, &web), "/persys/graves/n1/web");
        assert_eq!(
            keys.drift(&node, &web, DriftKind::OrphanOnAgent),
            "/persys/drifts/n1/web/orphan_on_agent"
        );
        let data = VolumeKey::parse("ceph-rbd:data").unwrap().unwrap();
        assert_eq!(keys.volume(&data), "/persys/volumes/ceph-rbd:data");
        let attached = keys.attachment(&node, &web, &data);
        assert_eq!(attached, "/persys/attachments/n1/web/ceph-rbd:data");
        assert_eq!(
            keys.quarantine("/persys/nodes/n1", CommitSeq(7)),
            "/persys/quarantine/nodes/n1@7"
        );
        let event = keys.event(WallMillis(5), EventSeq(u64::MAX));
        assert_eq!(event_of(&event), Some((WallMillis(5), EventSeq(u64::MAX))));
        assert!(event < keys.event(WallMillis(u64::MAX), EventSeq(0)));
    }

    #[test]
    fn what_ends_by_itself_is_in_no_copy() {
        let keys = Keys::new("/persys").unwrap();
        for (key, lasting) in [
            ("/persys/meta/head", Some("/meta/head")),
            ("/persys/quarantine/nodes/n1@7", Some("/quarantine/nodes/n1@7")),
            ("/persys/notes", Some("/notes")),
            ("/persys/meta/leader", None),
            ("/persys/nodes/n1/lease", None),
            ("/persys/skydns/local/n1", None),
            ("/persysother/nodes/n1", None),
            ("/nodes/n1", None),
        ] {
            assert_eq!(keys.lasting(key), lasting, "{key}");
            assert!(lasting.is_none_or(|below| keys.below_root(below) == key));
        }
    }

    #[test]
    fn each_key_has_one_reading() {
        let keys = Keys::new("").unwrap();
        for (key, noun) in [
            ("/nodes/n1", Noun::Node),
            ("/nodes/n1/lease", Noun::Lease),
            ("/reconciliation/web", Noun::Reconciliation),
            ("/history/web/0000000001", Noun::History),
            ("/meta/head", Noun::Head),
            ("/namespaces/web", Noun::Entry(EntryKind::Namespace)),
            ("/meta/other", Noun::Foreign),
            ("/quarantine/nodes/n1@7", Noun::Other),
            ("elsewhere", Noun::Other),
            ("/notes", Noun::Foreign),
        ] {
            assert_eq!(keys.noun(key), noun, "{key}");
        }
        assert_eq!(Keys::new("/a").unwrap().noun("/nodes/n1"), Noun::Other);
        assert!(Keys::new("a").is_err() && Keys::new("/").is_err() && Keys::new("/a/").is_err());
    }
}
