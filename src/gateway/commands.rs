//! Does what a session granted: the part of a command that takes time.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;
use serde_json::value::RawValue;

use super::Gateway;
use super::join::{Join, Joined};
use super::outbox::Outbox;
use super::presence::Subscriber;
use super::session::{
    Action, ConnectGrant, HistoryGrant, PresenceGrant, PresenceQuery, PublishGrant, RpcCall, disconnect_for,
};
use super::sockets::Registration;
use crate::api::Request;
use crate::broker::{Append, PresenceStats, Span, continues};
use crate::feed::{Audience, Caller, Credential, FeedError, NewUser, Origin, Viewer};
use crate::model::{Channel, Entry};
use crate::protocol::{
    Disconnect, ErrorCode, HistoryResult, PresenceResult, PresenceStatsResult, ReplyBody, reply, reply_error,
};

/// A command that takes time.
pub(super) struct Running {
    pub(super) future: Pin<Box<dyn Future<Output = Done> + Send>>,
    /// It brings the client into a channel: nothing from the outbox may be written before its reply.
    pub(super) holds: bool,
}

/// What came of it.
pub(super) enum Done {
    /// The answer.
    Say(Bytes),
    /// The client is in its channels.
    Opened(u32, Registration, Vec<(Join, Subscriber, Joined)>),
    /// The client is not let in: the connection ends.
    Refused(Disconnect),
    /// It could not be brought there.
    NotOpened(u32),
    /// The client is in the channel.
    Joined(Box<Join>, Subscriber, Joined),
}

/// A channel's log, as somebody reads it.
#[derive(Debug)]
pub struct Log<'a> {
    /// The channel.
    pub name: &'a str,
    /// What decides who may read what.
    pub audience: Audience,
    /// Who reads.
    pub viewer: Viewer<'a>,
}

/// How many log entries cost one unit of the budget for reads (`rates.reads`).
pub(super) const ENTRIES_PER_UNIT: usize = 20;

/// What the list of who is in a channel costs of that budget. Their number costs 1.
const PRESENCE_COST: u32 = 5;

impl Gateway {
    /// Starts what an action asks for. `None` where there is nothing to wait for.
    pub(super) fn run(self: &Arc<Self>, action: Action, outbox: &Arc<Outbox>) -> Option<Running> {
        let gateway = Arc::clone(self);
        let outbox = Arc::clone(outbox);
        Some(match action {
            Action::Nothing | Action::Reply(_) | Action::Close(_) | Action::Leave(..) => return None,
            Action::Open(opening) => holding(async move { gateway.open(opening, &outbox).await }),
            Action::Join(join) => holding(async move { gateway.join(join, &outbox).await }),
            Action::Publish(publish) => running(async move { gateway.publish(publish).await }),
            Action::Presence(look) => running(async move { gateway.presence(look).await }),
            Action::History(history) => running(async move { gateway.history(history).await }),
            Action::Rpc(call) => running(async move { gateway.rpc(call).await }),
        })
    }

    async fn open(self: &Arc<Self>, opening: ConnectGrant, outbox: &Arc<Outbox>) -> Done {
        self.metrics.command("connect");
        let credential = opening.token.clone().map_or(Credential::Nothing, Credential::Token);
        // In the list first, then checked: a token that ends meanwhile is noticed by one of the two.
        let registration = self.sockets.register(opening.user.clone(), &opening.client, opening.token.clone(), outbox);
        match self.feed.identity.authorize(opening.user.as_ref(), &credential, NewUser::Recorded).await {
            Ok(()) => {}
            Err(error) if error.is_temporary() => {
                tracing::warn!(%error, user = ?opening.user, "a connect failed");
                return Done::NotOpened(opening.id);
            }
            Err(error) => return Done::Refused(self.not_let_in(&opening, &error)),
        }
        let joins = opening.joins.into_iter().map(|join| async {
            let seated = match self.may_read(&join).await {
                Ok(true) => self.seat(&join, outbox).await.map(Some),
                Ok(false) => Ok(None),
                Err(error) => Err(error),
            };
            (join, seated)
        });
        let mut opened = Vec::new();
        let mut failed = None;
        for (join, seated) in join_all(joins).await {
            match seated {
                Ok(Some((seat, joined))) => opened.push((join, seat, joined)),
                // A post or profile that the user cannot see, or that is gone, is left out of the reply.
                Ok(None) => {}
                Err(error) => failed = Some(error),
            }
        }
        let Some(error) = failed else { return Done::Opened(opening.id, registration, opened) };
        tracing::debug!(%error, "a connect failed");
        Done::NotOpened(opening.id)
    }

