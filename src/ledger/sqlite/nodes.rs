//! The live nodes, and the record of the broker.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::work::clock;
use super::{SqliteLedger, integer, json_text, natural};
use crate::ledger::nodes::liveness_millis;
use crate::ledger::{LedgerError, LedgerIdentity, NewNode, NodeRow, NodeStore, Partner, PartnerChange, Result};
use crate::model::Millis;

/// The rows of nodes that ended longer ago than this, in milliseconds, are removed.
const KEPT: i64 = 3_600_000;

#[async_trait]
impl NodeStore for SqliteLedger {
    fn place(&self) -> String {
        self.place.clone()
    }

    async fn identity(&self) -> Result<LedgerIdentity> {
        let (id, record, nodes) = self.read(identity).await?;
        let unreadable = |error| LedgerError::Failed(format!("the record of the broker: {error}"));
        let broker = record.map(|text| serde_json::from_str(&text).map_err(unreadable)).transpose()?;
        Ok(LedgerIdentity { id, broker, nodes })
    }

    async fn register_node(&self, node: &NewNode, change: &PartnerChange) -> Result<Option<Millis>> {
        let (node, change) = (node.clone(), change.clone());
        self.write(move |db| register(db, &node, &change)).await
    }

    async fn adopt_broker(&self, change: &PartnerChange) -> Result<bool> {
        let change = change.clone();
        self.write(move |db| adopt(db, &change)).await
    }

    async fn renew_node(&self, node: &NewNode) -> Result<Option<Millis>> {
        let node = node.clone();
        self.write(move |db| {
            let sql = "UPDATE nodes SET lease_until = ?2, description = ?3 WHERE id = ?1";
            let until = lease_from(clock());
            let row = params![node.id, until, json_text(&node.description)?];
            let renewed = db.prepare_cached(sql)?.execute(row)? > 0;
            Ok(renewed.then(|| natural(until)))
        })
        .await
    }

    async fn remove_node(&self, id: &str, unused: Option<&Partner>) -> Result<()> {
        let id = id.to_owned();
        let unused = unused.cloned();
        self.write(move |db| {
            db.prepare_cached("DELETE FROM nodes WHERE id = ?1")?.execute([id])?;
            if let Some(unused) = unused {
                let sql = "DELETE FROM meta WHERE name = 'broker' AND value = ?1";
                db.prepare_cached(sql)?.execute([json_text(&unused)?])?;
            }
            Ok(())
        })
        .await
    }
}

fn lease_from(clock: i64) -> i64 {
    clock.saturating_add(integer(liveness_millis()))
}

fn identity(db: &Connection) -> rusqlite::Result<(String, Option<String>, Vec<NodeRow>)> {
    let snapshot = db.unchecked_transaction()?;
    let id = snapshot.query_row("SELECT value FROM meta WHERE name = 'ledger_id'", [], |row| row.get(0))?;
    let record = record(&snapshot)?;
    let mut statement =
        snapshot.prepare_cached("SELECT id, broker, description, lease_until FROM nodes ORDER BY id")?;
    let now = clock();
    let node = |row: &rusqlite::Row<'_>| {
        let lease_until: i64 = row.get(3)?;
        Ok(NodeRow {
            id: row.get(0)?,
            broker: row.get(1)?,
            // Of a newer version: only its name is missing.
            description: serde_json::from_str(&row.get::<_, String>(2)?).unwrap_or_default(),
            lease_until: natural(lease_until),
            // A lease that ends later is from before the clock was set back.
            is_live: lease_until > now && lease_until <= lease_from(now),
        })
    };
    let nodes = statement.query_map([], node)?.collect::<rusqlite::Result<_>>()?;
    Ok((id, record, nodes))
}

fn record(db: &Connection) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT value FROM meta WHERE name = 'broker'";
    db.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()
}

/// Writes the new record. `false`, and nothing changes, if the record is not the expected one.
fn change_record(db: &Connection, change: &PartnerChange) -> rusqlite::Result<bool> {
    let expected = change.expected.as_ref().map(json_text).transpose()?;
    if record(db)? != expected {
        return Ok(false);
    }
    let sql = "INSERT INTO meta (name, value) VALUES ('broker', ?1) ON CONFLICT DO UPDATE SET value = excluded.value";
    db.prepare_cached(sql)?.execute([json_text(&change.partner)?])?;
    Ok(true)
}

fn register(db: &Connection, node: &NewNode, change: &PartnerChange) -> rusqlite::Result<Option<Millis>> {
    let now = clock();
    let broker = &change.partner.id;
    let sql = "SELECT 1 FROM nodes WHERE broker <> ?1 AND lease_until BETWEEN ?2 AND ?3";
    if db.prepare_cached(sql)?.exists(params![broker, now + 1, lease_from(now)])? || !change_record(db, change)? {
        return Ok(None);
    }
    let sql = "DELETE FROM nodes WHERE broker <> ?1 OR lease_until <= ?2";
    db.prepare_cached(sql)?.execute(params![broker, now - KEPT])?;
    let sql = "INSERT INTO nodes (id, broker, description, lease_until) VALUES (?1, ?2, ?3, ?4) \
               ON CONFLICT DO UPDATE SET broker = excluded.broker, description = excluded.description, \
                   lease_until = excluded.lease_until";
    let row = params![node.id, broker, json_text(&node.description)?, lease_from(now)];
    db.prepare_cached(sql)?.execute(row)?;
    Ok(Some(natural(lease_from(now))))
}

fn adopt(db: &Connection, change: &PartnerChange) -> rusqlite::Result<bool> {
    let now = clock();
    let sql = "SELECT 1 FROM nodes WHERE lease_until BETWEEN ?1 AND ?2";
    if db.prepare_cached(sql)?.exists([now + 1, lease_from(now)])? || !change_record(db, change)? {
        return Ok(false);
    }
    db.prepare_cached("DELETE FROM nodes")?.execute([])?;
    Ok(true)
}
