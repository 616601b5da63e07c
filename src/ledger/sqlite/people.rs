//! Users and accounts.

use async_trait::async_trait;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, Rows, params};
use serde::de::DeserializeOwned;

use super::rows::{ids_json, user_id_at};
use super::{SqliteLedger, UNLIMITED, count, integer, json_text, readable, readable_page, suggest};
use crate::ledger::people::name_terms;
use crate::ledger::{
    KnownUser, ListPage, MAX_NAMED, NewAccount, PeopleStore, ProfileChange, Result, StoredAccount, SuggestionLimits,
    UserMatch, past,
};
use crate::model::{About, Edges, Millis, Profile, Quotable, User, UserDetails, UserId, UserOrigin};

#[async_trait]
impl PeopleStore for SqliteLedger {
    async fn create_account(&self, account: NewAccount) -> Result<bool> {
        self.write(move |db| create_account(db, &account)).await
    }

    async fn account(&self, user: &UserId) -> Result<Option<StoredAccount>> {
        let user = user.clone();
        self.read(move |db| account(db, &user)).await
    }

    async fn ensure_user(&self, user: &UserId, now: Millis) -> Result<KnownUser> {
        let known = user.clone();
        let new = user.clone();
        self.within(async {
            // Nearly all users exist. Reading first avoids the wait for the writer.
            if let Some(origin) = self.read(move |db| origin(db, &known)).await? {
                return Ok(origin);
            }
            self.write(move |db| {
                ensure(db, &new, now)?;
                Ok(origin(db, &new)?.unwrap_or(KnownUser { id: new, origin: UserOrigin::Application }))
            })
            .await
        })
        .await
    }

    async fn user_origin(&self, user: &UserId) -> Result<Option<KnownUser>> {
        let user = user.clone();
        self.read(move |db| origin(db, &user)).await
    }

    async fn users(&self, ids: &[UserId]) -> Result<Vec<User>> {
        let ids = ids.to_vec();
        self.read(move |db| users(db, &ids)).await
    }

    async fn profile(&self, user: &UserId, viewer: Option<&UserId>, now: Millis) -> Result<Option<Profile>> {
        let user = user.clone();
        let viewer = viewer.cloned();
        self.read(move |db| profile(db, &user, viewer.as_ref(), now)).await
    }

    async fn update_user(&self, user: &UserId, change: &ProfileChange) -> Result<Option<UserDetails>> {
        let user = user.clone();
        let change = change.clone();
        self.write(move |db| update(db, &user, &change)).await
    }

    async fn search_users(&self, prefix: &str, after: Option<(&str, &UserId)>, limit: usize) -> Result<Vec<UserMatch>> {
        let Some(end) = past(prefix) else { return Ok(Vec::new()) };
        let prefix = prefix.to_owned();
        let (term, user) =
            after.map_or((prefix.clone(), String::new()), |(term, user)| (term.into(), user.to_string()));
        self.read(move |db| {
            let wanted = params![prefix, end, term, user, UNLIMITED];
            let found = |row: &Row<'_>| Ok(UserMatch { user: self::user(row)?, term: row.get(4)? });
            readable_page("users", db.prepare_cached(SEARCH)?.query(wanted)?, limit, found)
        })
        .await
    }

    async fn second_degree(&self, reader: &UserId, reach: SuggestionLimits) -> Result<Vec<(UserId, u64)>> {
        let reader = reader.clone();
        self.read_heavy(move |db| suggest::read(db, &reader, reach)).await
    }

    async fn enable_post_alerts(&self, user: &UserId, author: &UserId, now: Millis, most: u64) -> Result<bool> {
        let user = user.clone();
        let author = author.clone();
        self.write(move |db| enable_post_alerts(db, &user, &author, now, most)).await
    }

    async fn disable_post_alerts(&self, user: &UserId, author: &UserId) -> Result<()> {
        let user = user.clone();
        let author = author.clone();
        self.write(move |db| {
            let sql = "DELETE FROM post_alerts WHERE user = ?1 AND author = ?2";
            db.prepare_cached(sql)?.execute([user.as_str(), author.as_str()]).map(drop)
        })
        .await
    }
}

/// Reads `id, name, avatar, created_at` from the first four columns.
pub(super) fn user(row: &Row<'_>) -> rusqlite::Result<User> {
    let created_at: i64 = row.get(3)?;
    Ok(User {
        id: user_id_at(row, 0)?,
        name: row.get(1)?,
        avatar: row.get(2)?,
        created_at: Millis::try_from(created_at).unwrap_or_default(),
    })
}

pub(super) fn create_account(db: &Connection, account: &NewAccount) -> rusqlite::Result<bool> {
    if !insert(db, &account.user, &account.name, &account.name, account.created_at)? {
        return Ok(false);
    }
    let row = [account.user.as_str(), &account.password];
    db.prepare_cached("INSERT INTO accounts (user, password) VALUES (?1, ?2)")?.execute(row)?;
    Ok(true)
}

