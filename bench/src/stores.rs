//! The stores of the measured server, and the server itself. All listen on loopback; the stores are stopped and removed
//! when they are dropped.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, Result};
use feedline_test_support::postgres_server::PostgresServer;
use feedline_test_support::redis_server::RedisServer;
use hyper::Method;
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;

use super::context::BenchContext;
use super::http_load::HttpClient;
use super::options::{BrokerKind, LedgerKind};
use super::process::{ServerProcess, free_address};
use super::seed;

/// Settings of PostgreSQL. Durability settings have their defaults: a commit is flushed to disk before it is
/// acknowledged.
const POSTGRES: [&str; 6] = ["-c", "fsync=on", "-c", "shared_buffers=512MB", "-c", "max_wal_size=4GB"];
/// The rates of a user, which are off: one publisher represents many users.
const RATES: [&str; 6] = ["POSTS", "LIKES", "READS", "SUBSCRIPTIONS", "TOPICS", "PUBLICATIONS"];

/// The stores of a server. They exist before it starts, so that they can be filled.
pub(super) struct Stores {
    /// The key of its tokens.
    pub secret: String,
    /// `broker.url`.
    pub broker: String,
    /// `ledger.url`.
    pub ledger: String,
    /// Further settings of the server.
    pub settings: Vec<(&'static str, String)>,
    /// The folder of its data.
    folder: TempDir,
    /// The PostgreSQL of the ledger.
    postgres: Option<PostgresServer>,
    /// The Redis of the broker, if the bench started it.
    _redis: Option<RedisServer>,
}

impl Stores {
    /// Starts the stores, on the clients' core. The default of the broker is Redis with `--redis` only.
    pub(super) async fn start(bench: &BenchContext, broker: Option<BrokerKind>) -> Result<Self> {
        bench.say("starting the stores");
        let on_redis = broker.map_or(bench.options.redis.is_some(), |broker| broker == BrokerKind::Redis);
        let folder = tempfile::tempdir()?;
        let postgres = (bench.options.ledger == LedgerKind::Postgres).then(|| PostgresServer::start_with(&POSTGRES));
        let redis = (on_redis && bench.options.redis.is_none()).then(RedisServer::start);
        let broker = match (&bench.options.redis, &redis) {
            (Some(url), _) if on_redis => url.clone(),
            (_, Some(redis)) => redis.url(),
            _ => "memory:".to_owned(),
        };
        let sqlite = || format!("{}{}", seed::SQLITE, folder.path().join("feedline.db").display());
        let stores = Self {
            secret: seed::secret(),
            broker,
            ledger: postgres.as_ref().map_or_else(sqlite, |postgres| postgres.url("postgres")),
            settings: Vec::new(),
            folder,
            postgres,
            _redis: redis,
        };
        stores.forget_keys(bench).await?;
        Ok(stores)
    }

    /// The same with keys of its own in a Redis that both share.
    pub(super) async fn start_apart(bench: &BenchContext, broker: Option<BrokerKind>) -> Result<Self> {
        let mut stores = Self::start(bench, broker).await?;
        stores.settings.push(("FEEDLINE__BROKER__PREFIX", format!("{}-other", bench.prefix())));
        Ok(stores)
    }

    /// Removes the keys of the bench from Redis.
    pub(super) async fn forget_keys(&self, bench: &BenchContext) -> Result<()> {
        if self.is_on_redis() { seed::remove_keys(&self.broker, &bench.prefix()).await } else { Ok(()) }
    }

    /// Whether a Redis is the broker.
    pub(super) fn is_on_redis(&self) -> bool {
        self.broker.starts_with("redis")
    }

    /// Whether the ledger is on PostgreSQL.
    pub(super) fn is_on_postgres(&self) -> bool {
        self.postgres.is_some()
    }

    /// The stores, as a note of the report.
    pub(super) fn note(&self) -> String {
        let ledger = if self.is_on_postgres() { "PostgreSQL" } else { "SQLite" };
        let broker = if self.is_on_redis() { "Redis" } else { "memory" };
        format!("ledger: {ledger}; broker: {broker}")
    }

    /// Starts the measured Feedline, by default the one beside this program.
    pub(super) async fn start_feedline(&self, bench: &BenchContext) -> Result<ServerProcess> {
        let beside = std::env::current_exe()?.with_file_name("feedline");
        self.start_build(bench, bench.options.executable.as_ref().unwrap_or(&beside)).await
    }

    /// Starts the Feedline of this executable.
    pub(super) async fn start_build(&self, bench: &BenchContext, path: &Path) -> Result<ServerProcess> {
        let addr = free_address()?;
        let path = path.canonicalize().with_context(|| {
            format!("cannot find the server {}: build it, or name one with --executable", path.display())
        })?;
        let mut command = Command::new(path);
        command.arg("serve").current_dir(self.folder.path());
        for (key, _) in std::env::vars().filter(|(key, _)| key.starts_with("FEEDLINE__")) {
            command.env_remove(key);
        }
        command.envs(self.environment(bench, addr));
        command.envs(RATES.map(|rate| (format!("FEEDLINE__RATES__{rate}"), "0")));
        let ready = async || HttpClient::open(addr).call(Method::GET, "/ready", "").await.is_ok();
        ServerProcess::start(command, addr, bench.options.pin, ready).await
    }

    fn environment(&self, bench: &BenchContext, listen: SocketAddr) -> Vec<(&'static str, String)> {
        let mut environment = vec![
            ("FEEDLINE__SERVER__LISTEN", listen.to_string()),
            ("FEEDLINE__SERVER__DATA_DIR", self.folder.path().display().to_string()),
            ("FEEDLINE__SERVER__LOG_LEVEL", "warn".to_owned()),
            ("FEEDLINE__AUTH__HMAC_SECRET", self.secret.clone()),
            ("FEEDLINE__AUTH__API_KEYS", seed::api_key(&self.secret)),
            ("FEEDLINE__BROKER__URL", self.broker.clone()),
            ("FEEDLINE__BROKER__PREFIX", bench.prefix()),
            ("FEEDLINE__LEDGER__URL", self.ledger.clone()),
            ("FEEDLINE__NAMESPACES", json!([{ "name": "bench", "publish": "anyone" }]).to_string()),
            ("FEEDLINE__CLIENT__COMMANDS_PER_SECOND", "0".to_owned()),
            // Sockets are not read while Redis is measured alone, and would miss their pings.
            ("FEEDLINE__CLIENT__PING_INTERVAL", "10m".to_owned()),
        ];
        environment.extend(self.settings.iter().cloned());
        environment
    }
}
