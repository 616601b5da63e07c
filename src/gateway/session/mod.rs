//! The session: a pure state machine. It takes a command and returns an action. It uses no sockets, clocks or stores,
//! so tests and the fuzzer run it without them.
//!
//! A session is *fresh* until its `connect` command; then *opening* while the server joins it to its channels; then
//! *open*. A session whose `connect` was refused accepts nothing more. The connection (`super::connection`) reads
//! commands one at a time, executes each [`Action`], and reports the results that the session keeps.
//!
//! | file | contents |
//! |---|---|
//! | `mod` | the states, and the dispatch of commands |
//! | `actions` | the actions |
//! | `connect` | `connect` and `refresh` |
//! | `subscribe` | `subscribe` and `sub_refresh` |
//! | `requests` | `publish`, `presence`, `history` |
//! | `refusal` | refused commands, and close codes |
//! | `client` | the connection of a session, and the identity that its token proves |
//! | `subscription_table` | the subscriptions |
//! | `heartbeat`, `command_budget`, `time` | pings, the rate of commands, expiry |
//! | `options` | the settings |

mod actions;
mod client;
mod command_budget;
mod connect;
mod heartbeat;
mod options;
mod refusal;
mod requests;
mod subscribe;
mod subscription_table;
#[cfg(test)]
mod tests;
mod time;

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;

pub use actions::{Action, ConnectGrant, DueAction, HistoryGrant, PresenceGrant, PresenceQuery, PublishGrant, RpcCall};
pub use options::{SessionOptions, VERSION};
pub(super) use refusal::disconnect_for;
pub use requests::history_span;
pub use subscription_table::SubscriptionTokens;
pub use time::SessionTime;

use super::join::{Join, Joined};
use crate::auth::TokenIdentity;
use crate::model::UserId;
use crate::protocol::{Command, CommandBody, Disconnect, ErrorCode, ReplyBody, RpcRequest, reply};
use client::{ClientIdentity, SessionContext};
use command_budget::CommandBudget;
use heartbeat::{Heartbeat, HeartbeatEvent};
use refusal::CommandRefusal;
use requests::OpenSession;
use subscription_table::SubscriptionTable;
use time::{is_over, millis, over_at};

#[derive(Debug)]
enum SessionState {
    Fresh,
    Opening(ClientIdentity),
    Open(ClientIdentity),
    /// `connect` was refused with an error reply.
    Refused,
}

/// The session of one client.
#[derive(Debug)]
pub struct Session {
    context: SessionContext,
    state: SessionState,
    subscriptions: SubscriptionTable,
    heartbeat: Heartbeat,
    budget: CommandBudget,
    /// The deadline of the `connect` command, in ticks.
    connect_by: u64,
}

impl Session {
    /// A fresh session. `client` is the id of the connection, `address` the address of the client. `jitter`, from 0 to
    /// 1, spreads the first pings of many sessions.
    pub fn new(options: Arc<SessionOptions>, client: Arc<str>, address: IpAddr, now: SessionTime, jitter: f64) -> Self {
        Self {
            connect_by: now.ticks + millis(options.connect_timeout),
            heartbeat: Heartbeat::new(&options, now, jitter),
            budget: CommandBudget::new(options.commands_per_second, now),
            context: SessionContext { options, client, address },
            state: SessionState::Fresh,
            subscriptions: SubscriptionTable::default(),
        }
    }

    /// The id of the connection.
    pub fn client(&self) -> &str {
        &self.context.client
    }

    fn identity(&self) -> Option<&ClientIdentity> {
        match &self.state {
            SessionState::Opening(identity) | SessionState::Open(identity) => Some(identity),
            SessionState::Fresh | SessionState::Refused => None,
        }
    }

    /// The token of `connect` or of the last `refresh`; `None` before `connect`, and for an anonymous client.
    pub fn token(&self) -> Option<&Arc<TokenIdentity>> {
        self.identity()?.token.as_ref()
    }

