//! A peer: another system with the interface of the floor, measured beside the server on the same Redis.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use tokio::net::TcpStream;
use tokio::process::Command;

use super::process::{ServerProcess, free_address};

/// A script with `ws` and `ioredis`: the feed that one writes in an afternoon. In a checkout whose tests are installed
/// (`npm ci --prefix tests`).
const SCRIPT: &str = "tests/baseline/feed.mjs";

/// Starts a command of a shell, by default the script with Node, on one core if given. The command listens on `HOST`
/// and `PORT`, and may use the Redis at `REDIS_URL` with keys that begin with `PREFIX`.
pub(super) async fn start(
    command: Option<&str>,
    redis: &str,
    prefix: &str,
    core: Option<usize>,
) -> Result<ServerProcess> {
    let line = match command {
        Some(command) => command.to_owned(),
        None => {
            ensure!(Path::new(SCRIPT).exists(), "there is no {SCRIPT}; --beside names another system");
            format!("node {SCRIPT}")
        }
    };
    let addr = free_address()?;
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("exec {line}"));
    command.env("HOST", addr.ip().to_string()).env("PORT", addr.port().to_string());
    command.env("REDIS_URL", redis).env("PREFIX", format!("{prefix}:peer"));
    let start = ServerProcess::start("peer", command, core, addr, async || TcpStream::connect(addr).await.is_ok());
    start.await.with_context(|| format!("`{line}` did not start; the script needs node, and npm ci --prefix tests"))
}
