//! `feedline jobs`: lists the quarantine and retries its jobs.

use std::io::Write as _;

use anyhow::bail;
use clap::{Args, Subcommand};
use feedline::app::open_ledger;
use feedline::config::Config;
use feedline::ledger::{JOB, JobId, Ledger, MAX_QUARANTINED, Quarantined};
use tokio::runtime::Builder;

use super::output::stdout;

/// The maximum number of rows to read. The ledger keeps at most [`MAX_QUARANTINED`] rows of each kind.
const MAX_LISTED: usize = 4 * MAX_QUARANTINED as usize;

/// The arguments of `feedline jobs`.
#[derive(Debug, Args)]
pub(crate) struct JobsArgs {
    /// [default: list the quarantine]
    #[command(subcommand)]
    pub(crate) command: Option<JobsCommand>,
}

/// The subcommands of `feedline jobs`.
#[derive(Debug, Subcommand)]
pub(crate) enum JobsCommand {
    /// Return jobs to their queue; a running node runs them
    Retry {
        /// The number of the job [default: all jobs]
        id: Option<u64>,
    },
}

/// Lists the quarantine, or returns jobs to their queue.
///
/// # Errors
///
/// If the ledger cannot be used, or the job does not exist.
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
    let mut out = stdout();
    let all = ledger.quarantined(MAX_LISTED).await?;
    for Quarantined { kind, name, content, reason, at } in &all {
        writeln!(out, "{kind} {name} since {at}: {reason}\n    {content}")?;
    }
    if all.is_empty() {
        writeln!(out, "the quarantine is empty")?;
    }
    Ok(())
}

async fn retry(ledger: &dyn Ledger, id: Option<u64>) -> anyhow::Result<()> {
    let ids: Vec<u64> = match id {
        Some(id) => vec![id],
        None => {
            let all = ledger.quarantined(MAX_LISTED).await?;
            all.iter().filter(|entry| entry.kind == JOB).filter_map(|entry| entry.name.parse().ok()).collect()
        }
    };
    let mut out = stdout();
    for number in ids {
        if ledger.release_job(JobId(number)).await? {
            writeln!(out, "job {number} was returned to its queue")?;
        } else if id.is_some() {
            bail!("job {number} is not in quarantine");
        }
    }
    Ok(())
}
