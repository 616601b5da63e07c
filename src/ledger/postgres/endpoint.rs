//! Connections to the database and their settings.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use tokio_postgres::Client;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::errors::{classify, text};
use super::tls;
use super::url::{PostgresUrl, Tls};
use crate::ledger::{Durability, LedgerError, Result};
use crate::refusal::Refusal;

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
}

impl PostgresOptions {
    /// The defaults: full durability, 5 seconds for a call, 8 connections, 10 minutes for the schema, no
    /// outlet.
    pub fn new(url: PostgresUrl) -> Self {
        let timeout = Duration::from_secs(5);
        let patience = Duration::from_secs(600);
        Self { url, durability: Durability::default(), timeout, connections: 8, patience, outlet: false }
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
    /// The statements that set up a connection.
    settings: String,
}

impl Endpoint {
    pub(super) fn new(options: &PostgresOptions) -> Result<Self> {
        let mut config = options.url.config();
        // Each host gets an equal share of the time for one attempt.
        let hosts = u32::try_from(config.get_hosts().len().max(1)).unwrap_or(u32::MAX);
        config.connect_timeout(options.timeout / hosts);
        config.keepalives_idle(Duration::from_secs(30));
        config.tcp_user_timeout(options.timeout.max(Duration::from_secs(5)) * 2);
        let connector = tls::connector(options.url.tls()).map_err(LedgerError::Failed)?;
        let encrypted = if *options.url.tls() == Tls::Off { "" } else { " over TLS" };
        let name = format!("postgres at {}{encrypted}", options.url.place());
        let timeout = options.timeout;
        let patience = options.patience;
        Ok(Self { name, timeout, patience, config, connector, settings: settings(options) })
    }

    /// Opens a connection and applies the settings. Calls `on_end` when the connection ends.
    pub(super) async fn connect(&self, on_end: impl FnOnce() + Send + 'static) -> Result<Client> {
        let connecting = async {
            let (client, connection) = self.config.connect(self.connector.clone()).await?;
            tokio::spawn(async move {
                // The end is reported also after a panic, which was logged: the pool connects again.
                if let Ok(Err(error)) = AssertUnwindSafe(connection).catch_unwind().await {
                    tracing::debug!(error = text(&error), "a connection to the ledger broke");
                }
                on_end();
            });
            client.batch_execute(&self.settings).await?;
            Ok(client)
        };
        match tokio::time::timeout(self.timeout, connecting).await {
            Ok(Ok(client)) => Ok(client),
            Ok(Err(error)) => Err(match self.explain(&error) {
                // What prevents a connection concerns all calls alike, for example a database that accepts none.
                LedgerError::Failed(why) => LedgerError::Unreachable(why),
                error => error,
            }),
            Err(_) => Err(LedgerError::Unreachable(format!("{} does not answer within {:?}", self.name, self.timeout))),
        }
    }

    /// The start time of the server behind a connection, as text. It differs between servers, and after a restart.
    /// Empty if the server denies access to it.
    pub(super) async fn server_start(&self, client: &Client) -> Result<String> {
        let asking = client.query_one("SELECT extract(epoch FROM pg_postmaster_start_time())::text", &[]);
        match tokio::time::timeout(self.timeout, asking).await {
            Ok(Ok(row)) => Ok(row.try_get(0).unwrap_or_default()),
            Ok(Err(error)) => match self.explain(&error) {
                LedgerError::Failed(why) | LedgerError::Refused(Refusal::NoPermission, why) => {
                    tracing::debug!(why, "the server does not report its start time");
                    Ok(String::new())
                }
                error => Err(error),
            },
            Err(_) => Err(LedgerError::Unreachable(format!("{} does not answer within {:?}", self.name, self.timeout))),
        }
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

/// The statements that set up a connection.
///
/// Each statement is planned once, with a generic plan: all statements are index look-ups, so a plan for specific
/// values could only be worse. New tables are small, so scans of whole tables are disabled; otherwise the planner would
/// choose them, and keep them as the tables grow. The server's time limits are shorter than the caller's: the caller
/// gets the reason, and abandoned statements end.
fn settings(options: &PostgresOptions) -> String {
    let millis = options.timeout.as_millis().max(10);
    let commit = match options.durability {
        // A stronger setting of the server (`remote_apply`) stays in force.
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
