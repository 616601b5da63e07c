//! `feedline outlet`: the events that were set aside, and the copy in Redis.

use std::io::Write as _;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use feedline::app::{open_broker, open_ledger};
use feedline::config::{BrokerUrl, Config};
use feedline::feed::now;
use feedline::ledger::{FailedEntry, Ledger, MAX_FAILED_ENTRIES};
use feedline::outlet::webhook_consumer;
use tokio::runtime::Builder;

use super::output::stdout;

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
    /// List the events that webhooks refused and that were set aside, with the reasons
    Failed,
    /// Send events that were set aside again; a running node sends them
    Replay {
        /// The event, as `failed` lists it: webhook/id [default: all]
        event: Option<String>,
    },
    /// Drop the Redis Stream, with its consumer groups; a running node fills it again
    Refill,
}

/// Runs a subcommand.
///
/// # Errors
///
/// If a store cannot be used, or there is no such event.
pub(crate) fn outlet(config: &Config, args: &OutletArgs) -> anyhow::Result<()> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        if matches!(args.command, OutletCommand::Refill) {
            return refill(config).await;
        }
        let ledger = open_ledger(config).await?;
        let done = match &args.command {
            OutletCommand::Replay { event } => replay(&*ledger, event.as_deref()).await,
            OutletCommand::Failed | OutletCommand::Refill => failed(&*ledger).await,
        };
        ledger.close().await;
        done
    })
}

async fn all_failed(ledger: &dyn Ledger) -> anyhow::Result<Vec<FailedEntry>> {
    Ok(ledger.failed_entries(usize::try_from(MAX_FAILED_ENTRIES)?).await?)
}

async fn failed(ledger: &dyn Ledger) -> anyhow::Result<()> {
    let mut out = stdout();
    let all = all_failed(ledger).await?;
    for FailedEntry { consumer, held } in &all {
        let webhook = consumer.strip_prefix(&webhook_consumer("")).unwrap_or(consumer);
        let (entry, at) = (&held.entry, held.failed_at.unwrap_or_default());
        let (id, kind, owner, reason) = (entry.position, &entry.kind, &entry.owner, &held.reason);
        writeln!(out, "{webhook}/{id} {kind} of {owner} since {at}: {reason}")?;
    }
    if all.is_empty() {
        writeln!(out, "no event is set aside")?;
    }
    Ok(())
}

async fn replay(ledger: &dyn Ledger, event: Option<&str>) -> anyhow::Result<()> {
    let events = match event {
        Some(event) => {
            let (webhook, id) = event.split_once('/').context("expected an event as `failed` lists it: webhook/id")?;
            vec![(webhook_consumer(webhook), id.parse().context("expected an event as `failed` lists it")?)]
        }
        None => all_failed(ledger).await?.into_iter().map(|it| (it.consumer, it.held.entry.position)).collect(),
    };
    let mut replayed = 0;
    for (consumer, id) in &events {
        replayed += u64::from(ledger.replay_entry(consumer, *id, now()).await?);
    }
    if let (Some(event), 0) = (event, replayed) {
        bail!("the event {event} is not set aside");
    }
    writeln!(stdout(), "{replayed} events are sent again")?;
    Ok(())
}

async fn refill(config: &Config) -> anyhow::Result<()> {
    if matches!(config.broker.url, BrokerUrl::Memory) {
        bail!("there is no stream: broker.url is \"memory:\"");
    }
    let (broker, _) = open_broker(config).await?;
    broker.drop_outlet_stream().await?;
    writeln!(stdout(), "the stream is dropped; a node with outlet.stream fills it again")?;
    Ok(())
}
