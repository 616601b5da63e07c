//! A real PostgreSQL for tests, on a free port with its own data. It stops when the process that started it ends.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::OnceCell;
use tokio_postgres::NoTls;

/// The longest time that a server may take to start.
const STARTING: Duration = Duration::from_secs(60);

/// Creates a data directory, prints its path, and runs commands from standard input (`start`, `wait`). Stops the server
/// when standard input closes, which also happens when the test process dies. Arguments: the directory of the programs,
/// the port, additional settings.
///
/// Test data must survive a killed server but not a power loss, so only `fsync` is off.
const SCRIPT: &str = r#"
set -eu
bin=$1 port=$2; shift 2
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT
"$bin/initdb" -D "$data" -U feedline --auth=trust --encoding=UTF8 --locale=C --no-sync >"$data.log" 2>&1 ||
    { cat "$data.log" >&2; exit 1; }
rm -f "$data.log"
mkdir "$data/sockets"
echo "$data"
while read -r order; do
    case $order in
    start) "$bin/postgres" -D "$data" -p "$port" -k "$data/sockets" -c listen_addresses=127.0.0.1 -c fsync=off \
        -c max_connections=300 -c shared_buffers=32MB -c max_wal_size=256MB "$@" \
        >>"$data/log" 2>&1 </dev/null & pid=$!; echo "$pid" ;;
    wait) wait "$pid" || true; echo ended ;;
    esac
done
kill -INT "$pid" 2>/dev/null || true
# One that has only just been started does not listen yet.
(sleep 5; kill -INT "$pid"; sleep 10; kill -KILL "$pid") >/dev/null 2>&1 &
wait "$pid" || true
kill $! 2>/dev/null || true
"#;

/// A running PostgreSQL.
pub struct PostgresServer {
    port: u16,
    data: PathBuf,
    /// The process id of the postmaster.
    pid: u32,
    shell: Child,
    /// The standard input of the shell; `None` once the shell was asked to stop.
    orders: Option<ChildStdin>,
    answers: BufReader<std::process::ChildStdout>,
    databases: AtomicU32,
    /// Whether the database `migrated` is there.
    has_schema: OnceCell<()>,
}

impl PostgresServer {
    /// Starts a server.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with additional settings: `-c`, `name=value`.
    pub fn start_with(settings: &[&str]) -> Self {
        // Another process may take the free port before PostgreSQL binds it. Then retry with another port.
        for _ in 0..10 {
            let port = crate::ports::free_port();
            if let Some(server) = Self::try_start(port, settings) {
                return server;
            }
        }
        panic!("PostgreSQL does not start");
    }

    fn try_start(port: u16, settings: &[&str]) -> Option<Self> {
        let mut shell = as_anonymous("sh")
            .args(["-c", SCRIPT, "sh"])
            .arg(programs())
            .arg(port.to_string())
            .args(settings)
            // A signal to the test's process group must not stop the shell before it has cleaned up.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let orders = shell.stdin.take();
        let mut answers = BufReader::new(shell.stdout.take().expect("its output"));
        let data = line(&mut answers).into();
        let (databases, has_schema) = (AtomicU32::new(0), OnceCell::new());
        let mut server = Self { port, data, pid: 0, shell, orders, answers, databases, has_schema };
        server.launch().then_some(server)
    }

