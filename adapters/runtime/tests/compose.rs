//! Compose stacks keep the contract of all runtimes, and what only stacks can be asked.
//!
//! Needs a daemon at `DOCKER_HOST` or the default socket, and a Compose program: `hack/docker-up`
//! sees to both. Without them these tests fail. They run only when they are named, as `make live`
//! does.

#[cfg(test)]
mod contract;

#[cfg(test)]
mod stacks;

#[cfg(test)]
mod support;
