//! One channel: its log or inbox, its presence, and its subscription.

use std::time::Instant;

use parking_lot::Mutex;

use super::channel_presence::ChannelPresence;
use super::inbox::MemoryInbox;
use super::log::MemoryLog;
use crate::broker::epoch::new_epoch;
use crate::model::Epoch;

/// A channel as the broker's map holds it.
#[derive(Default)]
pub(super) struct MemoryChannel {
    /// Held while the listener is called, so that it receives entries in the order of their offsets.
    pub(super) state: Mutex<ChannelState>,
}

/// The state behind a channel's lock.
#[derive(Default)]
pub(super) struct ChannelState {
    /// Whether the node is subscribed.
    pub(super) subscription: SubscriptionState,
    /// Boxed: few channels have a log and an inbox, and hardly any has presence.
    log: Option<Box<MemoryLog>>,
    inbox: Option<Box<MemoryInbox>>,
    presence: Option<Box<ChannelPresence>>,
}

/// Whether the node is subscribed to a channel.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum SubscriptionState {
    /// It is subscribed.
    Active,
    /// It is not subscribed.
    #[default]
    None,
}

impl ChannelState {
    /// The log, unless it has expired.
    pub(super) fn log(&mut self, now: Instant) -> Option<&mut MemoryLog> {
        self.log.take_if(|log| !log.is_live(now));
        self.log.as_deref_mut()
    }

    /// The log; created if it does not exist.
    pub(super) fn log_or_create(&mut self, now: Instant, epoch: impl FnOnce() -> Epoch) -> &mut MemoryLog {
        self.log.take_if(|log| !log.is_live(now));
        self.log.get_or_insert_with(|| Box::new(MemoryLog::new(epoch(), now)))
    }

    /// The inbox, unless it has expired.
    pub(super) fn inbox(&mut self, now: Instant) -> Option<&mut MemoryInbox> {
        self.inbox.take_if(|inbox| !inbox.is_live(now));
        self.inbox.as_deref_mut()
    }

    /// The inbox, if it can be read.
    pub(super) fn filled_inbox(&mut self, now: Instant) -> Option<&mut MemoryInbox> {
        self.inbox(now).filter(|inbox| inbox.is_filled())
    }

    /// The inbox; created unfilled if it does not exist. It expires at `until`.
    pub(super) fn inbox_or_create(&mut self, now: Instant, until: Instant) -> &mut MemoryInbox {
        self.inbox.take_if(|inbox| !inbox.is_live(now));
        let inbox = self.inbox.get_or_insert_with(|| Box::new(MemoryInbox::new(until)));
        inbox.keep_until(until);
        inbox
    }

    /// Drops the inbox, and replaces the log by an empty one: the epoch derived for the channel may be the one that the
    /// log had. From `until` on, the derived epoch is a later one.
    pub(super) fn drop_log(&mut self, now: Instant, until: Instant) {
        self.inbox = None;
        if self.log(now).is_some() {
            let mut empty = MemoryLog::new(new_epoch(), now);
            empty.keep_position(until);
            self.log = Some(Box::new(empty));
        }
    }

    /// The presence; created if it does not exist.
    pub(super) fn presence_or_create(&mut self) -> &mut ChannelPresence {
        self.presence.get_or_insert_default()
    }

    /// The presence, unless it is empty. Removes some of the expired entries.
    pub(super) fn presence(&mut self, now: Instant) -> Option<&mut ChannelPresence> {
        self.presence.as_mut()?.remove_expired(now);
        self.presence.take_if(|presence| presence.is_empty());
        self.presence.as_deref_mut()
    }

    /// Drops the log and the inbox: the ledger has begun another incarnation.
    pub(super) fn discard(&mut self) {
        self.log = None;
        self.inbox = None;
    }

    /// Whether the channel has no state.
    pub(super) fn is_idle(&mut self, now: Instant) -> bool {
        let unused =
            self.subscription == SubscriptionState::None && self.log(now).is_none() && self.inbox(now).is_none();
        unused && self.presence(now).is_none()
    }
}
