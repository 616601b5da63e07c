//! The counts of posts, and the other data that a page of posts shows.

use async_trait::async_trait;

use super::PostgresLedger;
use super::columns::{counts, natural_at};
use super::hydration::HydrationRequest;
use super::posts::numbers;
use crate::ledger::{CountStore, Hydration, Result};
use crate::model::{PostCounts, PostId, UserId};

/// One look-up for each id, each in one partition.
pub(super) const COUNTS: &str = "\
    SELECT c.post, c.likes, c.comments, c.favourites, c.reposts, c.quotes FROM unnest($1::bigint[]) AS wanted (post)
    CROSS JOIN LATERAL (SELECT * FROM post_counts WHERE post_counts.post = wanted.post OFFSET 0) c";

#[async_trait]
impl CountStore for PostgresLedger {
    async fn counts(&self, ids: &[PostId]) -> Result<Vec<(PostId, PostCounts)>> {
        let rows = self.pool.read(COUNTS, &[&numbers(ids)]).await?;
        rows.iter().map(|row| Ok((PostId(natural_at(row, 0)?), counts(row, 1)?))).collect()
    }

    async fn hydrate(&self, reader: Option<&UserId>, posts: &[PostId], people: &[UserId]) -> Result<Hydration> {
        if posts.is_empty() && people.is_empty() {
            return Ok(Hydration::default());
        }
        let content = HydrationRequest { reader: reader.cloned(), posts: posts.to_vec(), people: people.to_vec() };
        self.hydrator.load(&self.pool, content).await
    }
}
