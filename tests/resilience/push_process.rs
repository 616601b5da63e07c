//! `feedline serve --only push`: a process for pushes alone, beside the nodes.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use feedline_test_support::ports::free_port;

use crate::server::{PATIENCE, Server};

/// A process that sends pushes and webhooks. It is killed when the test ends.
pub(crate) struct PushProcess {
    program: Command,
    child: Child,
    port: u16,
}

impl PushProcess {
    /// Starts a process with the configuration of a node, and an address of its own.
    pub(crate) fn start(node: &Server) -> Self {
        let port = free_port();
        let mut program = node.program(&["serve", "--only", "push"]);
        program.env("FEEDLINE__SERVER__LISTEN", format!("127.0.0.1:{port}"));
        program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = program.spawn().expect("the program");
        Self { program, child, port }
    }

    /// Kills the process with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("to kill the process");
        self.child.wait().expect("the process to end");
    }

    /// Starts it again on the same port, after [`kill`](Self::kill). Waits until it works.
    pub(crate) async fn start_again(&mut self) {
        self.child = self.program.spawn().expect("the program");
        self.ready().await;
    }

    /// Waits until `/ready` reports success.
    pub(crate) async fn ready(&self) {
        let until = Instant::now() + PATIENCE;
        while Server::request_at(self.port, "GET", "/ready", &[], "").await.is_none_or(|answer| answer.status != 200) {
            assert!(Instant::now() < until, "the process for pushes is not ready");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The number of webhooks of devices that were accepted since it was started.
    pub(crate) async fn accepted(&self) -> u64 {
        let metrics = Server::request_at(self.port, "GET", "/metrics", &[], "").await.expect("the metrics").body;
        let name = "feedline_push_accepted_total{platform=\"webhook\"} ";
        let line = metrics.as_str().and_then(|text| text.lines().find_map(|line| line.strip_prefix(name)));
        line.map_or(0, |number| number.parse().expect("a number"))
    }
}

impl Drop for PushProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
