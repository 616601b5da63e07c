//! The quarantine. Functions of the database: `functions/quarantine.sql`.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::PostgresLedger;
use super::columns::{at, count, integer, natural_at, one, plain};
use super::pool::Parameters;
use crate::ledger::pushes::ACCEPTED_KEPT;
use crate::ledger::quarantine::{MAX_QUARANTINED, NEVER, released_work, report_dropped};
use crate::ledger::{
    ERASURE, EVENT, Erasure, EventConsumer, Fault, Fence, JOB, JobId, POST_ALERT, PostAlertJob, QuarantineStore,
    Quarantined, Result, RetryOutcome,
};
use crate::model::Millis;

const QUARANTINE_JOB: &str = "SELECT feedline_quarantine_job($1, $2, $3, $4, $5, $6)";

const QUARANTINE_EVENT: &str = "SELECT feedline_quarantine_event($1, $2, $3, $4, $5, $6)";

const QUARANTINE_POST_ALERT: &str = "SELECT feedline_quarantine_post_alert($1, $2, $3, $4, $5)";

const QUARANTINE_ERASURE: &str = "SELECT feedline_quarantine_erasure($1, $2, $3, $4, $5, $6, $7)";

const PUT: &str = "\
    INSERT INTO quarantine (kind, name, content, reason, attempts, at) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (kind, name) DO NOTHING";

const TRIM: &str = "\
    DELETE FROM quarantine WHERE kind = $1 AND id <= (
        SELECT id FROM quarantine WHERE kind = $1 ORDER BY id DESC LIMIT 1 OFFSET $2) RETURNING 1";

/// A query of items.
macro_rules! listing {
    ($condition:literal) => {
        concat!("SELECT id, kind, name, content, reason, attempts, at, is_retried FROM quarantine WHERE ", $condition)
    };
}

const LIST: &str = listing!("id > $1 ORDER BY id LIMIT $2");

const LIST_KIND: &str = listing!("kind = $1 AND id > $2 ORDER BY id LIMIT $3");

const ITEM: &str = listing!("kind = $1 AND name = $2");

const REQUESTED: &str = listing!("kind = $1 AND is_retried ORDER BY id LIMIT $2");

const RETRY: &str = "SELECT feedline_retry_quarantined($1, $2, $3, $4)";

const REFUSE: &str = "UPDATE quarantine SET is_retried = false, reason = $3 WHERE kind = $1 AND name = $2";

/// An erasure that is dropped is over.
const DROP: &str = "\
    WITH gone AS (DELETE FROM quarantine WHERE kind = $1 AND name = $2 RETURNING kind, name),
    ended AS (
        DELETE FROM erasures USING gone
        WHERE gone.kind = 'erasure' AND erasures.owner = gone.name AND erasures.due_at = $3
    )
    SELECT 1 FROM gone";

const SIZE: &str = "SELECT count(*) FROM quarantine";

impl PostgresLedger {
    /// Drops the oldest items of a kind, beyond the maximum. If it fails, the next item of this kind drops them.
    pub(super) async fn trim_quarantine(&self, kind: &str) {
        match self.pool.write(TRIM, &[&kind, &integer(MAX_QUARANTINED)]).await {
            Ok(dropped) => report_dropped(kind, dropped.len() as u64),
            Err(error) => tracing::warn!(%error, kind, "the quarantine could not be trimmed"),
        }
    }
}

#[async_trait]
impl QuarantineStore for PostgresLedger {
    async fn quarantine_job(&self, id: JobId, fence: &Fence, fault: &Fault) -> Result<bool> {
        let (partition, generation) = (&*fence.partition, integer(fence.generation));
        let (reason, attempts, now) = columns(fault);
        let parameters: Parameters<'_> = &[&integer(id.0), &partition, &generation, &reason, &attempts, &now];
        let was_moved = at(one(&self.pool.write(QUARANTINE_JOB, parameters).await?)?, 0)?;
        if was_moved {
            self.trim_quarantine(JOB).await;
        }
        Ok(was_moved)
    }

    async fn quarantine_event(&self, consumer: EventConsumer, seq: i64, fault: &Fault) -> Result<()> {
        let (reason, attempts, now) = columns(fault);
        let parameters: Parameters<'_> = &[&seq, &consumer.name(), &consumer.bit(), &reason, &attempts, &now];
        self.pool.write(QUARANTINE_EVENT, parameters).await?;
        self.trim_quarantine(EVENT).await;
        Ok(())
    }

