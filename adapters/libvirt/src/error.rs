//! Why a call did not come to a good end, and what that means.
//!
//! Only [`Error::Refused`] is libvirt's own word. After all others it is unknown whether libvirt did
//! what it was asked, except where nothing was sent.

use bytes::Bytes;

use crate::xdr::{Malformed, Reader, STRING_MOST};

/// Why a call did not come to a good end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no socket of libvirt: no virtual machines here.
    #[error("libvirt is not here: there is no socket at {looked}")]
    Absent {
        /// Where it was looked for.
        looked: String,
    },
    /// libvirt is not reached, or went away while it was asked.
    #[error("libvirt cannot be reached: {detail}")]
    Unreachable {
        /// What the connection said.
        detail: String,
    },
    /// The deadline passed.
    #[error("libvirt did not answer {asked} within {within_ms} ms")]
    NoAnswer {
        /// What was asked.
        asked: &'static str,
        /// How long was waited.
        within_ms: u64,
    },
    /// libvirt answered something that cannot be read.
    #[error("libvirt's answer to {asked} cannot be read: {detail}")]
    Unreadable {
        /// What was asked.
        asked: &'static str,
        /// Where reading ended.
        detail: String,
    },
    /// libvirt said no.
    #[error("{0}")]
    Refused(Refusal),
}

impl Error {
    /// What libvirt itself said, if it said anything.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::Absent { .. }
            | Self::Unreachable { .. }
            | Self::NoAnswer { .. }
            | Self::Unreadable { .. } => None,
        }
    }

    /// Whether libvirt said that there is no such thing.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.refusal().is_some_and(Refusal::is_not_found)
    }

    /// Whether libvirt said that it cannot be done as things are, such as to stop what rests.
    #[must_use]
    pub fn is_not_so(&self) -> bool {
        self.refusal().is_some_and(|refusal| refusal.code == Code::OPERATION_INVALID)
    }

    pub(crate) fn unreachable(detail: impl std::fmt::Display) -> Self {
        Self::Unreachable { detail: detail.to_string() }
    }

    pub(crate) fn unreadable(asked: &'static str, cause: &Malformed) -> Self {
        Self::Unreadable { asked, detail: cause.to_string() }
    }
}

/// What kind of refusal, by libvirt's own number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(pub i32);

impl Code {
    /// Something inside went wrong; the message says what.
    pub const INTERNAL: Self = Self(1);
    /// This driver cannot do that.
    pub const NO_SUPPORT: Self = Self(3);
    /// A call was made wrongly.
    pub const INVALID_ARG: Self = Self(8);
    /// It failed; the message says why.
    pub const OPERATION_FAILED: Self = Self(9);
    /// Not well-formed XML.
    pub const XML: Self = Self(27);
    /// No such domain.
    pub const NO_DOMAIN: Self = Self(42);
    /// No such network.
    pub const NO_NETWORK: Self = Self(43);
    /// No such storage pool.
    pub const NO_STORAGE_POOL: Self = Self(49);
    /// No such volume in a storage pool.
    pub const NO_STORAGE_VOL: Self = Self(50);
    /// It cannot be done as things are.
    pub const OPERATION_INVALID: Self = Self(55);
    /// A description asks for what cannot be had here.
    pub const CONFIG_UNSUPPORTED: Self = Self(67);
    /// libvirt itself waited too long.
    pub const OPERATION_TIMEOUT: Self = Self(68);
    /// There is no such piece of metadata.
    pub const NO_DOMAIN_METADATA: Self = Self(80);
    /// The guest's agent does not answer.
    pub const AGENT_UNRESPONSIVE: Self = Self(86);
}

/// What libvirt said when it refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} (libvirt error {}, from {from})", code.0)]
pub struct Refusal {
    /// What kind.
    pub code: Code,
    /// Which part of libvirt, by its own number.
    pub from: i32,
    /// In its words.
    pub message: String,
}

impl Refusal {
    /// Whether it says that there is no such thing.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        [
            Code::NO_DOMAIN,
            Code::NO_NETWORK,
            Code::NO_STORAGE_POOL,
            Code::NO_STORAGE_VOL,
            Code::NO_DOMAIN_METADATA,
        ]
        .contains(&self.code)
    }

    /// Reads the body of a message with the status "error".
    pub(crate) fn read(body: Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let (code, from) = (reader.i32()?, reader.i32()?);
        let message = reader.optional(Reader::text)?;
        // More follows: a level, the domain and network it concerns, and details that the message
        // has as well.
        let mut message = message.unwrap_or_else(|| "no reason was given".to_owned());
        message.truncate(message.floor_char_boundary(MESSAGE_MOST));
        Ok(Self { code: Code(code), from, message })
    }
}

/// How much is kept of what libvirt says.
const MESSAGE_MOST: usize = 2048;
const _: () = assert!(MESSAGE_MOST < STRING_MOST, "a message is a text");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::Writer;

    #[test]
    fn a_refusal_is_read_with_its_code() {
        let body = Writer::new().i32(42).i32(10).optional_text(Some("Domain not found")).i32(2);
        let refusal = Refusal::read(body.done().into()).unwrap();
        assert_eq!((refusal.code, refusal.from), (Code::NO_DOMAIN, 10));
        assert!(refusal.is_not_found());
        let error = Error::Refused(refusal);
        assert!(error.is_not_found() && !error.is_not_so());
        assert_eq!(error.to_string(), "Domain not found (libvirt error 42, from 10)");
        assert!(!Error::NoAnswer { asked: "x", within_ms: 1 }.is_not_found());
    }

    #[test]
    fn a_refusal_is_bounded_and_cut_ones_are_no_refusals() {
        let long = "ä".repeat(5000);
        let body = Writer::new().i32(55).i32(10).optional_text(Some(&long)).done();
        let body = Bytes::from(body);
        assert_eq!(Refusal::read(body.clone()).unwrap().message.len(), MESSAGE_MOST);
        assert!(Refusal::read(body.slice(..20)).is_err());
        assert!(Refusal::read(Bytes::new()).is_err());
    }
}
