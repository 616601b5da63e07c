//! The shared ledger: a PostgreSQL database that any number of nodes use.
//!
//! | file | contents |
//! |---|---|
//! | `url`, `tls` | the address of the server, and encryption |
//! | `endpoint` | the setup of a connection |
//! | `schema`, `functions` | migrations; the functions that the statements call |
//! | `pool`, `connection` | shared connections, with reconnection; one of them |
//! | `statements` | how a call runs on a connection: prepared, or behind a pooler |
//! | `hydration` | what pages show besides their posts, many pages in one statement |
//! | `errors` | the classification of errors |
//! | `people` and all the others | the statements, by concept |
//!
//! Every write is one statement (some call a function of the database, see `functions/`), so it is one transaction that
//! is never idle. SQLite has a single writer; PostgreSQL has many. A write that concerns users therefore first locks
//! their rows in `users`, in the order of their ids, and takes numbers (`seq`, the id of a job) afterwards. So writes
//! do not deadlock, counts are exact, and a reader that sees a number sees every lower number of the same user.

mod bulk;
mod columns;
mod comments;
mod connection;
mod conversations;
mod counts;
mod devices;
mod edges;
mod endpoint;
mod erasures;
mod errors;
mod events;
mod favourites;
mod filters;
mod follow_requests;
mod hydration;
mod idempotency;
mod jobs;
mod likes;
mod lineage;
mod lists;
mod nodes;
mod notifications;
mod outlet_log;
mod people;
mod personal;
mod pool;
mod posts;
mod previews;
mod pull_log;
mod pushes;
mod quarantine;
mod read_markers;
mod relations;
mod reports;
mod reposts;
mod restrictions;
mod revocations;
mod rights;
mod rows;
mod schema;
mod standings;
mod statements;
#[cfg(test)]
mod tests;
mod timeline;
mod timeline_reach;
mod tls;
mod topic_follows;
mod topics;
mod url;
mod visible_posts;
mod work;

use std::sync::Arc;

use async_trait::async_trait;

use self::endpoint::Endpoint;
pub use self::endpoint::PostgresOptions;
use self::hydration::Hydrator;
use self::pool::Pool;
pub use self::rights::{PostgresFindings, postgres_rights};
use self::timeline_reach::TimelineReach;
pub use self::url::PostgresUrl;
use super::{Ledger, LedgerError, Result, SchemaMode};

/// An expression that fails if the disk is full: it counts numbers from a temporary file of some 200 KB, unless such
/// files are forbidden.
macro_rules! temporary_file {
    () => {
        "concat(set_config('work_mem', '64kB', true),
            CASE WHEN current_setting('temp_file_limit') <> '0'
                THEN (SELECT count(*) FROM generate_series(1, 10000)) END)"
    };
}

/// Shows that the disk of the server has space, as far as a temporary file does.
const TEMPORARY_FILE: &str = concat!("SELECT ", temporary_file!());

/// Shows that the server answers, is no standby, accepts writes and has disk space. The row has its place already, so
/// that a write of it needs no space.
const PROBE: &str = concat!(
    "INSERT INTO meta (name, value) SELECT 'probe', set_config('synchronous_commit', 'off', true) || ",
    temporary_file!(),
    " ON CONFLICT (name) DO UPDATE SET value = excluded.value"
);

/// The ledger in a PostgreSQL database. Used by all nodes of a deployment.
pub struct PostgresLedger {
    name: String,
    /// `postgres://HOST:PORT/DATABASE`.
    place: String,
    /// Whether writes put their events into the queue for the outlet.
    outlet: bool,
    pool: Arc<Pool>,
    hydrator: Arc<Hydrator>,
    reach: TimelineReach,
}

impl PostgresLedger {
    /// Connects and applies pending migrations. Several nodes may do so at once. A schema newer than this program is
    /// accepted if its migrations declare it compatible.
    ///
    /// # Errors
    ///
    /// Names the server, without user and password, and the reason: unreachable, access denied, too old, or a newer
    /// schema that is not compatible with this program.
    pub async fn open(options: PostgresOptions) -> Result<Self> {
        let mut endpoint = Endpoint::new(&options)?;
        endpoint.adapt_to_pooler().await?;
        match options.schema {
            SchemaMode::Migrate => schema::migrate(&endpoint).await?,
            SchemaMode::Check => schema::check(&endpoint).await?,
        }
        let name = endpoint.name.clone();
        let place = options.url.to_string();
        let pool = Arc::new(Pool::open(endpoint, options.connections).await?);
        let hydrator = Arc::default();
        Ok(Self { name, place, outlet: options.outlet, pool, hydrator, reach: TimelineReach::default() })
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
        // A small write, which a crash of the server may lose.
        self.pool.write(PROBE, &[]).await.map(drop)
    }

    async fn close(&self) {
        self.pool.close().await;
    }
}

/// Opens a connection of a command, with the settings of the server.
pub(super) async fn connect_for_command(options: &PostgresOptions) -> Result<tokio_postgres::Client> {
    Endpoint::new(options)?.connect_plain().await
}

/// An error of such a connection.
pub(super) fn classified(error: &tokio_postgres::Error) -> LedgerError {
    errors::classify(error).error
}

#[cfg(test)]
impl PostgresLedger {
    fn endpoint(&self) -> &Endpoint {
        self.pool.endpoint()
    }
}
