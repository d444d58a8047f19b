//! What has the name that a workload's thing would have.

/// What was found under a name.
#[derive(Debug)]
pub(crate) enum Found<T> {
    /// Nothing.
    Nothing,
    /// One of ours.
    Ours(Box<T>),
    /// Something that is not ours.
    Foreign {
        /// The name.
        name: String,
        /// Whose it is, in words.
        owner: String,
    },
}

impl<T> Found<T> {
    /// One of ours, or nothing: what is not ours is nothing to us.
    pub(crate) fn ours(self) -> Option<T> {
        match self {
            Self::Ours(ours) => Some(*ours),
            Self::Nothing | Self::Foreign { .. } => None,
        }
    }
}
