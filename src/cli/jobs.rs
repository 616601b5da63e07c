//! `feedline jobs`: what is in quarantine, and retrying its jobs.

use std::io::Write as _;

use anyhow::bail;
use clap::{Args, Subcommand};
use feedline::app::open_ledger;
use feedline::config::Config;
use feedline::ledger::{JOB, Ledger, MAX_QUARANTINED, Quarantined};
use tokio::runtime::Builder;

/// More than there are: of each kind at most [`MAX_QUARANTINED`].
const MAX_LISTED: usize = 4 * MAX_QUARANTINED as usize;

/// The arguments of `feedline jobs`.
#[derive(Debug, Args)]
pub(crate) struct JobsArgs {
    /// Without one: list the quarantine
    #[command(subcommand)]
    pub(crate) command: Option<JobsCommand>,
}

/// What to do with the quarantine.
#[derive(Debug, Subcommand)]
pub(crate) enum JobsCommand {
    /// Put jobs back, for a running node to do
    Retry {
        /// The number of the job; without it all jobs
        id: Option<i64>,
    },
}

/// Lists the quarantine, or puts jobs back.
///
/// # Errors
///
/// If the ledger cannot be used, or there is no such job.
pub(crate) fn jobs(config: &Config, args: &JobsArgs) -> anyhow::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let ledger = open_ledger(config).await?;
        let done = match args.command {
            None => list(&*ledger).await,
            Some(JobsCommand::Retry { id }) => retry(&*ledger, id).await,
        };
        ledger.close().await;
        done
    })
}

async fn list(ledger: &dyn Ledger) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let all = ledger.quarantined(MAX_LISTED).await?;
    for Quarantined { kind, name, content, reason, at } in &all {
        writeln!(out, "{kind} {name} since {at}: {reason}\n    {content}")?;
    }
    if all.is_empty() {
        writeln!(out, "the quarantine is empty")?;
    }
    Ok(())
}

async fn retry(ledger: &dyn Ledger, id: Option<i64>) -> anyhow::Result<()> {
    let ids: Vec<i64> = match id {
        Some(id) => vec![id],
        None => {
            let all = ledger.quarantined(MAX_LISTED).await?;
            all.iter().filter(|entry| entry.kind == JOB).filter_map(|entry| entry.name.parse().ok()).collect()
        }
    };
    let mut out = std::io::stdout().lock();
    for number in ids {
        if ledger.release_job(number).await? {
            writeln!(out, "job {number} was put back")?;
        } else if id.is_some() {
            bail!("job {number} is not in quarantine");
        }
    }
    Ok(())
}
