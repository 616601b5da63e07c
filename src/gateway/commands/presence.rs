//! Executes `presence` and `presence_stats`.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::channel_commands::ChannelCommands;
use super::outcome::CommandOutcome;
use crate::broker::PresenceStats;
use crate::feed::FeedError;
use crate::gateway::session::{PresenceGrant, PresenceQuery};
use crate::protocol::{PresenceResult, PresenceStatsResult, ReplyBody};

/// The cost of the list of present clients in `rates.reads`. Their number costs 1.
const PRESENCE_COST: u32 = 5;

impl ChannelCommands {
    pub(crate) async fn presence(&self, grant: PresenceGrant) -> CommandOutcome {
        let id = grant.id;
        self.try_presence(grant).await.unwrap_or_else(|error| CommandOutcome::failed(id, &error))
    }

    async fn try_presence(&self, grant: PresenceGrant) -> Result<CommandOutcome, FeedError> {
        let units = match grant.query {
            PresenceQuery::Clients => PRESENCE_COST,
            PresenceQuery::Stats => 1,
        };
        self.base.rates.take_reads(grant.user.as_ref(), grant.address, units)?;
        let body = match grant.query {
            PresenceQuery::Clients => {
                let present = self.base.broker.presence(&grant.name, self.sessions.client.presence_limit).await?;
                ReplyBody::Presence(PresenceResult { presence: present_clients(present) })
            }
            PresenceQuery::Stats => {
                ReplyBody::PresenceStats(presence_counts(self.base.broker.presence_stats(&grant.name).await?))
            }
        };
        Ok(CommandOutcome::done(grant.id, body))
    }
}

/// The clients in a channel, as clients and backends read them: `ClientInfo` by client id.
pub fn present_clients(present: Vec<(String, Bytes)>) -> BTreeMap<String, Box<RawValue>> {
    let info = |info: Bytes| String::from_utf8(info.into()).ok().and_then(|info| RawValue::from_string(info).ok());
    present.into_iter().filter_map(|(client, encoded)| Some((client, info(encoded)?))).collect()
}

/// The counts of a channel, as clients and backends read them.
pub fn presence_counts(stats: PresenceStats) -> PresenceStatsResult {
    let number = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    PresenceStatsResult { num_clients: number(stats.clients), num_users: number(stats.users) }
}
