//! `feedline export` and `feedline import`: a whole ledger as lines of JSON, to move it from one kind to the other.

use std::fs::OpenOptions;
use std::io::{self, BufReader, BufWriter, IsTerminal as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::output::{stderr, stdout};
use super::serve::runtime;
use crate::app::open_ledger;
use crate::config::{Config, LedgerUrl};
use crate::feed::now;
use crate::ledger::{
    PostgresOptions, PostgresTransfer, SqliteTransfer, TransferReport, TransferStore, export_ledger, import_ledger,
};

/// The arguments of `feedline export`.
#[derive(Debug, clap::Args)]
pub(crate) struct ExportArgs {
    /// The file to write, which must not exist; `-` is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    to: PathBuf,
}

/// The arguments of `feedline import`.
#[derive(Debug, clap::Args)]
pub(crate) struct ImportArgs {
    /// A file of `feedline export`; `-` is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
}

/// The minimum interval between two progress lines.
const SHOW_INTERVAL: Duration = Duration::from_secs(1);

/// Writes the ledger as it is now, while servers may be running.
///
/// # Errors
///
/// If the ledger cannot be read, or the file exists or cannot be written.
pub(crate) fn export(config: &Config, args: &ExportArgs) -> anyhow::Result<()> {
    let report = runtime()?.block_on(async {
        let mut store: Box<dyn TransferStore> = match &config.ledger.url {
            LedgerUrl::Sqlite(path) => Box::new(SqliteTransfer::reading(path)?),
            LedgerUrl::Postgres(url) => Box::new(PostgresTransfer::reading(&PostgresOptions::new(url.clone())).await?),
        };
        if is_stream(&args.to) {
            let mut out = BufWriter::new(stdout());
            return export_ledger(&mut *store, &mut out, now(), shown("exported")).await.map_err(anyhow::Error::from);
        }
        // The file has the hashes of passwords.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&args.to);
        let mut out = BufWriter::new(file.with_context(|| args.to.display().to_string())?);
        let exported = export_ledger(&mut *store, &mut out, now(), shown("exported")).await;
        let exported = exported.map_err(anyhow::Error::from).and_then(|report| {
            out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
            Ok(report)
        });
        if exported.is_err() {
            // An export that was cut off is of no use.
            let _ = std::fs::remove_file(&args.to);
        }
        exported
    });
    let report = report.context("nothing was exported")?;
    print_report(&report, "exported", false)?;
    writeln!(stderr(), "Not exported: the secrets, the configuration, and likes that are not settled yet.")?;
    Ok(())
}

/// Inserts what an export contains and the ledger lacks. Creates the schema.
///
/// # Errors
///
/// If the file is no whole export, or the ledger cannot be written or is in use.
pub(crate) fn import(config: &Config, args: &ImportArgs) -> anyhow::Result<()> {
    let report = runtime()?.block_on(async {
        open_ledger(config).await?.close().await;
        let mut store: Box<dyn TransferStore> = match &config.ledger.url {
            LedgerUrl::Sqlite(path) => Box::new(SqliteTransfer::writing(path)?),
            LedgerUrl::Postgres(url) => Box::new(PostgresTransfer::writing(&PostgresOptions::new(url.clone())).await?),
        };
        let name = args.file.display().to_string();
        if is_stream(&args.file) {
            let mut file = BufReader::new(io::stdin());
            return import_ledger(&mut *store, &mut file, shown("imported")).await.context("standard input");
        }
        let file = OpenOptions::new().read(true).open(&args.file).with_context(|| name.clone())?;
        import_ledger(&mut *store, &mut BufReader::new(file), shown("imported")).await.context(name)
    });
    let report = report.context("the import did not end; what was inserted stays, and it can be repeated")?;
    print_report(&report, "imported", true)?;
    Ok(())
}

fn is_stream(path: &Path) -> bool {
    path == Path::new("-")
}

/// The numbers of rows by type, on standard error: standard output may be the export.
fn print_report(report: &TransferReport, done: &str, has_known: bool) -> io::Result<()> {
    let mut err = stderr();
    for (name, (rows, new)) in report.rows.iter().filter(|(_, (rows, _))| *rows > 0) {
        let known = if has_known && rows > new { format!(", {} there before", rows - new) } else { String::new() };
        writeln!(err, "{name:24} {rows:>12}{known}")?;
    }
    let (rows, new) = report.total();
    let known = if has_known { format!(", {new} of them new") } else { String::new() };
    writeln!(err, "{done} {rows} rows{known}")
}

/// Prints the progress if standard error is a terminal.
fn shown(what: &'static str) -> impl FnMut(&TransferReport) {
    let mut last: Option<Instant> = None;
    let is_terminal = io::stderr().is_terminal();
    move |report| {
        if is_terminal && last.is_none_or(|last| last.elapsed() >= SHOW_INTERVAL) {
            last = Some(Instant::now());
            // Nobody is left to know of an error.
            let _ = writeln!(stderr(), "{what} {} rows so far", report.total().0);
        }
    }
}
