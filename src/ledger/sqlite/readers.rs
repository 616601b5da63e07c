//! The threads that read, each with a read-only connection: WAL lets them read while the writer writes.

use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection;

use super::lane::{Lane, QUEUE, Queue};
use super::open::{self, SqliteOptions};
use crate::ledger::Result;

/// Opens the connections and starts the threads. The file must have been opened for writing before.
pub(super) fn start(options: &SqliteOptions) -> Result<Arc<Lane>> {
    let (lane, queue) = Lane::new(QUEUE, options.timeout);
    let queue = Arc::new(Mutex::new(queue));
    for number in 1..=options.readers.max(1) {
        let db = open::reader(options)?;
        let queue = Arc::clone(&queue);
        lane.spawn(&format!("ledger-reader-{number}"), move || serve(&db, &queue))?;
    }
    Ok(Arc::new(lane))
}

fn serve(db: &Connection, queue: &Mutex<Queue>) {
    loop {
        // One idle thread waits for work, the others for the lock.
        let next = queue.lock().recv();
        let Ok(mut work) = next else { return };
        if !work.abandoned() {
            work.run(db);
            work.answer(None);
        }
    }
}
