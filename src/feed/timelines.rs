//! A timeline: the inbox, and the ledger where the inbox ends.
//!
//! The log of an inbox says what arrived and left in the order in which it happened. A timeline is what remains of
//! it, newest *post* first: late arrivals and the past of someone just followed are in their right place, and a page
//! boundary (a post id) does not move whatever arrives. Below the inbox's floor the ledger is asked; one cursor runs
//! through both.

use std::cmp::Reverse;
use std::collections::HashSet;

use super::Feed;
use super::audience::Surface;
use super::bodies::Body;
use super::error::{FeedError, Result};
use super::pages::Posts;
use super::telling::{Stage, Viewer};
use crate::broker::{Inbox, Opening, Span, inbox_channel};
use crate::ledger::TimelinePage;
use crate::model::{Entry, Epoch, GoneReason, Position, PostId, UserId};
use std::sync::Arc;

/// A page of a timeline.
#[derive(Debug)]
pub struct Page {
    /// The posts, newest first.
    pub items: Vec<Arc<Body>>,
    /// Where the next page begins: below this id. `None` at the end.
    pub next: Option<PostId>,
    /// All that the inbox held, newest first.
    pub held: Vec<PostId>,
    /// The log position at which it was read: what lies after it arrives live.
    pub position: Position,
}

/// What arrived and left since a position.
#[derive(Debug)]
pub enum Updates {
    /// All of it: publication members, oldest first, and the position after the last.
    Recovered(Vec<(u64, bytes::Bytes)>, Position),
    /// The position reaches too far back, or is of another life of the log: read the timeline anew.
    TooFarBack(Position),
}

/// How often a timeline is looked for that goes away while it is being read. Once is rare.
const TRIES: usize = 5;