    /// The user; `None` before `connect`, and for an anonymous client.
    pub fn user(&self) -> Option<&UserId> {
        self.identity()?.user.as_ref()
    }

    /// The channels that the client is subscribed to.
    pub fn channels(&self) -> impl Iterator<Item = &Arc<str>> {
        self.subscriptions.channels()
    }

    /// Whether the server subscribed the client to a channel.
    pub fn is_server_side(&self, channel: &str) -> bool {
        self.subscriptions.is_server_side(channel)
    }

    /// The subscription tokens in use, if they changed since the last call.
    pub fn changed_subscription_tokens(&mut self) -> Option<SubscriptionTokens> {
        self.subscriptions.changed_tokens()
    }

    /// Handles a command.
    pub fn command(&mut self, command: Command, now: SessionTime) -> Action {
        let Command { id, request } = command;
        if id == 0 && !matches!(request, Some(CommandBody::Send)) {
            return self.pong(now);
        }
        match (&self.state, request) {
            (SessionState::Fresh, Some(CommandBody::Connect(request))) => {
                match connect::connect(&self.context, id, &request, now) {
                    Ok((identity, grant)) => {
                        self.state = SessionState::Opening(identity);
                        Action::Open(grant)
                    }
                    Err(refusal) => {
                        self.state = SessionState::Refused;
                        refusal.into_action(id)
                    }
                }
            }
            (SessionState::Open(_), Some(request)) => {
                let is_allowed = self.budget.spend(self.context.options.commands_per_second, now);
                let action = if is_allowed { self.request(id, request, now) } else { Err(TOO_MANY_REQUESTS) };
                action.unwrap_or_else(|refusal| refusal.into_action(id))
            }
            _ => Action::Close(Disconnect::BAD_REQUEST),
        }
    }

    /// Handles a command of an open session.
    fn request(&mut self, id: u32, request: CommandBody, now: SessionTime) -> Result<Action, CommandRefusal> {
        let SessionState::Open(identity) = &mut self.state else { return Err(CommandRefusal::BAD_REQUEST) };
        let (context, subscriptions) = (&self.context, &mut self.subscriptions);
        let open = OpenSession { context, identity, subscriptions };
        Ok(match request {
            CommandBody::Connect(_) => return Err(CommandRefusal::BAD_REQUEST),
            CommandBody::Subscribe(request) => {
                Action::Join(subscribe::subscribe(context, identity, subscriptions, id, request, now)?)
            }
            CommandBody::Unsubscribe(request) => return self.unsubscribe(id, &request.channel),
            CommandBody::Publish(request) => Action::Publish(open.publish(id, request)?),
            CommandBody::Presence(request) => {
                Action::Presence(open.presence(id, request.channel, PresenceQuery::Clients)?)
            }
            CommandBody::PresenceStats(request) => {
                Action::Presence(open.presence(id, request.channel, PresenceQuery::Stats)?)
            }
            CommandBody::History(request) => Action::History(open.history(id, request)?),
            CommandBody::Ping => return Err(ErrorCode::NOT_AVAILABLE.into()),
            CommandBody::Send => return Err(Disconnect::NOT_AVAILABLE.into()),
            CommandBody::Rpc(RpcRequest { method, data }) => {
                let (user, token) = (identity.user.clone(), identity.token.clone());
                let (client, address) = (Arc::clone(&context.client), context.address);
                Action::Rpc(RpcCall { id, user, token, client, address, method, data })
            }
            CommandBody::Refresh(token) => {
                let result = connect::refresh(context, identity, &token, now)?;
                Action::Reply(reply(id, &ReplyBody::Refresh(result)))
            }
            CommandBody::SubRefresh(request) => {
                let result = subscribe::refresh_subscription(context, identity, subscriptions, &request, now)?;
                Action::Reply(reply(id, &ReplyBody::SubRefresh(result)))
            }
        })
    }

