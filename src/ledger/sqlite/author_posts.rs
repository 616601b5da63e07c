//! The posts of an author.

use rusqlite::{Connection, params};

use super::rows::post_id_at;
use super::{count, integer};
use crate::model::PostId;

/// The posts of an author below an id. The statement names the index: without statistics, the planner may scan the
/// posts of all authors by id instead.
pub(super) const BY_AUTHOR: &str = "SELECT id FROM posts INDEXED BY posts_author \
    WHERE author = ?1 AND id < ?2 AND deleted_at IS NULL ORDER BY id DESC LIMIT ?3";

pub(super) fn by_author(db: &Connection, author: &str, before: PostId, limit: usize) -> rusqlite::Result<Vec<PostId>> {
    db.prepare_cached(BY_AUTHOR)?
        .query_map(params![author, integer(before.0), count(limit)], |row| post_id_at(row, 0))?
        .collect()
}
