//! Backup and restore: consistent copies of the file, made while a server runs and restored while no server runs.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::{migrations, open};
use crate::ledger::{LedgerError, Result};

/// The number of pages copied in one step: 4 MiB.
const PAGES_PER_STEP: i32 = 1_000;

/// How long a step waits for another process's lock before the copy pauses and retries.
const LOCK_WAIT: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// The suffix of the temporary file. It is renamed to the final name when it is complete.
const PARTIAL: &str = "partial";

/// The progress of a copy.
#[derive(Clone, Copy, Debug)]
pub struct CopyProgress {
    /// The number of pages copied so far.
    pub done: u64,
    /// The number of pages in all.
    pub total: u64,
}

/// Writes a copy of a ledger's file to `to`, which must not exist. The copy is a consistent snapshot, even if a server
/// writes concurrently. When the call returns, the copy is complete and flushed to the disk. After an error no file is
/// left.
///
/// # Errors
///
/// Names the file and the reason: missing, not a ledger, not readable or writable, or damaged.
pub fn backup(from: &Path, to: &Path, progress: impl FnMut(CopyProgress)) -> Result<()> {
    if to.exists() {
        return Err(failed(to, "it exists already, and is not overwritten"));
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    }
    let source = readable(from)?;
    let partial = beside(to, PARTIAL);
    let copied = copy(&source, from, &partial, progress).and_then(|()| put(&partial, to));
    if copied.is_err() {
        remove(&partial);
    }
    copied
}

/// Replaces the ledger at `path` by a copy of the backup `from`, with a new incarnation, so that the broker discards
/// its data about the previous one. Returns the name under which the previous ledger is kept, if there was one.
///
/// # Errors
///
/// If a server uses the ledger, if the backup is damaged or of a newer version, or if a file cannot be read or written.
/// The previous ledger then stays in place.
pub fn restore(from: &Path, path: &Path, progress: impl FnMut(CopyProgress)) -> Result<Option<PathBuf>> {
    let source = readable(from)?;
    migrations::check_version(&source, from)?;
    if same_file(from, path) {
        return Err(failed(from, "it is the ledger itself"));
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    }
    release(path)?;
    let partial = beside(path, PARTIAL);
    let ready = copy(&source, from, &partial, progress).and_then(|()| {
        let db = Connection::open(&partial).map_err(|error| wrong(&partial, &error))?;
        let incarnation = "UPDATE meta SET value = lower(hex(randomblob(6))) WHERE name = 'incarnation'";
        db.execute(incarnation, []).map_err(|error| wrong(&partial, &error))?;
        db.close().map_err(|(_, error)| wrong(&partial, &error))
    });
    if let Err(error) = ready {
        remove(&partial);
        return Err(error);
    }
    // Checks again: a process that has started in between would continue with the renamed file.
    release(path)?;
    let kept = path.exists().then(|| free_name(path));
    if let Some(kept) = &kept {
        fs::rename(path, kept).map_err(|error| failed(path, error))?;
    }
    put(&partial, path)?;
    Ok(kept)
}

/// Opens a ledger's file for reading.
fn readable(path: &Path) -> Result<Connection> {
    if !path.exists() {
        return Err(failed(path, "there is no such file"));
    }
    // Opens the file for writing if possible: a read-only connection cannot use the write-ahead log of a file that was
    // copied by hand.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let read_only = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).or_else(|_| Connection::open_with_flags(path, read_only));
    let db = db.map_err(|error| wrong(path, &error))?;
    db.busy_timeout(LOCK_WAIT).map_err(|error| wrong(path, &error))?;
    match migrations::is_ledger(&db) {
        Ok(true) => Ok(db),
        Ok(false) => Err(failed(path, "it is no ledger of Feedline")),
        Err(error) => Err(wrong(path, &error)),
    }
}

/// Copies page by page, then checks and closes the copy.
fn copy(source: &Connection, from: &Path, to: &Path, mut progress: impl FnMut(CopyProgress)) -> Result<()> {
    remove(to);
    open::create(to).map_err(|error| failed(to, error))?;
    // One snapshot for all steps: otherwise each write of another process restarts the copy.
    let snapshot = source.unchecked_transaction().map_err(|error| wrong(from, &error))?;
    let read = snapshot.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(()));
    read.map_err(|error| wrong(from, &error))?;
    let mut copy = Connection::open(to).map_err(|error| wrong(to, &error))?;
    let backup = Backup::new(&snapshot, &mut copy).map_err(|error| wrong(to, &error))?;
    loop {
        let step = backup.step(PAGES_PER_STEP).map_err(|error| wrong(from, &error))?;
        let at = backup.progress();
        let pages = |number: i32| u64::try_from(number).unwrap_or_default();
        progress(CopyProgress { done: pages(at.pagecount - at.remaining), total: pages(at.pagecount) });
        match step {
            StepResult::Done => break,
            StepResult::Busy | StepResult::Locked => std::thread::sleep(LOCK_PAUSE),
            _ => {}
        }
    }
    drop(backup);
    // The copy is one file, without a write-ahead log, in any journal mode of the source.
    let mode = copy.pragma_update_and_check(None, "journal_mode", "DELETE", |row| row.get::<_, String>(0));
    mode.map_err(|error| wrong(to, &error))?;
    let check = copy.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    match check.map_err(|error| wrong(from, &error))?.as_str() {
        "ok" => {}
        damage => return Err(failed(from, format!("it is damaged: {damage}"))),
    }
    copy.close().map_err(|(_, error)| wrong(to, &error))
}

/// Fails if a process uses the ledger. Folds its write-ahead log into the file.
fn release(path: &Path) -> Result<()> {
    if !path.exists() {
        return Ok(());
    }
    let used = || failed(path, "a server uses it: stop all of them first");
    let db = Connection::open(path).map_err(|error| wrong(path, &error))?;
    db.busy_timeout(Duration::from_millis(200)).map_err(|error| wrong(path, &error))?;
    // SQLite leaves WAL mode only if no other connection has the file open.
    match db.pragma_update_and_check(None, "journal_mode", "DELETE", |row| row.get::<_, String>(0)) {
        Ok(mode) if mode == "wal" => Err(used()),
        Ok(_) => Ok(()),
        Err(error) => match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => Err(used()),
            // A damaged ledger may be replaced.
            Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase) => Ok(()),
            _ => Err(wrong(path, &error)),
        },
    }
}

/// Flushes a complete file and renames it; flushes the folder too.
fn put(partial: &Path, to: &Path) -> Result<()> {
    let put = || -> io::Result<()> {
        File::open(partial)?.sync_all()?;
        fs::rename(partial, to)?;
        let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    };
    put().map_err(|error| failed(to, error))
}

/// A free name for the replaced ledger, like `feedline.db.replaced-1`.
fn free_name(path: &Path) -> PathBuf {
    let names = (1_u32..).map(|number| beside(path, &format!("replaced-{number}")));
    names.into_iter().find(|name| !name.exists()).unwrap_or_else(|| beside(path, "replaced"))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

fn same_file(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

fn remove(partial: &Path) {
    for suffix in ["", "-journal", "-wal", "-shm"] {
        // The file may not exist.
        let _ = fs::remove_file(format!("{}{suffix}", partial.display()));
    }
}

fn wrong(path: &Path, error: &rusqlite::Error) -> LedgerError {
    failed(path, error)
}

fn failed(path: &Path, why: impl std::fmt::Display) -> LedgerError {
    LedgerError::Failed(format!("{}: {why}", path.display()))
}
