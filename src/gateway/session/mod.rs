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
//! | `server_requests` | what a backend asks of the session |
//! | `hook_questions`, `hook_answers`, `hook_expiries` | questions to the application's backend |
//! | `key_wait` | commands that wait for the key of their token |
//! | `close_codes` | close codes, by cause |
//! | `command_refusal` | refused commands |
//! | `client` | the connection of a session, and the identity that its token proves |
//! | `subscription_table` | the subscriptions |
//! | `heartbeat`, `command_budget`, `time` | pings, the rate of commands, expiry |
//! | `options`, `client_config` | the settings; `[client]` of the configuration |

mod actions;
mod client;
mod client_config;
mod close_codes;
mod command_budget;
mod command_refusal;
mod connect;
mod heartbeat;
pub(super) mod hook_answers;
mod hook_expiries;
mod hook_questions;
pub(super) mod key_wait;
mod options;
mod requests;
pub(super) mod server_requests;
mod subscribe;
mod subscription_table;
#[cfg(test)]
mod tests;
mod time;
#[cfg(test)]
mod transport_tests;

use std::sync::Arc;

use serde_json::value::RawValue;

pub use actions::{
    AccessCheck, Action, AnsweredHook, ConnectGrant, DueAction, HistoryGrant, HookOutcome, HookQuestion, HookSubject,
    KeyWait, PresenceGrant, PresenceQuery, PublishGrant, RpcCall, ServerJoin, WaitedCommand,
};
pub use client::{PingKind, SessionClient};
pub use client_config::ClientConfig;
pub(super) use close_codes::{disconnect, disconnect_for, disconnect_for_error};
pub(super) use command_refusal::error_reply;
pub use hook_expiries::ExpiryTarget;
pub use options::{SessionOptions, VERSION};
pub use requests::history_span;
pub use subscription_table::{DroppedSubscription, SubscriptionTokens};
pub use time::SessionTime;

use crate::auth::{MissingKey, TokenIdentity};
use crate::gateway::channels::join::{Join, Joined};
use crate::hooks::HookKind;
use crate::model::{UserId, canonical_name};
use crate::protocol::{
    Command, CommandBody, ConnectRequest, Disconnect, ErrorCode, Reply, ReplyBody, RpcRequest, is_portable,
};
use client::{ClientIdentity, SessionContext};
use command_budget::CommandBudget;
use command_refusal::CommandRefusal;
use heartbeat::{Heartbeat, HeartbeatEvent};
use hook_expiries::HookExpiries;
use hook_questions::ask;
use requests::OpenSession;
use subscribe::SubscribeStep;
use subscription_table::SubscriptionTable;
use time::{is_over, millis, over_at};

#[derive(Debug)]
enum SessionState {
    Fresh,
    /// The application's backend is asked who the client is.
    Asking,
    /// With data for the reply.
    Opening(ClientIdentity, Option<Box<RawValue>>),
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
    /// What the application's backend decides on later; mostly nothing.
    hook_expiries: Option<Box<HookExpiries>>,
    /// The deadline of the `connect` command, in ticks.
    connect_by: u64,
}

impl Session {
    /// A fresh session. `jitter`, from 0 to 1, spreads the first pings of many sessions.
    pub fn new(options: Arc<SessionOptions>, client: SessionClient, now: SessionTime, jitter: f64) -> Self {
        Self {
            connect_by: now.ticks + millis(options.client.connect_timeout),
            heartbeat: Heartbeat::new(&options, now, jitter),
            budget: CommandBudget::new(options.client.commands_per_second, now),
            hook_expiries: None,
            context: SessionContext {
                options,
                client: client.id,
                address: client.address,
                pings: client.pings,
                headers: client.headers,
            },
            state: SessionState::Fresh,
            subscriptions: SubscriptionTable::default(),
        }
    }

    /// The id of the connection.
    pub fn client(&self) -> &str {
        &self.context.client
    }

    /// How the client is pinged.
    pub fn pings(&self) -> PingKind {
        self.context.pings
    }