fn account(db: &Connection, user: &UserId) -> rusqlite::Result<Option<StoredAccount>> {
    let sql = "SELECT password, generation, coalesce(u.handle, u.id) FROM accounts JOIN users u ON u.id = user \
               WHERE user = ?1";
    let account = |row: &Row<'_>| {
        let generation = super::natural(row.get(1)?);
        Ok(StoredAccount { password: row.get(0)?, generation, user: user_id_at(row, 2)? })
    };
    db.prepare_cached(sql)?.query_row([user.as_str()], account).optional()
}

fn origin(db: &Connection, user: &UserId) -> rusqlite::Result<Option<KnownUser>> {
    let sql = "SELECT coalesce(handle, id), EXISTS (SELECT 1 FROM accounts WHERE user = ?1) FROM users WHERE id = ?1";
    let known = |row: &Row<'_>| {
        let origin = if row.get(1)? { UserOrigin::Account } else { UserOrigin::Application };
        Ok(KnownUser { id: user_id_at(row, 0)?, origin })
    };
    db.prepare_cached(sql)?.query_row([user.as_str()], known).optional()
}

/// Creates a user whose name is the id. Returns `false` if the user exists.
pub(super) fn ensure(db: &Connection, user: &UserId, now: Millis) -> rusqlite::Result<bool> {
    insert(db, user, user.shown(), "", now)
}

/// Creates a user unless it exists. `chosen` is the name that the user chose, which is searched; empty: none.
fn insert(db: &Connection, user: &UserId, name: &str, chosen: &str, now: Millis) -> rusqlite::Result<bool> {
    let sql = "INSERT INTO users (id, handle, name, created_at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
    let made = db.prepare_cached(sql)?.execute(params![user.as_str(), user.handle(), name, integer(now)])? == 1;
    if made {
        add_search_terms(db, user.as_str(), chosen)?;
    }
    Ok(made)
}

/// Adds the search terms of a user: the id, and those of the name.
fn add_search_terms(db: &Connection, id: &str, name: &str) -> rusqlite::Result<()> {
    let sql = "INSERT INTO user_terms (term, user) VALUES (?2, ?1) ON CONFLICT DO NOTHING";
    let mut adding = db.prepare_cached(sql)?;
    adding.execute([id, id])?;
    name_terms(name).iter().try_for_each(|term| adding.execute([id, term]).map(drop))
}

fn update(db: &Connection, id: &UserId, change: &ProfileChange) -> rusqlite::Result<Option<UserDetails>> {
    let sql = "UPDATE users SET name = coalesce(?2, name), avatar = CASE WHEN ?3 THEN ?4 ELSE avatar END \
               WHERE id = ?1 AND erased_at IS NULL \
               RETURNING coalesce(handle, id), name, avatar, created_at, locked";
    let row =
        params![id.as_str(), change.name, change.avatar.is_some(), change.avatar.as_ref().and_then(Option::as_ref)];
    let updated = |row: &Row<'_>| Ok((user(row)?, row.get(4)?));
    let Some((user, locked)) = db.prepare_cached(sql)?.query_row(row, updated).optional()? else { return Ok(None) };
    if let Some(name) = &change.name {
        db.prepare_cached("DELETE FROM user_terms WHERE user = ?1")?.execute([id.as_str()])?;
        add_search_terms(db, id.as_str(), name)?;
    }
    let is_about =
        change.bio.is_some() || change.data.is_some() || change.pinned.is_some() || change.quotable.is_some();
    if is_about {
        update_about(db, id, change)?;
    }
    let sql = "SELECT bio, data, pinned, quotable FROM profiles WHERE user = ?1";
    let about = db.prepare_cached(sql)?.query_row([id.as_str()], |row| about(row, 0)).optional()?;
    Ok(Some(UserDetails { user, about: about.unwrap_or_default(), locked }))
}

