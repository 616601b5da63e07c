//! Lists.

use std::collections::HashSet;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::people::user;
use super::restrictions::{self, RestrictionKey};
use super::rows::post_id_at;
use super::timeline::{self, PostRun, RunSource};
use super::topic_follows::{names_json, numbers_json};
use super::{SqliteLedger, UNLIMITED, count, integer, natural, readable, readable_page};
use crate::ledger::{ListChange, ListOutcome, ListStore, NewJob, Result, SourcesInUse};
use crate::model::{List, ListId, ListMember, Millis, PostId, Restriction, User, UserId};

#[async_trait]
impl ListStore for SqliteLedger {
    async fn create_list(
        &self,
        owner: &UserId,
        name: &str,
        exclusive: bool,
        now: Millis,
        most: usize,
        reserved: Option<PostId>,
    ) -> Result<Option<List>> {
        let owner = owner.clone();
        let new = List { id: ListId(0), name: name.to_owned(), exclusive, users: 0, topics: 0, created_at: now };
        self.write(move |db| create(db, &owner, new, most, reserved)).await
    }

    async fn lists(&self, owner: &UserId) -> Result<Vec<List>> {
        let owner = owner.clone();
        self.read(move |db| readable("lists", db.prepare_cached(LISTS)?.query([owner.as_str()])?, list)).await
    }

    async fn list(&self, owner: &UserId, id: ListId) -> Result<Option<List>> {
        let owner = owner.clone();
        self.read(move |db| one(db, &owner, id)).await
    }

    async fn update_list(&self, owner: &UserId, id: ListId, change: &ListChange) -> Result<Option<List>> {
        let owner = owner.clone();
        let change = change.clone();
        self.write(move |db| {
            let sql = "UPDATE lists SET name = coalesce(?3, name), exclusive = coalesce(?4, exclusive) \
                       WHERE owner = ?1 AND id = ?2";
            db.prepare_cached(sql)?.execute(params![owner.as_str(), integer(id.0), change.name, change.exclusive])?;
            one(db, &owner, id)
        })
        .await
    }

    async fn delete_list(&self, owner: &UserId, id: ListId) -> Result<bool> {
        let owner = owner.clone();
        self.write(move |db| delete(db, &owner, id)).await
    }

    async fn add_to_list(
        &self,
        owner: &UserId,
        id: ListId,
        member: &ListMember,
        now: Millis,
        most: usize,
    ) -> Result<ListOutcome> {
        let owner = owner.clone();
        let member = member.clone();
        self.write(move |db| add(db, &owner, id, &member, now, most)).await
    }

    async fn remove_from_list(&self, owner: &UserId, id: ListId, member: &ListMember) -> Result<Option<bool>> {
        let owner = owner.clone();
        let member = member.clone();
        self.write(move |db| {
            if !has(db, &owner, id)? {
                return Ok(None);
            }
            let MemberColumn { table, column, value } = MemberColumn::of(&member);
            let sql = format!("DELETE FROM {table} WHERE list = ?1 AND {column} = ?2");
            Ok(Some(db.prepare_cached(&sql)?.execute(params![integer(id.0), value])? == 1))
        })
        .await
    }

    async fn list_users(
        &self,
        id: ListId,
        after: Option<(Millis, &UserId)>,
        limit: usize,
    ) -> Result<Vec<(Millis, User)>> {
        let (at, member) = after.map_or((i64::MAX, String::new()), |(at, member)| (integer(at), member.to_string()));
        self.read(move |db| {
            let wanted = params![integer(id.0), at, member, UNLIMITED];
            let found = |row: &Row<'_>| Ok((natural(row.get(4)?), user(row)?));
            readable_page("users", db.prepare_cached(USERS)?.query(wanted)?, limit, found)
        })
        .await
    }

    async fn list_topics(&self, id: ListId) -> Result<Vec<String>> {
        self.read(move |db| db.prepare_cached(TOPICS)?.query_map([integer(id.0)], |row| row.get(0))?.collect()).await
    }

