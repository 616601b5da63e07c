//! The names of keys and pub/sub channels in Redis.
//!
//! | name | content |
//! |---|---|
//! | `<prefix>:{<channel>}:l` | log or inbox: a Stream with ids `0-<offset>`; and the pub/sub channel of its hints |
//! | `<prefix>:{<channel>}:m` | its metadata: a HASH |
//! | `<prefix>:{<channel>}:i:<key>` | an idempotency key: a HASH |
//! | `<prefix>:{<channel>}:p`, `…:q`, `…:u` | presence: entries (a HASH), expiry by client and by user (ZSETs) |
//! | `<prefix>:job:<run>:<id>` | a job of fan-out in one run: a HASH of its last attempt and the pages written |
//! | `<prefix>:node:<n>`, `<prefix>:nodes` | the holder of a node number; the time up to which its holders may have generated ids: a HASH |
//! | `<prefix>:{likes}:q:<p>`, `…:f:<p>`, `…:e:<p>` | a partition of the queue: a Stream, the generation of its last owner (a fence), its epoch |
//! | `<prefix>:{invalidation}:l`, `…:m`, `…:n` | the invalidation log: a Stream with ids `0-<sequence>`, its metadata, and the nodes that follow it |
//! | `<prefix>:invalidation`, `<prefix>:confirmation:<node>` | pub/sub: invalidations; and for each node, the confirmations of the other nodes |
//! | `<prefix>:rate:<key>` | a shared rate limit: when its bucket is full again |
//! | `<prefix>:{p<id>}:c:<incarnation>` | the tally of a post (`c<id>`: a comment) in one incarnation of the ledger: a HASH |
//! | `<prefix>:outlet` | the copy of the outlet: a Stream with ids `<id>-0` |
//! | `<prefix>:ledger` | the record of the ledger's incarnation: a HASH |
//! | `<prefix>:identity` | the id of this Redis, the record of its ledger, and the live nodes: a HASH |
//! | `<prefix>:epochs` | the seed of derived epochs, and the lives of logs: a HASH (a cluster needs one in each slot) |
//! | `<prefix>:signal`, `<prefix>:signal:<node>` | pub/sub: signals to all nodes, and to one |
//! | `<prefix>:hints:<connection>` | pub/sub: the hints of all inboxes of which this connection is the only receiver |
//! | `<prefix>:ping` | written to check that Redis accepts writes |
//! | `<prefix>:probe:<node>` | pub/sub: the probes of a node |
//!
//! The braces are a hash tag: on a cluster, all keys of a channel live in one slot.
//!
//! Pub/sub ignores the numbers of databases. In a database other than 0, `<prefix>:<number>` therefore takes the place
//! of `<prefix>` in the names of pub/sub channels, and of the keys with braces, which are such names, too.

use crate::broker::JobAttempt;
use crate::broker::epoch::posted_on;
use crate::model::{ChannelKind, ContentId, InboxId, UserId};

/// Builds names.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    /// `<prefix>:{`, or `<prefix>:<database>:{`.
    open: Box<str>,
    prefix: Box<str>,
    /// The prefix of pub/sub channels: `<prefix>` or `<prefix>:<database>`.
    channels: Box<str>,
}

impl Keys {
    pub(super) fn new(prefix: &str, database: i64) -> Self {
        let channels = if database == 0 { prefix.to_owned() } else { format!("{prefix}:{database}") };
        Self { open: format!("{channels}:{{").into(), prefix: prefix.into(), channels: channels.into() }
    }

    /// The log of a channel, and its metadata.
    pub(super) fn log(&self, channel: &str) -> [String; 2] {
        ["l", "m"].map(|what| format!("{}{channel}}}:{what}", self.open))
    }

    /// The tally of the object whose changes the channel carries. For a channel without an object, a key that has no
    /// tally.
    pub(super) fn counts(&self, channel: &str, incarnation: &str) -> String {
        posted_on(channel)
            .map_or_else(|| format!("{}{channel}}}:m", self.open), |id| self.tally(ContentId::Post(id), incarnation))
    }

    /// A key of which there is one: `ping`, `outlet`.
    pub(super) fn single(&self, name: &str) -> String {
        format!("{}:{name}", self.prefix)
    }

    /// The seed of derived epochs, and the lives of logs.
    pub(super) fn epochs(&self) -> String {
        format!("{}:epochs", self.prefix)
    }

    /// An inbox, and its metadata.
    pub(super) fn inbox(&self, inbox: &InboxId) -> [String; 2] {
        self.log(&inbox.to_string())
    }

    /// Calls a function with the names of an inbox and of its metadata. They are built in `name`, so that a page of
    /// hundreds of inboxes allocates once.
    pub(super) fn with_inbox(&self, user: &UserId, name: &mut String, mut visit: impl FnMut(&str)) {
        name.clear();
        for part in [&self.open, ChannelKind::Timeline.prefix(), user.as_str(), "}:l"] {
            name.push_str(part);
        }
        visit(name);
        name.pop();
        name.push('m');
        visit(name);
    }

