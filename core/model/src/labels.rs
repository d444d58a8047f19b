//! Labels of nodes, what a workload may ask of them, and taints that keep workloads away.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Key and value texts of a node. Checked at the edge: keys up to 128, values up to 256 bytes.
pub type Labels = BTreeMap<Arc<str>, Arc<str>>;

/// One demand on a node's labels.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Constraint {
    /// Which label.
    pub key: Arc<str>,
    /// What about it.
    pub rule: Rule,
}

/// What a constraint asks of the value of its label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// The label is there, with any value.
    Exists,
    /// The label is not there.
    Absent,
    /// The label is there with one of these values.
    In(BTreeSet<Arc<str>>),
    /// The label is not there, or has none of these values.
    NotIn(BTreeSet<Arc<str>>),
}

impl Constraint {
    /// Whether a node with `labels` meets this demand.
    #[must_use]
    pub fn admits(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        match &self.rule {
            Rule::Exists => value.is_some(),
            Rule::Absent => value.is_none(),
            Rule::In(wanted) => value.is_some_and(|value| self.has(wanted, value)),
            Rule::NotIn(refused) => value.is_none_or(|value| !self.has(refused, value)),
        }
    }

    /// True if `value` is among `values`, under any of its names.
    fn has(&self, values: &BTreeSet<Arc<str>>, value: &str) -> bool {
        self.names_of(value).any(|name| values.contains(name))
    }

    /// The names that `value` has under this constraint's key: its own, and a second one where an
    /// architecture has two.
    pub fn names_of<'a>(&self, value: &'a str) -> impl Iterator<Item = &'a str> + use<'a> {
        let second = (&*self.key == ARCH).then(|| arch_alias(value)).flatten();
        std::iter::once(value).chain(second)
    }
}

/// Label of a node's processor architecture.
pub const ARCH: &str = "arch";

/// Architectures that have two names: in Go and Docker, and in the kernel and compilers.
const ARCH_NAMES: [(&str, &str); 5] = [
    ("amd64", "x86_64"),
    ("arm64", "aarch64"),
    ("386", "x86"),
    ("ppc64le", "powerpc64le"),
    ("mips64le", "mips64el"),
];

fn arch_alias(name: &str) -> Option<&'static str> {
    let (go, kernel) = ARCH_NAMES.iter().find(|(go, kernel)| name == *go || name == *kernel)?;
    Some(if name == *go { *kernel } else { *go })
}

/// The name that Go and Docker have for an architecture: `amd64` for `x86_64`.
#[must_use]
pub fn go_arch(name: &str) -> &str {
    ARCH_NAMES.iter().find(|(_, kernel)| *kernel == name).map_or(name, |(go, _)| go)
}

impl std::fmt::Display for Constraint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let join = |values: &BTreeSet<Arc<str>>| {
            values.iter().map(|value| &**value).collect::<Vec<_>>().join(",")
        };
        match &self.rule {
            Rule::Exists => write!(f, "{}", self.key),
            Rule::Absent => write!(f, "!{}", self.key),
            Rule::In(values) => write!(f, "{}={}", self.key, join(values)),
            Rule::NotIn(values) => write!(f, "{}!={}", self.key, join(values)),
        }
    }
}

/// How strongly a taint keeps workloads away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaintEffect {
    /// Nothing new is placed here unless it tolerates the taint.
    NoSchedule,
    /// Used only when nothing else fits.
    PreferNoSchedule,
}

/// A mark on a node that keeps workloads away.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Taint {
    /// What the mark is about.
    pub key: Arc<str>,
    /// Its value, possibly empty.
    pub value: Arc<str>,
    /// How strong it is.
    pub effect: TaintEffect,
}

/// A workload's word that it puts up with a taint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Toleration {
    /// The taint's key.
    pub key: Arc<str>,
    /// The taint's value; `None` tolerates every value.
    pub value: Option<Arc<str>>,
}

impl Toleration {
    /// Whether this puts up with `taint`.
    #[must_use]
    pub fn covers(&self, taint: &Taint) -> bool {
        self.key == taint.key && self.value.as_ref().is_none_or(|value| *value == taint.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(k, v)| (Arc::from(*k), Arc::from(*v))).collect()
    }

    fn set(values: &[&str]) -> BTreeSet<Arc<str>> {
        values.iter().map(|v| Arc::from(*v)).collect()
    }

    #[test]
    fn an_architecture_is_met_under_both_its_names() {
        let rule = |key: &str, rule| Constraint { key: Arc::from(key), rule };
        let (go, kernel) = (labels(&[("arch", "amd64")]), labels(&[("arch", "x86_64")]));
        for node in [&go, &kernel] {
            for name in ["amd64", "x86_64"] {
                assert!(rule("arch", Rule::In(set(&[name]))).admits(node), "{name} {node:?}");
                assert!(!rule("arch", Rule::NotIn(set(&[name]))).admits(node), "{name} {node:?}");
            }
            assert!(!rule("arch", Rule::In(set(&["arm64"]))).admits(node));
        }
        let other = labels(&[("image", "amd64")]);
        assert!(!rule("image", Rule::In(set(&["x86_64"]))).admits(&other), "this label only");
        assert_eq!((go_arch("x86_64"), go_arch("aarch64")), ("amd64", "arm64"));
        assert_eq!((go_arch("amd64"), go_arch("riscv64")), ("amd64", "riscv64"));
    }

    #[test]
    fn each_rule_says_what_it_means() {
        let ssd = labels(&[("disk", "ssd")]);
        let bare = labels(&[]);
        let rows = [
            (Rule::Exists, true, false),
            (Rule::Absent, false, true),
            (Rule::In(set(&["ssd", "nvme"])), true, false),
            (Rule::In(set(&["hdd"])), false, false),
            (Rule::NotIn(set(&["ssd"])), false, true),
            (Rule::NotIn(set(&["hdd"])), true, true),
        ];
        for (rule, on_ssd, on_bare) in rows {
            let constraint = Constraint { key: Arc::from("disk"), rule };
            assert_eq!(constraint.admits(&ssd), on_ssd, "{constraint} on ssd");
            assert_eq!(constraint.admits(&bare), on_bare, "{constraint} on bare");
        }
    }

    #[test]
    fn a_toleration_without_value_covers_every_value() {
        let taint = Taint {
            key: Arc::from("gpu"),
            value: Arc::from("a100"),
            effect: TaintEffect::NoSchedule,
        };
        assert!(Toleration { key: Arc::from("gpu"), value: None }.covers(&taint));
        assert!(!Toleration { key: Arc::from("gpu"), value: Some(Arc::from("t4")) }.covers(&taint));
    }
}