impl Feed {
    /// Brings a user's inbox up to date and answers with its position: what the user has to see from then on arrives there.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub async fn open_timeline(&self, user: &UserId) -> Result<Position> {
        self.up_to_date(user).await.map(|(position, _)| position)
    }

    /// The same, and the mark up to which it was brought.
    pub(super) async fn up_to_date(&self, user: &UserId) -> Result<(Position, u64)> {
        for _ in 0..TRIES {
            match self.broker.open_inbox(user).await? {
                Opening::Ready(position, mark) if self.pulled.covers(user, mark) => return Ok((position, mark)),
                Opening::Ready(position, mark) => {
                    if let Some(opened) = self.catch_up(user, &position.epoch, mark).await? {
                        return Ok(opened);
                    }
                }
                // Somebody else may have filled it: where it stands then is asked once more.
                Opening::Unfilled(epoch) => self.fill(user, &epoch).await?,
            }
        }
        tracing::warn!(%user, "an inbox went away again and again while it was being filled");
        Err(FeedError::Unavailable)
    }

    async fn fill(&self, user: &UserId, epoch: &Epoch) -> Result<()> {
        // Known before the ledger is read: what is pulled up to here is found there.
        let mark = self.pulled.reached();
        let length = self.options.timeline_length;
        let ticket = self.relations.ticket(user);
        let mut posts = self.past_of(user).await?;
        posts.reverse();
        // A full read may have left something out: the inbox speaks for what is newer than its oldest post, and for that one.
        let floor = if posts.len() < length { PostId::ZERO } else { below(posts[0]) };
        // What is not for the reader now is brought in, and told, once it is: it must not lie there already. The ledger has left
        // out what stands between people, so only posts with an audience of their own are looked at.
        let restricted: HashSet<PostId> = self.ledger.restricted_among(&posts).await?.into_iter().collect();
        let shown = self.seen_by(Some(user), Surface::Timeline, restricted.iter().copied()).await?;
        posts.retain(|id| !restricted.contains(id) || shown.contains_key(id));
        self.broker.fill_inbox(user, epoch, &posts, floor, mark).await?;
        // An unfollow that was committed since the ledger was read looked for posts to remove before they were put in. It waited
        // until this node knew of it first.
        if self.relations.have_changed(user, ticket) {
            self.remove_unfollowed(user, &posts).await?;
        }
        Ok(())
    }

    /// The newest posts of a user's timeline as the ledger has it, newest first.
    async fn past_of(&self, user: &UserId) -> Result<Vec<PostId>> {
        let limit = self.options.timeline_length;
        let page = TimelinePage { before: PostId::MAX, limit, likely: PostId::ZERO };
        Ok(self.ledger.timeline_posts(user, page).await?)
    }

    /// Removes those of `posts`, which were put into an inbox, that are not in the user's timeline any more.
    async fn remove_unfollowed(&self, user: &UserId, posts: &[PostId]) -> Result<()> {
        let missing_in = |past: &[PostId]| {
            // Newer posts may have pushed out the oldest.
            let full = past.len() >= self.options.timeline_length;
            let oldest = past.last().copied().filter(|_| full).unwrap_or(PostId::ZERO);
            let past: HashSet<PostId> = past.iter().copied().collect();
            posts.iter().copied().filter(|id| *id >= oldest && !past.contains(id)).collect::<Vec<_>>()
        };
        let gone = missing_in(&self.past_of(user).await?);
        if gone.is_empty() {
            return Ok(());
        }
        self.broker.purge_inbox(user, &gone, GoneReason::Hidden).await?;
        // A follow that was committed meanwhile found them in the inbox still, and did not bring them.
        let gone: HashSet<PostId> = missing_in(&self.past_of(user).await?).into_iter().collect();
        let back: Vec<PostId> = posts.iter().copied().filter(|id| !gone.contains(id)).collect();
        self.broker.merge_inbox(user, &back, PostId::ZERO).await?;
        Ok(())
    }

    pub(super) async fn inbox(&self, user: &UserId) -> Result<Inbox> {
        for _ in 0..TRIES {
            match self.broker.read_inbox(user).await? {
                Some(inbox) if self.pulled.covers(user, inbox.mark) => return Ok(inbox),
                Some(inbox) => _ = self.catch_up(user, &inbox.top.epoch, inbox.mark).await?,
                None => _ = self.open_timeline(user).await?,
            }
        }
        tracing::warn!(%user, "an inbox went away again and again while it was being read");
        Err(FeedError::Unavailable)
    }

    /// Reads a page of at most `limit` posts below `cursor` (of the newest, without one).
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub async fn read_timeline(&self, user: &UserId, cursor: Option<PostId>, limit: usize) -> Result<Page> {
        let inbox = self.inbox(user).await?;
        let mut page = Posts::new(cursor, limit);
        let held = fold(&inbox);
        let mut stored = held.iter().copied().filter(|id| cursor.is_none_or(|cursor| *id < cursor));
        let mut from_ledger = false;
        loop {
            while let Some((before, count)) = page.wants_posts() {
                let ids: Vec<PostId> = if from_ledger {
                    let likely = reach(&held, before, count);
                    self.ledger.timeline_posts(user, TimelinePage { before, limit: count, likely }).await?
                } else {
                    stored.by_ref().take(count).collect()
                };
                page.take_posts(&ids, &self.seen_by(Some(user), Surface::Timeline, ids.iter().copied()).await?);
            }
            // Where the inbox ends the ledger goes on.
            if page.is_full() || from_ledger || inbox.floor == PostId::ZERO {
                break;
            }
            from_ledger = true;
            page.goes_on(PostId(inbox.floor.0 + 1));
        }
        let (items, next) = page.finish();
        Ok(Page { items, next, held, position: inbox.top })
    }

    /// What arrived in a user's timeline and left it since `since`: the same as a socket's recovery.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub async fn timeline_updates(&self, user: &UserId, since: &Position) -> Result<Updates> {
        let top = self.open_timeline(user).await?;
        if top.epoch != since.epoch || since.offset > top.offset {
            return Ok(Updates::TooFarBack(top));
        }
        let most = self.options.recovery_limit;
        let Some(slice) = self.broker.read(&inbox_channel(user), Span::After(since.offset, most)).await? else {
            return Ok(Updates::TooFarBack(top));
        };
        match recovered(slice, since, most) {
            Ok(slice) => {
                let (offsets, entries): (Vec<u64>, Vec<Entry>) = slice.entries.into_iter().unzip();
                let stage = Stage::Timeline(user.clone());
                let publications = self.publications(&stage, Viewer::Client(Some(user)), &entries).await?;
                let told = offsets.into_iter().zip(publications).filter_map(|(offset, told)| Some((offset, told?)));
                Ok(Updates::Recovered(told.collect(), slice.top))
            }
            Err(top) => Ok(Updates::TooFarBack(top)),
        }
    }
}

