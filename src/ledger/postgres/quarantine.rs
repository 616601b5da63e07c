//! The quarantine.

use async_trait::async_trait;
use tokio_postgres::types::ToSql;

use super::PostgresLedger;
use super::columns::{count, integer, json_at, natural_at, one, plain};
use super::statements::Parameters;
use crate::ledger::quarantine::{MAX_QUARANTINED, NEVER, released_work, report_dropped};
use crate::ledger::{
    ERASURE, EVENT, EventStore as _, FailedWork, Fault, Fence, JOB, LIKE, PUSH, QuarantineStore, Quarantined, Result,
    RetryOutcome, WEBHOOK,
};
use crate::model::Millis;

/// Quarantines the rows of `gone`, in place of items of the same names. `$1` is the reason, `$2` the attempts, `$3` the
/// time.
macro_rules! set_aside {
    ($gone:literal, $kind:literal, $name:literal, $content:literal) => {
        concat!(
            "WITH gone AS (",
            $gone,
            ")
            INSERT INTO quarantine (kind, name, content, reason, attempts, at)
            SELECT ",
            $kind,
            ", ",
            $name,
            ", json_build_object(",
            $content,
            ")::text, $1::text, $2::bigint, $3::bigint FROM gone
            ON CONFLICT (kind, name) DO UPDATE SET content = excluded.content, reason = excluded.reason,
                attempts = excluded.attempts, at = excluded.at, is_retried = false
            RETURNING 1"
        )
    };
}

const JOB_ASIDE: &str = set_aside!(
    "DELETE FROM jobs WHERE id = $4
        AND EXISTS (SELECT FROM work_partitions WHERE name = $5 AND generation = $6) RETURNING *",
    "'job'",
    "id::text",
    "'work', work, 'author', author, 'partition', partition, 'created_at', created_at"
);

const EVENT_ASIDE: &str = set_aside!(
    "SELECT seq, at, event FROM events WHERE seq = $4 AND pending & $5::int <> 0 FOR UPDATE",
    "'event'",
    "$6::text || '/' || seq",
    "'seq', seq, 'pending', $5::int, 'at', at, 'event', event"
);

const ERASURE_ASIDE: &str = set_aside!(
    "UPDATE erasures SET due_at = $4 WHERE owner = $5 AND due_at <> $4
        AND EXISTS (SELECT FROM work_partitions WHERE name = $6 AND generation = $7) RETURNING owner, at",
    "'erasure'",
    "owner",
    "'at', at"
);

const PUT: &str = "\
    INSERT INTO quarantine (kind, name, content, reason, attempts, at) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (kind, name) DO NOTHING";

const TRIM: &str = "\
    DELETE FROM quarantine WHERE kind = $1 AND id <= (
        SELECT id FROM quarantine WHERE kind = $1 ORDER BY id DESC LIMIT 1 OFFSET $2) RETURNING 1";

/// A query of items.
macro_rules! listing {
    ($condition:literal) => {
        concat!("SELECT to_json(q)::text FROM quarantine q WHERE ", $condition)
    };
}

const LIST: &str = listing!("id > $1 ORDER BY id LIMIT $2");

const LIST_KIND: &str = listing!("kind = $1 AND id > $2 ORDER BY id LIMIT $3");

const ITEM: &str = listing!("kind = $1 AND name = $2");

const REQUESTED: &str = listing!("is_retried ORDER BY id LIMIT $1");

const REQUEST: &str = "UPDATE quarantine SET is_retried = true WHERE kind = $1 AND name = $2 RETURNING 1";

/// Removes an item, and returns the work of its content `c` to its queue.
macro_rules! retry {
    ($returned:literal) => {
        concat!(
            "WITH kept AS (
                DELETE FROM quarantine WHERE kind = $1 AND name = $2 RETURNING name, content::json AS c
            ), returned AS (",
            $returned,
            ") SELECT 1 FROM kept"
        )
    };
}

/// The owner of its partition reads it again, although later ones are finished.
const RETRY_JOB: &str = retry!(
    "INSERT INTO jobs (id, partition, author, work, created_at) OVERRIDING SYSTEM VALUE
        SELECT name::bigint, (c ->> 'partition')::smallint, c ->> 'author', coalesce($3, c ->> 'work'),
            (c ->> 'created_at')::bigint FROM kept
    ), lowered AS (
        UPDATE work_partitions p SET floor = least(p.floor, kept.name::bigint - 1)
        FROM kept WHERE p.name = 'fanout/' || (c ->> 'partition')"
);

/// Another consumer may not have processed the event yet.
const RETRY_EVENT: &str = retry!(
    "INSERT INTO events AS e (seq, at, event, pending) OVERRIDING SYSTEM VALUE
        SELECT (c ->> 'seq')::bigint, (c ->> 'at')::bigint, c ->> 'event', (c ->> 'pending')::int FROM kept
        ON CONFLICT (seq) DO UPDATE SET pending = e.pending | excluded.pending"
);

