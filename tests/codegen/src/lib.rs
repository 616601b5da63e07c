//! Generates the Rust types of the Protobuf messages from their schema. The generated code is committed, so that a
//! build of the server needs neither this crate nor a Protobuf compiler.

use std::error::Error;
use std::path::{Path, PathBuf};

/// The folder of the schema and of the generated code.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../src/protocol/protobuf")
}

/// The code for the current schema.
///
/// # Errors
/// If the schema is invalid, or the temporary folder cannot be written.
pub fn generate() -> Result<String, Box<dyn Error>> {
    let schema = protox::compile([folder().join("client.proto")], [folder()])?;
    let output = tempfile::tempdir()?;
    let mut config = prost_build::Config::new();
    config.btree_map(["."]).bytes(["."]).out_dir(output.path());
    config.compile_fds(schema)?;
    Ok(std::fs::read_to_string(output.path().join("feedline.client.rs"))?)
}
