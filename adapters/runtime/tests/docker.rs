//! Docker keeps the contract of all runtimes, and what only Docker can be asked.
//!
//! Needs a daemon at `DOCKER_HOST` or the default socket: `hack/docker-up` starts one. Without it
//! these tests fail. They run only when they are named, as `make live` does.

#[cfg(test)]
mod contract;

#[cfg(test)]
mod live;

#[cfg(test)]
mod support;
