//! A room: the members of one channel on this node, and the position up to which they have received its log.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use parking_lot::Mutex;
use slab::Slab;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::broadcaster::Broadcaster;
use super::deliveries::Deliveries;
use super::log_tracker::{LogTracker, Tracked, WaitingEntries};
use super::member::{JoiningMember, RoomMember};
use super::recipients::PushRecipients;
use super::room_link::{LinkChange, RoomLink};
use super::room_update::RoomUpdate;
use super::special_members::SpecialMembers;
use crate::broker::{Broker, BrokerError, PresenceEvent, Slice};
use crate::feed::{Audience, RenderContext};
use crate::gateway::wire::outbox::Outbox;
use crate::model::{Entry, Millis, Position, PositionRef, UserId};
use crate::protocol::{Push, PushEvent};

/// A channel with subscribers on this node.
#[derive(Debug)]
pub(crate) struct Room {
    name: Arc<str>,
    /// Decides who may receive which entry.
    audience: Audience,
    state: Mutex<RoomState>,
    /// Signalled when the position or the link has changed, if a task waits for it.
    moved: Notify,
}

/// The state of a room. Pushes are queued under its lock, so all members receive them in the same order.
#[derive(Debug)]
struct RoomState {
    members: Slab<RoomMember>,
    /// The members that asked for deltas or wrote another name, if there are any.
    special: Option<Box<SpecialMembers>>,
    log: LogTracker,
    /// When the last member left, if it is empty: see [`uptime`]. An empty room is removed after a while.
    empty_since: u32,
    link: RoomLink,
    /// Tasks may wait for [`Room::moved`]: most updates need not wake any.
    is_awaited: bool,
}

impl Room {
    pub(super) fn new(name: Arc<str>, audience: Audience) -> Self {
        // Most rooms are timelines, which have one member.
        let members = Slab::with_capacity(1);
        let log = LogTracker::default();
        let empty_since = uptime();
        let link = RoomLink::Unlinked;
        let state = RoomState { members, special: None, log, empty_since, link, is_awaited: false };
        Self { name, audience, state: Mutex::new(state), moved: Notify::new() }
    }

    /// The channel.
    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The audience of the channel.
    pub(super) fn audience(&self) -> &Audience {
        &self.audience
    }

    // --- members -----------------------------------------------------------------------------------------------------

    /// Subscribes this node to the channel, unless it is already. `false` if the room was removed.
    pub(super) async fn link(&self, broker: &dyn Broker) -> Result<bool, BrokerError> {
        loop {
            let mut moved = std::pin::pin!(self.moved.notified());
            moved.as_mut().enable();
            {
                let mut state = self.state.lock();
                match state.link {
                    RoomLink::Linked => return Ok(true),
                    RoomLink::Removed => return Ok(false),
                    RoomLink::Unlinked => {
                        state.link = RoomLink::Linking;
                        break;
                    }
                    RoomLink::Linking | RoomLink::Removing => state.is_awaited = true,
                }
            }
            moved.await;
        }
        let mut change = LinkChange { after: RoomLink::Unlinked, set: |link| self.set_link(link) };
        broker.subscribe(&self.name).await?;
        change.after = RoomLink::Linked;
        Ok(true)
    }

    fn set_link(&self, link: RoomLink) {
        let mut state = self.state.lock();
        state.link = link;
        state.wake_waiting(&self.moved);
    }

    /// Adds a client. Returns its key, and the position after which it receives entries. `None` if the room was
    /// removed, or the position of its log is not known any more.
    pub(super) fn join(&self, joining: JoiningMember<'_>) -> Option<(usize, Option<Position>)> {
        let JoiningMember { member, spelling, has_log, wants_deltas } = joining;
        let mut state = self.state.lock();
        let position = state.log.position();
        if state.link.is_removed() || (has_log && position.is_none()) {
            return None;
        }
        let key = state.members.insert(member);
        if let Some(spelling) = spelling {
            state.special.get_or_insert_default().spellings.insert(key, Arc::clone(spelling));
        }
        if wants_deltas {
            state.special.get_or_insert_default().deltas.add(key);
        }
        Some((key, position))
    }

