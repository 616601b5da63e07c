//! Sets up the process of a server: logging, and the limit of open files.

use std::env::VarError;
use std::io::{self, IsTerminal as _};

use anyhow::Context as _;
use feedline::config::{LogFormat, ServerConfig};
use tracing_subscriber::EnvFilter;

/// Higher than any useful limit of open files, so that the hard limit of the system applies.
const PLENTY: u64 = 1 << 24;

/// Starts logging to standard error. The environment variable `RUST_LOG`, if set, overrides `server.log_level`.
///
/// # Errors
///
/// If `RUST_LOG` is not a valid filter, or logging was started before.
pub(crate) fn init_logs(server: &ServerConfig) -> anyhow::Result<()> {
    let written = match std::env::var(EnvFilter::DEFAULT_ENV) {
        Err(VarError::NotPresent) => String::new(),
        written => written.context(EnvFilter::DEFAULT_ENV)?,
    };
    let filter = EnvFilter::builder().with_default_directive(server.log_level.into());
    let filter = filter.parse(written).context(EnvFilter::DEFAULT_ENV)?;
    let logs =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
    let started = match server.log_format {
        LogFormat::Text => logs.try_init(),
        LogFormat::Json => logs.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("logging could not be started: {error}"))
}

/// Raises the limit of open files to the hard limit. Returns the new limit.
///
/// # Errors
///
/// If the limit cannot be read.
pub(crate) fn raise_open_files() -> io::Result<u64> {
    rlimit::increase_nofile_limit(PLENTY)
}
