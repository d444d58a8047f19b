//! Whether this process leads or whom it follows, and what it may do at present: for probes,
//! dashboards, and for passing requests on.

use std::borrow::Cow;
use std::sync::Arc;

use persys_cluster::replica::Replica;
use persys_cluster::world::World;
use persys_model::mode::Mode;
use persys_model::time::{Now, WallMillis};

/// What a process is to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It decides and writes.
    Leader,
    /// It answers from a copy, and passes on the rest.
    Follower,
}

impl Role {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Follower => "follower",
        }
    }
}

/// How a scheduler process stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Its mode; `None` while it does not lead.
    pub mode: Option<Mode>,
    /// Where the one that leads is reached, as far as is known.
    pub leader: Option<Arc<str>>,
    /// Why.
    pub why: Arc<str>,
    /// Since when.
    pub since: WallMillis,
}

/// What is said of a process that follows nobody.
const NOT_LEADING: &str = "this scheduler does not lead at present, and knows of none that does";

impl Standing {
    pub(crate) fn new(now: WallMillis) -> Self {
        Self { mode: None, leader: None, why: Arc::from(NOT_LEADING), since: now }
    }

    /// Whether this process leads and serves requests in full.
    #[must_use]
    pub fn is_normal(&self) -> bool {
        self.mode == Some(Mode::Normal)
    }

    /// Whether this process is of use: it leads and nothing is wrong, or follows one that leads.
    #[must_use]
    pub fn is_well(&self) -> bool {
        match self.mode {
            Some(mode) => mode == Mode::Normal,
            None => self.leader.is_some(),
        }
    }

    /// What this process is to the others.
    #[must_use]
    pub fn role(&self) -> Role {
        if self.mode.is_some() { Role::Leader } else { Role::Follower }
    }

    /// The word for its mode in `/health`. One that follows a leader works as it should.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self.mode {
            Some(mode) => mode.word(),
            None if self.leader.is_some() => Mode::Normal.word(),
            None => "standby",
        }
    }

    /// Takes over how it is now. Says whether anything changed.
    pub(crate) fn follow(&mut self, replica: &Replica, trouble: Option<&str>, now: Now) -> bool {
        let found = replica.world().map(World::mode);
        let mode = found.map(|(mode, _)| mode);
        let leader = leader_of(replica, mode, now);
        let word: Cow<'_, str> = match (found, leader, trouble) {
            (Some((Mode::Degraded, why)), _, Some(trouble)) => format!("{why}: {trouble}").into(),
            (Some((_, why)), ..) => why.into(),
            (None, Some(_), _) => "".into(),
            (None, None, Some(trouble)) => format!("{NOT_LEADING}: {trouble}").into(),
            (None, None, None) => NOT_LEADING.into(),
        };
        let same = mode == self.mode && leader == self.leader.as_deref();
        // Those who follow are told whom by the leader's address, which is compared above.
        if same && (*word == *self.why || word.is_empty()) {
            return false;
        }
        let before = (self.word(), self.role());
        self.mode = mode;
        self.leader = leader.map(Arc::from);
        self.why = match leader {
            Some(leader) if mode.is_none() => Arc::from(format!("follows {leader}, which leads")),
            Some(_) | None => Arc::from(word),
        };
        if before != (self.word(), self.role()) {
            self.since = now.wall;
        }
        true
    }
}

/// Where the leader is reached. A leader that has not read the store yet is none, and whoever led
/// at our own address was an earlier life of this process.
fn leader_of(replica: &Replica, mode: Option<Mode>, now: Now) -> Option<&str> {
    let leader = address(replica.leader(now)?);
    (mode.is_some() || leader != address(replica.candidate())).then_some(leader)
}

fn address(candidate: &str) -> &str {
    candidate.split('#').next().unwrap_or_default()
}
