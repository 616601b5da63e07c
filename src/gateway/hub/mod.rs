//! The hub: which sockets of this node are in which channel, and what they have been told.
//!
//! Each channel that somebody here listens to has a `Room`. The room knows up to which offset its members were told;
//! a hint for the next offset is delivered, an older one dropped, and one further on means that hints were lost: the
//! room reads the log (`worker`). So every member of a room stands at the same position, and a socket that joins gets
//! what lies between its own position and the room's from the log, and everything after from the room.
//!
//! Application data is delivered where the hint arrives. Posts are ids in the log: workers put the bodies in, many
//! rooms and one fetch at a time.

mod catch_up;
mod room;
mod upkeep;
mod worker;

use std::sync::Arc;

use dashmap::DashMap;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::Parts;
use super::channels::ResolvedChannel;
use super::commands::ENTRIES_PER_UNIT;
use super::join::{Join, Joined};
use super::outbox::{Outbox, Outgoing};
use super::sockets::UserSockets;
use super::transport::Framed;
use crate::broker::{Broker, Invalidation, MessageListener, PresenceEvent, Signal, Span};
use crate::feed::{Audience, Feed, FeedError, Presence, Viewer};
use crate::metrics::Metrics;
use crate::model::{Channel, Entry, Position};
use crate::protocol::{Publication, push_join, push_leave, push_publication};

use catch_up::{CATCH_UP_TIMEOUT, fits};
use room::{Accepted, Member, Room, RoomState};
use worker::Work;

/// The hub of this node.
pub struct Hub {
    rooms: DashMap<Arc<str>, Arc<Room>>,
    sockets: Arc<UserSockets>,
    broker: Arc<dyn Broker>,
    feed: Arc<Feed>,
    metrics: Arc<Metrics>,
    work: Work,
    /// How many missed entries one recovery tells.
    recovery_limit: u64,
}

/// A place in a room, for as long as it is kept.
#[derive(Debug)]
pub struct Seat {
    room: Arc<Room>,
    key: usize,
    outbox: Arc<Outbox>,
    /// Of a timeline: has the feed keep it up to date.
    _presence: Option<Presence>,
}

impl Seat {
    /// The channel's name.
    pub fn channel(&self) -> &Arc<str> {
        &self.room.name
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.room.state.lock().exit(self.key, &self.outbox);
    }
}

impl Hub {
    /// A hub that hears the broker. Needs [`start`](Self::start).
    pub(super) fn new(parts: &Parts, sockets: Arc<UserSockets>, recovery_limit: usize) -> Arc<Self> {
        let hub = Arc::new(Self {
            rooms: DashMap::new(),
            sockets,
            broker: Arc::clone(&parts.broker),
            feed: Arc::clone(&parts.feed),
            metrics: Arc::clone(&parts.metrics),
            work: Work::default(),
            recovery_limit: recovery_limit as u64,
        });
        hub.broker.listen(Arc::new(Ears(Arc::clone(&hub))));
        hub
    }

    /// How many channels have listeners here.
    pub fn channels(&self) -> usize {
        self.rooms.len()
    }

    /// Brings a client into a channel. From then on, and until the seat is dropped, everything after
    /// [`Joined::position`] is put into its outbox.
    ///
    /// # Errors
    /// If a store cannot be reached, or the client's budget for reads is used up; the client is not in the channel then.
    pub async fn join(&self, join: &Join, outbox: &Arc<Outbox>) -> Result<(Seat, Joined), FeedError> {
        let Join { name, channel, recover, user, .. } = join;
        let deadline = Instant::now() + CATCH_UP_TIMEOUT;
        let (seat, position) = loop {
            let mut presence = None;
            let room = self.room(name, channel);
            if !self.link(&room).await? {
                continue;
            }
            if channel.has_log() {
                let position = match &channel.channel {
                    Channel::Timeline(user) => {
                        let (position, here) = self.feed.inboxes.track_presence(user).await?;
                        presence = Some(here);
                        Some(position)
                    }
                    _ if room.state.lock().position().is_some_and(|room| fits(recover, &room)) => None,
                    _ => self.broker.position(name).await?,
                };
                if let Some(position) = position {
                    self.establish(&room, &position);
                    self.catch_up_with(recover, &room, &position, deadline).await?;
                }
            }
            let mut state = room.state.lock();
            let position = state.position();
            // Meanwhile the room may have been swept up, or its log replaced.
            if state.is_dead() || (channel.has_log() && position.is_none()) {
                continue;
            }
            let key = state.enter(Member { outbox: Arc::clone(outbox), reader: user.clone() });
            drop(state);
            break (Seat { room, key, outbox: Arc::clone(outbox), _presence: presence }, position);
        };
        let missed = match &position {
            Some(position) if recover.recover => self.missed(join, position).await?,
            _ => None,
        };
        Ok((seat, Joined { position, missed }))
    }

    fn room(&self, name: &Arc<str>, channel: &ResolvedChannel) -> Arc<Room> {
        if let Some(room) = self.rooms.get(name) {
            return Arc::clone(&room);
        }
        let room = || Arc::new(Room::new(Arc::clone(name), channel.audience()));
        Arc::clone(&self.rooms.entry(Arc::clone(name)).or_insert_with(room))
    }

    /// Has the broker tell this node of the channel. `false` if the room was swept up.
    async fn link(&self, room: &Arc<Room>) -> Result<bool, FeedError> {
        let mut linked = room.linked.lock().await;
        if room.state.lock().is_dead() {
            return Ok(false);
        }
        if !*linked {
            self.broker.subscribe(&room.name).await?;
            *linked = true;
        }
        Ok(true)
    }

