//! `feedline status`: the state of the deployment, from the stores of the configuration.

use std::io::Write;

use super::output::stdout;
use super::serve::runtime;
use crate::app::deployment_status;
use crate::config::Config;
use crate::feed::{DeploymentStatus, now};

/// The arguments of `feedline status`.
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Prints the nodes, the stores, the work that waits, the size of the quarantine, and the last failover.
///
/// # Errors
///
/// If a store cannot be used, after what is known, or the output cannot be written.
pub(crate) fn status(config: &Config, args: &StatusArgs) -> anyhow::Result<()> {
    let status = runtime()?.block_on(deployment_status(config));
    let mut out = stdout();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&status)?)?;
    } else {
        print(&status, &mut out)?;
    }
    anyhow::ensure!(status.is_well(), "a store cannot be used");
    Ok(())
}

fn print(status: &DeploymentStatus, out: &mut impl Write) -> std::io::Result<()> {
    let DeploymentStatus { nodes, stores, work, quarantine, failover } = status;
    writeln!(out, "stores")?;
    for (name, state) in stores {
        writeln!(out, "  {name:<24} {state}")?;
    }
    writeln!(out, "failover    {failover}")?;
    let (Some(nodes), Some(work), Some(quarantine)) = (nodes, work, quarantine) else {
        return writeln!(out, "nodes, work and quarantine are unknown: the ledger cannot be read");
    };
    writeln!(out, "nodes       {} alive", nodes.len())?;
    let now = now();
    for node in nodes {
        let number = node.number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let up = duration(now.saturating_sub(node.started_at) / 1_000);
        write!(out, "  {:<24} number {number:<4} version {:<8} up {up:<8}", node.name, node.version)?;
        let lease = duration(node.lease_until.saturating_sub(now).div_ceil(1_000));
        writeln!(out, " lease {lease:<3} owns {} partitions of work", node.partitions)?;
    }
    writeln!(out, "work        waiting, and the age of the oldest")?;
    for (kind, waiting) in work {
        writeln!(out, "  {kind:<24} {:<11} {}", waiting.waiting, duration(waiting.oldest_seconds))?;
    }
    writeln!(out, "quarantine  {quarantine}")
}

/// `3d4h`, `4h5m`, `5m6s` or `6s`.
fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}
