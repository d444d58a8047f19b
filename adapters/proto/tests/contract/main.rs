//! Holds `/proto` to the wire that agents, schedulers and clients in the field already speak.
//!
//! Three guards, each of which catches what the others cannot:
//! * `golden`: the whole surface, ours included, as one reviewed text. Any change shows in a diff.
//! * `pinned`: the contract written down by hand. A careless blessing of the golden does not pass.
//! * `bytes`: messages encoded by hand. A generator that reads the same `.proto` and yet writes
//!   other bytes does not pass.

#[cfg(test)]
mod bytes;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod pinned;
#[cfg(test)]
mod surface;
