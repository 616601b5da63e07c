//! Opens the file: connections and their settings.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use serde::Deserialize;

use super::errors::explain;
use super::migrations;
use crate::backoff::Backoff;
use crate::ledger::{LedgerError, Result, SchemaMode};

/// The capacity of a connection's cache of prepared statements: larger than the number of statements.
const STATEMENTS: usize = 256;

/// The write-ahead log is truncated to this many bytes after a checkpoint.
const WAL_BYTES: i64 = 64 << 20;

/// The size of the writer's page cache, in KiB. A batch of likes on many posts changes thousands of pages. With
/// SQLite's default of 2 MB, pages would be read from the file again, and written to the log before the commit.
const WRITER_CACHE: i64 = 32 << 10;

/// The failures that a committed write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// A power failure: each commit is flushed to the disk before the call returns.
    #[default]
    Full,
    /// A crash of the process. A power failure may lose the last commits (on PostgreSQL also a crash of its server);
    /// the remaining data is consistent.
    Normal,
}

/// The options of the SQLite ledger.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// The file. The file and its parent folders are created if missing; only their owner can read them.
    pub path: PathBuf,
    /// The failures that a committed write survives.
    pub durability: Durability,
    /// The time limit of a call; half of it is the limit for the lock of another process.
    pub timeout: Duration,
    /// The number of threads that read, at least 1.
    pub readers: usize,
    /// Whether writes put their events into the queue for the outlet.
    pub outlet: bool,
    /// What is done about a schema of another version.
    pub schema: SchemaMode,
}

impl SqliteOptions {
    /// The defaults: full durability, 5 seconds for a call, 2 readers, no outlet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let timeout = Duration::from_secs(5);
        Self {
            path,
            durability: Durability::default(),
            timeout,
            readers: 2,
            outlet: false,
            schema: SchemaMode::Migrate,
        }
    }

    /// How long SQLite waits for the lock of another process: less than the time limit of a call, so that the caller
    /// gets the reason.
    fn lock_wait(&self) -> Duration {
        self.timeout / 2
    }
}

/// Opens the connection that writes, and applies pending migrations.
pub(super) fn writer(options: &SqliteOptions) -> Result<Connection> {
    let path = &options.path;
    if options.schema == SchemaMode::Check {
        if !path.exists() {
            return Err(LedgerError::Failed(format!("{}: there is no ledger yet: a node makes it", path.display())));
        }
        let db = connect(options, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        migrations::check_current(&db, path)?;
        configure(&db, options.durability).map_err(|error| explain(path, &error))?;
        return Ok(db);
    }
    create(path).map_err(|error| LedgerError::Failed(format!("{}: {error}", path.display())))?;
    let mut db = connect(options, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // A file that is rejected keeps its content and its journal mode.
    migrations::check_version(&db, path)?;
    use_wal(&db, options)?;
    configure(&db, options.durability).map_err(|error| explain(path, &error))?;
    migrations::migrate(&mut db, path)?;
    Ok(db)
}

/// Opens the connection that copies the write-ahead log into the file.
pub(super) fn checkpointer(options: &SqliteOptions) -> Result<Connection> {
    let db = connect(options, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    set_durability(&db, options.durability).map_err(|error| explain(&options.path, &error))?;
    Ok(db)
}

/// Opens a read-only connection.
pub(super) fn reader(options: &SqliteOptions) -> Result<Connection> {
    connect(options, OpenFlags::SQLITE_OPEN_READ_ONLY)
}

/// Creates the file if it is missing. SQLite gives the files beside it the same permissions.
pub(super) fn create(path: &Path) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut options = fs::OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

fn connect(options: &SqliteOptions, access: OpenFlags) -> Result<Connection> {
    let open = || {
        let db = Connection::open_with_flags(&options.path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        db.busy_timeout(options.lock_wait())?;
        db.set_prepared_statement_cache_capacity(STATEMENTS);
        // Without this setting, SQLite prepares a cached statement again whenever the bound values change its plan.
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        Ok(db)
    };
    open().map_err(|error| explain(&options.path, &error))
}

fn configure(db: &Connection, durability: Durability) -> rusqlite::Result<()> {
    db.pragma_update(None, "journal_size_limit", WAL_BYTES)?;
    db.pragma_update(None, "cache_size", -WRITER_CACHE)?;
    db.pragma_update(None, "foreign_keys", true)?;
    // What is erased, deleted or edited is overwritten in the file, not only unlinked.
    db.pragma_update(None, "secure_delete", true)?;
    // Also keeps the statement journals, which undo a failed statement, in memory instead of in files.
    db.pragma_update(None, "temp_store", "MEMORY")?;
    set_durability(db, durability)
}

fn set_durability(db: &Connection, durability: Durability) -> rusqlite::Result<()> {
    match durability {
        Durability::Full => {
            db.pragma_update(None, "synchronous", "FULL")?;
            // On macOS, a plain fsync may leave data in the cache of the drive. Ignored on other systems.
            db.pragma_update(None, "fullfsync", true)?;
            db.pragma_update(None, "checkpoint_fullfsync", true)
        }
        Durability::Normal => db.pragma_update(None, "synchronous", "NORMAL"),
    }
}

/// Switches to write-ahead logging. SQLite does not wait for another process that does the same concurrently, so the
/// call retries.
fn use_wal(db: &Connection, options: &SqliteOptions) -> Result<()> {
    let path = &options.path;
    let deadline = Instant::now() + options.lock_wait();
    let mut backoff = Backoff::new(Duration::from_millis(2), Duration::from_millis(100));
    loop {
        let switched = db.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
        let error = match switched {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                let why = format!("{}: no write-ahead log is possible here, it stays {mode}", path.display());
                return Err(LedgerError::Failed(why));
            }
            Err(error) => error,
        };
        if error.sqlite_error_code() != Some(ErrorCode::DatabaseBusy) || Instant::now() > deadline {
            return Err(explain(path, &error));
        }
        std::thread::sleep(backoff.next_delay());
    }
}
