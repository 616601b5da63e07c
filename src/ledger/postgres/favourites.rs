//! Favourites. Each one is stored in two tables, one for each direction. Functions of the database keep the tables and
//! the counts consistent.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::PostgresLedger;
use super::columns::{at, count, integer, natural_at, one, user};
use super::rows::readable;
use super::statements::Parameters;
use crate::ledger::{Favourite, FavouriteHolder, FavouriteOutcome, FavouriteStore, LedgerError, Result};
use crate::model::{Millis, ObjectId, ObjectType, UserId};

const ADD: &str = "SELECT outcome, since FROM feedline_add_favourite($1, $2, $3, $4, $5, $6, $7)";

const REMOVE: &str = "SELECT feedline_remove_favourites(ARRAY[$1], $2, $3, $4)";

const FORGET: &str = "SELECT feedline_forget_object($1, $2, $3, $4)";

pub(super) const LIST: &str = "\
    SELECT seq, object, at, private FROM favourites
    WHERE owner = $1 AND type = $2 AND seq < $3 ORDER BY seq DESC LIMIT $4";

const COUNT: &str = "SELECT count FROM favourites_of_users WHERE owner = $1 AND type = $2";

pub(super) const AMONG: &str = "\
    SELECT seq, object, at, private FROM favourites WHERE owner = $1 AND type = $2 AND object = ANY ($3)";

pub(super) const HOLDERS: &str = "\
    SELECT coalesce(u.handle, u.id), u.name, u.avatar, u.created_at, f.seq, f.at FROM (
        SELECT owner, seq, at FROM favourite_holders
        WHERE type = $1 AND object = $2 AND seq < $3 AND NOT private ORDER BY seq DESC LIMIT $4
    ) f
    JOIN users u ON u.id = f.owner ORDER BY f.seq DESC";

const HOLDERS_COUNT: &str = "SELECT count FROM favourites_of_objects WHERE type = $1 AND object = $2";

pub(super) const COMMON: &str = "\
    SELECT one.seq, one.object, one.at, one.private FROM favourites one CROSS JOIN LATERAL (
        SELECT FROM favourites WHERE owner = $4 AND type = $2 AND object = one.object AND NOT private OFFSET 0
    ) other
    WHERE one.owner = $1 AND one.type = $2 AND one.seq < $3 AND NOT one.private ORDER BY one.seq DESC LIMIT $5";

pub(super) const COMMON_COUNT: &str = "\
    WITH has AS MATERIALIZED (
        SELECT id, coalesce((SELECT count FROM favourites_of_users WHERE owner = id AND type = $3), 0) AS many, place
        FROM unnest(ARRAY[$1, $2]::text[]) WITH ORDINALITY AS t (id, place)
    )
    SELECT count(*) FROM favourites fewer CROSS JOIN LATERAL (
        SELECT FROM favourites WHERE owner = (SELECT id FROM has ORDER BY many DESC, place DESC LIMIT 1)
            AND type = $3 AND object = fewer.object AND NOT private OFFSET 0
    ) more
    WHERE fewer.owner = (SELECT id FROM has ORDER BY many, place LIMIT 1) AND fewer.type = $3 AND NOT fewer.private";

/// The post that an object stands for: `None` if the object has another type, -1 if its id is not that of a post.
fn post(kind: &ObjectType, id: &ObjectId) -> Option<i64> {
    kind.is_post().then(|| id.post().map_or(-1, |id| integer(id.0)))
}

#[async_trait]
impl FavouriteStore for PostgresLedger {
    async fn add_favourite(
        &self,
        user: &UserId,
        kind: &ObjectType,
        id: &ObjectId,
        now: Millis,
        most: u64,
        private: bool,
    ) -> Result<FavouriteOutcome> {
        let kind_text = kind.as_str();
        let object = id.as_str();
        let post = post(kind, id);
        let parameters: Parameters<'_> =
            &[&user.as_str(), &kind_text, &object, &post, &integer(now), &integer(most), &private];
        let rows = self.pool.write(ADD, parameters).await?;
        let row = one(&rows)?;
        Ok(match at(row, 0)? {
            "since" => FavouriteOutcome::Since(natural_at(row, 1)?),
            "full" => FavouriteOutcome::Full,
            _ => FavouriteOutcome::Absent,
        })
    }

