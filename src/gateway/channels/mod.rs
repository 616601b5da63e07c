//! The channels that clients may use, and which rights they have there.

mod channel_regex;
pub mod join;
pub(crate) mod namespaces;
pub(crate) mod pattern;
pub(crate) mod subscription_features;

pub use channel_regex::ChannelRegex;
pub use namespaces::{Namespace, NamespaceAccess, RecoveryMode};

use std::collections::HashMap;
use std::sync::Arc;

use crate::feed::Audience;
use crate::model::{Channel, OwnedList, Retention, UserId};
use crate::protocol::ErrorCode;

/// A channel of the feed or of a configured namespace, with the rules that apply to it.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedChannel {
    /// The channel.
    pub channel: Channel,
    /// The namespace of a channel of the application; `None` for channels of the feed.
    namespace: Option<Arc<Namespace>>,
    /// Every client has every right.
    is_open: bool,
}

/// What a client may ask of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// To receive its publications.
    Subscribe,
    /// To send one.
    Publish,
    /// To read the log.
    History,
    /// To ask which clients are subscribed, or how many.
    Presence,
}

/// What a client brings when it asks for a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials<'a> {
    /// The user; `None` of an anonymous client.
    pub user: Option<&'a UserId>,
    /// Whether the client is subscribed to the channel.
    pub subscribed: bool,
    /// Whether a token names the channel. Only a subscription can bring one.
    pub token: bool,
}

/// The channels that this server has: those of the feed, and those of the configured namespaces.
#[derive(Debug)]
pub struct Channels {
    namespaces: HashMap<String, Arc<Namespace>>,
    /// How much of the logs of notifications is kept.
    notifications: Retention,
    /// Every client has every right in the channels of the application: `client.insecure`.
    is_open: bool,
}

impl Channels {
    /// The channels of the feed and of these namespaces. `notifications`: see [`Retention::notifications`].
    pub fn new(namespaces: &[Namespace], notifications: Retention) -> Self {
        let by_name = |namespace: &Namespace| (namespace.name.clone(), Arc::new(namespace.clone()));
        Self { namespaces: namespaces.iter().map(by_name).collect(), notifications, is_open: false }
    }

    /// Adds the personal channels, `#<user>`. They are in the namespace without a name; if none is configured, clients
    /// have no rights in it.
    #[must_use]
    pub fn with_personal_channels(mut self) -> Self {
        self.namespaces.entry(String::new()).or_default();
        self
    }

    /// Grants every client every right in the channels of the application.
    #[must_use]
    pub fn open_to_everybody(self) -> Self {
        Self { is_open: true, ..self }
    }

    /// The channel of this name; `None` if there is none.
    pub fn find(&self, name: &str) -> Option<ResolvedChannel> {
        let channel = Channel::parse(name)?;
        let namespace = match &channel {
            Channel::App(app) => Some(Arc::clone(self.namespaces.get(app.namespace())?)),
            _ => None,
        };
        Some(ResolvedChannel { channel, is_open: self.is_open && namespace.is_some(), namespace })
    }

    /// The channel of this name, for the command of a client.
    ///
    /// # Errors
    /// The error code for the reply, if there is no such channel, or if the namespace does not permit its name.
    pub fn find_for_client(&self, name: &str) -> Result<ResolvedChannel, ErrorCode> {
        let channel = self.find(name).ok_or(ErrorCode::UNKNOWN_CHANNEL)?;
        if channel.has_permitted_name() { Ok(channel) } else { Err(ErrorCode::BAD_REQUEST) }
    }

    /// How much of a channel's log is kept; `None` if it has no log, or if the log is an inbox, which has a bound of
    /// its own.
    pub fn retention(&self, channel: &ResolvedChannel) -> Option<Retention> {
        match &channel.namespace {
            Some(namespace) if namespace.history_size == 0 => None,
            Some(namespace) => Some(Retention { size: namespace.history_size, ttl: namespace.history_ttl }),
            None => channel.channel.retention(self.notifications),
        }
    }
}

impl ResolvedChannel {
    /// The namespace of a channel of the application.
    pub fn namespace(&self) -> Option<&Namespace> {
        self.namespace.as_deref()
    }

    /// Whether clients may use the name: it matches the expression of the namespace.
    fn has_permitted_name(&self) -> bool {
        let (Channel::App(app), Some(namespace)) = (&self.channel, &self.namespace) else { return true };
        namespace.channel_regex.as_ref().is_none_or(|regex| regex.matches(app.local_name()))
    }

    /// What a client receives that recovers.
    pub fn recovery_mode(&self) -> RecoveryMode {
        self.namespace.as_ref().map_or(RecoveryMode::Stream, |namespace| namespace.recovery_mode)
    }

