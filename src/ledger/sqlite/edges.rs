//! Follows between users.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};

use super::people::listed;
use super::rows::{ids_json, post_id_at, user_id_at};
use super::{SqliteLedger, UNLIMITED, count, events, integer, jobs, open_requests, readable, readable_page, relations};
use crate::ledger::edges::Edge;
use crate::ledger::{EdgeWork, FollowOutcome, FollowStore, ListPage, MergeSource, NewJob, Result, job_plan};
use crate::model::{Millis, Relation, User, UserId};

#[async_trait]
impl FollowStore for SqliteLedger {
    async fn follow(
        &self,
        follower: &UserId,
        followee: &UserId,
        now: Millis,
        max_follows: u64,
    ) -> Result<FollowOutcome> {
        let edge = Edge::new(follower, followee);
        let outlet = self.outlet;
        self.write(move |db| follow(db, &edge, now, max_follows, outlet)).await
    }

    async fn unfollow(&self, follower: &UserId, followee: &UserId, now: Millis) -> Result<Option<NewJob>> {
        let edge = Edge::new(follower, followee);
        let outlet = self.outlet;
        self.write(move |db| unfollow(db, &edge, now, outlet)).await
    }

    async fn merge_sources(&self, pairs: &[(UserId, UserId)], limit: usize) -> Result<Vec<MergeSource>> {
        let pairs = pairs.to_vec();
        self.read(move |db| merge_sources(db, &pairs, limit)).await
    }

    async fn followers(&self, user: &UserId, before: Option<i64>, limit: usize) -> Result<ListPage<User>> {
        let user = user.clone();
        self.read(move |db| list(db, FOLLOWERS, &user, before, limit)).await
    }

    async fn following(&self, user: &UserId, before: Option<i64>, limit: usize) -> Result<ListPage<User>> {
        let user = user.clone();
        self.read(move |db| list(db, FOLLOWING, &user, before, limit)).await
    }

    async fn shared_followers(
        &self,
        reader: &UserId,
        user: &UserId,
        before: Option<i64>,
        limit: usize,
    ) -> Result<ListPage<User>> {
        let reader = reader.clone();
        let user = user.clone();
        self.read(move |db| {
            let wanted = params![reader.as_str(), before.unwrap_or(i64::MAX), UNLIMITED, user.as_str()];
            listed(db.prepare_cached(SHARED)?.query(wanted)?, limit)
        })
        .await
    }

    async fn followees(&self, reader: &UserId, limit: usize) -> Result<Vec<UserId>> {
        let reader = reader.clone();
        self.read(move |db| followees(db, &reader, limit)).await
    }

    async fn followers_after(&self, author: &UserId, cursor: &str, limit: usize) -> Result<Vec<UserId>> {
        let author = author.clone();
        let cursor = cursor.to_owned();
        self.read(move |db| followers_after(db, &author, &cursor, limit)).await
    }
}

/// Adds a follow unless either user blocks the other. Returns whether it is new.
pub(super) fn make(db: &Connection, edge: &Edge, now: Millis) -> rusqlite::Result<bool> {
    let sql = "INSERT INTO follows (follower, followee, at) SELECT ?1, ?2, ?3 \
               WHERE NOT EXISTS (SELECT 1 FROM restrictions WHERE maker = ?1 AND kind = 'block' AND target = ?2) \
               AND NOT EXISTS (SELECT 1 FROM restrictions WHERE maker = ?2 AND kind = 'block' AND target = ?1) \
               ON CONFLICT DO NOTHING";
    let row = params![edge.reader.as_str(), edge.author.as_str(), integer(now)];
    let made = db.prepare_cached(sql)?.execute(row)? == 1;
    if made {
        tally(db, edge, 1)?;
    }
    Ok(made)
}

fn follow(
    db: &Connection,
    edge: &Edge,
    now: Millis,
    max_follows: u64,
    outlet: bool,
) -> rusqlite::Result<FollowOutcome> {
    if !is_user(db, &edge.author)? {
        return Ok(FollowOutcome::NoUser);
    }
    let relations = relations::read(db, &[(edge.reader.clone(), edge.author.clone())])?;
    let relation = relations.first().copied().unwrap_or_default();
    match relation {
        Relation { blocked: true, .. } => return Ok(FollowOutcome::Blocked),
        Relation { blocks: true, .. } => return Ok(FollowOutcome::Blocks),
        Relation { follows: true, .. } => return Ok(FollowOutcome::Unchanged),
        _ => {}
    }
    let others = if relation.locked { open_requests::others_by(db, edge)? } else { 0 };
    if following_count(db, &edge.reader)? + others >= max_follows {
        return Ok(FollowOutcome::Full);
    }
    if relation.locked {
        return open_requests::add(db, edge, now, outlet);
    }
    make(db, edge, now)?;
    // The job of an unlock has not accepted this request yet.
    open_requests::end(db, edge, now, outlet)?;
    events::append(db, Some(&edge.followed()), now, outlet)?;
    jobs::create(db, job_plan::edge_changed(EdgeWork::Follow, edge), now).map(FollowOutcome::New)
}

pub(super) fn unfollow(db: &Connection, edge: &Edge, now: Millis, outlet: bool) -> rusqlite::Result<Option<NewJob>> {
    open_requests::end(db, edge, now, outlet)?;
    if !end(db, edge)? {
        return Ok(None);
    }
    tell_of_end(db, edge, now, outlet)?;
    jobs::create(db, job_plan::edge_changed(EdgeWork::Unfollow, edge), now).map(Some)
}

