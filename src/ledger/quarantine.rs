//! The quarantine: items of all kinds of work that cannot be decoded, always fail or were given up. They are set aside
//! with the reason, so that they do not block the items behind them, until an operator retries or drops them.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::Value;

use super::{EventConsumer, Fence, JobId, Result, Work};
use crate::model::{Millis, UserId};

/// An item in quarantine. Stores return items as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Quarantined {
    /// Its number. Later items have greater numbers.
    pub id: i64,
    /// The kind of work: one of [`QUARANTINE_KINDS`].
    pub kind: String,
    /// The name of the item, unique among those of its kind.
    pub name: String,
    /// What a retry needs, as JSON. Of a [`LIKE`]: its entry in the queue.
    pub content: String,
    /// The last error, for operators.
    pub reason: String,
    /// The number of attempts, if it was counted; else 0.
    pub attempts: u32,
    /// When the item was quarantined, in Unix milliseconds.
    pub at: Millis,
    /// Whether a running node is to try it again.
    pub is_retried: bool,
}

/// A fan-out job, by its id.
pub const JOB: &str = "job";

/// An entry of the queue of likes that cannot be settled, by its partition and place.
pub const LIKE: &str = "like";

/// A domain event that a consumer could not process, by the consumer and its number.
pub const EVENT: &str = "event";

/// An event of the outlet that a webhook did not take, by the webhook and its position in the log.
pub const WEBHOOK: &str = "webhook";

/// A push that was given up, by user, device and item.
pub const PUSH: &str = "push";

/// The erasure of a user, by the user.
pub const ERASURE: &str = "erasure";

/// The kinds of work that have items in quarantine.
pub const QUARANTINE_KINDS: [&str; 6] = [JOB, LIKE, EVENT, WEBHOOK, PUSH, ERASURE];

/// The maximal number of items of each kind. The oldest are dropped.
pub const MAX_QUARANTINED: u64 = 10_000;

impl Quarantined {
    /// An item that is set aside now.
    pub fn new(kind: &str, name: String, content: String, fault: Fault) -> Self {
        let Fault { reason, attempts, at } = fault;
        Self { id: 0, kind: kind.to_owned(), name, content, reason, attempts, at, is_retried: false }
    }
}

/// Why an item is set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The last error, for operators.
    pub reason: String,
    /// The number of attempts.
    pub attempts: u32,
    /// When the item is set aside, in Unix milliseconds.
    pub at: Millis,
}

impl Fault {
    /// An item that fails for the last time now.
    pub fn now(reason: impl Into<String>, attempts: u32) -> Self {
        Self { reason: reason.into(), attempts, at: unix_millis() }
    }
}

/// Work of the ledger that always fails, or cannot be decoded.
#[derive(Clone, Copy, Debug)]
pub enum FailedWork<'a> {
    /// A job.
    Job(JobId, &'a Fence),
    /// An event, by its number, for a consumer. Other consumers still get it.
    Event(EventConsumer, i64),
    /// An erasure. The user stays erased; the rest of the data stays until a retry.
    Erasure(&'a UserId, &'a Fence),
}

/// When an erasure that is set aside is due.
pub(super) const NEVER: Millis = 253_402_300_799_000;

/// What became of a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryOutcome {
    /// There is no such item in quarantine.
    Absent,
    /// The item left the quarantine and is among the work of its kind again.
    Returned,
    /// A running node puts it back: its work is not in the ledger.
    Requested,
}

impl RetryOutcome {
    /// The outcome for an item of a kind, if it was there.
    pub(super) fn of(kind: &str, was_there: bool) -> Self {
        match kind {
            _ if !was_there => Self::Absent,
            LIKE => Self::Requested,
            _ => Self::Returned,
        }
    }
}

/// The name of an entry of the queue of likes: `place` is its position, with the epoch of the queue.
pub fn like_name(partition: u16, place: &str) -> String {
    format!("{partition}/{}", place.replace(' ', "/"))
}

/// The prefix of the names of what a consumer of the outlet did not take.
pub(super) fn webhook_prefix(consumer: &str) -> String {
    format!("{}/", consumer.strip_prefix("webhook:").unwrap_or(consumer))
}

/// The clock of this machine.
pub(super) fn unix_millis() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