/// Later entries of the owner wait behind it again.
const RETRY_WEBHOOK: &str = retry!(
    "INSERT INTO outlet_held (consumer, position, at, kind, owner, body, held_at, attempts, due_at, reason)
        SELECT c ->> 'consumer', (c ->> 'position')::bigint, (c ->> 'at')::bigint, c ->> 'kind', c ->> 'owner',
            c ->> 'body', $3::bigint, 0, $3::bigint, 'sent again by an operator' FROM kept
        ON CONFLICT DO NOTHING"
);

/// A group that has grown since may be queued already.
const RETRY_PUSH: &str = retry!(
    "INSERT INTO push_queue AS q (owner, device, item, kind, seq, state, due_at, queued_at)
        SELECT c ->> 'user', c ->> 'device', (c ->> 'item')::bigint, c ->> 'kind', (c ->> 'seq')::bigint, 0,
            $3::bigint, $3::bigint FROM kept
        ON CONFLICT (owner, device, item) DO UPDATE SET state = 0, seq = greatest(q.seq, excluded.seq),
            due_at = excluded.due_at, queued_at = excluded.queued_at, attempts = 0, first_tried_at = 0
        WHERE q.state = 1"
);

const RETRY_ERASURE: &str = retry!("UPDATE erasures e SET due_at = 0 FROM kept WHERE e.owner = kept.name");

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
    async fn set_aside(&self, work: FailedWork<'_>, fault: &Fault) -> Result<bool> {
        let reason = plain(&fault.reason);
        let attempts = i64::from(fault.attempts);
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&reason, &attempts];
        let at = integer(fault.at);
        parameters.push(&at);
        let fence_of = |fence: &Fence| (fence.partition.to_string(), integer(fence.generation));
        let (kind, rows) = match work {
            FailedWork::Job(id, fence) => {
                let (id, (partition, generation)) = (integer(id.0), fence_of(fence));
                let own: Parameters<'_> = &[&id, &partition, &generation];
                (JOB, self.pool.write(JOB_ASIDE, &[&parameters, own].concat()).await?)
            }
            FailedWork::Event(consumer, seq) => {
                let bit = consumer.bit();
                let name = consumer.name();
                let own: Parameters<'_> = &[&seq, &bit, &name];
                let rows = self.pool.write(EVENT_ASIDE, &[&parameters, own].concat()).await?;
                // If this fails, the consumer processes the event again.
                self.finish_events(consumer, &[seq]).await?;
                (EVENT, rows)
            }
            FailedWork::Erasure(user, fence) => {
                let (never, user, (partition, generation)) = (integer(NEVER), user.as_str(), fence_of(fence));
                let own: Parameters<'_> = &[&never, &user, &partition, &generation];
                (ERASURE, self.pool.write(ERASURE_ASIDE, &[&parameters, own].concat()).await?)
            }
        };
        if !rows.is_empty() {
            self.trim_quarantine(kind).await;
        }
        Ok(!rows.is_empty())
    }

    async fn quarantine(&self, items: &[Quarantined]) -> Result<()> {
        for Quarantined { kind, name, content, reason, attempts, at, .. } in items {
            let content = plain(content);
            let reason = plain(reason);
            let attempts = i64::from(*attempts);
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
        rows.iter().map(|row| json_at(row, 0)).collect()
    }

    async fn quarantined_item(&self, kind: &str, name: &str) -> Result<Option<Quarantined>> {
        self.pool.read(ITEM, &[&kind, &name]).await?.first().map(|row| json_at(row, 0)).transpose()
    }

    async fn retry_quarantined(&self, kind: &str, name: &str, now: Millis) -> Result<RetryOutcome> {
        let now = integer(now);
        let rows = match kind {
            LIKE => self.pool.write(REQUEST, &[&kind, &name]).await?,
            JOB => {
                let job = self.quarantined_item(kind, name).await?;
                let work = job.and_then(|job| released_work(&job.content));
                self.pool.write(RETRY_JOB, &[&kind, &name, &work]).await?
            }
            EVENT => self.pool.write(RETRY_EVENT, &[&kind, &name]).await?,
            WEBHOOK => self.pool.write(RETRY_WEBHOOK, &[&kind, &name, &now]).await?,
            PUSH => self.pool.write(RETRY_PUSH, &[&kind, &name, &now]).await?,
            ERASURE => self.pool.write(RETRY_ERASURE, &[&kind, &name]).await?,
            _ => Vec::new(),
        };
        Ok(RetryOutcome::of(kind, !rows.is_empty()))
    }

    async fn requested_retries(&self, limit: usize) -> Result<Vec<Quarantined>> {
        self.pool.read(REQUESTED, &[&count(limit)]).await?.iter().map(|row| json_at(row, 0)).collect()
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
