//! Everything that can happen to an etcd and to those who share it, with containers that run
//! meanwhile: schedulers and agents as processes, over mTLS, with the timings of production.
//!
//! What counts is seen from the outside: Docker tells what became of the containers, etcd at which
//! revision it is, and `/health` what an operator would be told.
//!
//! Needs etcd (`hack/etcd-install`) and a Docker daemon (`hack/docker-up`). Without them these tests
//! fail. They run only when they are named, as `make live` does.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may stop")]
#![allow(clippy::print_stdout, reason = "how long it took is worth reading")]

#[cfg(test)]
mod leaders;
#[cfg(test)]
mod loss;
#[cfg(test)]
mod outage;
#[cfg(test)]
mod restart;
#[cfg(test)]
mod scene;
#[cfg(test)]
mod trouble;
