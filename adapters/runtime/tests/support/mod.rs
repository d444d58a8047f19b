//! A real Docker, for the tests of all that runs on it.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "shared by several test binaries"
)]

pub(crate) mod daemon;
pub(crate) mod greed;

use std::sync::atomic::{AtomicU32, Ordering};

use persys_runtime::docker::settings::Settings;

pub(crate) const IMAGE: &str = "persys-test/busybox:1";

pub(crate) fn host() -> String {
    std::env::var("DOCKER_HOST").unwrap_or_else(|_| Settings::default().host)
}

pub(crate) fn raw() -> bollard::Docker {
    bollard::Docker::connect_with_host(&host()).expect("a daemon: run hack/docker-up")
}

/// A prefix no other test has, nor an earlier run.
pub(crate) fn fresh_prefix() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("persys-test-{}-{count}-", std::process::id())
}
