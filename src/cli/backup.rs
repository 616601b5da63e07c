//! `feedline backup` and `feedline restore`: consistent copies of an SQLite ledger.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::output::{stderr, stdout};
use crate::config::{Config, LedgerUrl};
use crate::ledger::{CopyProgress, sqlite_backup, sqlite_restore};

/// The arguments of `feedline backup`.
#[derive(Debug, clap::Args)]
pub(crate) struct BackupArgs {
    /// The file to write, which must not exist [default: backups/feedline-UNIXTIME.db in server.data_dir]
    #[arg(long, value_name = "FILE")]
    pub(crate) to: Option<PathBuf>,
}

/// The arguments of `feedline restore`.
#[derive(Debug, clap::Args)]
pub(crate) struct RestoreArgs {
    /// A file of `feedline backup`, or a copy of the ledger made by hand, together with its -wal file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// The minimum interval between two progress lines.
const SHOW_INTERVAL: Duration = Duration::from_secs(1);

/// Copies the ledger to a file while servers may be running. Prints the name of the file.
///
/// # Errors
///
/// If the ledger is not an SQLite file, or a file cannot be read or written.
pub(crate) fn backup(config: &Config, args: &BackupArgs) -> anyhow::Result<()> {
    let path = sqlite_path(config, "pg_dump, pg_basebackup or the snapshots of your provider")?;
    let to = match &args.to {
        Some(to) => to.clone(),
        None => config.server.data_dir.join("backups").join(format!("feedline-{}.db", crate::feed::now() / 1_000)),
    };
    sqlite_backup(path, &to, shown("copied")).context("no backup was made")?;
    let mut err = stderr();
    writeln!(err, "The backup contains the ledger: users, posts, edges, likes and jobs.")?;
    writeln!(err, "It does not contain secrets.toml, the configuration, or likes that are not settled yet (likes/).")?;
    writeln!(stdout(), "{}", to.display())?;
    Ok(())
}

/// Replaces the ledger by a backup, and keeps the former ledger under another name. Servers must be stopped.
///
/// # Errors
///
/// If the ledger is not an SQLite file, a server uses it, the backup is damaged, or a file cannot be read or written.
pub(crate) fn restore(config: &Config, args: &RestoreArgs) -> anyhow::Result<()> {
    let path = sqlite_path(config, "pg_restore, psql or point-in-time recovery")?;
    let kept = sqlite_restore(&args.file, path, shown("restored")).context("nothing was restored")?;
    let mut out = stdout();
    writeln!(out, "restored {} from {}", path.display(), args.file.display())?;
    if let Some(kept) = kept {
        writeln!(out, "the former ledger is kept as {}", kept.display())?;
    }
    writeln!(stderr(), "Timelines are rebuilt from the ledger at the next start.")?;
    Ok(())
}

fn sqlite_path<'a>(config: &'a Config, instead: &str) -> anyhow::Result<&'a Path> {
    match &config.ledger.url {
        LedgerUrl::Sqlite(path) => Ok(path),
        LedgerUrl::Postgres(_) => bail!(
            "the ledger (ledger.url) is a PostgreSQL database: use {instead}; see \"Backups\" in docs/operations.md. \
             Feedline detects a restored ledger at its next start, or when it reconnects"
        ),
    }
}

/// Prints the progress of a copy if standard error is a terminal.
fn shown(what: &'static str) -> impl FnMut(CopyProgress) {
    let mut last: Option<Instant> = None;
    move |CopyProgress { done, total }| {
        let is_due = last.is_none_or(|last| last.elapsed() >= SHOW_INTERVAL) || done == total;
        if is_due && std::io::stderr().is_terminal() {
            last = Some(Instant::now());
            let percent = (100 * done).checked_div(total).unwrap_or(100);
            // A closed terminal is not an error.
            let _ = write!(stderr(), "\r{what} {percent} %{}", if done == total { "\n" } else { "" });
        }
    }
}
