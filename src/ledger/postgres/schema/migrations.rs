//! Migrations: one node at a time updates the schema; the other nodes wait for it.

use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

use super::functions::{self, FUNCTIONS, FunctionFile};
use crate::backoff::Backoff;
use crate::ledger::postgres::endpoint::Endpoint;
use crate::ledger::{LedgerError, Result, outdated};

/// One migration of the schema.
pub(super) struct Migration {
    /// Runs in one transaction with the other missing migrations.
    pub(super) sql: &'static str,
    /// The oldest schema version of a program that can still use the database after this migration. A migration that
    /// only adds objects names the previous version or an older one.
    pub(super) needs: i32,
}

/// The migrations. The position in the list, from 1, is the schema version. Migrations are added; what one makes never
/// changes.
const MIGRATIONS: &[Migration] = &[
    Migration { sql: include_str!("../../migrations/postgres/0001_initial.sql"), needs: 1 },
    Migration { sql: include_str!("../../migrations/postgres/0002_composed_timelines.sql"), needs: 1 },
];

/// The schema that this program knows.
pub(super) struct Schema {
    pub(super) migrations: &'static [Migration],
    pub(super) functions: &'static [FunctionFile],
}

/// The key of the advisory lock that a node holds during its migrations: "feedline" in ASCII.
pub(super) const MIGRATION_LOCK: i64 = 0x6665_6564_6c69_6e65;

/// How often a node checks whether another node has finished its migrations.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How long a step waits for a lock, and about how long a transaction that got none waits before it begins again. Calls
/// of other nodes queue behind a step that waits, and have time limits.
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// How often a waiting node logs that it waits.
const WAIT_LOG_INTERVAL: Duration = Duration::from_secs(5);

/// The oldest supported version of PostgreSQL.
const OLDEST_SERVER: u32 = 14;

/// The bookkeeping tables of migrations and functions.
const BOOKKEEPING: &str = "\
    CREATE TABLE IF NOT EXISTS schema_migrations (
        version int PRIMARY KEY, needs int NOT NULL, applied_at bigint NOT NULL);
    CREATE TABLE IF NOT EXISTS schema_functions (
        file text PRIMARY KEY, revision int NOT NULL, sha256 text NOT NULL, applied_at bigint NOT NULL)";

/// The reasons why a database cannot be used.
enum MigrationError {
    Database(Error),
    /// This program cannot use this version of the server or of the schema.
    Unfit(String),
    /// Another node did not finish its migrations in time.
    TimedOut(String),
}

impl From<Error> for MigrationError {
    fn from(error: Error) -> Self {
        Self::Database(error)
    }
}

/// Checks the server, applies the missing migrations, and then the changed functions.
///
/// # Errors
///
/// Names the server and the reason. Transactions that were not committed have changed nothing.
pub(in crate::ledger::postgres) async fn migrate(endpoint: &Endpoint) -> Result<()> {
    Schema { migrations: MIGRATIONS, functions: FUNCTIONS }.apply(endpoint).await
}

/// Refuses a schema that is older than this program, or that this program is too old for. Changes nothing.
///
/// # Errors
///
/// Names the server and both versions.
pub(in crate::ledger::postgres) async fn check(endpoint: &Endpoint) -> Result<()> {
    let client = endpoint.connect(|| ()).await?;
    let (current, needs) = versions(&client).await.map_err(|error| endpoint.explain(&error))?;
    let known = MIGRATIONS.len();
    let [current, needs] = [current, needs].map(|version| usize::try_from(version).unwrap_or_default());
    if current >= known && needs <= known {
        return Ok(());
    }
    Err(LedgerError::Failed(format!("{}: {}", endpoint.name, outdated(current, known))))
}

impl Schema {
    pub(super) async fn apply(&self, endpoint: &Endpoint) -> Result<()> {
        // Without a commit, the end of the connection takes everything back.
        let client = endpoint.connect(|| ()).await?;
        let began = Instant::now();
        let mut logged: Option<Instant> = None;
        let mut backoff = Backoff::new(LOCK_WAIT, LOCK_WAIT);
        let applied = loop {
            match self.apply_once(&client, endpoint, began).await {
                Err(MigrationError::Database(error)) if is_held_up(&error) && began.elapsed() < endpoint.patience => {
                    if logged.is_none_or(|logged| logged.elapsed() >= WAIT_LOG_INTERVAL) {
                        logged = Some(Instant::now());
                        let ledger = &endpoint.name;
                        tracing::info!(ledger, "the migration begins again: a step got no lock, see pg_locks");
                    }
                    client.batch_execute("ROLLBACK").await.map_err(|error| endpoint.explain(&error))?;
                    // The calls of other nodes run meanwhile.
                    tokio::time::sleep(backoff.next_delay()).await;
                }
                applied => break applied,
            }
        };
        applied.map_err(|problem| match problem {
            MigrationError::Database(error) if is_held_up(&error) => {
                let name = &endpoint.name;
                let patience = endpoint.patience;
                let why = "a step of the schema needs a lock that somebody else holds, see pg_locks";
                LedgerError::Unreachable(format!("{name}: {why}: gave up after {patience:?}"))
            }
            MigrationError::Database(error) => endpoint.explain(&error),
            MigrationError::Unfit(why) => LedgerError::Failed(format!("{}: {why}", endpoint.name)),
            MigrationError::TimedOut(why) => LedgerError::Unreachable(format!("{}: {why}", endpoint.name)),
        })
    }

