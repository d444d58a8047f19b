//! Names and marks: the one place that says which virtual machine is ours.
//!
//! A machine is ours if the facts in its description say so completely (managed, our cluster, our
//! node, a readable workload, revision and epoch) *and* its name is the one we give that workload.
//! The facts live in the `<metadata>` of the description, under a namespace of our own, where libvirt
//! keeps them as they are through restarts of its own.
//!
//! A machine's uuid and the hardware addresses of its cards follow from its name and its cluster, so
//! the same workload is the same machine to its network and to licences in the guest, wherever and
//! however often it is defined. libvirt refuses a second machine with the same name or uuid: at most
//! one copy for each node, for free.

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_model::id::{RevisionId, WorkloadId};
use persys_model::spec::Class;
use persys_model::token::Epoch;

use crate::runtime::{Owner, Start};

use super::xml::Element;

/// The namespace of our facts.
pub const NAMESPACE: &str = "urn:persys:workload:1";
/// The prefix they are written with.
pub const PREFIX: &str = "persys";

const ROOT: &str = "persys:workload";
const ROOT_XMLNS: &str = "xmlns:persys";
const WORD: &str = "persys:word";
const EXCLUSIVE: &str = "exclusive";
const STOP_GRACE: &str = "stop_grace_ms";

/// What the facts of one of our machines say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Whose it is.
    pub workload: WorkloadId,
    /// The version.
    pub revision: RevisionId,
    /// The decision.
    pub epoch: Epoch,
    /// Whether there may be a second copy for a moment.
    pub class: Class,
    /// Time in milliseconds it has to end by itself, if its spec names one.
    pub stop_grace_ms: Option<u64>,
}

/// The facts of a machine to be defined, for its `<metadata>`. `words` are the user's own.
#[must_use]
pub fn facts(owner: &Owner, start: &Start, words: &BTreeMap<Arc<str>, Arc<str>>) -> Element {
    let words = words.iter().map(|(key, value)| Element::new(WORD).with("key", key).saying(value));
    let facts = Element::new(ROOT)
        .with(ROOT_XMLNS, NAMESPACE)
        .with("managed", "true")
        .with("cluster", &owner.cluster)
        .with("node", &owner.node)
        .with("workload_id", &start.workload)
        .with("revision_id", &start.revision)
        .with("epoch", start.epoch)
        .with("class", class_word(start.spec.placement.class));
    let facts = match start.spec.stop_grace_ms {
        Some(grace) => facts.with(STOP_GRACE, grace),
        None => facts,
    };
    facts.holding_all(words)
}

fn class_word(class: Class) -> &'static str {
    match class {
        Class::Default => "default",
        Class::Exclusive => EXCLUSIVE,
    }
}

/// The mark in a machine's description, if the machine is ours. `domain` is the whole `<domain>`.
#[must_use]
pub fn mark_of(owner: &Owner, prefix: &str, domain: &Element) -> Option<Mark> {
    let facts = facts_in(domain)?;
    let ours = facts.attribute("managed") == Some("true")
        && facts.attribute("cluster") == Some(&owner.cluster)
        && facts.attribute("node") == Some(owner.node.as_str());
    if !ours {
        return None;
    }
    let workload = WorkloadId::new(facts.attribute("workload_id")?).ok()?;
    if domain.child("name")?.text != name_of(prefix, &workload) {
        return None;
    }
    let revision = RevisionId::new(facts.attribute("revision_id")?).ok()?;
    let epoch = Epoch(facts.attribute("epoch")?.parse().ok()?);
    let class = match facts.attribute("class")? {
        EXCLUSIVE => Class::Exclusive,
        _ => Class::Default,
    };
    let stop_grace_ms = facts.attribute(STOP_GRACE).and_then(|text| text.parse().ok());
    Some(Mark { workload, revision, epoch, class, stop_grace_ms })
}

/// Whose a machine is that is not ours, in words for the one who has to sort it out.
#[must_use]
pub fn owner_of(domain: &Element) -> String {
    match facts_in(domain) {
        Some(facts) => format!(
            "node {} of cluster {}",
            facts.attribute("node").unwrap_or("unknown"),
            facts.attribute("cluster").unwrap_or("unknown")
        ),
        None => "nobody who left a mark".to_owned(),
    }
}

/// Our facts among everybody's. A prefix is only a name somebody chose; the namespace counts.
fn facts_in(domain: &Element) -> Option<&Element> {
    domain.child("metadata")?.children.iter().find(|element| {
        element.name.split_once(':').is_some_and(|(prefix, name)| {
            let declared = |(key, value): &(String, String)| {
                value == NAMESPACE && key.strip_prefix("xmlns:") == Some(prefix)
            };
            name == "workload" && element.attributes.iter().any(declared)
        })
    })
}

/// The name a workload's machine has.
#[must_use]
pub fn name_of(prefix: &str, workload: &WorkloadId) -> String {
    format!("{prefix}{workload}")
}

