//! Export and import of a PostgreSQL database.

use std::borrow::Cow;
use std::io::Write;
use std::pin::pin;

use futures::TryStreamExt as _;
use tokio_postgres::Client;

use super::{Table, TransferError, TransferStore, refuse_beside_nodes};
use crate::ledger::postgres::{PostgresOptions, connect_for_command};
use crate::ledger::{LedgerError, Result};

/// Sets the numbers of later rows behind those of the imported ones, and behind those that they remember: processed
/// events are gone, and notifications remember the last event they contain. Numbers of likes have the place in a batch
/// in their last 20 bits.
const SEQUENCES: &str = "\
    SELECT setval('follows_seq', greatest((SELECT max(seq) FROM follows), (SELECT last_value FROM follows_seq)));
    SELECT setval('likes_seq', greatest((SELECT (max(seq) >> 20) + 1 FROM likes), (SELECT last_value FROM likes_seq)));
    SELECT setval('favourites_seq',
        greatest((SELECT max(seq) FROM favourites), (SELECT last_value FROM favourites_seq)));
    SELECT setval('notification_ids', greatest((SELECT max(id) FROM notifications),
        (SELECT max(item) FROM push_queue WHERE kind <> 'post'), (SELECT last_value FROM notification_ids)));
    SELECT setval(pg_get_serial_sequence('events', 'seq'), greatest(1, (SELECT max(seq) FROM events),
        (SELECT max(event) FROM notification_people),
        pg_sequence_last_value(pg_get_serial_sequence('events', 'seq')::regclass)));
    SELECT setval(pg_get_serial_sequence('quarantine', 'id'), greatest(1, (SELECT max(id) FROM quarantine),
        pg_sequence_last_value(pg_get_serial_sequence('quarantine', 'id')::regclass)));
    SELECT setval(pg_get_serial_sequence('reports', 'id'), greatest(1, (SELECT max(id) FROM reports),
        pg_sequence_last_value(pg_get_serial_sequence('reports', 'id')::regclass)));
    SELECT setval(pg_get_serial_sequence('filters', 'id'), greatest(1, (SELECT max(id) FROM filters),
        pg_sequence_last_value(pg_get_serial_sequence('filters', 'id')::regclass)));
    SELECT setval(pg_get_serial_sequence('lists', 'id'), greatest(1, (SELECT max(id) FROM lists),
        pg_sequence_last_value(pg_get_serial_sequence('lists', 'id')::regclass)));
    SELECT setval(pg_get_serial_sequence('follow_requests', 'seq'), greatest(1, (SELECT max(seq) FROM follow_requests),
        pg_sequence_last_value(pg_get_serial_sequence('follow_requests', 'seq')::regclass)));
    UPDATE revocations_end SET seq = greatest(seq, (SELECT max(seq) FROM revocations),
        (SELECT max(seq) FROM standings));
    ANALYZE";

/// The number of nodes that are alive.
const NODES: &str = "SELECT count(*) FROM nodes WHERE lease_until > extract(epoch FROM clock_timestamp()) * 1000";

/// A connection to a database of a ledger, in a transaction for an export.
pub struct PostgresTransfer(Client);

impl PostgresTransfer {
    /// Connects to read the database as it is now.
    ///
    /// # Errors
    /// If it cannot be reached.
    pub async fn reading(options: &PostgresOptions) -> Result<Self> {
        let client = connect_for_command(options).await?;
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 0";
        client.batch_execute(begin).await.map_err(|error| failed(&error))?;
        Ok(Self(client))
    }

    /// Connects to a database, which has its schema, to insert rows.
    ///
    /// # Errors
    /// If it cannot be reached, or a node uses it.
    pub async fn writing(options: &PostgresOptions) -> Result<Self> {
        let client = connect_for_command(options).await?;
        let nodes = client.query_typed_one(NODES, &[]).await.map_err(|error| failed(&error))?;
        refuse_beside_nodes(nodes.get(0))?;
        Ok(Self(client))
    }
}

/// Rows as JSON without the NUL that SQLite has in its texts: PostgreSQL refuses it, and a server that writes it there
/// replaces it in the same way.
fn without_nul(rows: &str) -> Cow<'_, str> {
    const NUL: &str = "\\u0000";
    if !rows.contains(NUL) {
        return Cow::Borrowed(rows);
    }
    let mut plain = String::with_capacity(rows.len());
    let mut rest = rows;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        plain.push_str(before);
        // A backslash is an escape, too: what follows it is text.
        let length = if escape.starts_with(NUL) { NUL.len() } else { 2.min(escape.len()) };
        plain.push_str(if escape.starts_with(NUL) { "\\ufffd" } else { &escape[..length] });
        rest = &escape[length..];
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

fn failed(error: &tokio_postgres::Error) -> LedgerError {
    crate::ledger::postgres::classified(error)
}

#[async_trait::async_trait]
impl TransferStore for PostgresTransfer {
    async fn read(&mut self, table: &Table, out: &mut (dyn Write + Send)) -> std::result::Result<u64, TransferError> {
        let rows = self.0.query_typed_raw(&table.postgres_select(), Vec::<(i64, _)>::new()).await;
        let mut rows = pin!(rows.map_err(|error| failed(&error))?);
        let mut count = 0;
        while let Some(row) = rows.try_next().await.map_err(|error| failed(&error))? {
            let line: &str = row.try_get(0).map_err(|error| failed(&error))?;
            writeln!(out, "{line}")?;
            count += 1;
        }
        Ok(count)
    }

    async fn insert(&mut self, table: &Table, rows: &str) -> Result<u64> {
        let rows = without_nul(rows);
        let rows: &str = &rows;
        let inserting = async {
            let transaction = self.0.transaction().await?;
            // A batch is a scan of its rows, and may take longer than a call of a server.
            transaction.batch_execute("SET LOCAL statement_timeout = '60s'; SET LOCAL lock_timeout = '10s'").await?;
            let nodes: i64 = transaction.query_typed_one(NODES, &[]).await?.get(0);
            if nodes > 0 {
                return Ok(None);
            }
            let mut new = 0;
            for (number, sql) in table.postgres_inserts().iter().enumerate() {
                let inserted = transaction.execute_typed(sql, &[(&rows, tokio_postgres::types::Type::TEXT)]).await?;
                if number == 0 {
                    new = inserted;
                }
            }
            transaction.commit().await?;
            Ok(Some(new))
        };
        let new = inserting.await.map_err(|error: tokio_postgres::Error| failed(&error))?;
        new.ok_or_else(|| LedgerError::Failed(super::NODES_RUN.to_owned()))
    }

    async fn finish_import(&mut self) -> Result<()> {
        // In a transaction, so that nothing stays on the connection of a pooler.
        let sequences = format!("BEGIN; SET LOCAL statement_timeout = 0; {SEQUENCES}; COMMIT");
        self.0.batch_execute(&sequences).await.map_err(|error| failed(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nul_in_rows_is_replaced() {
        for (rows, expected) in [
            (r#"[{"a":"x"}]"#, r#"[{"a":"x"}]"#),
            (r#"["a\u0000b\"\u0000"]"#, r#"["a\ufffdb\"\ufffd"]"#),
            (r#"["\\u0000 \\\u0000 é"]"#, r#"["\\u0000 \\\ufffd é"]"#),
            (r#"["\n\u0001\u0000"]"#, r#"["\n\u0001\ufffd"]"#),
        ] {
            assert_eq!(without_nul(rows), expected);
        }
    }
}
