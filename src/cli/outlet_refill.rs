//! `feedline outlet`: the copy of the outlet in Redis.

use std::io::Write as _;

use anyhow::bail;
use clap::{Args, Subcommand};
use tokio::runtime::Builder;

use super::output::stdout;
use crate::app::open_paired_stores;
use crate::config::{BrokerUrl, Config};

/// The arguments of `feedline outlet`.
#[derive(Debug, Args)]
pub(crate) struct OutletArgs {
    /// The command
    #[command(subcommand)]
    pub(crate) command: OutletCommand,
}

/// The subcommands of `feedline outlet`.
#[derive(Debug, Subcommand)]
pub(crate) enum OutletCommand {
    /// Drop the Redis Stream, with its consumer groups; a running node fills it again
    Refill,
}

/// Runs a subcommand.
///
/// # Errors
///
/// If there is no stream, a store cannot be used, or the stores do not belong together.
pub(crate) fn outlet(config: &Config, args: &OutletArgs) -> anyhow::Result<()> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    match args.command {
        OutletCommand::Refill => runtime.block_on(refill(config)),
    }
}

async fn refill(config: &Config) -> anyhow::Result<()> {
    if matches!(config.broker.url, BrokerUrl::Memory) {
        bail!("there is no stream: broker.url is \"memory:\"");
    }
    let (broker, ledger) = open_paired_stores(config).await?;
    let dropped = match broker {
        Some(broker) => broker.drop_outlet_stream().await,
        None => Ok(()),
    };
    ledger.close().await;
    dropped?;
    writeln!(stdout(), "the stream is dropped; a node with outlet.stream fills it again")?;
    Ok(())
}