    async fn quarantine_post_alert(&self, job: &PostAlertJob, fault: &Fault) -> Result<()> {
        let (reason, attempts, now) = columns(fault);
        let until = integer(fault.at.saturating_add(ACCEPTED_KEPT));
        let parameters: Parameters<'_> = &[&integer(job.post.0), &reason, &attempts, &now, &until];
        self.pool.write(QUARANTINE_POST_ALERT, parameters).await?;
        self.trim_quarantine(POST_ALERT).await;
        Ok(())
    }

    async fn quarantine_erasure(&self, fence: &Fence, erasure: &Erasure, fault: &Fault) -> Result<()> {
        let (reason, attempts, now) = columns(fault);
        let (name, generation, user) = (&*fence.partition, integer(fence.generation), erasure.user.as_str());
        let parameters: Parameters<'_> = &[&name, &generation, &user, &reason, &attempts, &now, &integer(NEVER)];
        self.pool.write(QUARANTINE_ERASURE, parameters).await?;
        self.trim_quarantine(ERASURE).await;
        Ok(())
    }

    async fn quarantine(&self, items: &[Quarantined]) -> Result<()> {
        for Quarantined { kind, name, content, reason, attempts, at, .. } in items {
            let (content, reason, attempts) = (plain(content), plain(reason), i64::from(*attempts));
            self.pool.write(PUT, &[kind, name, &content, &reason, &attempts, &integer(*at)]).await?;
        }
        if let Some(last) = items.last() {
            self.trim_quarantine(&last.kind).await;
        }
        Ok(())
    }

    async fn quarantined(&self, kind: Option<&str>, after: i64, limit: usize) -> Result<Vec<Quarantined>> {
        let rows = match kind {
            Some(kind) => self.pool.read(LIST_KIND, &[&kind, &after, &count(limit)]).await?,
            None => self.pool.read(LIST, &[&after, &count(limit)]).await?,
        };
        rows.iter().map(quarantined).collect()
    }

    async fn quarantined_item(&self, kind: &str, name: &str) -> Result<Option<Quarantined>> {
        self.pool.read(ITEM, &[&kind, &name]).await?.first().map(quarantined).transpose()
    }

    async fn retry_quarantined(&self, kind: &str, name: &str, now: Millis) -> Result<RetryOutcome> {
        let job = if kind == JOB { self.quarantined_item(kind, name).await? } else { None };
        let work = job.and_then(|job| released_work(&job.content));
        let rows = self.pool.write(RETRY, &[&kind, &name, &work, &integer(now)]).await?;
        Ok(match at(one(&rows)?, 0)? {
            "returned" => RetryOutcome::Returned,
            "requested" => RetryOutcome::Requested,
            _ => RetryOutcome::Absent,
        })
    }

    async fn requested_retries(&self, kind: &str, limit: usize) -> Result<Vec<Quarantined>> {
        self.pool.read(REQUESTED, &[&kind, &count(limit)]).await?.iter().map(quarantined).collect()
    }

    async fn refuse_retry(&self, kind: &str, name: &str, reason: &str) -> Result<()> {
        self.pool.write(REFUSE, &[&kind, &name, &plain(reason)]).await.map(drop)
    }

    async fn drop_quarantined(&self, kind: &str, name: &str) -> Result<bool> {
        Ok(!self.pool.write(DROP, &[&kind, &name, &integer(NEVER)]).await?.is_empty())
    }

    async fn quarantine_size(&self) -> Result<u64> {
        natural_at(one(&self.pool.read(SIZE, &[]).await?)?, 0)
    }
}

/// The reason, the attempts and the time of a fault.
fn columns(fault: &Fault) -> (String, i64, i64) {
    (plain(&fault.reason), i64::from(fault.attempts), integer(fault.at))
}

fn quarantined(row: &Row) -> Result<Quarantined> {
    Ok(Quarantined {
        id: at(row, 0)?,
        kind: at(row, 1)?,
        name: at(row, 2)?,
        content: at(row, 3)?,
        reason: at(row, 4)?,
        attempts: u32::try_from(natural_at(row, 5)?).unwrap_or(u32::MAX),
        at: natural_at(row, 6)?,
        is_retried: at(row, 7)?,
    })
}
