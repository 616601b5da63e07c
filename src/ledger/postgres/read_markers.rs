//! The read markers of users.

use async_trait::async_trait;

use super::PostgresLedger;
use super::columns::{integer, natural_at, one};
use super::pool::Parameters;
use crate::ledger::{ClearPlan, ReadMarkerStore, Result};
use crate::model::{PostId, UserId};

const MARK: &str = "\
    INSERT INTO read_markers (owner, post) VALUES ($1, $2)
    ON CONFLICT (owner) DO UPDATE SET post = greatest(read_markers.post, excluded.post) RETURNING post";

const MARK_AND_CLEAR: &str = "SELECT feedline_mark_read_and_clear($1, $2, $3, $4, $5)";

const MARKER: &str = "SELECT post FROM read_markers WHERE owner = $1";

#[async_trait]
impl ReadMarkerStore for PostgresLedger {
    async fn mark_read(&self, user: &UserId, id: PostId, clear: Option<&ClearPlan>) -> Result<PostId> {
        let rows = match clear {
            None => self.pool.write(MARK, &[&user.as_str(), &integer(id.0)]).await?,
            Some(ClearPlan { session, now, due_at }) => {
                let parameters: Parameters<'_> =
                    &[&user.as_str(), &integer(id.0), session, &integer(*now), &integer(*due_at)];
                self.pool.write(MARK_AND_CLEAR, parameters).await?
            }
        };
        natural_at(one(&rows)?, 0).map(PostId)
    }

    async fn read_marker(&self, user: &UserId) -> Result<PostId> {
        let rows = self.pool.read(MARKER, &[&user.as_str()]).await?;
        rows.first().map_or(Ok(PostId::ZERO), |row| natural_at(row, 0).map(PostId))
    }
}
