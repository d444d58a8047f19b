//! Printing of messages that carry secrets: their name, and nothing of what is in them.
//!
//! `build.rs` lists the messages; one that is listed there and not here does not compile.

use std::fmt;

use crate::{agent::v1 as agent, compute::v1 as compute, control::v1 as control};

macro_rules! print_name_only {
    ($($message:ty)*) => {$(
        impl fmt::Debug for $message {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let name = stringify!($message).rsplit(':').next().unwrap_or_default();
                f.debug_struct(name.trim()).finish_non_exhaustive()
            }
        }
    )*};
}

print_name_only! {
    agent::CloudInitConfig
    agent::ComposeSpec
    agent::ContainerSpec
    agent::VmSpec
    agent::WorkloadSpec
    agent::workload_spec::Spec
    compute::CreateUserTokenResponse
    compute::JoinRequest
    control::BucketAccess
    control::CloudInitConfig
    control::ComposeSpec
    control::ContainerSpec
    control::SecretValue
    control::VmSpec
    control::WorkloadSpec
    control::workload_spec::Workload
    compute::SetSecretRequest
}
