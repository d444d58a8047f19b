//! What the control plane may do at present.

/// The operating mode of a scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// The store is healthy: everything works.
    Normal,
    /// The store cannot be trusted to write: nothing is written, started or stopped.
    Degraded,
    /// The store is back but has lost what it knew: frozen until an operator says how to go on.
    Recovery,
}

impl Mode {
    /// The word in `/health`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Degraded => "degraded",
            Self::Recovery => "recovery",
        }
    }
}
