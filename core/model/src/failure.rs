//! Why something failed, in the words of the contract.

use std::borrow::Cow;
use std::sync::Arc;

/// The closed set of reasons a failure can have. Every failure has exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureReason {
    /// The image exists or may exist, but could not be fetched.
    ImagePullFailed,
    /// The registry says there is no such image.
    ImageNotFound,
    /// The node has not enough left for it.
    InsufficientResources,
    /// The spec cannot work anywhere as it is.
    InvalidSpec,
    /// Docker, Compose or libvirt refused or the workload itself failed.
    RuntimeError,
    /// A network could not be set up or reached.
    NetworkError,
    /// A disk or volume could not be set up or is full.
    StorageError,
    /// The machine was started but did not come up.
    VmBootFailed,
}

impl FailureReason {
    /// All of them, in wire order.
    pub const ALL: [Self; 8] = [
        Self::ImagePullFailed,
        Self::ImageNotFound,
        Self::InsufficientResources,
        Self::InvalidSpec,
        Self::RuntimeError,
        Self::NetworkError,
        Self::StorageError,
        Self::VmBootFailed,
    ];

    /// The name the contract gives it.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::ImagePullFailed => "IMAGE_PULL_FAILED",
            Self::ImageNotFound => "IMAGE_NOT_FOUND",
            Self::InsufficientResources => "INSUFFICIENT_RESOURCES",
            Self::InvalidSpec => "INVALID_SPEC",
            Self::RuntimeError => "RUNTIME_ERROR",
            Self::NetworkError => "NETWORK_ERROR",
            Self::StorageError => "STORAGE_ERROR",
            Self::VmBootFailed => "VM_BOOT_FAILED",
        }
    }

    /// Whether the same spec may succeed later without anybody changing it.
    #[must_use]
    pub fn retryable(self) -> bool {
        match self {
            Self::ImageNotFound | Self::InvalidSpec => false,
            Self::ImagePullFailed
            | Self::InsufficientResources
            | Self::RuntimeError
            | Self::NetworkError
            | Self::StorageError
            | Self::VmBootFailed => true,
        }
    }
}

/// The stage of a workload's life in which it failed. The restart policy judges the end of a program;
/// the scheduler's retry budget covers everything before the program ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum FailureStage {
    /// The program did not run: placement, image, volume, network or runtime failed. Also the stage of
    /// a failure from an agent that does not tell the stages apart.
    #[default]
    Start,
    /// The program ran and ended, and its restart policy does not allow another start.
    Run,
}

/// One failure, as a person reads it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Failure {
    /// Its class.
    pub reason: FailureReason,
    /// Start or run.
    pub stage: FailureStage,
    /// What happened and what to do, at most [`Failure::MESSAGE_LIMIT`] bytes.
    pub message: Arc<str>,
}

impl Failure {
    /// Longest message kept; a noisy workload can never fill the store.
    pub const MESSAGE_LIMIT: usize = 1024;

    /// A failure whose message is cut at the limit, on a character boundary.
    #[must_use]
    pub fn new(reason: FailureReason, message: &str) -> Self {
        let message = Arc::from(&*shorten(message, Self::MESSAGE_LIMIT));
        Self { reason, stage: FailureStage::Start, message }
    }

    /// The same failure in another stage.
    #[must_use]
    pub fn in_stage(self, stage: FailureStage) -> Self {
        Self { stage, ..self }
    }

    /// What happened, in one line; and what was left of it, in further lines, if anything was.
    #[must_use]
    pub fn parts(&self) -> (&str, Option<&str>) {
        match self.message.split_once('\n') {
            Some((line, evidence)) => (line, Some(evidence)),
            None => (&self.message, None),
        }
    }

    /// True if the scheduler may try again by itself: the program did not run yet, and the same spec
    /// may succeed later.
    #[must_use]
    pub fn retryable(&self) -> bool {
        match self.stage {
            FailureStage::Start => self.reason.retryable(),
            FailureStage::Run => false,
        }
    }
}

/// `text`, cut to at most `limit` bytes on a character boundary; an ellipsis says that it was cut.
#[must_use]
pub fn shorten(text: &str, limit: usize) -> Cow<'_, str> {
    const ELLIPSIS: &str = "…";
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    let kept = clip(text, limit.saturating_sub(ELLIPSIS.len()));
    Cow::Owned(format!("{kept}{ELLIPSIS}"))
}

/// The longest prefix of `text` of at most `limit` bytes that ends on a character boundary.
#[must_use]
pub fn clip(text: &str, limit: usize) -> &str {
    let mut end = limit.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_cut_on_a_character() {
        let failure = Failure::new(FailureReason::RuntimeError, &"é".repeat(1000));
        assert!(failure.message.len() <= Failure::MESSAGE_LIMIT && failure.message.len() > 1020);
        assert!(failure.message.ends_with("é…"));
        assert_eq!(shorten("aé", 3), "aé");
        assert_eq!(clip("aé", 2), "a");
    }

    #[test]
    fn the_end_of_a_program_is_not_tried_again() {
        for reason in FailureReason::ALL {
            let failure = Failure::new(reason, "exited with code 3");
            assert_eq!(failure.retryable(), reason.retryable());
            assert!(!failure.in_stage(FailureStage::Run).retryable());
        }
    }

    #[test]
    fn spec_errors_are_not_tried_again() {
        let hopeless: Vec<_> =
            FailureReason::ALL.into_iter().filter(|reason| !reason.retryable()).collect();
        assert_eq!(hopeless, [FailureReason::ImageNotFound, FailureReason::InvalidSpec]);
    }
}
