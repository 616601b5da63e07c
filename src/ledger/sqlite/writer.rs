//! The only thread that writes, with group commit.
//!
//! While a transaction is flushed to the disk, calls collect in the queue; the next transaction contains all of them
//! and shares one flush. A large call gets a transaction of its own: in a shared one, SQLite would first copy each page
//! that the call changes, to be able to undo the call alone. A call whose result nobody waits for does not cause a
//! flush of its own if another call follows within a moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::checkpointer::{self, LogLimits};
use super::errors::failure;
use super::lane::{CallResult, Lane, LaneQueue, QUEUE_CAPACITY, QueuedCall, Sharing};
use super::open::{self, SqliteOptions};
use crate::ledger::Result;

/// The maximal number of calls in one transaction. It bounds the latency of the first one.
const BATCH: usize = 512;

/// How long a patient call waits for another call. A busy server writes more often than that.
const MAX_PATIENCE: Duration = Duration::from_millis(10);

/// The writer of the ledger.
pub(super) struct Writer {
    pub(super) lane: Arc<Lane>,
    /// The number of committed transactions.
    pub(super) commits: Arc<AtomicU64>,
    /// Set when the write-ahead log is to be emptied.
    pub(super) purge: Arc<AtomicBool>,
}

impl Writer {
    /// Opens the file, applies pending migrations, and starts the thread.
    pub(super) fn start(options: &SqliteOptions) -> Result<Self> {
        let mut db = open::writer(options)?;
        let (log, grown, wake_ups) = checkpointer::open(options)?;
        checkpointer::watch(&mut db, grown.clone(), LogLimits::default()).map_err(|error| failure(&error))?;
        let (lane, queue) = Lane::new(QUEUE_CAPACITY, options.timeout);
        let commits = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&commits);
        // The checkpointer ends after the writer: the last connection to be closed copies the log into the file, and of
        // two that are closed at once neither does. The closure holds the whole pair, not its first field alone, and
        // drops the database first.
        let parts = (db, grown);
        lane.spawn("ledger_writer", "ledger-writer", move || {
            let (db, _grown) = &parts;
            serve(db, &queue, &counter);
        })?;
        let purge = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&purge);
        lane.spawn("ledger_checkpoints", "ledger-log", move || checkpointer::serve(&log, &wake_ups, &asked))?;
        Ok(Self { lane: Arc::new(lane), commits, purge })
    }
}

fn serve(db: &Connection, queue: &LaneQueue, commits: &AtomicU64) {
    roll_back(db);
    // A large call taken from the queue, which runs in the next transaction.
    let mut left = None;
    while let Some(first) = left.take().or_else(|| queue.pop()) {
        let mut batch = vec![first];
        left = collect(queue, &mut batch);
        let failed = match transact(db, &mut batch) {
            Ok(()) => {
                commits.fetch_add(1, Ordering::Relaxed);
                None
            }
            Err(error) => {
                roll_back(db);
                Some(failure(&error))
            }
        };
        for work in batch {
            work.answer(failed.clone());
        }
    }
}

/// Ends a transaction that failed, or that a panic of this thread left open.
fn roll_back(db: &Connection) {
    if !db.is_autocommit() {
        // If the rollback fails, the next `BEGIN` fails as well and reports it.
        let _ = db.execute_batch("ROLLBACK");
    }
}

/// Adds the calls that share the transaction of the first one. Returns a large call that was taken from the queue.
fn collect(queue: &LaneQueue, batch: &mut Vec<Box<dyn QueuedCall>>) -> Option<Box<dyn QueuedCall>> {
    let mut is_patient = match batch[0].sharing() {
        Sharing::Alone => return None,
        sharing => sharing == Sharing::Patient,
    };
    let deadline = Instant::now() + MAX_PATIENCE;
    while batch.len() < BATCH {
        let next = if is_patient { queue.pop_until(deadline)? } else { queue.try_pop()? };
        match next.sharing() {
            Sharing::Alone => return Some(next),
            sharing => is_patient &= sharing == Sharing::Patient,
        }
        batch.push(next);
    }
    None
}

/// Runs the batch in one transaction. After an error nothing of it is committed.
fn transact(db: &Connection, batch: &mut [Box<dyn QueuedCall>]) -> rusqlite::Result<()> {
    run(db, "BEGIN IMMEDIATE")?;
    if let [work] = batch {
        // A single call needs no savepoint: its failure rolls back the transaction.
        let ran = if work.abandoned() { CallResult::Succeeded } else { work.run(db) };
        return run(db, if ran == CallResult::Succeeded { "COMMIT" } else { "ROLLBACK" });
    }
    for work in batch {
        if !work.abandoned() {
            isolate(db, work.as_mut())?;
        }
    }
    run(db, "COMMIT")
}

/// Runs one call in a savepoint: its failure undoes only its own changes.
fn isolate(db: &Connection, work: &mut dyn QueuedCall) -> rusqlite::Result<()> {
    run(db, "SAVEPOINT one")?;
    if work.run(db) == CallResult::Failed {
        // After some errors, such as a full disk, SQLite has rolled back the whole transaction. Then this statement
        // fails, and the batch with it.
        run(db, "ROLLBACK TO one")?;
    }
    run(db, "RELEASE one")
}

