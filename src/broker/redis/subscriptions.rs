//! The pub/sub channels that a node wants to hear, and the connection that hears each.

use dashmap::DashMap;
use foldhash::fast::RandomState;

use crate::broker::epoch::new_epoch;
use crate::model::Epoch;

/// The subscriptions of a node. Its pub/sub connections are numbered from 1.
#[derive(Debug)]
pub(super) struct Subscriptions {
    /// Distinguishes the connections of this process from those of all others.
    process: Epoch,
    /// For each channel, the number of the connection that hears it, 0 while none does.
    channels: DashMap<Box<str>, u64, RandomState>,
}

impl Subscriptions {
    pub(super) fn new() -> Self {
        Self { process: new_epoch(), channels: DashMap::default() }
    }

    /// The id of a connection: no other connection ever has it.
    pub(super) fn connection_id(&self, number: u64) -> String {
        format!("{}.{number}", self.process)
    }

    /// The id of the connection that hears a channel, confirmed by Redis.
    pub(super) fn hearing(&self, channel: &str) -> Option<String> {
        let number = *self.channels.get(channel)?;
        (number > 0).then(|| self.connection_id(number))
    }

    /// Whether a connection hears a channel.
    pub(super) fn is_heard_on(&self, channel: &str, number: u64) -> bool {
        self.channels.get(channel).is_some_and(|hearing| *hearing == number)
    }

    /// Adds a channel, which no connection hears yet. `false` if it is there already.
    pub(super) fn add(&self, channel: &str) -> bool {
        let mut is_new = false;
        self.channels.entry(channel.into()).or_insert_with(|| {
            is_new = true;
            0
        });
        is_new
    }

    /// Redis has confirmed that a connection hears a channel.
    pub(super) fn confirm(&self, channel: &str, number: u64) {
        if let Some(mut hearing) = self.channels.get_mut(channel) {
            *hearing = number;
        }
    }

    /// Removes a channel. To be called before the connection is told: from then on, it does not answer for the channel.
    pub(super) fn remove(&self, channel: &str) -> bool {
        self.channels.remove(channel).is_some()
    }

    /// All channels.
    pub(super) fn all(&self) -> Vec<Box<str>> {
        self.channels.iter().map(|channel| channel.key().clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_answers_for_confirmed_channels_only() {
        let channels = Subscriptions::new();
        assert!(channels.add("a") && !channels.add("a"));
        assert_eq!(channels.hearing("a"), None);
        channels.confirm("a", 1);
        channels.confirm("b", 1);
        assert_eq!(channels.hearing("a"), Some(channels.connection_id(1)));
        assert!(channels.is_heard_on("a", 1) && !channels.is_heard_on("a", 2) && !channels.is_heard_on("b", 1));
        assert!(channels.remove("a") && !channels.remove("a"));
        assert_eq!((channels.hearing("a"), channels.all()), (None, vec![]));
    }
}
