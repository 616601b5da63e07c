//! Alerts about posts. A function of the database queues them: `functions/post_alerts.sql`.

use async_trait::async_trait;

use super::PostgresLedger;
use super::columns::{at, count, id_at, integer, natural_at, one};
use super::pool::Parameters;
use crate::ledger::pushes::ACCEPTED_KEPT;
use crate::ledger::{Fence, PostAlertJob, PostAlertPage, PostAlertProgress, PostAlertReader, PostAlertStore, Result};
use crate::model::{Millis, PostId, UserId};

const START: &str = "INSERT INTO post_alert_jobs (post, at) VALUES ($1, $2) ON CONFLICT DO NOTHING";

const JOBS: &str = "SELECT post, at FROM post_alert_jobs WHERE state = 0 ORDER BY at LIMIT $1";

const QUEUE: &str = "SELECT feedline_queue_post_alerts($1, $2, $3, $4, $5, $6, $7)";

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

    async fn queue_post_alerts(&self, fence: &Fence, page: &PostAlertPage, now: Millis) -> Result<PostAlertProgress> {
        let parameters: Parameters<'_> = &[
            &&*fence.partition,
            &integer(fence.generation),
            &integer(page.post.0),
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
