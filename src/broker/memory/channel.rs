//! One channel: its log or inbox, who is there, and whether anybody listens.

use std::time::Instant;

use parking_lot::Mutex;

use super::channel_presence::ChannelPresence;
use super::inbox::MemoryInbox;
use super::log::ChannelLog;
use crate::broker::epoch::new_epoch;
use crate::model::Epoch;

/// A channel as the broker's map holds it.
#[derive(Default)]
pub(super) struct MemoryChannel {
    /// Held while the listener is told, so that entries are told in the order of their offsets.
    pub(super) state: Mutex<ChannelState>,
}

/// What is behind a channel's lock.
#[derive(Default)]
pub(super) struct ChannelState {
    /// Whether the listener wants to hear of it.
    pub(super) subscription: Subscription,
    /// Few channels have both, and hardly any has somebody present: there is room for what is there only.
    log: Option<Box<ChannelLog>>,
    inbox: Option<Box<MemoryInbox>>,
    presence: Option<Box<ChannelPresence>>,
}

/// Whether the listener hears of a channel.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Subscription {
    /// It subscribed.
    Active,
    /// It did not.
    #[default]
    None,
}

impl ChannelState {
    /// The log, if it has not had its time.
    pub(super) fn log(&mut self, now: Instant) -> Option<&mut ChannelLog> {
        self.log.take_if(|log| !log.is_live(now));
        self.log.as_deref_mut()
    }

    /// The log, a new one if need be.
    pub(super) fn log_or_create(&mut self, now: Instant, epoch: impl FnOnce() -> Epoch) -> &mut ChannelLog {
        self.log.take_if(|log| !log.is_live(now));
        self.log.get_or_insert_with(|| Box::new(ChannelLog::new(epoch(), now)))
    }

    /// The inbox, if it has not had its time.
    pub(super) fn inbox(&mut self, now: Instant) -> Option<&mut MemoryInbox> {
        self.inbox.take_if(|inbox| !inbox.is_live(now));
        self.inbox.as_deref_mut()
    }

    /// The inbox, if it can be read.
    pub(super) fn filled_inbox(&mut self, now: Instant) -> Option<&mut MemoryInbox> {
        self.inbox(now).filter(|inbox| inbox.is_filled())
    }

    /// The inbox, a new and unfilled one if need be. It stays `until` then.
    pub(super) fn inbox_or_create(&mut self, now: Instant, until: Instant) -> &mut MemoryInbox {
        self.inbox.take_if(|inbox| !inbox.is_live(now));
        let inbox = self.inbox.get_or_insert_with(|| Box::new(MemoryInbox::new(until)));
        inbox.keep_until(until);
        inbox
    }

    /// Drops its inbox, and replaces its log by an empty one: the epoch derived for the channel may be the one that the
    /// log had. `until`: from then on the derived epoch is a later one.
    pub(super) fn drop_log(&mut self, now: Instant, until: Instant) {
        self.inbox = None;
        if self.log(now).is_some() {
            let mut empty = ChannelLog::new(new_epoch(), now);
            empty.keep_position(until);
            self.log = Some(Box::new(empty));
        }
    }

    /// Its presence, a new one if need be.
    pub(super) fn presence_or_create(&mut self) -> &mut ChannelPresence {
        self.presence.get_or_insert_default()
    }

    /// Its presence, if anybody is there. Removes some of the entries that have expired.
    pub(super) fn presence(&mut self, now: Instant) -> Option<&mut ChannelPresence> {
        self.presence.as_mut()?.remove_expired(now);
        self.presence.take_if(|presence| presence.is_empty());
        self.presence.as_deref_mut()
    }

    /// Drops the log and the inbox: the ledger that they were made of is another one now.
    pub(super) fn discard(&mut self) {
        self.log = None;
        self.inbox = None;
    }

    /// Whether nothing would be lost with it.
    pub(super) fn is_idle(&mut self, now: Instant) -> bool {
        let unused = self.subscription == Subscription::None && self.log(now).is_none() && self.inbox(now).is_none();
        unused && self.presence(now).is_none()
    }
}
