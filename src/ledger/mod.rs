//! The durable store: accounts, posts, edges, and the jobs that deliver posts to inboxes.
//!
//! One trait with one file for each concept, and one conformance suite (`tests/ledger/`). [`SqliteLedger`] is embedded:
//! WAL, one writer with group commit, a few readers. [`PostgresLedger`] serves several nodes: every method is one
//! statement, over a few shared connections. Only this folder contains SQL.

mod bulk;
mod comments;
mod conversations;
mod counts;
mod devices;
mod edges;
mod erasures;
mod events;
mod favourites;
mod filters;
mod follow_requests;
mod idempotency;
mod job_plan;
mod jobs;
mod likes;
mod lineage;
mod lists;
mod nodes;
mod notifications;
mod outlet_log;
mod people;
mod personal;
mod postgres;
mod posts;
mod previews;
mod pull_log;
mod pushes;
mod quarantine;
mod read_markers;
mod reports;
mod reposts;
mod restrictions;
mod revocations;
mod schema_mode;
mod sqlite;
mod standings;
mod topic_follows;
mod topics;
mod transfer;
mod work;

use async_trait::async_trait;

pub use self::bulk::BulkLoad;
pub use self::comments::{CommentEditOutcome, CommentOutcome, CommentStore, DeletedComment, MAX_COMMENT_DEPTH, Thread};
pub use self::conversations::ConversationStore;
pub use self::counts::{CountStore, Hydration};
pub use self::devices::{DeviceRegistration, DeviceSession, DeviceStore};
pub use self::edges::{FollowOutcome, FollowStore, MergeSource};
pub use self::erasures::{Erasure, ErasureBacklog, ErasureStore};
pub use self::events::{EventBacklog, EventConsumer, EventStore, QueuedEvent};
pub use self::favourites::{Favourite, FavouriteHolder, FavouriteOutcome, FavouriteStore};
pub use self::filters::{FilterChange, FilterStore};
pub use self::follow_requests::{
    FollowRequestStore, LockOutcome, MAX_REQUESTS_BY, MAX_REQUESTS_TO, OpenRequest, REQUEST_QUIET, TopicPost,
};
pub use self::idempotency::{BeginOutcome, IdempotencyStore, IdempotentWrite, WriteLease};
pub use self::jobs::{
    Backlog, EdgeWork, FANOUT_PARTITIONS, Job, JobId, JobRequest, JobStore, LoadedJob, NewJob, VisibilityChange, Work,
    fanout_partition,
};
pub use self::likes::{LikeBatch, LikeStore, RevertReason, Reverted, SettledLikes};
pub use self::lineage::{HighWaterMarks, JOBS, Lineage, LineageStore, NUMBERS_SKIPPED, PULLED, high_water};
pub use self::lists::{ListChange, ListOutcome, ListStore, MAX_LIST_POSTS, SourcesInUse};
pub(crate) use self::nodes::liveness_millis;
pub use self::nodes::{
    LedgerIdentity, NODE_LIVENESS, NewNode, NodeDetails, NodeRow, NodeStore, Partner, PartnerChange,
};
pub use self::notifications::{
    EndedNotification, MAX_GROUP_COMMENTS, MAX_GROUP_PEOPLE, MAX_NOTIFICATION_GROUPS, MarkUpTo, NotificationEvent,
    NotificationGroup, NotificationMark, NotificationStore, RemovedNotification, UserNotifications,
};
pub use self::outlet_log::{
    HELD_ENTRIES_KEPT, HeldEntry, MAX_HELD_ENTRIES, NewOutletEntry, OutletBacklog, OutletBatch, OutletEnd, OutletEntry,
    OutletSettlement, OutletStore,
};
pub use self::people::{
    KnownUser, MAX_NAMED, NewAccount, PeopleStore, ProfileChange, StoredAccount, SuggestionLimits, UserMatch, fold,
    past,
};
pub use self::personal::{PersonalData, PersonalDataStore, PersonalRow};
pub use self::postgres::{PostgresFindings, PostgresLedger, PostgresOptions, PostgresUrl, postgres_rights};
pub use self::posts::{EditOutcome, MAX_HIDDEN, PostOwner, PostStore, TimelineRange, VisiblePosts};
pub use self::previews::{PreviewLimits, PreviewRows, PreviewStore};
pub use self::pull_log::{DueEntries, FanoutMode, PullLogEntry, PullLogStore};
pub use self::pushes::{
    ACCEPTED_KEPT, APP_KIND, AlertReader, CLEAR_ITEM, CLEAR_KIND, ClearPlan, MAX_COUNTED_PUSHES, POST_KIND,
    PostAlertPage, PushBacklog, PushKey, PushLease, PushPlan, PushResult, PushStore, QueuedPush, SettledPush,
};
pub use self::quarantine::{
    ERASURE, EVENT, FailedWork, Fault, JOB, LIKE, MAX_QUARANTINED, PUSH, QUARANTINE_KINDS, QuarantineStore,
    Quarantined, RetryOutcome, WEBHOOK, like_name, quarantine_dropped, unreadable_rows,
};
pub use self::read_markers::ReadMarkerStore;
pub use self::reports::ReportStore;
pub use self::reposts::{ListedRepost, NamingOutcome, NewestRepost, RepostStore};
pub use self::restrictions::{RestrictedAuthor, RestrictedUser, RestrictionStore};
pub use self::revocations::{Revocation, RevocationKind, RevocationStore, SessionsEnd};
pub use self::schema_mode::SchemaMode;
use self::schema_mode::outdated;
pub use self::sqlite::{
    CopyProgress, Durability, SqliteLedger, SqliteOptions, backup as sqlite_backup, restore as sqlite_restore,
};
pub use self::standings::{StandingChange, StandingOutcome, StandingStore, UserStanding};
pub use self::topic_follows::{FollowedTopic, TopicFollowStore};
pub use self::topics::{MAX_MOVED_TOPICS, Topic, TopicCursor, TopicStore};
pub use self::transfer::{
    PostgresTransfer, SqliteTransfer, TransferError, TransferReport, TransferStore, export_ledger, import_ledger,
};
pub use self::work::{Fence, PartitionRow, WorkLease, WorkStore, WorkView};
pub use crate::model::Tally;
use crate::store_metrics::{StoreFailure, StoreMeter};
use crate::store_refusal::Refusal;

