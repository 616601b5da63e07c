//! The newest likers and comments of posts.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::PostgresLedger;
use super::columns::{at, count, id_at, natural_at};
use super::comments::comment;
use super::posts::numbers;
use super::rows::readable;
use crate::ledger::{PreviewLimits, PreviewRows, PreviewStore, Result};
use crate::model::PostId;

/// One index scan for each post, each in one partition. All rows have one shape: a comment, or a like in the columns of
/// a comment (`id` is the position in the list of likes, `author` the user). For the condition on `parent` see
/// `IN_THREAD` in `comments`.
pub(super) const NEWEST: &str = "\
    SELECT c.id, c.post, c.parent, coalesce((SELECT handle FROM users WHERE users.id = c.author), c.author),
        c.text, c.mentions, c.likes, c.replies, c.edited_at, true
    FROM unnest($1::bigint[]) AS wanted (post)
    CROSS JOIN LATERAL (
        SELECT * FROM comments
        WHERE comments.post = wanted.post AND (parent, id) < (0, 9223372036854775807) AND parent >= 0
        ORDER BY parent DESC, id DESC LIMIT $3
    ) c
    UNION ALL
    SELECT l.seq, wanted.post, 0, coalesce((SELECT handle FROM users WHERE users.id = l.owner), l.owner),
        NULL, NULL, 0, 0, NULL, false
    FROM unnest($1::bigint[]) AS wanted (post)
    CROSS JOIN LATERAL (
        SELECT owner, seq FROM likes WHERE likes.post = wanted.post ORDER BY seq DESC LIMIT $2
    ) l
    ORDER BY 1 DESC";

#[async_trait]
impl PreviewStore for PostgresLedger {
    async fn newest_previews(&self, posts: &[PostId], most: PreviewLimits) -> Result<PreviewRows> {
        let likers = count(most.likers);
        let comments = count(most.comments);
        let rows = self.pool.read(NEWEST, &[&numbers(posts), &likers, &comments]).await?;
        let mut newest = PreviewRows::default();
        let (comments, likers): (Vec<Row>, Vec<Row>) =
            rows.into_iter().partition(|row| at::<bool>(row, 9).unwrap_or_default());
        newest.comments = readable("comments", &comments, comment);
        newest.likers = readable("likes", &likers, |row| Ok((PostId(natural_at(row, 1)?), id_at(row, 3)?)));
        Ok(newest)
    }
}
