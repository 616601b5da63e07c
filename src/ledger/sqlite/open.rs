//! Opening the file: connections and their settings.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use serde::Deserialize;

use super::errors::explain;
use super::migrations;
use crate::backoff::Backoff;
use crate::ledger::{LedgerError, Result, fold};

/// Statements that a connection keeps prepared; more than there are.
const STATEMENTS: usize = 256;

/// The write-ahead log is cut back to this many bytes once it has been copied into the file.
const WAL_BYTES: i64 = 64 << 20;

/// Pages that the writer keeps in memory, in KiB. A batch of likes, spread over many posts, touches thousands: with
/// SQLite's 2 MB they are read from the file, and written to the log early, again and again.
const WRITER_CACHE: i64 = 32 << 10;

/// Pages in the write-ahead log before they are copied into the file. SQLite's 1,000 are one batch of likes, and each
/// copy is flushed to the disk.
const CHECKPOINT_PAGES: i64 = 4_000;

/// What a finished write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Power loss: each commit is flushed to the disk before it is answered.
    #[default]
    Full,
    /// The end of the process, however sudden. The last moments before a power loss may be gone; what is left
    /// is consistent.
    Normal,
}

/// How the SQLite ledger is opened.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// The file. It and the folders above it are created if missing, readable by their owner alone.
    pub path: PathBuf,
    /// What a finished write survives.
    pub durability: Durability,
    /// How long a call waits for its answer.
    pub timeout: Duration,
    /// Threads that read, at least 1.
    pub readers: usize,
}

impl SqliteOptions {
    /// The defaults for a file: full durability, 5 seconds, 2 readers.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), durability: Durability::default(), timeout: Duration::from_secs(5), readers: 2 }
    }

    /// How long SQLite waits for another process's lock: less than the caller waits, so that the caller learns why.
    fn lock_wait(&self) -> Duration {
        self.timeout / 2
    }
}

/// The connection that writes, to a file with the newest schema.
pub(super) fn writer(options: &SqliteOptions) -> Result<Connection> {
    let path = &options.path;
    create(path).map_err(|error| LedgerError::Failed(format!("{}: {error}", path.display())))?;
    let mut db = connect(options, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // A file that is refused stays as it is, and so does its journal mode.
    migrations::check_version(&db, path)?;
    use_wal(&db, options)?;
    define(&db).map_err(|error| explain(path, &error))?;
    configure(&db, options.durability).map_err(|error| explain(path, &error))?;
    migrations::migrate(&mut db, path)?;
    Ok(db)
}

/// A connection that only reads.
pub(super) fn reader(options: &SqliteOptions) -> Result<Connection> {
    connect(options, OpenFlags::SQLITE_OPEN_READ_ONLY)
}

/// Makes the file if it is missing. SQLite gives the files beside it the same permissions.
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
        // Without this the planner looks at bound values, and prepares a cached statement anew at each use.
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        Ok(db)
    };
    open().map_err(|error| explain(&options.path, &error))
}

/// Gives SQL what it lacks: lower case beyond ASCII.
fn define(db: &Connection) -> rusqlite::Result<()> {
    let pure = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    db.create_scalar_function("fold", 1, pure, |call| Ok(fold(call.get_raw(0).as_str()?)))
}

fn configure(db: &Connection, durability: Durability) -> rusqlite::Result<()> {
    db.pragma_update(None, "journal_size_limit", WAL_BYTES)?;
    db.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    db.pragma_update(None, "cache_size", -WRITER_CACHE)?;
    db.pragma_update(None, "foreign_keys", true)?;
    // What a call that fails would have to undo is kept there too, and else written to a file.
    db.pragma_update(None, "temp_store", "MEMORY")?;
    match durability {
        Durability::Full => {
            db.pragma_update(None, "synchronous", "FULL")?;
            // Where a plain fsync leaves data in the drive's cache (macOS), ask for more; elsewhere it means nothing.
            db.pragma_update(None, "fullfsync", true)?;
            db.pragma_update(None, "checkpoint_fullfsync", true)
        }
        Durability::Normal => db.pragma_update(None, "synchronous", "NORMAL"),
    }
}

/// Switches to write-ahead logging. Unlike other statements this one does not wait for another process that does
/// the same at this moment, so it is tried again.
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
