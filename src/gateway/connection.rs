//! One client's connection: a task with one loop and four inputs.
//!
//! 1. frames of the client, when no command is running;
//! 2. the outcome of the running command;
//! 3. the outbox: pushes of others to this client, all of them in one write;
//! 4. time: pings, pongs, expiry.
//!
//! Commands run one at a time, in order. While a command joins the client to a channel, the outbox is not written, so
//! that the reply is written before anything from that channel.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::{Sleep, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::error::Error as WsError;

use super::command_outcome::CommandOutcome;
use super::commands::{CommandRunner, RunningCommand};
use super::connection_end::ConnectionEnd;
use super::connection_registry::ConnectionRegistry;
use super::outbox::{Bounds, KEPT_CAPACITY, Outbox, Outgoing};
use super::presence::Subscriber;
use super::session::{Action, DueAction, Session, SessionOptions, disconnect_for};
use super::session_clock::SessionClock;
use super::sockets::Registration;
use super::transport::{Framed, Transport};
use super::user_connections::{LimitReached, UserConnection, UserConnections};
use super::write_pacer::WritePacer;
use crate::auth::TokenIdentity;
use crate::feed::IdentityService;
use crate::metrics::Metrics;
use crate::protocol::{Command, Disconnect, PING, Unsubscribe, decode_frame, push_unsubscribe};

/// How long the close handshake may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Frames of the client are read first at least this often, in turns of the loop: a busy outbox cannot starve them.
const READ_EVERY: u32 = 16;

/// The parts that all connections of a node share.
pub(super) struct ConnectionShared {
    pub(super) sessions: Arc<SessionOptions>,
    pub(super) clock: SessionClock,
    pub(super) commands: Arc<CommandRunner>,
    /// The cap on connections of one user.
    pub(super) users: Arc<UserConnections>,
    /// A connection is registered from its start until it is dropped.
    pub(super) connections: Arc<ConnectionRegistry>,
    pub(super) identity: Arc<IdentityService>,
    pub(super) metrics: Arc<Metrics>,
    /// The bounds of each send queue.
    pub(super) outbox: Bounds,
    /// Wakes connections that have something to write.
    pub(super) pacer: Arc<WritePacer>,
    /// How long one write may take.
    pub(super) write_timeout: Duration,
}

/// A client's connection.
pub(super) struct Connection {
    shared: Arc<ConnectionShared>,
    socket: Transport,
    session: Session,
    outbox: Arc<Outbox>,
    /// Of a client that is connected.
    registration: Option<Registration>,
    subscribers: Vec<Subscriber>,
    /// Counts towards the connections of the user, where these are limited.
    user_connection: Option<UserConnection>,
    /// Commands of the last frame that have not run yet.
    commands: VecDeque<Command>,
    running: Option<RunningCommand>,
    /// Taken from the outbox; kept for its capacity.
    taken: VecDeque<Outgoing>,
    /// Frames to write: replies first, then those of the outbox.
    frames: VecDeque<Framed>,
    /// Turns of the loop.
    turns: u32,
    alarm: Pin<Box<Sleep>>,
}

impl Connection {
    /// Registers the connection of a client at this address.
    pub(super) fn open(shared: Arc<ConnectionShared>, socket: Transport, address: IpAddr) -> Box<Self> {
        let client: Arc<str> = uuid::Uuid::new_v4().to_string().into();
        let outbox = Arc::new(Outbox::new(shared.outbox, Arc::clone(&shared.pacer)));
        shared.connections.add(&client, &outbox);
        shared.metrics.accepted();
        let now = shared.clock.now();
        let jitter = rand::random_range(0.0..1.0);
        let session = Session::new(Arc::clone(&shared.sessions), client, address, now, jitter);
        let alarm = Box::pin(tokio::time::sleep_until(shared.clock.instant(session.next_due(now))));
        Box::new(Self {
            shared,
            socket,
            session,
            outbox,
            registration: None,
            subscribers: Vec::new(),
            user_connection: None,
            commands: VecDeque::new(),
            running: None,
            taken: VecDeque::new(),
            frames: VecDeque::new(),
            turns: 0,
            alarm,
        })
    }

