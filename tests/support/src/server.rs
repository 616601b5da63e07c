//! A real Feedline for one test: the built binary, on a free port, with its own data, stopped when dropped.

use std::fs;
use std::io::PipeWriter;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{HeaderMap, Method, Request, StatusCode};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::rt::TokioExecutor;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::server_setup::{ServerOutput, ServerSetup, variable};

/// The longest time that a test waits for one event.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The signing secret of tokens, unless a test configures another one.
pub const SECRET: &str = "a secret that is long enough for HS256 tokens";

/// The API key of backends.
pub const API_KEY: &str = "the key of the backend in these tests";

/// A running Feedline.
pub struct Server {
    child: Child,
    port: u16,
    setup: ServerSetup,
}

/// An HTTP response.
#[derive(Debug)]
pub struct Answer {
    /// The status code.
    pub status: StatusCode,
    /// The body, parsed as JSON if possible, otherwise as text.
    pub body: Value,
    headers: HeaderMap,
}

impl Answer {
    /// Returns a header, if it is present and valid text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl Server {
    /// Starts a server with the defaults: memory broker, SQLite, a short drain.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts a server with additional configuration: `("client.channels", "2")`.
    pub async fn start_with(keys: &[(&str, &str)]) -> Self {
        Self::start_limited(None, keys).await
    }

    /// Starts a server with a limit of open files.
    pub async fn start_limited(open_files: Option<u32>, keys: &[(&str, &str)]) -> Self {
        Self::launch(ServerSetup { open_files, ..ServerSetup::of_tests(keys) }).await
    }

    /// Starts a server whose standard output and standard error are a pipe.
    pub async fn start_piped(pipe: PipeWriter, keys: &[(&str, &str)]) -> Self {
        Self::launch(ServerSetup { output: ServerOutput::Pipe(pipe), ..ServerSetup::of_tests(keys) }).await
    }

    /// Starts another program, such as that of a former build.
    pub async fn start_program(program: PathBuf, keys: &[(&str, &str)]) -> Self {
        Self::launch(ServerSetup { program, ..ServerSetup::of_tests(keys) }).await
    }

    /// Starts a server with this `config.toml`, and nothing in its environment but its port and its folder.
    pub async fn start_from_file(text: &str) -> Self {
        let setup = ServerSetup::with(&[]);
        fs::write(setup.dir.path().join("config.toml"), text).expect("a file");
        Self::launch(setup).await
    }

    async fn launch(mut setup: ServerSetup) -> Self {
        // After a restart the server listens on the same port, as clients expect.
        setup.env.push((variable("server.listen"), String::new()));
        let mut attempts = 0;
        let (child, port) = loop {
            attempts += 1;
            assert!(attempts < 20, "other processes take every port");
            let port = crate::ports::free_port();
            setup.env.last_mut().expect("just put there").1 = format!("127.0.0.1:{port}");
            let mut child = setup.spawn();
            if matches!(setup.output, ServerOutput::Pipe(_)) || setup.listens(&mut child).await {
                break (child, port);
            }
        };
        let server = Self { child, port, setup };
        server.ready().await;
        crate::contract::learn(port).await;
        server
    }

