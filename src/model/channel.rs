//! Channels: their names, and how long their logs are kept.
//!
//! A channel of the feed is named `<kind>:<id>`. All other names belong to the application: a configured namespace
//! before the colon, anything behind it.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{ListId, PostId, UserId};
use crate::text::topic_name;

/// How much of the log of a channel is kept for subscribers that reconnect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The number of entries that can be read. A store may keep a few more.
    pub size: u64,
    /// How long the entries stay after the last write. The position of the log outlives them.
    pub ttl: Duration,
}

impl Retention {
    /// The logs of profiles, topics and posts.
    pub const SHARED: Self = Self { size: 100, ttl: Duration::from_secs(3600) };

    /// The log of a user's notifications. It lives as long as the user's inbox: `idle` is `timeline.idle_days`.
    pub const fn notifications(idle: Duration) -> Self {
        Self { size: 100, ttl: idle }
    }
}

/// The kinds of channels that the feed itself writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelKind {
    /// The timeline of a user; its log is the inbox.
    Timeline,
    /// A list of a user; its log is the inbox.
    List,
    /// The notifications of a user.
    Notifications,
    /// The posts of one author.
    User,
    /// The posts of one topic.
    Topic,
    /// The comments, counts and changes of one post.
    Post,
}

impl ChannelKind {
    /// All of them. Namespaces of applications cannot have these names.
    pub const ALL: [Self; 6] = [Self::Timeline, Self::List, Self::Notifications, Self::User, Self::Topic, Self::Post];

    /// The name of the kind, without the colon.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timeline => "timeline",
            Self::List => "list",
            Self::Notifications => "notifications",
            Self::User => "user",
            Self::Topic => "topic",
            Self::Post => "post",
        }
    }

    /// The beginning of the names of its channels, with the colon.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Timeline => "timeline:",
            Self::List => "list:",
            Self::Notifications => "notifications:",
            Self::User => "user:",
            Self::Topic => "topic:",
            Self::Post => "post:",
        }
    }

    /// The part of a channel's name behind the colon, if the channel is of this kind. It is not validated.
    pub fn id_of(self, name: &str) -> Option<&str> {
        name.strip_prefix(self.prefix())
    }
}

/// A channel, parsed from its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Channel {
    /// The timeline of a user, for this user alone.
    Timeline(UserId),
    /// The posts of a list, for its owner alone.
    List(ListId),
    /// The notifications of a user, for this user alone.
    Notifications(UserId),
    /// The posts of one author.
    User(UserId),
    /// The posts of one topic.
    Topic(Arc<str>),
    /// The comments, counts and changes of one post.
    Post(PostId),
    /// A channel of the application. Its namespace is not necessarily configured.
    App(AppChannel),
}

/// The one spelling of a channel's name under which it is stored and found: the ids of users in it are in lower case,
/// and a topic is spelled as it is stored.
pub fn canonical_name(name: &str) -> Cow<'_, str> {
    if let Some(written) = ChannelKind::Topic.id_of(name) {
        let stored = topic_name(written).filter(|stored| stored != written);
        return stored.map_or(Cow::Borrowed(name), |topic| Cow::Owned(Channel::Topic(topic.into()).to_string()));
    }
    if !name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Cow::Borrowed(name);
    }
    let of_user = [ChannelKind::Timeline, ChannelKind::Notifications, ChannelKind::User];
    let owner = of_user.into_iter().find_map(|kind| kind.id_of(name));
    match owner.or_else(|| split(name).1.split_once('#').map(|(_, members)| members)) {
        Some(ids) => Cow::Owned(format!("{}{}", &name[..name.len() - ids.len()], ids.to_ascii_lowercase())),
        None => Cow::Borrowed(name),
    }
}

/// As [`canonical_name`], of a name that is already owned: it is copied only if it changes.
pub fn into_canonical_name(name: String) -> String {
    let changed = match canonical_name(&name) {
        Cow::Owned(changed) => Some(changed),
        Cow::Borrowed(_) => None,
    };
    changed.unwrap_or(name)
}

