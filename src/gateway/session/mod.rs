//! The session: a pure state machine. A command goes in, and what to do about it comes out. No sockets, clocks or stores
//! inside, so it is tested and fuzzed without any.
//!
//! A session is *fresh* until its connect command; then *opening* while the server brings it into its channels; then
//! *open*. One whose connect was refused takes nothing more. The connection (`super::connection`) reads commands one
//! at a time, does what [`Action`] says, and reports back what needs remembering.
//!
//! | file | what is in it |
//! |---|---|
//! | `mod` | the states, and which command goes where |
//! | `actions` | what comes out |
//! | `connect` | who a client is |
//! | `subscriptions` | which channels it is in |
//! | `requests` | publish, presence, history |
//! | `time` | pings, expiry, the rate of commands |

mod actions;
mod connect;
mod requests;
mod subscriptions;
#[cfg(test)]
mod tests;
mod time;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

pub use actions::{Action, Call, Due, History, Join, Look, Opening, Publish, Wants};
pub use time::Moment;

use super::channels::Channels;
use crate::auth::{RevocationList, TokenIdentity, Verifier};
use crate::model::UserId;
use crate::protocol::{Command, Disconnect, ErrorCode, Request, reply_error};
use time::{Heart, millis};

/// What every session of a server shares.
#[derive(Debug)]
pub struct SessionOptions {
    /// Who tokens are checked by.
    pub verifier: Verifier,
    /// Which of them ended before their time.
    pub revocations: Arc<RevocationList>,
    /// The channels there are.
    pub channels: Channels,
    /// Whether one may connect without a token.
    pub anonymous: bool,
    /// Channels one client may subscribe to by itself.
    pub max_channels: usize,
    /// The longest name of a channel, in bytes.
    pub channel_length: usize,
    /// Commands a second; bursts of twice as many. `None`: any number.
    pub commands_per_second: Option<u32>,
    /// How many publications one history command answers with.
    pub history_limit: usize,
    /// How many clients one presence command answers with.
    pub presence_limit: usize,
    /// Time between pings.
    pub ping_interval: Duration,
    /// Time to answer one.
    pub pong_timeout: Duration,
    /// Time until the connect command.
    pub connect_timeout: Duration,
}

/// What this server calls itself in replies.
pub const VERSION: &str = concat!("feedline ", env!("CARGO_PKG_VERSION"));

#[derive(Debug)]
enum State {
    Fresh,
    Opening(Identity),
    Open(Identity),
    /// The connect command was answered with an error.
    Refused,
}

/// Who a session is.
#[derive(Debug)]
struct Identity {
    user: Option<UserId>,
    /// The token it came with, or was refreshed with.
    token: Option<Arc<TokenIdentity>>,
    info: Option<Box<RawValue>>,
    /// When the token runs out, in Unix seconds.
    expires_at: Option<u64>,
    /// Stands for the channels that the token names.
    channels: u64,
}

impl Identity {
    fn name(&self) -> &str {
        self.user.as_ref().map_or("", UserId::as_str)
    }
}

/// A channel that the session is in.
#[derive(Debug)]
struct Subscription {
    channel: Arc<str>,
    side: Side,
    expires_at: Option<u64>,
    /// The subscription token, where one was needed.
    token: Option<Arc<TokenIdentity>>,
}

/// Subscription tokens in use, by channel.
pub type SubscriptionTokens = Vec<(Arc<str>, Arc<TokenIdentity>)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// The server put the client there.
    Server,
    /// The client asked.
    Client,
}

/// One client's session.
#[derive(Debug)]
pub struct Session {
    options: Arc<SessionOptions>,
    client: Arc<str>,
    /// Where the client is.
    address: IpAddr,
    state: State,
    subscriptions: Vec<Subscription>,
    /// Subscription tokens were added or removed since they were last asked for.
    tokens_changed: bool,
    heart: Heart,
    /// Until when the connect command must have come, in ticks.
    connect_by: u64,
    /// Commands that may still come now, in thousandths; refilled as time passes.
    allowance: u64,
    refilled_at: u64,
}

