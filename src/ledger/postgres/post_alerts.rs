//! Alerts about posts. A function of the database queues them: `functions/post_alerts.sql`.

use async_trait::async_trait;

use super::PostgresLedger;
use super::columns::{at, count, id_at, integer, natural_at, one};
use super::pool::Parameters;
use crate::ledger::pushes::ACCEPTED_KEPT;
use crate::ledger::{
    PostAlertJob, PostAlertPage, PostAlertProgress, PostAlertReader, PostAlertStore, PushLease, Result,
};
use crate::model::{Millis, PostId, UserId};

const START: &str = "INSERT INTO post_alert_jobs (post, due_at, created_at) VALUES ($1, $2, $2) ON CONFLICT DO NOTHING";

/// Other processes skip the rows that this statement locks.
const LEASE: &str = "\
    WITH due AS MATERIALIZED (
        SELECT post FROM post_alert_jobs WHERE state = 0 AND due_at <= $1
        ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED
    )
    UPDATE post_alert_jobs j SET holder = $3, due_at = $4 FROM due WHERE j.post = due.post
    RETURNING j.post, j.created_at";

const QUEUE: &str = "SELECT feedline_queue_post_alerts($1, $2, $3, $4, $5, $6, $7, $8)";

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

    async fn lease_post_alerts(&self, now: Millis, lease: &PushLease, limit: usize) -> Result<Vec<PostAlertJob>> {
        let parameters: Parameters<'_> = &[&integer(now), &count(limit), &&*lease.holder, &integer(lease.until)];
        let rows = self.pool.write(LEASE, parameters).await?;
        let job = |row| Ok(PostAlertJob { post: PostId(natural_at(row, 0)?), created_at: natural_at(row, 1)? });
        let mut jobs: Vec<PostAlertJob> = rows.iter().map(job).collect::<Result<_>>()?;
        jobs.sort_unstable_by_key(|job| job.created_at);
        Ok(jobs)
    }

    async fn queue_post_alerts(&self, page: &PostAlertPage, now: Millis) -> Result<PostAlertProgress> {
        let parameters: Parameters<'_> = &[
            &integer(page.post.0),
            &&*page.lease.holder,
            &integer(page.lease.until),
            &integer(page.renewed_until),
            &integer(now),
            &integer(page.due_at),
            &count(page.users),
            &integer(now.saturating_add(ACCEPTED_KEPT)),
        ];
        let rows = self.pool.write(QUEUE, parameters).await?;
        Ok(match at(one(&rows)?, 0)? {
            "more" => PostAlertProgress::More,
            "done" => PostAlertProgress::Done,
            _ => PostAlertProgress::Lost,
        })
    }

    async fn post_alert_readers(&self, pairs: &[(UserId, UserId)]) -> Result<Vec<PostAlertReader>> {
        let users: Vec<&str> = pairs.iter().map(|(user, _)| user.as_str()).collect();
        let authors: Vec<&str> = pairs.iter().map(|(_, author)| author.as_str()).collect();
        let rows = self.pool.read(READERS, &[&users, &authors]).await?;
        let reader = |row| {
            Ok(PostAlertReader { user: id_at(row, 0)?, author: id_at(row, 1)?, seen: PostId(natural_at(row, 2)?) })
        };
        rows.iter().map(reader).collect()
    }
}
