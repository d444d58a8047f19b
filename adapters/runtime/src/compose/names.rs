//! Names of stacks, and which containers are ours.
//!
//! A container of a stack is ours if its labels name our cluster, our node and a workload, *and* its
//! name is one that Compose gives in the project it says it belongs to. Labels alone are not
//! enough: an image committed from one of our containers hands them on to whatever runs it.

use std::collections::HashMap;
use std::fmt::Write as _;

use persys_model::id::WorkloadId;

use crate::docker::identity::{self, PROJECT, SERVICE};
use crate::runtime::Owner;

/// The project of a workload: derived from its id alone, so no two workloads share one.
///
/// Schedulers in the field give every stack the same project name, so the name a client asks for is
/// not used; [`ASKED`] shows it. Compose takes small letters, digits, `-` and `_`; a workload may
/// also have a `.` and capital letters. So `.` becomes `_d`, `_` becomes `__`, and `W` becomes `_cw`.
pub(super) fn project_of(prefix: &str, workload: &WorkloadId) -> String {
    let mut name = prefix.to_owned();
    for letter in workload.as_str().chars() {
        match letter {
            '.' => name.push_str("_d"),
            '_' => name.push_str("__"),
            'A'..='Z' => name.extend(['_', 'c', letter.to_ascii_lowercase()]),
            other => name.push(other),
        }
    }
    name
}

/// Label of the project name a client asked for.
pub(super) const ASKED: &str = "persys.project_name";

/// What a container of ours belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) workload: WorkloadId,
    pub(super) project: String,
    pub(super) service: String,
    /// Which of the service's containers it is, as Compose counts them.
    pub(super) number: String,
}

/// Compose's own number of a container of a service.
const NUMBER: &str = "com.docker.compose.container-number";

/// Reads the mark of a container of a stack, if it is ours. `name` is as Docker says it.
pub(super) fn read_mark(
    owner: &Owner,
    name: &str,
    labels: &HashMap<String, String>,
) -> Option<Mark> {
    let workload = identity::workload_of(owner, labels)?;
    let (project, service) = (labels.get(PROJECT)?, labels.get(SERVICE)?);
    // A workload of its own has a revision, whatever other labels its owner gave it.
    if labels.contains_key(identity::REVISION) || !is_given(name, project, service) {
        return None;
    }
    let number = labels.get(NUMBER).cloned().unwrap_or_default();
    Some(Mark { workload, project: project.clone(), service: service.clone(), number })
}

/// Whether Compose gives this name: `project_service_1`, `project-service-1`, and with twelve digits
/// of its id before that while another one takes its place.
fn is_given(name: &str, project: &str, service: &str) -> bool {
    let name = name.trim_start_matches('/');
    let replaced = name
        .split_once('_')
        .filter(|(id, _)| id.len() == 12 && id.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let plain = |name: &str| {
        ['_', '-'].into_iter().any(|sign| {
            let mut start = String::new();
            // Writing to a text cannot fail.
            let _written = write!(start, "{project}{sign}{service}{sign}");
            name.strip_prefix(&start).is_some_and(|number| {
                !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
            })
        })
    };
    plain(name) || replaced.is_some_and(|(_, rest)| plain(rest))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use persys_model::id::NodeId;

    use super::*;

    #[test]
    fn no_two_workloads_share_a_project() {
        let ids = [
            "a.b", "a_b", "a-b", "a_db", "a__b", "a_d_b", "ab", "a-b.c", "a-b_c", "Ab", "aB", "AB",
            "a_cb", "a_c.b", "a.cb",
        ];
        let of = |id: &str| project_of("persys-", &WorkloadId::new(id).unwrap());
        let names: BTreeSet<String> = ids.iter().map(|id| of(id)).collect();
        assert_eq!(names.len(), ids.len(), "{names:?}");
        let fit = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        assert!(names.iter().all(|name| name.chars().all(fit)), "{names:?}");
    }

    #[test]
    fn a_container_is_ours_only_if_everything_says_so() {
        let owner = Owner { cluster: Arc::from("c1"), node: NodeId::fixed("n1") };
        let good: HashMap<String, String> = [
            ("persys.managed", "true"),
            ("persys.cluster", "c1"),
            ("persys.node", "n1"),
            ("persys.workload_id", "shop"),
            (PROJECT, "persys-shop"),
            (SERVICE, "web"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        let read = |name: &str, labels: &HashMap<String, String>| read_mark(&owner, name, labels);
        for name in ["/persys-shop_web_1", "persys-shop-web-12", "/0123456789ab_persys-shop_web_1"]
        {
            let mark = read(name, &good).unwrap();
            assert_eq!((mark.workload.as_str(), mark.service.as_str()), ("shop", "web"));
        }
        for name in ["/other", "/persys-shop_web_", "/persys-shop_db_1", "/xyz_persys-shop_web_1"] {
            assert_eq!(read(name, &good), None, "{name}");
        }
        for key in good.keys() {
            let mut labels = good.clone();
            labels.remove(key);
            assert_eq!(read("/persys-shop_web_1", &labels), None, "without {key}");
        }
        let mut own = good;
        own.insert("persys.revision_id".to_owned(), "r1".to_owned());
        assert_eq!(read("/persys-shop_web_1", &own), None, "a workload of its own");
    }
}
