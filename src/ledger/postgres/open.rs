//! Opening the database: connections, how they are set up, and which schema there is.

use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Transaction};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::errors::{sort, text};
use super::tls;
use super::url::{PostgresUrl, Tls};
use crate::ledger::{Durability, LedgerError, Result};

/// One step of the schema.
struct Step {
    sql: &'static str,
    /// The oldest version of the schema that a program may know and go on running when this step was taken. A step that only
    /// adds says the version before it, or an older one.
    needs: u32,
}

/// The schema, step by step; a step's version is its place in the list, from 1. Steps are added, never changed.
const STEPS: &[Step] = &[
    Step { sql: include_str!("../migrations/postgres/0001_feed.sql"), needs: 1 },
    Step { sql: include_str!("../migrations/postgres/0002_comments.sql"), needs: 1 },
    Step { sql: include_str!("../migrations/postgres/0003_favourites.sql"), needs: 1 },
    Step { sql: include_str!("../migrations/postgres/0004_audience.sql"), needs: 1 },
    Step { sql: include_str!("../migrations/postgres/0005_topics.sql"), needs: 1 },
    Step { sql: include_str!("../migrations/postgres/0006_likes.sql"), needs: 1 },
    Step { sql: include_str!("../migrations/postgres/0007_people.sql"), needs: 1 },
    Step { sql: include_str!("../migrations/postgres/0008_idempotency.sql"), needs: 1 },
    Step { sql: include_str!("../migrations/postgres/0009_pulled.sql"), needs: 1 },
    Step { sql: include_str!("../migrations/postgres/0010_of_some.sql"), needs: 1 },
    Step { sql: include_str!("../migrations/postgres/0011_settle.sql"), needs: 1 },
    Step { sql: include_str!("../migrations/postgres/0012_revocations.sql"), needs: 1 },
    Step { sql: include_str!("../migrations/postgres/0013_edit_if.sql"), needs: 1 },
    Step { sql: include_str!("../migrations/postgres/0014_personal.sql"), needs: 1 },
    Step { sql: include_str!("../migrations/postgres/0015_visibility_change.sql"), needs: 1 },
    Step { sql: include_str!("../migrations/postgres/0016_erasure.sql"), needs: 1 },
    Step { sql: include_str!("../migrations/postgres/0017_events.sql"), needs: 1 },
    Step { sql: include_str!("../migrations/postgres/0018_meta.sql"), needs: 1 },
    Step { sql: include_str!("../migrations/postgres/0019_job_leases.sql"), needs: 1 },
    Step { sql: include_str!("../migrations/postgres/0020_quarantine.sql"), needs: 1 },
    Step { sql: include_str!("../migrations/postgres/0021_job_clock.sql"), needs: 1 },
    Step { sql: include_str!("../migrations/postgres/0022_fair_claims.sql"), needs: 1 },
    Step { sql: include_str!("../migrations/postgres/0023_post_audience.sql"), needs: 1 },
];

/// Names the lock that one of several starting nodes holds while it brings the schema up to date: "feedline" in ASCII.
const LOCK: i64 = 0x6665_6564_6c69_6e65;

/// How often a node looks whether another has done with the schema, and how often it says that it waits.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const TELL_EVERY: Duration = Duration::from_secs(5);

/// The oldest version that is known to do.
const OLDEST_SERVER: u32 = 14;

/// How the PostgreSQL ledger is opened.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// Where it is.
    pub url: PostgresUrl,
    /// What a finished write survives.
    pub durability: Durability,
    /// How long a call waits for its answer.
    pub timeout: Duration,
    /// Connections, at least 1.
    pub connections: usize,
    /// How long the opening waits for another node that brings the schema up to date, and for each lock that a step takes.
    pub patience: Duration,
}

impl PostgresOptions {
    /// The defaults for a place: full durability, 5 seconds, 8 connections, 10 minutes for the schema.
    pub fn new(url: PostgresUrl) -> Self {
        let (timeout, patience) = (Duration::from_secs(5), Duration::from_secs(600));
        Self { url, durability: Durability::default(), timeout, connections: 8, patience }
    }
}

/// How to reach the server.
pub(super) struct Endpoint {
    pub(super) name: String,
    /// For one attempt to connect, and for one answer.
    pub(super) timeout: Duration,
    patience: Duration,
    config: tokio_postgres::Config,
    connector: MakeRustlsConnect,
    /// What a connection is told first.
    settings: String,
}