    async fn lists_with(&self, owner: &UserId, user: &UserId) -> Result<Vec<List>> {
        let owner = owner.clone();
        let user = user.clone();
        self.read(move |db| {
            let mut statement = db.prepare_cached(LISTS_WITH)?;
            readable("lists", statement.query([owner.as_str(), user.as_str()])?, list)
        })
        .await
    }

    async fn list_posts(&self, id: ListId, before: PostId, limit: usize) -> Result<Vec<PostId>> {
        self.read(move |db| posts(db, id, before, limit)).await
    }

    async fn listed_among(&self, id: ListId, posts: &[PostId]) -> Result<HashSet<PostId>> {
        let posts = numbers_json(posts.iter().map(|post| post.0));
        self.read(move |db| {
            let mut statement = db.prepare_cached(LISTED_AMONG)?;
            statement.query_map(params![integer(id.0), posts], |row| post_id_at(row, 0))?.collect()
        })
        .await
    }

    async fn lists_among(&self, lists: &[ListId], author: &UserId, topics: &[String]) -> Result<HashSet<ListId>> {
        let lists = numbers_json(lists.iter().map(|list| list.0));
        let author = author.clone();
        let topics = names_json(topics);
        self.read(move |db| {
            let mut statement = db.prepare_cached(LISTS_AMONG)?;
            let found = statement.query_map(params![lists, author.as_str(), topics], |row| row.get(0).map(natural))?;
            found.map(|list| list.map(ListId)).collect()
        })
        .await
    }

    async fn has_lists(&self) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM lists)";
        self.read(move |db| db.prepare_cached(sql)?.query_row([], |row| row.get(0))).await
    }

    async fn sources_in_use(&self, author: &UserId, topics: &[String]) -> Result<SourcesInUse> {
        let author = author.clone();
        let topics = names_json(topics);
        self.read(move |db| {
            let is_listed = db.prepare_cached(IS_LISTED)?.exists([author.as_str()])?;
            let topics = db
                .prepare_cached(SOURCES_IN_USE)?
                .query_map([topics], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            Ok(SourcesInUse { is_listed, topics })
        })
        .await
    }

    async fn sync_exclusion(&self, owner: &UserId, user: &UserId, now: Millis) -> Result<Option<(bool, Vec<NewJob>)>> {
        let key = RestrictionKey::new(Restriction::Listed, owner, user);
        let outlet = self.outlet;
        self.write(move |db| sync(db, &key, now, outlet)).await
    }
}

/// Builds a statement that returns lists, in the columns that [`list`] reads. `$rest` follows the columns.
#[rustfmt::skip]
macro_rules! select_lists {
    ($rest:literal) => {
        concat!(
            "SELECT id, name, exclusive, created_at, (SELECT count(*) FROM list_users WHERE list = lists.id), \
                 (SELECT count(*) FROM list_topics WHERE list = lists.id) ",
            $rest
        )
    };
}

pub(super) const LISTS: &str = select_lists!("FROM lists INDEXED BY lists_owner WHERE owner = ?1 ORDER BY id");

const LIST: &str = select_lists!("FROM lists INDEXED BY lists_owner WHERE owner = ?1 AND id = ?2");

/// One look-up for each list of the owner: others may have the user in many lists.
const LISTS_WITH: &str = select_lists!(
    "FROM lists INDEXED BY lists_owner WHERE owner = ?1 \
         AND EXISTS (SELECT 1 FROM list_users WHERE list = lists.id AND member = ?2) ORDER BY id"
);

pub(super) const USERS: &str = "SELECT coalesce(u.handle, u.id), u.name, u.avatar, u.created_at, m.at \
    FROM list_users m INDEXED BY list_users_added CROSS JOIN users u ON u.id = m.member \
    WHERE m.list = ?1 AND (m.at, m.member) < (?2, ?3) ORDER BY m.at DESC, m.member DESC LIMIT ?4";

pub(super) const TOPICS: &str = "SELECT topic FROM list_topics WHERE list = ?1 ORDER BY topic";

