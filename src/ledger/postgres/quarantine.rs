//! The quarantine.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::PostgresLedger;
use super::columns::{at, count, integer, natural_at, one, plain};
use super::pool::Parameters;
use crate::ledger::quarantine::{MAX_QUARANTINED, released_work};
use crate::ledger::{Fence, JOB, JobId, QuarantineStore, Quarantined, Result, RevertReason, Reverted, SkippedLike};
use crate::model::Millis;

const QUARANTINE_JOB: &str = "SELECT feedline_quarantine_job($1, $2, $3, $4, $5, $6)";

const SKIP_LIKE: &str = "\
    SELECT moved, note FROM feedline_skip_like($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";

const PUT: &str = "\
    INSERT INTO quarantine (kind, name, content, reason, at) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (kind, name) DO NOTHING";

const TRIM: &str = "SELECT feedline_trim_quarantine($1, $2)";

const LIST: &str = "SELECT kind, name, content, reason, at FROM quarantine ORDER BY id LIMIT $1";

const CONTENT: &str = "SELECT content FROM quarantine WHERE kind = $1 AND name = $2";

const RELEASE: &str = "SELECT feedline_release_job($1, $2)";

const SIZE: &str = "SELECT count(*) FROM quarantine";

#[async_trait]
impl QuarantineStore for PostgresLedger {
    async fn quarantine_job(&self, id: JobId, fence: &Fence, reason: &str, now: Millis) -> Result<bool> {
        let (partition, generation) = (&*fence.partition, integer(fence.generation));
        let parameters: Parameters<'_> =
            &[&integer(id.0), &partition, &generation, &plain(reason), &integer(now), &KEPT];
        at(one(&self.pool.write(QUARANTINE_JOB, parameters).await?)?, 0)
    }

    async fn skip_like(&self, skipped: &SkippedLike) -> Result<Option<Vec<Reverted>>> {
        let SkippedLike { partition, from, to, content, reason, like, now } = skipped;
        let (number, name, now) = (i32::from(*partition), format!("{partition} {to}"), integer(*now));
        let (content, why) = (plain(content), plain(reason));
        let (owner, object) =
            (like.as_ref().map(|like| like.user.as_str()), like.as_ref().map(|it| it.object.to_text()));
        let failed = RevertReason::Failed;
        let parameters: Parameters<'_> =
            &[&number, from, to, &name, &content, &why, &now, &KEPT, &owner, &object, &failed.as_str()];
        let rows = self.pool.write(SKIP_LIKE, parameters).await?;
        let row = one(&rows)?;
        if !at::<bool>(row, 0)? {
            return Ok(None);
        }
        let note = at::<Option<i64>>(row, 1)?.zip(like.as_ref());
        let reverted = |(id, like): (i64, &crate::model::LikeChange)| Reverted {
            id,
            user: like.user.clone(),
            object: like.object,
            reason: failed,
        };
        Ok(Some(note.map(reverted).into_iter().collect()))
    }

    async fn quarantine(&self, entries: &[Quarantined]) -> Result<()> {
        for entry in entries {
            let (content, reason) = (plain(&entry.content), plain(&entry.reason));
            self.pool.write(PUT, &[&entry.kind, &entry.name, &content, &reason, &integer(entry.at)]).await?;
        }
        if let Some(last) = entries.last() {
            self.pool.write(TRIM, &[&last.kind, &KEPT]).await?;
        }
        Ok(())
    }

    async fn quarantined(&self, limit: usize) -> Result<Vec<Quarantined>> {
        let rows = self.pool.read(LIST, &[&count(limit)]).await?;
        rows.iter().map(quarantined).collect()
    }

    async fn release_job(&self, id: JobId) -> Result<bool> {
        let rows = self.pool.read(CONTENT, &[&JOB, &id.to_string()]).await?;
        let Some(row) = rows.first() else { return Ok(false) };
        let work = released_work(at(row, 0)?);
        at(one(&self.pool.write(RELEASE, &[&integer(id.0), &work]).await?)?, 0)
    }

    async fn quarantine_size(&self) -> Result<u64> {
        natural_at(one(&self.pool.read(SIZE, &[]).await?)?, 0)
    }
}

#[allow(clippy::cast_possible_wrap, reason = "a small constant")]
const KEPT: i64 = MAX_QUARANTINED as i64;

fn quarantined(row: &Row) -> Result<Quarantined> {
    Ok(Quarantined {
        kind: at(row, 0)?,
        name: at(row, 1)?,
        content: at(row, 2)?,
        reason: at(row, 3)?,
        at: natural_at(row, 4)?,
    })
}
