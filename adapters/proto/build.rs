//! Compiles the contract in `/proto` to Rust, in this process: a build needs no `protoc`.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message as _;

const FILES: [&str; 12] = [
    "persys/agent/v1/agent.proto",
    "persys/compute/v1/access.proto",
    "persys/compute/v1/audit.proto",
    "persys/compute/v1/check.proto",
    "persys/compute/v1/compute.proto",
    "persys/compute/v1/enrol.proto",
    "persys/compute/v1/history.proto",
    "persys/compute/v1/logging.proto",
    "persys/compute/v1/reads.proto",
    "persys/compute/v1/secrets.proto",
    "persys/compute/v1/sources.proto",
    "persys/control/v1/control.proto",
];

/// Messages that carry passwords, keys or whole files of a user. Printing one shows its name only;
/// the crate writes that by hand for exactly these.
const SECRET: [&str; 17] = [
    ".persys.agent.v1.CloudInitConfig",
    ".persys.agent.v1.ComposeSpec",
    ".persys.agent.v1.ContainerSpec",
    ".persys.agent.v1.VMSpec",
    ".persys.agent.v1.WorkloadSpec",
    ".persys.agent.v1.WorkloadSpec.spec",
    ".persys.compute.v1.CreateUserTokenResponse",
    ".persys.compute.v1.JoinRequest",
    ".persys.compute.v1.SetSecretRequest",
    ".persys.control.v1.BucketAccess",
    ".persys.control.v1.CloudInitConfig",
    ".persys.control.v1.ComposeSpec",
    ".persys.control.v1.ContainerSpec",
    ".persys.control.v1.SecretValue",
    ".persys.control.v1.VMSpec",
    ".persys.control.v1.WorkloadSpec",
    ".persys.control.v1.WorkloadSpec.workload",
];

/// The large ones of the messages of a stream: a queue has room for the largest in each of its places, and
/// there are several queues for every node.
const BOXED: [&str; 4] = ["register", "heartbeat", "apply", "agent_command"];

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for file in FILES {
        println!("cargo::rerun-if-changed={}", root.join(file).display());
    }

    let mut descriptors = protox::compile(FILES, [&root])?;
    let mut builder = tonic_prost_build::configure();
    for field in BOXED {
        builder = builder.boxed(format!(".persys.control.v1.ControlMessage.message.{field}"));
    }
    builder
        .codec_path("persys_codec::Snug")
        // Ordered maps: the same message has the same bytes each time, and core keeps its order.
        .btree_map(".")
        .skip_debug(SECRET)
        // Connecting is the apps' business (TLS, reload); here no transport is pulled in.
        .build_transport(false)
        .compile_fds(descriptors.clone())?;

    // Comments are for readers of the source; reflection does not serve them.
    for file in &mut descriptors.file {
        file.source_code_info = None;
    }
    fs::write(out.join("descriptor.bin"), descriptors.encode_to_vec())?;
    Ok(())
}