    /// The port on which the server listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The combined standard output and standard error so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.setup.log()).unwrap_or_default()
    }

    /// Replaces the `config.toml`, and sends SIGHUP.
    pub fn reload(&self, text: &str) {
        fs::write(self.setup.dir.path().join("config.toml"), text).expect("a file");
        let sent = Command::new("kill").args(["-HUP", &self.pid().to_string()]).status();
        assert!(sent.expect("to run kill").success());
    }

    /// Waits until the log has a text as often as this.
    pub async fn until_logged(&self, text: &str, times: usize) {
        let until = Instant::now() + PATIENCE;
        while self.log().matches(text).count() < times {
            assert!(Instant::now() < until, "{text:?} is not logged:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Kills the process with SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().expect("to kill the server");
        self.child.wait().expect("the server to end");
    }

    /// Starts it again on the same port and data, after [`kill`](Self::kill) or [`stop`](Self::stop).
    pub async fn start_again(&mut self) {
        self.child = self.setup.spawn();
        self.ready().await;
    }

    /// Runs another command of the program with the configuration of this server.
    pub fn command(&self, args: &[&str]) -> Output {
        self.program(args).output().expect("the binary that cargo built")
    }

    /// The program with the configuration of this server, to be started by the test.
    pub fn program(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.setup.program);
        command.args(args);
        self.setup.configure(&mut command);
        command
    }

    /// Deletes the SQLite ledger of a stopped server. The secrets remain.
    pub fn lose_data(&self) {
        for end in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(self.setup.dir.path().join(format!("data/feedline.db{end}")));
        }
    }

    /// Limits the sizes of the files that the process writes: `1:unlimited` lets all writes fail as on a full disk,
    /// `unlimited` ends that.
    pub fn limit_file_sizes(&self, limit: &str) {
        let pid = self.pid().to_string();
        let set = Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={limit}")]).status();
        assert!(set.expect("to run prlimit").success());
    }

    /// Sends SIGTERM, without waiting for the exit.
    pub fn terminate(&self) {
        self.signal("-TERM");
    }

    /// Waits until the process has exited.
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

    /// Sends SIGTERM and waits until the process has exited.
    pub async fn stop(&mut self) -> ExitStatus {
        self.terminate();
        self.ended().await
    }

    /// Sends a signal, by the option of `kill`.
    pub fn signal(&self, which: &str) {
        let sent = Command::new("kill").arg(which).arg(self.pid().to_string()).status();
        assert!(sent.expect("to run kill").success());
    }

    /// Waits until the server answers and its stores work.
    pub async fn ready(&self) {
        let until = Instant::now() + PATIENCE;
        while self.probe("/health/stores").await.is_none_or(|answer| answer.status != StatusCode::OK) {
            assert!(Instant::now() < until, "the server is not ready:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Requests `/metrics`, `/ready` or `/health`, on `server.admin_listen` if that is configured.
    pub async fn probe(&self, path: &str) -> Option<Answer> {
        let admin = self.setup.env.iter().find(|(key, _)| *key == variable("server.admin_listen"));
        let port = admin.and_then(|(_, address)| address.rsplit_once(':')?.1.parse().ok());
        Self::request_at(port.unwrap_or(self.port), "GET", path, &[], "").await
    }

    // --- HTTP --------------------------------------------------------------------------------------------

    /// Sends one request on a new connection. Returns `None` if there was no response.
    pub async fn try_http(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Option<Answer> {
        Self::http_at(self.port, method, path, headers, body).await
    }

    /// Like [`try_http`](Self::try_http), to the server that currently listens on that port.
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

    /// Like [`http_at`](Self::http_at), without validation of the response.
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

    /// Sends one request on a new connection. The server must respond.
    pub async fn http(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let answer = self.try_http(method, path, headers, body.to_owned()).await;
        answer.unwrap_or_else(|| panic!("{method} {path} was not answered:\n{}", self.log()))
    }

    /// Calls an HTTP operation with a user's token.
    pub async fn call(&self, user: &str, method: &str, path: &str, body: &Value) -> Answer {
        let token = format!("Bearer {}", token(user));
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.http(method, &format!("/api/v1{path}"), &[("authorization", &token)], &body).await
    }

    /// Calls an HTTP operation that must succeed. Returns the body.
    pub async fn done(&self, user: &str, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.call(user, method, path, body).await;
        assert!(answer.status.is_success(), "{method} {path}: {answer:?}\n{}", self.log());
        answer.body
    }

    /// Creates a post and returns its id.
    pub async fn post(&self, user: &str, text: &str) -> u64 {
        let post = self.done(user, "POST", "/posts", &json!({ "text": text })).await;
        post["id"].as_u64().expect("an id")
    }

    /// Makes one user follow another. The requests create both users.
    pub async fn follow(&self, user: &str, target: &str) {
        self.done(target, "GET", &format!("/users/{target}"), &Value::Null).await;
        self.done(user, "PUT", &format!("/users/{target}/follow"), &Value::Null).await;
    }

    /// Calls a method of the server API with the right key. Returns `result` or `error`.
    pub async fn backend(&self, method: &str, body: &Value) -> Value {
        let answer = self.http("POST", &format!("/api/{method}"), &[("x-api-key", API_KEY)], &body.to_string()).await;
        assert_eq!(answer.status, StatusCode::OK, "{method}: {answer:?}");
        answer.body
    }

    /// Returns a sample of `/metrics`, such as `feedline_connections`; `None` if there is no sample of that name.
    pub async fn metric(&self, name: &str) -> Option<f64> {
        self.metrics([name]).await[0]
    }

    /// Samples of the server, all of one moment.
    pub async fn metrics<const N: usize>(&self, names: [&str; N]) -> [Option<f64>; N] {
        // A server that refuses connections may also refuse this request.
        let metrics = self.probe("/metrics").await.map(|answer| answer.body);
        let text = metrics.as_ref().and_then(Value::as_str).unwrap_or_default();
        let value = |name| text.lines().find_map(|line: &str| line.strip_prefix(name)?.strip_prefix(' '));
        names.map(|name| value(name)?.trim().parse().ok())
    }

    /// Waits until a sample has this value.
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

/// Waits until a condition holds.
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < PATIENCE, "not in {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The current time, in Unix seconds.
pub fn unix() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_secs()
}

/// A token of a user, without expiry.
pub fn token(user: &str) -> String {
    signed(&json!({ "sub": user }))
}

/// A token with these claims.
pub fn signed(claims: &Value) -> String {
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    encode(&Header::new(Algorithm::HS256), claims, &key).expect("a token")
}

/// A token with claims in exactly this form.
///
/// # Panics
/// If it is not JSON.
pub fn signed_text(claims: &str) -> String {
    let claims: Box<RawValue> = serde_json::from_str(claims).expect("claims");
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    encode(&Header::new(Algorithm::HS256), &claims, &key).expect("a token")
}
