//! Follows between users.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::columns::{at, count, id_at, integer, natural, one};
use super::events::NewEvent;
use super::relations::with_relations;
use super::statements::Parameters;
use super::{PostgresLedger, jobs, relations};
use crate::ledger::edges::Edge;
use crate::ledger::{
    EdgeWork, FollowOutcome, FollowStore, LedgerError, ListPage, MAX_REQUESTS_BY, MAX_REQUESTS_TO, MergeSource, NewJob,
    REQUEST_QUIET, Result, job_plan,
};
use crate::model::{Millis, PostId, User, UserId};

const FOLLOW: &str = "SELECT outcome, job FROM feedline_follow($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";

const UNFOLLOW: &str = "SELECT feedline_unfollow($1, $2, $3, $4, $5, $6)";

pub(super) const FOLLOWERS: &str = "\
    SELECT coalesce(u.handle, u.id), u.name, u.avatar, u.created_at, f.seq
    FROM (SELECT follower, seq FROM followers WHERE followee = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3) f
    JOIN users u ON u.id = f.follower ORDER BY f.seq DESC";

pub(super) const FOLLOWING: &str = "\
    SELECT coalesce(u.handle, u.id), u.name, u.avatar, u.created_at, f.seq
    FROM (SELECT followee, seq FROM follows WHERE follower = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3) f
    JOIN users u ON u.id = f.followee ORDER BY f.seq DESC";

/// `OFFSET 0` keeps one look-up for each follow: without it the planner may read all followers of a user once.
pub(super) const SHARED: &str = "\
    SELECT coalesce(u.handle, u.id), u.name, u.avatar, u.created_at, f.seq
    FROM (
        SELECT followee, seq FROM follows WHERE follower = $1 AND seq < $3 AND EXISTS (
            SELECT FROM followers WHERE followee = $2 AND follower = follows.followee OFFSET 0
        ) ORDER BY seq DESC LIMIT $4
    ) f
    JOIN users u ON u.id = f.followee ORDER BY f.seq DESC";

/// The newest posts of each author that the reader follows, one look-up for each post.
pub(super) const MERGE_SOURCES: &str = with_relations!(
    ", listed.posts, listed.visibilities",
    "CROSS JOIN LATERAL (
        SELECT array_agg(post ORDER BY post DESC) AS posts, array_agg(visibility ORDER BY post DESC) AS visibilities
        FROM (
            SELECT post FROM author_posts WHERE author_posts.author = pair.author
                AND EXISTS (SELECT FROM follows WHERE follower = pair.reader AND followee = pair.author OFFSET 0)
            ORDER BY post DESC LIMIT $3
        ) newest CROSS JOIN LATERAL (
            SELECT visibility FROM posts WHERE posts.id = newest.post AND deleted_at IS NULL OFFSET 0
        ) one
    ) listed"
);

pub(super) const FANOUT: &str = "\
    SELECT follower FROM followers WHERE followee = $1 AND follower > $2 ORDER BY follower LIMIT $3";

pub(super) const FOLLOWEES: &str = "SELECT followee FROM follows WHERE follower = $1 ORDER BY followee LIMIT $2";

