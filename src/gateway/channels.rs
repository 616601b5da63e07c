//! What a channel's name means, and who may do what there.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::broker::Keep;
use crate::config::{Access, Namespace};
use crate::feed::{Audience, is_topic_name};
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
    /// The name begins with `$`: every right needs a subscription token.
    pub private: bool,
    /// Who may subscribe without a token.
    pub subscribe: Access,
    /// Who may publish.
    pub publish: Access,
    /// Who may read the history.
    pub history: Access,
    /// Whether it is known who is there.
    pub presence: bool,
    /// Whether it is told who comes and goes.
    pub join_leave: bool,
    /// Where the name ends in `#ann,bo`: every right is limited to these users.
    pub members: Option<Vec<String>>,
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
        let public = name.strip_prefix('$');
        let (private, name) = (public.is_some(), public.unwrap_or(name));
        // A name without a colon belongs to the namespace without a name.
        let (space, rest) = match name.split_once(':') {
            Some(("", _)) => return None,
            Some(split) => split,
            None => ("", name),
        };
        if rest.is_empty() {
            return None;
        }
        Some(match space {
            "timeline" if !private => Channel::Timeline(UserId::parse(rest)?),
            "notifications" if !private => Channel::Notifications(UserId::parse(rest)?),
            "user" if !private => Channel::User(UserId::parse(rest)?),
            // Names under which nothing is ever said are refused: each subscription to one would take room for nothing.
            "topic" if !private => Channel::Topic(is_topic_name(rest).then(|| rest.into())?),
            "post" if !private => Channel::Post(PostId::parse(rest).filter(|id| id.to_string() == rest)?),
            _ => {
                let namespace = self.namespaces.get(space)?;
                let members = rest.split_once('#').map(|(_, names)| names.split(',').map(str::to_owned).collect());
                Channel::App(AppChannel {
                    keep: (namespace.history_size > 0)
                        .then_some(Keep { size: namespace.history_size, ttl: namespace.history_ttl }),
                    private,
                    subscribe: namespace.subscribe,
                    publish: namespace.publish,
                    history: namespace.history,
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
    pub fn audience(&self) -> Audience {
        match self {
            Self::Timeline(user) => Audience::Timeline(user.clone()),
            Self::User(_) => Audience::Profile,
            Self::Topic(name) => Audience::Topic(Arc::clone(name)),
            Self::Post(id) => Audience::Post(*id),
            Self::Notifications(user) => Audience::Notifications(user.clone()),
            Self::App(_) => Audience::Plain,
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

    /// Whether a client has a right, as far as the name and the namespace decide. Whether the user may see the post or
    /// the profile behind a channel is for the feed to say.
    pub fn permits(&self, right: Right, client: Credentials<'_>) -> bool {
        match self {
            Self::App(app) => app.permits(right, client),
            _ => match right {
                // The server subscribes their owner; a token opens neither.
                Right::Subscribe => !matches!(self, Self::Timeline(_) | Self::Notifications(_)),
                Right::Publish => false,
                Right::History | Right::Presence => client.subscribed,
            },
        }
    }

    /// Whether a connect token may subscribe its user.
    pub fn permits_server_side(&self, user: Option<&UserId>) -> bool {
        match self {
            Self::Timeline(owner) | Self::Notifications(owner) => user == Some(owner),
            _ => self.permits(Right::Subscribe, Credentials { user, subscribed: false, token: true }),
        }
    }

    /// Whether a backend may publish: only where the feed itself does not.
    pub fn is_app(&self) -> bool {
        matches!(self, Self::App(_))
    }
}

impl AppChannel {
    fn permits(&self, right: Right, client: Credentials<'_>) -> bool {
        let Credentials { user, subscribed, token } = client;
        // An anonymous client is no member, not even where the list has an empty entry.
        let member = |members: &Vec<String>| user.is_some_and(|user| members.iter().any(|name| name == user.as_str()));
        if !self.members.as_ref().is_none_or(member) {
            return false;
        }
        // Who is subscribed to a private channel has shown a token.
        if self.private && !(token || subscribed) {
            return false;
        }
        let access = match right {
            Right::Subscribe if token => Access::Anyone,
            Right::Subscribe => self.subscribe,
            Right::Publish => self.publish,
            Right::History => self.history,
            Right::Presence => Access::Subscriber,
        };
        match access {
            Access::Anyone => true,
            Access::User => user.is_some(),
            Access::Subscriber => subscribed,
            Access::Nobody => false,
        }
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
            history: Access::Subscriber,
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
        assert!(matches!(channels.find("topic:größe_2"), Some(Channel::Topic(_))));
        assert!(matches!(channels.find("$chat:1"), Some(Channel::App(AppChannel { private: true, .. }))));
        let nothing =
            ["", "chat", "chat:", "$chat:", "post:x", "timeline:a b", "other:1", ":", ":1", "$:1", "$", "$topic:x"];
        for nothing in nothing {
            assert_eq!(channels.find(nothing), None, "{nothing}");
        }
        let long = format!("topic:{}", "x".repeat(101));
        let unused = ["topic:a b", "topic:#a", "topic:Rust", "topic:a-b", "post:007", "post:+7", "user:a b", &long];
        for unused in unused {
            assert_eq!(channels.find(unused), None, "{unused}");
        }
    }

    #[test]
    fn a_namespace_without_a_name_has_the_names_without_a_colon() {
        let space = Namespace { name: String::new(), ..Namespace::default() };
        let channels = Channels::new(&[space], Duration::ZERO);
        for (name, private, members) in
            [("lobby", false, None), ("$lobby", true, None), ("#ann", false, Some(vec!["ann".to_owned()]))]
        {
            let Some(Channel::App(app)) = channels.find(name) else { panic!("{name}") };
            assert_eq!((app.private, app.members), (private, members), "{name}");
        }
        for nothing in ["", "$", ":", ":1", "$:1", "other:1"] {
            assert_eq!(channels.find(nothing), None, "{nothing}");
        }
    }
}
