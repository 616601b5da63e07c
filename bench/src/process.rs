//! The processes that are measured: started on their core, measured by `/proc`, and stopped.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::options::Cores;

/// The time limit for a process to become ready, and to stop.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The interval of readiness checks.
const POLL_INTERVAL: Duration = Duration::from_millis(25);
/// The unit of CPU time in `/proc`: Linux uses hundredths of a second on all machines.
const TICKS_PER_SECOND: f64 = 100.0;

/// A server as a child process.
#[derive(Debug)]
pub(super) struct ServerProcess {
    /// The address that it listens on.
    pub addr: SocketAddr,
    /// Its process id.
    pub pid: u32,
    child: Child,
    /// The folder of its log.
    log: TempDir,
}

impl ServerProcess {
    /// Starts a server that will listen on `addr`, on the server's core if it is pinned, and waits until it is ready.
    pub(super) async fn start(
        mut command: Command,
        addr: SocketAddr,
        cores: Option<Cores>,
        ready: impl AsyncFn() -> bool,
    ) -> Result<Self> {
        let log = tempfile::tempdir()?;
        let file = fs::File::create(log.path().join("log"))?;
        // Its standard input ends when this process does.
        command.stdin(Stdio::piped()).stdout(file.try_clone()?).stderr(file).kill_on_drop(true);
        // A process starts on the core of the one that starts it.
        cores.map_or(Ok(()), |cores| move_to(cores.server))?;
        let child = command.spawn();
        cores.map_or(Ok(()), |cores| move_to(cores.clients))?;
        let name = command.as_std().get_program().display().to_string();
        let child = child.with_context(|| format!("cannot start {name}"))?;
        let pid = child.id().context("it ended at once")?;
        let mut server = Self { addr, pid, child, log };
        let start = Instant::now();
        while !ready().await {
            if let Some(status) = server.child.try_wait()? {
                bail!("{name} ended at once ({status}): {}", server.output());
            }
            ensure!(start.elapsed() < TIMEOUT, "{name} is not ready after {TIMEOUT:?}: {}", server.output());
            sleep(POLL_INTERVAL).await;
        }
        Ok(server)
    }

    /// The end of its log.
    fn output(&self) -> String {
        let text = fs::read_to_string(self.log.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }

    /// Memory it holds, in bytes.
    pub(super) fn resident(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS in /proc")?;
        Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? * 1024.0)
    }

    /// Waits until the process has used no CPU time for half a second, or the time limit is reached.
    pub(super) async fn settle(&self) -> Result<()> {
        let mut last = cpu(self.pid)?;
        let start = Instant::now();
        let mut since = start;
        while since.elapsed() < Duration::from_millis(500) && start.elapsed() < TIMEOUT {
            sleep(Duration::from_millis(50)).await;
            let now = cpu(self.pid)?;
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
        Ok(())
    }

    /// Sends SIGTERM, and SIGKILL if the process does not end in time.
    pub(super) async fn stop(mut self) -> Result<()> {
        // Safe Rust cannot send a signal.
        let asked = Command::new("kill").arg(self.pid.to_string()).status().await;
        if !asked.is_ok_and(|status| status.success()) || timeout(TIMEOUT, self.child.wait()).await.is_err() {
            self.child.kill().await?;
        }
        Ok(())
    }
}

/// A free loopback address. Another process may take it first; the start of the server then fails.
pub(super) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// Moves this thread, which starts all processes and threads, to a core. The system call needs unsafe code, which
/// `taskset` does not.
pub(super) fn move_to(core: usize) -> Result<()> {
    let mut taskset = std::process::Command::new("taskset");
    taskset.args(["-pc", &core.to_string(), &std::process::id().to_string()]);
    let output = taskset.output().context("--pin needs the command taskset")?;
    ensure!(output.status.success(), "cannot use core {core}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// The CPU time of a server and of this process from a moment on.
#[derive(Debug)]
pub(super) struct CpuMeter {
    pid: Option<u32>,
    before: f64,
    own: f64,
    start: Instant,
}

/// The CPU time that was used meanwhile. All in seconds.
#[derive(Clone, Debug)]
pub(super) struct CpuUse {
    /// Elapsed time.
    pub took: f64,
    /// The CPU time of the server; NaN if it is not a process of the bench.
    pub server: f64,
    /// The CPU time of this process: the clients.
    pub clients: f64,
}

impl CpuMeter {
    /// Starts to measure the server with this process id.
    pub(super) fn start(pid: impl Into<Option<u32>>) -> Result<Self> {
        let pid = pid.into();
        Ok(Self { pid, before: pid.map_or(Ok(f64::NAN), cpu)?, own: cpu(std::process::id())?, start: Instant::now() })
    }

    /// The CPU time since the start.
    pub(super) fn read(&self) -> Result<CpuUse> {
        let took = self.start.elapsed().as_secs_f64();
        Ok(CpuUse {
            took,
            server: self.pid.map_or(Ok(f64::NAN), cpu)? - self.before,
            clients: cpu(std::process::id())? - self.own,
        })
    }
}

fn cpu(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The process name, in parentheses, may contain any characters; after it, utime and stime are fields 12 and 13.
    let after = stat.rsplit_once(')').context("no name in /proc/pid/stat")?.1;
    let ticks = after.split_whitespace().skip(11).take(2).map(str::parse::<f64>).sum::<Result<f64, _>>()?;
    Ok(ticks / TICKS_PER_SECOND)
}
