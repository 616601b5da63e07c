//! The functions of the database, in one file for each concept. Each startup applies the files whose text changed.
//!
//! During an upgrade, nodes of different versions share the functions, so signatures never change: a function with
//! other parameters or results gets another name. Each file begins with its revision, which grows with every change. A
//! node never replaces a later revision by its own.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};
use tokio_postgres::{Client, Error};

/// A file of functions.
pub(super) struct FunctionFile {
    pub(super) name: &'static str,
    /// Begins with `-- revision: N`. Runs in the transaction of the migrations: every statement is a
    /// `CREATE OR REPLACE FUNCTION`.
    pub(super) sql: &'static str,
}

macro_rules! function_files {
    ($($name:literal),* $(,)?) => {
        &[$(FunctionFile { name: $name, sql: include_str!(concat!("../functions/", $name, ".sql")) }),*]
    };
}

/// All files, in the order in which they are applied.
pub(super) const FUNCTIONS: &[FunctionFile] = function_files![
    "users",
    "devices",
    "revocations",
    "work",
    "jobs",
    "follows",
    "restrictions",
    "filters",
    "lists",
    "topics",
    "audience",
    "posts",
    "reposts",
    "comments",
    "moderation",
    "likes",
    "favourites",
    "notifications",
    "pushes",
    "events",
    "outlet",
    "pull_log",
    "idempotency",
    "erasures",
    "lineage",
    "nodes",
];

impl FunctionFile {
    /// The revision in the first line; 0 if it is missing.
    pub(super) fn revision(&self) -> i32 {
        let line = self.sql.lines().next().unwrap_or_default();
        line.strip_prefix("-- revision: ").and_then(|number| number.trim().parse().ok()).unwrap_or(0)
    }

    /// The SHA-256 hash of the text, in hexadecimal.
    fn hash(&self) -> String {
        Sha256::digest(self.sql).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Applies the files that differ from those in the database. Returns their names. The caller is in a
/// transaction that holds the migration lock.
pub(super) async fn apply(client: &Client, files: &[FunctionFile]) -> Result<Vec<&'static str>, Error> {
    let mut applied_files = HashMap::new();
    for row in client.query("SELECT file, revision, sha256 FROM schema_functions", &[]).await? {
        applied_files.insert(row.try_get::<_, String>(0)?, (row.try_get::<_, i32>(1)?, row.try_get::<_, String>(2)?));
    }
    let mut changed = Vec::new();
    for file in files {
        let revision = file.revision();
        let hash = file.hash();
        let is_current = |(known, known_hash): &(i32, String)| *known > revision || *known_hash == hash;
        if applied_files.get(file.name).is_some_and(is_current) {
            continue;
        }
        client.batch_execute(file.sql).await?;
        let sql = "INSERT INTO schema_functions (file, revision, sha256, applied_at) \
                   VALUES ($1, $2, $3, (extract(epoch FROM now()) * 1000)::bigint) \
                   ON CONFLICT (file) DO UPDATE SET revision = excluded.revision, sha256 = excluded.sha256, \
                       applied_at = excluded.applied_at";
        client.execute(sql, &[&file.name, &revision, &hash]).await?;
        changed.push(file.name);
    }
    Ok(changed)
}
