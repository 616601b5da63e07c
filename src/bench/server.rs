//! The processes that are measured: a Feedline, the floor, a Redis. All on loopback, all stopped in the end.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::client::Target;
use super::ledger::SQLITE;
use super::postgres;

/// How long a process may take to be ready, and to end when asked to.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often a process that is starting is asked whether it is ready.
const POLL: Duration = Duration::from_millis(25);
/// Linux counts CPU time for `/proc` in hundredths of a second, whatever the machine.
const TICKS_A_SECOND: f64 = 100.0;
/// Linux's pages, on the machines this runs on.
const KIB: u64 = 1024;

/// A folder that goes when this does.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Makes a new one below the system's folder for such things, for this user alone.
    pub(super) fn new() -> Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("feedline-bench-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::DirBuilder::new().mode(0o700).create(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is the system's to remove: it is a temporary folder.
        let _left = fs::remove_dir_all(&self.0);
    }
}

/// How a Feedline is set up. Its folder is there before the server is, so that its ledger can be filled.
#[derive(Debug)]
pub(super) struct Setup {
    /// Where its data is.
    pub folder: Folder,
    /// What its tokens are signed with.
    pub secret: String,
    /// The broker, as configured.
    pub broker: String,
    /// What Redis keys begin with.
    pub prefix: String,
    /// From how many followers on authors are pulled; `None`: as by default.
    pub push_limit: Option<usize>,
    /// The ledger's address.
    pub ledger: String,
    /// The PostgreSQL that keeps the ledger, if one was started for it.
    pub postgres: Option<(Listening, postgres::Data)>,
}

impl Setup {
    /// The embedded default.
    pub(super) fn new(secret: &str) -> Result<Self> {
        let prefix = format!("feedline-bench-{}", std::process::id());
        let folder = Folder::new()?;
        Ok(Self {
            ledger: format!("{SQLITE}{}", folder.path().join("feedline.db").display()),
            postgres: None,
            folder,
            secret: secret.to_owned(),
            broker: "memory:".to_owned(),
            prefix,
            push_limit: None,
        })
    }

    /// How much the ledger takes on the disk, in bytes.
    pub(super) fn ledger_size(&self) -> Result<u64> {
        let Some((_, data)) = &self.postgres else { return Ok(fs::metadata(&self.ledger[SQLITE.len()..])?.len()) };
        data.size()
    }

    /// What keeps the ledger and the broker, for people.
    pub(super) fn note(&self) -> String {
        let ledger = if self.postgres.is_some() { "PostgreSQL" } else { "SQLite" };
        let broker = if self.broker.starts_with("redis") { "Redis" } else { "memory" };
        format!("ledger: {ledger}; broker: {broker}")
    }

