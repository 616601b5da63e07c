//! Fan-out: pages of inboxes, and the attempts at a job that write them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::ledger::JobId;
use crate::model::{Entry, InboxId, Millis, PostId, UserId};

/// How long a broker keeps the progress of a job after its first page: far longer than any lease.
pub(super) const JOB_TTL: Duration = Duration::from_secs(24 * 3600);

/// How long a broker keeps the progress of a finished job: longer than a page of a paused worker can be in flight.
pub(super) const RETIRED_JOB_TTL: Duration = Duration::from_secs(300);

/// How far clocks of nodes and of the broker may differ: see [`FanOut::created_at`].
const MAX_CLOCK_SKEW: Millis = 60_000;

/// One page of a fan-out: an entry for many inboxes.
#[derive(Clone, Copy, Debug)]
pub struct FanOut<'a> {
    /// The attempt that writes the page.
    pub attempt: &'a JobAttempt,
    /// The recipients of the job that are in this page.
    pub page: &'a PageRecipients,
    /// The entry to append to the inboxes.
    pub entry: &'a Entry,
    /// The author of the post. Their own inbox may have the post already: see
    /// [`add_own_post`](super::InboxStore::add_own_post).
    pub author: &'a UserId,
    /// The owners of the inboxes in this page.
    pub users: &'a [UserId],
    /// When the job was created, in Unix milliseconds. Inboxes that only fan-outs wrote to since then
    /// cannot contain the post, and are not searched for it.
    pub created_at: Millis,
}

impl FanOut<'_> {
    /// Inboxes that a fill or a merge changed since this time, in Unix milliseconds, may contain the post.
    pub(super) fn since(&self) -> Millis {
        self.created_at.saturating_sub(MAX_CLOCK_SKEW)
    }
}

/// The recipients in a page of a job. The broker keeps them for later attempts: see [`JobProgress`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageRecipients {
    /// The followers after one id up to another, in the order of
    /// [`FollowStore::followers_after`](crate::ledger::FollowStore::followers_after); if `after` is empty, the author's
    /// own inbox, too.
    Range {
        /// The id before the first.
        after: String,
        /// The last id.
        to: String,
    },
    /// The users of the page. The number distinguishes such pages of one attempt.
    Users(u64),
    /// The author's own inbox: other recipients receive the entry by the pull log.
    Own,
}

/// One attempt at a job. It is a fencing token: the pages of an attempt are refused once a later one has
/// [begun](super::InboxStore::begin_attempt).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobAttempt {
    /// The number of the job in the ledger.
    pub job: JobId,
    /// The generation of the owner of the job's partition.
    pub generation: u64,
    /// The number of retries of this worker after a failure of a store.
    pub retry: u32,
    /// The [run](super::InboxStore::run) of the broker in which the attempt began. Its pages are refused in another
    /// run.
    pub run: Arc<str>,
}

impl JobAttempt {
    /// Later attempts at a job have greater tokens.
    pub(super) fn token(&self) -> u64 {
        const RETRY_BITS: u32 = 20;
        self.generation << RETRY_BITS | u64::from(self.retry.min((1 << RETRY_BITS) - 1))
    }
}

/// The recipients that earlier attempts at a job have written to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobProgress {
    /// Ranges of followers, as in [`PageRecipients::Range`]: the id before the first, and the last.
    pub ranges: Vec<(String, String)>,
    /// Users of other pages.
    pub users: HashSet<UserId>,
    /// Whether [`PageRecipients::Own`] was written.
    pub own: bool,
}

impl JobProgress {
    /// Whether no page was written.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty() && self.users.is_empty() && !self.own
    }

    /// Whether a follower of the author has the entry.
    pub fn covers(&self, follower: &UserId) -> bool {
        let id = follower.as_str();
        self.users.contains(follower) || self.ranges.iter().any(|(after, to)| after.as_str() < id && id <= to.as_str())
    }

    /// Whether the author has the entry.
    pub fn covers_author(&self, author: &UserId) -> bool {
        self.own || self.users.contains(author) || self.ranges.iter().any(|(after, _)| after.is_empty())
    }

    /// The follower up to which every follower after `cursor` has the entry.
    pub fn advance(&self, cursor: &str) -> Option<&str> {
        let within = |(after, to): &&(String, String)| after.as_str() <= cursor && cursor < to.as_str();
        self.ranges.iter().filter(within).map(|(_, to)| to.as_str()).max()
    }
}

/// An entry of the pull log (see `ledger::pulled`) for many inboxes.
#[derive(Clone, Copy, Debug)]
pub struct Pull<'a> {
    /// The mark of the entry in the pull log.
    pub mark: u64,
    /// The entry to append to the inboxes.
    pub entry: &'a Entry,
    /// The inboxes, all of timelines or all of lists. Each has, or will catch up on, all entries for it below the mark.
    pub inboxes: &'a [InboxId],
    /// `Repeated` if inboxes may contain the entry already, or if it is only for inboxes that contain the post.
    pub attempt: Attempt,
}

/// Whether a call may have been made before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// It was not made before.
    First,
    /// It may have been made before.
    Repeated,
}

/// The result of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FannedOut {
    /// The page was written: one receipt for each user, in their order.
    Written(Vec<Receipt>),
    /// Nothing was written: a later attempt at the job has begun, or the broker is in another run. The caller checks
    /// that it still has the lease of the job, and begins another attempt.
    Fenced,
}

/// The result for one inbox of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// The user is inactive: there is no inbox.
    Absent,
    /// The entry is not new to the inbox, see [`InboxStore::fan_out`](super::InboxStore::fan_out): nothing was written.
    Unchanged,
    /// Written; the number of nodes that received the hint. 0: the user is not connected.
    Written(u64),
}

/// How brokers store the pages of a job: a field and a value each.
impl PageRecipients {
    pub(super) fn field(&self, token: u64) -> String {
        match self {
            Self::Range { after, .. } => format!("r{after}"),
            Self::Users(number) => format!("u{token}.{number}"),
            Self::Own => "o".to_owned(),
        }
    }

    pub(super) fn value(&self, users: &[UserId]) -> String {
        match self {
            Self::Range { to, .. } => to.clone(),
            Self::Users(_) => users.iter().map(UserId::as_str).collect::<Vec<_>>().join(" "),
            Self::Own => String::new(),
        }
    }
}

impl JobProgress {
    /// Adds a stored page. Fields of other kinds are ignored.
    pub(super) fn add(&mut self, field: &str, value: &str) {
        match field.split_at_checked(1) {
            Some(("r", after)) => self.ranges.push((after.to_owned(), value.to_owned())),
            Some(("u", _)) => self.users.extend(value.split(' ').filter_map(UserId::parse)),
            Some(("o", _)) => self.own = true,
            _ => {}
        }
    }
}

/// The id as text of 16 digits, which sorts like the number.
pub(super) fn padded(id: PostId) -> String {
    format!("{:016}", id.0)
}
