//! One client's connection: a task with one loop and four inputs.
//!
//! 1. frames of the client, when no command is running;
//! 2. the outcome of the running command;
//! 3. the outbox: pushes of others to this client, all of them in one write;
//! 4. time: pings, pongs, expiry.
//!
//! `connection_output` writes. Commands run one at a time, in order; subscriptions that a backend asks for run between
//! them. While a command joins the client to a channel, the outbox is not written, so that the reply is written before
//! anything from that channel.

mod alarm;
pub(crate) mod clock;
mod output;
mod pending_input;
mod request_queue;
pub(crate) mod shared;
mod tokens;

use std::future::poll_fn;
use std::sync::Arc;

use crate::gateway::commands::outcome::{CommandOutcome, OpenedConnection};
use crate::gateway::commands::presence_tracker::Subscriber;
use crate::gateway::commands::runner::{RunningCommand, running};
use crate::gateway::registry::sockets::Registration;
use crate::gateway::registry::user_connections::{LimitReached, UserConnection};
use crate::gateway::session::{
    Action, ClientConfig, DroppedSubscription, DueAction, PingKind, Session, SessionClient, disconnect_for_error,
    hook_answers, key_wait, server_requests,
};
use crate::gateway::transport::Transport;
use crate::gateway::transport::connection_end::ConnectionEnd;
use crate::gateway::transport::incoming::Incoming;
use crate::gateway::wire::framed::Framed;
use crate::gateway::wire::message_format::MessageFormat;
use crate::gateway::wire::outbox::{Bounds, Outbox};
use crate::gateway::wire::outgoing::Outgoing;
use crate::gateway::wire::probe::Probe;
use crate::gateway::wire::spare_queues;
use crate::protocol::{Command, Disconnect, PushEvent, Unsubscribe};
use alarm::Alarm;
use futures::FutureExt;
use output::ConnectionOutput;
use pending_input::PendingInput;
use request_queue::RequestQueue;
use shared::ConnectionShared;
use tokens::{note_subscription_tokens, renew_registration};

/// Frames of the client are read first at least this often, in turns of the loop: a busy outbox cannot starve them.
const READ_EVERY: u32 = 16;

/// A client's connection.
pub(crate) struct Connection {
    shared: Arc<ConnectionShared>,
    session: Session,
    output: ConnectionOutput,
    /// Of a client that is connected.
    registration: Option<Registration>,
    subscribers: Vec<Subscriber>,
    /// Counts towards the connections of the user, where these are limited.
    user_connection: Option<Box<UserConnection>>,
    input: PendingInput,
    running: Option<RunningCommand>,
    /// What waits for the running command, besides commands of the client.
    requests: RequestQueue,
    /// Turns of the loop.
    turns: u32,
    alarm: Alarm,
}

impl Connection {
    /// Registers the connection of a client that receives messages in this format.
    pub(crate) fn open(
        shared: Arc<ConnectionShared>,
        transport: Transport,
        client: SessionClient,
        format: MessageFormat,
    ) -> Box<Self> {
        let ClientConfig { queue_bytes: bytes, queue_messages: messages, .. } = shared.sessions.client;
        let bounds = Bounds { bytes, messages };
        let outbox = Arc::new(Outbox::new(bounds, format, Arc::clone(&shared.pacer)));
        shared.connections.add(&client.id, &outbox);
        shared.base.metrics.accepted(format.transport());
        let now = shared.clock.now();
        let jitter = rand::random_range(0.0..1.0);
        let session = Session::new(Arc::clone(&shared.sessions), client, now, jitter);
        let alarm = Alarm::new(shared.clock, session.next_due(now));
        Box::new(Self {
            shared,
            session,
            output: ConnectionOutput::new(transport, outbox),
            registration: None,
            subscribers: Vec::new(),
            user_connection: None,
            input: PendingInput::default(),
            running: None,
            requests: RequestQueue::default(),
            turns: 0,
            alarm,
        })
    }

    /// Writes this first: the head of an HTTP response. Then runs the commands that came with its request.
    pub(crate) fn begin_with(&mut self, head: Framed, commands: Vec<Command>) {
        self.output.add(head);
        self.input.extend(commands);
    }

