//! The command line: one file a command.

mod backup;
mod check_config;
mod erasures;
mod jobs;
mod process;
mod serve;
mod token;

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use feedline::config::{Config, ConfigError, LogFormat};

#[cfg(feature = "bench")]
use crate::bench::BenchArgs;

pub(crate) use backup::{BackupArgs, RestoreArgs, backup, restore};
pub(crate) use check_config::check_config;
pub(crate) use erasures::{ErasuresCommand, erasures};
pub(crate) use jobs::{JobsArgs, jobs};
pub(crate) use process::{init_logs, raise_open_files};
pub(crate) use serve::serve;
pub(crate) use token::{TokenArgs, token};

/// A WebSocket gateway for social feeds.
#[derive(Debug, Parser)]
#[command(name = "feedline", version)]
pub(crate) struct Args {
    /// The configuration file [default: config.toml, if it is there]
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) config: Option<PathBuf>,
    /// How to log, whatever server.log_format says
    #[arg(long, global = true, value_name = "FORMAT", value_enum)]
    pub(crate) log_format: Option<LogFormat>,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What Feedline can be told to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve; this is what happens when no command is given
    Serve,
    /// Measure what this machine can carry
    #[cfg(feature = "bench")]
    Bench(BenchArgs),
    /// Print a token for a user
    Token(TokenArgs),
    /// Copy the SQLite ledger to a file, also while servers run
    Backup(BackupArgs),
    /// Put a backup in the place of the SQLite ledger; servers must be stopped
    Restore(RestoreArgs),
    /// List jobs and likes in quarantine, or retry jobs
    Jobs(JobsArgs),
    /// Look whether the configuration is valid, and start nothing
    CheckConfig,
    /// List who was erased, or apply an erasure log to a restored ledger
    #[command(subcommand)]
    Erasures(ErasuresCommand),
}

impl Args {
    /// The configuration, with what the command line says laid over it.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the file and the environment.
    pub(crate) fn load_config(&self) -> Result<Config, ConfigError> {
        let mut config = Config::load(self.config.as_deref())?;
        if let Some(format) = self.log_format {
            config.server.log_format = format;
        }
        Ok(config)
    }
}
