//! Muted conversations.

use async_trait::async_trait;

use super::PostgresLedger;
use super::columns::{id_at, integer, natural_at};
use super::rows::readable;
use crate::ledger::{ConversationStore, Result};
use crate::model::{Millis, PostId, UserId};

const MUTE: &str = "INSERT INTO muted_conversations (owner, post, at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";

const UNMUTE: &str = "DELETE FROM muted_conversations WHERE owner = $1 AND post = $2 RETURNING post";

/// One look-up for each pair, each in one partition.
pub(super) const MUTED: &str = "\
    SELECT pair.owner, pair.post FROM unnest($1::text[], $2::bigint[]) AS pair (owner, post)
    WHERE EXISTS (
        SELECT FROM muted_conversations m WHERE m.owner = pair.owner AND m.post = pair.post OFFSET 0)";

#[async_trait]
impl ConversationStore for PostgresLedger {
    async fn mute_conversation(&self, user: &UserId, post: PostId, now: Millis) -> Result<()> {
        self.pool.write(MUTE, &[&user.as_str(), &integer(post.0), &integer(now)]).await.map(drop)
    }

    async fn unmute_conversation(&self, user: &UserId, post: PostId) -> Result<bool> {
        Ok(!self.pool.write(UNMUTE, &[&user.as_str(), &integer(post.0)]).await?.is_empty())
    }

    async fn muted_conversations(&self, pairs: &[(UserId, PostId)]) -> Result<Vec<(UserId, PostId)>> {
        let (users, posts): (Vec<&str>, Vec<i64>) =
            pairs.iter().map(|(user, post)| (user.as_str(), integer(post.0))).unzip();
        let rows = self.pool.read(MUTED, &[&users, &posts]).await?;
        Ok(readable("muted_conversations", &rows, |row| Ok((id_at(row, 0)?, PostId(natural_at(row, 1)?)))))
    }
}