    /// Closes the connection, once its queued replies are sent.
    pub(crate) fn close_later(&self, reason: Disconnect) {
        self.output.outbox.close(reason);
    }

    /// Serves the client until it disconnects or is closed, then cleans up: rooms, presence, the close handshake.
    pub(crate) async fn run(&mut self) {
        let end = loop {
            if let Err(end) = self.turn().await {
                break end;
            }
        };
        self.leave_all();
        match end {
            ConnectionEnd::Gone => {}
            ConnectionEnd::ClosedByClient => self.output.answer_close().await,
            ConnectionEnd::Close(why) => {
                self.shared.base.metrics.closed(why.code);
                tracing::debug!(client = self.session.client(), code = why.code, reason = %why.reason, "closing");
                self.output.close(&why).await;
            }
            ConnectionEnd::Unreadable(code, reason) => {
                self.shared.base.metrics.closed(code);
                self.output.close(&Disconnect { code, reason: reason.into() }).await;
            }
        }
    }

    /// Waits for one of the inputs and handles it.
    async fn turn(&mut self) -> Result<(), ConnectionEnd> {
        let format = self.output.format();
        let reading = self.running.is_none();
        let holding = self.running.as_ref().is_some_and(|running| running.holds_outbox);
        if let Some(action) = if reading { self.requests.next(&mut self.session) } else { None } {
            self.act(action)?;
        } else if self.running.is_none() && self.input.has_commands() {
            // The commands of an HTTP request that began a stream.
        } else if !self.read_first(reading)? {
            let ConnectionOutput { transport, outbox, .. } = &mut self.output;
            let alarm = &mut self.alarm;
            let clock = self.shared.clock;
            tokio::select! {
                biased;
                () = poll_fn(|cx| outbox.poll_ready(cx)), if !holding => {}
                outcome = running(&mut self.running), if !reading => self.finish(outcome)?,
                incoming = transport.next(format), if reading => self.receive(incoming?),
                () = poll_fn(|cx| alarm.poll(clock, cx)) => self.due()?,
            }
        }
        self.advance()?;
        self.note_subscription_tokens();
        let end = self.handle_outbox();
        self.output.write(end, self.shared.sessions.client.write_timeout).await
    }

    /// Every few turns, reads a frame if one has arrived. `true` if so: its commands are the work of this turn.
    fn read_first(&mut self, reading: bool) -> Result<bool, ConnectionEnd> {
        self.turns = self.turns.wrapping_add(1);
        if !reading || !self.turns.is_multiple_of(READ_EVERY) {
            return Ok(false);
        }
        let Some(incoming) = self.output.transport.next(self.output.outbox.format()).now_or_never() else {
            return Ok(false);
        };
        self.receive(incoming?);
        Ok(true)
    }

