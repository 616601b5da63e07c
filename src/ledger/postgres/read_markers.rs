//! The read markers of users.

use async_trait::async_trait;

use super::PostgresLedger;
use super::columns::{integer, natural_at, one};
use crate::ledger::{ReadMarkerStore, Result};
use crate::model::{PostId, UserId};

const MARK: &str = "\
    INSERT INTO read_markers (owner, post) VALUES ($1, $2)
    ON CONFLICT (owner) DO UPDATE SET post = greatest(read_markers.post, excluded.post) RETURNING post";

const MARKER: &str = "SELECT post FROM read_markers WHERE owner = $1";

#[async_trait]
impl ReadMarkerStore for PostgresLedger {
    async fn mark_read(&self, user: &UserId, id: PostId) -> Result<PostId> {
        let rows = self.pool.write(MARK, &[&user.as_str(), &integer(id.0)]).await?;
        natural_at(one(&rows)?, 0).map(PostId)
    }

    async fn read_marker(&self, user: &UserId) -> Result<PostId> {
        let rows = self.pool.read(MARKER, &[&user.as_str()]).await?;
        rows.first().map_or(Ok(PostId::ZERO), |row| natural_at(row, 0).map(PostId))
    }
}
