//! A real Feedline for one test: the built binary, on a free port, with data of its own, stopped when dropped.

use std::fs::{self, File, OpenOptions};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{HeaderMap, Method, Request, StatusCode};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::rt::TokioExecutor;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long anything may take that a test waits for.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// What tokens are signed with, unless a test configures something else.
pub const SECRET: &str = "a secret that is long enough for HS256 tokens";

/// What backends send.
pub const API_KEY: &str = "the key of the backend in these tests";

/// The limits that are off unless a test sets them.
const RATES: [&str; 10] = [
    "rates.posts",
    "rates.comments",
    "rates.likes",
    "rates.follows",
    "rates.writes",
    "rates.mentions",
    "rates.reads",
    "rates.publications",
    "rates.accounts",
    "rates.sessions",
];

/// A running Feedline.
pub struct Server {
    child: Child,
    port: u16,
    dir: TempDir,
    env: Vec<(String, String)>,
    /// How many files the process may have open, if a test limits that.
    open_files: Option<u32>,
}

/// What HTTP answered.
#[derive(Debug)]
pub struct Answer {
    /// The status code.
    pub status: StatusCode,
    /// The body if it is JSON, else as text.
    pub body: Value,
    headers: HeaderMap,
}

impl Answer {
    /// A header, if it is there and text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl Server {
    /// Starts one with the defaults: memory broker, SQLite, a short drain.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts one whose configuration says so too: `("client.channels", "2")`.
    pub async fn start_with(keys: &[(&str, &str)]) -> Self {
        Self::start_limited(None, keys).await
    }

    /// Starts one that may have only so many files open.
    pub async fn start_limited(open_files: Option<u32>, keys: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let data = dir.path().join("data").display().to_string();
        let mut env: Vec<(String, String)> = [
            ("server.data_dir", data.as_str()),
            ("server.drain", "100ms"),
            ("auth.hmac_secret", SECRET),
            ("auth.api_keys", API_KEY),
            // Short forms: tokens that say `sub` alone, and end when they say.
            ("auth.require_exp", "false"),
            ("auth.leeway", "0s"),
            // Beside tokens of an application, which the secret above is for.
            ("accounts.enabled", "true"),
        ]
        .iter()
        // Tests do in a second what people do in an hour.
        .chain(&RATES.map(|rate| (rate, "0")))
        .chain(keys)
        .map(|(key, value)| (variable(key), (*value).to_owned()))
        .collect();
        let log = dir.path().join("log");
        // A restart is on the same port, as clients expect.
        env.push((variable("server.listen"), String::new()));
        let (child, port) = loop {
            let port = crate::ports::free_port();
            env.last_mut().expect("just put there").1 = format!("127.0.0.1:{port}");
            let mut child = spawn(&env, &dir, open_files);
            if listening(&mut child, &log).await {
                break (child, port);
            }
        };
        let server = Self { child, port, dir, env, open_files };
        server.ready().await;
        crate::contract::learn(port).await;
        server
    }

    /// The port at which it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process's id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// All that it has written to standard output and standard error.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    /// Ends it as `kill -9` does.
    pub fn kill(&mut self) {
        self.child.kill().expect("to kill the server");
        self.child.wait().expect("the server to end");
    }

    /// Starts it again on the same port and data, after [`kill`](Self::kill) or [`stop`](Self::stop).
    pub async fn start_again(&mut self) {
        self.child = spawn(&self.env, &self.dir, self.open_files);
        self.ready().await;
    }

