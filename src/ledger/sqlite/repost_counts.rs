//! The numbers of reposts and quotes of posts.

use rusqlite::{Connection, OptionalExtension, params};

use super::integer;
use crate::model::PostId;

/// Removes a deleted post from the reposts or quotes of the post that it named.
pub(super) fn leave(db: &Connection, post: PostId) -> rusqlite::Result<()> {
    let id = integer(post.0);
    let sql = "DELETE FROM reposts WHERE repost = ?1 RETURNING post";
    let named: Option<i64> = db.prepare_cached(sql)?.query_row([id], |row| row.get(0)).optional()?;
    if let Some(named) = named {
        count_naming(db, named, -1, 0)?;
    }
    let sql = "DELETE FROM quotes WHERE quote = ?1 RETURNING post, detached";
    let quoted: Option<(i64, bool)> =
        db.prepare_cached(sql)?.query_row([id], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    match quoted {
        Some((named, false)) => count_naming(db, named, 0, -1),
        Some((_, true)) | None => Ok(()),
    }
}

/// Changes the number of reposts and of quotes of a post, and its version.
pub(super) fn count_naming(db: &Connection, post: i64, reposts: i64, quotes: i64) -> rusqlite::Result<()> {
    let sql = "INSERT INTO post_counts (post, reposts, quotes, likes_version) VALUES (?1, max(?2, 0), max(?3, 0), 1) \
               ON CONFLICT DO UPDATE SET reposts = max(reposts + ?2, 0), quotes = max(quotes + ?3, 0), \
                   likes_version = likes_version + 1";
    db.prepare_cached(sql)?.execute(params![post, reposts, quotes]).map(drop)
}
