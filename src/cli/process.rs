//! Sets up the process of a server: logging, and the limit of open files.

use std::env::VarError;
use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::sync::Arc;

use anyhow::Context as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, reload};

use crate::config::{LogFormat, ServerConfig};
use crate::logs::{LogQueue, LogWriter, Repeats, log_panics};

/// Higher than any useful limit of open files, so that the hard limit of the system applies.
const PLENTY: u64 = 1 << 24;

/// The log of this process.
pub(crate) struct Logging {
    queue: Arc<LogQueue>,
    filter: reload::Handle<EnvFilter, Registry>,
}

impl Logging {
    /// Writes the lines that wait.
    pub(crate) fn flush(&self) {
        self.queue.flush();
    }

    /// Takes another `server.log_level`.
    ///
    /// # Errors
    ///
    /// If `RUST_LOG` is not a valid filter.
    pub(crate) fn set_level(&self, server: &ServerConfig) -> anyhow::Result<()> {
        Ok(self.filter.reload(level_filter(server)?)?)
    }
}

fn level_filter(server: &ServerConfig) -> anyhow::Result<EnvFilter> {
    let written = match std::env::var(EnvFilter::DEFAULT_ENV) {
        // It logs statements with their parameters, which are texts of users, and notices of PostgreSQL.
        Err(VarError::NotPresent) => format!("{},tokio_postgres=warn", server.log_level),
        written => written.context(EnvFilter::DEFAULT_ENV)?,
    };
    let filter = EnvFilter::builder().with_default_directive(server.log_level.into());
    filter.parse(written).context(EnvFilter::DEFAULT_ENV)
}

/// Starts logging to standard error, by a thread. The environment variable `RUST_LOG`, if set, overrides
/// `server.log_level`.
///
/// # Errors
///
/// If `RUST_LOG` is not a valid filter, or logging was started before.
pub(crate) fn init_logs(server: &ServerConfig) -> anyhow::Result<Logging> {
    let (layer, filter) = reload::Layer::new(level_filter(server)?);
    let repeats = Repeats::default();
    // A descriptor of its own: the thread that writes holds no lock of standard error while a reader stalls.
    let target = File::from(io::stderr().as_fd().try_clone_to_owned().context("standard error cannot be used")?);
    let queue = LogQueue::start(target, repeats.clone()).context("logging could not be started")?;
    let writer = LogWriter(Arc::clone(&queue));
    let lines = tracing_subscriber::fmt::layer()
        .log_internal_errors(false)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(move || writer.clone());
    let lines = match server.log_format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let started = tracing_subscriber::registry().with(layer).with(repeats).with(lines).try_init();
    started.map_err(|error| anyhow::anyhow!("logging could not be started: {error}"))?;
    log_panics();
    Ok(Logging { queue, filter })
}

/// Raises the limit of open files to the hard limit. Returns the new limit.
///
/// # Errors
///
/// If the limit cannot be read.
pub(crate) fn raise_open_files() -> io::Result<u64> {
    rlimit::increase_nofile_limit(PLENTY)
}
