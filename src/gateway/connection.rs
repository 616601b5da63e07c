//! One client's connection: a task with one loop and four inputs.
//!
//! 1. what the client says: frames, when no command is running;
//! 2. the command that is running: its answer;
//! 3. the outbox: what others have for this client, all of it at once and flushed once;
//! 4. time: pings, pongs, expiry.
//!
//! Commands run one at a time, in order. While one runs that brings the client into a channel, the outbox is left
//! alone, so that the reply is written before anything from that channel.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::{Instant, Sleep, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::error::{CapacityError, Error as WsError, ProtocolError};

use super::Gateway;
use super::commands::{Done, Running};
use super::outbox::{Outbox, Outgoing, ROOM_KEPT};
use super::presence::Subscriber;
use super::session::{Action, DueAction, Session, SessionTime, disconnect_for};
use super::sockets::Registration;
use super::transport::{Framed, Transport};
use super::user_connections::{LimitReached, UserConnection};
use crate::auth::TokenIdentity;
use crate::protocol::{Command, Disconnect, PING, Unsubscribe, decode_frame, push_unsubscribe};

/// How long the close handshake may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A client that is told much is still listened to: every so many turns before anything else.
const LISTEN_EVERY: u32 = 16;

/// Why the loop ended.
enum End {
    /// The client went, or the transport failed.
    Gone,
    /// The server closes.
    Close(Disconnect),
    /// What came is no message that may come: the WebSocket's own codes say so.
    Unreadable(u16, &'static str),
}

/// A client's connection.
pub(super) struct Connection {
    gateway: Arc<Gateway>,
    socket: Transport,
    session: Session,
    outbox: Arc<Outbox>,
    /// Once it is connected.
    registration: Option<Registration>,
    subscribers: Vec<Subscriber>,
    /// The place among the connections of the user, where these are limited.
    user_connection: Option<UserConnection>,
    /// Commands of the last frame that have not run yet.
    commands: VecDeque<Command>,
    running: Option<Running>,
    /// What has been taken out of the outbox; kept for its room.
    taken: VecDeque<Outgoing>,
    /// What is to be written: replies first, then what was in the outbox.
    frames: VecDeque<Framed>,
    /// Counts the turns of the loop.
    turns: u32,
    alarm: Pin<Box<Sleep>>,
}

impl Connection {
    pub(super) fn new(
        gateway: Arc<Gateway>,
        socket: Transport,
        client: Arc<str>,
        address: IpAddr,
        outbox: Arc<Outbox>,
    ) -> Self {
        let now = gateway.now();
        let jitter = rand::random_range(0.0..1.0);
        let session = Session::new(Arc::clone(&gateway.sessions), client, address, now, jitter);
        let alarm = Box::pin(tokio::time::sleep_until(gateway.instant(session.next_due(now))));
        Self {
            gateway,
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
        }
    }

    /// Serves the client until it goes or is closed, then cleans up: seats, presence, the close handshake.
    pub(super) async fn run(&mut self) {
        let end = loop {
            if let Err(end) = self.turn().await {
                break end;
            }
        };
        self.leave_all();
        match end {
            End::Gone => {}
            End::Close(why) => {
                self.gateway.metrics.closed(why.code);
                tracing::debug!(client = self.session.client(), code = why.code, reason = %why.reason, "closing");
                self.close(why.code, &why.reason).await;
            }
            End::Unreadable(code, reason) => {
                self.gateway.metrics.closed(code);
                self.close(code, reason).await;
            }
        }
    }

    /// Waits for one of the inputs and deals with it.
    async fn turn(&mut self) -> Result<(), End> {
        let reading = self.running.is_none();
        let holding = self.running.as_ref().is_some_and(|running| running.holds);
        if !self.listen_first(reading)? {
            let outbox = &self.outbox;
            tokio::select! {
                biased;
                () = poll_fn(|cx| outbox.poll_ready(cx)), if !holding => {}
                done = running(&mut self.running), if !reading => self.done(done)?,
                frame = self.socket.next(), if reading => self.frame(frame)?,
                () = &mut self.alarm => self.due()?,
            }
        }
        self.advance()?;
        self.note_subscription_tokens();
        self.write().await
    }

