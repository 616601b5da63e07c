//! The pub/sub channels of a node, and the connection that is subscribed to each.

use dashmap::DashMap;
use foldhash::fast::RandomState;

use crate::broker::epoch::new_epoch;
use crate::model::Epoch;

/// The channels of a node. Its pub/sub connections are numbered from 1.
#[derive(Debug)]
pub(super) struct SubscribedChannels {
    /// Distinguishes the connections of this process from those of all others.
    process: Epoch,
    /// For each channel, the number of the connection that is subscribed to it; 0: none is yet.
    channels: DashMap<Box<str>, u64, RandomState>,
}

impl SubscribedChannels {
    pub(super) fn new() -> Self {
        Self { process: new_epoch(), channels: DashMap::default() }
    }

    /// The id of a connection: no other connection ever has it.
    pub(super) fn connection_id(&self, number: u64) -> String {
        format!("{}.{number}", self.process)
    }

    /// The id of the connection that is subscribed to a channel, as confirmed by Redis.
    pub(super) fn connection_of(&self, channel: &str) -> Option<String> {
        let number = *self.channels.get(channel)?;
        (number > 0).then(|| self.connection_id(number))
    }

    /// Whether this connection is subscribed to a channel.
    pub(super) fn is_subscribed(&self, channel: &str, number: u64) -> bool {
        self.channels.get(channel).is_some_and(|subscribed| *subscribed == number)
    }

    /// Adds a channel, before a connection subscribes to it. `false` if it is there already.
    pub(super) fn add(&self, channel: &str) -> bool {
        let mut is_new = false;
        self.channels.entry(channel.into()).or_insert_with(|| {
            is_new = true;
            0
        });
        is_new
    }

    /// Notes that Redis has confirmed a subscription.
    pub(super) fn confirm(&self, channel: &str, number: u64) {
        if let Some(mut subscribed) = self.channels.get_mut(channel) {
            *subscribed = number;
        }
    }

    /// Removes a channel. Must be called before the connection unsubscribes from it: no script may record the
    /// connection as a receiver after that.
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
        let channels = SubscribedChannels::new();
        assert!(channels.add("a") && !channels.add("a"));
        assert_eq!(channels.connection_of("a"), None);
        channels.confirm("a", 1);
        channels.confirm("b", 1);
        assert_eq!(channels.connection_of("a"), Some(channels.connection_id(1)));
        assert!(channels.is_subscribed("a", 1) && !channels.is_subscribed("a", 2) && !channels.is_subscribed("b", 1));
        assert!(channels.remove("a") && !channels.remove("a"));
        assert_eq!((channels.connection_of("a"), channels.all()), (None, vec![]));
    }
}