    fn identity(&self) -> Option<&ClientIdentity> {
        match &self.state {
            SessionState::Opening(identity, _) | SessionState::Open(identity) => Some(identity),
            SessionState::Fresh | SessionState::Asking | SessionState::Refused => None,
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
        if command.is_pong() {
            return self.pong(now);
        }
        match self.missing_key(&command) {
            Some(key) => Action::AwaitKey(Box::new(KeyWait::new(command, key))),
            None => self.execute(command, now),
        }
    }

    /// The key of a command's token, if it must be fetched first.
    fn missing_key(&self, command: &Command) -> Option<MissingKey> {
        let verifier = self.context.options.verifier.get();
        match (&self.state, command.request.as_ref()?) {
            (SessionState::Fresh, CommandBody::Connect(request)) => verifier.missing_key(&request.token),
            (SessionState::Open(_), CommandBody::Refresh(token)) => verifier.missing_key(token),
            (SessionState::Open(_), CommandBody::Subscribe(request)) => {
                verifier.missing_subscription_key(&request.token)
            }
            (SessionState::Open(_), CommandBody::SubRefresh(request)) => {
                verifier.missing_subscription_key(&request.token)
            }
            _ => None,
        }
    }

    /// Handles a command whose key, if its token names one, is as up to date as it can be.
    fn execute(&mut self, command: Command, now: SessionTime) -> Action {
        let Command { id, request } = command;
        match (&self.state, request) {
            (SessionState::Fresh, Some(CommandBody::Connect(request))) => {
                self.add_emulated_headers(&request);
                if request.token.is_empty() && self.context.options.hooks.asks(HookKind::Connect) {
                    if request.data.as_ref().is_some_and(|data| !is_portable(data.get())) {
                        self.state = SessionState::Refused;
                        return CommandRefusal::from(ErrorCode::BAD_REQUEST).into_action(id);
                    }
                    self.state = SessionState::Asking;
                    return ask(&self.context, None, HookQuestion::Connect(id, request));
                }
                match connect::connect(&self.context, id, &request, now) {
                    Ok((identity, grant)) => {
                        self.state = SessionState::Opening(identity, None);
                        Action::Open(grant)
                    }
                    Err(refusal) => {
                        self.state = SessionState::Refused;
                        refusal.into_action(id)
                    }
                }
            }
            (SessionState::Open(_), Some(request)) => {
                let is_allowed = self.budget.spend(self.context.options.client.commands_per_second, now);
                let action = if is_allowed { self.request(id, request, now) } else { Err(TOO_MANY_REQUESTS) };
                action.unwrap_or_else(|refusal| refusal.into_action(id))
            }
            _ => Action::Close(Disconnect::BAD_REQUEST),
        }
    }

    /// Handles a command of an open session.
    fn request(&mut self, id: u32, request: CommandBody, now: SessionTime) -> Result<Action, CommandRefusal> {
        let SessionState::Open(identity) = &mut self.state else { return Err(CommandRefusal::BAD_REQUEST) };
        let context = &self.context;
        let subscriptions = &mut self.subscriptions;
        let open = OpenSession { context, identity, subscriptions };
        Ok(match request {
            CommandBody::Connect(_) => return Err(CommandRefusal::BAD_REQUEST),
            CommandBody::Subscribe(request) => {
                let name = request.channel.clone();
                let checked = subscribe::subscribe(context, identity, subscriptions, id, request, now);
                match checked.inspect_err(|refusal| refusal.deny_subscription(&name))? {
                    SubscribeStep::Join(join) => Action::Join(*join),
                    SubscribeStep::Ask(request) => {
                        return Ok(ask(context, Some(identity), HookQuestion::Subscribe(id, request)));
                    }
                }
            }
            CommandBody::Unsubscribe(request) => return self.unsubscribe(id, &request.channel),
            CommandBody::Publish(request) => match open.publish(id, request)? {
                (grant, None) => Action::Publish(grant),
                (grant, Some(data)) => {
                    return Ok(ask(context, Some(identity), HookQuestion::Publish(Box::new(grant), data)));
                }
            },
            CommandBody::Presence(request) => {
                Action::Presence(open.presence(id, &request.channel, PresenceQuery::Clients)?)
            }
            CommandBody::PresenceStats(request) => {
                Action::Presence(open.presence(id, &request.channel, PresenceQuery::Stats)?)
            }
            CommandBody::History(request) => Action::History(open.history(id, *request)?),
            CommandBody::InvalidData => return Err(ErrorCode::BAD_REQUEST.into()),
            CommandBody::Ping => return Err(ErrorCode::NOT_AVAILABLE.into()),
            CommandBody::Send => return Err(Disconnect::NOT_AVAILABLE.into()),
            CommandBody::Rpc(RpcRequest { method, data }) => {
                let user = identity.user.clone();
                let token = identity.token.clone();
                let client = Arc::clone(&context.client);
                let address = context.address;
                let is_asked = context.options.hooks.asks(HookKind::Rpc);
                let meta = identity.meta.clone().filter(|_| is_asked);
                let headers = context.headers.clone().filter(|_| is_asked);
                Action::Rpc(RpcCall { id, user, token, client, address, meta, headers, method, data })
            }
            // The backend refreshes the connection.
            CommandBody::Refresh(_) if hook_expiries::contains(&self.hook_expiries, &ExpiryTarget::Connection) => {
                return Err(CommandRefusal::BAD_REQUEST);
            }
            CommandBody::Refresh(token) => {
                let result = connect::refresh(context, identity, &token, now)?;
                Action::Reply(Reply::done(id, ReplyBody::Refresh(result)))
            }
            CommandBody::SubRefresh(request) => {
                let result = subscribe::refresh_subscription(context, identity, subscriptions, &request, now)?;
                Action::Reply(Reply::done(id, ReplyBody::SubRefresh(result)))
            }
        })
    }

    /// Adds the headers that a client sent inside `connect` to those of its handshake.
    fn add_emulated_headers(&mut self, request: &ConnectRequest) {
        if request.headers.is_empty() {
            return;
        }
        if let Some(emulated) = self.context.options.hooks.emulated(request.headers.iter()) {
            // A proxy may have set headers of the handshake, so they take precedence.
            let mut headers = *emulated;
            headers.extend(self.context.headers.as_deref().cloned().unwrap_or_default());
            self.context.headers = Some(Arc::new(headers));
        }
    }

    fn unsubscribe(&mut self, id: u32, channel: &str) -> Result<Action, CommandRefusal> {
        if channel.is_empty() {
            return Err(CommandRefusal::BAD_REQUEST);
        }
        let done = Reply::done(id, ReplyBody::Unsubscribe {});
        Ok(match self.dropped(&canonical_name(channel)) {
            Some(dropped) => Action::Leave(dropped.channel, done),
            None => Action::Reply(done),
        })
    }

    /// Handles a pong of the transport. Clients may send such pongs unasked.
    pub fn pong_frame(&mut self, now: SessionTime) {
        if self.context.pings == PingKind::Frame {
            self.heartbeat.pong(&self.context.options, now);
        }
    }

    /// Asks for a sign of the client. Returns whether a ping is to be sent; otherwise a pong is expected already, or
    /// the session is not open.
    pub fn probe(&mut self, now: SessionTime) -> bool {
        let answers_pings = self.context.pings != PingKind::OneWay && matches!(self.state, SessionState::Open(_));
        answers_pings && self.heartbeat.ping_now(&self.context.options, now)
    }

    fn pong(&mut self, now: SessionTime) -> Action {
        let is_expected = self.context.pings == PingKind::Message && matches!(self.state, SessionState::Open(_));
        if is_expected && self.heartbeat.pong(&self.context.options, now) {
            Action::Nothing
        } else {
            Action::Close(Disconnect::BAD_REQUEST)
        }
    }

    /// Replaces the user of a session that opens by the id as first written.
    pub fn respell(&mut self, user: UserId) {
        if let SessionState::Opening(identity, _) = &mut self.state {
            identity.user = Some(user);
        }
    }

    /// Opens the session after the client has joined its channels. Returns the reply to `connect`.
    pub fn opened(&mut self, id: u32, joined: Vec<(Join, Joined)>, now: SessionTime) -> Action {
        let SessionState::Opening(identity, data) = std::mem::replace(&mut self.state, SessionState::Refused) else {
            return Action::Close(Disconnect::INTERNAL);
        };
        self.subscriptions.reserve(joined.len());
        joined.iter().for_each(|(join, _)| self.subscriptions.add_server_side(join));
        let result = connect::connect_result(&self.context, &identity, joined, data, now);
        self.state = SessionState::Open(identity);
        Action::Reply(Reply::done(id, ReplyBody::Connect(result)))
    }

    /// Refuses the session because the client could not join its channels. Returns the reply to `connect`.
    pub fn not_opened(&mut self, id: u32) -> Action {
        self.state = SessionState::Refused;
        CommandRefusal::Error(ErrorCode::INTERNAL).into_action(id)
    }

    /// Adds a subscription after the client has joined the channel. Returns the reply to `subscribe`.
    pub fn joined(&mut self, join: &Join, joined: Joined, now: SessionTime) -> Reply {
        self.subscriptions.add(join);
        Reply::done(join.id, ReplyBody::Subscribe(subscribe::subscribe_result(join, joined, now)))
    }

    /// Removes a subscription. Returns the channel's name and spelling; `None` if the client was not subscribed to it.
    pub fn dropped(&mut self, channel: &str) -> Option<DroppedSubscription> {
        hook_expiries::remove(&mut self.hook_expiries, channel);
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
        if self.subscriptions.is_server_side_over(now) {
            return vec![DueAction::Close(Disconnect::SUBSCRIPTION_EXPIRED)];
        }
        let mut due = Vec::new();
        match self.heartbeat.poll(&self.context.options, now) {
            HeartbeatEvent::PongMissing => return vec![DueAction::Close(Disconnect::NO_PONG)],
            HeartbeatEvent::SendPing => {
                if self.context.pings == PingKind::OneWay {
                    self.heartbeat.pong(&self.context.options, now);
                }
                due.push(DueAction::Ping);
            }
            HeartbeatEvent::None => {}
        }
        due.extend(self.subscriptions.expire(now).into_iter().map(DueAction::Expired));
        if let Some(expiries) = &mut self.hook_expiries {
            due.extend(expiries.take_due(now).into_iter().map(DueAction::Ask));
        }
        due
    }

    /// The time of the next call of [`due`](Self::due), in ticks: at the latest the time of the next ping or pong.
    pub fn next_due(&self, now: SessionTime) -> u64 {
        let SessionState::Open(identity) = &self.state else { return self.connect_by };
        let expiry = [identity.expires_at, self.subscriptions.next_expiry()].into_iter().flatten().min();
        let next = expiry.map_or(self.heartbeat.next(), |at| self.heartbeat.next().min(over_at(at, now)));
        let asked = self.hook_expiries.as_ref().and_then(|expiries| expiries.next(now));
        asked.map_or(next, |at| at.min(next))
    }
}

const TOO_MANY_REQUESTS: CommandRefusal = CommandRefusal::Error(ErrorCode::TOO_MANY_REQUESTS);