/// The uuid of a machine: a custom one (version 8) that follows from cluster and name.
#[must_use]
pub fn uuid_of(cluster: &str, name: &str) -> String {
    let mut bits = folded(&[cluster, name]);
    bits = (bits & !(0xf << 76)) | (8 << 76);
    bits = (bits & !(3 << 62)) | (2 << 62);
    let hex = format!("{bits:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}

/// The hardware address of a machine's `nth` card where the user gave none. The first byte marks it
/// as given locally, to one machine; the other forty bits follow from cluster, name and number.
#[must_use]
pub fn mac_of(cluster: &str, name: &str, nth: usize) -> [u8; 6] {
    let bits = folded(&[cluster, name, &nth.to_string()]).to_be_bytes();
    let mut mac = [0x52; 6];
    for (to, from) in mac.iter_mut().skip(1).zip(bits.iter().skip(11)) {
        *to = *from;
    }
    mac
}

/// As people and XML write it.
#[must_use]
pub fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// FNV-1a in 128 bits over texts and their lengths, then stirred, so that every bit of the input
/// reaches every bit of the result. It guards against accidents: names are given by those who may
/// define machines anyway.
fn folded(texts: &[&str]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    const STIR: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    let mut state = OFFSET;
    for text in texts {
        let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
        for byte in length.to_le_bytes().iter().chain(text.as_bytes()) {
            state = (state ^ u128::from(*byte)).wrapping_mul(PRIME);
        }
    }
    for _ in 0..3 {
        state = (state ^ (state >> 64)).wrapping_mul(STIR);
    }
    state ^ (state >> 64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use persys_model::id::NodeId;
    use persys_model::resources::Resources;
    use persys_model::spec::{ContainerSpec, Kind, Placement, Spec};

    use super::*;

    fn owner() -> Owner {
        Owner { cluster: Arc::from("c1"), node: NodeId::fixed("n1") }
    }

    fn start() -> Start {
        let spec = Spec {
            kind: Kind::Container(ContainerSpec::default()),
            resources: Resources::default(),
            placement: Placement { class: Class::Exclusive, ..Placement::default() },
            metadata: BTreeMap::new(),
            secrets: Vec::new(),
            stop_grace_ms: Some(90_000),
            health: persys_model::spec::health::HealthChecks::default(),
        };
        Start {
            workload: WorkloadId::fixed("web"),
            revision: RevisionId::new("r\"1<").unwrap(),
            epoch: Epoch(7),
            spec: Arc::new(spec),
            volumes: BTreeMap::new(),
            secrets: Arc::default(),
            secrets_at: None,
            not_after: None,
            resume: false,
        }
    }

    fn domain(name: &str, facts: Element) -> Element {
        let metadata = Element::new("metadata")
            .holding(Element::new("other:thing").with("xmlns:other", "urn:other"))
            .holding(facts);
        Element::new("domain").holding(Element::new("name").saying(name)).holding(metadata)
    }

    #[test]
    fn what_we_write_we_read() {
        let words = BTreeMap::from([(Arc::from("a\"<b"), Arc::from("]]>&\nx"))]);
        let domain = domain("persys-web", facts(&owner(), &start(), &words));
        let read = Element::read(&domain.write().unwrap()).unwrap();
        assert_eq!(read, domain);
        let mark = mark_of(&owner(), "persys-", &read).unwrap();
        assert_eq!((mark.workload.as_str(), mark.epoch), ("web", Epoch(7)));
        assert_eq!((mark.revision.as_str(), mark.class), ("r\"1<", Class::Exclusive));
        assert_eq!(mark.stop_grace_ms, Some(90_000));
    }

    #[test]
    fn a_prefix_is_only_a_name() {
        let text = "<domain><name>persys-web</name><metadata>\
            <p:workload xmlns:p='urn:persys:workload:1' managed='true' cluster='c1' node='n1' \
            workload_id='web' revision_id='r' epoch='1' class='default'/></metadata></domain>";
        assert!(mark_of(&owner(), "persys-", &Element::read(text).unwrap()).is_some());
        let other = text.replace("xmlns:p='urn:persys:workload:1'", "xmlns:p='urn:else'");
        assert!(mark_of(&owner(), "persys-", &Element::read(&other).unwrap()).is_none());
    }

    #[test]
    fn a_machine_is_ours_only_if_everything_says_so() {
        let good = facts(&owner(), &start(), &BTreeMap::new());
        let read = |name: &str, facts: &Element| {
            mark_of(&owner(), "persys-", &domain(name, facts.clone())).is_some()
        };
        assert!(read("persys-web", &good));
        assert!(!read("web", &good) && !read("persys-db", &good), "a clone under another name");
        for (key, value) in [
            ("managed", "false"),
            ("cluster", "c2"),
            ("node", "n2"),
            ("workload_id", "../x"),
            ("revision_id", ""),
            ("epoch", "-1"),
        ] {
            let mut facts = good.clone();
            facts.attributes.retain(|(name, _)| name != key);
            assert!(!read("persys-web", &facts), "without {key}");
            facts.attributes.push((key.to_owned(), value.to_owned()));
            assert!(!read("persys-web", &facts), "{key}={value}");
        }
        assert_eq!(owner_of(&domain("x", good)), "node n1 of cluster c1");
        assert_eq!(owner_of(&Element::new("domain")), "nobody who left a mark");
    }

    #[test]
    fn uuids_and_addresses_follow_from_names_and_differ() {
        let uuid = uuid_of("c1", "persys-web");
        assert_eq!(uuid, uuid_of("c1", "persys-web"));
        assert_ne!(uuid, uuid_of("c", "1persys-web"));
        let parts: Vec<_> = uuid.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12], "{uuid}");
        assert_eq!(uuid.get(14..15), Some("8"), "{uuid}");
        assert!(uuid.get(19..20).is_some_and(|v| "89ab".contains(v)), "{uuid}");

        let mut seen = BTreeSet::new();
        for nth in 0..20_000_usize {
            let mac = mac_of("c1", &format!("persys-vm-{}", nth / 2), nth % 2);
            assert_eq!(mac[0] & 3, 2, "local, and of one machine");
            assert!(seen.insert(mac), "{}", mac_text(mac));
        }
        // Machines in the field have them; they must stay what they are.
        assert_eq!(mac_text(mac_of("c1", "persys-web", 0)), "52:32:b6:ef:3e:4d");
        assert_eq!(uuid, "ca97cdee-7b3d-81e7-ab50-3059a05663f0");
    }
}