/// Removes a follow. Returns whether it existed.
pub(super) fn end(db: &Connection, edge: &Edge) -> rusqlite::Result<bool> {
    let sql = "DELETE FROM follows WHERE follower = ?1 AND followee = ?2";
    let ended = db.prepare_cached(sql)?.execute([edge.reader.as_str(), edge.author.as_str()])? == 1;
    if ended {
        tally(db, edge, -1)?;
    }
    Ok(ended)
}

/// Writes the event of a follow that ended.
pub(super) fn tell_of_end(db: &Connection, edge: &Edge, now: Millis, outlet: bool) -> rusqlite::Result<()> {
    events::append(db, Some(&edge.unfollowed()), now, outlet)
}

fn tally(db: &Connection, edge: &Edge, change: i64) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE users SET following = following + ?2 WHERE id = ?1")?
        .execute(params![edge.reader.as_str(), change])?;
    db.prepare_cached("UPDATE users SET followers = followers + ?2 WHERE id = ?1")?
        .execute(params![edge.author.as_str(), change])?;
    Ok(())
}

/// Whether a user exists and was not erased.
fn is_user(db: &Connection, user: &UserId) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM users WHERE id = ?1 AND erased_at IS NULL")?.exists([user.as_str()])
}

fn following_count(db: &Connection, follower: &UserId) -> rusqlite::Result<u64> {
    let found: Option<i64> = db
        .prepare_cached("SELECT following FROM users WHERE id = ?1")?
        .query_row([follower.as_str()], |row| row.get(0))
        .optional()?;
    Ok(found.map_or(0, super::natural))
}

pub(super) const FOLLOWERS: &str = "SELECT coalesce(u.handle, u.id), u.name, u.avatar, u.created_at, f.seq \
    FROM follows f INDEXED BY follows_in CROSS JOIN users u ON u.id = f.follower \
    WHERE f.followee = ?1 AND f.seq < ?2 ORDER BY f.seq DESC LIMIT ?3";

pub(super) const FOLLOWING: &str = "SELECT coalesce(u.handle, u.id), u.name, u.avatar, u.created_at, f.seq \
    FROM follows f INDEXED BY follows_out CROSS JOIN users u ON u.id = f.followee \
    WHERE f.follower = ?1 AND f.seq < ?2 ORDER BY f.seq DESC LIMIT ?3";

pub(super) const SHARED: &str = "SELECT coalesce(u.handle, u.id), u.name, u.avatar, u.created_at, f.seq \
    FROM follows f INDEXED BY follows_out CROSS JOIN users u ON u.id = f.followee \
    WHERE f.follower = ?1 AND f.seq < ?2 AND EXISTS \
    (SELECT 1 FROM follows theirs INDEXED BY follows_edge WHERE theirs.follower = f.followee AND theirs.followee = ?4) \
    ORDER BY f.seq DESC LIMIT ?3";

/// A page of [`FOLLOWERS`] or [`FOLLOWING`].
pub(super) fn list(
    db: &Connection,
    sql: &str,
    whose: &UserId,
    before: Option<i64>,
    limit: usize,
) -> rusqlite::Result<ListPage<User>> {
    let wanted = params![whose.as_str(), before.unwrap_or(i64::MAX), UNLIMITED];
    let mut statement = db.prepare_cached(sql)?;
    listed(statement.query(wanted)?, limit)
}

/// The visibility of the newest posts of an author.
pub(super) const NEWEST: &str = "SELECT id, coalesce(body -> '$.visibility', '\"public\"') \
    FROM posts INDEXED BY posts_author WHERE author = ?1 AND deleted_at IS NULL ORDER BY id DESC LIMIT ?2";

fn merge_sources(db: &Connection, pairs: &[(UserId, UserId)], limit: usize) -> rusqlite::Result<Vec<MergeSource>> {
    let relations = relations::read(db, pairs)?;
    let source = |((_, author), relation): (&(UserId, UserId), Relation)| {
        let wanted = params![author.as_str(), if relation.follows { count(limit) } else { 0 }];
        let mut statement = db.prepare_cached(NEWEST)?;
        let posts = statement.query_map(wanted, |row| Ok((post_id_at(row, 0)?, row.get::<_, String>(1)?)))?;
        Ok(MergeSource::new(relation, posts.collect::<rusqlite::Result<Vec<_>>>()?))
    };
    pairs.iter().zip(relations).map(source).collect()
}

const FOLLOWEES: &str = "SELECT followee FROM follows INDEXED BY follows_edge \
    WHERE follower = ?1 ORDER BY followee LIMIT ?2";

fn followees(db: &Connection, reader: &UserId, limit: usize) -> rusqlite::Result<Vec<UserId>> {
    let mut statement = db.prepare_cached(FOLLOWEES)?;
    readable_page("follows", statement.query(params![reader.as_str(), UNLIMITED])?, limit, |row| user_id_at(row, 0))
}

pub(super) const FANOUT: &str = "SELECT follower FROM follows INDEXED BY follows_fanout \
    WHERE followee = ?1 AND follower > ?2 ORDER BY follower LIMIT ?3";

pub(super) fn followers_after(
    db: &Connection,
    author: &UserId,
    cursor: &str,
    limit: usize,
) -> rusqlite::Result<Vec<UserId>> {
    let mut statement = db.prepare_cached(FANOUT)?;
    readable_page("follows", statement.query(params![author.as_str(), cursor, UNLIMITED])?, limit, |row| {
        user_id_at(row, 0)
    })
}

pub(super) fn followed_among(db: &Connection, reader: &UserId, authors: &[UserId]) -> rusqlite::Result<Vec<UserId>> {
    let sql = "SELECT followee FROM follows WHERE follower = ?1 AND followee IN (SELECT value FROM json_each(?2))";
    let mut statement = db.prepare_cached(sql)?;
    readable("follows", statement.query(params![reader.as_str(), ids_json(authors)?])?, |row| user_id_at(row, 0))
}