    /// The pub/sub channel of a channel's hints.
    pub(super) fn hints(&self, channel: &str) -> String {
        format!("{}{channel}}}:l", self.open)
    }

    /// The channel whose hints are published on a pub/sub channel.
    pub(super) fn channel<'a>(&self, hints: &'a str) -> Option<&'a str> {
        hints.strip_prefix(&*self.open)?.strip_suffix("}:l")
    }

    /// The pub/sub channel of one pub/sub connection; without its id, the prefix of all of these names.
    pub(super) fn node_hints(&self, connection: &str) -> String {
        format!("{}:hints:{connection}", self.channels)
    }

    /// Where the name of an inbox has its user, counted from 1 as in Lua.
    pub(super) fn user_in_inbox(&self) -> usize {
        self.open.len() + "timeline:".len() + 1
    }

    pub(super) fn idempotency(&self, channel: &str, key: &str) -> String {
        format!("{}{channel}}}:i:{key}", self.open)
    }

    /// A channel's presence: entries, clients, users.
    pub(super) fn presence(&self, channel: &str) -> [String; 3] {
        ["p", "q", "u"].map(|what| format!("{}{channel}}}:{what}", self.open))
    }

    /// The job of an attempt. The name includes the run, since another incarnation of the ledger may reuse the number.
    pub(super) fn job(&self, attempt: &JobAttempt) -> String {
        format!("{}:job:{}:{}", self.prefix, attempt.run, attempt.job)
    }

    pub(super) fn node(&self, number: u8) -> String {
        format!("{}:node:{number}", self.prefix)
    }

    /// The time up to which the holders of each node number may have generated ids.
    pub(super) fn node_ceilings(&self) -> String {
        format!("{}:nodes", self.prefix)
    }

    /// A partition of the queue: the fence of its owners, the Stream, its epoch.
    pub(super) fn partition(&self, number: u16) -> [String; 3] {
        ["f", "q", "e"].map(|what| format!("{}likes}}:{what}:{number}", self.open))
    }

    /// The tally of an object.
    pub(super) fn tally(&self, object: ContentId, incarnation: &str) -> String {
        format!("{}{}}}:c:{incarnation}", self.open, object.to_text())
    }

    pub(super) fn ledger(&self) -> String {
        format!("{}:ledger", self.prefix)
    }

    /// The invalidation log, its metadata, and the registry of nodes that follow it.
    pub(super) fn invalidation_log(&self) -> [String; 3] {
        ["l", "m", "n"].map(|what| format!("{}invalidation}}:{what}", self.open))
    }

    /// The pub/sub channel of invalidations.
    pub(super) fn invalidations(&self) -> String {
        format!("{}:invalidation", self.channels)
    }

    /// The pub/sub channel of confirmations for a node.
    pub(super) fn confirmations(&self, node: &str) -> String {
        format!("{}:confirmation:{node}", self.channels)
    }

    /// The bucket of a shared rate limit.
    pub(super) fn rate(&self, key: &str) -> String {
        format!("{}:rate:{key}", self.prefix)
    }

    /// The pub/sub channel of signals: to all nodes, or to one.
    pub(super) fn signal(&self, node: Option<&str>) -> String {
        node.map_or_else(|| format!("{}:signal", self.channels), |node| format!("{}:signal:{node}", self.channels))
    }

    pub(super) fn probe(&self, node: &str) -> String {
        format!("{}:probe:{node}", self.channels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_hints_leads_back_to_the_channel() {
        let keys = Keys::new("feedline", 0);
        for channel in ["timeline:ann", "a}:l", "{", ""] {
            assert_eq!(keys.channel(&keys.hints(channel)), Some(channel));
        }
        assert_eq!(keys.channel(&keys.signal(None)), None);
        assert_eq!(keys.channel(&keys.signal(Some("n"))), None);
        assert_eq!(keys.channel(&keys.node_hints("c.1")), None);
    }

    #[test]
    fn the_name_of_an_inbox_has_its_user() {
        let keys = Keys::new("feed:{line", 0);
        let mut name = "left".to_owned();
        let mut names = Vec::new();
        let bo = UserId::parse("bo").expect("an id");
        keys.with_inbox(&bo, &mut name, |name| names.push(name.to_owned()));
        assert_eq!(names, keys.inbox(&InboxId::Timeline(bo)));
        let [log, _] = keys.inbox(&InboxId::Timeline(UserId::parse("ann").expect("an id")));
        assert_eq!(log.get(keys.user_in_inbox() - 1..log.len() - 3), Some("ann"));
    }
}
