//! Why something failed, both ways.

use persys_model::failure::FailureReason;

use super::at::At;
use crate::control::v1 as wire;

/// The number of the contract.
#[must_use]
pub fn to_wire(reason: FailureReason) -> wire::FailureReason {
    match reason {
        FailureReason::ImagePullFailed => wire::FailureReason::ImagePullFailed,
        FailureReason::ImageNotFound => wire::FailureReason::ImageNotFound,
        FailureReason::InsufficientResources => wire::FailureReason::InsufficientResources,
        FailureReason::InvalidSpec => wire::FailureReason::InvalidSpec,
        FailureReason::RuntimeError => wire::FailureReason::RuntimeError,
        FailureReason::NetworkError => wire::FailureReason::NetworkError,
        FailureReason::StorageError => wire::FailureReason::StorageError,
        FailureReason::VmBootFailed => wire::FailureReason::VmBootFailed,
    }
}

/// The reason a number means; `None` for "unspecified".
#[must_use]
pub fn from_wire(reason: wire::FailureReason) -> Option<FailureReason> {
    match reason {
        wire::FailureReason::Unspecified => None,
        wire::FailureReason::ImagePullFailed => Some(FailureReason::ImagePullFailed),
        wire::FailureReason::ImageNotFound => Some(FailureReason::ImageNotFound),
        wire::FailureReason::InsufficientResources => Some(FailureReason::InsufficientResources),
        wire::FailureReason::InvalidSpec => Some(FailureReason::InvalidSpec),
        wire::FailureReason::RuntimeError => Some(FailureReason::RuntimeError),
        wire::FailureReason::NetworkError => Some(FailureReason::NetworkError),
        wire::FailureReason::StorageError => Some(FailureReason::StorageError),
        wire::FailureReason::VmBootFailed => Some(FailureReason::VmBootFailed),
    }
}

/// The reason a raw number means. Outer: known; inner: given.
#[expect(clippy::option_option, reason = "outer: well formed; inner: given")]
pub(super) fn read(at: &At<'_>, number: i32) -> Option<Option<FailureReason>> {
    match wire::FailureReason::try_from(number) {
        Ok(reason) => Some(from_wire(reason)),
        Err(_) => at.refuse(format!("{number} is not a known reason")),
    }
}