#[async_trait]
impl FollowStore for PostgresLedger {
    async fn follow(
        &self,
        follower: &UserId,
        followee: &UserId,
        now: Millis,
        max_follows: u64,
    ) -> Result<FollowOutcome> {
        let work = job_plan::edge_changed(EdgeWork::Follow, &Edge::new(follower, followee));
        let job = jobs::new_job(&work)?;
        let edge = Edge::new(follower, followee);
        let (events, pending) = NewEvent::all(&[edge.followed(), edge.requested(), edge.request_ended()], self.outlet)?;
        let parameters: Parameters<'_> = &[
            &follower.as_str(),
            &followee.as_str(),
            &job,
            &integer(now),
            &integer(max_follows),
            &integer(REQUEST_QUIET),
            &integer(MAX_REQUESTS_BY),
            &integer(MAX_REQUESTS_TO),
            &events,
            &pending,
        ];
        let rows = self.pool.write(FOLLOW, parameters).await?;
        let row = one(&rows)?;
        match at(row, 0)? {
            "new" => jobs::submitted(&at::<Vec<i64>>(row, 1)?, work, now).map(FollowOutcome::New),
            "unchanged" => Ok(FollowOutcome::Unchanged),
            "requested" => Ok(FollowOutcome::Requested),
            "too_many_requests" => Ok(FollowOutcome::TooManyRequests),
            "asked_too_often" => Ok(FollowOutcome::AskedTooOften),
            "full" => Ok(FollowOutcome::Full),
            "no_user" => Ok(FollowOutcome::NoUser),
            "blocked" => Ok(FollowOutcome::Blocked),
            "blocks" => Ok(FollowOutcome::Blocks),
            other => Err(LedgerError::Failed(format!("a follow is {other:?}"))),
        }
    }

    async fn unfollow(&self, follower: &UserId, followee: &UserId, now: Millis) -> Result<Option<NewJob>> {
        let work = job_plan::edge_changed(EdgeWork::Unfollow, &Edge::new(follower, followee));
        let job = jobs::new_job(&work)?;
        let edge = Edge::new(follower, followee);
        let (events, pending) = NewEvent::all(&[edge.unfollowed(), edge.request_ended()], self.outlet)?;
        let parameters: Parameters<'_> =
            &[&follower.as_str(), &followee.as_str(), &job, &integer(now), &events, &pending];
        let rows = self.pool.write(UNFOLLOW, parameters).await?;
        at::<Option<Vec<i64>>>(one(&rows)?, 0)?.map(|numbers| jobs::submitted(&numbers, work, now)).transpose()
    }

    async fn merge_sources(&self, pairs: &[(UserId, UserId)], limit: usize) -> Result<Vec<MergeSource>> {
        let (readers, authors) = relations::columns(pairs);
        let rows = self.pool.read(MERGE_SOURCES, &[&readers, &authors, &count(limit)]).await?;
        rows.iter().map(merge_source).collect()
    }

    async fn followers(&self, user: &UserId, before: Option<i64>, limit: usize) -> Result<ListPage<User>> {
        self.list(FOLLOWERS, user, before, limit).await
    }

    async fn following(&self, user: &UserId, before: Option<i64>, limit: usize) -> Result<ListPage<User>> {
        self.list(FOLLOWING, user, before, limit).await
    }

    async fn shared_followers(
        &self,
        reader: &UserId,
        user: &UserId,
        before: Option<i64>,
        limit: usize,
    ) -> Result<ListPage<User>> {
        self.listed(SHARED, &[&reader.as_str(), &user.as_str(), &before.unwrap_or(i64::MAX)], limit).await
    }

    async fn followees(&self, reader: &UserId, limit: usize) -> Result<Vec<UserId>> {
        self.readable_page("follows", FOLLOWEES, &[&reader.as_str()], limit, |row| id_at(row, 0)).await
    }

    async fn followers_after(&self, author: &UserId, cursor: &str, limit: usize) -> Result<Vec<UserId>> {
        self.readable_page("followers", FANOUT, &[&author.as_str(), &cursor], limit, |row| id_at(row, 0)).await
    }
}

fn merge_source(row: &Row) -> Result<MergeSource> {
    let posts: Option<Vec<i64>> = at(row, 9)?;
    let visibilities: Option<Vec<&str>> = at(row, 10)?;
    let posts = posts.into_iter().flatten().map(|post| PostId(natural(post)));
    Ok(MergeSource::new(relations::relation(row)?, posts.zip(visibilities.into_iter().flatten())))
}

impl PostgresLedger {
    /// A page of [`FOLLOWERS`] or [`FOLLOWING`]. The numbers of one user become visible in ascending order, so no
    /// follow appears later within a page that was already read.
    async fn list(
        &self,
        sql: &'static str,
        whose: &UserId,
        before: Option<i64>,
        limit: usize,
    ) -> Result<ListPage<User>> {
        self.listed(sql, &[&whose.as_str(), &before.unwrap_or(i64::MAX)], limit).await
    }
}
