//! The posts of a timeline: those of many authors, merged, newest first.
//!
//! The posts of each author are sorted in an index, so the page is a merge of sorted runs. A run is read in chunks:
//! first a few ids of each author, then more of the authors whose posts are on the page. An author costs one look-up, a
//! post on the page about one step, and older posts nothing.

use std::collections::BinaryHeap;

use rusqlite::Connection;

use super::author_posts::by_author;
use crate::model::{PostId, UserId};

/// The growth factor of an author's chunks, so that an author whose posts fill the page needs few of them.
const GROWTH: usize = 4;

/// The posts below `before` by `reader` and the users that `reader` follows, without authors that the reader mutes or
/// that hide from the reader.
pub(super) fn read(db: &Connection, reader: &UserId, before: PostId, limit: usize) -> rusqlite::Result<Vec<PostId>> {
    // One snapshot: an unfollow or a deletion between two look-ups would give a page that never existed.
    let snapshot = db.unchecked_transaction()?;
    let mut runs = runs(&snapshot, reader, limit)?;
    let mut heap = BinaryHeap::with_capacity(runs.len());
    for (index, run) in runs.iter_mut().enumerate() {
        heap.extend(run.next(&snapshot, before, limit)?.map(|id| (id, index)));
    }
    let mut page = Vec::with_capacity(limit.min(1024));
    while page.len() < limit {
        let Some((id, index)) = heap.pop() else { break };
        page.push(id);
        let left = limit - page.len();
        heap.extend(runs[index].next(&snapshot, id, left)?.map(|id| (id, index)));
    }
    Ok(page)
}

/// One run for each author, including the reader, each once.
fn runs(db: &Connection, reader: &UserId, limit: usize) -> rusqlite::Result<Vec<AuthorRun>> {
    let sql = "SELECT followee FROM follows WHERE follower = ?1 AND followee NOT IN \
                   (SELECT target FROM restrictions WHERE maker = ?1 AND kind = 'mute' \
                    UNION ALL SELECT maker FROM restrictions WHERE target = ?1 AND kind = 'hide') \
               UNION SELECT ?1";
    let mut statement = db.prepare_cached(sql)?;
    let authors = statement.query_map([reader.as_str()], |row| row.get(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
    // Twice the fair share, so that most authors need no second chunk.
    let chunk = (2 * limit / authors.len().max(1)).max(2);
    Ok(authors.into_iter().map(|author| AuthorRun { author, ids: Vec::new(), chunk, end: RunEnd::Unknown }).collect())
}

/// One author's posts, as far as they have been read.
struct AuthorRun {
    author: String,
    /// Read and not yet on the page, oldest first.
    ids: Vec<PostId>,
    /// How many to read next.
    chunk: usize,
    end: RunEnd,
}

#[derive(PartialEq, Eq)]
enum RunEnd {
    /// There may be older posts.
    Unknown,
    /// What has been read goes back to the author's first post.
    Reached,
}

impl AuthorRun {
    /// The author's newest post below `before`, the id returned last. Reads at most `left` more ids if needed.
    fn next(&mut self, db: &Connection, before: PostId, left: usize) -> rusqlite::Result<Option<PostId>> {
        if self.ids.is_empty() && self.end == RunEnd::Unknown && left > 0 {
            let wanted = self.chunk.min(left);
            self.ids = by_author(db, &self.author, before, wanted)?;
            if self.ids.len() < wanted {
                self.end = RunEnd::Reached;
            }
            self.ids.reverse();
            self.chunk *= GROWTH;
        }
        Ok(self.ids.pop())
    }
}