    /// Closes the connection, once its queued replies are sent.
    pub(super) fn close_later(&self, reason: Disconnect) {
        self.outbox.close(reason);
    }

    /// Serves the client until it disconnects or is closed, then cleans up: rooms, presence, the close handshake.
    pub(super) async fn run(&mut self) {
        let end = loop {
            if let Err(end) = self.turn().await {
                break end;
            }
        };
        self.leave_all();
        match end {
            ConnectionEnd::Gone => {}
            ConnectionEnd::Close(why) => {
                self.shared.metrics.closed(why.code);
                tracing::debug!(client = self.session.client(), code = why.code, reason = %why.reason, "closing");
                self.close(why.code, &why.reason).await;
            }
            ConnectionEnd::Unreadable(code, reason) => {
                self.shared.metrics.closed(code);
                self.close(code, reason).await;
            }
        }
    }

    /// Waits for one of the inputs and handles it.
    async fn turn(&mut self) -> Result<(), ConnectionEnd> {
        let reading = self.running.is_none();
        let holding = self.running.as_ref().is_some_and(|running| running.holds_outbox);
        if !self.read_first(reading)? {
            let outbox = &self.outbox;
            tokio::select! {
                biased;
                () = poll_fn(|cx| outbox.poll_ready(cx)), if !holding => {}
                outcome = running(&mut self.running), if !reading => self.finish(outcome)?,
                frame = self.socket.next(), if reading => self.frame(frame)?,
                () = &mut self.alarm => self.due()?,
            }
        }
        self.advance()?;
        self.note_subscription_tokens();
        self.write().await
    }

    /// Every few turns, reads a frame if one has arrived. `true` if so: its commands are the work of this turn.
    fn read_first(&mut self, reading: bool) -> Result<bool, ConnectionEnd> {
        self.turns = self.turns.wrapping_add(1);
        if !reading || !self.turns.is_multiple_of(READ_EVERY) {
            return Ok(false);
        }
        let Some(frame) = self.socket.next().now_or_never() else { return Ok(false) };
        self.frame(frame)?;
        Ok(true)
    }

    fn frame(&mut self, frame: Option<Result<Message, WsError>>) -> Result<(), ConnectionEnd> {
        match frame {
            Some(Ok(Message::Text(text))) => {
                let commands = decode_frame(&text).map_err(|_| ConnectionEnd::Close(Disconnect::BAD_REQUEST))?;
                self.commands.extend(commands);
                Ok(())
            }
            // Pings of the protocol are commands; those of WebSocket are answered by the library.
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(()),
            Some(Ok(Message::Binary(_))) => Err(ConnectionEnd::Close(Disconnect::INAPPROPRIATE_PROTOCOL)),
            Some(Err(error)) => Err(ConnectionEnd::from(&error)),
            Some(Ok(Message::Close(_) | Message::Frame(_))) | None => Err(ConnectionEnd::Gone),
        }
    }

    /// Runs commands until one takes time.
    fn advance(&mut self) -> Result<(), ConnectionEnd> {
        while self.running.is_none()
            && let Some(command) = self.commands.pop_front()
        {
            let action = self.session.command(command, self.shared.clock.now());
            self.act(action)?;
            self.renew_registration()?;
        }
        if self.commands.is_empty() {
            // Commands are large, and most clients send nothing for hours.
            self.commands = VecDeque::new();
        }
        Ok(())
    }

    /// Registers the token of a refresh. A token that was revoked after its check is found here.
    fn renew_registration(&mut self) -> Result<(), ConnectionEnd> {
        let Some(registration) = &mut self.registration else { return Ok(()) };
        if !registration.renew(self.session.token()) {
            return Ok(());
        }
        let checked = self.shared.identity.check_revoked(registration.user(), registration.token());
        checked.map_err(|revoked| ConnectionEnd::Close(disconnect_for(revoked)))
    }

