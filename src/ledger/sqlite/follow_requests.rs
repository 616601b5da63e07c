//! Locked accounts, and the requests to follow them.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::people::listed;
use super::rows::{ids_json, post_id_at, user_id_at};
use super::{
    SqliteLedger, UNLIMITED, count, edges, events, integer, jobs, natural, open_requests, readable, readable_page,
    topics,
};
use crate::ledger::edges::Edge;
use crate::ledger::{
    EdgeWork, FollowRequestStore, ListPage, LockOutcome, NewJob, OpenRequest, REQUEST_QUIET, Result, TopicPost,
    job_plan,
};
use crate::model::{Millis, PostId, User, UserId, Visibility};

#[async_trait]
impl FollowRequestStore for SqliteLedger {
    async fn set_locked(&self, user: &UserId, locked: bool, now: Millis) -> Result<LockOutcome> {
        let user = user.clone();
        self.write(move |db| set_locked(db, &user, locked, now)).await
    }

    async fn requests_to(
        &self,
        user: &UserId,
        now: Millis,
        before: Option<i64>,
        limit: usize,
    ) -> Result<ListPage<User>> {
        let user = user.clone();
        self.read(move |db| {
            let wanted = params![user.as_str(), before.unwrap_or(i64::MAX), integer(now), UNLIMITED];
            listed(db.prepare_cached(TO)?.query(wanted)?, limit)
        })
        .await
    }

    async fn requests_by(&self, user: &UserId, before: Option<i64>, limit: usize) -> Result<ListPage<User>> {
        let user = user.clone();
        self.read(move |db| edges::list(db, BY, &user, before, limit)).await
    }

    async fn requests_among(&self, user: &UserId, followers: &[UserId], now: Millis) -> Result<Vec<UserId>> {
        let user = user.clone();
        let followers = followers.to_vec();
        self.read(move |db| {
            let wanted = params![user.as_str(), ids_json(&followers)?, integer(now)];
            readable("follow_requests", db.prepare_cached(AMONG)?.query(wanted)?, |row| user_id_at(row, 0))
        })
        .await
    }

    async fn accept_request(
        &self,
        follower: &UserId,
        user: &UserId,
        now: Millis,
        shown_at: Option<Millis>,
    ) -> Result<Option<NewJob>> {
        let edge = Edge::new(follower, user);
        let outlet = self.outlet;
        self.write(move |db| accept(db, &edge, now, shown_at, outlet)).await
    }

    async fn reject_request(&self, follower: &UserId, user: &UserId, now: Millis) -> Result<bool> {
        let edge = Edge::new(follower, user);
        let outlet = self.outlet;
        self.write(move |db| reject(db, &edge, now, outlet)).await
    }

    async fn oldest_requests(&self, user: &UserId, through: u64, limit: usize) -> Result<Vec<OpenRequest>> {
        let user = user.clone();
        self.read(move |db| {
            let open = |row: &Row<'_>| Ok(OpenRequest { seq: natural(row.get(0)?), follower: user_id_at(row, 1)? });
            let wanted = params![user.as_str(), integer(through), UNLIMITED];
            readable_page("follow_requests", db.prepare_cached(OLDEST)?.query(wanted)?, limit, open)
        })
        .await
    }

    async fn posts_out_of_sync(
        &self,
        author: &UserId,
        before: PostId,
        limit: usize,
    ) -> Result<(Vec<TopicPost>, Option<PostId>)> {
        let author = author.clone();
        self.read(move |db| {
            let wanted = params![author.as_str(), integer(before.0), count(limit)];
            let mut statement = db.prepare_cached(NEWEST_POSTS)?;
            let mut rows = statement.query(wanted)?;
            let mut posts = Vec::new();
            let mut last = None;
            while let Some(row) = rows.next()? {
                last = Some(post_id_at(row, 0)?);
                if row.get(1)? {
                    // A post that cannot be read keeps its topics.
                    posts.extend(
                        super::posts::body(row, 2).ok().map(|post| TopicPost { post: post.id, topics: post.topics }),
                    );
                }
            }
            Ok((posts, last))
        })
        .await
    }

    async fn sync_topics(&self, author: &UserId, post: &TopicPost) -> Result<()> {
        let author = author.clone();
        let post = post.clone();
        self.write(move |db| sync_topics(db, &author, &post)).await
    }
}

pub(super) const TO: &str = "SELECT coalesce(u.handle, u.id), u.name, u.avatar, u.created_at, r.seq \
    FROM follow_requests r INDEXED BY follow_requests_to CROSS JOIN users u ON u.id = r.follower \
    WHERE r.followee = ?1 AND r.seq < ?2 AND r.shown_at <= ?3 ORDER BY r.seq DESC LIMIT ?4";

