//! Favourites: one table with an index for each direction, so both lists always agree.

use async_trait::async_trait;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::people::user;
use super::{SqliteLedger, UNLIMITED, count, integer, json_text, natural, readable, readable_page};
use crate::ledger::{Favourite, FavouriteHolder, FavouriteOutcome, FavouriteStore, Result};
use crate::model::{Millis, ObjectId, ObjectType, UserId};

#[async_trait]
impl FavouriteStore for SqliteLedger {
    async fn add_favourite(
        &self,
        user: &UserId,
        kind: &ObjectType,
        id: &ObjectId,
        now: Millis,
        most: u64,
        private: bool,
    ) -> Result<FavouriteOutcome> {
        let favour = FavouriteKey::new(user, kind, id);
        self.write(move |db| add(db, &favour, now, most, private)).await
    }

    async fn remove_favourite(&self, user: &UserId, kind: &ObjectType, id: &ObjectId) -> Result<bool> {
        let favour = FavouriteKey::new(user, kind, id);
        self.write(move |db| remove(db, &favour)).await
    }

    async fn favourites(
        &self,
        user: &UserId,
        kind: &ObjectType,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<Favourite>> {
        let user = user.clone();
        let kind = kind.clone();
        self.read(move |db| {
            let wanted = params![user.as_str(), kind.as_str(), before.unwrap_or(i64::MAX), UNLIMITED];
            readable_page("favourites", db.prepare_cached(LIST)?.query(wanted)?, limit, favourite)
        })
        .await
    }

    async fn favourites_count(&self, user: &UserId, kind: &ObjectType) -> Result<u64> {
        let user = user.clone();
        let kind = kind.clone();
        self.read(move |db| of_user(db, user.as_str(), kind.as_str())).await
    }

    async fn favourites_among(&self, user: &UserId, kind: &ObjectType, ids: &[ObjectId]) -> Result<Vec<Favourite>> {
        let user = user.clone();
        let kind = kind.clone();
        let ids = ids.to_vec();
        self.read(move |db| {
            let asked = params![user.as_str(), kind.as_str(), json_text(&ids)?];
            readable("favourites", db.prepare_cached(AMONG)?.query(asked)?, favourite)
        })
        .await
    }

    async fn holders(
        &self,
        kind: &ObjectType,
        id: &ObjectId,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<FavouriteHolder>> {
        let kind = kind.clone();
        let id = id.clone();
        self.read(move |db| {
            let wanted = params![kind.as_str(), id.as_str(), before.unwrap_or(i64::MAX), UNLIMITED];
            let read =
                |row: &Row<'_>| Ok(FavouriteHolder { seq: row.get(4)?, user: user(row)?, at: natural(row.get(5)?) });
            readable_page("favourites", db.prepare_cached(HOLDERS)?.query(wanted)?, limit, read)
        })
        .await
    }

    async fn holders_count(&self, kind: &ObjectType, id: &ObjectId) -> Result<u64> {
        let kind = kind.clone();
        let id = id.clone();
        self.read(move |db| {
            let sql = "SELECT count FROM favourites_of_objects WHERE type = ?1 AND object = ?2";
            let found: Option<i64> =
                db.prepare_cached(sql)?.query_row([kind.as_str(), id.as_str()], |row| row.get(0)).optional()?;
            Ok(found.map_or(0, natural))
        })
        .await
    }

    async fn common_favourites(
        &self,
        user: &UserId,
        other: &UserId,
        kind: &ObjectType,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<Favourite>> {
        let user = user.clone();
        let other = other.clone();
        let kind = kind.clone();
        self.read_heavy(move |db| {
            let before = before.unwrap_or(i64::MAX);
            let wanted = params![user.as_str(), kind.as_str(), before, UNLIMITED, other.as_str()];
            readable_page("favourites", db.prepare_cached(COMMON)?.query(wanted)?, limit, favourite)
        })
        .await
    }

    async fn common_favourites_count(&self, user: &UserId, other: &UserId, kind: &ObjectType) -> Result<u64> {
        let user = user.clone();
        let other = other.clone();
        let kind = kind.clone();
        self.read_heavy(move |db| {
            let user = user.as_str();
            let other = other.as_str();
            let kind = kind.as_str();
            let one_has_fewer = of_user(db, user, kind)? <= of_user(db, other, kind)?;
            let (fewer, more) = if one_has_fewer { (user, other) } else { (other, user) };
            db.prepare_cached(COMMON_COUNT)?.query_row([fewer, kind, more], |row| row.get(0)).map(natural)
        })
        .await
    }

    async fn forget_object(&self, kind: &ObjectType, id: &ObjectId, limit: usize) -> Result<usize> {
        let kind = kind.clone();
        let id = id.clone();
        self.write(move |db| forget(db, &kind, &id, limit)).await
    }
}

/// A favourite: a user, and the type and id of an object.
struct FavouriteKey {
    user: UserId,
    kind: ObjectType,
    id: ObjectId,
}

impl FavouriteKey {
    fn new(user: &UserId, kind: &ObjectType, id: &ObjectId) -> Self {
        Self { user: user.clone(), kind: kind.clone(), id: id.clone() }
    }

    fn key(&self) -> [&str; 3] {
        [self.user.as_str(), self.kind.as_str(), self.id.as_str()]
    }
}

const LIST: &str = "SELECT seq, object, at, private FROM favourites INDEXED BY favourites_of \
    WHERE user = ?1 AND type = ?2 AND seq < ?3 ORDER BY seq DESC LIMIT ?4";

const AMONG: &str = "SELECT seq, object, at, private FROM favourites INDEXED BY favourites_one \
    WHERE user = ?1 AND type = ?2 AND object IN (SELECT value FROM json_each(?3))";

const HOLDERS: &str = "SELECT coalesce(u.handle, u.id), u.name, u.avatar, u.created_at, f.seq, f.at \
    FROM favourites f INDEXED BY favourites_holders CROSS JOIN users u ON u.id = f.user \
    WHERE f.type = ?1 AND f.object = ?2 AND f.seq < ?3 AND NOT f.private ORDER BY f.seq DESC LIMIT ?4";

const COMMON: &str = "SELECT one.seq, one.object, one.at, one.private FROM favourites one INDEXED BY favourites_of \
    CROSS JOIN favourites other INDEXED BY favourites_one \
    ON other.user = ?5 AND other.type = ?2 AND other.object = one.object AND NOT other.private \
    WHERE one.user = ?1 AND one.type = ?2 AND one.seq < ?3 AND NOT one.private ORDER BY one.seq DESC LIMIT ?4";

const COMMON_COUNT: &str = "SELECT count(*) FROM favourites fewer INDEXED BY favourites_one \
    CROSS JOIN favourites more INDEXED BY favourites_one \
    ON more.user = ?3 AND more.type = ?2 AND more.object = fewer.object AND NOT more.private \
    WHERE fewer.user = ?1 AND fewer.type = ?2 AND NOT fewer.private";

/// Reads `seq, object, at, private`.
fn favourite(row: &Row<'_>) -> rusqlite::Result<Favourite> {
    let text = row.get_ref(1)?.as_str()?;
    let id = ObjectId::parse(text).ok_or_else(|| {
        rusqlite::Error::FromSqlConversionFailure(1, Type::Text, format!("{text:?} is no object's id").into())
    })?;
    Ok(Favourite { seq: row.get(0)?, id, at: natural(row.get(2)?), private: row.get(3)? })
}

fn of_user(db: &Connection, user: &str, kind: &str) -> rusqlite::Result<u64> {
    let sql = "SELECT count FROM favourites_of_users WHERE user = ?1 AND type = ?2";
    let found: Option<i64> = db.prepare_cached(sql)?.query_row([user, kind], |row| row.get(0)).optional()?;
    Ok(found.map_or(0, natural))
}

fn add(
    db: &Connection,
    favour: &FavouriteKey,
    now: Millis,
    most: u64,
    private: bool,
) -> rusqlite::Result<FavouriteOutcome> {
    let known = "SELECT at, private FROM favourites WHERE user = ?1 AND type = ?2 AND object = ?3";
    let known = db.prepare_cached(known)?.query_row(favour.key(), |row| Ok((row.get(0)?, row.get(1)?)));
    let known: Option<(i64, bool)> = known.optional()?;
    if let Some((at, was_private)) = known {
        if was_private != private {
            let sql = "UPDATE favourites SET private = ?4 WHERE user = ?1 AND type = ?2 AND object = ?3";
            let [user, kind, object] = favour.key();
            db.prepare_cached(sql)?.execute(params![user, kind, object, private])?;
            tally_object(db, &favour.kind, &favour.id, if private { -1 } else { 1 })?;
        }
        return Ok(FavouriteOutcome::Since(natural(at)));
    }
    if favour.kind.is_post() {
        let there = "SELECT 1 FROM posts WHERE id = ?1 AND deleted_at IS NULL";
        let id = favour.id.post().map(|id| integer(id.0));
        if !db.prepare_cached(there)?.exists([id])? {
            return Ok(FavouriteOutcome::Absent);
        }
    }
    if of_user(db, favour.user.as_str(), favour.kind.as_str())? >= most {
        return Ok(FavouriteOutcome::Full);
    }
    let [user, kind, object] = favour.key();
    let sql = "INSERT INTO favourites (user, type, object, at, private) VALUES (?1, ?2, ?3, ?4, ?5)";
    db.prepare_cached(sql)?.execute(params![user, kind, object, integer(now), private])?;
    tally_user(db, user, kind, 1)?;
    tally_object(db, &favour.kind, &favour.id, i64::from(!private))?;
    Ok(FavouriteOutcome::Since(now))
}

fn remove(db: &Connection, favour: &FavouriteKey) -> rusqlite::Result<bool> {
    let sql = "DELETE FROM favourites WHERE user = ?1 AND type = ?2 AND object = ?3 RETURNING private";
    let removed: Option<bool> = db.prepare_cached(sql)?.query_row(favour.key(), |row| row.get(0)).optional()?;
    if let Some(private) = removed {
        tally_user(db, favour.user.as_str(), favour.kind.as_str(), -1)?;
        tally_object(db, &favour.kind, &favour.id, -i64::from(!private))?;
    }
    Ok(removed.is_some())
}

pub(super) fn forget(db: &Connection, kind: &ObjectType, id: &ObjectId, limit: usize) -> rusqlite::Result<usize> {
    let sql = "SELECT seq, user, private FROM favourites INDEXED BY favourites_holders \
               WHERE type = ?1 AND object = ?2 LIMIT ?3";
    let wanted = params![kind.as_str(), id.as_str(), count(limit)];
    let held: Vec<(i64, String, bool)> = db
        .prepare_cached(sql)?
        .query_map(wanted, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (seq, user, _) in &held {
        db.prepare_cached("DELETE FROM favourites WHERE seq = ?1")?.execute([seq])?;
        tally_user(db, user, kind.as_str(), -1)?;
    }
    let public = held.iter().filter(|(.., private)| !private).count();
    tally_object(db, kind, id, -count(public))?;
    Ok(held.len())
}

fn tally_user(db: &Connection, user: &str, kind: &str, change: i64) -> rusqlite::Result<()> {
    let sql = "INSERT INTO favourites_of_users (user, type, count) VALUES (?1, ?2, ?3) \
               ON CONFLICT DO UPDATE SET count = count + excluded.count";
    db.prepare_cached(sql)?.execute(params![user, kind, change])?;
    // Users choose types and ids: without favourites they leave nothing.
    let sql = "DELETE FROM favourites_of_users WHERE user = ?1 AND type = ?2 AND count <= 0";
    db.prepare_cached(sql)?.execute(params![user, kind]).map(drop)
}

/// Changes the number of users who have an object among their favourites that are not private.
fn tally_object(db: &Connection, kind: &ObjectType, id: &ObjectId, change: i64) -> rusqlite::Result<()> {
    if change == 0 {
        return Ok(());
    }
    let sql = "INSERT INTO favourites_of_objects (type, object, count) VALUES (?1, ?2, ?3) \
               ON CONFLICT DO UPDATE SET count = count + excluded.count";
    db.prepare_cached(sql)?.execute(params![kind.as_str(), id.as_str(), change])?;
    let sql = "DELETE FROM favourites_of_objects WHERE type = ?1 AND object = ?2 AND count <= 0";
    db.prepare_cached(sql)?.execute(params![kind.as_str(), id.as_str()])?;
    if let Some(post) = id.post().filter(|_| kind.is_post()) {
        let sql = "INSERT INTO post_counts (post, favourites) VALUES (?1, ?2) \
                   ON CONFLICT DO UPDATE SET favourites = favourites + excluded.favourites";
        db.prepare_cached(sql)?.execute(params![integer(post.0), change])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::SqliteOptions;

    #[tokio::test]
    async fn every_list_is_read_from_an_index_in_its_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let ledger = SqliteLedger::open(SqliteOptions::new(folder.path().join("l.db"))).await.expect("it opens");
        for sql in [LIST, HOLDERS, COMMON, COMMON_COUNT] {
            let explain = format!("EXPLAIN QUERY PLAN {sql}");
            let plan = ledger.read(move |db| -> rusqlite::Result<Vec<String>> {
                let mut statement = db.prepare(&explain)?;
                for parameter in 1..=statement.parameter_count() {
                    statement.raw_bind_parameter(parameter, 1)?;
                }
                let mut rows = statement.raw_query();
                let mut plan = Vec::new();
                while let Some(row) = rows.next()? {
                    plan.push(row.get(3)?);
                }
                Ok(plan)
            });
            for step in plan.await.expect("a plan") {
                assert!(step.starts_with("SEARCH") && step.contains("=?"), "{step} in {sql}");
            }
        }
    }
}
