//! The entries of the logs of channels.

use std::sync::Arc;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CommentId, NotificationId, PostId, UserId, Visibility};

/// Identifies one incarnation of a log. When a log is lost and created again, its offsets restart at 1 under another
/// epoch, so a reader never confuses the new log with the old one. 1 to 32 of `A-Z a-z 0-9`.
pub type Epoch = Arc<str>;

/// A position in a log. The reader has seen everything up to and including `offset`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Position {
    /// The last offset seen; 0 before the first.
    pub offset: u64,
    /// The epoch of the log that the offset belongs to.
    #[serde(with = "epoch_text")]
    #[schemars(with = "String")]
    pub epoch: Epoch,
}

impl Position {
    /// The same position, borrowed.
    pub fn borrowed(&self) -> PositionRef<'_> {
        PositionRef { offset: self.offset, epoch: &self.epoch }
    }
}

/// A borrowed [`Position`]: most entries are received without a need to keep their epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PositionRef<'a> {
    /// See [`Position::offset`].
    pub offset: u64,
    /// See [`Position::epoch`].
    pub epoch: &'a str,
}

impl PositionRef<'_> {
    /// The same position, owned.
    pub fn to_position(self) -> Position {
        Position { offset: self.offset, epoch: self.epoch.into() }
    }
}

mod epoch_text {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(epoch: &super::Epoch, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(epoch)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<super::Epoch, D::Error> {
        String::deserialize(deserializer).map(Into::into)
    }
}

/// The reason why a post left a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GoneReason {
    /// Its author deleted it.
    Deleted,
    /// The reader no longer follows its author.
    Unfollowed,
    /// The reader can no longer see the post, or mutes its author.
    Hidden,
    /// A filter of the reader hides the post.
    Filtered,
    /// Its author and topics are not members of the list any more.
    Unlisted,
}

/// One entry of a log. It holds ids; the bodies are loaded when the entry is delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A post arrived.
    Post(PostId),
    /// A post in the channel was edited.
    Edited(PostId),
    /// A post left the channel.
    Gone(PostId, GoneReason),
    /// The author of this post was suspended: all posts of the author left the channel. One entry stands for all of
    /// them; any post of the author names the author. If the author is not suspended, the entry concerns this post
    /// alone: the reader sees what they may see of it now.
    AuthorGone(PostId),
    /// A publication of an application: the members of its JSON object without the braces
    /// (`"data":…,"info":…,"tags":…`), without line breaks.
    Data(Bytes),
    /// A notification group is new or has grown.
    NotificationChanged(NotificationId),
    /// A comment is new or was edited.
    Comment(Box<CommentChanged>),
    /// An event, as members like those of `Data`, for readers that can see all of these people: the author of the event
    /// and the authors of the comments above it. It contains no text of users.
    Restricted(Vec<UserId>, Bytes),
    /// A post left a channel with many readers. The entry is for readers that could see the post in it.
    PostRemoved(Box<PostRemoved>),
}

/// A comment that was written or edited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommentChanged {
    /// The comment.
    pub comment: CommentId,
    /// Whether it was edited; otherwise it is new.
    pub is_edit: bool,
    /// Its author and the authors of its ancestors. Only readers that can see all of them receive the entry.
    pub people: Vec<UserId>,
}

/// A post that left a channel, and its former visibility.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PostRemoved {
    /// The post.
    pub post: PostId,
    /// Its author.
    pub author: UserId,
    /// Its visibility before it left.
    pub visibility: Visibility,
    /// The reason. A post that is `Hidden` may still be visible to some readers.
    pub reason: GoneReason,
}

impl Entry {
    /// Encodes the entry for a broker: a letter for the kind, and a body.
    pub fn encode(&self) -> (u8, Bytes) {
        let body = match self {
            Self::Post(id) | Self::Edited(id) | Self::Gone(id, _) | Self::AuthorGone(id) => id.to_string().into(),
            Self::Data(bytes) => bytes.clone(),
            Self::NotificationChanged(id) => id.to_string().into(),
            Self::Comment(changed) => format!("{}\n{}", changed.comment, join(&changed.people)).into(),
            Self::Restricted(people, members) => [join(people).as_bytes(), b"\n", members].concat().into(),
            // Names and numbers can always be encoded as JSON.
            Self::PostRemoved(left) => serde_json::to_vec(left).unwrap_or_default().into(),
        };
        (self.kind(), body)
    }

    /// The letter of its kind.
    pub fn kind(&self) -> u8 {
        match self {
            Self::Post(_) => b'p',
            Self::Edited(_) => b'e',
            Self::Gone(_, GoneReason::Deleted) => b'x',
            Self::Gone(_, GoneReason::Unfollowed) => b'u',
            Self::Gone(_, GoneReason::Hidden) => b'h',
            Self::Gone(_, GoneReason::Filtered) => b'f',
            Self::Gone(_, GoneReason::Unlisted) => b'o',
            Self::AuthorGone(_) => b'a',
            Self::Data(_) => b'd',
            Self::NotificationChanged(_) => b'n',
            Self::Comment(changed) if changed.is_edit => b'm',
            Self::Comment(_) => b'c',
            Self::Restricted(..) => b'b',
            Self::PostRemoved(_) => b'l',
        }
    }