fn update_about(db: &Connection, id: &UserId, change: &ProfileChange) -> rusqlite::Result<()> {
    let sql = "INSERT INTO profiles (user, bio, data, pinned, quotable) VALUES (?1, ?3, ?5, ?7, ?9) \
               ON CONFLICT (user) DO UPDATE \
               SET bio = CASE WHEN ?2 THEN ?3 ELSE bio END, data = CASE WHEN ?4 THEN ?5 ELSE data END, \
                   pinned = CASE WHEN ?6 THEN ?7 ELSE pinned END, \
                   quotable = CASE WHEN ?8 THEN ?9 ELSE quotable END";
    let data = change.data.as_ref().and_then(Option::as_ref).map(json_text).transpose()?;
    let bio = change.bio.as_ref().and_then(Option::as_ref);
    let pinned = change.pinned.as_ref().filter(|pinned| !pinned.is_empty()).map(json_text).transpose()?;
    let quotable = change.quotable.filter(|quotable| *quotable != Quotable::Everyone).map(Quotable::as_str);
    let sets = [change.bio.is_some(), change.data.is_some(), change.pinned.is_some(), change.quotable.is_some()];
    let row = params![id.as_str(), sets[0], bio, sets[1], data, sets[2], pinned, sets[3], quotable];
    db.prepare_cached(sql)?.execute(row)?;
    let sql =
        "DELETE FROM profiles WHERE user = ?1 AND bio IS NULL AND data IS NULL AND pinned IS NULL AND quotable IS NULL";
    db.prepare_cached(sql)?.execute([id.as_str()]).map(drop)
}

/// Reads `bio, data, pinned, quotable`, starting at a column.
fn about(row: &Row<'_>, first: usize) -> rusqlite::Result<About> {
    fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<T>> {
        let text: Option<String> = row.get(column)?;
        let parse = |text: String| {
            serde_json::from_str(&text)
                .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into()))
        };
        text.map(parse).transpose()
    }
    let pinned = json(row, first + 2)?.unwrap_or_default();
    let quotable = row.get_ref(first + 3)?.as_str_or_null()?.and_then(Quotable::parse).unwrap_or_default();
    Ok(About { bio: row.get(first)?, data: json(row, first + 1)?, pinned, quotable })
}

/// A scan of the terms in order. A user with two matching terms is returned once, at the lesser term.
pub(super) const SEARCH: &str = "SELECT coalesce(u.handle, u.id), u.name, u.avatar, u.created_at, t.term \
    FROM user_terms t CROSS JOIN users u ON u.id = t.user \
    WHERE t.term < ?2 AND (t.term, t.user) > (?3, ?4) AND NOT EXISTS \
    (SELECT 1 FROM user_terms other WHERE other.user = t.user AND other.term >= ?1 AND other.term < t.term) \
    ORDER BY t.term, t.user LIMIT ?5";

fn enable_post_alerts(
    db: &Connection,
    user: &UserId,
    author: &UserId,
    now: Millis,
    most: u64,
) -> rusqlite::Result<bool> {
    let user = user.as_str();
    let author = author.as_str();
    let sql = "SELECT EXISTS (SELECT 1 FROM post_alerts WHERE user = ?1 AND author = ?2)";
    if db.prepare_cached(sql)?.query_row([user, author], |row| row.get(0))? {
        return Ok(true);
    }
    let sql = "INSERT INTO post_alerts (user, author, at) SELECT ?1, ?2, ?3 \
               WHERE (SELECT count(*) FROM post_alerts WHERE user = ?1) < ?4";
    Ok(db.prepare_cached(sql)?.execute(params![user, author, integer(now), integer(most)])? == 1)
}

/// A page of users. Each row begins with a user; the fifth column is the position in the list. The statement has no
/// limit.
pub(super) fn listed(rows: Rows<'_>, limit: usize) -> rusqlite::Result<ListPage<User>> {
    // The additional row shows whether there is a next page.
    let wanted = limit.saturating_add(1);
    let mut page = readable_page("users", rows, wanted, |row| Ok((user(row)?, row.get::<_, i64>(4)?)))?;
    let more = page.len() > limit;
    page.truncate(limit);
    let next = page.last().filter(|_| more).map(|(_, seq)| *seq);
    Ok(ListPage { items: page.into_iter().map(|(user, _)| user).collect(), next })
}

pub(super) fn users(db: &Connection, ids: &[UserId]) -> rusqlite::Result<Vec<User>> {
    let sql = "SELECT coalesce(handle, id), name, avatar, created_at FROM users \
               WHERE id IN (SELECT value FROM json_each(?1)) \
               AND erased_at IS NULL";
    readable("users", db.prepare_cached(sql)?.query([ids_json(ids)?])?, user)
}

