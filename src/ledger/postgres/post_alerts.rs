//! Alerts about posts.

use std::collections::HashMap;

use async_trait::async_trait;

use super::PostgresLedger;
use super::columns::{count, id_at, integer, natural_at};
use super::pool::Parameters;
use crate::ledger::pushes::ACCEPTED_KEPT;
use crate::ledger::{Fence, PostAlertJob, PostAlertPage, PostAlertStore, Result};
use crate::model::{Millis, PostId, UserId};

const START: &str = "INSERT INTO post_alert_jobs (post, at) VALUES ($1, $2) ON CONFLICT DO NOTHING";

const JOBS: &str = "SELECT post, at FROM post_alert_jobs WHERE state = 0 ORDER BY at LIMIT $1";

const QUEUE: &str = "\
    WITH job AS MATERIALIZED (
        SELECT post, cursor FROM post_alert_jobs
        WHERE post = $3 AND state = 0
            AND EXISTS (SELECT FROM work_partitions WHERE name = $1 AND generation = $2) FOR UPDATE
    ), page AS MATERIALIZED (
        SELECT next.owner FROM job JOIN posts p ON p.id = job.post AND p.deleted_at IS NULL
        CROSS JOIN LATERAL (
            SELECT a.owner FROM post_alerts_of a WHERE a.author = p.author AND a.owner > job.cursor
            ORDER BY a.owner LIMIT $6) next
    ), queued AS (
        INSERT INTO push_queue (owner, device, item, kind, seq, state, due_at, queued_at)
        SELECT d.owner, d.id, $3, 'post', 1, 0, $5, $4 FROM page JOIN devices d ON d.owner = page.owner
        ORDER BY d.owner, d.id ON CONFLICT DO NOTHING
    )
    UPDATE post_alert_jobs j SET cursor = coalesce(last.owner, ''),
        state = CASE WHEN last.owner IS NULL THEN 1 ELSE 0 END,
        at = CASE WHEN last.owner IS NULL THEN $7 ELSE j.at END
    FROM job, (SELECT max(owner) AS owner FROM page) last WHERE j.post = job.post RETURNING 1";

const READERS: &str = "\
    SELECT p.owner, p.author, coalesce(m.post, 0)
    FROM unnest($1::text[], $2::text[]) AS p (owner, author)
    JOIN post_alerts a ON a.owner = p.owner AND a.author = p.author
    LEFT JOIN read_markers m ON m.owner = p.owner";

#[async_trait]
impl PostAlertStore for PostgresLedger {
    async fn start_post_alerts(&self, post: PostId, now: Millis) -> Result<()> {
        self.pool.write(START, &[&integer(post.0), &integer(now)]).await.map(drop)
    }

    async fn post_alert_jobs(&self, limit: usize) -> Result<Vec<PostAlertJob>> {
        let rows = self.pool.read(JOBS, &[&count(limit)]).await?;
        let job = |row| Ok(PostAlertJob { post: PostId(natural_at(row, 0)?), created_at: natural_at(row, 1)? });
        rows.iter().map(job).collect()
    }

    async fn queue_post_alerts(&self, fence: &Fence, page: &PostAlertPage, now: Millis) -> Result<bool> {
        let (generation, kept_until) = (integer(fence.generation), integer(now.saturating_add(ACCEPTED_KEPT)));
        let (post, due_at, users) = (integer(page.post.0), integer(page.due_at), count(page.users));
        let parameters: Parameters<'_> =
            &[&&*fence.partition, &generation, &post, &integer(now), &due_at, &users, &kept_until];
        Ok(!self.pool.write(QUEUE, parameters).await?.is_empty())
    }

    async fn post_alert_readers(&self, pairs: &[(UserId, UserId)]) -> Result<HashMap<(UserId, UserId), PostId>> {
        let users: Vec<&str> = pairs.iter().map(|(user, _)| user.as_str()).collect();
        let authors: Vec<&str> = pairs.iter().map(|(_, author)| author.as_str()).collect();
        let rows = self.pool.read(READERS, &[&users, &authors]).await?;
        rows.iter().map(|row| Ok(((id_at(row, 0)?, id_at(row, 1)?), PostId(natural_at(row, 2)?)))).collect()
    }
}
