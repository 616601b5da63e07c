//! The read markers of users.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};

use super::pushes::{Cleared, enqueue_clears};
use super::rows::post_id_at;
use super::{SqliteLedger, integer};
use crate::ledger::{ClearPlan, ReadMarkerStore, Result};
use crate::model::{PostId, UserId};

#[async_trait]
impl ReadMarkerStore for SqliteLedger {
    async fn mark_read(&self, user: &UserId, id: PostId, clear: Option<&ClearPlan>) -> Result<PostId> {
        let user = user.clone();
        let clear = clear.cloned();
        self.write(move |db| {
            if let Some(clear) = clear {
                let before = marker(db, &user)?;
                if before < id {
                    enqueue_clears(db, &user, Cleared::Posts(before, id), &clear)?;
                }
            }
            let sql = "INSERT INTO read_markers (user, post) VALUES (?1, ?2) \
                       ON CONFLICT DO UPDATE SET post = max(post, excluded.post) RETURNING post";
            db.prepare_cached(sql)?.query_row(params![user.as_str(), integer(id.0)], |row| post_id_at(row, 0))
        })
        .await
    }

    async fn read_marker(&self, user: &UserId) -> Result<PostId> {
        let user = user.clone();
        self.read(move |db| marker(db, &user)).await
    }
}

fn marker(db: &Connection, user: &UserId) -> rusqlite::Result<PostId> {
    let mut statement = db.prepare_cached("SELECT post FROM read_markers WHERE user = ?1")?;
    Ok(statement.query_row([user.as_str()], |row| post_id_at(row, 0)).optional()?.unwrap_or(PostId::ZERO))
}