    /// Every so many turns, takes a frame if one is there. `true` if so: what it asks for is this turn's work.
    fn listen_first(&mut self, reading: bool) -> Result<bool, End> {
        self.turns = self.turns.wrapping_add(1);
        if !reading || !self.turns.is_multiple_of(LISTEN_EVERY) {
            return Ok(false);
        }
        let Some(frame) = self.socket.next().now_or_never() else { return Ok(false) };
        self.frame(frame)?;
        Ok(true)
    }

    fn frame(&mut self, frame: Option<Result<Message, WsError>>) -> Result<(), End> {
        match frame {
            Some(Ok(Message::Text(text))) => {
                let commands = decode_frame(&text).map_err(|_| End::Close(Disconnect::BAD_REQUEST))?;
                self.commands.extend(commands);
                Ok(())
            }
            // An application's ping is a command; the WebSocket's own is answered by the library.
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(()),
            Some(Ok(Message::Binary(_))) => Err(End::Close(Disconnect::INAPPROPRIATE_PROTOCOL)),
            Some(Err(error)) => Err(unreadable(&error)),
            Some(Ok(Message::Close(_) | Message::Frame(_))) | None => Err(End::Gone),
        }
    }

    /// Runs commands until one takes time.
    fn advance(&mut self) -> Result<(), End> {
        while self.running.is_none()
            && let Some(command) = self.commands.pop_front()
        {
            let action = self.session.command(command, self.gateway.now());
            self.act(action)?;
            self.renew_registration()?;
        }
        if self.commands.is_empty() {
            // Commands are large, and most sockets say nothing for hours.
            self.commands = VecDeque::new();
        }
        Ok(())
    }

    /// Notes the token of a refresh. One that ended between its check and now is found here.
    fn renew_registration(&mut self) -> Result<(), End> {
        let Some(registration) = &mut self.registration else { return Ok(()) };
        if !registration.renew(self.session.token()) {
            return Ok(());
        }
        let checked = self.gateway.feed.identity.check_revoked(registration.user(), registration.token());
        checked.map_err(|revoked| End::Close(disconnect_for(revoked)))
    }

    /// Notes the tokens of subscriptions, so that a revocation finds them. One that ended between its check and now is
    /// found here.
    fn note_subscription_tokens(&mut self) {
        let Some(registration) = &self.registration else { return };
        let Some(tokens) = self.session.changed_subscription_tokens() else { return };
        registration.set_subscriptions(tokens.clone());
        let is_valid =
            |token: &TokenIdentity| self.gateway.feed.identity.check_revoked(registration.user(), Some(token)).is_ok();
        let revoked: Vec<_> = tokens.into_iter().filter(|(_, token)| !is_valid(token)).collect();
        for (channel, _) in revoked {
            self.unsubscribe(&channel, Unsubscribe::EXPIRED);
        }
    }

    fn act(&mut self, action: Action) -> Result<(), End> {
        match action {
            Action::Nothing => {}
            Action::Reply(reply) => self.say(&reply),
            Action::Close(why) => return self.close_after_replies(why),
            Action::Leave(channel, reply) => {
                self.leave(&channel);
                self.say(&reply);
            }
            Action::Open(opening) => {
                match self.gateway.users.open(opening.user.as_ref()) {
                    Ok(counted) => self.user_connection = counted,
                    Err(LimitReached) => return self.close_after_replies(Disconnect::CONNECTION_LIMIT),
                }
                self.running = self.gateway.run(Action::Open(opening), &self.outbox);
            }
            other => self.running = self.gateway.run(other, &self.outbox),
        }
        Ok(())
    }

    /// What is said before the end is still said.
    fn close_after_replies(&mut self, why: Disconnect) -> Result<(), End> {
        if self.frames.is_empty() {
            return Err(End::Close(why));
        }
        self.commands.clear();
        self.outbox.close(why);
        Ok(())
    }

