//! The command line, with one file per command.

mod adopt;
mod backup;
mod check_config;
mod demo;
mod doctor;
mod erasures;
mod notify;
mod outlet_refill;
pub(crate) mod output;
mod process;
mod push;
mod quarantine;
mod seed_demo;
mod serve;
mod status;
mod token;
mod transfer;

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use feedline::config::{Config, ConfigError, LogFormat};

pub(crate) use adopt::adopt;
pub(crate) use backup::{BackupArgs, RestoreArgs, backup, restore};
pub(crate) use check_config::check_config;
pub(crate) use demo::{DemoArgs, demo};
pub(crate) use doctor::doctor;
pub(crate) use erasures::{ErasuresCommand, erasures};
pub(crate) use outlet_refill::{OutletArgs, outlet};
pub(crate) use process::{Logging, init_logs, raise_open_files};
pub(crate) use push::{PushArgs, push};
pub(crate) use quarantine::{QuarantineArgs, quarantine};
pub(crate) use seed_demo::{SeedDemoArgs, seed_demo};
pub(crate) use serve::{ServeArgs, serve};
pub(crate) use status::{StatusArgs, status};
pub(crate) use token::{TokenArgs, token};
pub(crate) use transfer::{ExportArgs, ImportArgs, export, import};

/// A WebSocket gateway for social feeds.
#[derive(Debug, Parser)]
#[command(name = "feedline", version)]
pub(crate) struct Args {
    /// The configuration file [default: config.toml, if it exists]
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) config: Option<PathBuf>,
    /// The log format; overrides server.log_format
    #[arg(long, global = true, value_name = "FORMAT", value_enum)]
    pub(crate) log_format: Option<LogFormat>,
    /// The command; none is `serve`.
    #[command(subcommand)]
    pub(crate) command: Option<CliCommand>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Serve (the default command)
    Serve(ServeArgs),
    /// Show a feed in which people post, like and comment, from a folder of its own that is removed at the end
    Demo(DemoArgs),
    /// Print a token for a user
    Token(TokenArgs),
    /// Copy the SQLite ledger to a file; servers may run meanwhile
    Backup(BackupArgs),
    /// Replace the SQLite ledger by a backup; servers must be stopped
    Restore(RestoreArgs),
    /// Write the whole ledger as lines of JSON, to move it to another kind of ledger; servers may run meanwhile
    Export(ExportArgs),
    /// Insert what an export contains into the ledger; servers must be stopped
    Import(ImportArgs),
    /// Fill an empty instance with a demonstration: people, posts, pictures; servers must be stopped
    SeedDemo(SeedDemoArgs),
    /// List work that was set aside because it always fails, retry it or drop it
    Quarantine(QuarantineArgs),
    /// Test the delivery of pushes to a device
    Push(PushArgs),
    /// Fill the Redis Stream of the outlet again
    Outlet(OutletArgs),
    /// Record that the broker and the ledger of the configuration belong together; servers must be stopped
    Adopt,
    /// Check the configuration without starting a server
    CheckConfig,
    /// Show the live nodes, the stores, the work that waits and the quarantine
    Status(StatusArgs),
    /// Look at what the configuration names: stores, rights, ports, files, certificates, credentials
    Doctor,
    /// List the erased users, or apply an erasure log to a restored ledger
    #[command(subcommand)]
    Erasures(ErasuresCommand),
}

impl Args {
    /// Loads the configuration. Command-line options override it.
    ///
    /// # Errors
    ///
    /// Every problem of the file and the environment.
    pub(crate) fn load_config(&self) -> Result<Config, ConfigError> {
        let mut config = Config::load(self.config.as_deref())?;
        if let Some(format) = self.log_format {
            config.server.log_format = format;
        }
        Ok(config)
    }
}