/// The errors of a ledger.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LedgerError {
    /// The store could not be reached, or did not answer in time. A write may have been committed or not.
    #[error("the ledger is unreachable: {0}")]
    Unreachable(String),
    /// The queue of the store is full, or another process holds a lock for too long. Nothing was written.
    #[error("the ledger is busy")]
    Busy,
    /// The store refuses all such calls for now. Nothing was written.
    #[error("the ledger refuses to work ({0}): {1}")]
    Refused(Refusal, String),
    /// The store returned an error that concerns this call, and persists when the call is repeated. Nothing was
    /// written.
    #[error("the ledger failed: {0}")]
    Failed(String),
}

/// The result of a call of the ledger.
pub type Result<T> = std::result::Result<T, LedgerError>;

/// Runs a call, and records its time and outcome.
async fn metered<T>(call: impl Future<Output = Result<T>>) -> Result<T> {
    let timer = StoreMeter::ledger().begin();
    let answer = call.await;
    match &answer {
        Ok(_) => timer.succeed(),
        Err(error) => {
            let failure = match error {
                LedgerError::Unreachable(_) => StoreFailure::Unreachable,
                LedgerError::Busy => StoreFailure::Busy,
                LedgerError::Refused(..) => StoreFailure::Refused,
                LedgerError::Failed(_) => StoreFailure::Failed,
            };
            timer.fail(failure, error);
        }
    }
    answer
}

/// A page of a list, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPage<T> {
    /// The items, newest first.
    pub items: Vec<T>,
    /// The cursor of the next page; `None` at the end.
    pub next: Option<i64>,
}

/// The durable store. Every method returns within the configured timeout, with an error if necessary. A write is
/// durable when its method returns. The exception is the removal of jobs ([`JobStore::finish_jobs`]): a crash of the
/// store may lose it if no other write followed.
#[async_trait]
pub trait Ledger:
    PeopleStore
    + FollowStore
    + RestrictionStore
    + PostStore
    + WorkStore
    + JobStore
    + PullLogStore
    + CommentStore
    + NotificationStore
    + EventStore
    + OutletStore
    + ConversationStore
    + DeviceStore
    + PushStore
    + CountStore
    + PreviewStore
    + FavouriteStore
    + TopicStore
    + ReadMarkerStore
    + LikeStore
    + IdempotencyStore
    + RevocationStore
    + FilterStore
    + ListStore
    + TopicFollowStore
    + FollowRequestStore
    + StandingStore
    + ReportStore
    + RepostStore
    + PersonalDataStore
    + ErasureStore
    + LineageStore
    + NodeStore
    + QuarantineStore
    + Send
    + Sync
    + 'static
{
    /// A description for logs, for example `sqlite at data/feedline.db`.
    fn name(&self) -> String;

    /// The number of round trips since the start.
    fn round_trips(&self) -> u64;

    /// Checks that the store answers and accepts writes.
    async fn ping(&self) -> Result<()>;

    /// Finishes queued calls and closes.
    async fn close(&self);
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// The files that a list of migrations names, in its order.
    fn listed<'a>(source: &'a str, store: &str) -> Vec<&'a str> {
        let begin = format!("../migrations/{store}/");
        source.split(begin.as_str()).skip(1).filter_map(|rest| rest.split('"').next()).collect()
    }

    #[test]
    fn the_number_of_a_migration_is_its_place_in_the_list() {
        let stores = [
            ("sqlite", include_str!("sqlite/migrations.rs")),
            ("postgres", include_str!("postgres/schema/migrations.rs")),
        ];
        for (store, source) in stores {
            let listed = listed(source, store);
            for (place, name) in listed.iter().enumerate() {
                assert!(name.starts_with(&format!("{:04}_", place + 1)), "{store}: {name} is at place {}", place + 1);
            }
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ledger/migrations").join(store);
            let files = fs::read_dir(folder).expect("the migrations");
            let mut files: Vec<String> =
                files.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned()).collect();
            files.sort_unstable();
            assert_eq!(listed, files, "{store}: every file is in the list");
        }
    }
}