    /// Registers the tokens of subscriptions, so that a revocation finds them. A token that was revoked after its check
    /// is found here.
    fn note_subscription_tokens(&mut self) {
        let Some(registration) = &self.registration else { return };
        let Some(tokens) = self.session.changed_subscription_tokens() else { return };
        registration.set_subscriptions(tokens.clone());
        let is_valid =
            |token: &TokenIdentity| self.shared.identity.check_revoked(registration.user(), Some(token)).is_ok();
        let revoked: Vec<_> = tokens.into_iter().filter(|(_, token)| !is_valid(token)).collect();
        for (channel, _) in revoked {
            self.unsubscribe(&channel, Unsubscribe::EXPIRED);
        }
    }

    fn act(&mut self, action: Action) -> Result<(), ConnectionEnd> {
        match action {
            Action::Nothing => {}
            Action::Reply(reply) => self.send(&reply),
            Action::Close(why) => return self.close_after_replies(why),
            Action::Leave(channel, reply) => {
                self.leave(&channel);
                self.send(&reply);
            }
            Action::Open(opening) => {
                match self.shared.users.open(opening.user.as_ref()) {
                    Ok(counted) => self.user_connection = counted,
                    Err(LimitReached) => return self.close_after_replies(Disconnect::CONNECTION_LIMIT),
                }
                self.running = self.shared.commands.start(Action::Open(opening), &self.outbox);
            }
            other => self.running = self.shared.commands.start(other, &self.outbox),
        }
        Ok(())
    }

    /// Closes the connection once the replies that are queued are written.
    fn close_after_replies(&mut self, why: Disconnect) -> Result<(), ConnectionEnd> {
        if self.frames.is_empty() {
            return Err(ConnectionEnd::Close(why));
        }
        self.commands.clear();
        self.outbox.close(why);
        Ok(())
    }

    /// Handles the outcome of a command.
    fn finish(&mut self, outcome: CommandOutcome) -> Result<(), ConnectionEnd> {
        self.running = None;
        let now = self.shared.clock.now();
        match outcome {
            CommandOutcome::Reply(reply) => self.send(&reply),
            CommandOutcome::Opened(id, registration, joined) => {
                self.registration = Some(registration);
                let mut places = Vec::with_capacity(joined.len());
                for (join, mut subscriber, place) in joined {
                    subscriber.announce();
                    self.subscribers.push(subscriber);
                    places.push((join, place));
                }
                let action = self.session.opened(id, places, now);
                self.act(action)?;
            }
            CommandOutcome::Rejected(why) => return self.close_after_replies(why),
            CommandOutcome::NotOpened(id) => {
                self.user_connection = None;
                let action = self.session.not_opened(id);
                self.act(action)?;
            }
            CommandOutcome::Joined(join, mut subscriber, place) => {
                let reply = self.session.joined(&join, place, now);
                self.send(&reply);
                subscriber.announce();
                self.subscribers.push(subscriber);
            }
        }
        self.alarm.as_mut().reset(self.shared.clock.instant(self.session.next_due(now)));
        Ok(())
    }

    fn due(&mut self) -> Result<(), ConnectionEnd> {
        let now = self.shared.clock.now();
        for due in self.session.due(now) {
            match due {
                DueAction::Ping => {
                    self.send(PING.as_bytes());
                    self.subscribers.iter().for_each(Subscriber::renew_presence);
                }
                DueAction::Close(why) => return Err(ConnectionEnd::Close(why)),
                DueAction::Expired(channel) => {
                    self.leave(&channel);
                    self.send(&push_unsubscribe(&channel, Unsubscribe::EXPIRED));
                }
            }
        }
        self.alarm.as_mut().reset(self.shared.clock.instant(self.session.next_due(now)));
        Ok(())
    }

