//! Names and labels: the one place that says what is ours.
//!
//! A container is ours if its labels say so completely (managed, our cluster, our node, a readable
//! workload, revision and epoch) *and* its name is the one we give that workload. Labels alone are
//! not enough: an image committed from one of our containers hands them on to whatever runs it.

use std::collections::HashMap;

use persys_model::id::{RevisionId, WorkloadId};
use persys_model::spec::Class;
use persys_model::token::Epoch;

use crate::runtime::{Owner, Start};

pub(crate) const MANAGED: &str = "persys.managed";
pub(crate) const CLUSTER: &str = "persys.cluster";
pub(crate) const NODE: &str = "persys.node";
pub(crate) const WORKLOAD: &str = "persys.workload_id";
pub(crate) const REVISION: &str = "persys.revision_id";
pub(crate) const EPOCH: &str = "persys.epoch";
/// Whether there may be a second copy for a moment. Always written, so that no user's label can
/// make the watchdog stop what is not exclusive.
const CLASS: &str = "persys.class";
const EXCLUSIVE: &str = "exclusive";

/// What Compose writes on everything of one stack.
pub(crate) const PROJECT: &str = "com.docker.compose.project";
/// What Compose writes on the containers of one service.
pub(crate) const SERVICE: &str = "com.docker.compose.service";

pub(crate) type DockerLabels = HashMap<String, String>;

/// What the labels of one of our containers say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) workload: WorkloadId,
    pub(crate) revision: RevisionId,
    pub(crate) epoch: Epoch,
}

/// The labels of a container to be made. Ours come last: no user's label replaces them.
pub(crate) fn labels_for<'a>(
    owner: &Owner,
    start: &Start,
    users: impl Iterator<Item = (&'a str, &'a str)>,
) -> DockerLabels {
    let ours = [(REVISION, start.revision.to_string()), (EPOCH, start.epoch.to_string())];
    let users = users.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let ours = ours.map(|(key, value)| (key.to_owned(), value));
    users.chain(ours).chain(lasting_labels(owner, start)).collect()
}

/// The labels that stay the same through all revisions of a workload.
pub(crate) fn lasting_labels(
    owner: &Owner,
    start: &Start,
) -> impl Iterator<Item = (String, String)> + use<> {
    let ours = [
        (MANAGED, "true".to_owned()),
        (CLUSTER, owner.cluster.to_string()),
        (NODE, owner.node.to_string()),
        (WORKLOAD, start.workload.to_string()),
        (CLASS, class_word(start.spec.placement.class).to_owned()),
    ];
    ours.into_iter().map(|(key, value)| (key.to_owned(), value))
}

fn class_word(class: Class) -> &'static str {
    match class {
        Class::Default => "default",
        Class::Exclusive => EXCLUSIVE,
    }
}

/// What to ask the daemon for, to get what may be ours and is exclusive.
pub(crate) fn exclusive_filter(owner: &Owner) -> Vec<String> {
    let mut filter = label_filter(owner);
    filter.push(format!("{CLASS}={EXCLUSIVE}"));
    filter
}

/// What to ask the daemon for, to get what may be ours.
pub(crate) fn label_filter(owner: &Owner) -> Vec<String> {
    vec![
        format!("{MANAGED}=true"),
        format!("{CLUSTER}={}", owner.cluster),
        format!("{NODE}={}", owner.node),
    ]
}

/// The workload that labels name, if they are of our cluster and node.
pub(crate) fn workload_of(owner: &Owner, labels: &DockerLabels) -> Option<WorkloadId> {
    let label = |key: &str| labels.get(key).map(String::as_str);
    let ours = label(MANAGED) == Some("true")
        && label(CLUSTER) == Some(&owner.cluster)
        && label(NODE) == Some(owner.node.as_str());
    if ours { WorkloadId::new(label(WORKLOAD)?).ok() } else { None }
}