/// The quarantine.
#[async_trait]
pub trait QuarantineStore: Send + Sync {
    /// Moves work to the quarantine. Returns `false`, and changes nothing, if it is done or quarantined already, or its
    /// partition has another owner.
    async fn set_aside(&self, work: FailedWork<'_>, fault: &Fault) -> Result<bool>;

    /// Adds items. Those whose kind and name exist already are left as they are.
    async fn quarantine(&self, items: &[Quarantined]) -> Result<()>;

    /// Items after a number, oldest first: of one kind, or of all.
    async fn quarantined(&self, kind: Option<&str>, after: i64, limit: usize) -> Result<Vec<Quarantined>>;

    /// An item.
    async fn quarantined_item(&self, kind: &str, name: &str) -> Result<Option<Quarantined>>;

    /// Returns an item to the work of its kind, in one transaction, or asks running nodes to do so.
    ///
    /// A job then compares the post with the current state of the inboxes, because later jobs of its author may have
    /// run since.
    async fn retry_quarantined(&self, kind: &str, name: &str, now: Millis) -> Result<RetryOutcome>;

    /// The items that running nodes are to return to their work, oldest first.
    async fn requested_retries(&self, limit: usize) -> Result<Vec<Quarantined>>;

    /// Ends the request for a retry: the item stays, with another reason.
    async fn refuse_retry(&self, kind: &str, name: &str, reason: &str) -> Result<()>;

    /// Drops an item for good. `false` if there is no such item. A dropped erasure is over: what is left of the data
    /// stays.
    async fn drop_quarantined(&self, kind: &str, name: &str) -> Result<bool>;

    /// The number of items.
    async fn quarantine_size(&self) -> Result<u64>;
}

/// The work of a released job. Its change of visibility may be out of date, so it is removed, and the job uses the
/// current visibility of the post. `None`: the work stays as it is.
pub(super) fn released_work(content: &str) -> Option<String> {
    let job: Value = serde_json::from_str(content).ok()?;
    let mut work: Work = serde_json::from_str(job.get("work")?.as_str()?).ok()?;
    match &mut work {
        Work::RevokeVisibility { change, .. } | Work::GrantVisibility { change, .. } => *change = None,
        _ => return None,
    }
    serde_json::to_string(&work).ok()
}

static DROPPED: AtomicU64 = AtomicU64::new(0);

/// How many items this process dropped from the quarantine because a kind had more than [`MAX_QUARANTINED`].
pub fn quarantine_dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// Counts and logs items that were dropped from the quarantine.
pub(super) fn report_dropped(kind: &str, number: u64) {
    if number > 0 {
        DROPPED.fetch_add(number, Ordering::Relaxed);
        tracing::error!(kind, number, "the quarantine is full, its oldest items were dropped");
    }
}

static UNREADABLE_ROWS: AtomicU64 = AtomicU64::new(0);

/// How many rows this process could not decode and omitted. A row counts each time it is read.
pub fn unreadable_rows() -> u64 {
    UNREADABLE_ROWS.load(Ordering::Relaxed)
}

/// Counts and logs a row that cannot be decoded. `row` names it.
pub(super) fn report_unreadable(table: &'static str, row: &dyn Display, error: &dyn Display) {
    UNREADABLE_ROWS.fetch_add(1, Ordering::Relaxed);
    tracing::error!(table, %row, %error, "a row cannot be decoded and is omitted");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::VisibilityChange;
    use crate::model::{PostId, UserId, Visibility};

    #[test]
    fn a_released_job_goes_by_the_current_visibility() {
        let post = PostId(7);
        let author = UserId::parse("ann").unwrap();
        let change = Some(VisibilityChange { before: Visibility::Public, after: Visibility::Followers });
        let content =
            |work: &Work| serde_json::json!({ "work": serde_json::to_string(work).unwrap(), "cursor": "" }).to_string();
        let released =
            released_work(&content(&Work::RevokeVisibility { post, author: author.clone(), change })).unwrap();
        let work: Work = serde_json::from_str(&released).unwrap();
        assert_eq!(work, Work::RevokeVisibility { post, author: author.clone(), change: None });
        assert_eq!(released_work(&content(&Work::Post { post, author, trace: None })), None);
        for unreadable in ["", "{", "{}", r#"{"work":7}"#, r#"{"work":"{}"}"#] {
            assert_eq!(released_work(unreadable), None);
        }
    }
}