    /// Whether its publications are in a log, so that clients can recover them.
    pub fn has_log(&self) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| namespace.history_size > 0)
    }

    /// The audience of its entries: it decides who may receive which entry. `user`: who subscribes to it or reads it.
    /// `None` for the list of no user: lists are for their owners alone.
    pub fn audience(&self, user: Option<&UserId>) -> Option<Audience> {
        Some(match &self.channel {
            Channel::Timeline(user) => Audience::Timeline(user.clone()),
            Channel::List(list) => Audience::List(Arc::new(OwnedList { owner: user?.clone(), id: *list })),
            Channel::User(_) => Audience::Profile,
            Channel::Topic(name) => Audience::Topic(Arc::clone(name)),
            Channel::Post(id) => Audience::Post(*id),
            Channel::Notifications(user) => Audience::Notifications(user.clone()),
            Channel::App(_) => Audience::Plain,
        })
    }

    /// Whether clients may receive its publications as patches.
    pub fn permits_deltas(&self) -> bool {
        self.namespace.as_ref().is_some_and(|namespace| namespace.delta && namespace.history_size > 0)
    }

    /// Whether the server keeps track of its subscribers.
    pub fn has_presence(&self) -> bool {
        self.namespace.as_ref().is_some_and(|namespace| namespace.presence)
    }

    /// Whether a client has a right, as far as the name and the namespace decide. The feed decides whether the user may
    /// see the post or the profile of a channel.
    pub fn permits(&self, right: Right, client: Credentials<'_>) -> bool {
        match (&self.channel, &self.namespace) {
            _ if self.is_open => true,
            (Channel::App(app), Some(namespace)) => {
                // A subscriber of a private channel has shown a token.
                let has_token = !app.is_private() || client.token || client.subscribed;
                app.admits(client.user) && has_token && namespace_permits(namespace, right, client)
            }
            (channel, _) => match right {
                // The server subscribes their owner; a token opens neither.
                Right::Subscribe => !matches!(channel, Channel::Timeline(_) | Channel::Notifications(_)),
                Right::Publish => false,
                Right::History | Right::Presence => client.subscribed,
            },
        }
    }

    /// Whether a connect token may subscribe its user.
    pub fn permits_server_side(&self, user: Option<&UserId>) -> bool {
        match &self.channel {
            Channel::Timeline(owner) | Channel::Notifications(owner) => user == Some(owner),
            _ => self.permits(Right::Subscribe, Credentials { user, subscribed: false, token: true }),
        }
    }

    /// Whether a backend may publish: only where the feed itself does not.
    pub fn is_app(&self) -> bool {
        self.namespace.is_some()
    }
}

fn namespace_permits(namespace: &Namespace, right: Right, client: Credentials<'_>) -> bool {
    let Credentials { user, subscribed, token } = client;
    let access = match right {
        Right::Subscribe if token => NamespaceAccess::Anyone,
        Right::Subscribe => namespace.subscribe,
        Right::Publish => namespace.publish,
        Right::History => namespace.history,
        Right::Presence => NamespaceAccess::Subscriber,
    };
    match access {
        NamespaceAccess::Anyone => true,
        NamespaceAccess::User => user.is_some(),
        NamespaceAccess::Subscriber => subscribed,
        NamespaceAccess::Nobody => false,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn channels() -> Channels {
        let chat = Namespace {
            name: "chat".into(),
            history_size: 10,
            history_ttl: Duration::from_secs(60),
            subscribe: NamespaceAccess::Anyone,
            publish: NamespaceAccess::Subscriber,
            history: NamespaceAccess::Subscriber,
            presence: true,
            join_leave: false,
            force_recovery: true,
            ..Namespace::default()
        };
        Channels::new(&[chat], Retention::notifications(Duration::from_secs(60)))
    }

    #[test]
    fn channels_of_the_feed_and_of_configured_namespaces_are_found() {
        let channels = channels();
        for (name, size) in [("notifications:ann", 100), ("post:12", 100), ("$chat:1", 10)] {
            let channel = channels.find(name).expect(name);
            assert_eq!(channels.retention(&channel).map(|retention| retention.size), Some(size), "{name}");
            assert!(channel.has_log(), "{name}");
        }
        for name in ["", "chat", "chat:", "lobby", "other:1", "$post:12", "post:x"] {
            assert_eq!(channels.find(name), None, "{name}");
        }
    }

    #[test]
    fn an_insecure_server_grants_all_rights_in_channels_of_the_application() {
        let channels = channels().open_to_everybody();
        let nobody = Credentials { user: None, subscribed: false, token: false };
        let rights = [Right::Subscribe, Right::Publish, Right::History, Right::Presence];
        for (name, expected) in [("chat:1", 4), ("$chat:1", 4), ("chat:1#ann", 4), ("timeline:ann", 0), ("topic:x", 1)]
        {
            let channel = channels.find(name).expect(name);
            let granted = rights.into_iter().filter(|right| channel.permits(*right, nobody)).count();
            assert_eq!(granted, expected, "{name}");
        }
        assert_eq!(channels.find("other:1"), None);
    }

    #[test]
    fn personal_channels_need_no_namespace() {
        let ann = UserId::parse("ann");
        let channels = channels().with_personal_channels();
        let channel = channels.find("#ann").expect("a personal channel");
        assert!(channel.permits_server_side(ann.as_ref()) && !channel.permits_server_side(None));
        let client = |subscribed| Credentials { user: ann.as_ref(), subscribed, token: false };
        assert!(!channel.permits(Right::Subscribe, client(false)) && !channel.permits(Right::Publish, client(true)));
    }

    #[test]
    fn the_default_namespace_holds_names_without_a_colon() {
        let namespace = Namespace { subscribe: NamespaceAccess::Anyone, ..Namespace::default() };
        let channels = Channels::new(&[namespace], Retention::notifications(Duration::ZERO));
        let ann = UserId::parse("ann");
        for (name, with_token, without) in [("lobby", true, true), ("$lobby", true, false), ("#bo", false, false)] {
            let channel = channels.find(name).expect(name);
            let may_subscribe =
                |token| channel.permits(Right::Subscribe, Credentials { user: ann.as_ref(), subscribed: false, token });
            assert_eq!((may_subscribe(true), may_subscribe(false)), (with_token, without), "{name}");
        }
        for name in ["", "$", ":", ":1", "$:1", "other:1"] {
            assert_eq!(channels.find(name), None, "{name}");
        }
    }
}