/// A look-up for each post, and for each of the few topics of the list.
const LISTED_AMONG: &str = "SELECT p.id FROM json_each(?2) wanted CROSS JOIN posts p ON p.id = wanted.value \
    WHERE p.body IS NOT NULL AND (\
        EXISTS (SELECT 1 FROM list_users WHERE list = ?1 AND member = p.author) \
        OR EXISTS (SELECT 1 FROM list_topics l CROSS JOIN post_topics t ON t.topic = l.topic AND t.post = p.id \
            WHERE l.list = ?1 AND t.public))";

const LISTS_AMONG: &str = "SELECT wanted.value FROM json_each(?1) wanted \
    WHERE EXISTS (SELECT 1 FROM list_users WHERE list = wanted.value AND member = ?2) \
        OR EXISTS (SELECT 1 FROM json_each(?3) named \
            CROSS JOIN list_topics l ON l.list = wanted.value AND l.topic = named.value)";

const IS_LISTED: &str = "SELECT 1 FROM list_users INDEXED BY list_users_member WHERE member = ?1";

const SOURCES_IN_USE: &str = "SELECT DISTINCT value FROM json_each(?1) wanted \
    WHERE EXISTS (SELECT 1 FROM topic_follows INDEXED BY topic_follows_topic WHERE topic = wanted.value) \
        OR EXISTS (SELECT 1 FROM list_topics INDEXED BY list_topics_topic WHERE topic = wanted.value)";

const IS_EXCLUSIVE: &str = "SELECT 1 FROM lists INDEXED BY lists_owner WHERE owner = ?1 AND exclusive \
    AND EXISTS (SELECT 1 FROM list_users WHERE list = lists.id AND member = ?2)";

/// The table of a kind of members, its column with the member, and the member.
struct MemberColumn<'a> {
    table: &'static str,
    column: &'static str,
    value: &'a str,
}

impl<'a> MemberColumn<'a> {
    fn of(member: &'a ListMember) -> Self {
        match member {
            ListMember::User(user) => Self { table: "list_users", column: "member", value: user.as_str() },
            ListMember::Topic(topic) => Self { table: "list_topics", column: "topic", value: topic },
        }
    }
}

fn create(
    db: &Connection,
    owner: &UserId,
    new: List,
    most: usize,
    reserved: Option<PostId>,
) -> rusqlite::Result<Option<List>> {
    let reserved = reserved.map(|id| integer(id.0));
    let known = "SELECT id FROM lists WHERE reserved = ?1";
    let known: Option<i64> = db.prepare_cached(known)?.query_row([reserved], |row| row.get(0)).optional()?;
    if let Some(id) = known {
        return one(db, owner, ListId(natural(id)));
    }
    let sql = "INSERT INTO lists (owner, name, exclusive, created_at, reserved) SELECT ?1, ?2, ?3, ?4, ?6 \
               WHERE (SELECT count(*) FROM lists WHERE owner = ?1) < ?5 RETURNING id";
    let row = params![owner.as_str(), new.name, new.exclusive, integer(new.created_at), count(most), reserved];
    let id: Option<i64> = db.prepare_cached(sql)?.query_row(row, |row| row.get(0)).optional()?;
    Ok(id.map(|id| List { id: ListId(natural(id)), ..new }))
}

fn one(db: &Connection, owner: &UserId, id: ListId) -> rusqlite::Result<Option<List>> {
    db.prepare_cached(LIST)?.query_row(params![owner.as_str(), integer(id.0)], list).optional()
}

/// Whether a user has a list.
fn has(db: &Connection, owner: &UserId, id: ListId) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM lists WHERE owner = ?1 AND id = ?2";
    db.prepare_cached(sql)?.exists(params![owner.as_str(), integer(id.0)])
}

fn delete(db: &Connection, owner: &UserId, id: ListId) -> rusqlite::Result<bool> {
    if !has(db, owner, id)? {
        return Ok(false);
    }
    for sql in ["DELETE FROM list_users WHERE list = ?1", "DELETE FROM list_topics WHERE list = ?1"] {
        db.prepare_cached(sql)?.execute([integer(id.0)])?;
    }
    db.prepare_cached("DELETE FROM lists WHERE id = ?1")?.execute([integer(id.0)]).map(|_| true)
}