    /// Removes its SQLite ledger, while it does not run; the secrets stay.
    pub fn lose_data(&self) {
        for end in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(self.dir.path().join(format!("data/feedline.db{end}")));
        }
    }

    /// Asks it to stop, and does not wait.
    pub fn terminate(&self) {
        self.signal("-TERM");
    }

    /// Waits until it has ended.
    pub async fn ended(&mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("the state of the server") {
                return status;
            }
            assert!(Instant::now() < until, "the server does not end:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Asks it to stop and waits until it has.
    pub async fn stop(&mut self) -> ExitStatus {
        self.terminate();
        self.ended().await
    }

    fn signal(&self, which: &str) {
        let sent = Command::new("kill").arg(which).arg(self.pid().to_string()).status();
        assert!(sent.expect("to run kill").success());
    }

    /// Waits until `/ready` says so.
    pub async fn ready(&self) {
        let until = Instant::now() + PATIENCE;
        while self.probe("/ready").await.is_none_or(|answer| answer.status != StatusCode::OK) {
            assert!(Instant::now() < until, "the server is not ready:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// `/metrics`, `/ready` or `/health`, at `server.admin_listen` if that is configured.
    pub async fn probe(&self, path: &str) -> Option<Answer> {
        let admin = self.env.iter().find(|(key, _)| *key == variable("server.admin_listen"));
        let port = admin.and_then(|(_, address)| address.rsplit_once(':')?.1.parse().ok());
        Self::request_at(port.unwrap_or(self.port), "GET", path, &[], "").await
    }

    // --- HTTP --------------------------------------------------------------------------------------------

    /// One request on a connection of its own. `None` if it could not be made.
    pub async fn try_http(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Option<Answer> {
        Self::http_at(self.port, method, path, headers, body).await
    }

    /// The same, to whoever listens on that port by then.
    pub async fn http_at(
        port: u16,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Option<Answer> {
        let answer = Self::request_at(port, method, path, headers, body).await?;
        crate::contract::check_answer(method, path, &answer);
        Some(answer)
    }

    /// The same, and the answer is not validated.
    pub async fn request_at(
        port: u16,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Option<Answer> {
        let verb = Method::from_bytes(method.as_bytes()).expect("a method");
        let mut request = Request::builder().method(verb).uri(format!("http://127.0.0.1:{port}{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).expect("a request");
        let client = HttpClient::builder(TokioExecutor::new()).build_http();
        let answered = tokio::time::timeout(PATIENCE, client.request(request)).await.ok()?.ok()?;
        let (status, headers) = (answered.status(), answered.headers().clone());
        let body = answered.into_body().collect().await.ok()?.to_bytes();
        let text = || Value::from(String::from_utf8_lossy(&body).into_owned());
        let answer = Answer { status, headers, body: serde_json::from_slice(&body).unwrap_or_else(|_| text()) };
        Some(answer)
    }

    /// One request on a connection of its own, which must be answered.
    pub async fn http(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let answer = self.try_http(method, path, headers, body.to_owned()).await;
        answer.unwrap_or_else(|| panic!("{method} {path} was not answered:\n{}", self.log()))
    }

    /// An operation by HTTP, as a user with a token.
    pub async fn call(&self, user: &str, method: &str, path: &str, body: &Value) -> Answer {
        let token = format!("Bearer {}", token(user));
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.http(method, &format!("/api/v1{path}"), &[("authorization", &token)], &body).await
    }

    /// The same, and it must succeed.
    pub async fn done(&self, user: &str, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.call(user, method, path, body).await;
        assert!(answer.status.is_success(), "{method} {path}: {answer:?}\n{}", self.log());
        answer.body
    }

    /// Writes a post; its id.
    pub async fn post(&self, user: &str, text: &str) -> u64 {
        let post = self.done(user, "POST", "/posts", &json!({ "text": text })).await;
        post["id"].as_u64().expect("an id")
    }

    /// Has one user follow another; both come into being by it.
    pub async fn follow(&self, user: &str, whom: &str) {
        self.done(whom, "GET", &format!("/users/{whom}"), &Value::Null).await;
        self.done(user, "PUT", &format!("/users/{whom}/follow"), &Value::Null).await;
    }

    /// A method of the server API, with the right key: `result` or `error`.
    pub async fn backend(&self, method: &str, body: &Value) -> Value {
        let answer = self.http("POST", &format!("/api/{method}"), &[("x-api-key", API_KEY)], &body.to_string()).await;
        assert_eq!(answer.status, StatusCode::OK, "{method}: {answer:?}");
        answer.body
    }

    /// A sample of `/metrics`: `feedline_connections`. `None` if there is none of that name.
    pub async fn metric(&self, name: &str) -> Option<f64> {
        // Where connections are refused, the question may be too.
        let metrics = self.probe("/metrics").await?.body;
        let line = metrics.as_str()?.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?.to_owned();
        line.trim().parse().ok()
    }

    /// Waits until a sample has a value.
    pub async fn metric_is(&self, name: &str, value: f64) {
        let until = Instant::now() + PATIENCE;
        loop {
            let now = self.metric(name).await;
            if now == Some(value) {
                return;
            }
            assert!(Instant::now() < until, "{name} is {now:?}, not {value}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the server's log:\n{}", self.log());
        }
    }
}

/// The environment's name of a configuration key.
fn variable(key: &str) -> String {
    format!("FEEDLINE__{}", key.replace('.', "__").to_uppercase())
}

/// The program under test. Cargo passes its path to tests from version 1.94 on. Without that, it is in the folder above
/// the one of the test.
fn binary() -> PathBuf {
    std::env::var_os("CARGO_BIN_EXE_feedline").map_or_else(
        || {
            let test = std::env::current_exe().expect("the test's own path");
            test.ancestors().nth(2).expect("a folder above deps/").join("feedline")
        },
        PathBuf::from,
    )
}

fn spawn(env: &[(String, String)], dir: &TempDir, open_files: Option<u32>) -> Child {
    let log = OpenOptions::new().create(true).append(true).open(dir.path().join("log")).expect("a log file");
    let both = |log: &File| Stdio::from(log.try_clone().expect("a second handle"));
    let binary = binary();
    let mut command = match open_files {
        None => Command::new(binary),
        Some(files) => {
            let mut shell = Command::new("/bin/sh");
            shell.arg("-c").arg(format!("ulimit -n {files} && exec \"$0\" \"$@\"")).arg(binary);
            shell
        }
    };
    command
        .arg("serve")
        .current_dir(dir.path())
        .env_clear()
        .envs(env.iter().map(|(key, value)| (key, value)))
        .stdin(Stdio::null())
        .stdout(both(&log))
        .stderr(both(&log))
        .spawn()
        .expect("the binary that cargo built")
}

/// Waits until it says that it listens. `false` if somebody else had the port.
async fn listening(child: &mut Child, log: &PathBuf) -> bool {
    let until = Instant::now() + PATIENCE;
    loop {
        let ended = child.try_wait().expect("the state of the server").is_some();
        let text = fs::read_to_string(log).unwrap_or_default();
        if text.contains(" is at http://") {
            return true;
        }
        if ended && text.contains("cannot listen on") {
            fs::remove_file(log).expect("to remove the log");
            return false;
        }
        assert!(!ended && Instant::now() < until, "the server does not start:\n{text}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Now, in Unix seconds.
pub fn unix() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_secs()
}

/// A token of a user that never expires.
pub fn token(user: &str) -> String {
    signed(&json!({ "sub": user }))
}

/// A token with these claims.
pub fn signed(claims: &Value) -> String {
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    encode(&Header::new(Algorithm::HS256), claims, &key).expect("a token")
}
