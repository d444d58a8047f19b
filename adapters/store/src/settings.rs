//! What may be set about a store.

/// What may be set about a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Stands in front of every key: empty, or `/` and a name.
    pub root: String,
    /// Most events kept.
    pub keep_events: u64,
    /// How much older than the newest an event may become.
    pub keep_events_ms: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { root: String::new(), keep_events: 10_000, keep_events_ms: 24 * 60 * 60 * 1000 }
    }
}
