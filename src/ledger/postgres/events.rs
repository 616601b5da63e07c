//! The queue of events. Each write stores its event in the same statement; see the other files.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::PostgresLedger;
use super::columns::{at, count, json_text, natural, natural_at, one};
use crate::ledger::{EventBacklog, EventConsumer, EventStore, QueuedEvent, Result};
use crate::model::DomainEvent;

pub(super) const PENDING: &str = "\
    SELECT seq, at, event FROM events WHERE pending <> 0 AND pending & $1 <> 0 ORDER BY seq LIMIT $2";

const FINISH: &str = "SELECT feedline_finish_events($1, $2)";

const BACKLOG: &str = "SELECT count(*), min(at) FROM events WHERE pending <> 0 AND pending & $1 <> 0";

#[async_trait]
impl EventStore for PostgresLedger {
    async fn pending_events(&self, consumer: EventConsumer, limit: usize) -> Result<Vec<QueuedEvent>> {
        self.pool.read(PENDING, &[&consumer.bit(), &count(limit)]).await?.iter().map(queued).collect()
    }

    async fn finish_events(&self, consumer: EventConsumer, done: &[i64]) -> Result<()> {
        self.pool.write(FINISH, &[&done, &consumer.bit()]).await.map(drop)
    }

    async fn event_backlog(&self, consumer: EventConsumer) -> Result<EventBacklog> {
        let rows = self.pool.read(BACKLOG, &[&consumer.bit()]).await?;
        let row = one(&rows)?;
        Ok(EventBacklog { events: natural_at(row, 0)?, oldest: at::<Option<i64>>(row, 1)?.map(natural) })
    }
}

fn queued(row: &Row) -> Result<QueuedEvent> {
    let event = serde_json::from_str(at::<&str>(row, 2)?).map_err(|error| error.to_string());
    Ok(QueuedEvent { seq: at(row, 0)?, at: natural_at(row, 1)?, event })
}

/// The event that a write stores: its JSON, and the consumers that process it (as bits).
pub(super) struct NewEvent {
    pub(super) text: Option<String>,
    pub(super) pending: i32,
}

impl NewEvent {
    /// `outlet`: whether there is an outlet. An event that no consumer wants is none.
    pub(super) fn new(event: Option<&DomainEvent>, outlet: bool) -> Result<Self> {
        let pending = event.map_or(0, |event| EventConsumer::all_of(event, outlet));
        let event = event.filter(|_| pending != 0);
        Ok(Self { text: event.map(json_text).transpose()?, pending })
    }

    /// Several events as two arrays: their texts, and their consumers.
    pub(super) fn all(events: &[DomainEvent], outlet: bool) -> Result<(Vec<Option<String>>, Vec<i32>)> {
        let events = events.iter().map(|event| Self::new(Some(event), outlet));
        Ok(events.collect::<Result<Vec<_>>>()?.into_iter().map(|event| (event.text, event.pending)).unzip())
    }
}

/// Builds a statement that calls the function `$made`, returns its `$columns`, and stores an event in the same
/// transaction if `$when` holds for them. `$at`, `$event` and `$pending` are the parameters for the time, the event as
/// JSON (NULL: none) and its consumers.
#[rustfmt::skip]
macro_rules! with_event {
    ($columns:literal, $made:literal, $when:literal, $at:literal, $event:literal, $pending:literal) => {
        concat!(
            "WITH answer AS MATERIALIZED (SELECT ", $columns, " FROM ", $made, "), happened AS (
                 INSERT INTO events (at, event, pending)
                 SELECT ", $at, "::bigint, ", $event, "::text, ", $pending, "::int FROM answer
                 WHERE (", $when, ") AND ", $event, "::text IS NOT NULL
             ) SELECT ", $columns, " FROM answer"
        )
    };
}
pub(super) use with_event;
