//! A real Prometheus that collects the metrics of servers, with the alerts of `ops/alerts.yml`.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::ports::free_port;
use crate::server::{PATIENCE, Server};

/// A running Prometheus. It collects and evaluates every second.
pub struct Prometheus {
    port: u16,
    process: Child,
    folder: TempDir,
}

impl Prometheus {
    /// Starts one that collects from servers on these ports, as the job `feedline`.
    pub async fn start(servers: &[u16]) -> Self {
        // Another process may take the free port before Prometheus binds it.
        for _ in 0..5 {
            if let Some(started) = Self::try_start(servers).await {
                return started;
            }
        }
        panic!("prometheus does not start");
    }

    async fn try_start(servers: &[u16]) -> Option<Self> {
        let port = free_port();
        let folder = tempfile::tempdir().expect("a folder");
        let alerts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ops/alerts.yml");
        let targets: Vec<String> = servers.iter().map(|server| format!("\"127.0.0.1:{server}\"")).collect();
        let configuration = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [\"{}\"]\nscrape_configs:\n\
             - job_name: feedline\n  static_configs: [{{ targets: [{}] }}]\n",
            alerts.display(),
            targets.join(", ")
        );
        let file = folder.path().join("prometheus.yml");
        fs::write(&file, configuration).expect("to write the configuration");
        let log = fs::File::create(folder.path().join("log")).expect("a log");
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("prometheus is installed: scripts/install-deps installs it");
        let mut started = Self { port, process, folder };
        let until = Instant::now() + PATIENCE;
        while started.process.try_wait().expect("its state").is_none() && Instant::now() < until {
            let ready = Server::request_at(port, "GET", "/-/ready", &[], "").await;
            if ready.is_some_and(|answer| answer.status.is_success()) {
                return Some(started);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        None
    }

    /// The `data` of an answer of its API.
    ///
    /// # Panics
    /// If it refuses the request: an expression may be wrong.
    pub async fn get(&self, path: &str) -> Value {
        let answer = Server::request_at(self.port, "GET", &format!("/api/v1/{path}"), &[], "").await;
        let mut answer = answer.unwrap_or_else(|| panic!("{path} is not answered:\n{}", self.log()));
        assert_eq!(answer.body["status"], "success", "{path}: {}", answer.body);
        answer.body["data"].take()
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
