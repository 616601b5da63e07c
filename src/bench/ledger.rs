//! The ledger of a server that is measured, filled before the server starts.

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use feedline::ledger::{
    BulkLoad, Durability, PostgresLedger, PostgresOptions, PostgresUrl, SqliteLedger, SqliteOptions,
};

/// Which one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum LedgerKind {
    /// A file
    #[default]
    Sqlite,
    /// A PostgreSQL that is started for it
    Postgres,
}

/// What an address of SQLite begins with; its file follows.
pub(super) const SQLITE: &str = "sqlite://";

/// Opens the ledger at an address to fill it; creates a missing one.
pub(super) async fn open(url: &str) -> Result<Box<dyn BulkLoad>> {
    Ok(match url.strip_prefix(SQLITE) {
        Some(path) => {
            let options = SqliteOptions { durability: Durability::Normal, ..SqliteOptions::new(path) };
            Box::new(SqliteLedger::open(options).await?)
        }
        None => {
            let url = PostgresUrl::parse(url).map_err(anyhow::Error::msg).context("the address of PostgreSQL")?;
            Box::new(PostgresLedger::open(PostgresOptions::new(url)).await?)
        }
    })
}
