//! The threads that read. Each has a read-only connection; WAL lets them read while the writer writes.

use std::sync::Arc;

use rusqlite::Connection;

use super::lane::{Lane, LaneQueue, QUEUE_CAPACITY};
use super::open::{self, SqliteOptions};
use crate::ledger::Result;

/// Opens connections and starts a thread for each. The writer must have opened the file before.
pub(super) fn start(options: &SqliteOptions, name: &str, threads: usize) -> Result<Arc<Lane>> {
    let (lane, queue) = Lane::new(QUEUE_CAPACITY, options.timeout);
    for number in 1..=threads {
        let db = open::reader(options)?;
        let queue = Arc::clone(&queue);
        lane.spawn("ledger_readers", &format!("{name}-{number}"), move || serve(&db, &queue))?;
    }
    Ok(Arc::new(lane))
}

fn serve(db: &Connection, queue: &LaneQueue) {
    while let Some(mut work) = queue.pop() {
        if !work.abandoned() {
            work.run(db);
            work.answer(None);
        }
    }
}
