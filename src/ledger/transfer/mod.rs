//! Export and import: the rows of a ledger as lines of JSON, the same for both kinds of ledger.
//!
//! | file | contents |
//! |---|---|
//! | `tables` | the tables that are exported, and their statements |
//! | `sqlite`, `postgres` | reading and writing the rows of one kind of ledger |
//!
//! The first line of a file says what it is, and the last one that it is whole. Between them is one row in each line,
//! in the order of [`tables::TABLES`]. A row is written as it was, counts and numbers included, so that every page and
//! every cursor stays as it was. Rows that are there already stay: an import can be repeated.

mod postgres;
mod sqlite;
mod tables;

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};

use serde::Deserialize;
use serde_json::{Value, json};

pub use self::postgres::PostgresTransfer;
pub use self::sqlite::SqliteTransfer;
use self::tables::{TABLES, Table};
use super::{LedgerError, Result};
use crate::model::Millis;

/// The form of the files that this program writes and reads.
const VERSION: u64 = 1;

/// The most rows that are written in one transaction, and the most bytes of their lines.
const BATCH_ROWS: usize = 1_000;
const BATCH_BYTES: usize = 1 << 20;

/// The most bytes of one line: a post has less than a tenth.
const LINE_BYTES: u64 = 16 << 20;

/// The number of rows that were exported or imported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransferReport {
    /// By the type of the rows: the rows of the file, and those of them that were new.
    pub rows: BTreeMap<&'static str, (u64, u64)>,
}

impl TransferReport {
    /// The rows of all types: those of the file, and those of them that were new.
    pub fn total(&self) -> (u64, u64) {
        self.rows.values().fold((0, 0), |(rows, new), (more, more_new)| (rows + more, new + more_new))
    }

    fn add(&mut self, table: &Table, rows: u64, new: u64) {
        let (all, all_new) = self.rows.entry(table.name).or_default();
        *all += rows;
        *all_new += new;
    }
}

/// Why a file was not imported.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The ledger refused.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The file could not be read or written.
    #[error(transparent)]
    File(#[from] io::Error),
    /// The file has another form, with the number of the line.
    #[error("line {0}: {1}")]
    Form(u64, String),
}

/// The ledger that rows come from or go to.
#[async_trait::async_trait]
pub trait TransferStore: Send {
    /// Writes the rows of a table, one JSON object in each line, as they were when the transfer began.
    async fn read(&mut self, table: &Table, out: &mut (dyn Write + Send)) -> std::result::Result<u64, TransferError>;

    /// Inserts rows, given as a JSON array, in one transaction. Returns the number of those that were not there.
    async fn insert(&mut self, table: &Table, rows: &str) -> Result<u64>;

    /// Sets the sequences behind the numbers of the rows.
    async fn finish_import(&mut self) -> Result<()>;
}

/// Writes all rows of a ledger.
///
/// # Errors
/// If the ledger cannot be read or the output cannot be written.
pub async fn export_ledger(
    store: &mut dyn TransferStore,
    out: &mut (dyn Write + Send),
    now: Millis,
    mut progress: impl FnMut(&TransferReport),
) -> std::result::Result<TransferReport, TransferError> {
    let mut report = TransferReport::default();
    writeln!(out, "{}", json!({ "type": "feedline-export", "version": VERSION, "exported_at": now }))?;
    for table in TABLES {
        let rows = store.read(table, out).await?;
        report.add(table, rows, rows);
        progress(&report);
    }
    writeln!(out, "{}", json!({ "type": "end", "rows": report.total().0 }))?;
    out.flush()?;
    Ok(report)
}

/// Why rows are not inserted beside servers.
const NODES_RUN: &str = "a node is running on this ledger, or was killed some seconds ago: stop it first";

fn refuse_beside_nodes(nodes: i64) -> Result<()> {
    if nodes == 0 { Ok(()) } else { Err(LedgerError::Failed(NODES_RUN.to_owned())) }
}

/// What every line has.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, rename = "type")]
    kind: std::borrow::Cow<'a, str>,
}

/// Rows of one table that are to be inserted together.
#[derive(Default)]
struct RowBatch {
    table: Option<&'static Table>,
    rows: usize,
    json: String,
}

/// Inserts the rows of a file. Those that are there stay as they are.
///
/// # Errors
/// Names the line at fault. The rows of earlier lines may have been inserted: the import can be repeated.
pub async fn import_ledger(
    store: &mut dyn TransferStore,
    file: &mut (dyn BufRead + Send),
    mut progress: impl FnMut(&TransferReport),
) -> std::result::Result<TransferReport, TransferError> {
    let mut report = TransferReport::default();
    let mut batch = RowBatch::default();
    let mut number = 0;
    let mut line = String::new();
    let form = |number, why: &str| TransferError::Form(number, why.to_owned());
    loop {
        number += 1;
        line.clear();
        if io::Read::take(&mut *file, LINE_BYTES).read_line(&mut line)? == 0 {
            return Err(form(number, "the file ends before its last line: it was cut off"));
        }
        let text = line.trim_end();
        let Line { kind } =
            serde_json::from_str(text).map_err(|error| TransferError::Form(number, format!("no row: {error}")))?;
        match (number, &*kind) {
            (1, "feedline-export") => check_version(text)?,
            (1, _) => return Err(form(1, "expected a file of feedline export")),
            (_, "end") => {
                insert(store, &mut batch, &mut report).await?;
                let end: Value = serde_json::from_str(text).unwrap_or_default();
                if end["rows"].as_u64() != Some(report.total().0) {
                    return Err(form(number, "the file has lost lines: its number of rows is another one"));
                }
                store.finish_import().await?;
                progress(&report);
                return Ok(report);
            }
            (_, kind) => {
                let table = TABLES.iter().find(|table| table.name == kind);
                let table = table.ok_or_else(|| TransferError::Form(number, format!("unknown type {kind:?}")))?;
                let is_other = batch.table.is_some_and(|of| of.name != table.name);
                if is_other || batch.rows >= BATCH_ROWS || batch.json.len() >= BATCH_BYTES {
                    insert(store, &mut batch, &mut report).await?;
                    progress(&report);
                }
                batch.table = Some(table);
                batch.json.push(if batch.rows == 0 { '[' } else { ',' });
                batch.json.push_str(text);
                batch.rows += 1;
            }
        }
    }
}

async fn insert(store: &mut dyn TransferStore, batch: &mut RowBatch, report: &mut TransferReport) -> Result<()> {
    let RowBatch { table, rows, mut json } = std::mem::take(batch);
    if let Some(table) = table {
        json.push(']');
        let new = store.insert(table, &json).await?;
        report.add(table, rows as u64, new);
    }
    Ok(())
}

fn check_version(line: &str) -> std::result::Result<(), TransferError> {
    let head: Value = serde_json::from_str(line).unwrap_or_default();
    match head["version"].as_u64() {
        Some(VERSION) => Ok(()),
        version => {
            let version = version.map_or_else(|| "no version".to_owned(), |version| format!("version {version}"));
            Err(TransferError::Form(1, format!("the file has {version}, this program reads version {VERSION}")))
        }
    }
}
