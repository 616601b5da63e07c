//! Muted conversations.

use async_trait::async_trait;
use rusqlite::params;

use super::rows::{post_id_at, user_id_at};
use super::{SqliteLedger, integer, json_text, readable};
use crate::ledger::{ConversationStore, Result};
use crate::model::{Millis, PostId, UserId};

/// One look-up in the primary key for each pair.
pub(super) const MUTED: &str = "WITH pair AS MATERIALIZED \
        (SELECT value ->> 0 AS user, value ->> 1 AS post FROM json_each(?1)) \
    SELECT pair.user, pair.post FROM pair \
    WHERE EXISTS (SELECT 1 FROM muted_conversations m WHERE m.user = pair.user AND m.post = pair.post)";

#[async_trait]
impl ConversationStore for SqliteLedger {
    async fn mute_conversation(&self, user: &UserId, post: PostId, now: Millis) -> Result<()> {
        let user = user.clone();
        self.write(move |db| {
            let sql = "INSERT INTO muted_conversations (user, post, at) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
            db.prepare_cached(sql)?.execute(params![user.as_str(), integer(post.0), integer(now)]).map(drop)
        })
        .await
    }

    async fn unmute_conversation(&self, user: &UserId, post: PostId) -> Result<bool> {
        let user = user.clone();
        self.write(move |db| {
            let sql = "DELETE FROM muted_conversations WHERE user = ?1 AND post = ?2";
            Ok(db.prepare_cached(sql)?.execute(params![user.as_str(), integer(post.0)])? == 1)
        })
        .await
    }

    async fn muted_conversations(&self, pairs: &[(UserId, PostId)]) -> Result<Vec<(UserId, PostId)>> {
        let pairs: Vec<(String, u64)> = pairs.iter().map(|(user, post)| (user.to_string(), post.0)).collect();
        self.read(move |db| {
            let mut statement = db.prepare_cached(MUTED)?;
            readable("muted_conversations", statement.query([json_text(&pairs)?])?, |row| {
                Ok((user_id_at(row, 0)?, post_id_at(row, 1)?))
            })
        })
        .await
    }
}