impl Channel {
    /// Parses the name of a channel; `None` if no channel can have it. Rejects names of topics and posts that nothing
    /// can be published under, because each subscription to one would waste memory.
    pub fn parse(name: &str) -> Option<Self> {
        for kind in ChannelKind::ALL {
            let Some(id) = kind.id_of(name) else { continue };
            return match kind {
                ChannelKind::Timeline => UserId::parse(id).map(Self::Timeline),
                ChannelKind::List => {
                    id.parse().ok().filter(|list: &u64| list.to_string() == id).map(ListId).map(Self::List)
                }
                ChannelKind::Notifications => UserId::parse(id).map(Self::Notifications),
                ChannelKind::User => UserId::parse(id).map(Self::User),
                ChannelKind::Topic => topic_name(id).map(|topic| Self::Topic(topic.into())),
                ChannelKind::Post => PostId::parse(id).filter(|post| post.to_string() == id).map(Self::Post),
            };
        }
        AppChannel::parse(name).map(Self::App)
    }

    /// The retention of its log. `notifications` is the retention of notifications, see [`Retention::notifications`].
    /// `None` for timelines and lists, whose inboxes have a bound of their own, and for channels of the application,
    /// where the namespace decides.
    pub fn retention(&self, notifications: Retention) -> Option<Retention> {
        match self {
            Self::Notifications(_) => Some(notifications),
            Self::User(_) | Self::Topic(_) | Self::Post(_) => Some(Retention::SHARED),
            Self::Timeline(_) | Self::List(_) | Self::App(_) => None,
        }
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeline(user) => write!(f, "{}{user}", ChannelKind::Timeline.prefix()),
            Self::List(list) => write!(f, "{}{}", ChannelKind::List.prefix(), list.0),
            Self::Notifications(user) => write!(f, "{}{user}", ChannelKind::Notifications.prefix()),
            Self::User(user) => write!(f, "{}{user}", ChannelKind::User.prefix()),
            Self::Topic(topic) => write!(f, "{}{topic}", ChannelKind::Topic.prefix()),
            Self::Post(post) => write!(f, "{}{post}", ChannelKind::Post.prefix()),
            Self::App(app) => f.write_str(&app.name),
        }
    }
}

/// An inbox: a log of the posts that enter and leave a timeline or a list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum InboxId {
    /// That of a user's timeline.
    Timeline(UserId),
    /// That of a list.
    List(ListId),
}

impl InboxId {
    /// The channel whose log the inbox is.
    pub fn channel(&self) -> Channel {
        match self {
            Self::Timeline(user) => Channel::Timeline(user.clone()),
            Self::List(list) => Channel::List(*list),
        }
    }
}

/// The name of the channel.
impl fmt::Display for InboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.channel().fmt(f)
    }
}

/// A channel of the application: `namespace:anything`, or `anything` in the namespace without a name. A `$` before it
/// makes it private; `#ann,bo` at its end limits it to these users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppChannel {
    name: Arc<str>,
}

impl AppChannel {
    fn parse(name: &str) -> Option<Self> {
        let (namespace, rest) = split(name);
        let is_reserved = ChannelKind::ALL.iter().any(|kind| kind.as_str() == namespace);
        let is_complete = !rest.is_empty() && !unmarked(name).starts_with(':');
        (is_complete && !is_reserved).then(|| Self { name: canonical_name(name).into() })
    }

    /// The name of its namespace; empty for the namespace without a name.
    pub fn namespace(&self) -> &str {
        split(&self.name).0
    }

    /// The part of the name behind the namespace, with the users to which it is limited.
    pub fn local_name(&self) -> &str {
        split(&self.name).1
    }

    /// Whether every right needs a subscription token.
    pub fn is_private(&self) -> bool {
        self.name.starts_with('$')
    }

    /// Whether a user (`None`: an anonymous client) can have any right in the channel.
    pub fn admits(&self, user: Option<&UserId>) -> bool {
        match self.local_name().split_once('#') {
            // An anonymous client is not a member, even if the list has an empty name.
            Some((_, members)) => user.is_some_and(|user| members.split(',').any(|name| name == user.as_str())),
            None => true,
        }
    }
}

/// A name without the mark of private channels.
fn unmarked(name: &str) -> &str {
    name.strip_prefix('$').unwrap_or(name)
}

