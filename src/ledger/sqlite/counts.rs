//! The counts of posts, and the flags of a reader.

use async_trait::async_trait;
use rusqlite::{Connection, params};

use super::rows::post_id_at;
use super::{SqliteLedger, json_text, natural, people};
use crate::ledger::{CountStore, Hydration, Result};
use crate::model::{PostCounts, PostFlags, PostId, UserId};

#[async_trait]
impl CountStore for SqliteLedger {
    async fn counts(&self, ids: &[PostId]) -> Result<Vec<(PostId, PostCounts)>> {
        let ids = ids.to_vec();
        self.read(move |db| counts(db, &ids)).await
    }

    async fn hydrate(&self, reader: Option<&UserId>, posts: &[PostId], people: &[UserId]) -> Result<Hydration> {
        let reader = reader.cloned();
        let posts = posts.to_vec();
        let people = people.to_vec();
        self.read(move |db| {
            let flags = reader.map(|reader| flags(db, &reader, &posts)).transpose()?.unwrap_or_default();
            Ok(Hydration { counts: counts(db, &posts)?, flags, people: people::users(db, &people)? })
        })
        .await
    }
}

pub(super) fn counts(db: &Connection, ids: &[PostId]) -> rusqlite::Result<Vec<(PostId, PostCounts)>> {
    let sql = "SELECT post, likes, comments, favourites, reposts, quotes FROM post_counts \
               WHERE post IN (SELECT value FROM json_each(?1))";
    let read = |row: &rusqlite::Row<'_>| {
        let number = |column| row.get(column).map(natural);
        let counts = PostCounts {
            likes: number(1)?,
            comments: number(2)?,
            favourites: number(3)?,
            reposts: number(4)?,
            quotes: number(5)?,
        };
        Ok((post_id_at(row, 0)?, counts))
    };
    db.prepare_cached(sql)?.query_map([json_text(ids)?], read)?.collect()
}

/// The flags of a reader. Favourites name a post by its id as text.
pub(super) fn flags(db: &Connection, reader: &UserId, ids: &[PostId]) -> rusqlite::Result<Vec<(PostId, PostFlags)>> {
    let sql = "SELECT value, EXISTS (SELECT 1 FROM likes WHERE user = ?1 AND post = value), \
               EXISTS (SELECT 1 FROM favourites INDEXED BY favourites_one \
                   WHERE user = ?1 AND type = 'post' AND object = CAST(value AS TEXT)), \
               EXISTS (SELECT 1 FROM muted_conversations WHERE user = ?1 AND post = value) \
               FROM (SELECT DISTINCT value FROM json_each(?2))";
    let read = |row: &rusqlite::Row<'_>| {
        let flags = PostFlags { liked: row.get(1)?, favourited: row.get(2)?, muted: row.get(3)?, can_comment: true };
        Ok((post_id_at(row, 0)?, flags))
    };
    let mut statement = db.prepare_cached(sql)?;
    let all = statement.query_map(params![reader.as_str(), json_text(ids)?], read)?;
    all.filter(|found| !matches!(found, Ok((_, flags)) if *flags == PostFlags::default())).collect()
}
