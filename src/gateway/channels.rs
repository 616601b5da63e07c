//! What a channel's name means, and who may do what there.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::broker::Keep;
use crate::config::{Access, Namespace};
use crate::feed::Stage;
use crate::model::{PostId, UserId};

/// How much of the logs of `user:`, `topic:` and `post:` is kept, for readers that come back.
const LIVE: Keep = Keep { size: 100, ttl: Duration::from_secs(3600) };

/// How many notifications the log keeps.
pub const NOTIFICATIONS: u64 = 100;

/// What a channel is.
#[derive(Clone, Debug, PartialEq)]
pub enum Channel {
    /// Somebody's inbox: theirs alone.
    Timeline(UserId),
    /// What happened to somebody: theirs alone.
    Notifications(UserId),
    /// A profile.
    User(UserId),
    /// A topic's plaza.
    Topic(Arc<str>),
    /// What happens under a post.
    Post(PostId),
    /// Application data.
    App(AppChannel),
}

/// A channel of a configured namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct AppChannel {
    /// How much of its log is kept; `None`: it has none.
    pub keep: Option<Keep>,
    /// Who may subscribe without a token. A name that begins with `$` always needs one.
    pub subscribe: Access,
    /// Who may publish.
    pub publish: Access,
    /// Whether it is known who is there.
    pub presence: bool,
    /// Whether it is told who comes and goes.
    pub join_leave: bool,
    /// Where the name ends in `#ann,bo`: only they may be there.
    pub members: Option<Vec<String>>,
}

/// The channels that this server knows.
#[derive(Debug)]
pub struct Channels {
    namespaces: HashMap<String, Namespace>,
    /// How long notifications are kept.
    idle: Duration,
}

impl Channels {
    /// The built-in channels and those of these namespaces. `idle`: how long notifications are kept.
    pub fn new(namespaces: &[Namespace], idle: Duration) -> Self {
        Self { namespaces: namespaces.iter().map(|space| (space.name.clone(), space.clone())).collect(), idle }
    }

    /// What a name means. `None`: nothing here.
    pub fn find(&self, name: &str) -> Option<Channel> {
        let (space, rest) = name.split_once(':')?;
        if rest.is_empty() {
            return None;
        }
        Some(match space {
            "timeline" => Channel::Timeline(UserId::parse(rest)?),
            "notifications" => Channel::Notifications(UserId::parse(rest)?),
            "user" => Channel::User(UserId::parse(rest)?),
            "topic" => Channel::Topic(rest.into()),
            "post" => Channel::Post(PostId::parse(rest)?),
            _ => {
                let private = space.strip_prefix('$');
                let namespace = self.namespaces.get(private.unwrap_or(space))?;
                let members = rest.split_once('#').map(|(_, names)| names.split(',').map(str::to_owned).collect());
                Channel::App(AppChannel {
                    keep: (namespace.history_size > 0)
                        .then_some(Keep { size: namespace.history_size, ttl: namespace.history_ttl }),
                    subscribe: if private.is_some() { Access::Nobody } else { namespace.subscribe },
                    publish: namespace.publish,
                    presence: namespace.presence,
                    join_leave: namespace.join_leave,
                    members,
                })
            }
        })
    }

    /// How much of a channel's log is kept; `None` where there is no log, or the log is an inbox, which keeps itself.
    pub fn keep(&self, channel: &Channel) -> Option<Keep> {
        match channel {
            Channel::Timeline(_) => None,
            Channel::Notifications(_) => Some(Keep { size: NOTIFICATIONS, ttl: self.idle }),
            Channel::User(_) | Channel::Topic(_) | Channel::Post(_) => Some(LIVE),
            Channel::App(app) => app.keep,
        }
    }
}

impl Channel {
    /// Whether publications have places in a log, so that what was missed can be told.
    pub fn has_log(&self) -> bool {
        !matches!(self, Self::App(AppChannel { keep: None, .. }))
    }

    /// What decides who may hear what is said there.
    pub fn stage(&self) -> Stage {
        match self {
            Self::Timeline(user) => Stage::Timeline(user.clone()),
            Self::User(_) => Stage::Profile,
            Self::Topic(name) => Stage::Topic(Arc::clone(name)),
            Self::Post(id) => Stage::Post(*id),
            Self::Notifications(user) => Stage::Notifications(user.clone()),
            Self::App(_) => Stage::Plain,
        }
    }

    /// Whether it is known who is there.
    pub fn has_presence(&self) -> bool {
        matches!(self, Self::App(app) if app.presence)
    }

    /// Whether it is told who comes and goes.
    pub fn tells_joins(&self) -> bool {
        matches!(self, Self::App(app) if app.join_leave)
    }

    /// Whether a user may subscribe without a subscription token, as far as the name tells: whether a post or a profile may
    /// be seen is for the feed to say.
    pub fn may_subscribe(&self, user: &str) -> bool {
        match self {
            // The server puts their owner into them.
            Self::Timeline(_) | Self::Notifications(_) => false,
            Self::User(_) | Self::Topic(_) | Self::Post(_) => true,
            Self::App(app) => app.subscribe == Access::Anyone && app.admits(user),
        }
    }

    /// Whether a client may publish.
    pub fn may_publish(&self, user: &str, subscribed: bool) -> bool {
        match self {
            Self::App(app) => match app.publish {
                Access::Anyone => app.admits(user),
                Access::Subscriber => subscribed,
                Access::Nobody => false,
            },
            _ => false,
        }
    }

    /// Whether a backend may publish: only where the feed itself does not.
    pub fn is_app(&self) -> bool {
        matches!(self, Self::App(_))
    }
}

impl AppChannel {
    fn admits(&self, user: &str) -> bool {
        self.members.as_ref().is_none_or(|members| members.iter().any(|member| member == user))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channels() -> Channels {
        let chat = Namespace {
            name: "chat".into(),
            history_size: 10,
            history_ttl: Duration::from_secs(60),
            subscribe: Access::Anyone,
            publish: Access::Subscriber,
            presence: true,
            join_leave: false,
        };
        Channels::new(&[chat], Duration::from_secs(60))
    }

    #[test]
    fn names_mean_what_they_say() {
        let channels = channels();
        assert!(matches!(channels.find("timeline:ann"), Some(Channel::Timeline(_))));
        assert!(matches!(channels.find("post:12"), Some(Channel::Post(PostId(12)))));
        for nothing in ["", "chat", "chat:", "post:x", "timeline:a b", "other:1", ":", "$:1"] {
            assert_eq!(channels.find(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn only_those_may_subscribe_whom_the_name_and_the_namespace_let() {
        let channels = channels();
        let may = |name: &str, user| channels.find(name).unwrap().may_subscribe(user);
        assert!(!may("timeline:ann", "ann"), "the server does that");
        assert!(may("chat:1", "ann"));
        assert!(!may("$chat:1", "ann"), "a private channel needs a token");
        assert!(may("chat:1#ann,bo", "ann"));
        assert!(!may("chat:1#ann,bo", "cy"));
    }

    #[test]
    fn publishing_may_need_a_subscription() {
        let channel = channels().find("chat:1").unwrap();
        assert!(channel.may_publish("ann", true));
        assert!(!channel.may_publish("ann", false));
        assert!(!channels().find("topic:x").unwrap().may_publish("ann", true));
    }
}
