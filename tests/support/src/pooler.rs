//! A real PgBouncer in front of a PostgreSQL of the tests.

use std::io::Write as _;
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use tokio_postgres::NoTls;

use crate::postgres_server::{PostgresServer, as_anonymous};

/// The number of connections of the server that the pooler shares among its clients.
const POOL_SIZE: usize = 3;

/// A running PgBouncer.
pub struct Pooler {
    port: u16,
    process: Child,
    _settings: tempfile::NamedTempFile,
}

impl Pooler {
    /// Starts one in front of a server; `mode` is `transaction` or `session`.
    pub async fn start(server: &PostgresServer, mode: &str) -> Self {
        // Another process may take the free port before PgBouncer binds it.
        for _ in 0..10 {
            if let Some(pooler) = Self::try_start(server, mode).await {
                return pooler;
            }
        }
        panic!("PgBouncer does not start");
    }

    async fn try_start(server: &PostgresServer, mode: &str) -> Option<Self> {
        let port = crate::ports::free_port();
        let pool = if mode == "session" { 100 } else { POOL_SIZE };
        let mut settings = tempfile::Builder::new().suffix(".ini").tempfile().expect("a file");
        write!(
            settings,
            "[databases]\n* = host=127.0.0.1 port={} user=feedline\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = {mode}\n\
             default_pool_size = {pool}\nmax_client_conn = 200\n",
            server.port()
        )
        .expect("to write the settings");
        // Another user reads it.
        let path = settings.path().to_owned();
        let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        std::fs::set_permissions(&path, readable).expect("to make it readable");
        let mut process = as_anonymous("pgbouncer")
            .env("PATH", path_with_servers())
            .arg("--quiet")
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("PgBouncer is installed: scripts/install-deps installs it");
        let until = Instant::now() + Duration::from_secs(20);
        while process.try_wait().expect("its state").is_none() && Instant::now() < until {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some(Self { port, process, _settings: settings });
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let _ = process.kill();
        let _ = process.wait();
        None
    }

    /// The URL of a database, by the pooler.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://feedline@127.0.0.1:{}/{database}", self.port)
    }

    /// Opens a connection of another application.
    pub async fn client(&self, database: &str) -> tokio_postgres::Client {
        let (client, connection) = tokio_postgres::connect(&self.url(database), NoTls).await.expect("to connect");
        tokio::spawn(connection);
        client
    }

    /// The first column of what a query answers, in text, on each connection of the server that the pooler shares.
    pub async fn ask_each(&self, sql: &str, database: &str) -> Vec<String> {
        let mut clients = Vec::new();
        let mut answers = Vec::new();
        for _ in 0..POOL_SIZE {
            let client = self.client(database).await;
            // Holds a connection of the server for this client.
            client.batch_execute("BEGIN").await.expect("a transaction");
            let rows = client.query_typed(sql, &[]).await.expect(sql);
            answers.extend(rows.iter().map(|row| row.get(0)));
            clients.push(client);
        }
        answers
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The search path with the folder of Debian's servers, which not every user has.
fn path_with_servers() -> String {
    format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default())
}
