//! The posts of an author that are visible to a viewer.

use rusqlite::{Connection, params};

use super::author_posts::by_author;
use super::rows::post_id_at;
use super::{count, integer};
use crate::ledger::{MAX_HIDDEN, VisiblePosts};
use crate::model::{PostId, UserId};

/// Merges the newest posts of each audience that the viewer belongs to. `rights` contains the author for these
/// audiences and NULL for the others, so that the others are not searched; a separate condition would be checked for
/// each row. The scan stops at `stop`, the last of the posts hidden by `not_to` that it may read: below it the result
/// is incomplete.
pub(super) const VISIBLE: &str = "WITH rights AS MATERIALIZED ( \
        SELECT CASE WHEN open THEN ?1 END AS everyone, CASE WHEN open AND follows THEN ?1 END AS followers, \
            CASE WHEN open AND follows AND followed THEN ?1 END AS friends FROM (SELECT \
            NOT EXISTS (SELECT 1 FROM restrictions WHERE maker = ?2 AND kind = 'block' AND target = ?1) \
            AND NOT EXISTS (SELECT 1 FROM restrictions \
                WHERE maker = ?1 AND kind IN ('hide', 'block') AND target = ?2) AS open, \
            EXISTS (SELECT 1 FROM follows WHERE follower = ?2 AND followee = ?1) AS follows, \
            EXISTS (SELECT 1 FROM follows WHERE follower = ?1 AND followee = ?2) AS followed) \
    ), stop AS MATERIALIZED ( \
        SELECT post FROM audience_posts \
        WHERE author = (SELECT everyone FROM rights) AND kind = 'not_to' AND viewer = ?2 AND post < ?3 \
        ORDER BY post DESC LIMIT 1 OFFSET ?5 - 1 \
    ) \
    SELECT * FROM (SELECT id AS post, 0 AS is_stop FROM posts INDEXED BY posts_public \
        WHERE author = (SELECT everyone FROM rights) AND id < ?3 \
        AND deleted_at IS NULL AND coalesce(body ->> '$.visibility', 'public') = 'public' \
        ORDER BY id DESC LIMIT ?4) \
    UNION ALL SELECT * FROM (SELECT post, 0 FROM audience_posts \
        WHERE author = (SELECT followers FROM rights) AND kind = 'followers' AND viewer = '' AND post < ?3 \
        ORDER BY post DESC LIMIT ?4) \
    UNION ALL SELECT * FROM (SELECT post, 0 FROM audience_posts \
        WHERE author = (SELECT friends FROM rights) AND kind = 'friends' AND viewer = '' AND post < ?3 \
        ORDER BY post DESC LIMIT ?4) \
    UNION ALL SELECT * FROM (SELECT post, 0 FROM audience_posts \
        WHERE author = (SELECT followers FROM rights) AND kind = 'only_to' AND viewer = ?2 AND post < ?3 \
        ORDER BY post DESC LIMIT ?4) \
    UNION ALL SELECT * FROM (SELECT post, 0 FROM audience_posts one \
        WHERE author = (SELECT everyone FROM rights) AND kind = 'not_to' AND viewer = '' AND post < ?3 \
        AND post > coalesce((SELECT post FROM stop), 0) \
        AND NOT EXISTS (SELECT 1 FROM audience_posts named \
            WHERE named.author = ?1 AND named.kind = 'not_to' AND named.viewer = ?2 AND named.post = one.post) \
        ORDER BY post DESC LIMIT ?4) \
    UNION ALL SELECT post, 1 FROM stop \
    ORDER BY post DESC LIMIT ?4";

pub(super) fn read(
    db: &Connection,
    author: &UserId,
    viewer: Option<&UserId>,
    before: PostId,
    limit: usize,
) -> rusqlite::Result<VisiblePosts> {
    if viewer == Some(author) {
        return Ok(VisiblePosts { posts: by_author(db, author.as_str(), before, limit)?, stopped_at: None });
    }
    let viewer = viewer.map(UserId::as_str);
    let wanted = params![author.as_str(), viewer, integer(before.0), count(limit), count(MAX_HIDDEN)];
    db.prepare_cached(VISIBLE)?.query_map(wanted, |row| Ok((post_id_at(row, 0)?, row.get(1)?)))?.collect()
}