impl Endpoint {
    pub(super) fn new(options: &PostgresOptions) -> Result<Self> {
        let mut config = options.url.config();
        // One attempt for each host within the time that all of them have.
        let hosts = u32::try_from(config.get_hosts().len().max(1)).unwrap_or(u32::MAX);
        config.connect_timeout(options.timeout / hosts);
        config.keepalives_idle(Duration::from_secs(30));
        config.tcp_user_timeout(options.timeout.max(Duration::from_secs(5)) * 2);
        let connector = tls::connector(options.url.tls()).map_err(LedgerError::Failed)?;
        let encrypted = if *options.url.tls() == Tls::Off { "" } else { " over TLS" };
        let name = format!("postgres at {}{encrypted}", options.url.place());
        let (timeout, patience) = (options.timeout, options.patience);
        Ok(Self { name, timeout, patience, config, connector, settings: settings(options) })
    }

    /// A connection that is set up. `on_end` is called when it has ended.
    pub(super) async fn connect(&self, on_end: impl FnOnce() + Send + 'static) -> Result<Client> {
        let connecting = async {
            let (client, connection) = self.config.connect(self.connector.clone()).await?;
            tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(error = text(&error), "a connection to the ledger broke");
                }
                on_end();
            });
            client.batch_execute(&self.settings).await?;
            Ok(client)
        };
        match tokio::time::timeout(self.timeout, connecting).await {
            Ok(Ok(client)) => Ok(client),
            Ok(Err(error)) => Err(self.explain(&error)),
            Err(_) => Err(LedgerError::Unreachable(format!("{} does not answer within {:?}", self.name, self.timeout))),
        }
    }

    /// When the server behind a connection was started. Another server says something else, and so does the same one after a
    /// restart. Empty if the server does not tell.
    pub(super) async fn server_start(&self, client: &Client) -> Result<String> {
        let asking = client.query_one("SELECT extract(epoch FROM pg_postmaster_start_time())::text", &[]);
        match tokio::time::timeout(self.timeout, asking).await {
            Ok(Ok(row)) => Ok(row.try_get(0).unwrap_or_default()),
            Ok(Err(error)) => match self.explain(&error) {
                LedgerError::Failed(why) => {
                    tracing::debug!(why, "the server does not tell when it was started");
                    Ok(String::new())
                }
                error => Err(error),
            },
            Err(_) => Err(LedgerError::Unreachable(format!("{} does not answer within {:?}", self.name, self.timeout))),
        }
    }

    fn explain(&self, error: &tokio_postgres::Error) -> LedgerError {
        match sort(error).error {
            LedgerError::Failed(why) => LedgerError::Failed(format!("{}: {why}", self.name)),
            LedgerError::Unreachable(why) => LedgerError::Unreachable(format!("{}: {why}", self.name)),
            LedgerError::Busy => LedgerError::Busy,
        }
    }

    /// Looks whether the server will do, and takes the steps that the database does not have yet, all or none.
    pub(super) async fn migrate(&self) -> Result<()> {
        let mut client = self.connect(|| ()).await?;
        let migrated = async {
            self.check(&client).await?;
            migrate(&mut client, &self.name, self.patience).await
        };
        migrated.await.map_err(|problem| match problem {
            Problem::Database(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                let (name, patience) = (&self.name, self.patience);
                let why = "a step of the schema needs a lock that somebody else holds, see pg_locks";
                LedgerError::Unreachable(format!("{name}: {why}: gave up after {patience:?}"))
            }
            Problem::Database(error) => self.explain(&error),
            Problem::Unfit(why) => LedgerError::Failed(format!("{}: {why}", self.name)),
            Problem::Waited(why) => LedgerError::Unreachable(format!("{}: {why}", self.name)),
        })
    }

    async fn check(&self, client: &Client) -> std::result::Result<(), Problem> {
        let sql = "SELECT current_setting('server_version'), current_setting('server_encoding')";
        let row = client.query_one(sql, &[]).await?;
        let (version, encoding): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        let major = version.split(|c: char| !c.is_ascii_digit()).next().and_then(|major| major.parse::<u32>().ok());
        if major.is_none_or(|major| major < OLDEST_SERVER) {
            let why = format!("PostgreSQL {OLDEST_SERVER} or newer is needed, this is {version}");
            return Err(Problem::Unfit(why));
        }
        if encoding != "UTF8" {
            return Err(Problem::Unfit(format!("the database must be in UTF8, this one is in {encoding}")));
        }
        Ok(())
    }
}

