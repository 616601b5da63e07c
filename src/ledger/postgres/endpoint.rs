//! Connections to the database and their settings.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use tokio_postgres::Client;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::errors::{classify, text};
use super::tls;
use super::url::{PostgresUrl, Tls};
use crate::ledger::{Durability, LedgerError, Result, SchemaMode};
use crate::store_refusal::Refusal;

/// The options of the PostgreSQL ledger.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// The address of the database, with user and password: `ledger.url`.
    pub url: PostgresUrl,
    /// The failures that a committed write survives.
    pub durability: Durability,
    /// The time limit of a call; half of it is the limit for a lock.
    pub timeout: Duration,
    /// The number of connections in the pool, at least 1.
    pub connections: usize,
    /// How long startup waits for another node's migrations, and for each lock that a migration takes.
    pub patience: Duration,
    /// Whether writes put their events into the queue for the outlet.
    pub outlet: bool,
    /// Whether statements are prepared once a connection; `false` behind a pooler in transaction mode.
    pub prepared_statements: bool,
    /// What is done about a schema of another version.
    pub schema: SchemaMode,
}

impl PostgresOptions {
    /// The defaults: full durability, 5 seconds for a call, 8 connections, 10 minutes for the schema, no
    /// outlet, prepared statements.
    pub fn new(url: PostgresUrl) -> Self {
        Self {
            url,
            durability: Durability::default(),
            timeout: Duration::from_secs(5),
            connections: 8,
            patience: Duration::from_secs(600),
            outlet: false,
            prepared_statements: true,
            schema: SchemaMode::Migrate,
        }
    }
}

/// The address of the server and the settings of connections to it.
pub(super) struct Endpoint {
    pub(super) name: String,
    /// The time limit of one attempt to connect, and of one call.
    pub(super) timeout: Duration,
    /// How long startup waits for another node's migrations, and for each lock that a migration takes.
    pub(super) patience: Duration,
    config: tokio_postgres::Config,
    connector: MakeRustlsConnect,
    durability: Durability,
    /// Where the settings of statements apply, as asked for or as found.
    scope: SettingsScope,
}

/// Where the settings of statements apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SettingsScope {
    /// In a connection, which keeps them and its prepared statements.
    Connection,
    /// In each transaction, whose statement is not prepared: a pooler gives the next one another connection.
    Transaction,
}