    async fn remove_favourite(&self, user: &UserId, kind: &ObjectType, id: &ObjectId) -> Result<bool> {
        let kind_text = kind.as_str();
        let object = id.as_str();
        let post = post(kind, id);
        let rows = self.pool.write(REMOVE, &[&user.as_str(), &kind_text, &object, &post]).await?;
        Ok(natural_at(one(&rows)?, 0)? > 0)
    }

    async fn favourites(
        &self,
        user: &UserId,
        kind: &ObjectType,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<Favourite>> {
        let before = before.unwrap_or(i64::MAX);
        let parameters: Parameters<'_> = &[&user.as_str(), &kind.as_str(), &before];
        self.readable_page("favourites", LIST, parameters, limit, favourite).await
    }

    async fn favourites_count(&self, user: &UserId, kind: &ObjectType) -> Result<u64> {
        let rows = self.pool.read(COUNT, &[&user.as_str(), &kind.as_str()]).await?;
        rows.first().map_or(Ok(0), |row| natural_at(row, 0))
    }

    async fn favourites_among(&self, user: &UserId, kind: &ObjectType, ids: &[ObjectId]) -> Result<Vec<Favourite>> {
        let objects: Vec<&str> = ids.iter().map(ObjectId::as_str).collect();
        let rows = self.pool.read(AMONG, &[&user.as_str(), &kind.as_str(), &objects]).await?;
        Ok(readable("favourites", &rows, favourite))
    }

    async fn holders(
        &self,
        kind: &ObjectType,
        id: &ObjectId,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<FavouriteHolder>> {
        let before = before.unwrap_or(i64::MAX);
        let holder = |row: &Row| Ok(FavouriteHolder { seq: at(row, 4)?, user: user(row)?, at: natural_at(row, 5)? });
        let parameters: Parameters<'_> = &[&kind.as_str(), &id.as_str(), &before];
        self.readable_page("users", HOLDERS, parameters, limit, holder).await
    }

    async fn holders_count(&self, kind: &ObjectType, id: &ObjectId) -> Result<u64> {
        let rows = self.pool.read(HOLDERS_COUNT, &[&kind.as_str(), &id.as_str()]).await?;
        rows.first().map_or(Ok(0), |row| natural_at(row, 0))
    }

    async fn common_favourites(
        &self,
        user: &UserId,
        other: &UserId,
        kind: &ObjectType,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<Favourite>> {
        let before = before.unwrap_or(i64::MAX);
        let other = other.as_str();
        let parameters: Parameters<'_> = &[&user.as_str(), &kind.as_str(), &before, &other];
        self.readable_page("favourites", COMMON, parameters, limit, favourite).await
    }

    async fn common_favourites_count(&self, user: &UserId, other: &UserId, kind: &ObjectType) -> Result<u64> {
        let rows = self.pool.read(COMMON_COUNT, &[&user.as_str(), &other.as_str(), &kind.as_str()]).await?;
        natural_at(one(&rows)?, 0)
    }

    /// The function counts the users found, including those that removed the favourite concurrently: a result below
    /// `limit` means that none are left.
    async fn forget_object(&self, kind: &ObjectType, id: &ObjectId, limit: usize) -> Result<usize> {
        let kind_text = kind.as_str();
        let object = id.as_str();
        let post = post(kind, id);
        let rows = self.pool.write(FORGET, &[&kind_text, &object, &post, &count(limit)]).await?;
        Ok(usize::try_from(natural_at(one(&rows)?, 0)?).unwrap_or(limit))
    }
}

/// Reads `seq, object, at`.
fn favourite(row: &Row) -> Result<Favourite> {
    let text: &str = at(row, 1)?;
    let id = ObjectId::parse(text).ok_or_else(|| LedgerError::Failed(format!("{text:?} is no object's id")))?;
    Ok(Favourite { seq: at(row, 0)?, id, at: natural_at(row, 2)?, private: at(row, 3)? })
}
