//! Compiles our part of etcd's contract to Rust, in this process: a build needs no `protoc`.

use std::env;
use std::error::Error;
use std::path::PathBuf;

const FILE: &str = "etcd.proto";

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("proto");
    println!("cargo::rerun-if-changed={}", root.join(FILE).display());
    tonic_prost_build::configure()
        .codec_path("persys_codec::Snug")
        // Keys and values of a whole store are read: they are not copied out of the message.
        .bytes(".")
        .skip_debug([".etcdserverpb.AuthenticateRequest", ".etcdserverpb.AuthenticateResponse"])
        .build_server(false)
        .build_transport(false)
        .compile_fds(protox::compile([FILE], [&root])?)?;
    Ok(())
}
