//! Identities: `spiffe://<trust-domain>/<cluster>/<role>/<name>`.
//!
//! There is one parser, and it takes an identity apart completely: exactly four parts, each checked,
//! so that two identities are the same only when their texts are the same. Nothing here matches by
//! prefix, ignores case or trims, and `parse` undoes `Display`.

use std::fmt;
use std::sync::Arc;

use persys_model::id::{NameError, NodeId};

const SCHEME: &str = "spiffe://";
/// Longest identity that is looked at: a trust domain, a cluster, a role and a name fit.
const MOST_BYTES: usize = 512;
/// Longest DNS label.
const MOST_LABEL_BYTES: usize = 63;
/// Longest DNS name.
const MOST_DNS_BYTES: usize = 253;

/// Why a text is not an identity, or not a part of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// Longer than any identity.
    #[error("identity is longer than {MOST_BYTES} bytes")]
    TooLong,
    /// Another scheme.
    #[error("identity does not begin with {SCHEME}")]
    Scheme,
    /// Too few or too many parts.
    #[error("identity is not of the form {SCHEME}<trust-domain>/<cluster>/<role>/<name>")]
    Shape,
    /// The trust domain is not a DNS name.
    #[error(
        "trust domain {0:?} is not a lower-case DNS name: labels of a-z, 0-9 and inside also '-'"
    )]
    TrustDomain(String),
    /// The cluster is not a DNS label.
    #[error(
        "cluster {0:?} is not one DNS label: a letter, then a-z, 0-9 and inside also '-', up to 63"
    )]
    Cluster(String),
    /// No such role.
    #[error("role {0:?} is none of scheduler, agent, gateway, operator, user, metrics")]
    Role(String),
    /// The name is not a name.
    #[error("name {text:?} {fault}")]
    Name {
        /// What was given.
        text: String,
        /// What is wrong with it.
        fault: NameError,
    },
}

/// The organisation or installation whose authorities are trusted together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrustDomain(Arc<str>);

impl TrustDomain {
    /// Checks `text` and keeps it.
    pub fn new(text: &str) -> Result<Self, IdentityError> {
        if text.len() <= MOST_DNS_BYTES && text.split('.').all(is_label) {
            Ok(Self(Arc::from(text)))
        } else {
            Err(IdentityError::TrustDomain(text.to_owned()))
        }
    }

    /// The text itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One cluster. A single DNS label, so that `a.agents.b` belongs to exactly one cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterName(Arc<str>);

impl ClusterName {
    /// Checks `text` and keeps it.
    pub fn new(text: &str) -> Result<Self, IdentityError> {
        if is_label(text) && text.starts_with(|first: char| first.is_ascii_lowercase()) {
            Ok(Self(Arc::from(text)))
        } else {
            Err(IdentityError::Cluster(text.to_owned()))
        }
    }

    /// The text itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Who it is within its role; for an agent, its node. Same alphabet as a [`NodeId`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(NodeId);

impl Name {
    /// Checks `text` and keeps it.
    pub fn new(text: &str) -> Result<Self, IdentityError> {
        match NodeId::new(text) {
            Ok(checked) => Ok(Self(checked)),
            Err(fault) => Err(IdentityError::Name { text: text.to_owned(), fault }),
        }
    }

    /// A name of our own, known to be well formed.
    #[must_use]
    pub fn fixed(text: &'static str) -> Self {
        Self(NodeId::fixed(text))
    }

    /// The text itself.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl From<NodeId> for Name {
    fn from(node: NodeId) -> Self {
        Self(node)
    }
}

impl From<Name> for NodeId {
    fn from(name: Name) -> Self {
        name.0
    }
}

/// What somebody is in the cluster, and so what they may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Decides; commands agents and answers everybody.
    Scheduler,
    /// Carries out on one node; reports on that node alone.
    Agent,
    /// Passes on what users ask.
    Gateway,
    /// An administrator, or an outside component that controls the cluster.
    Operator,
    /// A person or tool with the rights it was given.
    User,
    /// Reads metrics and health.
    Metrics,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 6] =
        [Self::Scheduler, Self::Agent, Self::Gateway, Self::Operator, Self::User, Self::Metrics];

    /// The word for it in an identity.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduler => "scheduler",
            Self::Agent => "agent",
            Self::Gateway => "gateway",
            Self::Operator => "operator",
            Self::User => "user",
            Self::Metrics => "metrics",
        }
    }

    /// The role with exactly this word.
    pub fn parse(text: &str) -> Result<Self, IdentityError> {
        let found = Self::ALL.into_iter().find(|role| role.as_str() == text);
        found.ok_or_else(|| IdentityError::Role(text.to_owned()))
    }
}

/// Who somebody is, completely.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// Whose authorities vouch.
    pub trust_domain: TrustDomain,
    /// In which cluster.
    pub cluster: ClusterName,
    /// As what.
    pub role: Role,
    /// Which one of these.
    pub name: Name,
}

impl Identity {
    /// Takes the text of a URI apart.
    pub fn parse(text: &str) -> Result<Self, IdentityError> {
        if text.len() > MOST_BYTES {
            return Err(IdentityError::TooLong);
        }
        let rest = text.strip_prefix(SCHEME).ok_or(IdentityError::Scheme)?;
        let mut parts = rest.split('/');
        let (Some(trust_domain), Some(cluster), Some(role), Some(name), None) =
            (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(IdentityError::Shape);
        };
        Ok(Self {
            trust_domain: TrustDomain::new(trust_domain)?,
            cluster: ClusterName::new(cluster)?,
            role: Role::parse(role)?,
            name: Name::new(name)?,
        })
    }

