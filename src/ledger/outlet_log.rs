//! The outlet: a log of what happened in the feed, for consumers outside of Feedline.
//!
//! Writes put events into the [queue](super::EventStore) in their own transaction. One process at a time takes those
//! that wait for [`EventConsumer::Outlet`](super::EventConsumer::Outlet) and appends them to the log. Positions of the
//! log become visible in ascending order, so that a consumer needs only a cursor.
//!
//! A consumer that delivers in parallel holds entries that were not taken: its cursor passes them, and they are sent
//! again, in order for each owner, until they are delivered or given up.

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::quarantine::webhook_prefix;
use super::{Fault, Fence, Quarantined, Result, WEBHOOK};
use crate::model::{DomainEvent, EventOwner, Millis};

/// The number of entries that one consumer holds at most, besides those that were given up. With more, it gets no new
/// entries of the log until some are delivered.
pub const MAX_HELD_ENTRIES: u64 = 10_000;

/// How long entries are held, and those that were given up are kept in quarantine.
pub const HELD_ENTRIES_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// An event to be appended to the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewOutletEntry {
    /// The number of the event in the queue.
    pub event: i64,
    /// When it happened, in Unix milliseconds.
    pub at: Millis,
    /// The public name of its type.
    pub kind: String,
    /// Whose events are kept in order.
    pub owner: EventOwner,
    /// A JSON object with at least one member, and without `id`.
    pub body: String,
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutletEntry {
    /// Its position, from 1.
    pub position: u64,
    /// When it happened, in Unix milliseconds.
    pub at: Millis,
    /// The public name of its type.
    pub kind: String,
    /// Whose events are kept in order.
    pub owner: EventOwner,
    /// A JSON object without `id`.
    pub body: String,
}

impl OutletEntry {
    /// The event as consumers receive it: its position is its id.
    pub fn json(&self) -> String {
        format!("{{\"id\":\"{}\",{}", self.position, self.body.strip_prefix('{').unwrap_or_default())
    }
}

/// The end of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutletEnd {
    /// The last position; 0: nothing was appended yet.
    pub last: u64,
    /// The last position that was trimmed. A consumer whose cursor is below has missed entries.
    pub trimmed: u64,
}

/// An entry that a consumer did not take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldEntry {
    /// The entry.
    #[serde(flatten)]
    pub entry: OutletEntry,
    /// When it was held first, in Unix milliseconds.
    pub held_at: Millis,
    /// The number of attempts so far.
    pub attempts: u32,
    /// When it is sent again. `None`: once the entries of its owner before it are settled.
    pub due_at: Option<Millis>,
    /// Why it was not taken.
    pub reason: String,
}

impl HeldEntry {
    /// The item of an entry that this consumer gives up.
    pub fn give_up(self, consumer: &str, at: Millis) -> Quarantined {
        let Self { entry, attempts, reason, .. } = self;
        let OutletEntry { position, at: happened_at, kind, owner, body } = &entry;
        let content = json!({
            "consumer": consumer, "position": position, "at": happened_at, "kind": kind, "owner": owner, "body": body,
        });
        let reason = format!("given up after {attempts} attempts: {reason}");
        let name = format!("{}{position}", webhook_prefix(consumer));
        Quarantined::new(WEBHOOK, name, content.to_string(), Fault { reason, attempts, at })
    }
}

/// The work of a consumer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct OutletBatch {
    /// The cursor of the consumer.
    pub cursor: u64,
    /// The last position that was trimmed.
    pub trimmed: u64,
    /// The number of entries that it holds, up to [`MAX_HELD_ENTRIES`].
    pub held: u64,
    /// Held entries that are due, the longest due first.
    pub due: Vec<HeldEntry>,
    /// The entries after the cursor; none if it holds [`MAX_HELD_ENTRIES`].
    pub entries: Vec<OutletEntry>,
    /// The owners of `entries` that also have held entries.
    pub owners_held: HashSet<EventOwner>,
}

/// What a consumer did with a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutletSettlement {
    /// The new cursor.
    pub cursor: u64,
    /// Entries that are held from now on, or held longer.
    pub held: Vec<HeldEntry>,
    /// Entries that were [given up](HeldEntry::give_up).
    pub given_up: Vec<Quarantined>,
    /// The positions of held entries that were delivered or given up.
    pub released: Vec<u64>,
}

/// The backlog of a consumer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct OutletBacklog {
    /// The name of the consumer.
    pub consumer: String,
    /// Its cursor.
    pub cursor: u64,
    /// The time of the oldest entry that it did not take, in Unix milliseconds; `None`: it took all.
    pub oldest: Option<Millis>,
    /// The number of entries that it holds.
    pub held: u64,
    /// The number of entries in quarantine.
    pub failed: u64,
}

/// The log of the outlet and its consumers.
#[async_trait]
pub trait OutletStore: Send + Sync {
    /// Puts events into the queue that no other write causes, each with its time.
    async fn append_events(&self, events: &[(Millis, DomainEvent)]) -> Result<()>;

    /// Appends events to the log, in order, and marks `done` as processed, in one transaction. Events that were
    /// processed before are not appended again. Returns `false`, and changes nothing, if the partition has another
    /// owner.
    async fn publish_outlet(
        &self,
        fence: &Fence,
        entries: &[NewOutletEntry],
        done: &[i64],
        now: Millis,
    ) -> Result<bool>;

    /// The end of the log.
    async fn outlet_end(&self) -> Result<OutletEnd>;

    /// The first entries after a position, in order.
    async fn outlet_entries(&self, after: u64, limit: usize) -> Result<Vec<OutletEntry>>;

    /// Removes up to `limit` of the oldest entries, if they were published before a time, and entries that were held or
    /// given up before another. Returns the number of removed entries of the log.
    async fn trim_outlet(&self, before: Millis, held_before: Millis, limit: usize) -> Result<usize>;

    /// Registers consumers. Those that are new begin at the end of the log.
    async fn register_outlet_consumers(&self, names: &[String]) -> Result<()>;

    /// Moves the cursor of a consumer forward, never back; 0 leaves it as it is. Returns the cursor; `None`: it is not
    /// registered.
    async fn advance_outlet_cursor(&self, consumer: &str, to: u64) -> Result<Option<u64>>;

    /// The backlogs of all registered consumers.
    async fn outlet_backlogs(&self) -> Result<Vec<OutletBacklog>>;

    /// The work of a consumer, up to `limit` entries that are due and as many new ones. `None`: it is not registered.
    async fn outlet_batch(&self, consumer: &str, now: Millis, limit: usize) -> Result<Option<OutletBatch>>;

    /// Settles a batch in one transaction. Of an owner whose first held entry was settled, the next one becomes due.
    /// Returns `false`, and changes nothing, if the partition has another owner.
    async fn settle_outlet(
        &self,
        fence: &Fence,
        consumer: &str,
        settlement: &OutletSettlement,
        now: Millis,
    ) -> Result<bool>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_position_is_the_id() {
        let entry = OutletEntry {
            position: 7,
            at: 1,
            kind: "post.created".into(),
            owner: EventOwner::from_stored("ann"),
            body: r#"{"type":"post.created"}"#.into(),
        };
        assert_eq!(entry.json(), r#"{"id":"7","type":"post.created"}"#);
    }
}