/// What a connection is told first.
///
/// Each statement is planned once: all are look-ups by an index, and a plan made for the values at hand could only be
/// worse. Tables are small when they are new, and the planner must not learn to read all of them then. The server gives up
/// a little before the caller does, so that the caller learns why, and nothing goes on that nobody waits for.
fn settings(options: &PostgresOptions) -> String {
    let millis = options.timeout.as_millis().max(10);
    let commit = match options.durability {
        // Whoever asked the server for more (a standby's receipt) keeps it.
        Durability::Full => {
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        }
        Durability::Normal => "SET synchronous_commit = off",
    };
    format!(
        "SET statement_timeout = {}; SET lock_timeout = {}; SET idle_in_transaction_session_timeout = 60000; \
         SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED; \
         SET jit = off; SET plan_cache_mode = force_generic_plan; \
         SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; {commit}",
        millis * 4 / 5,
        millis / 2,
    )
}

/// Why a database cannot be used.
enum Problem {
    Database(tokio_postgres::Error),
    Unfit(String),
    /// Another node did not come to an end with it.
    Waited(String),
}

impl From<tokio_postgres::Error> for Problem {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

/// Of several nodes that start at once the first does the work; the others wait here, find it done, and do not wait for one
/// that hangs for ever.
async fn take_turn(transaction: &Transaction<'_>, name: &str, patience: Duration) -> std::result::Result<(), Problem> {
    let began = Instant::now();
    let mut told: Option<Instant> = None;
    loop {
        let sql = "SELECT pg_try_advisory_xact_lock($1)";
        if transaction.query_one(sql, &[&LOCK]).await?.try_get(0)? {
            return Ok(());
        }
        let waited = began.elapsed();
        if waited >= patience {
            return Err(Problem::Waited(format!(
                "another node is bringing the schema up to date and did not end within {patience:?}; if it hangs, end {}",
                holder(transaction).await?
            )));
        }
        if told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
            told = Some(Instant::now());
            tracing::info!(ledger = name, ?waited, "another node brings the schema up to date, waiting for it");
        }
        tokio::time::sleep(LOOK_EVERY.min(patience - waited)).await;
    }
}

/// Who is at it, as the server's operator knows them.
async fn holder(transaction: &Transaction<'_>) -> std::result::Result<String, Problem> {
    let sql = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted \
               AND (classid::bigint << 32) | objid::bigint = $1 \
               AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let rows = transaction.query(sql, &[&LOCK]).await?;
    let process = rows.first().map(|row| row.try_get::<_, i32>(0)).transpose()?;
    Ok(process.map_or_else(|| "it".to_owned(), |process| format!("the server's process {process}")))
}

async fn migrate(client: &mut Client, name: &str, patience: Duration) -> std::result::Result<(), Problem> {
    let transaction = client.transaction().await?;
    // A step may take longer than a call, and must not be lost in a crash that this node outlives.
    let settings = format!(
        "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = {}; SET LOCAL synchronous_commit = on",
        patience.as_millis().max(1)
    );
    transaction.batch_execute(&settings).await?;
    take_turn(&transaction, name, patience).await?;
    let there = "SELECT to_regclass('migrations') IS NOT NULL";
    if !transaction.query_one(there, &[]).await?.try_get::<_, bool>(0)? {
        let table = "CREATE TABLE migrations (version int PRIMARY KEY, needs int NOT NULL, applied_at bigint NOT NULL)";
        transaction.batch_execute(table).await?;
    }
    let known = STEPS.len();
    let sql = "SELECT coalesce(max(version), 0), coalesce(max(needs), 0) FROM migrations";
    let row = transaction.query_one(sql, &[]).await?;
    let (have, needs): (i32, i32) = (row.try_get(0)?, row.try_get(1)?);
    let (have, needs) = (usize::try_from(have).unwrap_or(0), usize::try_from(needs).unwrap_or(0));
    if needs > known {
        return Err(Problem::Unfit(format!(
            "its schema is version {have}, made for programs that know version {needs} or later; this one knows {known}"
        )));
    }
    if have > known {
        tracing::info!(ledger = name, schema = have, known, "the schema is newer than this program, which may use it");
        return Ok(transaction.commit().await?);
    }
    for (step, version) in STEPS.iter().zip(1_i32..).skip(have) {
        transaction.batch_execute(step.sql).await?;
        let sql = "INSERT INTO migrations VALUES ($1, $2, (extract(epoch FROM now()) * 1000)::bigint)";
        let needs = i32::try_from(step.needs).unwrap_or(i32::MAX);
        transaction.execute(sql, &[&version, &needs]).await?;
        tracing::info!(ledger = name, version, "took a step of the schema");
    }
    Ok(transaction.commit().await?)
}