    /// How the connection of somebody who is not let in is closed.
    fn not_let_in(&self, opening: &ConnectGrant, error: &FeedError) -> Disconnect {
        match self.feed.identity.check_revoked(opening.user.as_ref(), opening.token.as_deref()) {
            Err(revoked) => disconnect_for(revoked),
            Ok(()) => Disconnect { reason: error.to_string().into(), ..Disconnect::INVALID_TOKEN },
        }
    }

    /// Brings a client into a channel, and makes it present there.
    async fn seat(self: &Arc<Self>, join: &Join, outbox: &Arc<Outbox>) -> Result<(Subscriber, Joined), FeedError> {
        let (seat, joined) = self.hub.join(join, outbox).await?;
        Ok((self.enter(join, seat).await, joined))
    }

    async fn join(self: &Arc<Self>, join: Join, outbox: &Arc<Outbox>) -> Done {
        self.metrics.command("subscribe");
        if let Err(error) = self.feed.rates.take_reads(join.user.as_ref(), join.address, cost_of(&join)) {
            return failed(join.id, &error);
        }
        match self.may_read(&join).await {
            Ok(true) => {}
            Ok(false) => return refused(join.id, ErrorCode::UNKNOWN_CHANNEL),
            Err(error) => return failed(join.id, &error),
        }
        match self.seat(&join, outbox).await {
            Ok((_, joined))
                if join.recover.recover && joined.missed.is_none() && join.recover.rejects_unrecovered() =>
            {
                refused(join.id, ErrorCode::UNRECOVERABLE_POSITION)
            }
            Ok((seat, joined)) => Done::Joined(Box::new(join), seat, joined),
            Err(error) => failed(join.id, &error),
        }
    }

    /// Whether the user may see the post or the profile that a channel is about.
    async fn may_read(&self, join: &Join) -> Result<bool, FeedError> {
        match &join.channel.channel {
            Channel::Post(post) => self.feed.visibility.can_see_post(join.user.as_ref(), *post).await,
            Channel::User(user) => self.feed.visibility.can_see_profile(join.user.as_ref(), user).await,
            _ => Ok(true),
        }
    }

    async fn publish(&self, publish: PublishGrant) -> Done {
        self.metrics.command("publish");
        let bytes = publish.members.len();
        if let Err(error) = self.feed.rates.take_publication(publish.user.as_ref(), publish.address, bytes) {
            return failed(publish.id, &error);
        }
        let entry = Entry::Data(publish.members);
        let published = match self.sessions.channels.retention(&publish.channel) {
            Some(retention) => {
                let append =
                    Append { channel: &publish.name, entry: &entry, retention, idempotency_key: None, version: None };
                self.broker.append(append).await
            }
            None => self.broker.publish(&publish.name, &entry).await,
        };
        match published {
            Ok(_) => Done::Say(reply(publish.id, &ReplyBody::Publish {})),
            Err(error) => failed(publish.id, &error.into()),
        }
    }

    async fn presence(&self, look: PresenceGrant) -> Done {
        self.metrics.command("presence");
        let units = match look.query {
            PresenceQuery::Clients => PRESENCE_COST,
            PresenceQuery::Stats => 1,
        };
        if let Err(error) = self.feed.rates.take_reads(look.user.as_ref(), look.address, units) {
            return failed(look.id, &error);
        }
        let body = match look.query {
            PresenceQuery::Clients => {
                let present = self.broker.presence(&look.name, self.sessions().presence_limit).await;
                present.map(|present| ReplyBody::Presence(PresenceResult { presence: clients(present) }))
            }
            PresenceQuery::Stats => {
                let stats = self.broker.presence_stats(&look.name).await;
                stats.map(|stats| ReplyBody::PresenceStats(presence_counts(stats)))
            }
        };
        match body {
            Ok(body) => Done::Say(reply(look.id, &body)),
            Err(error) => failed(look.id, &error.into()),
        }
    }

    async fn history(&self, history: HistoryGrant) -> Done {
        self.metrics.command("history");
        let (Span::After(_, limit) | Span::Before(_, limit)) = history.span;
        let units = u32::try_from(1 + limit / ENTRIES_PER_UNIT).unwrap_or(u32::MAX);
        if let Err(error) = self.feed.rates.take_reads(history.user.as_ref(), history.address, units) {
            return failed(history.id, &error);
        }
        let viewer = Viewer::Client(history.user.as_ref());
        let log = Log { name: &history.name, audience: history.channel.audience(), viewer };
        match self.read_history(&log, history.span, history.epoch.as_deref()).await {
            Ok(Some(result)) => Done::Say(reply(history.id, &ReplyBody::History(result))),
            Ok(None) => refused(history.id, ErrorCode::UNRECOVERABLE_POSITION),
            Err(error) => failed(history.id, &error),
        }
    }

