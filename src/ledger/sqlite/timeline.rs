//! The posts of a timeline or a list: those of many authors and topics, merged, newest first.
//!
//! The posts of each author and topic are sorted in an index, so the page is a merge of sorted runs. A run is read in
//! chunks: first a few ids of each, then more of those whose posts are on the page. A run costs one look-up, a post on
//! the page about one step, and older posts nothing.

use std::collections::BinaryHeap;

use rusqlite::{Connection, params};

use super::author_posts::by_author;
use super::rows::post_id_at;
use super::{count, integer};
use crate::model::{PostId, UserId};

/// The growth factor of the chunks of a run, so that a run whose posts fill the page needs few of them.
const GROWTH: usize = 4;

/// The posts below `before` by `reader` and the users that `reader` follows, without authors that the reader mutes or
/// has in an exclusive list, or that hide from the reader.
pub(super) fn read(db: &Connection, reader: &UserId, before: PostId, limit: usize) -> rusqlite::Result<Vec<PostId>> {
    // One snapshot: an unfollow or a deletion between two look-ups would give a page that never existed.
    let snapshot = db.unchecked_transaction()?;
    let authors = authors(&snapshot, reader)?.into_iter().map(RunSource::Author).collect();
    merge(&snapshot, PostRun::all(authors, limit), before, limit)
}

/// The same, and the public posts of the topics that `reader` follows.
pub(super) fn read_with_topics(
    db: &Connection,
    reader: &UserId,
    before: PostId,
    limit: usize,
) -> rusqlite::Result<Vec<PostId>> {
    let snapshot = db.unchecked_transaction()?;
    let mut sources: Vec<RunSource> = authors(&snapshot, reader)?.into_iter().map(RunSource::Author).collect();
    let mut statement = snapshot.prepare_cached("SELECT topic FROM topic_follows WHERE follower = ?1")?;
    let topics =
        statement.query_map([reader.as_str()], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
    sources.extend(topics.into_iter().map(RunSource::PublicTopic));
    merge(&snapshot, PostRun::all(sources, limit), before, limit)
}

/// The newest public posts of these topics.
pub(super) fn newest_with_topics(db: &Connection, topics: Vec<String>, limit: usize) -> rusqlite::Result<Vec<PostId>> {
    let snapshot = db.unchecked_transaction()?;
    let sources = topics.into_iter().map(RunSource::PublicTopic).collect();
    merge(&snapshot, PostRun::all(sources, limit), PostId::MAX, limit)
}

/// The posts of these runs below `before`, each once, newest first.
pub(super) fn merge(
    snapshot: &Connection,
    mut runs: Vec<PostRun>,
    before: PostId,
    limit: usize,
) -> rusqlite::Result<Vec<PostId>> {
    let mut heap = BinaryHeap::with_capacity(runs.len());
    for (index, run) in runs.iter_mut().enumerate() {
        heap.extend(run.next(snapshot, before, limit)?.map(|id| (id, index)));
    }
    let mut page = Vec::with_capacity(limit.min(1024));
    while page.len() < limit {
        let Some((id, index)) = heap.pop() else { break };
        // The same post of another run comes next.
        if page.last() != Some(&id) {
            page.push(id);
        }
        let left = limit - page.len();
        heap.extend(runs[index].next(snapshot, id, left)?.map(|id| (id, index)));
    }
    Ok(page)
}

/// The authors in a timeline, including the reader, each once.
fn authors(db: &Connection, reader: &UserId) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT followee FROM follows WHERE follower = ?1 AND followee NOT IN \
                   (SELECT target FROM restrictions WHERE maker = ?1 AND kind IN ('mute', 'listed') \
                    UNION ALL SELECT maker FROM restrictions WHERE target = ?1 AND kind = 'hide') \
               UNION SELECT ?1";
    db.prepare_cached(sql)?.query_map([reader.as_str()], |row| row.get(0))?.collect()
}

/// The public posts of a topic below an id.
pub(super) const PUBLIC_BY_TOPIC: &str = "SELECT post FROM post_topics INDEXED BY post_topics_public \
    WHERE topic = ?1 AND public AND post < ?2 ORDER BY post DESC LIMIT ?3";

/// The posts of a run.
pub(super) enum RunSource {
    /// Those of an author.
    Author(String),
    /// The public ones of a topic.
    PublicTopic(String),
}

impl RunSource {
    fn read(&self, db: &Connection, before: PostId, limit: usize) -> rusqlite::Result<Vec<PostId>> {
        match self {
            Self::Author(author) => by_author(db, author, before, limit),
            Self::PublicTopic(topic) => db
                .prepare_cached(PUBLIC_BY_TOPIC)?
                .query_map(params![topic, integer(before.0), count(limit)], |row| post_id_at(row, 0))?
                .collect(),
        }
    }
}

/// Sorted posts, as far as they have been read.
pub(super) struct PostRun {
    source: RunSource,
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
    /// What has been read goes back to the first post.
    Reached,
}

impl PostRun {
    /// The runs of a page of `limit` posts.
    pub(super) fn all(sources: Vec<RunSource>, limit: usize) -> Vec<Self> {
        // Twice the fair share, so that most runs need no second chunk.
        let chunk = (2 * limit / sources.len().max(1)).max(2);
        sources.into_iter().map(|source| Self { source, ids: Vec::new(), chunk, end: RunEnd::Unknown }).collect()
    }

    /// The newest post below `before`, the id returned last. Reads at most `left` more ids if needed.
    fn next(&mut self, db: &Connection, before: PostId, left: usize) -> rusqlite::Result<Option<PostId>> {
        if self.ids.is_empty() && self.end == RunEnd::Unknown && left > 0 {
            let wanted = self.chunk.min(left);
            self.ids = self.source.read(db, before, wanted)?;
            if self.ids.len() < wanted {
                self.end = RunEnd::Reached;
            }
            self.ids.reverse();
            self.chunk *= GROWTH;
        }
        Ok(self.ids.pop())
    }
}
