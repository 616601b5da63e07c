//! The identity of the data in the file, which detects a restored ledger.

use async_trait::async_trait;
use rusqlite::{Connection, params};

use super::{SqliteLedger, integer, natural};
use crate::ledger::{JOBS, Lineage, LineageStore, NUMBERS_SKIPPED, PULLED, Result};

/// The kinds of numbers and their tables.
const NUMBERS: [(&str, &str); 2] = [(JOBS, "jobs"), (PULLED, "pulled")];

#[async_trait]
impl LineageStore for SqliteLedger {
    async fn lineage(&self) -> Result<Lineage> {
        self.read(lineage).await
    }

    async fn begin_incarnation(&self, from: &str, to: &str, least: &[(&'static str, u64)]) -> Result<bool> {
        let from = from.to_owned();
        let to = to.to_owned();
        let least = least.to_vec();
        self.write(move |db| begin(db, &from, &to, &least)).await
    }

    /// An open file is never replaced: a restore refuses a file that a process uses.
    async fn replaced(&self) {
        std::future::pending::<()>().await;
    }

    fn begin_comparison(&self) -> u64 {
        0
    }

    fn admit(&self, _: u64) -> bool {
        true
    }
}

fn lineage(db: &Connection) -> rusqlite::Result<Lineage> {
    let snapshot = db.unchecked_transaction()?;
    let incarnation = snapshot.query_row("SELECT value FROM meta WHERE name = 'incarnation'", [], |row| row.get(0))?;
    let mut numbers = Vec::new();
    for (kind, table) in NUMBERS {
        let sql = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?1";
        numbers.push((kind, natural(snapshot.prepare_cached(sql)?.query_row([table], |row| row.get(0))?)));
    }
    let mut statement = snapshot.prepare_cached("SELECT partition, position FROM like_positions")?;
    let positions = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<rusqlite::Result<_>>()?;
    Ok(Lineage { incarnation, place: String::new(), numbers, positions })
}

pub(super) fn begin(db: &Connection, from: &str, to: &str, least: &[(&str, u64)]) -> rusqlite::Result<bool> {
    let sql = "UPDATE meta SET value = ?2 WHERE name = 'incarnation' AND value = ?1";
    if db.execute(sql, params![from, to])? == 0 {
        return Ok(false);
    }
    // The broker does not record the numbers of the other tables, but nodes follow some of these logs by number, and
    // clients know notifications. More of these than of others may have been lost.
    let begun = "INSERT INTO sqlite_sequence (name, seq) SELECT 'notifications', 0 \
                 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'notifications')";
    db.execute(begun, [])?;
    let skip = "UPDATE sqlite_sequence SET seq = seq + ?1 * iif(name = 'notifications', 1000, 1) \
                WHERE name NOT IN ('jobs', 'pulled')";
    db.execute(skip, [integer(NUMBERS_SKIPPED)])?;
    db.execute("UPDATE outlet_end SET last = last + ?1", [integer(NUMBERS_SKIPPED)])?;
    for (kind, table) in NUMBERS {
        let known = least.iter().find(|(name, _)| *name == kind).map_or(0, |(_, number)| *number);
        let change = "UPDATE sqlite_sequence SET seq = max(seq, ?2) + ?3 WHERE name = ?1";
        let known = integer(known);
        let skipped = integer(NUMBERS_SKIPPED);
        if db.execute(change, params![table, known, skipped])? == 0 {
            // The table has no row in `sqlite_sequence` before its first insert.
            db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?1, ?2 + ?3)", params![table, known, skipped])?;
        }
    }
    Ok(true)
}
