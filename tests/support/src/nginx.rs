//! A real nginx in front of servers of the tests, with the configuration that `ops/nginx.conf` has for `compose.yml`.

use std::fmt::Write as _;
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A running nginx.
pub struct Nginx {
    port: u16,
    process: Child,
    folder: TempDir,
}

impl Nginx {
    /// Starts one in front of servers on these ports.
    pub async fn start(ports: &[u16]) -> Self {
        // Another process may take the free port before nginx binds it.
        for _ in 0..10 {
            if let Some(nginx) = Self::try_start(ports).await {
                return nginx;
            }
        }
        panic!("nginx does not start");
    }

    async fn try_start(ports: &[u16]) -> Option<Self> {
        let port = crate::ports::free_port();
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("nginx.conf");
        fs::write(&file, configuration(folder.path(), port, ports)).expect("to write the configuration");
        let mut process = Command::new("nginx")
            .env("PATH", format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default()))
            .arg("-p")
            .arg(folder.path())
            .arg("-e")
            .arg(folder.path().join("error.log"))
            .arg("-c")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nginx is installed: scripts/install-deps installs it");
        let until = Instant::now() + Duration::from_secs(20);
        while process.try_wait().expect("its state").is_none() && Instant::now() < until {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some(Self { port, process, folder });
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let _ = process.kill();
        let _ = process.wait();
        None
    }

    /// The port on which clients reach the servers.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What it has logged about failures of the servers.
    pub fn errors(&self) -> String {
        fs::read_to_string(self.folder.path().join("error.log")).unwrap_or_default()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Its workers end with it when it gets SIGTERM, but not when it is killed.
        let _ = Command::new("kill").arg(self.process.id().to_string()).status();
        let _ = self.process.wait();
    }
}

/// The file of `ops/`, with the servers and the port of the test.
fn configuration(folder: &Path, port: u16, servers: &[u16]) -> String {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ops/nginx.conf");
    let shipped = fs::read_to_string(shipped).expect("ops/nginx.conf");
    let mut site = String::new();
    for line in shipped.lines() {
        match line.trim().strip_prefix("server feedline-1:8000") {
            Some(options) => {
                for server in servers {
                    let _ = writeln!(site, "server 127.0.0.1:{server}{options}");
                }
            }
            None if line.contains("feedline-") && line.trim().starts_with("server") => {}
            None => site += &format!("{}\n", line.replace("listen 80;", &format!("listen 127.0.0.1:{port};"))),
        }
    }
    let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {}/{name};\n", folder.display()))
        .concat();
    format!(
        "daemon off;\nworker_processes 1;\npid {0}/nginx.pid;\nevents {{ worker_connections 4096; }}\n\
         http {{\naccess_log off;\n{paths}{site}}}\n",
        folder.display()
    )
}