    fn unsubscribe(&mut self, id: u32, channel: &str) -> Result<Action, CommandRefusal> {
        if channel.is_empty() {
            return Err(CommandRefusal::BAD_REQUEST);
        }
        let done = reply(id, &ReplyBody::Unsubscribe {});
        Ok(match self.dropped(channel) {
            Some(name) => Action::Leave(name, done),
            None => Action::Reply(done),
        })
    }

    fn pong(&mut self, now: SessionTime) -> Action {
        let is_open = matches!(self.state, SessionState::Open(_));
        if is_open && self.heartbeat.pong(&self.context.options, now) {
            Action::Nothing
        } else {
            Action::Close(Disconnect::BAD_REQUEST)
        }
    }

    /// Opens the session after the client has joined its channels. Returns the reply to `connect`.
    pub fn opened(&mut self, id: u32, joined: Vec<(Join, Joined)>, now: SessionTime) -> Action {
        let SessionState::Opening(identity) = std::mem::replace(&mut self.state, SessionState::Refused) else {
            return Action::Close(Disconnect::INTERNAL);
        };
        joined.iter().for_each(|(join, _)| self.subscriptions.add_server_side(Arc::clone(&join.name)));
        let result = connect::connect_result(&self.context, &identity, joined, now);
        self.state = SessionState::Open(identity);
        Action::Reply(reply(id, &ReplyBody::Connect(result)))
    }

    /// Refuses the session because the client could not join its channels. Returns the reply to `connect`.
    pub fn not_opened(&mut self, id: u32) -> Action {
        self.state = SessionState::Refused;
        CommandRefusal::Error(ErrorCode::INTERNAL).into_action(id)
    }

    /// Adds a subscription after the client has joined the channel. Returns the reply to `subscribe`.
    pub fn joined(&mut self, join: &Join, joined: Joined, now: SessionTime) -> Bytes {
        self.subscriptions.add(Arc::clone(&join.name), join.expires_at, join.token.clone());
        reply(join.id, &ReplyBody::Subscribe(subscribe::subscribe_result(join, joined, now)))
    }

    /// Removes a subscription. Returns the channel's name; `None` if the client was not subscribed to it.
    pub fn dropped(&mut self, channel: &str) -> Option<Arc<str>> {
        self.subscriptions.remove(channel)
    }

    /// The actions that are due now. The next call is due at [`next_due`](Self::next_due).
    pub fn due(&mut self, now: SessionTime) -> Vec<DueAction> {
        let SessionState::Open(identity) = &self.state else {
            let is_late = now.ticks >= self.connect_by;
            return if is_late { vec![DueAction::Close(Disconnect::STALE)] } else { Vec::new() };
        };
        if is_over(identity.expires_at, now) {
            return vec![DueAction::Close(Disconnect::EXPIRED)];
        }
        let mut due = Vec::new();
        match self.heartbeat.poll(&self.context.options, now) {
            HeartbeatEvent::PongMissing => return vec![DueAction::Close(Disconnect::NO_PONG)],
            HeartbeatEvent::SendPing => due.push(DueAction::Ping),
            HeartbeatEvent::None => {}
        }
        due.extend(self.subscriptions.expire(now).into_iter().map(DueAction::Expired));
        due
    }

    /// The time of the next call of [`due`](Self::due), in ticks: at the latest the time of the next ping or pong.
    pub fn next_due(&self, now: SessionTime) -> u64 {
        let SessionState::Open(identity) = &self.state else { return self.connect_by };
        let expiry = [identity.expires_at, self.subscriptions.next_expiry()].into_iter().flatten().min();
        expiry.map_or(self.heartbeat.next(), |at| self.heartbeat.next().min(over_at(at, now)))
    }
}

const TOO_MANY_REQUESTS: CommandRefusal = CommandRefusal::Error(ErrorCode::TOO_MANY_REQUESTS);
