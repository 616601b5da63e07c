//! Migrations: update the schema of a file when it is opened.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::errors::explain;
use crate::ledger::schema_version::old_numbering;
use crate::ledger::{LedgerError, Result};

/// The migrations. The position in the list, from 1, is the schema version. Migrations are added, never changed.
const MIGRATIONS: &[&str] = &[
    include_str!("../migrations/sqlite/0001_initial.sql"),
    include_str!("../migrations/sqlite/0002_recent_posts.sql"),
    include_str!("../migrations/sqlite/0003_restriction_lists.sql"),
    include_str!("../migrations/sqlite/0004_profiles.sql"),
    include_str!("../migrations/sqlite/0005_comment_edits.sql"),
    include_str!("../migrations/sqlite/0006_comment_likers.sql"),
    include_str!("../migrations/sqlite/0007_devices.sql"),
    include_str!("../migrations/sqlite/0008_push_queue.sql"),
    include_str!("../migrations/sqlite/0009_outlet.sql"),
    include_str!("../migrations/sqlite/0010_post_alert_jobs.sql"),
    include_str!("../migrations/sqlite/0011_outlet_owners.sql"),
    include_str!("../migrations/sqlite/0012_push_first_tried.sql"),
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
/// Rejects the schema of a newer program, and a schema with the numbers of the development versions.
pub(super) fn check_version(db: &Connection, path: &Path) -> Result<usize> {
    let wrong = |error: rusqlite::Error| explain(path, &error);
    let known = MIGRATIONS.len();
    let newest = |table: &str| {
        db.query_row(&format!("SELECT coalesce(max(version), 0) FROM {table}"), [], |row| row.get::<_, u32>(0))
    };
    if !has_table(db, "schema_migrations").map_err(wrong)? {
        if has_table(db, "migrations").map_err(wrong)? {
            let why = old_numbering(newest("migrations").map_err(wrong)?.into());
            return Err(LedgerError::Failed(format!("{}: {why}", path.display())));
        }
        return Ok(0);
    }
    let current = newest("schema_migrations").map_err(wrong)? as usize;
    if current > known {
        let why = format!("its schema is version {current}, and this program knows {known} only: a newer one made it");
        return Err(LedgerError::Failed(format!("{}: {why}", path.display())));
    }
    Ok(current)
}

/// Whether the file is a ledger, of any version.
pub(super) fn is_ledger(db: &Connection) -> rusqlite::Result<bool> {
    Ok(has_table(db, "schema_migrations")? || has_table(db, "migrations")?)
}

fn has_table(db: &Connection, name: &str) -> rusqlite::Result<bool> {
    db.prepare("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1")?.exists([name])
}
