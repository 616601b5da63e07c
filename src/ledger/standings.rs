//! The standings of users: a log that every node follows.

use async_trait::async_trait;

use super::{NewJob, Result};
use crate::model::{Millis, Standing, UserId};

/// A change of a user's standing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandingChange {
    /// The user.
    pub user: UserId,
    /// The new standing.
    pub standing: Standing,
    /// The reason, for moderators.
    pub reason: Option<String>,
    /// When the standing ends by itself, in Unix milliseconds; `None`: never.
    pub until: Option<Millis>,
    /// The current time, in Unix milliseconds.
    pub at: Millis,
}

/// The result of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StandingOutcome {
    /// The standing is stored. The job removes the posts of a user who became suspended from open timelines; `None`:
    /// the user did not become suspended, or has no posts.
    Changed(Option<NewJob>),
    /// Nothing changed: the user has this standing, until this time and for this reason.
    Unchanged,
    /// Nothing changed: the user does not exist, or is erased.
    NoUser,
}

/// The last change of a user's standing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserStanding {
    /// Its number in the log.
    pub seq: u64,
    /// The user.
    pub user: UserId,
    /// The standing.
    pub standing: Standing,
    /// When it ends, in Unix milliseconds; `None`: never.
    pub until: Option<Millis>,
}

/// Standings. Users without an entry are active.
///
/// Entries are numbered from 1 in the order in which they become visible, as those of revocations. There is one entry
/// for each user; a change replaces it and moves it to the end.
#[async_trait]
pub trait StandingStore: Send + Sync {
    /// Changes the standing of a user. In the same transaction:
    ///
    /// - if the user becomes suspended and has posts, a job ([`Work::HideAuthor`](super::Work::HideAuthor)) is created;
    /// - if the user becomes limited or suspended, the event
    ///   [`UserSuspended`](crate::model::DomainEvent::UserSuspended) is written for the outlet.
    async fn set_standing(&self, change: &StandingChange) -> Result<StandingOutcome>;

    /// The first `limit` entries after a number, in order.
    async fn standings_after(&self, seq: u64, limit: usize) -> Result<Vec<UserStanding>>;
}
