//! Every kind of fault.

use crate::options::Store;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The scheduler that leads is killed.
    KillLeader,
    /// Another scheduler is killed.
    KillFollower,
    /// All schedulers are killed.
    KillSchedulers,
    /// The scheduler that leads stands still, perhaps beyond its lease.
    PauseLeader,
    /// Another scheduler stands still.
    PauseFollower,
    /// A simulated agent is killed: what it ran is gone.
    KillSimulated,
    /// An agent on Docker is killed and started again at once.
    KillAgent,
    /// An agent is killed and stays away until its work is given to others.
    AgentAway,
    /// An agent stands still.
    PauseAgent,
    /// A watchdog is killed.
    KillWatchdog,
    /// An agent and its watchdog are killed and stay away until exclusive work could be given to others.
    KillAgentAndWatchdog,
    /// A node reaches nobody and its Docker stands still, until its work could be given to others.
    HangNode,
    /// Every process of the product and every member of etcd is killed.
    PowerCut,
    /// An agent reaches nobody, and nobody reaches it.
    CutAgent,
    /// What an agent says is held back.
    MuteAgent,
    /// What is said to an agent is held back.
    DeafAgent,
    /// Orders to an agent are held back.
    HoldOrders,
    /// Orders are carried out, and the answers are lost.
    LoseOrderReplies,
    /// Heartbeats arrive, and the answers are lost.
    LoseBeatReplies,
    /// Everything to and from a scheduler takes long.
    SlowScheduler,
    /// Several agents are cut off one after the other.
    Swizzle,
    /// Users lose the answers of a scheduler.
    LoseUserReplies,
    /// Schedulers do not reach the one that leads.
    CutPeers,
    /// A member of etcd is killed.
    KillMember,
    /// A member of etcd stands still.
    PauseMember,
    /// Most members of etcd are killed.
    LoseQuorum,
    /// All members of etcd are killed.
    KillEtcd,
    /// A scheduler does not reach etcd.
    CutEtcd,
    /// etcd does what a scheduler asks, and its answers are lost.
    LoseEtcdReplies,
    /// etcd takes long.
    SlowEtcd,
    /// A daemon of Docker is killed.
    KillDocker,
    /// A daemon of Docker stands still.
    PauseDocker,
    /// A container is killed by hand.
    KillContainer,
    /// A container is removed by hand.
    RemoveContainer,
    /// The ledger of an agent is damaged or lost.
    DamageLedger,
    /// A crowd opens connections to a scheduler and says nothing.
    Crowd,
}

/// The part of this folder that plays it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// Kills and pauses.
    Processes,
    /// Links.
    Network,
    /// etcd.
    Store,
    /// Docker, containers, folders.
    Host,
}

impl Kind {
    /// Every kind with its name.
    #[rustfmt::skip]
    pub const ALL: [(Self, &'static str, Room); 36] = [
        (Self::KillLeader, "kill-leader", Room::Processes),
        (Self::KillFollower, "kill-follower", Room::Processes),
        (Self::KillSchedulers, "kill-schedulers", Room::Processes),
        (Self::PauseLeader, "pause-leader", Room::Processes),
        (Self::PauseFollower, "pause-follower", Room::Processes),
        (Self::KillSimulated, "kill-simulated", Room::Processes),
        (Self::KillAgent, "kill-agent", Room::Processes),
        (Self::AgentAway, "agent-away", Room::Processes),
        (Self::PauseAgent, "pause-agent", Room::Processes),
        (Self::KillWatchdog, "kill-watchdog", Room::Processes),
        (Self::KillAgentAndWatchdog, "kill-agent-and-watchdog", Room::Host),
        (Self::HangNode, "hang-node", Room::Host),
        (Self::PowerCut, "power-cut", Room::Processes),
        (Self::CutAgent, "cut-agent", Room::Network),
        (Self::MuteAgent, "mute-agent", Room::Network),
        (Self::DeafAgent, "deaf-agent", Room::Network),
        (Self::HoldOrders, "hold-orders", Room::Network),
        (Self::LoseOrderReplies, "lose-order-replies", Room::Network),
        (Self::LoseBeatReplies, "lose-beat-replies", Room::Network),
        (Self::SlowScheduler, "slow-scheduler", Room::Network),
        (Self::Swizzle, "swizzle", Room::Network),
        (Self::LoseUserReplies, "lose-user-replies", Room::Network),
        (Self::CutPeers, "cut-peers", Room::Network),
        (Self::KillMember, "kill-etcd-member", Room::Store),
        (Self::PauseMember, "pause-etcd-member", Room::Store),
        (Self::LoseQuorum, "lose-etcd-quorum", Room::Store),
        (Self::KillEtcd, "kill-etcd", Room::Store),
        (Self::CutEtcd, "cut-etcd", Room::Store),
        (Self::LoseEtcdReplies, "lose-etcd-replies", Room::Store),
        (Self::SlowEtcd, "slow-etcd", Room::Store),
        (Self::KillDocker, "kill-docker", Room::Host),
        (Self::PauseDocker, "pause-docker", Room::Host),
        (Self::KillContainer, "kill-container", Room::Host),
        (Self::RemoveContainer, "remove-container", Room::Host),
        (Self::DamageLedger, "damage-ledger", Room::Host),
        (Self::Crowd, "crowd", Room::Network),
    ];

    /// Kinds that end one process without a word.
    pub const KILLS: [Self; 7] = [
        Self::KillLeader,
        Self::KillFollower,
        Self::KillSimulated,
        Self::KillAgent,
        Self::KillWatchdog,
        Self::KillDocker,
        Self::KillMember,
    ];

    /// Kinds after which all is well within seconds, for a run that has to be over soon.
    pub const BRIEF: [Self; 11] = [
        Self::KillLeader,
        Self::KillFollower,
        Self::KillSimulated,
        Self::KillAgent,
        Self::KillWatchdog,
        Self::KillMember,
        Self::HoldOrders,
        Self::LoseOrderReplies,
        Self::LoseUserReplies,
        Self::LoseEtcdReplies,
        Self::KillContainer,
    ];

    fn entry(self) -> (&'static str, Room) {
        let found = Self::ALL.iter().find(|(kind, ..)| *kind == self);
        found.map_or(("?", Room::Processes), |(_, name, room)| (*name, *room))
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.entry().0
    }

    /// Who plays it.
    #[must_use]
    pub fn room(self) -> Room {
        self.entry().1
    }

    /// True if it can befall a cluster with records there.
    #[must_use]
    pub fn befalls(self, store: Store) -> bool {
        let several = [Self::KillFollower, Self::PauseFollower, Self::CutPeers];
        store == Store::Etcd || !(self.room() == Room::Store || several.contains(&self))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_has_one_name() {
        let kinds: BTreeSet<_> = Kind::ALL.iter().map(|(kind, ..)| *kind).collect();
        let names: BTreeSet<_> = Kind::ALL.iter().map(|(_, name, _)| *name).collect();
        assert_eq!((kinds.len(), names.len()), (Kind::ALL.len(), Kind::ALL.len()));
        assert!(Kind::ALL.len() >= 25);
        assert!(Kind::ALL.iter().filter(|(kind, ..)| kind.befalls(Store::Embedded)).count() >= 20);
    }
}
