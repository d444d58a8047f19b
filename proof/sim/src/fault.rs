//! Everything that can go wrong, as a list a seed chooses from.

macro_rules! faults {
    ($($(#[$doc:meta])* $fault:ident = $name:literal,)*) => {
        /// One kind of fault.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Fault { $($(#[$doc])* $fault,)* }

        impl Fault {
            /// All of them.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$fault,)*];

            /// Its name in traces and in the list of what was covered.
            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$fault => $name,)* }
            }
        }
    };
}

faults! {
    /// Messages are lost, doubled and late for a while.
    BadWeather = "fault: bad weather",
    /// A node and all schedulers do not hear each other.
    CutNode = "fault: node cut off",
    /// A node hears nothing, its words arrive.
    CutToNode = "fault: way to node cut",
    /// A node hears, its words do not arrive.
    CutFromNode = "fault: way from node cut",
    /// One scheduler and one node do not hear each other.
    CutPair = "fault: one link cut",
    /// Everything sent to a node waits and then comes at once.
    HoldToNode = "fault: messages to node held",
    /// An old message to a node is delivered again.
    Replay = "fault: old command replayed",
    /// Many nodes are cut off together.
    CutMany = "fault: many nodes cut off",
    /// An agent dies and is started again.
    AgentCrash = "fault: agent crash",
    /// An agent dies and stays away for long.
    AgentDown = "fault: agent down for long",
    /// An agent dies and stays away, and its machine is cut off all the while.
    Isolated = "fault: agent dead and node cut off",
    /// An agent stands still.
    AgentPause = "fault: agent paused",
    /// A watchdog dies and is started again.
    WatchdogCrash = "fault: watchdog crash",
    /// A machine loses its power for a moment.
    Reboot = "fault: machine rebooted",
    /// A machine loses its power for long.
    PowerOff = "fault: machine off for long",
    /// An agent dies, and its ledger is lost or damaged.
    LedgerLost = "fault: ledger lost",
    /// The ledger cannot be written for a while.
    DiskFull = "fault: disk full",
    /// A wall clock is set to another time.
    WallJump = "fault: wall clock jumped",
    /// A scheduler dies and is started again.
    SchedulerCrash = "fault: scheduler crash",
    /// A scheduler dies and stays away for long.
    SchedulerDown = "fault: scheduler down for long",
    /// A scheduler stands still, longer than it may lead without renewal.
    SchedulerPause = "fault: scheduler paused",
    /// One scheduler cannot reach the store.
    StoreCut = "fault: scheduler cut off from store",
    /// The store refuses everything.
    StoreDown = "fault: store down",
    /// The store takes long.
    StoreSlow = "fault: store slow",
    /// The store does things without saying so, or says nothing without doing them.
    StoreUnsure = "fault: store outcomes unknown",
    /// The store stands still, and leases run out meanwhile.
    StorePause = "fault: store paused",
    /// The store loses everything.
    StoreWipe = "fault: store wiped",
    /// The store is put back to an older copy.
    StoreRestore = "fault: store restored from old copy",
    /// A runtime does not answer.
    RuntimeDown = "fault: runtime down",
    /// Verbs fail for a while.
    VerbsFail = "fault: verbs fail",
    /// Verbs hang for a while.
    VerbsHang = "fault: verbs hang",
    /// A container ends by itself.
    Exit = "fault: container exited",
    /// Somebody removes a container behind our back.
    Vanish = "fault: container removed by hand",
    /// Somebody pauses a container behind our back.
    PausedByHand = "fault: container paused by hand",
    /// A process waits for something that does not come.
    Stuck = "fault: container stuck",
    /// Somebody switches on a second machine with the name of another.
    Impostor = "fault: second machine of one name",
    /// A node sends heartbeats and cannot be called.
    Undialled = "fault: node cannot be called",
}

impl Fault {
    /// Whether it is so grave that few seeds should have it.
    pub(crate) fn is_rare(self) -> bool {
        matches!(self, Self::StoreWipe | Self::StoreRestore | Self::Impostor | Self::CutMany)
    }

    /// Whether it makes the store forget.
    pub(crate) fn loses_store(self) -> bool {
        matches!(self, Self::StoreWipe | Self::StoreRestore)
    }
}

/// A set of kinds of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FaultSet(u64);

impl FaultSet {
    pub(crate) fn add(&mut self, fault: Fault) {
        self.0 |= Self::bit(fault);
    }

    pub(crate) fn remove(&mut self, fault: Fault) {
        self.0 &= !Self::bit(fault);
    }

    pub(crate) fn has(self, fault: Fault) -> bool {
        self.0 & Self::bit(fault) != 0
    }

    /// Those in the set.
    pub(crate) fn list(self) -> Vec<Fault> {
        Fault::ALL.iter().copied().filter(|fault| self.has(*fault)).collect()
    }

    fn bit(fault: Fault) -> u64 {
        #[expect(clippy::as_conversions, reason = "the discriminant of a small enum")]
        let index = fault as u64;
        1 << index
    }
}
