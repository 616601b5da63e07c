//! Reads the arguments of the process and runs a command.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use super::adopt::adopt;
use super::backup::{BackupArgs, RestoreArgs, backup, restore};
use super::check_config::check_config;
use super::config_source::ConfigSource;
use super::demo::{DemoArgs, demo};
use super::doctor::doctor;
use super::erasures::{ErasuresCommand, erasures};
use super::outlet_refill::{OutletArgs, outlet};
use super::output::write_in_time;
use super::push::{PushArgs, push};
use super::quarantine::{QuarantineArgs, quarantine};
use super::seed_demo::{SeedDemoArgs, seed_demo};
use super::serve::{ServeArgs, serve};
use super::status::{StatusArgs, status};
use super::token::{TokenArgs, token};
use super::transfer::{ExportArgs, ImportArgs, export, import};
use crate::config::ConfigError;

/// A WebSocket gateway for social feeds.
#[derive(Debug, Parser)]
#[command(name = "feedline", version)]
struct Args {
    #[command(flatten)]
    source: ConfigSource,
    /// The command; none is `serve`.
    #[command(subcommand)]
    command: Option<CliCommand>,
}

/// The commands.
#[derive(Debug, Subcommand)]
enum CliCommand {
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

/// A failed command.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The command failed. Shown with its causes.
    #[error("{0:#}")]
    Command(#[from] anyhow::Error),
}

impl Failure {
    /// The exit code.
    fn code(&self) -> u8 {
        match self {
            Self::Config(_) => 2,
            Self::Command(_) => 1,
        }
    }
}

/// Runs the command that the arguments of the process name. Returns its exit code: 0, 1 if the command failed, 2 for
/// an invalid configuration or unknown arguments.
///
/// The program only calls this: what it runs is compiled here, together with the library, instead of a second time.
pub fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Logging may not have started.
            write_in_time(std::io::stderr(), format!("{failure}\n"));
            ExitCode::from(failure.code())
        }
    }
}

/// Runs a command. All commands but `demo` read the configuration first.
fn run(args: &Args) -> Result<(), Failure> {
    let Args { source, command } = args;
    let config = || source.load();
    match command {
        None => serve(source, &config()?, ServeArgs::default())?,
        Some(CliCommand::Serve(args)) => serve(source, &config()?, *args)?,
        Some(CliCommand::Demo(args)) => demo(*args, source.log_format)?,
        Some(CliCommand::Token(args)) => token(&config()?, args)?,
        Some(CliCommand::Backup(args)) => backup(&config()?, args)?,
        Some(CliCommand::Restore(args)) => restore(&config()?, args)?,
        Some(CliCommand::Export(args)) => export(&config()?, args)?,
        Some(CliCommand::Import(args)) => import(&config()?, args)?,
        Some(CliCommand::Erasures(args)) => erasures(&config()?, args)?,
        Some(CliCommand::SeedDemo(args)) => seed_demo(&config()?, args)?,
        Some(CliCommand::Quarantine(args)) => quarantine(&config()?, args)?,
        Some(CliCommand::Push(args)) => push(&config()?, args)?,
        Some(CliCommand::Outlet(args)) => outlet(&config()?, args)?,
        Some(CliCommand::Adopt) => adopt(&config()?)?,
        Some(CliCommand::Status(args)) => status(&config()?, args)?,
        Some(CliCommand::Doctor) => doctor(&config()?)?,
        Some(CliCommand::CheckConfig) => {
            // Keys and URLs are checked when the providers and webhooks are built.
            let config = config()?;
            crate::app::push_providers(&config.push)?;
            crate::app::outlet_targets(&config)?;
            if let Some(expired) = crate::app::expired_certificate(&config) {
                return Err(anyhow::anyhow!(expired).into());
            }
            check_config(source.config.as_deref()).map_err(anyhow::Error::from)?;
        }
    }
    Ok(())
}
