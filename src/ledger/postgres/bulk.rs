//! Bulk loading.

use async_trait::async_trait;

use super::PostgresLedger;
use super::columns::{integer, json_text, shown};
use crate::ledger::bulk::ROWS_PER_TRANSACTION;
use crate::ledger::{BulkLoad, Result};
use crate::model::{Millis, Post, UserId};

const USERS: &str = "\
    WITH made AS (
        INSERT INTO users (id, handle, name, created_at)
        SELECT lower(shown COLLATE \"C\"), nullif(shown, lower(shown COLLATE \"C\")), shown, $2
        FROM unnest($1::text[]) AS t (shown)
        ON CONFLICT DO NOTHING RETURNING id
    )
    INSERT INTO user_terms (term, owner) SELECT id, id FROM made";

const FOLLOWS: &str = "\
    WITH locked AS MATERIALIZED (
        SELECT id FROM users WHERE id = ANY ($1) OR id = ANY ($2) ORDER BY id FOR NO KEY UPDATE
    ), made AS (
        INSERT INTO follows (follower, followee, seq, at)
        SELECT follower, followee, nextval('follows_seq'), $3
        FROM unnest($1::text[], $2::text[]) AS t (follower, followee)
        WHERE (SELECT count(*) FROM locked) > 0
        ON CONFLICT DO NOTHING RETURNING follower, followee, seq
    ), mirrored AS (
        INSERT INTO followers (followee, follower, seq) SELECT followee, follower, seq FROM made
    ), tally AS (
        SELECT id, sum(following) AS following, sum(followers) AS followers FROM (
            SELECT follower, 1, 0 FROM made UNION ALL SELECT followee, 0, 1 FROM made
        ) AS t (id, following, followers) GROUP BY id
    )
    UPDATE users SET following = users.following + tally.following, followers = users.followers + tally.followers
    FROM tally WHERE users.id = tally.id";

const POSTS: &str = "\
    WITH new AS (
        SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) AS t (id, author, visibility, body)
    ), made AS (
        INSERT INTO posts (id, author, topics, visibility, body) SELECT id, author, '{}', visibility, body FROM new
        RETURNING id, author
    ), listed AS (
        INSERT INTO author_posts (author, post) SELECT author, id FROM made
    ), tally AS (
        SELECT author, count(*) AS posts FROM made GROUP BY author
    )
    UPDATE users SET posts = users.posts + tally.posts FROM tally WHERE users.id = tally.author";

#[async_trait]
impl BulkLoad for PostgresLedger {
    async fn load_users(&self, ids: &[UserId], now: Millis) -> Result<()> {
        for ids in ids.chunks(ROWS_PER_TRANSACTION) {
            self.pool.write(USERS, &[&shown(ids), &integer(now)]).await?;
        }
        Ok(())
    }

    async fn load_follows(&self, edges: &[(UserId, UserId)], now: Millis) -> Result<()> {
        for edges in edges.chunks(ROWS_PER_TRANSACTION) {
            let (followers, followees): (Vec<&str>, Vec<&str>) =
                edges.iter().map(|(from, to)| (from.as_str(), to.as_str())).unzip();
            self.pool.write(FOLLOWS, &[&followers, &followees, &integer(now)]).await?;
        }
        Ok(())
    }

    async fn load_posts(&self, posts: &[Post]) -> Result<()> {
        for posts in posts.chunks(ROWS_PER_TRANSACTION) {
            let ids: Vec<i64> = posts.iter().map(|post| integer(post.id.0)).collect();
            let authors: Vec<&str> = posts.iter().map(|post| post.author.as_str()).collect();
            let visibilities = posts.iter().map(|post| json_text(&post.visibility)).collect::<Result<Vec<_>>>()?;
            let bodies = posts.iter().map(json_text).collect::<Result<Vec<_>>>()?;
            self.pool.write(POSTS, &[&ids, &authors, &visibilities, &bodies]).await?;
        }
        Ok(())
    }
}
