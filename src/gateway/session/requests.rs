//! `publish`, `presence`, `presence_stats` and `history`.

use serde_json::value::RawValue;

use super::actions::{HistoryGrant, PresenceGrant, PresenceQuery, PublishGrant};
use super::client::{ClientIdentity, SessionContext};
use super::command_refusal::CommandRefusal;
use super::hook_questions::is_asked;
use super::subscription_table::SubscriptionTable;
use crate::broker::Span;
use crate::gateway::channels::{Credentials, ResolvedChannel, Right};
use crate::hooks::HookKind;
use crate::model::{canonical_name, into_canonical_name};
use crate::protocol::{ErrorCode, HistoryRequest, PublishRequest, is_portable, publication_members};

/// The parts of an open session that commands on channels need.
pub(super) struct OpenSession<'a> {
    pub(super) context: &'a SessionContext,
    pub(super) identity: &'a ClientIdentity,
    pub(super) subscriptions: &'a SubscriptionTable,
}

impl OpenSession<'_> {
    /// The channel of this name, if it may be the name of one.
    fn find(&self, name: &str) -> Result<ResolvedChannel, ErrorCode> {
        if name.len() > self.context.options.client.channel_length {
            return Err(ErrorCode::BAD_REQUEST);
        }
        self.context.options.channels.find_for_client(name)
    }

    /// The channel of a command, if the session has this right to it.
    fn permitted(&self, name: &str, right: Right) -> Result<ResolvedChannel, CommandRefusal> {
        if name.is_empty() {
            return Err(CommandRefusal::BAD_REQUEST);
        }
        let channel = self.find(name)?;
        let subscribed = self.subscriptions.contains(name);
        let client = Credentials { user: self.identity.user.as_ref(), subscribed, token: false };
        if channel.permits(right, client) { Ok(channel) } else { Err(ErrorCode::PERMISSION_DENIED.into()) }
    }

    /// The publication, and its data if the application's backend decides on it.
    pub(super) fn publish(
        &self,
        id: u32,
        request: PublishRequest,
    ) -> Result<(PublishGrant, Option<Box<RawValue>>), CommandRefusal> {
        let PublishRequest { channel, data } = request;
        let name = into_canonical_name(channel);
        let asked = self.asked_to_publish(&name);
        let is_asked = asked.is_some();
        let channel = match asked {
            Some(channel) => channel,
            None => self.permitted(&name, Right::Publish)?,
        };
        let data = data.filter(|data| is_portable(data.get())).ok_or(ErrorCode::BAD_REQUEST)?;
        let info = self.context.client_info(self.identity, self.subscriptions.chan_info(&name));
        let members = publication_members(data.get(), Some(&info), None);
        let user = self.identity.user.clone();
        let address = self.context.address;
        let grant = PublishGrant { id, user, address, name, channel, members, info, skip_history: false };
        Ok((grant, is_asked.then_some(data)))
    }

    /// The channel of a publication, if the application's backend decides on it.
    fn asked_to_publish(&self, name: &str) -> Option<ResolvedChannel> {
        if !self.context.options.hooks.asks(HookKind::Publish) {
            return None;
        }
        let channel = self.find(name).ok()?;
        let subscribed = self.subscriptions.contains(name);
        is_asked(self.context, self.identity, HookKind::Publish, &channel, subscribed).then_some(channel)
    }

    pub(super) fn presence(
        &self,
        id: u32,
        channel: &str,
        query: PresenceQuery,
    ) -> Result<PresenceGrant, CommandRefusal> {
        let name = canonical_name(channel).into_owned();
        if !self.permitted(&name, Right::Presence)?.has_presence() {
            return Err(ErrorCode::NOT_AVAILABLE.into());
        }
        let user = self.identity.user.clone();
        let address = self.context.address;
        Ok(PresenceGrant { id, user, address, name, query })
    }

    pub(super) fn history(&self, id: u32, request: HistoryRequest) -> Result<HistoryGrant, CommandRefusal> {
        let HistoryRequest { channel, limit, since, reverse } = request;
        let name = into_canonical_name(channel);
        let channel = self.permitted(&name, Right::History)?;
        if !channel.has_log() {
            return Err(ErrorCode::NOT_AVAILABLE.into());
        }
        let max = self.context.options.client.history_limit;
        let limit = usize::try_from(limit).map_or(max, |limit| limit.min(max));
        let offset = since.as_ref().map(|since| since.offset);
        let span = history_span(offset, limit, reverse);
        let epoch = since.map(|since| since.epoch).filter(|epoch| !epoch.is_empty());
        let user = self.identity.user.clone();
        let address = self.context.address;
        Ok(HistoryGrant { id, user, address, name, channel, span, epoch })
    }
}

/// The part of a log that a `history` request reads: the entries after the offset, or with `reverse` those before it.
pub fn history_span(offset: Option<u64>, limit: usize, reverse: bool) -> Span {
    if reverse { Span::Before(offset.unwrap_or(u64::MAX), limit) } else { Span::After(offset.unwrap_or(0), limit) }
}
