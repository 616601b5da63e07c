//! Executes `publish`, `presence`, `presence_stats` and `history`.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::outcome::CommandOutcome;
use crate::broker::{Append, PresenceStats, Span};
use crate::feed::{Base, FeedError, Viewer};
use crate::gateway::hub::Hub;
use crate::gateway::hub::log_reader::{ChannelLog, ENTRIES_PER_UNIT, LogReader};
use crate::gateway::session::{HistoryGrant, PresenceGrant, PresenceQuery, PublishGrant, SessionOptions};
use crate::model::Entry;
use crate::protocol::{ErrorCode, PresenceResult, PresenceStatsResult, ReplyBody};

/// The cost of the list of present clients in `rates.reads`. Their number costs 1.
const PRESENCE_COST: u32 = 5;

/// What the log of a channel takes in the store besides its entries, in bytes.
const LOG_SIZE: usize = 4 * 1024;

/// Executes commands on channels that clients are in.
pub(crate) struct ChannelCommands {
    pub(crate) hub: Arc<Hub>,
    pub(crate) base: Arc<Base>,
    pub(crate) logs: Arc<LogReader>,
    pub(crate) sessions: Arc<SessionOptions>,
}

impl ChannelCommands {
    pub(crate) async fn publish(&self, grant: PublishGrant) -> CommandOutcome {
        let id = grant.id;
        self.try_publish(grant).await.unwrap_or_else(|error| CommandOutcome::failed(id, &error))
    }

    async fn try_publish(&self, grant: PublishGrant) -> Result<CommandOutcome, FeedError> {
        let channel = &*grant.name;
        let retention = self.sessions.channels.retention(&grant.channel).filter(|_| !grant.skip_history);
        // The publication may begin a log, unless the channel has subscribers here.
        let may_begin = retention.is_some() && !self.hub.has_room(channel);
        let size = grant.members.len() + if may_begin { LOG_SIZE } else { 0 };
        self.base.rates.take_publication(grant.user.as_ref(), grant.address, size)?;
        let entry = &Entry::Data(grant.members);
        match retention {
            Some(retention) => {
                let append = Append { channel, entry, retention, idempotency_key: None, version: None };
                self.base.broker.append(append).await?;
            }
            None => {
                self.base.broker.publish(channel, entry).await?;
            }
        }
        Ok(CommandOutcome::done(grant.id, ReplyBody::Publish {}))
    }

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

    pub(crate) async fn history(&self, grant: HistoryGrant) -> CommandOutcome {
        let id = grant.id;
        self.try_history(grant).await.unwrap_or_else(|error| CommandOutcome::failed(id, &error))
    }

    async fn try_history(&self, grant: HistoryGrant) -> Result<CommandOutcome, FeedError> {
        let (Span::After(_, limit) | Span::Before(_, limit)) = grant.span;
        let units = u32::try_from(1 + limit / ENTRIES_PER_UNIT).unwrap_or(u32::MAX);
        self.base.rates.take_reads(grant.user.as_ref(), grant.address, units)?;
        let viewer = Viewer::Client(grant.user.as_ref());
        let audience = grant.channel.audience(grant.user.as_ref()).ok_or(FeedError::Internal)?;
        let log = ChannelLog { name: &grant.name, audience, viewer };
        Ok(match self.logs.read_history(&log, grant.span, grant.epoch.as_deref()).await? {
            Some(result) => CommandOutcome::done(grant.id, ReplyBody::History(result)),
            None => CommandOutcome::refused(grant.id, ErrorCode::UNRECOVERABLE_POSITION),
        })
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
