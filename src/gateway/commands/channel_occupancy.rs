//! Which channels have subscribers on this node, for the events `channel.subscribed` and `channel.vacated`. Only the
//! subscriptions of namespaces with `events = true` are counted.

use std::sync::Arc;

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;

use crate::feed::outlet::ConnectionActivity;
use crate::model::UserId;

/// The number of subscriptions to each channel.
#[derive(Debug)]
pub(crate) struct ChannelOccupancy {
    activity: Arc<ConnectionActivity>,
    subscriptions: DashMap<Arc<str>, usize>,
}

/// A subscription. It counts from [`count`](Self::count) until it is dropped.
#[derive(Debug)]
pub(crate) struct Occupant {
    occupancy: Arc<ChannelOccupancy>,
    channel: Arc<str>,
    user: Option<UserId>,
    is_counted: bool,
}

impl ChannelOccupancy {
    /// No subscriptions yet. `activity` learns of them.
    pub(crate) fn new(activity: Arc<ConnectionActivity>) -> Self {
        Self { activity, subscriptions: DashMap::new() }
    }

    /// A subscription that does not count yet.
    pub(crate) fn occupant(self: &Arc<Self>, channel: &Arc<str>, user: Option<UserId>) -> Occupant {
        Occupant { occupancy: Arc::clone(self), channel: Arc::clone(channel), user, is_counted: false }
    }
}

impl Occupant {
    /// Counts the subscription, and reports it.
    pub(crate) fn count(&mut self) {
        self.is_counted = true;
        // Reported with the entry locked: the reports of a channel are in order.
        let mut subscriptions = self.occupancy.subscriptions.entry(Arc::clone(&self.channel)).or_default();
        *subscriptions += 1;
        self.occupancy.activity.subscribed(&self.channel, self.user.clone());
    }
}

impl Drop for Occupant {
    fn drop(&mut self) {
        if !self.is_counted {
            return;
        }
        let Entry::Occupied(mut subscriptions) = self.occupancy.subscriptions.entry(Arc::clone(&self.channel)) else {
            return;
        };
        *subscriptions.get_mut() -= 1;
        if *subscriptions.get() == 0 {
            self.occupancy.activity.vacated(&self.channel);
            subscriptions.remove();
        }
    }
}
