//! What came of posts, and what a reader did with them.

use async_trait::async_trait;

use super::{PostgresLedger, at, integer, natural_at};
use crate::ledger::{Counts, Result};
use crate::model::{PostCounts, PostFlags, PostId, UserId};

/// One look-up an id, each in one partition.
pub(super) const COUNTS: &str = "\
    SELECT c.post, c.likes, c.comments, c.favourites FROM unnest($1::bigint[]) AS wanted (post)
    CROSS JOIN LATERAL (SELECT * FROM post_counts WHERE post_counts.post = wanted.post OFFSET 0) c";

/// The same. A post's name among objects of any type is its id as text.
pub(super) const FLAGS: &str = "\
    SELECT wanted.post, EXISTS (SELECT FROM likes WHERE likes.post = wanted.post AND owner = $1 OFFSET 0),
           EXISTS (SELECT FROM favourites WHERE owner = $1 AND type = 'post' AND object = wanted.post::text OFFSET 0)
    FROM unnest($2::bigint[]) AS wanted (post)";

#[async_trait]
impl Counts for PostgresLedger {
    async fn counts(&self, ids: &[PostId]) -> Result<Vec<(PostId, PostCounts)>> {
        let rows = self.pool.read(COUNTS, &[&numbers(ids)]).await?;
        let counts = rows.iter().map(|row| {
            let number = |column| natural_at(row, column);
            Ok((PostId(number(0)?), PostCounts { likes: number(1)?, comments: number(2)?, favourites: number(3)? }))
        });
        counts.collect()
    }

    async fn flags(&self, reader: &UserId, ids: &[PostId]) -> Result<Vec<(PostId, PostFlags)>> {
        let rows = self.pool.read(FLAGS, &[&reader.as_str(), &numbers(ids)]).await?;
        let flags = rows.iter().map(|row| {
            let flags = PostFlags { liked: at(row, 1)?, favourited: at(row, 2)? };
            Ok((PostId(natural_at(row, 0)?), flags))
        });
        flags.filter(|found| !matches!(found, Ok((_, flags)) if *flags == PostFlags::default())).collect()
    }
}

/// Each once.
fn numbers(ids: &[PostId]) -> Vec<i64> {
    let mut numbers: Vec<i64> = ids.iter().map(|id| integer(id.0)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}
