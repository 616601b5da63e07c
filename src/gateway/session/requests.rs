//! `publish`, `presence`, `presence_stats` and `history`.

use super::actions::{HistoryGrant, PresenceGrant, PresenceQuery, PublishGrant};
use super::client::{ClientIdentity, SessionContext};
use super::refusal::CommandRefusal;
use super::subscription_table::SubscriptionTable;
use crate::broker::Span;
use crate::gateway::channels::{Credentials, ResolvedChannel, Right};
use crate::protocol::{ErrorCode, HistoryRequest, PublishRequest, is_portable, publication_members};

/// The parts of an open session that commands on channels need.
pub(super) struct OpenSession<'a> {
    pub(super) context: &'a SessionContext,
    pub(super) identity: &'a ClientIdentity,
    pub(super) subscriptions: &'a SubscriptionTable,
}

impl OpenSession<'_> {
    /// The channel of a command, if the session has this right to it.
    fn permitted(&self, name: &str, right: Right) -> Result<ResolvedChannel, CommandRefusal> {
        if name.is_empty() {
            return Err(CommandRefusal::BAD_REQUEST);
        }
        let channel = self.context.options.channels.find(name).ok_or(ErrorCode::UNKNOWN_CHANNEL)?;
        let subscribed = self.subscriptions.contains(name);
        let client = Credentials { user: self.identity.user.as_ref(), subscribed, token: false };
        if channel.permits(right, client) { Ok(channel) } else { Err(ErrorCode::PERMISSION_DENIED.into()) }
    }

    pub(super) fn publish(&self, id: u32, request: PublishRequest) -> Result<PublishGrant, CommandRefusal> {
        let PublishRequest { channel: name, data } = request;
        let channel = self.permitted(&name, Right::Publish)?;
        let data = data.filter(|data| is_portable(data.get())).ok_or(ErrorCode::BAD_REQUEST)?;
        let info = self.context.client_info(self.identity, None);
        let members = publication_members(data.get(), Some(&info), None);
        let (user, address) = (self.identity.user.clone(), self.context.address);
        Ok(PublishGrant { id, user, address, name, channel, members })
    }

    pub(super) fn presence(
        &self,
        id: u32,
        name: String,
        query: PresenceQuery,
    ) -> Result<PresenceGrant, CommandRefusal> {
        if !self.permitted(&name, Right::Presence)?.has_presence() {
            return Err(ErrorCode::NOT_AVAILABLE.into());
        }
        let (user, address) = (self.identity.user.clone(), self.context.address);
        Ok(PresenceGrant { id, user, address, name, query })
    }

    pub(super) fn history(&self, id: u32, request: HistoryRequest) -> Result<HistoryGrant, CommandRefusal> {
        let HistoryRequest { channel: name, limit, since, reverse } = request;
        let channel = self.permitted(&name, Right::History)?;
        if !channel.has_log() {
            return Err(ErrorCode::NOT_AVAILABLE.into());
        }
        let max = self.context.options.history_limit;
        let limit = usize::try_from(limit).map_or(max, |limit| limit.min(max));
        let offset = since.as_ref().map(|since| since.offset);
        let span = history_span(offset, limit, reverse);
        let epoch = since.map(|since| since.epoch).filter(|epoch| !epoch.is_empty());
        let (user, address) = (self.identity.user.clone(), self.context.address);
        Ok(HistoryGrant { id, user, address, name, channel, span, epoch })
    }
}

/// The part of a log that a `history` request reads: the entries after the offset, or with `reverse` those before it.
pub fn history_span(offset: Option<u64>, limit: usize, reverse: bool) -> Span {
    if reverse { Span::Before(offset.unwrap_or(u64::MAX), limit) } else { Span::After(offset.unwrap_or(0), limit) }
}
