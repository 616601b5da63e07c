//! The read markers of users.

use async_trait::async_trait;

use super::PostgresLedger;
use super::columns::{integer, natural_at, one};
use super::statements::Parameters;
use crate::ledger::{ClearPlan, ReadMarkerStore, Result};
use crate::model::{PostId, UserId};

const MARK: &str = "\
    INSERT INTO read_markers (owner, post) VALUES ($1, $2)
    ON CONFLICT (owner) DO UPDATE SET post = greatest(read_markers.post, excluded.post) RETURNING post";

/// The same, and queues pushes that clear it on the other devices. The former position is locked before it changes.
const MARK_AND_CLEAR: &str = "\
    WITH former AS MATERIALIZED (
        SELECT coalesce(max(post), 0) AS post
        FROM (SELECT post FROM read_markers WHERE owner = $1 FOR NO KEY UPDATE) held
    ), marked AS (
        INSERT INTO read_markers (owner, post) SELECT $1, greatest($2, post) FROM former
        ON CONFLICT (owner) DO UPDATE SET post = greatest(read_markers.post, excluded.post) RETURNING post
    )
    SELECT marked.post, CASE WHEN marked.post > former.post
        THEN feedline_queue_clears($1, $3, former.post, marked.post, $4, $5)::text END
    FROM marked, former";

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
