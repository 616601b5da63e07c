//! The erasure of users.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::PostgresLedger;
use super::columns::{at, count, id_at, integer, natural_at, one};
use super::rows::readable;
use crate::ledger::{Erasure, ErasureLease, ErasureStore, Result};
use crate::model::{CommentId, ContentId, Millis, NotificationId, PostId, Tally, UserId};

const BEGIN: &str = "SELECT feedline_begin_erasure($1, $2)";

/// Concurrent claims skip the row that another node is claiming.
const CLAIM: &str = "\
    WITH due AS MATERIALIZED (
        SELECT owner FROM erasures WHERE lease_until <= $1 ORDER BY lease_until LIMIT 1 FOR UPDATE SKIP LOCKED
    )
    UPDATE erasures SET holder = $2, lease_until = $3 FROM due WHERE erasures.owner = due.owner
    RETURNING erasures.owner, erasures.at, erasures.quiet_since";

const ADVANCE: &str =
    "UPDATE erasures SET lease_until = $3, quiet_since = $4 WHERE owner = $1 AND holder = $2 RETURNING 1";

/// Deletes the user's counters of favourites last: they are zero, and a favourite added during the erasure would create
/// them again.
const FINISH: &str = "\
    WITH finished AS (DELETE FROM erasures WHERE owner = $1 AND holder = $2 RETURNING owner)
    DELETE FROM favourites_of_users WHERE owner = (SELECT finished.owner FROM finished)";

const POSTS: &str = "SELECT feedline_erase_posts($1, $2, $3)";

const LIKES: &str = "SELECT is_post, number, new_likes, new_comments, new_version FROM feedline_erase_likes($1, $2)";

const NOTICES: &str = "SELECT notified_user, changed FROM feedline_erase_from_notifications($1, $2)";

const REST: &str = "SELECT feedline_erase_rest($1, $2)";

#[async_trait]
impl ErasureStore for PostgresLedger {
    async fn begin_erasure(&self, user: &UserId, now: Millis) -> Result<bool> {
        at(one(&self.pool.write(BEGIN, &[&user.as_str(), &integer(now)]).await?)?, 0)
    }

    async fn claim_erasure(&self, now: Millis, lease: &ErasureLease) -> Result<Option<Erasure>> {
        let rows = self.pool.write(CLAIM, &[&integer(now), &&*lease.holder, &integer(lease.until)]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let quiet_since = at::<Option<i64>>(row, 2)?.map(|since| u64::try_from(since).unwrap_or_default());
        let erasure = |row: &Row| Ok(Erasure { user: id_at(row, 0)?, at: natural_at(row, 1)?, quiet_since });
        // An erasure that cannot be decoded is now leased, so the next claim returns another one.
        Ok(readable("erasures", std::slice::from_ref(row), erasure).pop())
    }

    async fn advance_erasure(&self, erasure: &Erasure, lease: &ErasureLease) -> Result<bool> {
        let quiet = erasure.quiet_since.map(integer);
        let rows =
            self.pool.write(ADVANCE, &[&erasure.user.as_str(), &&*lease.holder, &integer(lease.until), &quiet]).await?;
        Ok(!rows.is_empty())
    }

    async fn finish_erasure(&self, user: &UserId, holder: &str) -> Result<()> {
        self.pool.write(FINISH, &[&user.as_str(), &holder]).await.map(drop)
    }

    async fn erase_deleted_posts(&self, user: &UserId, before: Millis, limit: usize) -> Result<usize> {
        let rows = self.pool.write(POSTS, &[&user.as_str(), &integer(before), &count(limit)]).await?;
        Ok(usize::try_from(natural_at(one(&rows)?, 0)?).unwrap_or(limit))
    }

    async fn erase_likes(&self, user: &UserId, limit: usize) -> Result<Vec<(ContentId, Tally)>> {
        let rows = self.pool.write(LIKES, &[&user.as_str(), &count(limit)]).await?;
        let tally = |row| {
            let number = natural_at(row, 1)?;
            let object =
                if at(row, 0)? { ContentId::Post(PostId(number)) } else { ContentId::Comment(CommentId(number)) };
            let (likes, comments, version) = (natural_at(row, 2)?, natural_at(row, 3)?, natural_at(row, 4)?);
            Ok((object, Tally { likes, comments, version }))
        };
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