    /// The DNS name that only this role gets, and that its clients ask for; none for those that
    /// serve nobody.
    pub fn host_name(&self) -> Option<String> {
        let Self { cluster, name, .. } = self;
        match self.role {
            Role::Scheduler | Role::Gateway => Some(format!("{}.{cluster}", self.role)),
            Role::Agent => Some(format!("{name}.agents.{cluster}")),
            Role::Operator | Role::User | Role::Metrics => None,
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trust_domain, cluster, role, name } = self;
        write!(f, "{SCHEME}{trust_domain}/{cluster}/{role}/{name}")
    }
}

impl fmt::Display for TrustDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The URI that an authority's own certificate carries. It has too few parts to be an [`Identity`],
/// so that no peer can ever pass for one.
pub(crate) fn authority_uri(trust_domain: &TrustDomain, cluster: &ClusterName) -> String {
    format!("{SCHEME}{trust_domain}/{cluster}")
}

/// True for one DNS label in lower case.
pub(crate) fn is_label(text: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty()
        && text.len() <= MOST_LABEL_BYTES
        && text.bytes().all(inside)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn identity() -> impl Strategy<Value = Identity> {
        let label = "[a-z]([a-z0-9-]{0,20}[a-z0-9])?";
        (
            "[a-z0-9]{1,10}(\\.[a-z0-9]{1,10}){0,3}",
            label,
            proptest::sample::select(Role::ALL.to_vec()),
            "[a-z0-9]([a-z0-9_-]{0,20}[a-z0-9])?",
        )
            .prop_map(|(trust_domain, cluster, role, name)| Identity {
                trust_domain: TrustDomain::new(&trust_domain).unwrap(),
                cluster: ClusterName::new(&cluster).unwrap(),
                role,
                name: Name::new(&name).unwrap(),
            })
    }

    proptest! {
        /// What is written is read back as the same.
        #[test]
        fn parse_undoes_display(identity in identity()) {
            prop_assert_eq!(Identity::parse(&identity.to_string()), Ok(identity));
        }

        /// Whatever parses is written back as it was: no two texts mean the same identity.
        #[test]
        fn display_undoes_parse(text in "spiffe://[a-zA-Z0-9./%@ -]{0,40}(/agent/|/user/)[a-zA-Z0-9./%-]{0,9}") {
            if let Ok(identity) = Identity::parse(&text) {
                prop_assert_eq!(identity.to_string(), text);
            }
        }

        /// A longer text never passes for the identity it begins with, nor a shorter one.
        #[test]
        fn nothing_matches_by_prefix(identity in identity(), more in "[a-z0-9/_.-]{1,8}", cut in 1_usize..200) {
            let text = identity.to_string();
            prop_assert_ne!(Identity::parse(&format!("{text}{more}")).ok(), Some(identity.clone()));
            let shorter = &text[..text.len().saturating_sub(cut)];
            prop_assert_ne!(Identity::parse(shorter).ok(), Some(identity));
        }

        /// No text makes the parser fail otherwise than by an error.
        #[test]
        fn any_text_is_answered(text in ".{0,600}") {
            Identity::parse(&text).ok();
        }
    }

    #[test]
    fn near_misses_are_refused() {
        for (text, wanted) in [
            ("https://d/c/agent/n", IdentityError::Scheme),
            ("SPIFFE://d/c/agent/n", IdentityError::Scheme),
            ("spiffe://d/c/agent", IdentityError::Shape),
            ("spiffe://d/c/agent/n/x", IdentityError::Shape),
            ("spiffe://d/c/agent/n/", IdentityError::Shape),
            ("spiffe:///c/agent/n", IdentityError::TrustDomain(String::new())),
            ("spiffe://d:80/c/agent/n", IdentityError::TrustDomain("d:80".to_owned())),
            ("spiffe://d/c.d/agent/n", IdentityError::Cluster("c.d".to_owned())),
            ("spiffe://d/1/agent/n", IdentityError::Cluster("1".to_owned())),
            ("spiffe://d/c/Agent/n", IdentityError::Role("Agent".to_owned())),
            ("spiffe://d/c/agents/n", IdentityError::Role("agents".to_owned())),
        ] {
            assert_eq!(Identity::parse(text), Err(wanted), "{text}");
        }
        for name in ["", "-n", "n..m", "N", "n%2f", "n ", "\u{e9}"] {
            let text = format!("spiffe://d/c/agent/{name}");
            let refused = Identity::parse(&text);
            assert!(matches!(refused, Err(IdentityError::Name { .. })), "{text}: {refused:?}");
        }
    }

    #[test]
    fn only_servers_have_host_names() {
        let of = |role: &str| Identity::parse(&format!("spiffe://d/c/{role}/n")).unwrap();
        assert_eq!(of("scheduler").host_name().as_deref(), Some("scheduler.c"));
        assert_eq!(of("agent").host_name().as_deref(), Some("n.agents.c"));
        assert_eq!(of("gateway").host_name().as_deref(), Some("gateway.c"));
        for role in ["operator", "user", "metrics"] {
            assert_eq!(of(role).host_name(), None);
        }
    }
}
