//! Users and accounts.

use async_trait::async_trait;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{SqliteLedger, integer, json_text};
use crate::ledger::{NewAccount, People, Result};
use crate::model::{Edges, Millis, Profile, User, UserId};

#[async_trait]
impl People for SqliteLedger {
    async fn create_account(&self, account: NewAccount) -> Result<bool> {
        self.write(move |db| create_account(db, &account)).await
    }

    async fn password(&self, user: &UserId) -> Result<Option<String>> {
        let user = user.clone();
        self.read(move |db| password(db, &user)).await
    }

    async fn ensure_user(&self, user: &UserId, now: Millis) -> Result<()> {
        let (known, new) = (user.clone(), user.clone());
        self.within(async {
            // Nearly always there is one, and then nobody has to wait for the writer.
            if !self.read(move |db| exists(db, &known)).await? {
                self.write(move |db| ensure(db, &new, now)).await?;
            }
            Ok(())
        })
        .await
    }

    async fn users(&self, ids: &[UserId]) -> Result<Vec<User>> {
        let ids = ids.to_vec();
        self.read(move |db| users(db, &ids)).await
    }

    async fn profile(&self, user: &UserId, viewer: Option<&UserId>) -> Result<Option<Profile>> {
        let (user, viewer) = (user.clone(), viewer.cloned());
        self.read(move |db| profile(db, &user, viewer.as_ref())).await
    }
}

/// Reads a column that holds a user's id.
pub(super) fn id_at(row: &Row<'_>, column: usize) -> rusqlite::Result<UserId> {
    let text = row.get_ref(column)?.as_str()?;
    UserId::parse(text).ok_or_else(|| {
        let why = format!("{text:?} is not a user id");
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, why.into())
    })
}

/// Reads `id, name, avatar, created_at` from the first four columns.
pub(super) fn user(row: &Row<'_>) -> rusqlite::Result<User> {
    let created_at: i64 = row.get(3)?;
    Ok(User {
        id: id_at(row, 0)?,
        name: row.get(1)?,
        avatar: row.get(2)?,
        created_at: Millis::try_from(created_at).unwrap_or_default(),
    })
}

pub(super) fn create_account(db: &Connection, account: &NewAccount) -> rusqlite::Result<bool> {
    let id = account.user.as_str();
    if !insert(db, id, &account.name, account.created_at)? {
        return Ok(false);
    }
    db.prepare_cached("INSERT INTO accounts (user, password) VALUES (?1, ?2)")?.execute([id, &account.password])?;
    Ok(true)
}

pub(super) fn password(db: &Connection, user: &UserId) -> rusqlite::Result<Option<String>> {
    db.prepare_cached("SELECT password FROM accounts WHERE user = ?1")?
        .query_row([user.as_str()], |row| row.get(0))
        .optional()
}

pub(super) fn exists(db: &Connection, user: &UserId) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM users WHERE id = ?1")?.exists([user.as_str()])
}

/// Makes a user whose name is the id. `false` if there is one.
pub(super) fn ensure(db: &Connection, user: &UserId, now: Millis) -> rusqlite::Result<bool> {
    insert(db, user.as_str(), user.as_str(), now)
}

fn insert(db: &Connection, id: &str, name: &str, now: Millis) -> rusqlite::Result<bool> {
    let sql = "INSERT INTO users (id, name, created_at) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
    Ok(db.prepare_cached(sql)?.execute(params![id, name, integer(now)])? == 1)
}

pub(super) fn users(db: &Connection, ids: &[UserId]) -> rusqlite::Result<Vec<User>> {
    let sql = "SELECT id, name, avatar, created_at FROM users WHERE id IN (SELECT value FROM json_each(?1))";
    db.prepare_cached(sql)?.query_map([json_text(ids)?], user)?.collect()
}

pub(super) fn profile(db: &Connection, id: &UserId, viewer: Option<&UserId>) -> rusqlite::Result<Option<Profile>> {
    let sql = "SELECT id, name, avatar, created_at, followers, following, posts, \
               EXISTS (SELECT 1 FROM follows WHERE follower = ?2 AND followee = ?1), \
               EXISTS (SELECT 1 FROM follows WHERE follower = ?1 AND followee = ?2), \
               EXISTS (SELECT 1 FROM barriers WHERE maker = ?2 AND kind = 'hide' AND whom = ?1), \
               EXISTS (SELECT 1 FROM barriers WHERE maker = ?2 AND kind = 'mute' AND whom = ?1), \
               EXISTS (SELECT 1 FROM barriers WHERE maker = ?2 AND kind = 'block' AND whom = ?1) \
               FROM users WHERE id = ?1";
    let read = |row: &Row<'_>| {
        Ok(Profile {
            user: user(row)?,
            followers: super::natural(row.get(4)?),
            following: super::natural(row.get(5)?),
            posts: super::natural(row.get(6)?),
            edges: Edges {
                following: row.get(7)?,
                followed_by: row.get(8)?,
                hiding: row.get(9)?,
                muting: row.get(10)?,
                blocking: row.get(11)?,
            },
        })
    };
    db.prepare_cached(sql)?.query_row(params![id.as_str(), viewer.map(UserId::as_str)], read).optional()
}
