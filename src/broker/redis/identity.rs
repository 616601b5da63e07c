//! The identity of Redis, and the record of its ledger.

use async_trait::async_trait;
use redis::{Cmd, Value};

use super::command_connections::millis;
use super::replies::{parse, strange};
use super::scripts::SCRIPTS;
use super::{RedisBroker, replies};
use crate::broker::{BrokerIdentity, IdentityStore, Result, SeenNode};
use crate::ledger::{NODE_LIVENESS, Partner, PartnerChange, liveness_millis};
use crate::model::Millis;

/// The prefix of the fields of nodes.
const NODE: &str = "node:";

impl RedisBroker {
    /// Calls the script. It is not counted as a round trip: it is no part of an operation.
    async fn call_identity(&self, act: &str, complete: impl FnOnce(&mut Cmd)) -> Result<Value> {
        let mut call = SCRIPTS.identity.call(1);
        call.arg(self.keys.single("identity")).arg(act).arg(millis(NODE_LIVENESS));
        complete(&mut call);
        self.commands.send_uncounted(&mut self.commands.link()?, &call).await
    }

    async fn pair(&self, act: &str, id: &str, change: &PartnerChange) -> Result<bool> {
        let expected = change.expected.as_ref().map(text).transpose()?.unwrap_or_default();
        let record = text(&change.partner)?;
        let answer = self.call_identity(act, |call| _ = call.arg(id).arg(expected).arg(record)).await?;
        Ok(parse::<i64>(answer)? == 1)
    }
}

#[async_trait]
impl IdentityStore for RedisBroker {
    fn place(&self) -> String {
        self.place.clone()
    }

    async fn identity(&self) -> Result<BrokerIdentity> {
        let answer: Vec<String> = replies::parse(self.call_identity("read", |_| {}).await?)?;
        let (now, fields) = answer.split_first().ok_or_else(|| strange("an identity without a time"))?;
        let now: Millis = now.parse().map_err(strange)?;
        let mut identity = BrokerIdentity::default();
        for field in fields.chunks_exact(2) {
            match (field[0].as_str(), &field[1]) {
                ("id", id) => identity.id = Some(id.clone()),
                ("ledger", record) => identity.ledger = Some(serde_json::from_str(record).map_err(strange)?),
                (name, value) => identity.nodes.extend(name.strip_prefix(NODE).and_then(|id| seen(id, value, now))),
            }
        }
        Ok(identity)
    }

    async fn pair_ledger(&self, id: &str, change: &PartnerChange) -> Result<bool> {
        self.pair("pair", id, change).await
    }

    async fn adopt_ledger(&self, id: &str, change: &PartnerChange) -> Result<bool> {
        self.pair("adopt", id, change).await
    }

    async fn show_node(&self, node: &str, lease_until: Millis, id: &str, ledger: &Partner) -> Result<bool> {
        let record = text(ledger)?;
        let answer = self.call_identity("show", |call| _ = call.arg(node).arg(lease_until).arg(id).arg(record));
        Ok(parse::<i64>(answer.await?)? == 1)
    }

    async fn hide_node(&self, node: &str) -> Result<()> {
        self.call_identity("hide", |call| _ = call.arg(node)).await.map(drop)
    }
}

fn text(partner: &Partner) -> Result<String> {
    serde_json::to_string(partner).map_err(strange)
}

/// A node, from its field; `None`: of a newer version.
fn seen(id: &str, value: &str, now: Millis) -> Option<SeenNode> {
    let (lease_until, seen_at) = value.split_once(' ')?;
    let (lease_until, seen_at) = (lease_until.parse().ok()?, seen_at.parse().ok()?);
    let is_live = seen_at <= now && now < liveness_millis().saturating_add(seen_at);
    Some(SeenNode { id: id.to_owned(), lease_until, seen_at, is_live })
}
