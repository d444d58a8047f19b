//! Commands as people type them, against a scheduler and an agent over mTLS in this process; what
//! runs is simulated.

mod apply;
mod inside;
mod legacy;
mod lifecycle;
mod look;
mod rig;
mod run;
mod trouble;