    /// Starts the server and returns whether it accepts connections. Reads this server's `postmaster.pid`, because
    /// another server that took the port would answer as well.
    fn launch(&mut self) -> bool {
        self.order("start");
        self.pid = line(&mut self.answers).parse().expect("a process id");
        let until = Instant::now() + STARTING;
        while Instant::now() < until && self.is_alive() {
            let said = std::fs::read_to_string(self.data.join("postmaster.pid")).unwrap_or_default();
            let mut said = said.lines().map(str::trim_end);
            if said.next() == Some(&self.pid.to_string()) && said.next_back() == Some("ready") {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// Whether the postmaster runs. An ended postmaster remains as a zombie until it is reaped.
    fn is_alive(&self) -> bool {
        self.state().is_some_and(|state| state != 'Z')
    }

    /// The state of the postmaster, as in `/proc/PID/stat`.
    fn state(&self) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        // The state follows the process name, which is in parentheses and may contain any character.
        stat.rsplit_once(") ")?.1.chars().next()
    }

    /// Stops the postmaster, so that it starts no more processes.
    fn hold(&self) {
        signal("-STOP", &[self.pid]);
        let until = Instant::now() + STARTING;
        while self.state() != Some('T') {
            assert!(Instant::now() < until, "PostgreSQL does not stand still");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn order(&mut self, order: &str) {
        let orders = self.orders.as_mut().expect("a shell that takes orders");
        writeln!(orders, "{order}").expect("to order");
    }

    /// The data directory. Another user owns it if the tests run as root.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The port on which the server listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of a database.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://feedline@127.0.0.1:{}/{database}", self.port)
    }

    /// The URL of a database by the server's socket.
    pub fn socket_url(&self, database: &str) -> String {
        let folder = self.data.join("sockets");
        format!("postgres:///{database}?host={}&port={}&user=feedline", folder.display(), self.port)
    }

    /// Creates a database as a copy of another and returns its name.
    pub async fn database(&self, template: &str) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.ask("postgres", &format!("CREATE DATABASE {name} TEMPLATE {template}")).await;
        name
    }

    /// Creates a database with the schema of the program under test and without rows. Returns its name. The program
    /// makes the schema once, and each database is a copy: that takes a tenth of the time.
    pub async fn migrated(&self) -> String {
        let make = || async {
            self.ask("postgres", "CREATE DATABASE migrated").await;
            let mut list = Command::new(crate::server_setup::binary());
            list.args(["erasures", "list"]).env_clear().env("FEEDLINE__LEDGER__URL", self.url("migrated"));
            let listed = list.current_dir("/").output().expect("to run the program");
            assert!(listed.status.success(), "{listed:?}");
        };
        self.has_schema.get_or_init(make).await;
        self.database("migrated").await
    }

    /// Executes a statement in a database.
    pub async fn ask(&self, database: &str, sql: &str) {
        self.client(database).await.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    /// Opens a separate connection for the test.
    pub async fn client(&self, database: &str) -> tokio_postgres::Client {
        let (client, connection) = tokio_postgres::connect(&self.url(database), NoTls).await.expect("to connect");
        tokio::spawn(connection);
        client
    }

    /// Kills the postmaster and all its child processes with SIGKILL.
    pub fn kill(&mut self) {
        // A child started during the kill would survive it and block the next start.
        self.hold();
        let all = self.family();
        signal("-KILL", &all);
        self.order("wait");
        assert_eq!(line(&mut self.answers), "ended");
        // The children are not children of this process, so it cannot wait for them. It polls until they are gone.
        let until = Instant::now() + STARTING;
        while all.iter().any(|pid| Path::new(&format!("/proc/{pid}")).exists()) {
            assert!(Instant::now() < until, "PostgreSQL does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Starts it again on the same port and data, after [`kill`](Self::kill).
    pub fn start_again(&mut self) {
        assert!(self.launch(), "PostgreSQL starts again");
    }

    /// Suspends all its processes with SIGSTOP. Connections stay open and silent.
    pub fn pause(&self) {
        self.hold();
        signal("-STOP", &self.family());
    }

    /// Resumes all its processes.
    pub fn resume(&self) {
        signal("-CONT", &self.family());
    }

    /// The postmaster and its child processes.
    fn family(&self) -> Vec<u32> {
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.pid)).unwrap_or_default();
        std::iter::once(self.pid).chain(children.split_whitespace().filter_map(|pid| pid.parse().ok())).collect()
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // A suspended process would not handle the request to stop.
        signal("-CONT", &self.family());
        drop(self.orders.take());
        let _ = self.shell.wait();
    }
}

/// The server that all tests of this binary share. It ends with the process.
pub fn shared() -> &'static PostgresServer {
    static SERVER: OnceLock<PostgresServer> = OnceLock::new();
    static STARTING: Mutex<()> = Mutex::new(());
    let _one = STARTING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    SERVER.get_or_init(PostgresServer::start)
}

fn line(answers: &mut impl BufRead) -> String {
    let mut line = String::new();
    answers.read_line(&mut line).expect("an answer");
    assert!(!line.is_empty(), "the shell around PostgreSQL has ended");
    line.trim_end().to_owned()
}

fn signal(which: &str, pids: &[u32]) {
    // Some processes may have ended already.
    let _ = Command::new("kill").arg(which).args(pids.iter().map(u32::to_string)).stderr(Stdio::null()).status();
}

/// Builds a command that runs as an unprivileged user, because PostgreSQL and PgBouncer refuse to run as root.
pub(crate) fn as_anonymous(program: &str) -> Command {
    let id = Command::new("id").arg("-u").output().expect("id");
    let mut command = if String::from_utf8_lossy(&id.stdout).trim() == "0" {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", program]);
        command
    } else {
        Command::new(program)
    };
    // That user may have no access to the current working directory.
    command.current_dir("/");
    command
}

/// The directory of `initdb` and `postgres`. Debian has one per version; the newest is used.
fn programs() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let version = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.map(|entry| entry.path()).filter(|path| path.join("bin/initdb").exists()).max_by_key(version);
    if let Some(newest) = newest {
        return newest.join("bin");
    }
    let found = Command::new("sh").args(["-c", "command -v initdb"]).output().expect("a shell");
    let initdb = PathBuf::from(String::from_utf8_lossy(&found.stdout).trim());
    let folder = initdb.canonicalize().ok().and_then(|path| path.parent().map(Path::to_owned));
    folder.expect("PostgreSQL's server is installed: scripts/install-deps installs it")
}
