//! A real Redis for one test: on a free port, in its own directory, stopped when dropped.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A running `redis-server`.
pub struct RedisServer {
    port: u16,
    dir: TempDir,
    /// `appendonly`: "yes" or "no".
    appending: &'static str,
    child: Child,
}

impl RedisServer {
    /// Starts a server without persistence, except for explicit calls of [`save`](Self::save).
    pub fn start() -> Self {
        Self::start_as("no")
    }

    /// Starts a server with an append-only file, which it reloads after [`kill`](Self::kill). Each write is in the file
    /// before its reply: `appendfsync no` leaves only the flush to the system, where `everysec` also delays writes for
    /// up to 2 s while the disk is slow.
    pub fn start_appending() -> Self {
        Self::start_as("yes")
    }

    fn start_as(appending: &'static str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        // Another process may take the free port before Redis binds it. Then retry with another port.
        for _ in 0..20 {
            let port = crate::ports::free_port();
            let mut child = spawn(port, &dir, appending);
            if answers(port, &mut child) {
                return Self { port, dir, appending, child };
            }
        }
        panic!("redis-server does not start; is it installed?");
    }

    /// Deletes the files on disk, after [`kill`](Self::kill).
    pub fn forget(&self) {
        for entry in std::fs::read_dir(self.dir.path()).expect("its directory").flatten() {
            let path = entry.path();
            let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
            removed.expect("to remove its data");
        }
    }

    /// The port on which the server listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of the server by its socket.
    pub fn socket_url(&self) -> String {
        format!("unix://{}?db=1", self.dir.path().join("socket").display())
    }

    /// The URL of the server.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Sends an inline command (`CONFIG SET …`) and returns the first line of the reply.
    pub fn ask(&self, words: &str) -> String {
        ask(self.port, words, Duration::from_secs(5)).expect("an answer from redis")
    }

    /// Sends an inline command and returns the whole reply of several lines.
    pub fn ask_all(&self, words: &str) -> String {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).expect("redis");
        socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
        socket.write_all(format!("{words}\r\nQUIT\r\n").as_bytes()).expect("to ask");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("an answer from redis");
        answer
    }

    /// Returns a number from `INFO stats`.
    pub fn stat(&self, name: &str) -> u64 {
        let stats = self.ask_all("INFO stats");
        let line = stats.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.expect("a statistic").parse().expect("a number")
    }

    /// Returns the number of calls of a command, including calls from scripts, since `CONFIG RESETSTAT`.
    pub fn calls(&self, command: &str) -> u64 {
        let stats = self.ask_all("INFO commandstats");
        let found = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
        found.map_or(0, |rest| rest.split(',').next().unwrap_or_default().parse().expect("a number"))
    }

    /// Saves all data to disk, for the next restart.
    pub fn save(&self) {
        assert_eq!(self.ask("SAVE"), "+OK");
    }

    /// Kills the process with SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().expect("to kill redis");
        self.child.wait().expect("redis to end");
    }

    /// Starts it again on the same port, after [`kill`](Self::kill).
    pub fn start_again(&mut self) {
        self.child = spawn(self.port, &self.dir, self.appending);
        assert!(answers(self.port, &mut self.child), "redis starts again");
    }

    /// Suspends the process with SIGSTOP. Connections stay open and silent.
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    /// Resumes the process.
    pub fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, which: &str) {
        let sent = Command::new("kill").arg(which).arg(self.child.id().to_string()).status();
        assert!(sent.expect("to run kill").success());
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(port: u16, dir: &TempDir, appending: &str) -> Child {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
        .args(["--appendonly", appending, "--appendfsync", "no"])
        .arg("--dir")
        .arg(dir.path())
        .arg("--unixsocket")
        .arg(dir.path().join("socket"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server is installed")
}

fn answers(port: u16, child: &mut Child) -> bool {
    let until = Instant::now() + Duration::from_secs(10);
    while Instant::now() < until && child.try_wait().expect("the state of redis").is_none() {
        if ask(port, "PING", Duration::from_secs(1)).is_some_and(|line| line == "+PONG") {
            // Another server may have taken the port first.
            return is_of(port, child.id());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let _ = child.wait();
    false
}

/// Whether the server at this port is the process `pid`.
fn is_of(port: u16, pid: u32) -> bool {
    let mut said = Vec::new();
    let asked = TcpStream::connect(("127.0.0.1", port)).and_then(|mut socket| {
        socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        socket.write_all(b"INFO server\r\nQUIT\r\n")?;
        socket.read_to_end(&mut said)
    });
    asked.is_ok() && String::from_utf8_lossy(&said).contains(&format!("process_id:{pid}\r\n"))
}

fn ask(port: u16, words: &str, timeout: Duration) -> Option<String> {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).ok()?;
    socket.set_read_timeout(Some(timeout)).ok()?;
    socket.write_all(format!("{words}\r\n").as_bytes()).ok()?;
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\r\n") {
        socket.read_exact(&mut byte).ok()?;
        line.push(byte[0]);
    }
    Some(String::from_utf8_lossy(&line).trim_end().to_owned())
}