    /// Applies all that is missing in one transaction. `began`: when this node began to wait.
    async fn apply_once(
        &self,
        client: &Client,
        endpoint: &Endpoint,
        began: Instant,
    ) -> std::result::Result<(), MigrationError> {
        begin_alone(client, endpoint, began).await?;
        check_server(client).await?;
        let changed = self.apply_pending(client, &endpoint.name).await?;
        client.batch_execute("COMMIT").await?;
        if !changed.is_empty() {
            tracing::info!(ledger = endpoint.name, files = changed.join(" "), "replaced functions of the database");
        }
        Ok(())
    }

    /// Applies what is missing. Returns the names of the changed functions' files.
    async fn apply_pending(
        &self,
        client: &Client,
        name: &str,
    ) -> std::result::Result<Vec<&'static str>, MigrationError> {
        let (current, needs) = versions(client).await?;
        let known = i32::try_from(self.migrations.len()).unwrap_or(i32::MAX);
        if needs > known {
            return Err(MigrationError::Unfit(format!(
                "its schema is version {current}, made for programs that know version {needs} or later; \
                 this one knows {known}"
            )));
        }
        if current > known {
            // The newer program also maintains the functions.
            let schema = current;
            tracing::info!(ledger = name, schema, known, "the schema is newer than this program, which may use it");
            return Ok(Vec::new());
        }
        if current == 0 {
            client.batch_execute(BOOKKEEPING).await?;
        }
        for (version, migration) in (1..).zip(self.migrations).filter(|(version, _)| *version > current) {
            client.batch_execute(migration.sql).await?;
            let record = "INSERT INTO schema_migrations VALUES ($1, $2, (extract(epoch FROM now()) * 1000)::bigint)";
            client.execute(record, &[&version, &migration.needs]).await?;
            tracing::info!(ledger = name, version, "applied a migration");
        }
        Ok(functions::apply(client, self.functions).await?)
    }
}

/// Begins a transaction that holds the lock of migrations to its end. If several nodes start at once, the first one
/// applies the migrations and the others find them applied.
///
/// A migration may take longer than a call, and a crash of the server must not lose it while this node continues. All
/// of it is of the transaction: behind a pooler, the connection of the server is this node's for no longer.
async fn begin_alone(client: &Client, endpoint: &Endpoint, began: Instant) -> std::result::Result<(), MigrationError> {
    let Endpoint { name, patience, .. } = endpoint;
    let begin = format!(
        "BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL synchronous_commit = on; SET LOCAL lock_timeout = {}",
        LOCK_WAIT.min(*patience).as_millis().max(1)
    );
    let mut logged: Option<Instant> = None;
    loop {
        client.batch_execute(&begin).await?;
        if client.query_one("SELECT pg_try_advisory_xact_lock($1)", &[&MIGRATION_LOCK]).await?.try_get(0)? {
            return Ok(());
        }
        let waited = began.elapsed();
        if waited >= *patience {
            return Err(MigrationError::TimedOut(format!(
                "another node is bringing the schema up to date and did not end within {patience:?}; \
                 if it hangs, end {}",
                lock_holder(client).await?
            )));
        }
        client.batch_execute("ROLLBACK").await?;
        if logged.is_none_or(|logged| logged.elapsed() >= WAIT_LOG_INTERVAL) {
            logged = Some(Instant::now());
            tracing::info!(ledger = name, ?waited, "another node brings the schema up to date, waiting for it");
        }
        tokio::time::sleep(LOCK_POLL_INTERVAL.min(*patience - waited)).await;
    }
}

/// The process that migrates the schema, in the terms of the server's operator.
async fn lock_holder(client: &Client) -> std::result::Result<String, Error> {
    let sql = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted \
               AND (classid::bigint << 32) | objid::bigint = $1 \
               AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let row = client.query_opt(sql, &[&MIGRATION_LOCK]).await?;
    let process = row.map(|row| row.try_get::<_, i32>(0)).transpose()?;
    Ok(process.map_or_else(|| "it".to_owned(), |process| format!("the server's process {process}")))
}

/// Whether another transaction held what a step needs.
fn is_held_up(error: &Error) -> bool {
    error.code().is_some_and(|code| [SqlState::LOCK_NOT_AVAILABLE, SqlState::T_R_DEADLOCK_DETECTED].contains(code))
}

async fn check_server(client: &Client) -> std::result::Result<(), MigrationError> {
    let sql = "SELECT current_setting('server_version'), current_setting('server_encoding')";
    let row = client.query_one(sql, &[]).await?;
    let version: String = row.try_get(0)?;
    let encoding: String = row.try_get(1)?;
    let major = version.split(|c: char| !c.is_ascii_digit()).next().and_then(|major| major.parse::<u32>().ok());
    if major.is_none_or(|major| major < OLDEST_SERVER) {
        let why = format!("PostgreSQL {OLDEST_SERVER} or newer is needed, this is {version}");
        return Err(MigrationError::Unfit(why));
    }
    if encoding != "UTF8" {
        return Err(MigrationError::Unfit(format!("the database must be in UTF8, this one is in {encoding}")));
    }
    Ok(())
}

/// The version of the schema (0: none), and the oldest version that a program must know to use the schema.
async fn versions(client: &Client) -> std::result::Result<(i32, i32), Error> {
    let exists = client.query_one("SELECT to_regclass('schema_migrations') IS NOT NULL", &[]).await?;
    if !exists.try_get::<_, bool>(0)? {
        return Ok((0, 0));
    }
    let sql = "SELECT coalesce(max(version), 0), coalesce(max(needs), 0) FROM schema_migrations";
    let row = client.query_one(sql, &[]).await?;
    Ok((row.try_get(0)?, row.try_get(1)?))
}
