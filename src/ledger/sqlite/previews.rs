//! The newest likers and comments of posts.

use async_trait::async_trait;
use rusqlite::{Connection, params};

use super::comments::{IN_THREAD, comment};
use super::rows::user_id_at;
use super::{SqliteLedger, count, integer, readable};
use crate::ledger::{PreviewLimits, PreviewRows, PreviewStore, Result};
use crate::model::{CommentId, PostId};

pub(super) const LIKERS: &str = "\
    SELECT coalesce((SELECT handle FROM users WHERE users.id = likes.user), likes.user) \
    FROM likes INDEXED BY likes_of WHERE post = ?1 ORDER BY seq DESC LIMIT ?2";

#[async_trait]
impl PreviewStore for SqliteLedger {
    async fn newest_previews(&self, posts: &[PostId], most: PreviewLimits) -> Result<PreviewRows> {
        let mut posts = posts.to_vec();
        posts.sort_unstable();
        posts.dedup();
        self.read(move |db| newest(db, &posts, most)).await
    }
}

/// Two short index scans for each post, all of them in one call.
fn newest(db: &Connection, posts: &[PostId], most: PreviewLimits) -> rusqlite::Result<PreviewRows> {
    let mut newest = PreviewRows::default();
    let mut likers = db.prepare_cached(LIKERS)?;
    let mut comments = db.prepare_cached(IN_THREAD)?;
    for post in posts {
        if most.likers > 0 {
            let wanted = params![integer(post.0), count(most.likers)];
            let likers = readable("likes", likers.query(wanted)?, |row| user_id_at(row, 0))?;
            newest.likers.extend(likers.into_iter().map(|liker| (*post, liker)));
        }
        if most.comments > 0 {
            let on_the_post = integer(CommentId::ZERO.0);
            let wanted = params![integer(post.0), on_the_post, integer(CommentId::MAX.0), count(most.comments)];
            newest.comments.append(&mut readable("comments", comments.query(wanted)?, comment)?);
        }
    }
    Ok(newest)
}
