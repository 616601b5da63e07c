//! Export and import of an SQLite file.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::{Table, TransferError, TransferStore};
use crate::ledger::{LedgerError, Result};
use crate::model::Millis;

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
    pub fn writing(path: &Path, now: Millis) -> Result<Self> {
        let db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        db.execute_batch("PRAGMA foreign_keys = on").map_err(|error| failed(&error))?;
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let nodes: i64 = db
            .query_row("SELECT count(*) FROM nodes WHERE lease_until > ?1", [now], |row| row.get(0))
            .map_err(|error| failed(&error))?;
        match nodes {
            0 => Ok(Self(db)),
            _ => Err(LedgerError::Failed(super::NODES_RUN.to_owned())),
        }
    }
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
        let inserted = self.0.prepare_cached(&table.sqlite_insert()).and_then(|mut insert| insert.execute([rows]));
        inserted.map(|rows| rows as u64).map_err(|error| failed(&error))
    }

    async fn finish_import(&mut self) -> Result<()> {
        // Numbers continue behind the greatest one that was ever inserted.
        Ok(())
    }
}