/// Whether a slice read after a position is all that was missed; if not, where the log stands.
fn recovered(
    slice: crate::broker::Slice,
    since: &Position,
    most: usize,
) -> std::result::Result<crate::broker::Slice, Position> {
    let missed = slice.top.offset.saturating_sub(since.offset);
    let complete = slice.top.epoch == since.epoch
        && since.offset <= slice.top.offset
        && missed <= most as u64
        && slice.entries.len() as u64 == missed;
    if complete { Ok(slice) } else { Err(slice.top) }
}

/// How far down so many posts below `before` probably reach, if they come as those of the inbox do; twice that far, since they
/// do not come evenly. 0 if the inbox does not tell.
fn reach(held: &[PostId], before: PostId, count: usize) -> PostId {
    // One post tells nothing of how they come.
    let [newest, .., oldest] = held else { return PostId::ZERO };
    let spans = u128::from(newest.0.saturating_sub(oldest.0)).saturating_mul(2 * count as u128);
    PostId(before.0.saturating_sub(u64::try_from(spans / held.len() as u128).unwrap_or(u64::MAX)))
}

fn below(id: PostId) -> PostId {
    PostId(id.0.saturating_sub(1))
}

/// What remains of an inbox's log above its floor, newest first, each post once.
pub(super) fn fold(inbox: &Inbox) -> Vec<PostId> {
    // Newest first, as they nearly are already, and each post's latest entry before its earlier ones.
    let mut latest: Vec<(PostId, u64, bool)> = Vec::with_capacity(inbox.entries.len());
    for (offset, entry) in inbox.entries.iter().rev() {
        match entry {
            Entry::Post(id) => latest.push((*id, *offset, true)),
            Entry::Gone(id, _) => latest.push((*id, *offset, false)),
            Entry::Edited(_) | Entry::Data(_) | Entry::Notified(_) | Entry::By(..) | Entry::Left(_) => {}
        }
    }
    latest.sort_unstable_by_key(|(id, offset, _)| Reverse((*id, *offset)));
    latest.dedup_by_key(|(id, ..)| *id);
    latest.into_iter().filter(|(id, _, here)| *here && *id > inbox.floor).map(|(id, ..)| id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_thought_to_reach_as_far_as_the_inbox_is_dense() {
        let held: Vec<PostId> = (1..=11).rev().map(|n| PostId(1_000 * n)).collect();
        // 11 posts in 10,000: 30 more would be some 27,000 below, and twice that is looked at.
        assert_eq!(reach(&held, PostId(100_000), 30), PostId(100_000 - 54_545));
        assert_eq!(reach(&held, PostId(900), 500), PostId::ZERO);
        assert_eq!(reach(&[PostId(u64::MAX), PostId(1)], PostId(5), usize::MAX), PostId::ZERO);
        // Nobody knows.
        assert_eq!([&held[..1], &[]].map(|held| reach(held, PostId(900), 30)), [PostId::ZERO; 2]);
    }

    #[test]
    fn a_timeline_is_what_remains_of_the_log_newest_post_first() {
        let log = [
            Entry::Post(PostId(30)),
            Entry::Post(PostId(10)),
            Entry::Post(PostId(20)),
            Entry::Gone(PostId(30), GoneReason::Unfollowed),
            Entry::Post(PostId(40)),
            Entry::Gone(PostId(40), GoneReason::Deleted),
            Entry::Post(PostId(30)),
            Entry::Post(PostId(5)),
        ];
        let inbox = Inbox {
            top: Position { offset: 8, epoch: "e".into() },
            floor: PostId(5),
            mark: 0,
            entries: log.into_iter().zip(1..).map(|(entry, offset)| (offset, entry)).collect(),
        };
        assert_eq!(fold(&inbox), [PostId(30), PostId(20), PostId(10)]);
    }
}