/// The number of posts is the total minus the posts for audiences that exclude the viewer. No post is read: the ledger
/// counts posts by audience, and counts the rows that name this viewer up to `?3`.
pub(super) const PROFILE: &str = "WITH named AS MATERIALIZED (SELECT \
        (SELECT count(*) FROM (SELECT 1 FROM audience_posts \
            WHERE author = ?1 AND kind = 'only_to' AND viewer = ?2 LIMIT ?3)) AS only_to, \
        (SELECT count(*) FROM (SELECT 1 FROM audience_posts \
            WHERE author = ?1 AND kind = 'not_to' AND viewer = ?2 LIMIT ?3 + 1)) AS not_to) \
    SELECT coalesce(u.handle, u.id), u.name, u.avatar, u.created_at, u.followers, u.following, \
    CASE WHEN u.id = ?2 THEN u.posts WHEN e.restricted_by OR e.blocking OR (u.locked AND NOT e.following) THEN 0 \
        ELSE u.posts \
        - CASE WHEN e.following THEN 0 ELSE coalesce(a.followers, 0) END \
        - CASE WHEN e.following AND e.followed_by THEN 0 ELSE coalesce(a.friends, 0) END \
        - (coalesce(a.only_to, 0) - CASE WHEN e.following THEN named.only_to ELSE 0 END) \
        - CASE WHEN named.not_to > ?3 THEN coalesce(a.not_to, 0) ELSE named.not_to END \
    END, e.following, e.followed_by, e.hiding, e.muting, e.blocking, e.notify, p.bio, p.data, \
    p.pinned, p.quotable, u.locked, e.requested, e.requested_by, e.reposts_off \
    FROM users u CROSS JOIN named LEFT JOIN audience_counts a ON a.author = u.id \
    LEFT JOIN profiles p ON p.user = u.id CROSS JOIN (SELECT \
        EXISTS (SELECT 1 FROM follows WHERE follower = ?2 AND followee = ?1) AS following, \
        EXISTS (SELECT 1 FROM follows WHERE follower = ?1 AND followee = ?2) AS followed_by, \
        EXISTS (SELECT 1 FROM restrictions WHERE maker = ?2 AND kind = 'hide' AND target = ?1) AS hiding, \
        EXISTS (SELECT 1 FROM restrictions WHERE maker = ?2 AND kind = 'mute' AND target = ?1) AS muting, \
        EXISTS (SELECT 1 FROM restrictions WHERE maker = ?2 AND kind = 'block' AND target = ?1) AS blocking, \
        EXISTS (SELECT 1 FROM restrictions WHERE maker = ?1 AND kind IN ('hide', 'block') AND target = ?2) \
            AS restricted_by, \
        EXISTS (SELECT 1 FROM post_alerts WHERE user = ?2 AND author = ?1) AS notify, \
        EXISTS (SELECT 1 FROM follow_requests WHERE followee = ?1 AND follower = ?2) AS requested, \
        EXISTS (SELECT 1 FROM follow_requests WHERE followee = ?2 AND follower = ?1 AND shown_at <= ?4) \
            AS requested_by, \
        EXISTS (SELECT 1 FROM restrictions WHERE maker = ?2 AND kind = 'reposts' AND target = ?1) AS reposts_off \
    ) e WHERE u.id = ?1 AND u.erased_at IS NULL";

pub(super) fn profile(
    db: &Connection,
    id: &UserId,
    viewer: Option<&UserId>,
    now: Millis,
) -> rusqlite::Result<Option<Profile>> {
    let read = |row: &Row<'_>| {
        Ok(Profile {
            user: user(row)?,
            about: about(row, 13)?,
            locked: row.get(17)?,
            followers: super::natural(row.get(4)?),
            following: super::natural(row.get(5)?),
            posts: super::natural(row.get(6)?),
            edges: Edges {
                following: row.get(7)?,
                followed_by: row.get(8)?,
                requested: row.get(18)?,
                requested_by: row.get(19)?,
                hiding: row.get(9)?,
                muting: row.get(10)?,
                blocking: row.get(11)?,
                notify: row.get(12)?,
                reposts_off: row.get(20)?,
            },
        })
    };
    let wanted = params![id.as_str(), viewer.map(UserId::as_str), count(MAX_NAMED), integer(now)];
    db.prepare_cached(PROFILE)?.query_row(wanted, read).optional()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Ledger as _, SqliteOptions};

    #[tokio::test]
    async fn user_search_uses_an_index() {
        let folder = tempfile::tempdir().expect("a folder");
        let ledger = SqliteLedger::open(SqliteOptions::new(folder.path().join("l.db"))).await.expect("it opens");
        for sql in [SEARCH, suggest::FOLLOWEES] {
            let explain = format!("EXPLAIN QUERY PLAN {sql}");
            let plan = ledger.read(move |db| -> rusqlite::Result<Vec<String>> {
                let mut statement = db.prepare(&explain)?;
                let wanted = vec!["u"; statement.parameter_count()];
                statement.query_map(rusqlite::params_from_iter(wanted), |row| row.get(3))?.collect()
            });
            for step in plan.await.expect("a plan") {
                let sorted = step.contains("TEMP B-TREE");
                assert!(!step.starts_with("SCAN") && !sorted, "{step} in {sql}");
                // Terms are bounded at both ends: the cost depends on the page, not on the number of users.
                let bounded = !step.starts_with("SEARCH t ") || (step.contains(">(?,?)") && step.contains("term<?"));
                assert!(bounded, "{step} in {sql}");
            }
        }
        ledger.close().await;
    }
}
