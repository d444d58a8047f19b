//! What `build.rs` makes of `proto/etcd.proto`.
#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
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

use std::fmt;

include!(concat!(env!("OUT_DIR"), "/etcdserverpb.rs"));

impl fmt::Debug for AuthenticateRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthenticateRequest").finish_non_exhaustive()
    }
}

impl fmt::Debug for AuthenticateResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthenticateResponse").finish_non_exhaustive()
    }
}