    /// Removes a client. The key alone does not identify a member: the room may have been emptied and filled again
    /// since.
    pub(super) fn leave(&self, key: usize, outbox: &Arc<Outbox>) {
        let mut state = self.state.lock();
        if state.members.get(key).is_some_and(|member| Arc::ptr_eq(&member.outbox, outbox)) {
            state.members.remove(key);
            state.special.take_if(|special| {
                special.remove(key);
                special.is_empty()
            });
            state.note_if_empty();
        }
    }

    /// Whether nobody has been in the room for this long.
    pub(super) fn is_idle(&self, period: Duration) -> bool {
        self.state.lock().is_idle(period)
    }

    /// Removes the room if nobody has been in it for this long: the node unsubscribes from the channel. `false` if a
    /// client has joined.
    pub(super) async fn remove_if_idle(&self, period: Duration, broker: &dyn Broker) -> bool {
        let was_linked = {
            let mut state = self.state.lock();
            if !state.is_idle(period) || state.link.is_changing() || state.link.is_removed() {
                return false;
            }
            state.wake_waiting(&self.moved);
            std::mem::replace(&mut state.link, RoomLink::Removing) == RoomLink::Linked
        };
        let _change = LinkChange { after: RoomLink::Removed, set: |link| self.set_link(link) };
        if was_linked && let Err(error) = broker.unsubscribe(&self.name).await {
            // The node receives entries that nobody here reads, until a client joins the channel and leaves it again.
            tracing::debug!(%error, channel = %self.name, "a channel could not be unsubscribed from");
        }
        true
    }

    /// The send queues of the members, each with its spelling of the channel's name if that differs.
    pub(super) fn outboxes(&self) -> Vec<(Arc<Outbox>, Option<Arc<str>>)> {
        let state = self.state.lock();
        let recipients = state.recipients();
        let spelling = |key| recipients.spellings.and_then(|spellings| spellings.get(&key)).cloned();
        recipients.members.iter().map(|(key, member)| (Arc::clone(&member.outbox), spelling(key))).collect()
    }

    /// The send queues of the members that joined before a time, in Unix milliseconds.
    pub(super) fn members_before(&self, before: Millis) -> Vec<Arc<Outbox>> {
        let state = self.state.lock();
        let members = state.members.iter().map(|(_, member)| member);
        members.filter(|member| member.joined_before(before)).map(|member| Arc::clone(&member.outbox)).collect()
    }

    /// The number of members.
    pub(super) fn members(&self) -> usize {
        self.state.lock().members.len()
    }

    /// Calls a function with the users in the room.
    pub(super) fn with_readers(&self, visit: impl FnOnce(HashSet<&UserId>)) {
        let state = self.state.lock();
        visit(state.members.iter().filter_map(|(_, member)| member.reader.as_ref()).collect());
    }

    // --- the position ------------------------------------------------------------------------------------------------

    /// The position of the members; `None` if it is not known, or the channel has no log.
    pub(super) fn position(&self) -> Option<Position> {
        self.state.lock().log.position()
    }

    /// Compares the room with the end of its log; `None`: the log is gone.
    pub(super) fn compare(&self, end: Option<&Position>) -> RoomUpdate {
        let mut state = self.state.lock();
        match end {
            Some(end) => {
                let tracked = state.log.compare(end);
                self.update(&mut state, tracked)
            }
            None => self.replace(&mut state),
        }
    }

    /// Waits until the room has reached a position, or follows another log, or was removed. `false` after the deadline.
    pub(super) async fn wait_for(&self, position: &Position, deadline: Instant) -> bool {
        loop {
            let mut moved = std::pin::pin!(self.moved.notified());
            moved.as_mut().enable();
            {
                let mut state = self.state.lock();
                // A room that was replaced meanwhile is found by the caller.
                if state.link.is_removed() || state.log.has_reached(position) != Some(false) {
                    return true;
                }
                state.is_awaited = true;
            }
            if timeout_at(deadline, moved).await.is_err() {
                return false;
            }
        }
    }

    /// If hints were lost: the position after which the log is to be read.
    pub(super) fn gap(&self) -> Option<Position> {
        self.state.lock().log.gap()
    }