impl Session {
    /// A fresh session. `client` is the connection's id, `address` the client's. `jitter`, 0 to 1, spreads the first pings of
    /// many.
    pub fn new(options: Arc<SessionOptions>, client: Arc<str>, address: IpAddr, now: Moment, jitter: f64) -> Self {
        let interval = millis(options.ping_interval);
        let first = interval - (interval as f64 / 2.0 * jitter.clamp(0.0, 1.0)) as u64;
        Self {
            connect_by: now.ticks + millis(options.connect_timeout),
            heart: Heart::Ping(now.ticks + first),
            allowance: options.commands_per_second.map_or(0, |rate| u64::from(rate) * 2_000),
            refilled_at: now.ticks,
            options,
            client,
            address,
            state: State::Fresh,
            subscriptions: Vec::new(),
            tokens_changed: false,
        }
    }

    /// The connection's id.
    pub fn client(&self) -> &str {
        &self.client
    }

    /// The user, once known.
    pub fn user(&self) -> Option<&UserId> {
        match &self.state {
            State::Opening(identity) | State::Open(identity) => identity.user.as_ref(),
            State::Fresh | State::Refused => None,
        }
    }

    /// The token, once known.
    pub fn token(&self) -> Option<&Arc<TokenIdentity>> {
        match &self.state {
            State::Opening(identity) | State::Open(identity) => identity.token.as_ref(),
            State::Fresh | State::Refused => None,
        }
    }

    /// The channels that the session is in.
    pub fn channels(&self) -> impl Iterator<Item = &Arc<str>> {
        self.subscriptions.iter().map(|subscription| &subscription.channel)
    }

    /// Whether the server put the client into a channel.
    pub fn is_server_side(&self, channel: &str) -> bool {
        self.subscription(channel).is_some_and(|subscription| subscription.side == Side::Server)
    }

    fn subscription(&self, channel: &str) -> Option<&Subscription> {
        self.subscriptions.iter().find(|subscription| &*subscription.channel == channel)
    }

    /// Takes a command.
    pub fn command(&mut self, command: Command, now: Moment) -> Action {
        let Command { id, request } = command;
        if id == 0 && !matches!(request, Some(Request::Send)) {
            return self.pong(now);
        }
        match (&self.state, request) {
            (State::Fresh, Some(Request::Connect(connect))) => self.connect(id, &connect, now),
            (State::Open(_), Some(request)) => {
                if self.spend(now) {
                    self.request(id, request, now)
                } else {
                    Action::Reply(reply_error(id, ErrorCode::TOO_MANY_REQUESTS, None, None))
                }
            }
            _ => Action::Close(Disconnect::BAD_REQUEST),
        }
    }

    fn request(&mut self, id: u32, request: Request, now: Moment) -> Action {
        match request {
            Request::Connect(_) => Action::Close(Disconnect::BAD_REQUEST),
            Request::Subscribe(subscribe) => self.subscribe(id, subscribe, now),
            Request::Unsubscribe(unsubscribe) => self.unsubscribe(id, &unsubscribe.channel),
            Request::Publish(publish) => self.publish(id, publish),
            Request::Presence(look) => self.presence(id, look.channel, Wants::Clients),
            Request::PresenceStats(look) => self.presence(id, look.channel, Wants::Counts),
            Request::History(history) => self.history(id, history),
            Request::Ping => refuse(id, ErrorCode::NOT_AVAILABLE),
            Request::Send => Action::Close(Disconnect::NOT_AVAILABLE),
            Request::Rpc(rpc) => {
                let (user, token, client) = (self.user().cloned(), self.token().cloned(), Arc::clone(&self.client));
                let address = self.address;
                Action::Rpc(Call { id, user, token, client, address, method: rpc.method, data: rpc.data })
            }
            Request::Refresh(token) => self.refresh(id, &token, now),
            Request::SubRefresh(refresh) => self.sub_refresh(id, &refresh, now),
        }
    }
}

/// Why a command is not granted.
enum Refusal {
    /// With this error.
    Error(ErrorCode),
    /// With the end of the connection.
    Close(Disconnect),
}

impl Refusal {
    fn of(self, id: u32) -> Action {
        match self {
            Self::Error(code) => refuse(id, code),
            Self::Close(why) => Action::Close(why),
        }
    }
}

fn refuse(id: u32, code: ErrorCode) -> Action {
    Action::Reply(reply_error(id, code, None, None))
}