    /// A command has run.
    fn done(&mut self, done: Done) -> Result<(), End> {
        self.running = None;
        let now = self.gateway.now();
        match done {
            Done::Say(reply) => self.say(&reply),
            Done::Opened(id, registration, joined) => {
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
            Done::Refused(why) => return self.close_after_replies(why),
            Done::NotOpened(id) => {
                self.user_connection = None;
                let action = self.session.not_opened(id);
                self.act(action)?;
            }
            Done::Joined(join, mut subscriber, place) => {
                let reply = self.session.joined(&join, place, now);
                self.say(&reply);
                subscriber.announce();
                self.subscribers.push(subscriber);
            }
        }
        self.alarm.as_mut().reset(self.gateway.instant(self.session.next_due(now)));
        Ok(())
    }

    fn due(&mut self) -> Result<(), End> {
        let now = self.gateway.now();
        for due in self.session.due(now) {
            match due {
                DueAction::Ping => {
                    self.say(PING.as_bytes());
                    self.subscribers.iter().for_each(Subscriber::renew_presence);
                }
                DueAction::Close(why) => return Err(End::Close(why)),
                DueAction::Expired(channel) => {
                    self.leave(&channel);
                    self.say(&push_unsubscribe(&channel, Unsubscribe::EXPIRED));
                }
            }
        }
        self.alarm.as_mut().reset(self.gateway.instant(self.session.next_due(now)));
        Ok(())
    }

    fn say(&mut self, message: &[u8]) {
        self.frames.push_back(Framed::text(message));
    }

    /// Writes the replies, then all that the outbox holds.
    async fn write(&mut self) -> Result<(), End> {
        let mut end = None;
        if !self.running.as_ref().is_some_and(|running| running.holds) {
            end = self.outbox.take(&mut self.taken);
            let mut taken = std::mem::take(&mut self.taken);
            for outgoing in taken.drain(..) {
                let over = self.translate(outgoing);
                end = end.or(over);
            }
            self.taken = taken;
        }
        if !self.frames.is_empty() {
            self.socket.try_write(&mut self.frames).map_err(|_| End::Gone)?;
            if !self.frames.is_empty() {
                Box::pin(self.write_slowly(end.clone())).await?;
            }
            if self.frames.capacity() > ROOM_KEPT {
                self.frames = VecDeque::new();
            }
        }
        end.map_or(Ok(()), |why| Err(End::Close(why)))
    }

    /// Waits for the client to take what is to be written, not longer than allowed, nor than its outbox holds out.
    async fn write_slowly(&mut self, end: Option<Disconnect>) -> Result<(), End> {
        let outbox = &self.outbox;
        tokio::select! {
            biased;
            written = timeout(self.gateway.options.write_timeout, self.socket.write(&mut self.frames)) => match written {
                Ok(Ok(())) => Ok(()),
                Ok(Err(_)) => Err(End::Gone),
                Err(_) => Err(End::Close(end.unwrap_or(Disconnect::WRITE_ERROR))),
            },
            () = poll_fn(|cx| outbox.poll_closed(cx)), if end.is_none() => {
                Err(End::Close(outbox.take(&mut VecDeque::new()).unwrap_or(Disconnect::SLOW)))
            }
        }
    }

    /// Puts words to what the hub says. The close code, if a subscription of the server's own is over.
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
            self.say(&push_unsubscribe(channel, why));
        }
    }

    fn leave(&mut self, channel: &str) {
        if let Some(at) = self.subscribers.iter().position(|subscriber| **subscriber.channel() == *channel) {
            drop(self.subscribers.swap_remove(at));
        }
    }

    /// Says why, and gives the client a moment to hear it before the socket goes.
    async fn close(&mut self, code: u16, reason: &str) {
        let _ = Box::pin(timeout(CLOSE_TIMEOUT, self.socket.close(code, reason))).await;
    }

    fn leave_all(&mut self) {
        // A command that still runs may have taken a seat, which goes with it.
        self.running = None;
        self.user_connection = None;
        self.subscribers.clear();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.leave_all();
        self.gateway.clients.remove(self.session.client());
    }
}

/// What a failed read means: a transport that has ended, or a client that does not speak WebSocket.
fn unreadable(error: &WsError) -> End {
    match error {
        WsError::Capacity(CapacityError::MessageTooLong { .. }) => End::Unreadable(1009, "message too large"),
        WsError::Utf8(_) => End::Unreadable(1007, "not UTF-8"),
        WsError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => End::Gone,
        WsError::Protocol(_) => End::Unreadable(1002, "protocol error"),
        _ => End::Gone,
    }
}

/// Waits for the running command, if there is one.
async fn running(running: &mut Option<Running>) -> Done {
    match running {
        Some(running) => running.future.as_mut().await,
        None => std::future::pending().await,
    }
}

impl Gateway {
    pub(super) fn now(&self) -> SessionTime {
        let ticks = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        SessionTime { ticks, unix: crate::feed::now() / 1_000 }
    }

    fn instant(&self, ticks: u64) -> Instant {
        self.started + Duration::from_millis(ticks)
    }
}
