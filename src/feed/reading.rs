//! How far a user has read their timeline: a marker that all their devices share.

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::audience::Surface;
use super::timelines::fold;
use super::{Caller, Feed, Result, now};
use crate::broker::inbox_channel;
use crate::model::{Entry, PostId, UserId};

/// Up to how many are counted: a badge shows no more, and each is looked at to see whether it may be seen.
const UNREAD: usize = 100;

/// How far it was read.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadUpTo {
    /// The newest post that was seen. An older one than before changes nothing.
    id: PostId,
}

/// How far a timeline is read.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(super) struct Read {
    /// The newest post that was seen; 0 before the first mark. It never goes back.
    id: PostId,
    /// How many posts of others are newer, 100 at most: then there are as many or more.
    unread: u64,
}

impl Feed {
    pub(super) async fn mark_timeline_read(&self, caller: Caller, upto: ReadUpTo) -> Result<Read> {
        let user = caller.user()?;
        self.welcome(user).await?;
        // What is yet to be written has not been seen: no mark may swallow it.
        let latest = PostId::from_parts(now(), u8::MAX >> 2, u8::MAX >> 2);
        let asked = upto.id.min(latest);
        let id = self.ledger.mark_read(user, asked).await?;
        let inbox = self.inbox(user).await?;
        let unread = self.unread(user, id, &fold(&inbox)).await?;
        if id == asked {
            self.tell_read(user, Read { id, unread }).await;
        }
        Ok(Read { id, unread })
    }

    /// How far a user has read, of a timeline that holds these posts, newest first.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn read_state(&self, user: &UserId, held: &[PostId]) -> Result<Read> {
        let id = self.ledger.read_marker(user).await?;
        Ok(Read { id, unread: self.unread(user, id, held).await? })
    }

    async fn unread(&self, user: &UserId, marker: PostId, held: &[PostId]) -> Result<u64> {
        let newer = &held[..held.partition_point(|id| *id > marker)];
        let mut unread = 0;
        for some in newer.chunks(UNREAD) {
            let seen = self.seen_by(Some(user), Surface::Timeline, some.iter().copied()).await?;
            unread += seen.values().filter(|body| body.post.author != *user).count();
            if unread >= UNREAD {
                break;
            }
        }
        Ok(unread.min(UNREAD) as u64)
    }

    /// Tells the user's sockets. It is no entry of the log: whoever was away reads it with their next page.
    async fn tell_read(&self, user: &UserId, read: Read) {
        let Read { id, unread } = read;
        let members = Bytes::from(format!(r#""data":{{"type":"read","id":{id},"unread":{unread}}}"#));
        if let Err(error) = self.broker.publish(&inbox_channel(user), &Entry::Data(members)).await {
            tracing::warn!(%error, %user, "a read marker is stored, and other devices will learn of it later");
        }
    }
}