pub(super) const BY: &str = "SELECT coalesce(u.handle, u.id), u.name, u.avatar, u.created_at, r.seq \
    FROM follow_requests r INDEXED BY follow_requests_by CROSS JOIN users u ON u.id = r.followee \
    WHERE r.follower = ?1 AND r.seq < ?2 ORDER BY r.seq DESC LIMIT ?3";

const AMONG: &str = "SELECT follower FROM follow_requests INDEXED BY follow_requests_edge \
    WHERE followee = ?1 AND follower IN (SELECT value FROM json_each(?2)) AND shown_at <= ?3";

const OLDEST: &str = "SELECT seq, follower FROM follow_requests INDEXED BY follow_requests_to \
    WHERE followee = ?1 AND seq <= ?2 ORDER BY seq LIMIT ?3";

const NEWEST_POSTS: &str = "SELECT id, json_valid(body) AND coalesce(body ->> '$.visibility', 'public') = 'public' \
    AND EXISTS \
        (SELECT 1 FROM post_topics WHERE topic = body ->> '$.topics[0]' AND post = id \
            AND public = (SELECT locked FROM users WHERE users.id = ?1)), \
    body FROM posts INDEXED BY posts_author \
    WHERE author = ?1 AND deleted_at IS NULL AND id < ?2 ORDER BY id DESC LIMIT ?3";

fn accept(
    db: &Connection,
    edge: &Edge,
    now: Millis,
    shown_at: Option<Millis>,
    outlet: bool,
) -> rusqlite::Result<Option<NewJob>> {
    // The limit was checked when the request was made: open requests count as follows.
    if !open_requests::remove(db, edge, shown_at)? || !edges::make(db, edge, now)? {
        return Ok(None);
    }
    events::append(db, Some(&edge.accepted()), now, outlet)?;
    jobs::create(db, job_plan::edge_changed(EdgeWork::Follow, edge), now).map(Some)
}

fn reject(db: &Connection, edge: &Edge, now: Millis, outlet: bool) -> rusqlite::Result<bool> {
    if !open_requests::remove(db, edge, Some(now))? {
        return Ok(false);
    }
    // Removes rejections that have expired.
    let sql = "DELETE FROM follow_rejections WHERE followee = ?1 AND at <= ?2";
    db.prepare_cached(sql)?.execute(params![edge.author.as_str(), integer(now.saturating_sub(REQUEST_QUIET))])?;
    let sql = "INSERT INTO follow_rejections (followee, follower, at) VALUES (?1, ?2, ?3) \
               ON CONFLICT (followee, follower) DO UPDATE SET at = excluded.at";
    db.prepare_cached(sql)?.execute(params![edge.author.as_str(), edge.reader.as_str(), integer(now)])?;
    events::append(db, Some(&edge.request_ended()), now, outlet)?;
    Ok(true)
}

fn set_locked(db: &Connection, user: &UserId, locked: bool, now: Millis) -> rusqlite::Result<LockOutcome> {
    let sql = "SELECT locked FROM users WHERE id = ?1 AND erased_at IS NULL";
    let was_locked: Option<bool> = db.prepare_cached(sql)?.query_row([user.as_str()], |row| row.get(0)).optional()?;
    match was_locked {
        None => return Ok(LockOutcome::NoUser),
        Some(was_locked) if was_locked == locked => return Ok(LockOutcome::Unchanged),
        Some(_) => {}
    }
    db.prepare_cached("UPDATE users SET locked = ?2 WHERE id = ?1")?.execute(params![user.as_str(), locked])?;
    let sql = "SELECT coalesce(max(seq), 0) FROM follow_requests INDEXED BY follow_requests_to WHERE followee = ?1";
    let last: i64 = db.prepare_cached(sql)?.query_row([user.as_str()], |row| row.get(0))?;
    let work = job_plan::lock_changed(user, (!locked).then_some(natural(last)));
    jobs::create(db, work, now).map(LockOutcome::Changed)
}

fn sync_topics(db: &Connection, author: &UserId, of_post: &TopicPost) -> rusqlite::Result<()> {
    let sql = "SELECT body FROM posts WHERE id = ?1 AND deleted_at IS NULL";
    let post = db.prepare_cached(sql)?.query_row([integer(of_post.post.0)], |row| super::posts::body(row, 0));
    let post = post.optional()?.filter(|post| post.author == *author && post.topics == of_post.topics);
    let Some(post) = post.filter(|post| post.visibility == Visibility::Public) else { return Ok(()) };
    topics::leave(db, &post)?;
    topics::enter(db, &post)
}
