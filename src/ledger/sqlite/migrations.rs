//! Migrations: update the schema of a file when it is opened.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::errors::explain;
use crate::ledger::{LedgerError, Result, outdated};

/// The migrations. The position in the list, from 1, is the schema version. Migrations are added, never changed.
const MIGRATIONS: &[&str] = &[
    include_str!("../migrations/sqlite/0001_initial.sql"),
    include_str!("../migrations/sqlite/0002_composed_timelines.sql"),
];

const VERSIONS: &str =
    "CREATE TABLE IF NOT EXISTS schema_migrations (version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL)";

/// Applies the missing migrations, all or none.
///
/// # Errors
///
/// As for [`check_version`].
pub(super) fn migrate(db: &mut Connection, path: &Path) -> Result<()> {
    let wrong = |error: rusqlite::Error| explain(path, &error);
    // If several processes start at once, the first one applies the migrations; the others wait here and find them
    // applied.
    let transaction = db.transaction_with_behavior(TransactionBehavior::Exclusive).map_err(wrong)?;
    let current = check_version(&transaction, path)?;
    let apply = || {
        transaction.execute_batch(VERSIONS)?;
        for (version, sql) in (1_i64..).zip(MIGRATIONS).skip(current) {
            transaction.execute_batch(sql)?;
            let record = "INSERT INTO schema_migrations VALUES (?1, CAST(unixepoch('subsec') * 1000 AS INTEGER))";
            transaction.execute(record, [version])?;
        }
        Ok(())
    };
    apply().map_err(wrong)?;
    transaction.commit().map_err(wrong)
}

/// The version of the schema; 0 if the file has none.
///
/// # Errors
///
/// Rejects the schema of a newer program.
pub(super) fn check_version(db: &Connection, path: &Path) -> Result<usize> {
    let wrong = |error: rusqlite::Error| explain(path, &error);
    if !is_ledger(db).map_err(wrong)? {
        return Ok(0);
    }
    let newest = "SELECT coalesce(max(version), 0) FROM schema_migrations";
    let current = db.query_row(newest, [], |row| row.get::<_, u32>(0)).map_err(wrong)? as usize;
    let known = MIGRATIONS.len();
    if current > known {
        let why = format!("its schema is version {current}, and this program knows {known} only: a newer one made it");
        return Err(LedgerError::Failed(format!("{}: {why}", path.display())));
    }
    Ok(current)
}

/// Refuses a schema of another version than this program's.
///
/// # Errors
///
/// Names both versions.
pub(super) fn check_current(db: &Connection, path: &Path) -> Result<()> {
    let current = check_version(db, path)?;
    if current == MIGRATIONS.len() {
        return Ok(());
    }
    Err(LedgerError::Failed(format!("{}: {}", path.display(), outdated(current, MIGRATIONS.len()))))
}

/// Whether the file is a ledger, of any version.
pub(super) fn is_ledger(db: &Connection) -> rusqlite::Result<bool> {
    db.prepare("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'schema_migrations'")?.exists([])
}
