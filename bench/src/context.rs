//! The frame of all scenarios: it repeats runs, alternates between what is compared, and starts the servers without
//! stores.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::net::TcpStream;
use tokio::process::Command;

use super::options::BenchOptions;
use super::process::{ServerProcess, free_address, move_to};

/// The default peer: a script with `ws` and `ioredis`, the feed that one writes in an afternoon. In a checkout whose
/// tests are installed (`npm ci --prefix tests`).
const SCRIPT: &str = "tests/baseline/feed.mjs";

/// The context of a scenario. Created once for each run of `feedline-bench`.
pub(super) struct BenchContext {
    /// The options of the command line.
    pub options: BenchOptions,
}

impl BenchContext {
    /// Moves this process to the clients' core.
    pub(super) fn new(options: BenchOptions) -> Result<Self> {
        options.pin.map_or(Ok(()), |cores| move_to(cores.clients))?;
        Ok(Self { options })
    }

    /// The prefix of the keys in Redis.
    pub(super) fn prefix(&self) -> String {
        format!("feedline-bench-{}", std::process::id())
    }

    /// The length of the load of a run.
    pub(super) fn length(&self) -> Duration {
        Duration::from_secs(self.options.seconds)
    }

    /// Shows what is going on, if somebody watches.
    pub(super) fn say(&self, what: &str) {
        let mut errors = std::io::stderr();
        if errors.is_terminal() {
            // Progress that cannot be shown is no reason to stop.
            let _unseen = write!(errors, "\r\x1b[K{what}").and_then(|()| errors.flush());
        }
    }

    /// The numbers of the runs, from 0; shows each.
    pub(super) fn runs(&self, what: &str) -> impl Iterator<Item = usize> {
        let runs = self.options.runs;
        (0..runs).inspect(move |run| self.say(&format!("{what}: run {} of {runs}", run + 1)))
    }

    /// Measures some sides in turn, run by run, so that a busy neighbour affects all of them. The first one changes
    /// from run to run. Returns the runs of each side.
    pub(super) async fn alternate<S, R>(
        &self,
        what: &str,
        sides: &mut [S],
        measure: impl AsyncFn(&mut S) -> Result<R>,
    ) -> Result<Vec<Vec<R>>> {
        let mut runs: Vec<Vec<R>> = sides.iter().map(|_| Vec::new()).collect();
        for run in self.runs(what) {
            for turn in 0..sides.len() {
                let at = (run + turn) % sides.len();
                runs[at].push(measure(&mut sides[at]).await?);
            }
        }
        Ok(runs)
    }

    /// How the processes are spread over the cores, as a note of the report.
    pub(super) fn pin_note(&self) -> String {
        match self.options.pin {
            None => "not pinned: server and clients share the cores as the system likes".to_owned(),
            Some(cores) => format!("server on core {}, clients on core {}", cores.server, cores.clients),
        }
    }

    /// Starts this executable as the floor.
    pub(super) async fn start_floor(&self) -> Result<ServerProcess> {
        let addr = free_address()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["floor", "--listen", &addr.to_string()]);
        ServerProcess::start(command, addr, self.options.pin, async || TcpStream::connect(addr).await.is_ok()).await
    }

    /// Starts a peer: another system with the interface of the floor. It is a command of a shell, by default the script
    /// with Node, which listens on `HOST` and `PORT`, and may use the Redis at `REDIS_URL` with keys that begin with
    /// `PREFIX`.
    pub(super) async fn start_peer(&self, command: Option<&str>, redis: &str) -> Result<ServerProcess> {
        ensure!(command.is_some() || Path::new(SCRIPT).exists(), "there is no {SCRIPT}; --beside names another system");
        let line = command.map_or_else(|| format!("node {SCRIPT}"), str::to_owned);
        let addr = free_address()?;
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("exec {line}"));
        command.env("HOST", addr.ip().to_string()).env("PORT", addr.port().to_string());
        command.env("REDIS_URL", redis).env("PREFIX", format!("{}:peer", self.prefix()));
        let ready = async || TcpStream::connect(addr).await.is_ok();
        let start = ServerProcess::start(command, addr, self.options.pin, ready);
        let hint = || format!("`{line}` did not start; the script needs node, and npm ci --prefix tests");
        start.await.with_context(hint)
    }
}