    /// Compares a room with where its log stands.
    fn establish(&self, room: &Arc<Room>, position: &Position) {
        let accepted = room.state.lock().establish(position);
        self.after(room, accepted);
    }

    fn after(&self, room: &Arc<Room>, accepted: Accepted) {
        match accepted {
            Accepted::Nothing => {}
            Accepted::Scheduled => self.work.push(Arc::clone(room)),
            Accepted::Replaced(members) => {
                room.moved.notify_waiters();
                for member in members {
                    member.outbox.push(Outgoing::Insufficient(Arc::clone(&room.name)));
                }
            }
        }
    }

    /// All that lies between where a client left and where the room stands; `None` if that cannot be told completely.
    async fn missed(&self, join: &Join, position: &Position) -> Result<Option<Vec<Publication>>, FeedError> {
        let recover = &join.recover;
        if !fits(recover, position) {
            return Ok(None);
        }
        let missed = position.offset - recover.offset;
        if missed == 0 {
            return Ok(Some(Vec::new()));
        }
        if missed > self.recovery_limit {
            return Ok(None);
        }
        // What the server itself brings a client into is not the client's doing.
        if join.id != 0 {
            let units = u32::try_from(missed / ENTRIES_PER_UNIT as u64).unwrap_or(u32::MAX);
            self.feed.rates.take_reads(join.user.as_ref(), join.address, units)?;
        }
        // No more than the limit, which is a usize.
        let Some(mut slice) = self.broker.read(&join.name, Span::After(recover.offset, missed as usize)).await? else {
            return Ok(None);
        };
        slice.entries.retain(|(offset, _)| *offset <= position.offset);
        if slice.top.epoch != position.epoch || slice.entries.len() as u64 != missed {
            return Ok(None);
        }
        let viewer = Viewer::Client(join.user.as_ref());
        self.publications(&join.channel.audience(), viewer, slice.entries).await.map(Some)
    }

    /// Log entries as a viewer reads them in a reply: those that are for them.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub async fn publications(
        &self,
        audience: &Audience,
        viewer: Viewer<'_>,
        entries: Vec<(u64, Entry)>,
    ) -> Result<Vec<Publication>, FeedError> {
        let (offsets, entries): (Vec<u64>, Vec<Entry>) = entries.into_iter().unzip();
        let told = self.feed.event_renderer.render(audience, viewer, &entries).await?;
        let told = offsets.into_iter().zip(told).filter_map(|(offset, members)| Some((offset, members?)));
        told.map(|(offset, members)| publication(offset, &members)).collect()
    }

    /// Delivers one publication to the members of a room. Under the room's lock, so that all are told in one order.
    fn deliver(&self, state: &RoomState, name: &str, members: &[u8], position: Option<&Position>) {
        let place = position.map(|position| (position.offset, &position.epoch));
        self.broadcast(state.members(), &push_publication(name, members, place));
    }

    fn broadcast<'a>(&self, members: impl Iterator<Item = &'a Member>, push: &[u8]) {
        let push = Framed::text(push);
        let mut told = 0;
        for member in members {
            told += 1;
            if !member.outbox.push(Outgoing::Push(push.clone())) {
                self.metrics.dropped_slow();
            }
        }
        self.metrics.delivered(told);
    }
}

/// A publication in a reply: an object with its members and its offset.
fn publication(offset: u64, members: &[u8]) -> Result<Publication, FeedError> {
    let members = std::str::from_utf8(members).map_err(|_| FeedError::Internal)?;
    RawValue::from_string(format!("{{{members},\"offset\":{offset}}}")).map_err(|error| {
        tracing::error!(%error, "a publication in a log is not JSON");
        FeedError::Internal
    })
}

/// What the broker tells the hub.
struct Ears(Arc<Hub>);

impl MessageListener for Ears {
    fn entry(&self, channel: &str, position: Option<&Position>, entry: &Entry) {
        let hub = &self.0;
        let Some(room) = hub.rooms.get(channel).map(|room| Arc::clone(&room)) else { return };
        let mut state = room.state.lock();
        let Some(position) = position else {
            // What is told without its log where one person is alone is about that person's own doings.
            if let Entry::Data(members) = entry
                && matches!(room.audience, Audience::Plain | Audience::Timeline(_) | Audience::Notifications(_))
            {
                hub.deliver(&state, channel, members, None);
            }
            return;
        };
        if let Entry::Data(members) = entry
            && room.audience == Audience::Plain
            && state.follows_directly(position)
        {
            hub.deliver(&state, channel, members, Some(position));
            state.advance(position.offset);
            room.moved.notify_waiters();
            return;
        }
        let accepted = state.accept(position, entry);
        drop(state);
        hub.after(&room, accepted);
    }

    fn presence_event(&self, channel: &str, notice: &PresenceEvent) {
        let Some(room) = self.0.rooms.get(channel).map(|room| Arc::clone(&room)) else { return };
        let push = match notice {
            PresenceEvent::Join(info) => push_join(channel, info),
            PresenceEvent::Leave(info) => push_leave(channel, info),
        };
        self.0.broadcast(room.state.lock().members(), &push);
    }

    fn signal(&self, signal: Signal) {
        match signal {
            Signal::Disconnect(request) => self.0.sockets.disconnect(&request),
            signal => self.0.feed.on_signal(signal),
        }
    }

    fn invalidate(&self, what: &[Invalidation]) {
        self.0.feed.invalidator.apply(what);
    }

    fn invalidate_all(&self) {
        self.0.feed.invalidator.clear();
    }

    fn resync(&self) {
        self.0.feed.on_resync();
        self.0.work.resync();
    }
}
