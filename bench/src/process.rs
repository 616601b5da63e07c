//! Child processes: started, measured by `/proc`, and stopped.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::target::{LoadEncoding, SocketTarget};

/// The time limit for a process to become ready, and to stop.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The interval of readiness checks.
const POLL: Duration = Duration::from_millis(25);
/// The unit of CPU time in `/proc`: Linux uses hundredths of a second on all machines.
const TICKS_A_SECOND: f64 = 100.0;
/// Linux's pages, on the machines this runs on.
const KIB: u64 = 1024;

/// A temporary folder, removed when this is dropped.
#[derive(Debug)]
pub(super) struct TempFolder(PathBuf);

impl TempFolder {
    /// Creates a folder that only this user can access.
    pub(super) fn new() -> Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("feedline-bench-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::DirBuilder::new().mode(0o700).create(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }

    /// The path of the folder.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        // The system removes remains in its temporary folder.
        let _left = fs::remove_dir_all(&self.0);
    }
}

/// A child process.
#[derive(Debug)]
pub(super) struct Process {
    name: &'static str,
    child: Child,
    pid: u32,
    log: PathBuf,
}

impl Process {
    /// Starts `command`, on one core if given. Its output goes to a file in `folder`.
    fn start(name: &'static str, command: Command, core: Option<usize>, folder: &TempFolder) -> Result<Self> {
        let mut command = pinned(command, core);
        let log = folder.path().join(format!("{name}.log"));
        let file = fs::File::create(&log)?;
        // Its standard input ends when this process does.
        command.stdin(Stdio::piped()).stdout(file.try_clone()?).stderr(file).kill_on_drop(true);
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let pid = child.id().context("it ended at once")?;
        Ok(Self { name, child, pid, log })
    }

    /// CPU time it used so far.
    pub(super) fn cpu(&self) -> Result<Duration> {
        cpu(&self.pid.to_string())
    }

    /// CPU time it used so far, with the processes it started.
    pub(super) fn family_cpu(&self) -> Result<Duration> {
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.pid))?;
        // A child that has ended since is not counted.
        let children: Duration = children.split_whitespace().filter_map(|pid| cpu(pid).ok()).sum();
        Ok(self.cpu()? + children)
    }

    /// Whether this process runs as root.
    pub(super) fn is_of_root() -> bool {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let user = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
        user.split_whitespace().nth(1) == Some("0")
    }

    /// CPU time this process used so far.
    pub(super) fn own_cpu() -> Result<Duration> {
        cpu("self")
    }

    /// Memory it holds, in bytes.
    pub(super) fn resident(&self) -> Result<u64> {
        self.memory("VmRSS:")
    }

    /// The largest memory it held so far, in bytes.
    pub(super) fn peak_resident(&self) -> Result<u64> {
        self.memory("VmHWM:")
    }

    fn memory(&self, name: &str) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let line = line.with_context(|| format!("no {name} in /proc"))?;
        Ok(line.trim().trim_end_matches(" kB").trim().parse::<u64>()? * KIB)
    }

    /// Waits until the process has used no CPU time for half a second, or the time limit is reached.
    pub(super) async fn settle(&self) -> Result<()> {
        let mut last = self.cpu()?;
        let mut since = Instant::now();
        let start = Instant::now();
        while since.elapsed() < Duration::from_millis(500) && start.elapsed() < TIMEOUT {
            sleep(Duration::from_millis(50)).await;
            let now = self.cpu()?;
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
        Ok(())
    }

    /// Waits until `ready` returns `true`.
    async fn wait_until(&mut self, ready: impl AsyncFn() -> bool) -> Result<()> {
        let start = Instant::now();
        while !ready().await {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended at once ({status}): {}", self.name, self.output());
            }
            ensure!(start.elapsed() < TIMEOUT, "{} is not ready after {TIMEOUT:?}: {}", self.name, self.output());
            sleep(POLL).await;
        }
        Ok(())
    }

    /// The end of its log.
    fn output(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(10).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    /// Sends SIGTERM, and SIGKILL if the process does not end in time.
    pub(super) async fn stop(mut self) -> Result<()> {
        // Safe Rust cannot send a signal; every shell can.
        let ask = Command::new("sh").args(["-c", "kill -TERM \"$1\"", "sh", &self.pid.to_string()]).status().await;
        let asked = ask.is_ok_and(|status| status.success());
        if !asked || timeout(TIMEOUT, self.child.wait()).await.is_err() {
            self.child.kill().await?;
        }
        Ok(())
    }
}

fn cpu(pid: &str) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The process name, in parentheses, may contain any characters; after it, utime and stime are fields 12 and 13.
    let after = stat.rsplit_once(')').context("no name in /proc/pid/stat")?.1;
    let ticks = after.split_whitespace().skip(11).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(Duration::from_secs_f64(ticks as f64 / TICKS_A_SECOND))
}

/// The command, on one core if given.
fn pinned(command: Command, core: Option<usize>) -> Command {
    let Some(core) = core else { return command };
    let plain = command.into_std();
    let mut pinned = Command::new("taskset");
    pinned.arg("-c").arg(core.to_string()).arg(plain.get_program()).args(plain.get_args());
    for (key, value) in plain.get_envs() {
        match value {
            Some(value) => pinned.env(key, value),
            None => pinned.env_remove(key),
        };
    }
    if let Some(folder) = plain.get_current_dir() {
        pinned.current_dir(folder);
    }
    pinned
}

/// A server as a child process.
#[derive(Debug)]
pub(super) struct ServerProcess {
    /// The process.
    pub process: Process,
    /// The address that it listens on.
    pub addr: SocketAddr,
    /// Its own folder, removed with it.
    folder: Option<TempFolder>,
}

impl ServerProcess {
    /// Starts a server that will listen on `addr`, on one core if given, and waits until it is ready. Its log is in a
    /// folder of its own.
    pub(super) async fn start(
        name: &'static str,
        command: Command,
        core: Option<usize>,
        addr: SocketAddr,
        ready: impl AsyncFn() -> bool,
    ) -> Result<Self> {
        let folder = TempFolder::new()?;
        let server = Self::start_in(&folder, name, command, core, addr, ready).await?;
        Ok(server.with_folder(folder))
    }

    /// The same, with its log in an existing folder.
    pub(super) async fn start_in(
        folder: &TempFolder,
        name: &'static str,
        command: Command,
        core: Option<usize>,
        addr: SocketAddr,
        ready: impl AsyncFn() -> bool,
    ) -> Result<Self> {
        let mut process = Process::start(name, command, core, folder)?;
        process.wait_until(ready).await?;
        Ok(Self { process, addr, folder: None })
    }

    /// Removes the folder when the server is dropped.
    pub(super) fn with_folder(self, folder: TempFolder) -> Self {
        Self { folder: Some(folder), ..self }
    }

    /// Stops it, and removes its folder.
    pub(super) async fn stop(self) -> Result<()> {
        self.process.stop().await?;
        drop(self.folder);
        Ok(())
    }

    /// The WebSocket endpoint of a Feedline server.
    pub(super) fn feedline(&self) -> SocketTarget {
        SocketTarget::feedline(self.addr)
    }

    /// The WebSocket endpoint of the floor.
    pub(super) fn floor(&self) -> SocketTarget {
        SocketTarget { addr: self.addr, path: "/", is_websocket: true, encoding: LoadEncoding::Json }
    }
}

/// A free loopback address. Another process may take it first; the start of the server then fails.
pub(super) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