impl Endpoint {
    pub(super) fn new(options: &PostgresOptions) -> Result<Self> {
        let mut config = options.url.config();
        // Each host gets an equal share of the time for one attempt.
        let hosts = u32::try_from(config.get_hosts().len().max(1)).unwrap_or(u32::MAX);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(options.timeout / hosts);
        }
        config.keepalives_idle(Duration::from_secs(30));
        config.tcp_user_timeout(options.timeout.max(Duration::from_secs(5)) * 2);
        let connector = tls::connector(options.url.tls()).map_err(LedgerError::Failed)?;
        let encrypted = if *options.url.tls() == Tls::Off { "" } else { " over TLS" };
        let name = format!("postgres at {}{encrypted}", options.url.place());
        let scope = if options.prepared_statements { SettingsScope::Connection } else { SettingsScope::Transaction };
        let PostgresOptions { timeout, patience, durability, .. } = *options;
        Ok(Self { name, timeout, patience, config, connector, durability, scope })
    }

    pub(super) fn scope(&self) -> SettingsScope {
        self.scope
    }

    /// Uses settings of transactions from now on if the connections lead to a pooler that shares those of the server
    /// among its clients.
    pub(super) async fn adapt_to_pooler(&mut self) -> Result<()> {
        if self.scope == SettingsScope::Connection && self.is_pooled().await? {
            self.scope = SettingsScope::Transaction;
            tracing::warn!(
                ledger = self.name,
                "a pooler shares connections between transactions: statements are not prepared; \
                 say so with ledger.prepared_statements = false"
            );
        }
        Ok(())
    }

    /// Whether a pooler in transaction mode is in between: two connections get the same process of the server, or one
    /// gets another process while the first one is busy.
    async fn is_pooled(&self) -> Result<bool> {
        let idle = self.connect_with("", || ()).await?;
        let busy = self.connect_with("", || ()).await?;
        let asking = async {
            // Other clients of the pooler may take and return connections in between.
            for _ in 0..5 {
                let first = process(&idle).await?;
                busy.batch_execute("BEGIN").await?;
                let is_shared = process(&busy).await? == first || process(&idle).await? != first;
                busy.batch_execute("ROLLBACK").await?;
                if is_shared {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        self.in_time(asking).await
    }

    /// Opens a connection, with its settings if it keeps them. Calls `on_end` when the connection ends.
    pub(super) async fn connect(&self, on_end: impl FnOnce() + Send + 'static) -> Result<Client> {
        match self.scope {
            SettingsScope::Connection => self.connect_with(&self.settings(), on_end).await,
            SettingsScope::Transaction => self.connect_with("", on_end).await,
        }
    }

    /// Opens a connection with the settings of the server.
    pub(super) async fn connect_plain(&self) -> Result<Client> {
        self.connect_with("", || ()).await
    }

    /// The statements before the statement of a transaction that has its own settings.
    pub(super) fn begin(&self) -> String {
        format!("BEGIN; {}", self.settings())
    }

    async fn connect_with(&self, settings: &str, on_end: impl FnOnce() + Send + 'static) -> Result<Client> {
        let connecting = async {
            let (client, connection) = self.config.connect(self.connector.clone()).await?;
            tokio::spawn(async move {
                // The end is reported also after a panic, which was logged: the pool connects again.
                if let Ok(Err(error)) = AssertUnwindSafe(connection).catch_unwind().await {
                    tracing::debug!(error = text(&error), "a connection to the ledger broke");
                }
                on_end();
            });
            if !settings.is_empty() {
                client.batch_execute(settings).await?;
            }
            Ok(client)
        };
        self.in_time(connecting).await.map_err(|error| match error {
            // What prevents a connection concerns all calls alike, for example a database that accepts none.
            LedgerError::Failed(why) => LedgerError::Unreachable(why),
            error => error,
        })
    }

    /// The result of something that the server is to do within the time limit.
    async fn in_time<T>(&self, work: impl Future<Output = std::result::Result<T, tokio_postgres::Error>>) -> Result<T> {
        match tokio::time::timeout(self.timeout, work).await {
            Ok(done) => done.map_err(|error| self.explain(&error)),
            Err(_) => Err(LedgerError::Unreachable(format!("{} does not answer within {:?}", self.name, self.timeout))),
        }
    }

    /// The start time of the server behind a connection, as text. It differs between servers, and after a restart.
    /// Empty if the server denies access to it.
    pub(super) async fn server_start(&self, client: &Client) -> Result<String> {
        let sql = "SELECT extract(epoch FROM pg_postmaster_start_time())::text";
        match self.in_time(client.query_typed_one(sql, &[])).await {
            Ok(row) => Ok(row.try_get(0).unwrap_or_default()),
            Err(LedgerError::Failed(why) | LedgerError::Refused(Refusal::NoPermission, why)) => {
                tracing::debug!(why, "the server does not report its start time");
                Ok(String::new())
            }
            Err(error) => Err(error),
        }
    }

    /// The settings of statements, for a connection or for a transaction.
    ///
    /// Each statement is planned once, with a generic plan: all statements are index look-ups, so a plan for specific
    /// values could only be worse. New tables are small, so scans of whole tables are disabled; otherwise the planner
    /// would choose them, and keep them as the tables grow. The server's time limits are shorter than the caller's: the
    /// caller gets the reason, and abandoned statements end.
    fn settings(&self) -> String {
        let (set, isolation) = match self.scope {
            SettingsScope::Connection => ("SET", "SESSION CHARACTERISTICS AS TRANSACTION"),
            SettingsScope::Transaction => ("SET LOCAL", "TRANSACTION"),
        };
        let is_local = self.scope == SettingsScope::Transaction;
        let millis = self.timeout.as_millis().max(10);
        let commit = match self.durability {
            // A stronger setting of the server (`remote_apply`) stays in force.
            Durability::Full => format!(
                "SELECT set_config('synchronous_commit', 'on', {is_local}) \
                 WHERE current_setting('synchronous_commit') = 'off'"
            ),
            Durability::Normal => format!("{set} synchronous_commit = off"),
        };
        let settings = [
            ("statement_timeout", (millis * 4 / 5).to_string()),
            ("lock_timeout", (millis / 2).to_string()),
            ("idle_in_transaction_session_timeout", "60000".to_owned()),
            ("jit", "off".to_owned()),
            ("plan_cache_mode", "force_generic_plan".to_owned()),
            ("enable_seqscan", "off".to_owned()),
            ("enable_hashjoin", "off".to_owned()),
            ("enable_mergejoin", "off".to_owned()),
        ];
        let each: Vec<String> = settings.iter().map(|(name, value)| format!("{set} {name} = {value}; ")).collect();
        format!("SET {isolation} ISOLATION LEVEL READ COMMITTED; {}{commit}", each.concat())
    }

    /// Adds the server's name to an error.
    pub(super) fn explain(&self, error: &tokio_postgres::Error) -> LedgerError {
        match classify(error).error {
            LedgerError::Failed(why) => LedgerError::Failed(format!("{}: {why}", self.name)),
            LedgerError::Unreachable(why) => LedgerError::Unreachable(format!("{}: {why}", self.name)),
            LedgerError::Refused(refusal, why) => LedgerError::Refused(refusal, format!("{}: {why}", self.name)),
            LedgerError::Busy => LedgerError::Busy,
        }
    }
}

/// The process of the server that serves a connection now.
async fn process(client: &Client) -> std::result::Result<i32, tokio_postgres::Error> {
    client.query_typed_one("SELECT pg_backend_pid()", &[]).await?.try_get(0)
}
