//! The ledger of the measured server, which is filled before the server starts.

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use feedline::ledger::{
    BulkLoad, Durability, PostgresLedger, PostgresOptions, PostgresUrl, SqliteLedger, SqliteOptions,
};

/// The store of the ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum LedgerKind {
    /// SQLite
    #[default]
    Sqlite,
    /// A PostgreSQL server that the bench starts
    Postgres,
}

/// The prefix of a SQLite address, before the path.
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
