//! What `build.rs` makes of `/proto`, module by module as the packages are named.
#![allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    elided_lifetimes_in_paths,
    single_use_lifetimes,
    let_underscore_drop,
    missing_debug_implementations,
    clippy::all,
    clippy::pedantic,
    clippy::restriction,
    reason = "generated: the generator's style is not ours to keep"
)]

/// What one node is told to run, and what it answers.
pub mod agent {
    /// Package `persys.agent.v1`.
    pub mod v1 {
        include!(concat!(env!("OUT_DIR"), "/persys.agent.v1.rs"));
    }
}

/// Where agents join and report, and where users and tools ask and command.
pub mod control {
    /// Package `persys.control.v1`.
    pub mod v1 {
        include!(concat!(env!("OUT_DIR"), "/persys.control.v1.rs"));
    }
}

/// What this system offers beyond the contract it shares with others.
pub mod compute {
    /// Package `persys.compute.v1`.
    pub mod v1 {
        include!(concat!(env!("OUT_DIR"), "/persys.compute.v1.rs"));
    }
}