fn add(
    db: &Connection,
    owner: &UserId,
    id: ListId,
    member: &ListMember,
    now: Millis,
    most: usize,
) -> rusqlite::Result<ListOutcome> {
    if !has(db, owner, id)? {
        return Ok(ListOutcome::NoList);
    }
    let MemberColumn { table, column, value } = MemberColumn::of(member);
    let sql = format!("SELECT 1 FROM {table} WHERE list = ?1 AND {column} = ?2");
    if db.prepare_cached(&sql)?.exists(params![integer(id.0), value])? {
        return Ok(ListOutcome::Unchanged);
    }
    let sql = format!(
        "INSERT INTO {table} (list, {column}, at) SELECT ?1, ?2, ?3 \
         WHERE (SELECT count(*) FROM {table} WHERE list = ?1) < ?4"
    );
    let is_added = db.prepare_cached(&sql)?.execute(params![integer(id.0), value, integer(now), count(most)])? == 1;
    Ok(if is_added { ListOutcome::Added } else { ListOutcome::Full })
}

fn posts(db: &Connection, id: ListId, before: PostId, limit: usize) -> rusqlite::Result<Vec<PostId>> {
    // One snapshot: a page without a post that was there before and after would show a state that never existed.
    let snapshot = db.unchecked_transaction()?;
    let mut sources = Vec::new();
    let users = "SELECT member FROM list_users WHERE list = ?1";
    for (sql, source) in [(users, RunSource::Author as fn(String) -> RunSource), (TOPICS, RunSource::PublicTopic)] {
        let mut statement = snapshot.prepare_cached(sql)?;
        let members = statement.query_map([integer(id.0)], |row| row.get(0))?;
        sources.extend(members.collect::<rusqlite::Result<Vec<String>>>()?.into_iter().map(source));
    }
    timeline::merge(&snapshot, PostRun::all(sources, limit), before, limit)
}

fn sync(
    db: &Connection,
    key: &RestrictionKey,
    now: Millis,
    outlet: bool,
) -> rusqlite::Result<Option<(bool, Vec<NewJob>)>> {
    let is_listed = db.prepare_cached(IS_EXCLUSIVE)?.exists([key.maker.as_str(), key.target.as_str()])?;
    let jobs = match is_listed {
        true => restrictions::restrict(db, key, now, None, outlet)?,
        false => restrictions::unrestrict(db, key, now, None)?,
    };
    Ok(jobs.map(|jobs| (is_listed, jobs)))
}

/// Reads `id, name, exclusive, created_at`, and the numbers of users and topics.
fn list(row: &Row<'_>) -> rusqlite::Result<List> {
    Ok(List {
        id: ListId(natural(row.get(0)?)),
        name: row.get(1)?,
        exclusive: row.get(2)?,
        created_at: natural(row.get(3)?),
        users: natural(row.get(4)?),
        topics: natural(row.get(5)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Ledger as _, SqliteOptions};

    #[tokio::test]
    async fn lists_of_a_user_are_look_ups_in_indexes() {
        let folder = tempfile::tempdir().expect("a folder");
        let ledger = SqliteLedger::open(SqliteOptions::new(folder.path().join("l.db"))).await.expect("it opens");
        for sql in [LISTS, LIST, LISTS_WITH, IS_EXCLUSIVE] {
            let plan = ledger.read(move |db| -> rusqlite::Result<Vec<String>> {
                let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
                let bound = vec![1; statement.parameter_count()];
                statement.query_map(rusqlite::params_from_iter(bound), |row| row.get(3))?.collect()
            });
            for step in plan.await.expect("a plan").iter().filter(|step| !step.contains("SCALAR SUBQUERY")) {
                let begins_with_owner = !step.contains(" lists ") || step.contains("lists_owner (owner=?");
                assert!(step.starts_with("SEARCH") && step.contains("=?") && begins_with_owner, "{step} in {sql}");
            }
        }
        ledger.close().await;
    }
}
