//! The counts of posts, and the other data that a page of posts shows.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::PostgresLedger;
use super::columns::{at, natural_at, texts, user};
use super::posts::numbers;
use crate::ledger::{CountStore, Hydration, LedgerError, Result};
use crate::model::{PostCounts, PostFlags, PostId, UserId};

/// One look-up for each id, each in one partition.
pub(super) const COUNTS: &str = "\
    SELECT c.post, c.likes, c.comments, c.favourites FROM unnest($1::bigint[]) AS wanted (post)
    CROSS JOIN LATERAL (SELECT * FROM post_counts WHERE post_counts.post = wanted.post OFFSET 0) c";

/// Users, counts and flags in rows of one shape: a user or a post; the kind of row; counts; flags. Favourites name a
/// post by its id as text.
pub(super) const HYDRATE: &str = "\
    SELECT id, name, avatar, created_at, 'person', 0::bigint, 0::bigint, 0::bigint, false, false, false
    FROM users WHERE id = ANY ($3) AND erased_at IS NULL
    UNION ALL
    SELECT '', '', NULL, c.post, 'counts', c.likes, c.comments, c.favourites, false, false, false
    FROM unnest($2::bigint[]) AS wanted (post)
    CROSS JOIN LATERAL (SELECT * FROM post_counts WHERE post_counts.post = wanted.post OFFSET 0) c
    UNION ALL
    SELECT '', '', NULL, done.post, 'flags', 0, 0, 0, done.liked, done.favourited, done.muted
    FROM (
        SELECT wanted.post, EXISTS (SELECT FROM likes WHERE likes.post = wanted.post AND owner = $1 OFFSET 0) AS liked,
               EXISTS (
                   SELECT FROM favourites WHERE owner = $1 AND type = 'post' AND object = wanted.post::text OFFSET 0
               ) AS favourited,
               EXISTS (
                   SELECT FROM muted_conversations m WHERE m.owner = $1 AND m.post = wanted.post OFFSET 0
               ) AS muted
        FROM unnest($2::bigint[]) AS wanted (post) WHERE $1 IS NOT NULL
    ) done WHERE done.liked OR done.favourited OR done.muted";

#[async_trait]
impl CountStore for PostgresLedger {
    async fn counts(&self, ids: &[PostId]) -> Result<Vec<(PostId, PostCounts)>> {
        let rows = self.pool.read(COUNTS, &[&numbers(ids)]).await?;
        rows.iter().map(|row| Ok((PostId(natural_at(row, 0)?), counts(row, 1)?))).collect()
    }

    async fn hydrate(&self, reader: Option<&UserId>, posts: &[PostId], people: &[UserId]) -> Result<Hydration> {
        let reader = reader.map(UserId::as_str);
        let rows = self.pool.read(HYDRATE, &[&reader, &numbers(posts), &texts(people)]).await?;
        let mut page = Hydration::default();
        for row in &rows {
            let post = || natural_at(row, 3).map(PostId);
            match at(row, 4)? {
                "person" => page.people.push(user(row)?),
                "counts" => page.counts.push((post()?, counts(row, 5)?)),
                "flags" => {
                    let flags = PostFlags { liked: at(row, 8)?, favourited: at(row, 9)?, muted: at(row, 10)? };
                    page.flags.push((post()?, flags));
                }
                other => return Err(LedgerError::Failed(format!("a page with {other}"))),
            }
        }
        Ok(page)
    }
}

/// Reads likes, comments and favourites, starting at a column.
fn counts(row: &Row, first: usize) -> Result<PostCounts> {
    let number = |column| natural_at(row, first + column);
    Ok(PostCounts { likes: number(0)?, comments: number(1)?, favourites: number(2)? })
}
