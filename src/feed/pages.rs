//! A page of posts while it is being filled: what may not be seen leaves no hole, the page is read on until it is full.

use std::collections::HashMap;
use std::sync::Arc;

use super::Body;
use crate::model::PostId;

/// How many posts are looked at in one step at most. Steps grow, so that a long run of posts that may not be seen is
/// passed quickly.
const STEP: usize = 500;

/// A page of posts, newest first.
pub(super) struct Filling {
    /// Everything from here on has been looked at.
    before: PostId,
    limit: usize,
    step: usize,
    items: Vec<Arc<Body>>,
    end: End,
}

#[derive(PartialEq, Eq)]
enum End {
    Unknown,
    Reached,
}

impl Filling {
    /// An empty page of at most `limit` posts below `cursor` (of the newest, without one).
    pub(super) fn new(cursor: Option<PostId>, limit: usize) -> Self {
        let before = cursor.unwrap_or(PostId::MAX);
        Self { before, limit, step: 0, items: Vec::with_capacity(limit + 1), end: End::Unknown }
    }

    /// What to read next: posts below this one, at most so many. `None` once the page is full or nothing is left.
    pub(super) fn wants(&mut self) -> Option<(PostId, usize)> {
        // One more than asked for tells whether there is a next page.
        let missing = (self.limit + 1).saturating_sub(self.items.len());
        if missing == 0 || self.end == End::Reached {
            return None;
        }
        self.step = if self.step == 0 { missing } else { (2 * self.step).clamp(missing, STEP.max(missing)) };
        Some((self.before, self.step))
    }

    /// Takes what was read, newest first, and those of them that may be seen. Fewer than wanted: nothing is left.
    pub(super) fn take(&mut self, read: &[PostId], seen: &HashMap<PostId, Arc<Body>>) {
        if read.len() < self.step {
            self.end = End::Reached;
        }
        let room = (self.limit + 1).saturating_sub(self.items.len());
        self.items.extend(read.iter().filter_map(|id| seen.get(id)).take(room).cloned());
        self.before = read.last().copied().unwrap_or(self.before);
    }

    /// Whether nothing more is to be read.
    pub(super) fn is_full(&self) -> bool {
        self.items.len() > self.limit
    }

    /// Nothing was left where it was read, and it goes on below `before` elsewhere.
    pub(super) fn goes_on(&mut self, before: PostId) {
        self.end = End::Unknown;
        self.before = self.before.min(before);
    }

    /// The page, and where the next one begins: below that id. `None` at the end.
    pub(super) fn finish(mut self) -> (Vec<Arc<Body>>, Option<PostId>) {
        let more = self.items.len() > self.limit;
        self.items.truncate(self.limit);
        let next = self.items.last().map(|body| body.post.id).filter(|_| more);
        (self.items, next)
    }
}
