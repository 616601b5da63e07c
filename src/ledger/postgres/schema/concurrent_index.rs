//! Indexes that are built while the tables are in use.
//!
//! A migration whose first line is `-- concurrent` consists of `CREATE [UNIQUE] INDEX CONCURRENTLY name ON table …`
//! statements. They run outside a transaction. If one is interrupted, PostgreSQL leaves an invalid index: the next
//! startup drops it, builds it again, and skips the complete indexes.
//!
//! PostgreSQL cannot build an index of a partitioned table concurrently. The index is therefore built on each partition
//! first; the index of the parent then attaches these and needs no build.

use tokio_postgres::{Client, Error};

/// The first line of a migration that builds indexes concurrently.
const HEADER: &str = "-- concurrent";

/// An index to build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConcurrentIndex {
    unique: bool,
    name: String,
    table: String,
    /// The rest of the statement after the table name: columns and condition.
    definition: String,
}

/// The indexes of a migration. `None` for an ordinary migration.
///
/// # Errors
///
/// Returns the first statement that does not have the form above.
pub(super) fn parse(sql: &str) -> Result<Option<Vec<ConcurrentIndex>>, String> {
    if sql.lines().next().map(str::trim) != Some(HEADER) {
        return Ok(None);
    }
    let code: Vec<&str> = sql.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
    let code = code.join("\n");
    let statements = code.split(';').map(str::trim).filter(|statement| !statement.is_empty());
    let indexes = statements.map(|statement| ConcurrentIndex::parse(statement).ok_or_else(|| statement.to_owned()));
    indexes.collect::<Result<_, _>>().map(Some)
}

impl ConcurrentIndex {
    fn parse(statement: &str) -> Option<Self> {
        let plain = statement.strip_prefix("CREATE INDEX CONCURRENTLY ");
        let unique = statement.strip_prefix("CREATE UNIQUE INDEX CONCURRENTLY ");
        let (name, rest) = plain.or(unique)?.split_once(" ON ")?;
        let end = rest.find(|c: char| c.is_whitespace() || c == '(')?;
        let (table, definition) = rest.split_at(end);
        let is_name = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        (is_name(name) && is_name(table)).then(|| Self {
            unique: unique.is_some(),
            name: name.to_owned(),
            table: table.to_owned(),
            definition: definition.to_owned(),
        })
    }

    /// Builds the index, or the rest of it after an interrupted attempt.
    pub(super) async fn build(&self, client: &Client) -> Result<(), Error> {
        let partitions = "SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid \
                          WHERE i.inhparent = to_regclass($1) ORDER BY c.relname";
        let partitions = client.query(partitions, &[&self.table]).await?;
        let concurrently = if partitions.is_empty() { " CONCURRENTLY" } else { "" };
        for row in &partitions {
            let partition: String = row.try_get(0)?;
            let suffix = partition.strip_prefix(&self.table).unwrap_or(&partition);
            self.build_one(client, " CONCURRENTLY", &format!("{}{suffix}", self.name), &partition).await?;
        }
        self.build_one(client, concurrently, &self.name, &self.table).await
    }

    /// Creates one index, unless a complete one exists. Drops an invalid index of an interrupted build.
    async fn build_one(&self, client: &Client, concurrently: &str, name: &str, table: &str) -> Result<(), Error> {
        let state = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)";
        match client.query_opt(state, &[&name]).await?.map(|row| row.try_get(0)).transpose()? {
            Some(true) => return Ok(()),
            Some(false) => {
                tracing::warn!(index = name, "drops an index that is incomplete, and builds it again");
                client.batch_execute(&format!("DROP INDEX{concurrently} {name}")).await?;
            }
            None => {}
        }
        let unique = if self.unique { " UNIQUE" } else { "" };
        let definition = &self.definition;
        tracing::info!(index = name, table, "builds an index");
        client.batch_execute(&format!("CREATE{unique} INDEX{concurrently} {name} ON {table}{definition}")).await
    }
}
