//! Export and import of an SQLite file.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::{Table, TransferError, TransferStore, refuse_beside_nodes};
use crate::ledger::{LedgerError, Result};

/// How long a statement waits for another process's lock.
const LOCK_WAIT: Duration = Duration::from_secs(10);

/// A connection to the file of a ledger. Its calls block: commands use it, servers do not.
pub struct SqliteTransfer(Connection);

impl SqliteTransfer {
    /// Opens the file of a ledger to read it as it is now.
    ///
    /// # Errors
    /// If it is missing or cannot be read.
    pub fn reading(path: &Path) -> Result<Self> {
        let db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        db.execute_batch("PRAGMA query_only = on; BEGIN").map_err(|error| failed(&error))?;
        Ok(Self(db))
    }

    /// Opens the file of a ledger, which has its schema, to insert rows.
    ///
    /// # Errors
    /// If it cannot be opened, or a server uses it.
    pub fn writing(path: &Path) -> Result<Self> {
        let db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        db.execute_batch("PRAGMA foreign_keys = on").map_err(|error| failed(&error))?;
        refuse_beside_nodes(nodes(&db)?)?;
        Ok(Self(db))
    }
}

/// The number of nodes that are alive.
fn nodes(db: &Connection) -> Result<i64> {
    let sql = "SELECT count(*) FROM nodes WHERE lease_until > unixepoch() * 1000";
    db.query_row(sql, [], |row| row.get(0)).map_err(|error| failed(&error))
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection> {
    let db = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(|error| LedgerError::Failed(format!("{}: {error}", path.display())))?;
    db.busy_timeout(LOCK_WAIT).map_err(|error| failed(&error))?;
    Ok(db)
}

fn failed(error: &rusqlite::Error) -> LedgerError {
    LedgerError::Failed(error.to_string())
}

#[async_trait::async_trait]
impl TransferStore for SqliteTransfer {
    async fn read(&mut self, table: &Table, out: &mut (dyn Write + Send)) -> std::result::Result<u64, TransferError> {
        let mut statement = self.0.prepare(&table.sqlite_select()).map_err(|error| failed(&error))?;
        let mut rows = statement.query([]).map_err(|error| failed(&error))?;
        let mut count = 0;
        while let Some(row) = rows.next().map_err(|error| failed(&error))? {
            let line = row.get_ref(0).and_then(|value| Ok(value.as_str()?)).map_err(|error| failed(&error))?;
            writeln!(out, "{line}")?;
            count += 1;
        }
        Ok(count)
    }

    async fn insert(&mut self, table: &Table, rows: &str) -> Result<u64> {
        let transaction = self.0.transaction().map_err(|error| failed(&error))?;
        refuse_beside_nodes(nodes(&transaction)?)?;
        let insert = table.sqlite_insert();
        let inserted = transaction.execute(&insert, [rows]).map_err(|error| failed(&error))?;
        transaction.commit().map_err(|error| failed(&error))?;
        Ok(inserted as u64)
    }

    async fn finish_import(&mut self) -> Result<()> {
        // Other numbers continue behind the greatest one that was ever inserted. Processed events are gone, and
        // notifications remember the last event they contain; devices remember notifications.
        const SEQUENCES: &str = "\
            INSERT INTO sqlite_sequence (name, seq) SELECT column1, 0 FROM (VALUES ('events'), ('notifications'))
            WHERE column1 NOT IN (SELECT name FROM sqlite_sequence);
            UPDATE sqlite_sequence SET seq = max(seq, (SELECT coalesce(max(event), 0) FROM notification_people))
            WHERE name = 'events';
            UPDATE sqlite_sequence SET seq = max(seq, (SELECT coalesce(max(item), 0) FROM push_queue
                WHERE kind <> 'post')) WHERE name = 'notifications'";
        self.0.execute_batch(SEQUENCES).map_err(|error| failed(&error))
    }
}
