//! A PostgreSQL server that the bench starts, with default settings except for memory and connections.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use tokio::process::Command;

use super::process::{Process, ServerProcess, free_address};

/// The user and the database.
const NAME: &str = "feedline";
/// Debian's folder with `initdb` and `postgres` of each version.
const VERSIONS: &str = "/usr/lib/postgresql";
/// Limits of memory and connections. Durability settings keep their defaults: a commit is flushed to disk before it is
/// acknowledged.
const SETTINGS: [&str; 3] = ["shared_buffers=512MB", "max_wal_size=4GB", "max_connections=200"];

/// The data folder. Its files may belong to another user, so the folder is removed as a whole.
#[derive(Debug)]
pub(super) struct PostgresData(PathBuf);

impl PostgresData {}

impl Drop for PostgresData {
    fn drop(&mut self) {
        // Files that cannot be removed stay in the temporary folder, which the system cleans.
        let _left = std::fs::remove_dir_all(&self.0);
    }
}

/// Starts a server, on one core if given. Returns it and the URL of its database.
pub(super) async fn start(core: Option<usize>) -> Result<(ServerProcess, PostgresData, String)> {
    let programs = programs()?;
    let made = output_of(command(Path::new("mktemp")).args(["-d", "--suffix=-feedline-bench"])).await?;
    let data = PostgresData(made.trim().into());
    let mut initdb = command(&programs.join("initdb"));
    initdb.arg("-D").arg(&data.0).args(["-U", NAME, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]);
    output_of(&mut initdb).await?;
    let addr = free_address()?;
    let mut postgres = command(&programs.join("postgres"));
    postgres.arg("-D").arg(&data.0).arg("-k").arg(&data.0).args(["-p", &addr.port().to_string()]);
    for setting in SETTINGS.into_iter().chain(["listen_addresses=127.0.0.1"]) {
        postgres.args(["-c", setting]);
    }
    let url = format!("postgres://{NAME}@{addr}/{NAME}");
    let start = ServerProcess::start("postgres", postgres, core, addr, async || is_ready(&url).await);
    Ok((start.await?, data, url))
}

/// Whether the database is ready. Creates it once the server accepts connections.
async fn is_ready(url: &str) -> bool {
    let connect = async |url: &str| {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        Ok::<_, tokio_postgres::Error>(client)
    };
    if connect(url).await.is_ok() {
        return true;
    }
    let Some((server, _)) = url.rsplit_once('/') else { return false };
    match connect(&format!("{server}/postgres")).await {
        // The next check shows whether the database was created.
        Ok(client) => client.batch_execute(&format!("CREATE DATABASE {NAME}")).await.is_ok(),
        Err(_) => false,
    }
}

/// Runs a command to its end, and returns its output.
async fn output_of(command: &mut Command) -> Result<String> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().await.with_context(|| format!("cannot start {program}"))?;
    ensure!(output.status.success(), "{program} failed: {}", String::from_utf8_lossy(&output.stderr).trim_end());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A command that runs as a user that PostgreSQL accepts: it refuses root.
fn command(program: &Path) -> Command {
    let mut command = if Process::is_of_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    // That user may have no access to the working directory.
    command.current_dir("/");
    command
}

/// The folder of the newest `initdb` and `postgres`.
fn programs() -> Result<PathBuf> {
    let versions = std::fs::read_dir(VERSIONS).into_iter().flatten().flatten().map(|entry| entry.path());
    let version = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.filter(|path| path.join("bin/initdb").exists()).max_by_key(version);
    let on_path = || std::env::split_paths(&std::env::var_os("PATH")?).find(|path| path.join("initdb").exists());
    newest
        .map(|path| path.join("bin"))
        .or_else(on_path)
        .context("this needs PostgreSQL's server: there is no initdb here")
}
