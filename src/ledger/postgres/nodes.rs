//! The live nodes, and the record of the broker. The calls also work before the ledger was compared with the broker: a
//! node is alive meanwhile.

use async_trait::async_trait;

use super::PostgresLedger;
use super::columns::{at, integer, json_at, json_text, natural_at, one};
use crate::ledger::nodes::liveness_millis;
use crate::ledger::{LedgerIdentity, NewNode, NodeStore, Partner, PartnerChange, Result};
use crate::model::Millis;

const IDENTITY: &str = "\
    WITH clock AS MATERIALIZED (SELECT feedline_clock() AS now)
    SELECT (SELECT value FROM meta WHERE name = 'ledger_id'),
        coalesce((SELECT value FROM meta WHERE name = 'broker'), 'null'),
        coalesce((
            SELECT json_agg(json_build_object('id', id, 'broker', broker, 'description', description::json,
                'lease_until', lease_until, 'is_live', lease_until > now AND lease_until <= now + $1) ORDER BY id)
            FROM nodes, clock
        ), '[]')::text";

const REGISTER: &str = "SELECT feedline_register_node($1, $2, $3, $4, $5, $6)";

const RENEW: &str = "SELECT feedline_renew_node($1, $2, $3)";

const REMOVE: &str = "\
    WITH removed AS (DELETE FROM nodes WHERE id = $1)
    DELETE FROM meta WHERE name = 'broker' AND value = $2";

impl PostgresLedger {
    async fn register(&self, node: Option<&NewNode>, change: &PartnerChange) -> Result<Option<Millis>> {
        let description = node.map(|node| json_text(&node.description)).transpose()?;
        let expected = change.expected.as_ref().map(json_text).transpose()?;
        let record = json_text(&change.partner)?;
        let (id, broker) = (node.map(|node| &*node.id), &change.partner.id);
        let liveness = integer(liveness_millis());
        let rows = self.pool.inspect(REGISTER, &[&id, &description, broker, &expected, &record, &liveness]).await?;
        Ok(Some(natural_at(one(&rows)?, 0)?).filter(|until| *until > 0))
    }
}

#[async_trait]
impl NodeStore for PostgresLedger {
    fn place(&self) -> String {
        self.place.clone()
    }

    async fn identity(&self) -> Result<LedgerIdentity> {
        let rows = self.pool.inspect(IDENTITY, &[&integer(liveness_millis())]).await?;
        let row = one(&rows)?;
        Ok(LedgerIdentity { id: at(row, 0)?, broker: json_at(row, 1)?, nodes: json_at(row, 2)? })
    }

    async fn register_node(&self, node: &NewNode, change: &PartnerChange) -> Result<Option<Millis>> {
        self.register(Some(node), change).await
    }

    async fn adopt_broker(&self, change: &PartnerChange) -> Result<bool> {
        Ok(self.register(None, change).await?.is_some())
    }

    async fn renew_node(&self, node: &NewNode) -> Result<Option<Millis>> {
        let description = json_text(&node.description)?;
        let rows = self.pool.inspect(RENEW, &[&node.id, &description, &integer(liveness_millis())]).await?;
        Ok(Some(natural_at(one(&rows)?, 0)?).filter(|until| *until > 0))
    }

    async fn remove_node(&self, id: &str, unused: Option<&Partner>) -> Result<()> {
        let unused = unused.map(json_text).transpose()?;
        self.pool.inspect(REMOVE, &[&id, &unused]).await.map(drop)
    }
}
