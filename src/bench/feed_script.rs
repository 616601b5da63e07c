//! A script with `ws` and `ioredis` as a second floor: the feed that one writes in an afternoon.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use tokio::net::TcpStream;
use tokio::process::Command;

use super::process::{ServerProcess, free_address};

/// The script, in a checkout whose tests are installed (`npm ci --prefix tests`).
const SCRIPT: &str = "tests/baseline/feed.mjs";

/// Starts the script at `path` with Node, on one core if given.
pub(super) async fn start(
    path: Option<&Path>,
    redis: &str,
    prefix: &str,
    core: Option<usize>,
) -> Result<ServerProcess> {
    let path = path.map_or_else(|| PathBuf::from(SCRIPT), Path::to_owned);
    ensure!(path.exists(), "there is no {}; --script names one", path.display());
    let addr = free_address()?;
    let mut command = Command::new("node");
    command.arg(path.canonicalize()?);
    command.env("HOST", addr.ip().to_string()).env("PORT", addr.port().to_string());
    command.env("REDIS_URL", redis).env("PREFIX", format!("{prefix}:script"));
    let start = ServerProcess::start("node", command, core, addr, async || TcpStream::connect(addr).await.is_ok());
    start.await.context("it needs node, and its packages: npm ci --prefix tests")
}