    fn receive(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Commands(commands) => self.input.extend(commands),
            Incoming::Ping => {}
            Incoming::Pong => self.session.pong_frame(self.shared.clock.now()),
        }
        self.input.answer_probes();
    }

    /// Runs commands until one takes time.
    fn advance(&mut self) -> Result<(), ConnectionEnd> {
        while self.running.is_none()
            && let Some(command) = self.input.next_command()
        {
            let action = self.session.command(command, self.shared.clock.now());
            self.act(action)?;
            self.renew_registration()?;
        }
        Ok(())
    }

    fn renew_registration(&mut self) -> Result<(), ConnectionEnd> {
        let Some(registration) = &mut self.registration else { return Ok(()) };
        let renewed = renew_registration(registration, &self.session, &self.shared.base.identity);
        renewed.map_err(ConnectionEnd::Close)
    }

    fn note_subscription_tokens(&mut self) {
        let Some(registration) = &self.registration else { return };
        for channel in note_subscription_tokens(registration, &mut self.session, &self.shared.base.identity) {
            self.unsubscribe(&channel, Unsubscribe::EXPIRED);
        }
    }

    fn act(&mut self, action: Action) -> Result<(), ConnectionEnd> {
        match action {
            Action::Nothing => {}
            Action::Reply(reply) => match disconnect_for_error(&reply) {
                Some(why) if self.output.format().is_unidirectional() => return self.close_after_replies(why),
                _ => self.output.reply(reply),
            },
            Action::Close(why) => return self.close_after_replies(why),
            Action::Expire(channel) => self.unsubscribe(&channel, Unsubscribe::EXPIRED),
            Action::Leave(channel, reply) => {
                self.leave(&channel);
                self.output.reply(reply);
            }
            Action::Open(opening) => {
                match self.shared.users.open(opening.user.as_ref()) {
                    Ok(counted) => self.user_connection = counted,
                    Err(LimitReached) => return self.close_after_replies(Disconnect::CONNECTION_LIMIT),
                }
                self.running = self.shared.commands.start(Action::Open(opening), &self.output.outbox);
            }
            other => self.running = self.shared.commands.start(other, &self.output.outbox),
        }
        Ok(())
    }

    /// Closes the connection once the replies that are queued are written.
    fn close_after_replies(&mut self, why: Disconnect) -> Result<(), ConnectionEnd> {
        self.input.clear_commands();
        if self.output.is_empty() {
            return Err(ConnectionEnd::Close(why));
        }
        self.output.outbox.close(why);
        Ok(())
    }

    /// Handles the outcome of a command.
    fn finish(&mut self, outcome: CommandOutcome) -> Result<(), ConnectionEnd> {
        self.running = None;
        let now = self.shared.clock.now();
        match outcome {
            CommandOutcome::Reply(reply) => self.output.reply(reply),
            CommandOutcome::Opened(opened) => self.opened(*opened)?,
            CommandOutcome::Rejected(why) => return self.close_after_replies(why),
            CommandOutcome::NotOpened(id) => {
                self.user_connection = None;
                let action = self.session.not_opened(id);
                self.act(action)?;
            }
            CommandOutcome::Joined(join, mut subscriber, place) => {
                let reply = self.session.joined(&join, place, now);
                self.output.reply(reply);
                subscriber.announce();
                self.subscribers.push(subscriber);
            }
            CommandOutcome::JoinedForBackend(joining, mut subscriber, place) => {
                let channel = Arc::clone(joining.join.shown_name());
                let (push, missed) = server_requests::joined_for_backend(&mut self.session, *joining, place);
                self.output.push(&channel, PushEvent::Subscribe(&push));
                missed.iter().for_each(|publication| self.output.push(&channel, PushEvent::Missed(publication)));
                subscriber.announce();
                self.subscribers.push(subscriber);
            }
            CommandOutcome::AccessLost(channels) => {
                channels.iter().for_each(|channel| self.unsubscribe(channel, Unsubscribe::NOT_VISIBLE));
            }
            CommandOutcome::NotJoined => {}
            CommandOutcome::KeyAwaited(waited) => {
                let action = key_wait::resume(&mut self.session, *waited, now);
                self.act(action)?;
                self.renew_registration()?;
            }
            CommandOutcome::Answered(answered) => {
                let action = hook_answers::answered(&mut self.session, *answered, now);
                self.act(action)?;
            }
        }
        self.reset_alarm();
        Ok(())
    }

    /// Opens the session of a client that is in its channels.
    fn opened(&mut self, opened: OpenedConnection) -> Result<(), ConnectionEnd> {
        let OpenedConnection { id, user, registration, joined } = opened;
        self.registration = Some(registration);
        let mut places = Vec::with_capacity(joined.len());
        // Most clients have these subscriptions alone.
        self.subscribers.reserve_exact(joined.len());
        for (join, mut subscriber, place) in joined {
            subscriber.announce();
            self.subscribers.push(subscriber);
            places.push((join, place));
        }
        if let Some(user) = user {
            self.session.respell(user);
        }
        let mut action = self.session.opened(id, places, self.shared.clock.now());
        self.output.name_stream(&mut action);
        self.act(action)
    }

    fn due(&mut self) -> Result<(), ConnectionEnd> {
        let now = self.shared.clock.now();
        for due in self.session.due(now) {
            match due {
                DueAction::Ping => {
                    self.output.ping(self.session.pings());
                    self.subscribers.iter().for_each(Subscriber::renew_presence);
                }
                DueAction::Close(why) => return Err(ConnectionEnd::Close(why)),
                DueAction::Ask(target) => self.requests.ask(target),
                DueAction::Expired(dropped) => self.end(&dropped, Unsubscribe::EXPIRED),
            }
        }
        self.reset_alarm();
        Ok(())
    }

    /// Handles all items of the outbox, unless a command holds them. Returns the close code, if the client must be
    /// closed after them.
    fn handle_outbox(&mut self) -> Option<Disconnect> {
        if self.running.as_ref().is_some_and(|running| running.holds_outbox) {
            return None;
        }
        let (mut taken, mut end) = self.output.outbox.take();
        for outgoing in taken.drain(..) {
            let over = self.translate(outgoing);
            end = end.or(over);
        }
        spare_queues::keep_items(taken);
        end
    }

    /// Encodes an item of the outbox. Returns a close code if a server-side subscription cannot continue.
    fn translate(&mut self, outgoing: Outgoing) -> Option<Disconnect> {
        let (channel, why) = match outgoing {
            Outgoing::Push(frame) => {
                self.output.add(frame);
                return None;
            }
            Outgoing::Probe(probe) => {
                self.probe(probe);
                return None;
            }
            Outgoing::CheckAccess => {
                self.requests.check_access();
                return None;
            }
            Outgoing::Subscribed(subscription) => return self.requests.join(subscription).err(),
            Outgoing::Refreshed(request) => {
                let now = self.shared.clock.now();
                let refreshed = server_requests::refresh_for_backend(&mut self.session, &request, now);
                if let Ok(Some((expires, ttl))) = refreshed {
                    self.output.push("", PushEvent::Refresh { expires, ttl });
                }
                self.reset_alarm();
                return refreshed.err();
            }
            Outgoing::Insufficient(channel) => (channel, Unsubscribe::INSUFFICIENT_STATE),
            Outgoing::Unsubscribed(channel) if channel.is_empty() => {
                let channels = server_requests::channels_of_backend(&self.session);
                channels.iter().for_each(|channel| self.unsubscribe(channel, Unsubscribe::SERVER));
                return None;
            }
            Outgoing::Unsubscribed(channel) => (channel, Unsubscribe::SERVER),
            Outgoing::Revoked(channel) => (channel, Unsubscribe::EXPIRED),
        };
        if why == Unsubscribe::INSUFFICIENT_STATE && self.session.is_server_side(&channel) {
            return Some(Disconnect::INSUFFICIENT_STATE);
        }
        self.unsubscribe(&channel, why);
        None
    }

    /// Pings the client, unless its pong is expected already. A client that answers no pings gives no sign.
    fn probe(&mut self, probe: Probe) {
        if self.session.pings() == PingKind::OneWay {
            return;
        }
        let now = self.shared.clock.now();
        if self.session.probe(now) {
            self.output.ping(self.session.pings());
            self.reset_alarm();
        }
        self.input.expect_answer(probe);
    }

    /// Wakes the connection when the session has something to do again.
    fn reset_alarm(&mut self) {
        let next = self.session.next_due(self.shared.clock.now());
        self.alarm.reset(self.shared.clock, next);
    }

    fn unsubscribe(&mut self, channel: &str, why: Unsubscribe) {
        if let Some(dropped) = self.session.dropped(channel) {
            self.end(&dropped, why);
        }
    }

    fn end(&mut self, dropped: &DroppedSubscription, why: Unsubscribe) {
        self.leave(&dropped.channel);
        self.output.push(&dropped.shown_name, PushEvent::Unsubscribe(why));
    }

    fn leave(&mut self, channel: &str) {
        if let Some(at) = self.subscribers.iter().position(|subscriber| **subscriber.channel() == *channel) {
            drop(self.subscribers.swap_remove(at));
        }
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
        self.shared.base.metrics.disconnected(self.output.format().transport());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_is_small() {
        // Allocations have sizes in steps of 128 bytes here: one byte more takes 128.
        assert!(size_of::<Connection>() <= 768, "{}", size_of::<Connection>());
    }
}