/// The namespace and the rest of an unmarked name. A name without a colon is in the namespace without a name.
fn split(name: &str) -> (&str, &str) {
    let name = unmarked(name);
    name.split_once(':').unwrap_or(("", name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_channel_is_parsed_and_displayed() {
        let ann = UserId::parse("ann").unwrap();
        let channels = [
            ("timeline:ann", Channel::Timeline(ann.clone())),
            ("list:17", Channel::List(ListId(17))),
            ("notifications:ann", Channel::Notifications(ann.clone())),
            ("user:ann", Channel::User(ann)),
            ("topic:größe_2", Channel::Topic("größe_2".into())),
            ("post:12", Channel::Post(PostId(12))),
        ];
        for (name, channel) in channels {
            assert_eq!(channel.to_string(), name);
            assert_eq!(Channel::parse(name), Some(channel));
        }
        for name in ["chat:1", "$chat:1#ann,bo", "lobby", "#ann", "$lobby", "chat::", "Timeline:ann"] {
            let Some(Channel::App(app)) = Channel::parse(name) else { panic!("{name}") };
            assert_eq!(Channel::App(app).to_string(), name);
        }
    }

    #[test]
    fn ids_in_names_are_found_in_any_case() {
        let same = [
            ("timeline:Kim", "timeline:kim"),
            ("notifications:KIM", "notifications:kim"),
            ("user:kIm", "user:kim"),
            ("chat:Room#Kim,BO", "chat:Room#kim,bo"),
            ("$chat:Room#Kim", "$chat:Room#kim"),
            ("#KIM", "#kim"),
            ("Lobby#A#B", "Lobby#a#b"),
            ("topic:Rust", "topic:rust"),
            ("topic:GRO\u{308}SSE", "topic:gr\u{f6}sse"),
        ];
        for (written, canonical) in same {
            assert_eq!(canonical_name(written), canonical);
            assert_eq!(Channel::parse(written), Channel::parse(canonical), "{written}");
            assert_eq!(Channel::parse(written).unwrap().to_string(), canonical);
        }
        for other in ["chat:Room", "Lobby", "$Chat:1", "Chat:1", "post:1", "topic:a B", "Topic:Rust"] {
            assert_eq!(canonical_name(other), other);
        }
    }

    #[test]
    fn names_that_no_channel_can_have_are_not_parsed() {
        let long = format!("topic:{}", "x".repeat(101));
        let wrong = ["", "$", ":", ":1", "$:1", "chat:", "$chat:", "$topic:x", "$timeline:ann", "post:x", "timeline:"];
        let unused = ["topic:a b", "topic:#a", "topic:a-b", "post:007", "post:+7", "user:a b", &long];
        for name in wrong.into_iter().chain(unused) {
            assert_eq!(Channel::parse(name), None, "{name}");
        }
    }

    #[test]
    fn the_name_of_an_application_channel_has_its_namespace_and_its_members() {
        let app = |name: &str| AppChannel::parse(name).unwrap();
        let ann = UserId::parse("ann");
        let cy = UserId::parse("cy");
        assert_eq!((app("$chat:1").namespace(), app("$chat:1").is_private()), ("chat", true));
        assert_eq!((app("#ann").namespace(), app("#ann").is_private()), ("", false));
        for (name, of_ann, of_cy, of_nobody) in
            [("chat:1", true, true, true), ("chat:1#ann,bo", true, false, false), ("#ann,", true, false, false)]
        {
            let admits = [&ann, &cy, &None].map(|user| app(name).admits(user.as_ref()));
            assert_eq!(admits, [of_ann, of_cy, of_nobody], "{name}");
        }
    }

    #[test]
    fn each_kind_of_channel_has_one_retention() {
        let notifications = Retention::notifications(Duration::from_secs(7));
        let retention = |name| Channel::parse(name).unwrap().retention(notifications);
        assert_eq!(retention("notifications:ann"), Some(Retention { size: 100, ttl: Duration::from_secs(7) }));
        for name in ["user:ann", "topic:rust", "post:1"] {
            assert_eq!(retention(name), Some(Retention::SHARED), "{name}");
        }
        assert_eq!([retention("timeline:ann"), retention("chat:1")], [None, None]);
    }
}
