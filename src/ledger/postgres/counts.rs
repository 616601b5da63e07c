//! What came of posts, and what a reader did with them.

use async_trait::async_trait;

use super::{PostgresLedger, at, integer, natural_at};
use crate::ledger::{Counts, LedgerError, Result};
use crate::model::{PostCounts, PostFlags, PostId, UserId};

/// One look-up an id, each in one partition.
pub(super) const COUNTS: &str = "\
    SELECT c.post, c.likes, c.comments, c.favourites FROM unnest($1::bigint[]) AS wanted (post)
    CROSS JOIN LATERAL (SELECT * FROM post_counts WHERE post_counts.post = wanted.post OFFSET 0) c";

pub(super) const FAVOURITED: &str =
    "SELECT object FROM favourites WHERE owner = $1 AND type = 'post' AND object = ANY ($2)";

#[async_trait]
impl Counts for PostgresLedger {
    async fn counts(&self, ids: &[PostId]) -> Result<Vec<(PostId, PostCounts)>> {
        let mut wanted: Vec<i64> = ids.iter().map(|id| integer(id.0)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let rows = self.pool.read(COUNTS, &[&wanted]).await?;
        let counts = rows.iter().map(|row| {
            let number = |column| natural_at(row, column);
            Ok((PostId(number(0)?), PostCounts { likes: number(1)?, comments: number(2)?, favourites: number(3)? }))
        });
        counts.collect()
    }

    /// A post's name among objects of any type is its id as text.
    async fn flags(&self, reader: &UserId, ids: &[PostId]) -> Result<Vec<(PostId, PostFlags)>> {
        let names: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let rows = self.pool.read(FAVOURITED, &[&reader.as_str(), &names]).await?;
        let flags = rows.iter().map(|row| {
            let name: &str = at(row, 0)?;
            let id = PostId::parse(name).ok_or_else(|| LedgerError::Failed(format!("{name:?} is not a post's id")))?;
            Ok((id, PostFlags { liked: false, favourited: true }))
        });
        flags.collect()
    }
}
