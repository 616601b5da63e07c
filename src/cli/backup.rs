//! `feedline backup` and `feedline restore`: a SQLite ledger as one file that is whole.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use feedline::config::{Config, LedgerUrl};
use feedline::ledger::{CopyProgress, sqlite_backup, sqlite_restore};

/// Where the copy goes.
#[derive(Debug, clap::Args)]
pub(crate) struct BackupArgs {
    /// The file to write, which must not exist [default: backups/feedline-UNIXTIME.db in server.data_dir]
    #[arg(long, value_name = "FILE")]
    pub(crate) to: Option<PathBuf>,
}

/// What to put in place.
#[derive(Debug, clap::Args)]
pub(crate) struct RestoreArgs {
    /// A file made by `feedline backup`, or a copy of the ledger made by hand (with its -wal file beside it)
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// How often progress is shown.
const SHOW_INTERVAL: Duration = Duration::from_secs(1);

/// Copies the ledger to a file, while servers run or not. Prints the file's name.
///
/// # Errors
///
/// If the ledger is no SQLite file, or a file cannot be read or written.
pub(crate) fn backup(config: &Config, args: &BackupArgs) -> anyhow::Result<()> {
    let path = sqlite_path(config, "pg_dump, pg_basebackup or the snapshots of your provider")?;
    let to = match &args.to {
        Some(to) => to.clone(),
        None => config.server.data_dir.join("backups").join(format!("feedline-{}.db", feedline::feed::now() / 1_000)),
    };
    sqlite_backup(path, &to, shown("copied")).context("no backup was made")?;
    let mut err = std::io::stderr().lock();
    writeln!(err, "The backup holds the ledger: users, posts, edges, likes and jobs.")?;
    writeln!(err, "It does not hold secrets.toml, the configuration, or likes that were not settled yet (likes/).")?;
    writeln!(std::io::stdout(), "{}", to.display())?;
    Ok(())
}

/// Puts a backup in the place of the ledger, which is kept beside it. Servers must be stopped.
///
/// # Errors
///
/// If the ledger is no SQLite file, if a server uses it, if the backup is damaged, or a file cannot be read or written.
pub(crate) fn restore(config: &Config, args: &RestoreArgs) -> anyhow::Result<()> {
    let path = sqlite_path(config, "pg_restore, psql or point-in-time recovery")?;
    let kept = sqlite_restore(&args.file, path, shown("restored")).context("nothing was restored")?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "restored {} from {}", path.display(), args.file.display())?;
    if let Some(kept) = kept {
        writeln!(out, "the ledger that was there is kept as {}", kept.display())?;
    }
    writeln!(std::io::stderr(), "Timelines are made anew from the ledger at the next start.")?;
    Ok(())
}

fn sqlite_path<'a>(config: &'a Config, instead: &str) -> anyhow::Result<&'a Path> {
    match &config.ledger.url {
        LedgerUrl::Sqlite(path) => Ok(path),
        LedgerUrl::Postgres(_) => bail!(
            "the ledger (ledger.url) is a PostgreSQL database: use {instead}; see \"Backups\" in docs/operations.md. \
             Feedline detects at its next start, or reconnect, that it was restored"
        ),
    }
}

/// Shows how far a copy is to those who watch.
fn shown(what: &'static str) -> impl FnMut(CopyProgress) {
    let mut last: Option<Instant> = None;
    move |CopyProgress { done, total }| {
        let is_due = last.is_none_or(|last| last.elapsed() >= SHOW_INTERVAL) || done == total;
        if is_due && std::io::stderr().is_terminal() {
            last = Some(Instant::now());
            let percent = (100 * done).checked_div(total).unwrap_or(100);
            // Nobody is there to see it.
            let _ = write!(std::io::stderr(), "\r{what} {percent} %{}", if done == total { "\n" } else { "" });
        }
    }
}
