//! The durable truth: accounts, posts, edges, and the jobs that carry posts to inboxes.
//!
//! One trait, a part of it in a file for each concept, and one conformance suite (`tests/ledger/`). [`SqliteLedger`] is
//! embedded: WAL, one writer with group commit, a few readers. [`PostgresLedger`] is for several nodes: every method
//! one statement, over a few shared connections. Nothing outside this folder knows SQL.

mod barriers;
#[cfg(any(test, feature = "bench"))]
mod bulk;
mod comments;
mod counts;
mod edges;
mod erasures;
mod events;
mod favourites;
mod idempotency;
mod job_plan;
mod jobs;
mod likes;
mod lineage;
mod notifications;
mod people;
mod personal;
mod postgres;
mod posts;
mod pulled;
mod quarantine;
mod reading;
mod revocations;
mod schema_version;
mod sqlite;
mod topics;
mod under;

use async_trait::async_trait;

pub use self::barriers::Barriers;
#[cfg(any(test, feature = "bench"))]
pub use self::bulk::BulkLoad;
pub use self::comments::{Commented, Comments, DEEPEST, Thread, Uncommented};
pub use self::counts::{Counts, Hydration};
pub use self::edges::Edges;
pub use self::erasures::{Erasure, ErasureLease, Erasures};
pub use self::events::{EventBacklog, EventConsumer, Events, KEPT_FAILURES, QueuedEvent};
pub use self::favourites::{Added, Favourite, Favourites, Holder};
pub use self::idempotency::{Begun, Idempotency, Keyed, Turn};
pub use self::jobs::{Backlog, CLAIM_WINDOW, Finished, Job, Jobs, Lease, MAX_JOBS_OF_AUTHOR, VisibilityChange, Work};
pub use self::likes::{LikeBatch, Likes, RevertReason, Reverted, SettledLikes};
pub use self::lineage::{HighWaterMarks, JOBS, Lineage, Lineages, NUMBERS_SKIPPED, PULLED, REVERTS, high_water};
pub use self::notifications::{Group, Happening, KEPT_GROUPS, Mark, Marked, NEWEST_PEOPLE, Notifications, Notified};
pub use self::people::{Found, MAX_NAMED, NewAccount, People, ProfileChange, Reach, StoredAccount, fold, past};
pub use self::personal::{Personal, PersonalData, PersonalRow};
pub use self::postgres::{PostgresLedger, PostgresOptions, PostgresUrl};
pub use self::posts::{EditOutcome, MAX_HIDDEN, PostOwner, Posts, TimelinePage, VisiblePosts};
pub use self::pulled::{Carriage, Due, Pulled, PulledLog};
pub use self::quarantine::{JOB, LIKE, MAX_QUARANTINED, Quarantine, Quarantined, REVERT, SkippedLike, unreadable_rows};
pub use self::reading::Reading;
pub use self::revocations::{Revocation, RevocationKind, Revocations, SessionsEnd};
pub use self::sqlite::{
    CopyProgress, Durability, SqliteLedger, SqliteOptions, backup as sqlite_backup, restore as sqlite_restore,
};
pub use self::topics::{STIRRED, Topic, TopicCursor, Topics};
pub use self::under::{Most, Newest, Under};
pub use crate::model::Tally;

/// What can go wrong with a ledger.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LedgerError {
    /// It could not be reached, or did not answer in time. Nothing is known of the write: it may have happened.
    #[error("the ledger is unreachable: {0}")]
    Unreachable(String),
    /// Too much is waiting, or another process holds the lock for too long. Nothing was written.
    #[error("the ledger is busy")]
    Busy,
    /// It answered with an error that trying again does not mend.
    #[error("the ledger failed: {0}")]
    Failed(String),
}

/// What a ledger's answer is.
pub type Result<T> = std::result::Result<T, LedgerError>;

/// A part of a list, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<T> {
    /// The items.
    pub items: Vec<T>,
    /// Where to go on; `None` at the end.
    pub next: Option<i64>,
}

/// The durable truth. Every method answers within the configured timeout, with an error if need be. A write has
/// happened, durably, when its method returns; but how far a job is ([`Jobs::advance_job`], [`Jobs::finish_job`]) may be lost in
/// a crash of the store, if no write came after it.
#[async_trait]
pub trait Ledger:
    People
    + Edges
    + Barriers
    + Posts
    + Jobs
    + PulledLog
    + Comments
    + Notifications
    + Events
    + Counts
    + Under
    + Favourites
    + Topics
    + Reading
    + Likes
    + Idempotency
    + Revocations
    + Personal
    + Erasures
    + Lineages
    + Quarantine
    + Send
    + Sync
    + 'static
{
    /// What it is, for people: `sqlite at data/feedline.db`.
    fn name(&self) -> String;

    /// Round trips made so far: calls that somebody waited for.
    fn round_trips(&self) -> u64;

    /// Whether it answers.
    async fn ping(&self) -> Result<()>;

    /// Finishes what is queued and closes.
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
