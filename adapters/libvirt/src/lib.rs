//! A client of libvirt's own protocol, over its unix socket.
//!
//! No library of libvirt is needed: one executable runs on hosts with it and without it, and an
//! absent socket means that there are no virtual machines here ([`Error::Absent`]).
//!
//! ```text
//!   Client ─ session() ─► Session ─ calls ─► Connection ═ frames ═ libvirtd
//!     └ changes(): for ever, through restarts of libvirtd
//! ```
//!
//! Every call ends by its deadline, a call that hangs holds up no other, and an error tells libvirt's
//! "no" ([`Error::Refused`]) from silence. Every length that comes over the socket is bounded before
//! anything is set aside for it.

mod calls;
mod client;
mod connection;
mod error;
mod frame;
mod stream;
mod values;
mod xdr;

pub use calls::{AddressSource, Groups};
pub use client::{Client, Heard, SOCKETS, Session, Settings};
pub use error::{Code, Error, Refusal};
pub use stream::Stream;
pub use values::{
    Card, Change, Domain, Hold, Lease, Named, Off, Param, Room, State, Stats, Uuid, Volume,
};

#[cfg(test)]
mod script;
