//! Bulk loading.

use async_trait::async_trait;

use super::{SqliteLedger, edges, people, posts};
use crate::ledger::bulk::ROWS_PER_TRANSACTION;
use crate::ledger::edges::Edge;
use crate::ledger::{BulkLoad, Result};
use crate::model::{Millis, Post, UserId};

#[async_trait]
impl BulkLoad for SqliteLedger {
    async fn load_users(&self, ids: &[UserId], now: Millis) -> Result<()> {
        for ids in ids.chunks(ROWS_PER_TRANSACTION) {
            let ids = ids.to_vec();
            self.write(move |db| ids.iter().try_for_each(|id| people::ensure(db, id, now).map(drop))).await?;
        }
        Ok(())
    }

    async fn load_follows(&self, edges: &[(UserId, UserId)], now: Millis) -> Result<()> {
        for edges in edges.chunks(ROWS_PER_TRANSACTION) {
            let edges: Vec<Edge> = edges.iter().map(|(follower, followee)| Edge::new(follower, followee)).collect();
            self.write(move |db| edges.iter().try_for_each(|edge| edges::make(db, edge, now).map(drop))).await?;
        }
        Ok(())
    }

    async fn load_posts(&self, posts: &[Post]) -> Result<()> {
        for posts in posts.chunks(ROWS_PER_TRANSACTION) {
            let posts = posts.to_vec();
            self.write(move |db| posts.iter().try_for_each(|post| posts::store(db, post).map(drop))).await?;
        }
        Ok(())
    }
}
