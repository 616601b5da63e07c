//! What a client asks of a channel: to publish, who is there, what was said.

use super::{Action, History, Look, Publish, Refusal, Session, State, Wants, refuse};
use crate::broker::Span;
use crate::gateway::channels::{Credentials, ResolvedChannel, Right};
use crate::protocol::{
    ClientInfo, Disconnect, ErrorCode, HistoryRequest, PublishRequest, is_portable, publication_members,
};

impl Session {
    /// The channel of a command, if the session has that right to it.
    fn permitted(&self, name: &str, right: Right) -> Result<ResolvedChannel, Refusal> {
        if name.is_empty() {
            return Err(Refusal::Close(Disconnect::BAD_REQUEST));
        }
        let channel = self.options.channels.find(name).ok_or(Refusal::Error(ErrorCode::UNKNOWN_CHANNEL))?;
        let subscribed = self.subscription(name).is_some();
        let client = Credentials { user: self.user(), subscribed, token: false };
        if channel.permits(right, client) { Ok(channel) } else { Err(Refusal::Error(ErrorCode::PERMISSION_DENIED)) }
    }

    pub(super) fn publish(&self, id: u32, publish: PublishRequest) -> Action {
        let PublishRequest { channel: name, data } = publish;
        let State::Open(identity) = &self.state else { return Action::Close(Disconnect::BAD_REQUEST) };
        let channel = match self.permitted(&name, Right::Publish) {
            Ok(channel) => channel,
            Err(refusal) => return refusal.of(id),
        };
        let Some(data) = data.filter(|data| is_portable(data.get())) else { return refuse(id, ErrorCode::BAD_REQUEST) };
        let info = ClientInfo {
            user: identity.name().to_owned(),
            client: self.client.to_string(),
            conn_info: identity.info.clone(),
            chan_info: None,
        };
        let members = publication_members(data.get(), Some(&info), None);
        Action::Publish(Publish { id, user: self.user().cloned(), address: self.address, name, channel, members })
    }

    pub(super) fn presence(&self, id: u32, name: String, wants: Wants) -> Action {
        match self.permitted(&name, Right::Presence) {
            Ok(channel) if channel.has_presence() => {
                Action::Presence(Look { id, user: self.user().cloned(), address: self.address, name, wants })
            }
            Ok(_) => refuse(id, ErrorCode::NOT_AVAILABLE),
            Err(refusal) => refusal.of(id),
        }
    }

    pub(super) fn history(&self, id: u32, history: HistoryRequest) -> Action {
        let HistoryRequest { channel: name, limit, since, reverse } = history;
        let channel = match self.permitted(&name, Right::History) {
            Ok(channel) if channel.has_log() => channel,
            Ok(_) => return refuse(id, ErrorCode::NOT_AVAILABLE),
            Err(refusal) => return refusal.of(id),
        };
        let most = self.options.history_limit;
        let limit = usize::try_from(limit).map_or(most, |limit| limit.min(most));
        let offset = since.as_ref().map(|since| since.offset);
        let span = match (reverse, offset) {
            (false, offset) => Span::After(offset.unwrap_or(0), limit),
            (true, Some(offset)) => Span::Before(offset, limit),
            (true, None) => Span::Before(u64::MAX, limit),
        };
        Action::History(History {
            id,
            user: self.user().cloned(),
            address: self.address,
            name,
            channel,
            span,
            epoch: since.map(|since| since.epoch).filter(|epoch| !epoch.is_empty()),
        })
    }
}
