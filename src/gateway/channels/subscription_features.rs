//! What one subscription has: from its channel, and from the override of a token, a hook or a backend.

use super::ResolvedChannel;
use crate::model::{SubscribeOverride, overridden};

/// What a subscription has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriptionFeatures {
    /// The client is kept in the presence of the channel.
    pub presence: bool,
    /// The join and the leave of the client are pushed.
    pub announces_joins: bool,
    /// The client receives joins and leaves.
    pub receives_joins: bool,
    /// The client follows the position of the channel.
    pub positioned: bool,
    /// The client can recover what it missed.
    pub recoverable: bool,
    /// The subscription is an event of the outlet.
    pub causes_events: bool,
}

impl SubscriptionFeatures {
    /// What a subscription to a channel has. The channels of the feed have no overrides.
    pub fn of(channel: &ResolvedChannel, replaced: &SubscribeOverride) -> Self {
        let Some(namespace) = channel.namespace() else {
            let joins = false;
            let log = channel.has_log();
            return Self {
                presence: false,
                announces_joins: joins,
                receives_joins: joins,
                positioned: log,
                recoverable: log,
                causes_events: false,
            };
        };
        let recoverable = channel.has_log() && overridden(replaced.force_recovery, namespace.force_recovery);
        let positioned = channel.has_log() && overridden(replaced.force_positioning, namespace.force_recovery);
        Self {
            presence: overridden(replaced.presence, namespace.presence),
            announces_joins: overridden(replaced.join_leave, namespace.join_leave),
            receives_joins: overridden(replaced.force_push_join_leave, namespace.join_leave),
            positioned: positioned || recoverable,
            recoverable,
            causes_events: namespace.events,
        }
    }

    /// Whether other clients learn of this one: in the presence, or by its join.
    pub fn is_visible(&self) -> bool {
        self.presence || self.announces_joins
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::channels::Channels;
    use crate::gateway::channels::Namespace;
    use crate::model::{OverrideValue, Retention};

    fn features(namespace: &Namespace, replaced: SubscribeOverride) -> SubscriptionFeatures {
        let channels = Channels::new(&[Namespace { name: "chat".into(), ..namespace.clone() }], Retention::SHARED);
        SubscriptionFeatures::of(&channels.find("chat:1").unwrap(), &replaced)
    }

    fn value(value: bool) -> Option<OverrideValue> {
        Some(OverrideValue { value })
    }

    #[test]
    fn an_override_replaces_options_of_the_namespace() {
        let plain = Namespace { history_size: 9, ..Namespace::default() };
        let none = SubscribeOverride::default();
        let on = SubscribeOverride {
            presence: value(true),
            join_leave: value(true),
            force_push_join_leave: value(true),
            force_recovery: value(true),
            force_positioning: value(true),
        };
        let off = SubscribeOverride { force_recovery: value(false), ..none };
        let flags = |it: SubscriptionFeatures| {
            [it.presence, it.announces_joins, it.receives_joins, it.positioned, it.recoverable]
        };
        let all =
            Namespace { history_size: 9, presence: true, join_leave: true, force_recovery: true, ..plain.clone() };
        assert_eq!(flags(features(&plain, none)), [false; 5]);
        assert_eq!(flags(features(&plain, on)), [true; 5]);
        assert_eq!(flags(features(&all, none)), [true; 5]);
        assert_eq!(flags(features(&all, off)), [true, true, true, true, false]);
        let positioned = SubscribeOverride { force_positioning: value(true), ..none };
        assert_eq!(flags(features(&plain, positioned)), [false, false, false, true, false]);
        let recoverable = SubscribeOverride { force_recovery: value(true), ..none };
        assert_eq!(flags(features(&plain, recoverable)), [false, false, false, true, true]);
        let without_history = Namespace { history_size: 0, ..all };
        assert_eq!(flags(features(&without_history, on)), [true, true, true, false, false]);
    }
}
