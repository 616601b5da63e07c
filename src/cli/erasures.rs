//! `feedline erasures`: lists erased users, and erases them again in a restored ledger.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Subcommand;
use tokio::runtime::Builder;

use super::output::stdout;
use crate::app::{open_ledger, open_paired_stores};
use crate::config::Config;
use crate::feed::{ErasureLogContents, ErasureLogEntry, read_erasure_log};
use crate::ledger::{Ledger, RevocationKind};
use crate::model::UserId;

/// The number of entries of the ledger's log that one read returns.
const ENTRIES_PER_READ: usize = 1_000;

/// The maximum number of unreadable lines that the error message lists.
const MAX_LINES_NAMED: usize = 20;

/// The subcommands of `feedline erasures`.
#[derive(Debug, Subcommand)]
pub(crate) enum ErasuresCommand {
    /// Print the erased users of the ledger, in the format of erasures.log
    List,
    /// Erase the users in an erasure log that the ledger does not list as erased; a running node removes their data
    Apply {
        /// The log: data/erasures.log of a node, or the output of `list`
        file: PathBuf,
    },
}

/// Lists erasures, or applies those of a log to the ledger.
///
/// # Errors
///
/// If the ledger or the log cannot be read, the ledger cannot be written, or it does not belong to the broker.
pub(crate) fn erasures(config: &Config, command: &ErasuresCommand) -> anyhow::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let ledger = match command {
            ErasuresCommand::List => open_ledger(config).await?,
            ErasuresCommand::Apply { .. } => open_paired_stores(config).await?.1,
        };
        let done = match command {
            ErasuresCommand::List => list(&*ledger).await,
            ErasuresCommand::Apply { file } => apply(&*ledger, file).await,
        };
        ledger.close().await;
        done
    })
}

async fn list(ledger: &dyn Ledger) -> anyhow::Result<()> {
    let mut reached = 0;
    loop {
        let entries = ledger.revocations_after(reached, ENTRIES_PER_READ).await?;
        let mut lines = Vec::new();
        for (number, entry) in &entries {
            reached = *number;
            let user = UserId::parse(&entry.subject).filter(|_| entry.kind == RevocationKind::Erased);
            if let Some(user) = user {
                serde_json::to_writer(&mut lines, &ErasureLogEntry { user, at: entry.at })?;
                lines.push(b'\n');
            }
        }
        stdout().write_all(&lines)?;
        if entries.len() < ENTRIES_PER_READ {
            return Ok(());
        }
    }
}

async fn apply(ledger: &dyn Ledger, file: &PathBuf) -> anyhow::Result<()> {
    // Unlike at the first start of a node, a missing log is an error.
    std::fs::metadata(file).with_context(|| format!("{}: cannot be read", file.display()))?;
    let contents = read_erasure_log(file).with_context(|| format!("{}: cannot be read", file.display()))?;
    let ErasureLogContents { entries, unreadable } = contents;
    let all = entries.len();
    let mut new = 0_usize;
    for ErasureLogEntry { user, at } in entries {
        new += usize::from(ledger.begin_erasure(&user, at).await?);
    }
    writeln!(stdout(), "{new} of {all} entries were new to the ledger")?;
    if !unreadable.is_empty() {
        let lines: Vec<String> = unreadable.iter().take(MAX_LINES_NAMED).map(usize::to_string).collect();
        let more = if unreadable.len() > MAX_LINES_NAMED { ", …" } else { "" };
        let lines = format!("{}{more}", lines.join(", "));
        anyhow::bail!("{}: lines that cannot be read: {lines}; the users in them were not erased", file.display());
    }
    Ok(())
}
