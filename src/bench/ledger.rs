//! The ledger of a server that is measured, filled before the server starts.

use anyhow::{Context as _, Result};
use clap::ValueEnum;

use crate::ledger::{
    Durability, Ledger as _, PostgresLedger, PostgresOptions, PostgresUrl, SqliteLedger, SqliteOptions,
};
use crate::model::{Millis, Post, UserId};

/// Which one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// A file
    #[default]
    Sqlite,
    /// A PostgreSQL that is started for it
    Postgres,
}

/// What an address of SQLite begins with; its file follows.
pub(super) const SQLITE: &str = "sqlite://";

/// One that is being filled.
pub(super) enum Filling {
    Sqlite(SqliteLedger),
    Postgres(PostgresLedger),
}

impl Filling {
    /// Opens the one at this address, made if missing.
    pub(super) async fn open(url: &str) -> Result<Self> {
        Ok(match url.strip_prefix(SQLITE) {
            Some(path) => {
                let options = SqliteOptions { durability: Durability::Normal, ..SqliteOptions::new(path) };
                Self::Sqlite(SqliteLedger::open(options).await?)
            }
            None => {
                let url = PostgresUrl::parse(url).map_err(anyhow::Error::msg).context("the address of PostgreSQL")?;
                Self::Postgres(PostgresLedger::open(PostgresOptions::new(url)).await?)
            }
        })
    }

    /// Makes users, named like their ids.
    pub(super) async fn users(&self, ids: &[UserId], now: Millis) -> Result<()> {
        match self {
            Self::Sqlite(ledger) => ledger.bulk_users(ids, now).await?,
            Self::Postgres(ledger) => ledger.bulk_users(ids, now).await?,
        }
        Ok(())
    }

    /// Makes edges: follower, followee.
    pub(super) async fn follows(&self, edges: &[(UserId, UserId)], now: Millis) -> Result<()> {
        match self {
            Self::Sqlite(ledger) => ledger.bulk_follows(edges, now).await?,
            Self::Postgres(ledger) => ledger.bulk_follows(edges, now).await?,
        }
        Ok(())
    }

    /// Stores posts that nobody's inbox holds.
    pub(super) async fn posts(&self, posts: &[Post]) -> Result<()> {
        match self {
            Self::Sqlite(ledger) => ledger.bulk_posts(posts).await?,
            Self::Postgres(ledger) => ledger.bulk_posts(posts).await?,
        }
        Ok(())
    }

    /// Lets it go.
    pub(super) async fn close(self) {
        match self {
            Self::Sqlite(ledger) => ledger.close().await,
            Self::Postgres(ledger) => ledger.close().await,
        }
    }
}