    fn environment(&self, listen: SocketAddr) -> Vec<(&'static str, String)> {
        let mut environment = vec![
            ("FEEDLINE__SERVER__LISTEN", listen.to_string()),
            ("FEEDLINE__SERVER__DATA_DIR", self.folder.path().display().to_string()),
            ("FEEDLINE__SERVER__LOG_LEVEL", "warn".to_owned()),
            ("FEEDLINE__AUTH__HMAC_SECRET", self.secret.clone()),
            ("FEEDLINE__BROKER__URL", self.broker.clone()),
            ("FEEDLINE__BROKER__PREFIX", self.prefix.clone()),
            ("FEEDLINE__LEDGER__URL", self.ledger.clone()),
            ("FEEDLINE__NAMESPACES", r#"[{"name":"bench","publish":"anyone"}]"#.to_owned()),
            // One publisher stands for many.
            ("FEEDLINE__CLIENT__COMMANDS_PER_SECOND", "0".to_owned()),
            ("FEEDLINE__RATES__POSTS", "0".to_owned()),
            ("FEEDLINE__RATES__LIKES", "0".to_owned()),
            ("FEEDLINE__RATES__READS", "0".to_owned()),
            ("FEEDLINE__RATES__PUBLICATIONS", "0".to_owned()),
            // Sockets that stand by while Redis is measured alone are not listened to, and would miss their pings.
            ("FEEDLINE__CLIENT__PING_INTERVAL", "10m".to_owned()),
        ];
        environment.extend(self.push_limit.map(|limit| ("FEEDLINE__FANOUT__PUSH_LIMIT", limit.to_string())));
        environment
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
    /// Starts `command`, on one core if told to. What it says goes to a file in `folder`.
    fn start(name: &'static str, command: Command, core: Option<usize>, folder: &Folder) -> Result<Self> {
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
        // One that has ended since is not counted.
        let children: Duration = children.split_whitespace().filter_map(|pid| cpu(pid).ok()).sum();
        Ok(self.cpu()? + children)
    }

    /// Whether this process may do everything.
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
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS in /proc")?;
        Ok(line.trim().trim_end_matches(" kB").trim().parse::<u64>()? * KIB)
    }

    /// Waits until it has nothing left to do: no CPU time used for half a second. Gives up after a while.
    pub(super) async fn settle(&self) -> Result<()> {
        let (mut last, mut since, start) = (self.cpu()?, Instant::now(), Instant::now());
        while since.elapsed() < Duration::from_millis(500) && start.elapsed() < PATIENCE {
            sleep(Duration::from_millis(50)).await;
            let now = self.cpu()?;
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
        Ok(())
    }

    /// Waits until `ready` says so.
    async fn wait_until(&mut self, ready: impl AsyncFn() -> bool) -> Result<()> {
        let start = Instant::now();
        while !ready().await {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended at once ({status}): {}", self.name, self.said());
            }
            ensure!(start.elapsed() < PATIENCE, "{} is not ready after {PATIENCE:?}: {}", self.name, self.said());
            sleep(POLL).await;
        }
        Ok(())
    }

    /// The end of its log.
    fn said(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(10).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    /// Asks it to end, and makes it if it does not.
    pub(super) async fn stop(mut self) -> Result<()> {
        // There is no way to send a signal in safe Rust; every shell has one.
        let ask = Command::new("sh").args(["-c", "kill -TERM \"$1\"", "sh", &self.pid.to_string()]).status().await;
        let asked = ask.is_ok_and(|status| status.success());
        if !asked || timeout(PATIENCE, self.child.wait()).await.is_err() {
            self.child.kill().await?;
        }
        Ok(())
    }
}

fn cpu(pid: &str) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name, in parentheses, may hold anything; after it, utime and stime are the 12th and 13th.
    let after = stat.rsplit_once(')').context("no name in /proc/pid/stat")?.1;
    let ticks = after.split_whitespace().skip(11).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(Duration::from_secs_f64(ticks as f64 / TICKS_A_SECOND))
}

/// The command, on one core if told to.
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

/// A process that listens.
#[derive(Debug)]
pub(super) struct Listening {
    /// The process.
    pub process: Process,
    /// Where it listens.
    pub addr: SocketAddr,
    /// Its own folder, if it needed one.
    _folder: Option<Folder>,
}

impl Listening {
    /// Starts a process that is to listen at `addr`, on one core if told to, and waits until it is ready.
    pub(super) async fn start(
        name: &'static str,
        command: Command,
        core: Option<usize>,
        addr: SocketAddr,
        ready: impl AsyncFn() -> bool,
    ) -> Result<Self> {
        let folder = Folder::new()?;
        let mut process = Process::start(name, command, core, &folder)?;
        process.wait_until(ready).await?;
        Ok(Self { process, addr, _folder: Some(folder) })
    }

    /// Stops it.
    pub(super) async fn stop(self) -> Result<()> {
        self.process.stop().await
    }

    /// Where clients of a Feedline connect to.
    pub(super) fn feedline(&self) -> Target {
        Target::feedline(self.addr)
    }

    /// Where clients of the floor connect to.
    pub(super) fn floor(&self) -> Target {
        Target { addr: self.addr, path: "/" }
    }
}

/// Starts this executable as a server, and waits until it is ready.
pub(super) async fn feedline(setup: &Setup, core: Option<usize>) -> Result<Listening> {
    let addr = free_address()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("serve").current_dir(setup.folder.path());
    for (key, _) in std::env::vars().filter(|(key, _)| key.starts_with("FEEDLINE__")) {
        command.env_remove(key);
    }
    command.envs(setup.environment(addr));
    let mut process = Process::start("feedline", command, core, &setup.folder)?;
    process.wait_until(async || get(addr, "/ready").await.is_ok_and(|status| status == 200)).await?;
    Ok(Listening { process, addr, _folder: None })
}

/// Starts this executable as the floor.
pub(super) async fn floor(core: Option<usize>) -> Result<Listening> {
    let (addr, folder) = (free_address()?, Folder::new()?);
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["bench", "floor", "--listen", &addr.to_string()]);
    let mut process = Process::start("floor", command, core, &folder)?;
    process.wait_until(async || TcpStream::connect(addr).await.is_ok()).await?;
    Ok(Listening { process, addr, _folder: Some(folder) })
}

/// Starts a Redis that keeps everything in memory.
pub(super) async fn redis(core: Option<usize>) -> Result<Listening> {
    let (addr, folder) = (free_address()?, Folder::new()?);
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port", &addr.port().to_string()]);
    command.arg("--dir").arg(folder.path());
    let mut process = Process::start("redis-server", command, core, &folder)
        .context("this scenario needs a Redis: install redis-server, or name one with --redis")?;
    process.wait_until(async || TcpStream::connect(addr).await.is_ok()).await?;
    Ok(Listening { process, addr, _folder: Some(folder) })
}

/// A loopback address that nobody listens on. Somebody else may take it first; then the start fails and says so.
pub(super) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// The status of a plain HTTP request.
async fn get(addr: SocketAddr, path: &str) -> Result<u16> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\r\n");
    let asking = async {
        let mut stream = TcpStream::connect(addr).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await?;
        let status = std::str::from_utf8(&answer)?.strip_prefix("HTTP/1.1 ").context("not HTTP")?;
        Ok(status.parse()?)
    };
    timeout(Duration::from_secs(2), asking).await?
}