    /// Fills the gap after a position with a part of the log; `None`: the log is gone.
    pub(super) fn fill(&self, after: &Position, slice: Option<Slice>) -> RoomUpdate {
        let mut state = self.state.lock();
        let is_filled = slice.is_some_and(|slice| {
            // A log that ends before the delivered offset is another log.
            slice.top.offset >= after.offset && state.log.fill(slice.entries, &slice.top)
        });
        if is_filled { RoomUpdate::None } else { self.replace(&mut state) }
    }

    fn replace(&self, state: &mut RoomState) -> RoomUpdate {
        state.log.replace(None);
        self.update(state, Tracked::Replaced)
    }

    fn update(&self, state: &mut RoomState, tracked: Tracked) -> RoomUpdate {
        match tracked {
            Tracked::Unchanged => RoomUpdate::None,
            Tracked::Scheduled => RoomUpdate::Scheduled,
            Tracked::Replaced => {
                let members: Vec<_> = state.members.drain().map(|member| member.outbox).collect();
                state.special = None;
                if !members.is_empty() {
                    state.note_if_empty();
                }
                state.wake_waiting(&self.moved);
                RoomUpdate::Replaced(members)
            }
        }
    }

    // --- delivery ----------------------------------------------------------------------------------------------------

    /// Handles a hint. The next entry of application data is delivered at once; entries that need rendering wait for a
    /// worker.
    pub(crate) fn receive(
        &self,
        position: Option<PositionRef<'_>>,
        entry: &Entry,
        broadcaster: &Broadcaster,
    ) -> RoomUpdate {
        let mut state = self.state.lock();
        let Some(position) = position else {
            // Entries without a log are for channels of the application, and for those that one user alone subscribes
            // to.
            if let Entry::Data(members) = entry
                && (self.audience.is_unconditional())
            {
                state.send(&self.name, members, None, broadcaster);
            }
            return RoomUpdate::None;
        };
        if let Entry::Data(members) = entry
            && self.audience == Audience::Plain
            && state.log.is_next(position)
        {
            state.send(&self.name, members, Some(position.offset), broadcaster);
            state.log.advance();
            state.wake_waiting(&self.moved);
            return RoomUpdate::None;
        }
        let tracked = state.log.accept(position, entry);
        self.update(&mut state, tracked)
    }

    /// Delivers a join or leave.
    pub(crate) fn presence_event(&self, event: &PresenceEvent, broadcaster: &Broadcaster) {
        let event = match event {
            PresenceEvent::Join(info) => PushEvent::Join(info),
            PresenceEvent::Leave(info) => PushEvent::Leave(info),
        };
        let state = self.state.lock();
        let listening = state.recipients().select(|_, member| member.receives_joins);
        broadcaster.send(listening, Push { channel: &self.name, event });
    }

    /// The entries that wait for rendering.
    pub(super) fn waiting(&self) -> Option<WaitingEntries> {
        self.state.lock().log.waiting()
    }

    /// Delivers entries to the members who may receive them. If a client has joined whose relations are not loaded, the
    /// rest waits for the next look at the room.
    pub(super) fn deliver(&self, waiting: &WaitingEntries, context: &RenderContext, deliveries: &mut Deliveries<'_>) {
        let broadcaster = deliveries.broadcaster;
        let mut state = self.state.lock();
        // They continue when the lock is free.
        state.wake_waiting(&self.moved);
        for (offset, entry) in &waiting.entries {
            let rendered = context.render(&self.audience, entry);
            let recipients = match &rendered {
                Some(rendered) if !rendered.is_public => {
                    let readers = state.members.iter().map(|(key, member)| (key, member.reader.as_ref()));
                    context.recipients(rendered, readers)
                }
                _ => Some(Vec::new()),
            };
            let Some(recipients) = recipients else { return };
            if !state.log.take_next(waiting, *offset) {
                continue;
            }
            let Some(rendered) = rendered else { continue };
            let mut sockets = 0;
            if rendered.is_public {
                sockets = state.send(&self.name, &rendered.members, Some(*offset), broadcaster);
            }
            let position = state.log.epoch().map(|epoch| (*offset, epoch));
            for (members, keys) in &recipients {
                let event = PushEvent::Publication { members, position };
                sockets += broadcaster.send(state.recipients().of(keys), Push { channel: &self.name, event });
            }
            if let Some(delivered) = context.delivered_notification(&self.audience, entry) {
                broadcaster.ask_for_receipts(state.recipients().all().map(|it| it.outbox), delivered);
            }
            deliveries.delivered(entry, sockets);
        }
    }