/// Reads the mark of a container, if it is ours. `name` is as Docker says it, with or without `/`.
pub(crate) fn read_mark(
    owner: &Owner,
    prefix: &str,
    name: &str,
    labels: &DockerLabels,
) -> Option<Mark> {
    let label = |key: &str| labels.get(key).map(String::as_str);
    let workload = workload_of(owner, labels)?;
    if name.trim_start_matches('/') != name_of(prefix, &workload) {
        return None;
    }
    let revision = RevisionId::new(label(REVISION)?).ok()?;
    let epoch = Epoch(label(EPOCH)?.parse().ok()?);
    Some(Mark { workload, revision, epoch })
}

/// The name a workload's container has.
pub(crate) fn name_of(prefix: &str, workload: &WorkloadId) -> String {
    format!("{prefix}{workload}")
}

/// Whose a container is that is not ours, in words for the one who has to sort it out.
pub(crate) fn owner_of(labels: &DockerLabels) -> String {
    let label = |key: &str| labels.get(key).map(String::as_str);
    if let Some(cluster) = label(CLUSTER) {
        return format!("node {} of cluster {cluster}", label(NODE).unwrap_or("unknown"));
    }
    if let Some(project) = label(PROJECT) {
        return format!("the compose project {project}");
    }
    if label(MANAGED).is_some() {
        return "an agent that names no cluster".to_owned();
    }
    "nobody who left a label".to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

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
            placement: Placement::default(),
            metadata: BTreeMap::new(),
            secrets: Vec::new(),
            stop_grace_ms: None,
            health: persys_model::spec::health::HealthChecks::default(),
        };
        Start {
            workload: WorkloadId::fixed("web"),
            revision: RevisionId::fixed("r1"),
            epoch: Epoch(7),
            spec: Arc::new(spec),
            volumes: BTreeMap::new(),
            secrets: Arc::default(),
            secrets_at: None,
            not_after: None,
            resume: false,
        }
    }

    #[test]
    fn what_we_write_we_read() {
        let labels = labels_for(&owner(), &start(), std::iter::empty());
        let mark = read_mark(&owner(), "persys-", "/persys-web", &labels).unwrap();
        assert_eq!((mark.workload.as_str(), mark.epoch), ("web", Epoch(7)));
        assert_eq!(mark.revision.as_str(), "r1");
    }

    #[test]
    fn no_users_label_replaces_ours() {
        let users = [(NODE, "n2"), (CLASS, EXCLUSIVE), ("team", "blue")].into_iter();
        let labels = labels_for(&owner(), &start(), users);
        assert_eq!(labels[CLASS], "default", "nobody has it stopped by the watchdog");
        assert_eq!((labels[NODE].as_str(), labels["team"].as_str()), ("n1", "blue"));
    }

    #[test]
    fn a_container_is_ours_only_if_everything_says_so() {
        let good = labels_for(&owner(), &start(), std::iter::empty());
        let read = |name: &str, labels: &DockerLabels| read_mark(&owner(), "persys-", name, labels);
        assert!(read("/persys-web", &good).is_some());
        assert!(read("/web", &good).is_none(), "made from a committed image");
        assert!(read("/persys-db", &good).is_none());
        for (key, value) in [
            (MANAGED, "false"),
            (CLUSTER, "c2"),
            (NODE, "n2"),
            (WORKLOAD, "../x"),
            (REVISION, ""),
            (EPOCH, "-1"),
        ] {
            let mut labels = good.clone();
            labels.insert(key.to_owned(), value.to_owned());
            assert!(read("/persys-web", &labels).is_none(), "{key}={value}");
            labels.remove(key);
            assert!(read("/persys-web", &labels).is_none(), "without {key}");
        }
    }

    #[test]
    fn a_foreign_owner_is_named() {
        let owner = |key: &str, value: &str| {
            owner_of(&DockerLabels::from([(key.to_owned(), value.to_owned())]))
        };
        assert_eq!(owner(CLUSTER, "c2"), "node unknown of cluster c2");
        assert_eq!(owner("com.docker.compose.project", "shop"), "the compose project shop");
        assert_eq!(owner("x", "y"), "nobody who left a label");
    }
}