fn run(db: &Connection, sql: &str) -> rusqlite::Result<()> {
    db.prepare_cached(sql)?.execute([]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::LedgerError;

    fn add(db: &Connection, id: &str) -> rusqlite::Result<()> {
        db.execute("INSERT INTO users (id, name, created_at) VALUES (?1, ?1, 0)", [id]).map(drop)
    }

    #[tokio::test]
    async fn failed_calls_are_rolled_back_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let writer = Writer::start(&SqliteOptions::new(folder.path().join("l.db"))).expect("it starts");
        let (before, wrong, after) = tokio::join!(
            writer.lane.call(|db| add(db, "before")),
            writer.lane.call(|db| add(db, "half").and_then(|()| add(db, "half"))),
            writer.lane.call(|db| add(db, "after")),
        );
        assert!(before.is_ok() && matches!(wrong, Err(LedgerError::Failed(_))) && after.is_ok());
        let half = "SELECT count(*), sum(id = 'half') FROM users";
        let kept = writer.lane.call(|db| db.query_row(half, [], |row| Ok((row.get(0)?, row.get(1)?))));
        assert_eq!(kept.await.expect("counts"), (2, 0));
    }

    #[tokio::test]
    async fn large_calls_have_their_own_transaction() {
        let folder = tempfile::tempdir().expect("a folder");
        let writer = Writer::start(&SqliteOptions::new(folder.path().join("l.db"))).expect("it starts");
        // Keeps the writer busy while the other calls queue.
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let busy = writer.lane.call(move |_| Ok(held.recv().is_err()));
        let before = writer.lane.call(|db| add(db, "before"));
        let large = writer.lane.call_with(Sharing::Alone, |db| add(db, "half").and_then(|()| add(db, "half")));
        let after = writer.lane.call(|db| add(db, "after"));
        let release = async { drop(hold) };
        let (busy, before, large, after, ()) = tokio::join!(biased; busy, before, large, after, release);
        assert!(busy.is_ok() && before.is_ok() && large.is_err() && after.is_ok());
        let names = "SELECT group_concat(id) FROM (SELECT id FROM users ORDER BY id)";
        let kept = writer.lane.call(|db| db.query_row(names, [], |row| row.get::<_, String>(0)));
        assert_eq!(kept.await.expect("names"), "after,before");
        // At least four: the calls before the large one, the large one, the one after it, and the query. With shared
        // transactions there would be fewer.
        assert!(writer.commits.load(Ordering::Relaxed) >= 4);
    }

    #[tokio::test]
    async fn patient_calls_share_the_next_transaction() {
        let folder = tempfile::tempdir().expect("a folder");
        let writer = Writer::start(&SqliteOptions::new(folder.path().join("l.db"))).expect("it starts");
        let commits = || writer.commits.load(Ordering::Relaxed);
        let patient = |id: &'static str| writer.lane.call_with(Sharing::Patient, move |db| add(db, id));
        let begun = Instant::now();
        // In the order of the queue: the first two wait until the third arrives.
        let later = async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            writer.lane.call(|db| add(db, "c")).await
        };
        let (first, second, third) = tokio::join!(biased; patient("a"), patient("b"), later);
        assert!(first.is_ok() && second.is_ok() && third.is_ok());
        assert!(commits() == 1 || begun.elapsed() >= MAX_PATIENCE, "{} commits", commits());
        let before = commits();
        let begun = Instant::now();
        assert!(patient("d").await.is_ok());
        assert_eq!(commits(), before + 1);
        assert!((MAX_PATIENCE..Duration::from_secs(1)).contains(&begun.elapsed()), "alone after a moment");
    }

    #[tokio::test]
    async fn failed_transactions_fail_all_their_calls_only() {
        // SQLite's own rollback when the disk is full, and an error that only the commit detects.
        let undone = "ROLLBACK";
        let unfit = "PRAGMA defer_foreign_keys = ON; INSERT INTO accounts (user, password) VALUES ('nobody', '')";
        for spoil in [undone, unfit] {
            let folder = tempfile::tempdir().expect("a folder");
            let writer = Writer::start(&SqliteOptions::new(folder.path().join("l.db"))).expect("it starts");
            let spoiler = writer.lane.call(move |db| db.execute_batch(spoil));
            let (one, spoilt) = tokio::join!(writer.lane.call(|db| add(db, "one")), spoiler);
            assert!(spoilt.is_err(), "{spoil}");
            let users = "SELECT count(*) FROM users";
            let kept = writer.lane.call(|db| db.query_row(users, [], |row| row.get::<_, i64>(0))).await;
            // The first call may have run in a transaction of its own. Its row exists if and only if the call
            // succeeded.
            assert_eq!(kept.expect("a count"), i64::from(one.is_ok()), "{spoil}");
            assert!(writer.lane.call(|db| add(db, "two")).await.is_ok(), "{spoil}");
        }
    }
}