    /// Reads a part of a channel's log. `None` if it is of another life than asked for.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub async fn read_history(
        &self,
        log: &Log<'_>,
        span: Span,
        epoch: Option<&str>,
    ) -> Result<Option<HistoryResult>, FeedError> {
        if let Audience::Timeline(user) = &log.audience {
            self.feed.inboxes.catch_up(user).await?;
        }
        let (Span::After(_, limit) | Span::Before(_, limit)) = span;
        let slice = if limit == 0 { None } else { self.broker.read(log.name, span).await? };
        let (position, entries) = match slice {
            Some(slice) => (Some(slice.top), slice.entries),
            None => (self.broker.position(log.name).await?, Vec::new()),
        };
        let Some(position) = position else { return Ok(None) };
        if epoch.is_some_and(|epoch| !continues(epoch, &position.epoch)) {
            return Ok(None);
        }
        let publications = self.hub.publications(&log.audience, log.viewer, entries).await?;
        Ok(Some(HistoryResult { publications, epoch: position.epoch.to_string(), offset: position.offset }))
    }

    async fn rpc(&self, call: RpcCall) -> Done {
        self.metrics.command("rpc");
        let Some(operation) = self.operations.by_rpc(&call.method) else {
            return refused(call.id, ErrorCode::NOT_AVAILABLE);
        };
        let input = match call.data.as_ref().map(|data| serde_json::from_str(data.get())) {
            None => serde_json::Value::Object(serde_json::Map::new()),
            Some(Ok(serde_json::Value::Null)) => serde_json::Value::Object(serde_json::Map::new()),
            Some(Ok(input @ serde_json::Value::Object(_))) => input,
            Some(_) => return refused(call.id, ErrorCode::BAD_REQUEST),
        };
        let caller = call.user.map_or(Caller::Anonymous, Caller::User);
        let credential = call.token.map_or(Credential::Nothing, Credential::Token);
        let (origin, client) = (Origin::Connection(call.address), Some(call.client));
        let asked = Request { caller, credential, origin, client, key: None, input };
        let ran = self.executor.run(operation, asked).await;
        self.metrics.operation(operation.name, ran.as_ref().map_or_else(FeedError::code, |_| "ok"));
        match ran.map(|output| String::from_utf8(output.into()).map(RawValue::from_string)) {
            Ok(Ok(Ok(data))) => Done::Say(reply(call.id, &ReplyBody::Rpc { data })),
            Ok(_) => refused(call.id, ErrorCode::INTERNAL),
            Err(error) => {
                let message = error.to_string();
                let code = ErrorCode { code: error.status().into(), message: "", temporary: error.is_temporary() };
                Done::Say(reply_error(call.id, code, Some(&message), error.field()))
            }
        }
    }
}

fn holding(future: impl Future<Output = Done> + Send + 'static) -> Running {
    Running { future: Box::pin(future), holds: true }
}

fn running(future: impl Future<Output = Done> + Send + 'static) -> Running {
    Running { future: Box::pin(future), holds: false }
}

fn refused(id: u32, code: ErrorCode) -> Done {
    Done::Say(reply_error(id, code, None, None))
}

fn failed(id: u32, error: &FeedError) -> Done {
    tracing::debug!(%error, "a command failed");
    match error {
        FeedError::RateLimited { .. } => refused(id, ErrorCode::TOO_MANY_REQUESTS),
        _ => refused(id, ErrorCode::INTERNAL),
    }
}

/// What a subscription costs of the budget for reads, apart from the entries that it recovers. One to an application's channel
/// that recovers nothing reads nothing.
fn cost_of(join: &Join) -> u32 {
    match join.channel.channel {
        Channel::App(_) => u32::from(join.recover.recover),
        _ => 1,
    }
}

/// Who is there, as clients read it.
pub fn clients(present: Vec<(String, Bytes)>) -> BTreeMap<String, Box<RawValue>> {
    let info = |info: Bytes| String::from_utf8(info.into()).ok().and_then(|info| RawValue::from_string(info).ok());
    present.into_iter().filter_map(|(client, encoded)| Some((client, info(encoded)?))).collect()
}

/// The counts of a channel, as clients read them.
pub fn presence_counts(stats: PresenceStats) -> PresenceStatsResult {
    let number = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    PresenceStatsResult { num_clients: number(stats.clients), num_users: number(stats.users) }
}
