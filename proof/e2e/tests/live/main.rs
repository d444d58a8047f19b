//! The body against real Docker: scheduler and agent as processes, over mTLS, on the embedded store.
//!
//! Needs a daemon at `DOCKER_HOST` or the default socket, and what a libvirtd is started with:
//! `hack/docker-up` and `hack/libvirt-up` see to it. Without them these tests fail. They run only when they are named, as `make live` does.

#[cfg(test)]
mod builds;
#[cfg(test)]
mod churn;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod daemon;
#[cfg(test)]
mod forgetting;
#[cfg(test)]
mod frozen;
#[cfg(test)]
mod healing;
#[cfg(test)]
mod health;
#[cfg(test)]
mod idle;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod machines;
#[cfg(test)]
mod pulls;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod repository;
#[cfg(test)]
mod restarts;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod shadow;
#[cfg(test)]
mod stacks;
#[cfg(test)]
mod stops;
#[cfg(test)]
mod typed;
#[cfg(test)]
mod volumes;

#[cfg(test)]
use std::path::Path;

/// The program that is a scheduler or an agent.
#[cfg(test)]
fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_node"))
}