    fn send(&mut self, message: &[u8]) {
        self.frames.push_back(Framed::text(message));
    }

    /// Writes the replies, then all that the outbox holds.
    async fn write(&mut self) -> Result<(), ConnectionEnd> {
        let mut end = None;
        if !self.running.as_ref().is_some_and(|running| running.holds_outbox) {
            end = self.outbox.take(&mut self.taken);
            let mut taken = std::mem::take(&mut self.taken);
            for outgoing in taken.drain(..) {
                let over = self.translate(outgoing);
                end = end.or(over);
            }
            self.taken = taken;
        }
        if !self.frames.is_empty() {
            self.socket.try_write(&mut self.frames).map_err(|_| ConnectionEnd::Gone)?;
            if !self.frames.is_empty() {
                Box::pin(self.write_slowly(end.clone())).await?;
            }
            if self.frames.capacity() > KEPT_CAPACITY {
                self.frames = VecDeque::new();
            }
        }
        end.map_or(Ok(()), |why| Err(ConnectionEnd::Close(why)))
    }

    /// Waits for the client to accept the frames: not longer than `client.write_timeout`, and not past an overflow of
    /// its outbox.
    async fn write_slowly(&mut self, end: Option<Disconnect>) -> Result<(), ConnectionEnd> {
        let outbox = &self.outbox;
        tokio::select! {
            biased;
            written = timeout(self.shared.write_timeout, self.socket.write(&mut self.frames)) => match written {
                Ok(Ok(())) => Ok(()),
                Ok(Err(_)) => Err(ConnectionEnd::Gone),
                Err(_) => Err(ConnectionEnd::Close(end.unwrap_or(Disconnect::WRITE_ERROR))),
            },
            () = poll_fn(|cx| outbox.poll_closed(cx)), if end.is_none() => {
                Err(ConnectionEnd::Close(outbox.take(&mut VecDeque::new()).unwrap_or(Disconnect::SLOW)))
            }
        }
    }

    /// Encodes an item of the outbox. Returns a close code if a server-side subscription cannot continue.
    fn translate(&mut self, outgoing: Outgoing) -> Option<Disconnect> {
        let (channel, why) = match outgoing {
            Outgoing::Push(frame) => {
                self.frames.push_back(frame);
                return None;
            }
            Outgoing::Insufficient(channel) => (channel, Unsubscribe::INSUFFICIENT_STATE),
            Outgoing::Unsubscribed(channel) => (channel, Unsubscribe::SERVER),
            Outgoing::Revoked(channel) => (channel, Unsubscribe::EXPIRED),
        };
        if why == Unsubscribe::INSUFFICIENT_STATE && self.session.is_server_side(&channel) {
            return Some(Disconnect::INSUFFICIENT_STATE);
        }
        self.unsubscribe(&channel, why);
        None
    }

    fn unsubscribe(&mut self, channel: &str, why: Unsubscribe) {
        if self.session.dropped(channel).is_some() {
            self.leave(channel);
            self.send(&push_unsubscribe(channel, why));
        }
    }

    fn leave(&mut self, channel: &str) {
        if let Some(at) = self.subscribers.iter().position(|subscriber| **subscriber.channel() == *channel) {
            drop(self.subscribers.swap_remove(at));
        }
    }

    /// Sends the close frame, and waits for that of the client for a moment.
    async fn close(&mut self, code: u16, reason: &str) {
        let _ = Box::pin(timeout(CLOSE_TIMEOUT, self.socket.close(code, reason))).await;
    }

    fn leave_all(&mut self) {
        // A running command may have joined a room; dropping it leaves the room.
        self.running = None;
        self.user_connection = None;
        self.subscribers.clear();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.leave_all();
        self.shared.connections.remove(self.session.client());
    }
}

/// Waits for the running command, if there is one.
async fn running(running: &mut Option<RunningCommand>) -> CommandOutcome {
    match running {
        Some(running) => running.future.as_mut().await,
        None => std::future::pending().await,
    }
}
