//! The servers that are measured: Feedline, the floor, Redis. All listen on loopback and are stopped at the end.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use feedline::model::Retention;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::timeout;

use super::ledger::SQLITE;
use super::postgres::PostgresData;
use super::process::{ServerProcess, TempFolder, free_address};
use super::seed;

/// A namespace with history, and what it keeps.
pub(super) const HISTORY_NAMESPACE: &str = "kept";
pub(super) const HISTORY: Retention = Retention { size: 100, ttl: Duration::from_secs(300) };

/// `namespaces`: one without history in which clients publish, and one with.
fn namespaces() -> String {
    let Retention { size, ttl } = HISTORY;
    json!([
        { "name": "bench", "publish": "anyone" },
        { "name": HISTORY_NAMESPACE, "history_size": size, "history_ttl": format!("{}s", ttl.as_secs()) },
    ])
    .to_string()
}

/// The setup of a Feedline server. Its folder exists before the server starts, so that the ledger can be filled.
#[derive(Debug)]
pub(super) struct ServerSetup {
    /// The folder of its data.
    pub folder: TempFolder,
    /// The key of its tokens.
    pub secret: String,
    /// `broker.url`.
    pub broker: String,
    /// The prefix of Redis keys.
    pub prefix: String,
    /// `fanout.push_limit`; `None`: the default.
    pub push_limit: Option<usize>,
    /// Whether notifications are pushed, to a provider that sends nothing.
    pub push: bool,
    /// `ledger.url`.
    pub ledger: String,
    /// The PostgreSQL server of the ledger with its data, if one was started.
    pub postgres: Option<(ServerProcess, PostgresData)>,
}

impl ServerSetup {
    /// The embedded stores, with this key for tokens.
    pub(super) fn new(secret: &str) -> Result<Self> {
        let prefix = format!("feedline-bench-{}", std::process::id());
        let folder = TempFolder::new()?;
        Ok(Self {
            ledger: format!("{SQLITE}{}", folder.path().join("feedline.db").display()),
            postgres: None,
            folder,
            secret: secret.to_owned(),
            broker: "memory:".to_owned(),
            prefix,
            push_limit: None,
            push: false,
        })
    }

    /// The CPU time so far of the PostgreSQL server of the ledger; `None`: another ledger.
    pub(super) fn postgres_cpu(&self) -> Result<Option<Duration>> {
        self.postgres.as_ref().map(|(postgres, _)| postgres.process.family_cpu()).transpose()
    }

    /// Whether a Redis is the broker.
    pub(super) fn is_on_redis(&self) -> bool {
        self.broker.starts_with("redis")
    }

    /// The stores, as a note of the report.
    pub(super) fn note(&self) -> String {
        let ledger = if self.postgres.is_some() { "PostgreSQL" } else { "SQLite" };
        let broker = if self.is_on_redis() { "Redis" } else { "memory" };
        format!("ledger: {ledger}; broker: {broker}")
    }

    fn environment(&self, listen: SocketAddr) -> Vec<(&'static str, String)> {
        let mut environment = vec![
            ("FEEDLINE__SERVER__LISTEN", listen.to_string()),
            ("FEEDLINE__SERVER__DATA_DIR", self.folder.path().display().to_string()),
            ("FEEDLINE__SERVER__LOG_LEVEL", "warn".to_owned()),
            ("FEEDLINE__AUTH__HMAC_SECRET", self.secret.clone()),
            ("FEEDLINE__AUTH__API_KEYS", seed::api_key(&self.secret)),
            ("FEEDLINE__BROKER__URL", self.broker.clone()),
            ("FEEDLINE__BROKER__PREFIX", self.prefix.clone()),
            ("FEEDLINE__LEDGER__URL", self.ledger.clone()),
            ("FEEDLINE__NAMESPACES", namespaces()),
            // One publisher represents many users.
            ("FEEDLINE__CLIENT__COMMANDS_PER_SECOND", "0".to_owned()),
            ("FEEDLINE__RATES__POSTS", "0".to_owned()),
            ("FEEDLINE__RATES__LIKES", "0".to_owned()),
            ("FEEDLINE__RATES__READS", "0".to_owned()),
            ("FEEDLINE__RATES__SUBSCRIPTIONS", "0".to_owned()),
            ("FEEDLINE__RATES__TOPICS", "0".to_owned()),
            ("FEEDLINE__RATES__PUBLICATIONS", "0".to_owned()),
            // Sockets are not read while Redis is measured alone, and would miss their pings.
            ("FEEDLINE__CLIENT__PING_INTERVAL", "10m".to_owned()),
        ];
        if self.push {
            environment.extend([
                ("FEEDLINE__PUSH__ENABLED", "true".to_owned()),
                ("FEEDLINE__PUSH__DRY_RUN", "true".to_owned()),
                ("FEEDLINE__PUSH__CONCURRENCY", "1000".to_owned()),
            ]);
        }
        environment.extend(self.push_limit.map(|limit| ("FEEDLINE__FANOUT__PUSH_LIMIT", limit.to_string())));
        environment
    }
}

/// Starts an executable of Feedline, by default the one beside this program, and waits until it is ready.
pub(super) async fn start_feedline(
    setup: &ServerSetup,
    executable: Option<&Path>,
    core: Option<usize>,
) -> Result<ServerProcess> {
    let addr = free_address()?;
    let beside;
    let path = if let Some(path) = executable {
        path
    } else {
        beside = std::env::current_exe()?.with_file_name("feedline");
        &beside
    };
    let path = path.canonicalize().with_context(|| {
        format!("cannot find the server {}: build it, or name one with --executable", path.display())
    })?;
    let mut command = Command::new(path);
    command.arg("serve").current_dir(setup.folder.path());
    for (key, _) in std::env::vars().filter(|(key, _)| key.starts_with("FEEDLINE__")) {
        command.env_remove(key);
    }
    command.envs(setup.environment(addr));
    let ready = async || get_status(addr, "/ready").await.is_ok_and(|status| status == 200);
    ServerProcess::start_in(&setup.folder, "feedline", command, core, addr, ready).await
}

/// Starts this executable as the floor.
pub(super) async fn start_floor(core: Option<usize>) -> Result<ServerProcess> {
    let addr = free_address()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["floor", "--listen", &addr.to_string()]);
    ServerProcess::start("floor", command, core, addr, async || TcpStream::connect(addr).await.is_ok()).await
}

/// Starts a Redis without persistence.
pub(super) async fn start_redis(core: Option<usize>) -> Result<ServerProcess> {
    let addr = free_address()?;
    let folder = TempFolder::new()?;
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port", &addr.port().to_string()]);
    command.arg("--dir").arg(folder.path());
    let ready = async || TcpStream::connect(addr).await.is_ok();
    let server = ServerProcess::start_in(&folder, "redis-server", command, core, addr, ready)
        .await
        .context("this scenario needs a Redis: install redis-server, or name one with --redis")?;
    Ok(server.with_folder(folder))
}

/// The status code of a plain HTTP request.
async fn get_status(addr: SocketAddr, path: &str) -> Result<u16> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\r\n");
    let asking = async {
        let mut stream = TcpStream::connect(addr).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await?;
        let status = std::str::from_utf8(&answer)?.strip_prefix("HTTP/1.1 ").context("not HTTP")?;
        Ok(status.parse()?)
    };
    timeout(Duration::from_secs(2), asking).await?
}
