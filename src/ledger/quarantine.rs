//! The quarantine: jobs and likes that cannot be decoded or always fail. They are set aside with the reason, so that
//! they do not block the entries behind them.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use serde_json::Value;

use super::{Fence, JobId, Result, Reverted, Work};
use crate::model::{LikeChange, Millis};

/// An entry of the quarantine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// The kind: [`JOB`], [`LIKE`] or [`REVERT`].
    pub kind: String,
    /// The name of the entry, unique among those of its kind. The name of a job is its id.
    pub name: String,
    /// The content of the entry, for operators. For a job: its row as JSON.
    pub content: String,
    /// The last error, for operators.
    pub reason: String,
    /// When the entry was quarantined, in Unix milliseconds.
    pub at: Millis,
}

/// A fan-out job. It can be [released](QuarantineStore::release_job).
pub const JOB: &str = "job";

/// An entry of the queue of likes that cannot be settled.
pub const LIKE: &str = "like";

/// A note of a reverted like whose user was to be informed.
pub const REVERT: &str = "revert";

/// The maximal number of entries of each kind. The oldest are dropped.
pub const MAX_QUARANTINED: u64 = 10_000;

impl Quarantined {
    /// An entry that is set aside now.
    pub fn new(kind: &str, name: String, content: String, reason: String) -> Self {
        Self { kind: kind.to_owned(), name, content, reason, at: unix_millis() }
    }
}

/// The clock of this machine.
pub(super) fn unix_millis() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

/// An entry of the queue of likes that is set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedLike {
    /// The partition of the queue of likes.
    pub partition: u16,
    /// The position at which the ledger must stand, as in [`LikeBatch`](super::LikeBatch).
    pub from: String,
    /// The position after the entry.
    pub to: String,
    /// The content of the entry in the queue.
    pub content: String,
    /// The error that prevents the settlement, for operators.
    pub reason: String,
    /// The like, to be noted as reverted. `None` if the entry is not a like, or takes one back.
    pub like: Option<LikeChange>,
    /// The current time, in Unix milliseconds.
    pub now: Millis,
}

/// The quarantine.
#[async_trait]
pub trait QuarantineStore: Send + Sync {
    /// Moves a job to the quarantine. Returns `false`, and changes nothing, if the partition has another owner or the job
    /// is finished.
    async fn quarantine_job(&self, id: JobId, fence: &Fence, reason: &str, now: Millis) -> Result<bool>;

    /// Sets an entry of the queue of likes aside and moves its partition on, in one transaction. The like is noted as
    /// [reverted](super::RevertReason::Failed). Returns the note; `None`, and nothing changes, if the partition does
    /// not stand at `from`.
    async fn skip_like(&self, skipped: &SkippedLike) -> Result<Option<Vec<Reverted>>>;

    /// Adds entries. Those whose kind and name exist already are left as they are.
    async fn quarantine(&self, entries: &[Quarantined]) -> Result<()>;

    /// The oldest entries, oldest first.
    async fn quarantined(&self, limit: usize) -> Result<Vec<Quarantined>>;

    /// Moves a job back among the jobs, for the owner of its partition. The job then compares the post with the current
    /// state of the inboxes, because later jobs of its author may have run since. `false` if there is no such job.
    async fn release_job(&self, id: JobId) -> Result<bool>;

    /// The number of entries.
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
        let (post, author) = (PostId(7), UserId::parse("ann").unwrap());
        let change = Some(VisibilityChange { before: Visibility::Public, after: Visibility::Followers });
        let content =
            |work: &Work| serde_json::json!({ "work": serde_json::to_string(work).unwrap(), "cursor": "" }).to_string();
        let released =
            released_work(&content(&Work::RevokeVisibility { post, author: author.clone(), change })).unwrap();
        let work: Work = serde_json::from_str(&released).unwrap();
        assert_eq!(work, Work::RevokeVisibility { post, author: author.clone(), change: None });
        assert_eq!(released_work(&content(&Work::Post { post, author })), None);
        for unreadable in ["", "{", "{}", r#"{"work":7}"#, r#"{"work":"{}"}"#] {
            assert_eq!(released_work(unreadable), None);
        }
    }
}
