//! Copies the write-ahead log into the file, on a thread of its own: a commit does not wait for it.
//!
//! The log starts again from its beginning only if a checkpoint has copied all of it, and during constant writes one
//! that runs beside them never has. The writer then completes one itself when the log has become large: few pages are
//! left to copy.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use rusqlite::Connection;

use super::open::{self, SqliteOptions};
use crate::ledger::Result;

/// When the log is copied.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogLimits {
    /// The number of pages added to the log after which they are copied. SQLite's default of 1,000 is one batch of
    /// likes, and each checkpoint is flushed to the disk.
    copied_after: usize,
    /// The number of pages in the log at which the writer completes a checkpoint, 4 KiB each.
    max: usize,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self { copied_after: 4_000, max: 16_000 }
    }
}

/// Signals to the checkpointer that the log has grown.
pub(super) type LogGrown = SyncSender<()>;

/// How often the checkpointer looks whether the log is to be emptied, and how long it waits for readers then: other
/// writes wait meanwhile.
const PURGE_INTERVAL: Duration = Duration::from_secs(2);
const MAX_PURGE_WAIT: Duration = Duration::from_millis(100);

/// Opens the connection of the checkpointer. `serve` runs it.
pub(super) fn open(options: &SqliteOptions) -> Result<(Connection, LogGrown, Receiver<()>)> {
    let (grown, wake_ups) = sync_channel(1);
    Ok((open::checkpointer(options)?, grown, wake_ups))
}

/// Watches the log of the connection that writes. SQLite calls this after each commit with the pages in the log.
pub(super) fn watch(writer: &mut Connection, grown: LogGrown, limits: LogLimits) -> rusqlite::Result<()> {
    let mut noted = 0;
    writer.wal_hook(Some(move |log: &mut rusqlite::hooks::Wal, pages: i32| {
        let pages = usize::try_from(pages).unwrap_or_default();
        // The log has started again.
        noted = noted.min(pages);
        if pages >= limits.max {
            // If another checkpoint is under way, the next commit tries again.
            let _ = log.checkpoint();
        } else if pages - noted >= limits.copied_after {
            noted = pages;
            // A checkpoint that has not begun yet copies these pages, too.
            let _ = grown.try_send(());
        }
        Ok(())
    }))
}

/// Copies the log whenever it has grown, and empties it when `purge` is set: what was erased before is in it until
/// then. Ends when the connection that writes is closed.
pub(super) fn serve(db: &Connection, wake_ups: &Receiver<()>, purge: &AtomicBool) {
    loop {
        match wake_ups.recv_timeout(PURGE_INTERVAL) {
            Ok(()) => {
                if let Err(error) = db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
                    tracing::warn!(%error, "the write-ahead log grows: it cannot be copied into the ledger's file");
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // A log that others read is emptied later.
        if purge.swap(false, Ordering::Relaxed) && !empty(db) {
            purge.store(true, Ordering::Relaxed);
        }
    }
}

/// Copies the log and truncates its file. Returns `false` if others use it.
fn empty(db: &Connection) -> bool {
    let is_busy = db.busy_timeout(MAX_PURGE_WAIT);
    let is_busy = is_busy.and_then(|()| db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)));
    matches!(is_busy, Ok(false))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, Instant};

    use super::*;

    const LIMITS: LogLimits = LogLimits { copied_after: 20, max: 80 };

    /// Fills `count` transactions with a page or two each.
    fn write(db: &Connection, count: usize) {
        for _ in 0..count {
            db.execute("INSERT INTO filler VALUES (randomblob(4000))", []).expect("a row");
        }
    }

    fn watched(folder: &tempfile::TempDir) -> (Connection, Connection, Receiver<()>) {
        let options = SqliteOptions::new(folder.path().join("l.db"));
        let mut writer = open::writer(&options).expect("it opens");
        writer.execute_batch("CREATE TABLE filler (content BLOB); PRAGMA wal_checkpoint(TRUNCATE)").expect("a table");
        let (log, grown, wake_ups) = open(&options).expect("it opens");
        watch(&mut writer, grown, LIMITS).expect("a hook");
        (writer, log, wake_ups)
    }

    #[test]
    fn the_log_is_copied_on_another_thread() {
        let folder = tempfile::tempdir().expect("a folder");
        let (writer, log, wake_ups) = watched(&folder);
        let size = || fs::metadata(folder.path().join("l.db")).expect("a file").len();
        let before = size();
        write(&writer, 2);
        assert!(wake_ups.try_recv().is_err(), "the log is short");
        let copying = std::thread::spawn(move || serve(&log, &wake_ups, &AtomicBool::new(false)));
        write(&writer, 15);
        let deadline = Instant::now() + Duration::from_secs(20);
        while size() < before + 10 * 4096 {
            assert!(Instant::now() < deadline, "nothing was copied");
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(writer);
        copying.join().expect("it ends when the writer is closed");
    }

    #[test]
    fn a_purge_leaves_nothing_of_deleted_rows() {
        let folder = tempfile::tempdir().expect("a folder");
        let (writer, log, wake_ups) = watched(&folder);
        let contains = |text: &str| {
            ["l.db", "l.db-wal"].iter().any(|name| {
                let bytes = fs::read(folder.path().join(name)).unwrap_or_default();
                bytes.windows(text.len()).any(|window| window == text.as_bytes())
            })
        };
        for number in 0..200 {
            let text = format!("text {number} {}", "of the erased user ".repeat(number));
            writer.execute("INSERT INTO filler VALUES (?1)", [text]).expect("a row");
        }
        assert!(contains("the erased user"), "it was written");
        writer.execute("UPDATE filler SET content = NULL WHERE rowid % 2 = 0", []).expect("changed rows");
        writer.execute("DELETE FROM filler WHERE rowid % 2 = 1", []).expect("deleted rows");
        let purge = std::sync::Arc::new(AtomicBool::new(true));
        let asked = std::sync::Arc::clone(&purge);
        let copying = std::thread::spawn(move || serve(&log, &wake_ups, &asked));
        let deadline = Instant::now() + Duration::from_secs(20);
        while contains("the erased user") {
            assert!(Instant::now() < deadline, "the text is still in a file");
            std::thread::sleep(Duration::from_millis(50));
        }
        drop(writer);
        copying.join().expect("it ends when the writer is closed");
    }

    #[test]
    fn the_log_stays_bounded_while_the_checkpointer_is_busy() {
        let folder = tempfile::tempdir().expect("a folder");
        // Nobody serves the wake-ups.
        let (writer, _log, _wake_ups) = watched(&folder);
        write(&writer, 1_000);
        let log = fs::metadata(folder.path().join("l.db-wal")).expect("a log").len();
        assert!(log < 2 * 80 * 4096, "{log} bytes");
    }
}
