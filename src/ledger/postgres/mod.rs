//! The shared ledger: a PostgreSQL database that any number of nodes use.
//!
//! | file | what is in it |
//! |---|---|
//! | `url`, `tls` | where it is, and encrypted connections |
//! | `endpoint` | how a connection is set up |
//! | `schema`, `functions` | migrations; the functions that the statements call |
//! | `pool` | connections that callers share and that come back by themselves |
//! | `errors` | what an error means |
//! | `people` and all the others | the statements, by concept |
//!
//! Every write is one statement (some call a function of the database, see `functions/`), and so one transaction that
//! is never idle. SQLite has one writer; here, a write that concerns users locks their rows in `users` first, in the
//! order of their ids, and takes numbers (`seq`, a job's id) afterwards. So writes do not deadlock, counts are exact,
//! and a reader that sees a number sees every lower one of the same user.

#[cfg(any(test, feature = "bench"))]
mod bulk;
mod columns;
mod comments;
mod counts;
mod edges;
mod endpoint;
mod erasures;
mod errors;
mod events;
mod favourites;
mod idempotency;
mod jobs;
mod likes;
mod lineage;
mod notifications;
mod people;
mod personal;
mod pool;
mod posts;
mod previews;
mod pull_log;
mod quarantine;
mod read_markers;
mod restrictions;
mod revocations;
mod rows;
mod schema;
#[cfg(test)]
mod tests;
mod timeline;
mod tls;
mod topics;
mod url;
mod visible_posts;

use async_trait::async_trait;

use self::columns::{at, one};
use self::endpoint::Endpoint;
pub use self::endpoint::PostgresOptions;
use self::pool::Pool;
pub use self::url::PostgresUrl;
use super::{Ledger, LedgerError, Result};

/// The ledger in a PostgreSQL database.
pub struct PostgresLedger {
    name: String,
    pool: Pool,
}

impl PostgresLedger {
    /// Connects and brings the schema up to date. Several nodes may do so at once. A schema that is newer than this
    /// program is used if its migrations declare that it may.
    ///
    /// # Errors
    ///
    /// Names the place, without user and password, and says why: not to be reached, not allowed in, too old, or of a
    /// newer schema that this program must not use.
    pub async fn open(options: PostgresOptions) -> Result<Self> {
        let endpoint = Endpoint::new(&options)?;
        schema::migrate(&endpoint).await?;
        let name = endpoint.name.clone();
        Ok(Self { name, pool: Pool::open(endpoint, options.connections).await? })
    }
}

#[async_trait]
impl Ledger for PostgresLedger {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn round_trips(&self) -> u64 {
        self.pool.round_trips()
    }

    async fn ping(&self) -> Result<()> {
        let rows = self.pool.read("SELECT pg_is_in_recovery() FROM schema_migrations LIMIT 1", &[]).await?;
        match at::<bool>(one(&rows)?, 0)? {
            false => Ok(()),
            true => Err(LedgerError::Unreachable("it is a standby, which takes no writes".to_owned())),
        }
    }

    async fn close(&self) {
        self.pool.close().await;
    }
}

#[cfg(test)]
impl PostgresLedger {
    fn endpoint(&self) -> &Endpoint {
        self.pool.endpoint()
    }
}
