//! One channel: its log or inbox, who is there, and whether anybody listens.

use std::time::Instant;

use parking_lot::Mutex;

use super::inbox::Inbox;
use super::log::Log;
use super::presence::ChannelPresence;
use crate::broker::new_epoch;
use crate::model::Epoch;

/// A channel as the broker's map holds it.
#[derive(Default)]
pub(super) struct Channel {
    /// Held while the listener is told, so that entries are told in the order of their offsets.
    pub(super) state: Mutex<State>,
}

/// What is behind a channel's lock.
#[derive(Default)]
pub(super) struct State {
    /// Whether the listener wants to hear of it.
    pub(super) hearing: Hearing,
    /// Few channels have both, and hardly any has somebody present: there is room for what is there only.
    log: Option<Box<Log>>,
    inbox: Option<Box<Inbox>>,
    presence: Option<Box<ChannelPresence>>,
}

/// Whether the listener hears of a channel.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Hearing {
    /// It subscribed.
    Yes,
    /// It did not.
    #[default]
    No,
}

impl State {
    /// The log, if it has not had its time.
    pub(super) fn log(&mut self, now: Instant) -> Option<&mut Log> {
        self.log.take_if(|log| !log.lives(now));
        self.log.as_deref_mut()
    }

    /// The log, a new one if need be.
    pub(super) fn make_log(&mut self, now: Instant, epoch: impl FnOnce() -> Epoch) -> &mut Log {
        self.log.take_if(|log| !log.lives(now));
        self.log.get_or_insert_with(|| Box::new(Log::new(epoch(), now)))
    }

    /// The inbox, if it has not had its time.
    pub(super) fn inbox(&mut self, now: Instant) -> Option<&mut Inbox> {
        self.inbox.take_if(|inbox| !inbox.lives(now));
        self.inbox.as_deref_mut()
    }

    /// The inbox, if it can be read.
    pub(super) fn filled_inbox(&mut self, now: Instant) -> Option<&mut Inbox> {
        self.inbox(now).filter(|inbox| inbox.filled())
    }

    /// The inbox, a new and unfilled one if need be. It stays `until` then.
    pub(super) fn make_inbox(&mut self, now: Instant, until: Instant) -> &mut Inbox {
        self.inbox.take_if(|inbox| !inbox.lives(now));
        let inbox = self.inbox.get_or_insert_with(|| Box::new(Inbox::new(until)));
        inbox.keep_until(until);
        inbox
    }

    /// Drops its inbox, and replaces its log by an empty one: the epoch derived for the channel may be the one that the
    /// log had. `until`: from then on the derived epoch is a later one.
    pub(super) fn drop_log(&mut self, now: Instant, until: Instant) {
        self.inbox = None;
        if self.log(now).is_some() {
            let mut empty = Log::new(new_epoch(), now);
            empty.keep_position(until);
            self.log = Some(Box::new(empty));
        }
    }

    /// Its presence, a new one if need be.
    pub(super) fn make_presence(&mut self) -> &mut ChannelPresence {
        self.presence.get_or_insert_default()
    }

    /// Its presence, if anybody is there. Removes some of the entries that have expired.
    pub(super) fn presence(&mut self, now: Instant) -> Option<&mut ChannelPresence> {
        self.presence.as_mut()?.remove_expired(now);
        self.presence.take_if(|presence| presence.is_empty());
        self.presence.as_deref_mut()
    }

    /// Drops the log and the inbox: the ledger that they were made of is another one now.
    pub(super) fn lose(&mut self) {
        self.log = None;
        self.inbox = None;
    }

    /// Whether nothing would be lost with it.
    pub(super) fn idle(&mut self, now: Instant) -> bool {
        let unused = self.hearing == Hearing::No && self.log(now).is_none() && self.inbox(now).is_none();
        unused && self.presence(now).is_none()
    }
}
