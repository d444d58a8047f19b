//! The agent over real gRPC, on a runtime in memory: as old schedulers, `persysctl` and schedulers
//! of ours speak to it, and as it speaks to them.

#[cfg(test)]
mod guard;
#[cfg(test)]
mod legacy;
#[cfg(test)]
mod node;
#[cfg(test)]
mod pages;
#[cfg(test)]
mod restart;
#[cfg(test)]
mod scheduler;
#[cfg(test)]
mod tokens;
#[cfg(test)]
mod upward;