    /// A worker is done with the room; `true` if it must look at the room again.
    pub(super) fn release(&self) -> bool {
        self.state.lock().log.release()
    }
}

impl RoomState {
    /// Sends a publication to all members: with its offset, if it is in the log. Returns their number.
    fn send(&mut self, channel: &str, members: &[u8], offset: Option<u64>, broadcaster: &Broadcaster) -> u64 {
        let position = offset.and_then(|offset| Some((offset, self.log.epoch()?)));
        if let Some(special) = &mut self.special
            && !special.deltas.is_empty()
        {
            let SpecialMembers { deltas, spellings } = &mut **special;
            let recipients = PushRecipients { members: &self.members, spellings: Some(spellings) };
            return deltas.send(recipients, channel, (members, position), broadcaster);
        }
        let event = PushEvent::Publication { members, position };
        broadcaster.send(self.recipients().all(), Push { channel, event })
    }

    fn recipients(&self) -> PushRecipients<'_> {
        PushRecipients { members: &self.members, spellings: self.special.as_ref().map(|special| &special.spellings) }
    }

    /// Wakes the tasks that wait until the position or the link has changed.
    fn wake_waiting(&mut self, moved: &Notify) {
        if std::mem::take(&mut self.is_awaited) {
            moved.notify_waiters();
        }
    }

    /// Members were removed.
    fn note_if_empty(&mut self) {
        if self.members.is_empty() {
            self.empty_since = uptime();
            self.members.shrink_to_fit();
        }
    }

    fn is_idle(&self, period: Duration) -> bool {
        let empty_for = Duration::from_secs(u64::from(uptime().saturating_sub(self.empty_since)));
        self.members.is_empty() && empty_for >= period
    }
}

/// The seconds since the first room was created: unlike an instant, they take four bytes of each room.
fn uptime() -> u32 {
    static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);
    u32::try_from(STARTED.elapsed().as_secs()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::wire::message_format::MessageFormat;
    use crate::gateway::wire::outbox::Bounds;
    use crate::metrics::Metrics;

    #[test]
    fn an_idle_room_is_small() {
        // With the counters of its `Arc`, and allocations in steps of 32 bytes.
        assert!(size_of::<Room>() + 2 * size_of::<usize>() <= 224, "{}", size_of::<Room>());
    }

    #[test]
    fn a_replaced_log_ends_the_membership_of_all_clients() {
        let broadcaster = Broadcaster::new(Arc::new(Metrics::new()), None);
        let at = |offset, epoch: &str| Position { offset, epoch: epoch.into() };
        let room = Room::new("topic:x".into(), Audience::Topic("x".into()));
        assert!(matches!(room.compare(Some(&at(5, "e"))), RoomUpdate::None));
        let bounds = Bounds { bytes: 10, messages: 10 };
        let outbox = || Arc::new(Outbox::new(bounds, MessageFormat::WebSocketJson, Arc::default()));
        let join = |outbox: &Arc<Outbox>| {
            let member = RoomMember::new(Arc::clone(outbox), None, false);
            room.join(JoiningMember { member, spelling: None, has_log: true, wants_deltas: false })
        };
        let first = outbox();
        let (key, position) = join(&first).unwrap();
        assert_eq!(position, Some(at(5, "e")));
        let update = room.receive(Some(at(1, "f").borrowed()), &Entry::Data("1".into()), &broadcaster);
        let RoomUpdate::Replaced(members) = update else { panic!("not replaced") };
        assert_eq!((members.len(), room.position()), (1, None));
        assert!(join(&first).is_none(), "the position is not known");
        assert!(matches!(room.compare(Some(&at(1, "f"))), RoomUpdate::None));
        let second = outbox();
        assert_eq!(join(&second).unwrap().0, key, "the key is used again");
        room.leave(key, &first);
        assert!(!room.is_idle(Duration::ZERO), "an old key removes nobody else");
        room.leave(key, &second);
        assert!(room.is_idle(Duration::ZERO));
    }
}
