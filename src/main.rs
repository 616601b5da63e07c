//! The command line of Feedline.

// Printing panics if nobody reads: see `cli::output`.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod cli;

use std::process::ExitCode;

use clap::Parser as _;
use feedline::config::ConfigError;

use crate::cli::output::write_in_time;
use crate::cli::{Args, CliCommand, ServeArgs};

/// jemalloc, because the server allocates many small, short-lived buffers of different sizes on all threads.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

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

fn main() -> ExitCode {
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
    let config = || args.load_config();
    match &args.command {
        None => cli::serve(args, &config()?, ServeArgs::default())?,
        Some(CliCommand::Serve(serve)) => cli::serve(args, &config()?, *serve)?,
        Some(CliCommand::Demo(demo)) => cli::demo(*demo, args.log_format)?,
        Some(CliCommand::Token(token)) => cli::token(&config()?, token)?,
        Some(CliCommand::Backup(backup)) => cli::backup(&config()?, backup)?,
        Some(CliCommand::Restore(restore)) => cli::restore(&config()?, restore)?,
        Some(CliCommand::Export(export)) => cli::export(&config()?, export)?,
        Some(CliCommand::Import(import)) => cli::import(&config()?, import)?,
        Some(CliCommand::Erasures(command)) => cli::erasures(&config()?, command)?,
        Some(CliCommand::SeedDemo(demo)) => cli::seed_demo(&config()?, demo)?,
        Some(CliCommand::Quarantine(quarantine)) => cli::quarantine(&config()?, quarantine)?,
        Some(CliCommand::Push(push)) => cli::push(&config()?, push)?,
        Some(CliCommand::Outlet(outlet)) => cli::outlet(&config()?, outlet)?,
        Some(CliCommand::Adopt) => cli::adopt(&config()?)?,
        Some(CliCommand::Status(status)) => cli::status(&config()?, status)?,
        Some(CliCommand::Doctor) => cli::doctor(&config()?)?,
        Some(CliCommand::CheckConfig) => {
            // Keys and URLs are checked when the providers and webhooks are built.
            let config = config()?;
            feedline::app::push_providers(&config.push)?;
            feedline::app::outlet_targets(&config)?;
            if let Some(expired) = feedline::app::expired_certificate(&config) {
                return Err(anyhow::anyhow!(expired).into());
            }
            cli::check_config(args.config.as_deref()).map_err(anyhow::Error::from)?;
        }
    }
    Ok(())
}