    /// The entry of this kind for a post; `None` if the kind is unknown or does not concern posts.
    pub fn of_post(kind: u8, post: PostId) -> Option<Self> {
        Some(match kind {
            b'p' => Self::Post(post),
            b'e' => Self::Edited(post),
            b'x' => Self::Gone(post, GoneReason::Deleted),
            b'u' => Self::Gone(post, GoneReason::Unfollowed),
            b'h' => Self::Gone(post, GoneReason::Hidden),
            b'f' => Self::Gone(post, GoneReason::Filtered),
            b'o' => Self::Gone(post, GoneReason::Unlisted),
            b'a' => Self::AuthorGone(post),
            _ => return None,
        })
    }

    /// Decodes the result of [`encode`](Self::encode). `None` if it is not a known entry, for example one written by a
    /// newer version: readers skip it.
    pub fn decode(kind: u8, body: Bytes) -> Option<Self> {
        let id = || std::str::from_utf8(&body).ok().and_then(PostId::parse);
        Some(match kind {
            b'd' => Self::Data(body),
            b'n' => Self::NotificationChanged(NotificationId(id()?.0)),
            b'b' => {
                let end = body.iter().position(|byte| *byte == b'\n')?;
                let people = split(std::str::from_utf8(&body[..end]).ok()?)?;
                Self::Restricted(people, body.slice(end + 1..))
            }
            b'c' | b'm' => {
                let (comment, people) = std::str::from_utf8(&body).ok()?.split_once('\n')?;
                let comment = CommentId::parse(comment)?;
                let people = split(people)?;
                Self::Comment(Box::new(CommentChanged { comment, is_edit: kind == b'm', people }))
            }
            b'l' => Self::PostRemoved(serde_json::from_slice(&body).ok()?),
            kind => Self::of_post(kind, id()?)?,
        })
    }

    /// The post of an inbox entry; `None` for kinds that inboxes do not contain.
    pub fn post(&self) -> Option<PostId> {
        match self {
            Self::Post(id) | Self::Edited(id) | Self::Gone(id, _) | Self::AuthorGone(id) => Some(*id),
            Self::Data(_)
            | Self::NotificationChanged(_)
            | Self::Comment(_)
            | Self::Restricted(..)
            | Self::PostRemoved(_) => None,
        }
    }
}

fn join(people: &[UserId]) -> String {
    people.iter().map(UserId::as_str).collect::<Vec<_>>().join(" ")
}

fn split(people: &str) -> Option<Vec<UserId>> {
    people.split(' ').map(UserId::parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_round_trips() {
        let id = PostId(77);
        let reasons = [
            GoneReason::Deleted,
            GoneReason::Unfollowed,
            GoneReason::Hidden,
            GoneReason::Filtered,
            GoneReason::Unlisted,
        ];
        let mut all = vec![
            Entry::Post(id),
            Entry::Edited(id),
            Entry::AuthorGone(id),
            Entry::NotificationChanged(NotificationId(8)),
            Entry::Data(Bytes::from_static(b"\"data\":1")),
        ];
        all.extend(reasons.map(|reason| Entry::Gone(id, reason)));
        let author = UserId::parse("ann").unwrap();
        for others in [&[][..], &["bo", "c.y"]] {
            let people = others.iter().filter_map(|id| UserId::parse(id));
            let people = std::iter::once(author.clone()).chain(people).collect();
            let people: Vec<UserId> = people;
            all.push(Entry::Restricted(people.clone(), Bytes::from_static(b"\"data\":\"a b\"")));
            for is_edit in [false, true] {
                let people = people.clone();
                all.push(Entry::Comment(Box::new(CommentChanged { comment: CommentId(9), is_edit, people })));
            }
        }
        let visibility = Visibility::NotTo(vec![author.clone()]);
        all.push(Entry::PostRemoved(Box::new(PostRemoved {
            post: id,
            author,
            visibility,
            reason: GoneReason::Hidden,
        })));
        for entry in all {
            let (kind, body) = entry.encode();
            assert_eq!(Entry::decode(kind, body), Some(entry));
        }
        let nonsense = [(b'?', ""), (b'b', "ann"), (b'b', "a @b\n{}"), (b'b', "a \n{}"), (b'l', "{}")];
        for (kind, nonsense) in nonsense.into_iter().chain([(b'c', "9"), (b'm', "9\n"), (b'c', "x\nann")]) {
            assert_eq!(Entry::decode(kind, Bytes::from_static(nonsense.as_bytes())), None, "{nonsense:?}");
        }
    }
}
