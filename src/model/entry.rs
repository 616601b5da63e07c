//! What a channel's log holds.

use std::sync::Arc;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NotificationId, PostId, UserId, Visibility};

/// Names one life of a log. When a log is lost and made anew, its offsets begin at 1 again under another
/// epoch, so a reader never mistakes the new log for the old one. 1 to 32 of `A-Z a-z 0-9`.
pub type Epoch = Arc<str>;

/// A place in a log: everything up to and including `offset` has been seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Position {
    /// The last offset seen; 0 before the first.
    pub offset: u64,
    /// The life of the log that the offset belongs to.
    #[serde(with = "epoch_text")]
    #[schemars(with = "String")]
    pub epoch: Epoch,
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

/// Why a post left a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GoneReason {
    /// Its author deleted it.
    Deleted,
    /// The reader no longer follows its author.
    Unfollowed,
    /// The reader may not, or does not want to, see it any more.
    Hidden,
}

/// One entry of a log: ids, not bodies. A body is put in when the entry is delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A post arrived.
    Post(PostId),
    /// A post that is already here changed.
    Edited(PostId),
    /// A post left.
    Gone(PostId, GoneReason),
    /// An application's own publication: the members of its JSON object without the braces
    /// (`"data":…,"info":…,"tags":…`), no line break anywhere.
    Data(Bytes),
    /// A notification is there, or has grown.
    Notified(NotificationId),
    /// What happened, as members like those of `Data`, for those who may see all of these people: who did it, and below
    /// whose comments.
    By(Vec<UserId>, Bytes),
    /// A post left a channel that many read: for those who could see it there.
    Left(Box<Left>),
}

/// A post that left a channel, and who could see it before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// Which.
    pub post: PostId,
    /// Whose.
    pub author: UserId,
    /// Who could see it.
    pub visibility: Visibility,
    /// Why it left. One that was `Hidden` may still be there for some.
    pub reason: GoneReason,
}

impl Entry {
    /// The entry as a broker stores it: a letter for the kind, and a body.
    pub fn encode(&self) -> (u8, Bytes) {
        let body = match self {
            Self::Post(id) | Self::Edited(id) | Self::Gone(id, _) => id.to_string().into(),
            Self::Data(bytes) => bytes.clone(),
            Self::Notified(id) => id.to_string().into(),
            Self::By(people, members) => {
                let people: Vec<&str> = people.iter().map(UserId::as_str).collect();
                [people.join(" ").as_bytes(), b"\n", members].concat().into()
            }
            // Names and numbers are always JSON.
            Self::Left(left) => serde_json::to_vec(left).unwrap_or_default().into(),
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
            Self::Data(_) => b'd',
            Self::Notified(_) => b'n',
            Self::By(..) => b'b',
            Self::Left(_) => b'l',
        }
    }

    /// The entry of this kind on a post; `None` if those of this kind are not on posts, or there is no such kind.
    pub fn of_post(kind: u8, post: PostId) -> Option<Self> {
        Some(match kind {
            b'p' => Self::Post(post),
            b'e' => Self::Edited(post),
            b'x' => Self::Gone(post, GoneReason::Deleted),
            b'u' => Self::Gone(post, GoneReason::Unfollowed),
            b'h' => Self::Gone(post, GoneReason::Hidden),
            _ => return None,
        })
    }

    /// Reads what [`encode`](Self::encode) wrote. `None` if it is not an entry, as one written by a newer
    /// version could be: a reader steps over it.
    pub fn decode(kind: u8, body: Bytes) -> Option<Self> {
        let id = || std::str::from_utf8(&body).ok().and_then(PostId::parse);
        Some(match kind {
            b'd' => Self::Data(body),
            b'n' => Self::Notified(NotificationId(id()?.0)),
            b'b' => {
                let end = body.iter().position(|byte| *byte == b'\n')?;
                let people = std::str::from_utf8(&body[..end]).ok()?.split(' ').map(UserId::parse);
                Self::By(people.collect::<Option<_>>()?, body.slice(end + 1..))
            }
            b'l' => Self::Left(serde_json::from_slice(&body).ok()?),
            kind => Self::of_post(kind, id()?)?,
        })
    }

    /// The post that an inbox's entry speaks of; `None` of what no inbox holds.
    pub fn post(&self) -> Option<PostId> {
        match self {
            Self::Post(id) | Self::Edited(id) | Self::Gone(id, _) => Some(*id),
            Self::Data(_) | Self::Notified(_) | Self::By(..) | Self::Left(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_round_trips() {
        let id = PostId(77);
        let reasons = [GoneReason::Deleted, GoneReason::Unfollowed, GoneReason::Hidden];
        let mut all = vec![
            Entry::Post(id),
            Entry::Edited(id),
            Entry::Notified(NotificationId(8)),
            Entry::Data(Bytes::from_static(b"\"data\":1")),
        ];
        all.extend(reasons.map(|reason| Entry::Gone(id, reason)));
        let author = UserId::parse("ann").unwrap();
        for others in [&[][..], &["bo", "c.y"]] {
            let people = others.iter().filter_map(|id| UserId::parse(id));
            let people = std::iter::once(author.clone()).chain(people).collect();
            all.push(Entry::By(people, Bytes::from_static(b"\"data\":\"a b\"")));
        }
        let visibility = Visibility::NotTo(vec![author.clone()]);
        all.push(Entry::Left(Box::new(Left { post: id, author, visibility, reason: GoneReason::Hidden })));
        for entry in all {
            let (kind, body) = entry.encode();
            assert_eq!(Entry::decode(kind, body), Some(entry));
        }
        for (kind, nonsense) in [(b'?', ""), (b'b', "ann"), (b'b', "a @b\n{}"), (b'b', "a \n{}"), (b'l', "{}")] {
            assert_eq!(Entry::decode(kind, Bytes::from_static(nonsense.as_bytes())), None, "{nonsense:?}");
        }
    }
}
