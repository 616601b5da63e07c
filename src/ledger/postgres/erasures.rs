//! The erasure of users.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::PostgresLedger;
use super::columns::{at, count, id_at, integer, natural, natural_at, one};
use super::likes::tally;
use super::rows::readable;
use crate::ledger::{Erasure, ErasureBacklog, ErasureStore, Fence, Result};
use crate::model::{ContentId, Millis, NotificationId, Tally, UserId};

const BEGIN: &str = "SELECT feedline_begin_erasure($1, $2)";

const DUE: &str = "SELECT owner, at, quiet_since FROM erasures WHERE due_at <= $1 ORDER BY due_at LIMIT $2";

const BACKLOG: &str = "SELECT count(*), min(at) FROM erasures";

const ADVANCE: &str = "\
    UPDATE erasures SET due_at = $4, quiet_since = $5
    WHERE owner = $3 AND EXISTS (SELECT FROM work_partitions WHERE name = $1 AND generation = $2) RETURNING 1";

const FINISH: &str = "\
    DELETE FROM erasures
    WHERE owner = $3 AND EXISTS (SELECT FROM work_partitions WHERE name = $1 AND generation = $2) RETURNING 1";

const POSTS: &str = "SELECT feedline_erase_posts($1, $2, $3)";

const LIKES: &str = "SELECT 0, is_post, number, new_likes, new_comments, new_version FROM feedline_erase_likes($1, $2)";

const NOTICES: &str = "SELECT notified_user, changed FROM feedline_erase_from_notifications($1, $2)";

const REST: &str = "SELECT feedline_erase_rest($1, $2)";

#[async_trait]
impl ErasureStore for PostgresLedger {
    async fn begin_erasure(&self, user: &UserId, now: Millis) -> Result<bool> {
        at(one(&self.pool.write(BEGIN, &[&user.as_str(), &integer(now)]).await?)?, 0)
    }

    async fn due_erasures(&self, now: Millis, limit: usize) -> Result<Vec<Erasure>> {
        let rows = self.pool.read(DUE, &[&integer(now), &count(limit)]).await?;
        let erasure = |row: &Row| {
            let quiet_since = at::<Option<i64>>(row, 2)?.map(natural);
            Ok(Erasure { user: id_at(row, 0)?, at: natural_at(row, 1)?, quiet_since })
        };
        Ok(readable("erasures", &rows, erasure))
    }

    async fn erasure_backlog(&self) -> Result<ErasureBacklog> {
        let rows = self.pool.read(BACKLOG, &[]).await?;
        let row = one(&rows)?;
        Ok(ErasureBacklog { erasures: natural_at(row, 0)?, oldest: at::<Option<i64>>(row, 1)?.map(natural) })
    }

    async fn end_erasure_pass(&self, fence: &Fence, erasure: &Erasure, due_at: Option<Millis>) -> Result<bool> {
        let name = &*fence.partition;
        let generation = integer(fence.generation);
        let user = erasure.user.as_str();
        let quiet = erasure.quiet_since.map(integer);
        let rows = match due_at.map(integer) {
            Some(due_at) => self.pool.write(ADVANCE, &[&name, &generation, &user, &due_at, &quiet]).await?,
            None => self.pool.write(FINISH, &[&name, &generation, &user]).await?,
        };
        Ok(!rows.is_empty())
    }

    async fn erase_deleted_posts(&self, user: &UserId, before: Millis, limit: usize) -> Result<usize> {
        let rows = self.pool.write(POSTS, &[&user.as_str(), &integer(before), &count(limit)]).await?;
        Ok(usize::try_from(natural_at(one(&rows)?, 0)?).unwrap_or(limit))
    }

    async fn erase_likes(&self, user: &UserId, limit: usize) -> Result<Vec<(ContentId, Tally)>> {
        let rows = self.pool.write(LIKES, &[&user.as_str(), &count(limit)]).await?;
        rows.iter().map(tally).collect()
    }

    async fn erase_notices(&self, user: &UserId, limit: usize) -> Result<Vec<(UserId, NotificationId)>> {
        let rows = self.pool.write(NOTICES, &[&user.as_str(), &count(limit)]).await?;
        rows.iter().map(|row| Ok((id_at(row, 0)?, NotificationId(natural_at(row, 1)?)))).collect()
    }

    async fn erase_rest(&self, user: &UserId, limit: usize) -> Result<usize> {
        let rows = self.pool.write(REST, &[&user.as_str(), &count(limit)]).await?;
        Ok(usize::try_from(natural_at(one(&rows)?, 0)?).unwrap_or(limit))
    }
}
