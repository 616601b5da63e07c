//! Locked accounts, and the requests to follow them.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::columns::{at, count, id_at, integer, natural_at, one, texts};
use super::events::NewEvent;
use super::rows::readable;
use super::{PostgresLedger, jobs};
use crate::ledger::edges::Edge;
use crate::ledger::{
    EdgeWork, FollowRequestStore, ListPage, LockOutcome, NewJob, OpenRequest, REQUEST_QUIET, Result, TopicPost, fold,
    job_plan,
};
use crate::model::{Millis, PostId, User, UserId};

const SET_LOCKED: &str = "SELECT outcome, job, last_request FROM feedline_set_locked($1, $2, $3, $4)";

const ACCEPT: &str = "SELECT feedline_accept_request($1, $2, $3, $4, $5, $6, $7)";

const REJECT: &str = "SELECT feedline_reject_request($1, $2, $3, $4, $5, $6)";

const SYNC_TOPICS: &str = "SELECT feedline_sync_topics($1, $2, $3, $4)";

pub(super) const TO: &str = "\
    SELECT coalesce(u.handle, u.id), u.name, u.avatar, u.created_at, r.seq
    FROM (
        SELECT follower, seq FROM follow_requests WHERE followee = $1 AND seq < $2 AND shown_at <= $3
        ORDER BY seq DESC LIMIT $4
    ) r
    JOIN users u ON u.id = r.follower ORDER BY r.seq DESC";

pub(super) const BY: &str = "\
    SELECT coalesce(u.handle, u.id), u.name, u.avatar, u.created_at, r.seq
    FROM (SELECT followee, seq FROM follow_requests WHERE follower = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3) r
    JOIN users u ON u.id = r.followee ORDER BY r.seq DESC";

pub(super) const AMONG: &str =
    "SELECT follower FROM follow_requests WHERE followee = $1 AND follower = ANY ($2) AND shown_at <= $3";

pub(super) const OLDEST: &str =
    "SELECT seq, follower FROM follow_requests WHERE followee = $1 AND seq <= $2 ORDER BY seq LIMIT $3";

pub(super) const NEWEST_POSTS: &str = "\
    SELECT newest.post, one.topics, one.visibility = '\"public\"' AND EXISTS (
        SELECT FROM post_topics
        WHERE topic = one.topics[1] AND post_topics.post = newest.post
          AND public = (SELECT locked FROM users WHERE id = $1) OFFSET 0
    ) FROM (
        SELECT post FROM author_posts WHERE author = $1 AND post < $2 ORDER BY post DESC LIMIT $3
    ) newest CROSS JOIN LATERAL (
        SELECT topics, visibility FROM posts WHERE posts.id = newest.post OFFSET 0
    ) one ORDER BY newest.post DESC";

#[async_trait]
impl FollowRequestStore for PostgresLedger {
    async fn set_locked(&self, user: &UserId, locked: bool, now: Millis) -> Result<LockOutcome> {
        let mut work = job_plan::lock_changed(user, (!locked).then_some(0));
        let job = jobs::new_job(&work)?;
        let rows = self.pool.write(SET_LOCKED, &[&user.as_str(), &locked, &job, &integer(now)]).await?;
        let row = one(&rows)?;
        match at(row, 0)? {
            "changed" => {
                if !locked {
                    work = job_plan::lock_changed(user, Some(natural_at(row, 2)?));
                }
                jobs::submitted(&at::<Vec<i64>>(row, 1)?, work, now).map(LockOutcome::Changed)
            }
            "unchanged" => Ok(LockOutcome::Unchanged),
            _ => Ok(LockOutcome::NoUser),
        }
    }

    async fn requests_to(
        &self,
        user: &UserId,
        now: Millis,
        before: Option<i64>,
        limit: usize,
    ) -> Result<ListPage<User>> {
        self.listed(TO, &[&user.as_str(), &before.unwrap_or(i64::MAX), &integer(now)], limit).await
    }

    async fn requests_by(&self, user: &UserId, before: Option<i64>, limit: usize) -> Result<ListPage<User>> {
        self.listed(BY, &[&user.as_str(), &before.unwrap_or(i64::MAX)], limit).await
    }

    async fn requests_among(&self, user: &UserId, followers: &[UserId], now: Millis) -> Result<Vec<UserId>> {
        let rows = self.pool.read(AMONG, &[&user.as_str(), &texts(followers), &integer(now)]).await?;
        Ok(readable("follow_requests", &rows, |row| id_at(row, 0)))
    }

    async fn accept_request(
        &self,
        follower: &UserId,
        user: &UserId,
        now: Millis,
        shown_at: Option<Millis>,
    ) -> Result<Option<NewJob>> {
        let edge = Edge::new(follower, user);
        let work = job_plan::edge_changed(EdgeWork::Follow, &edge);
        let job = jobs::new_job(&work)?;
        let event = NewEvent::new(Some(&edge.accepted()), self.outlet)?;
        let rows = self
            .pool
            .write(
                ACCEPT,
                &[
                    &follower.as_str(),
                    &user.as_str(),
                    &job,
                    &integer(now),
                    &shown_at.map_or(i64::MAX, integer),
                    &event.text,
                    &event.pending,
                ],
            )
            .await?;
        at::<Option<Vec<i64>>>(one(&rows)?, 0)?.map(|numbers| jobs::submitted(&numbers, work, now)).transpose()
    }

    async fn reject_request(&self, follower: &UserId, user: &UserId, now: Millis) -> Result<bool> {
        let event = NewEvent::new(Some(&Edge::new(follower, user).request_ended()), self.outlet)?;
        let quiet = integer(REQUEST_QUIET);
        let rows = self
            .pool
            .write(REJECT, &[&follower.as_str(), &user.as_str(), &integer(now), &quiet, &event.text, &event.pending])
            .await?;
        at(one(&rows)?, 0)
    }

    async fn oldest_requests(&self, user: &UserId, through: u64, limit: usize) -> Result<Vec<OpenRequest>> {
        let open = |row: &Row| Ok(OpenRequest { seq: natural_at(row, 0)?, follower: id_at(row, 1)? });
        self.readable_page("follow_requests", OLDEST, &[&user.as_str(), &integer(through)], limit, open).await
    }

    async fn posts_out_of_sync(
        &self,
        author: &UserId,
        before: PostId,
        limit: usize,
    ) -> Result<(Vec<TopicPost>, Option<PostId>)> {
        let rows = self.pool.read(NEWEST_POSTS, &[&author.as_str(), &integer(before.0), &count(limit)]).await?;
        let last = rows.last().map(|row| natural_at(row, 0).map(PostId)).transpose()?;
        let mut posts = Vec::new();
        for row in &rows {
            if at(row, 2)? {
                posts.push(TopicPost { post: PostId(natural_at(row, 0)?), topics: at(row, 1)? });
            }
        }
        Ok((posts, last))
    }

    async fn sync_topics(&self, author: &UserId, post: &TopicPost) -> Result<()> {
        let folded: Vec<String> = post.topics.iter().map(|topic| fold(topic)).collect();
        self.pool.write(SYNC_TOPICS, &[&author.as_str(), &integer(post.post.0), &post.topics, &folded]).await.map(drop)
    }
}
