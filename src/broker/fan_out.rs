//! What a fan-out tells a broker: pages of inboxes, and the attempt at a job that writes them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::model::{Entry, Millis, PostId, UserId};

/// How long a broker remembers a job after its first page: far longer than any lease.
pub(super) const JOB_TTL: Duration = Duration::from_secs(24 * 3600);

/// How long a broker remembers a job that is finished: longer than a paused worker's page can be on its way.
pub(super) const RETIRED_JOB_TTL: Duration = Duration::from_secs(300);

/// How far clocks of nodes and of the broker may differ: see [`FanOut::created_at`].
const MAX_CLOCK_SKEW: Millis = 60_000;

/// One page of a fan-out: an entry for many inboxes.
#[derive(Clone, Copy, Debug)]
pub struct FanOut<'a> {
    /// The attempt that writes it.
    pub attempt: &'a JobAttempt,
    /// Which of the job's recipients it serves.
    pub page: &'a PageRecipients,
    /// What to append.
    pub entry: &'a Entry,
    /// Whose inboxes.
    pub users: &'a [UserId],
    /// When the job was created, in Unix milliseconds. InboxStore into which nothing but fan-outs put posts since then cannot hold
    /// the post, so they are not searched for it.
    pub created_at: Millis,
}

impl FanOut<'_> {
    /// InboxStore that a fill or a merge changed since this time, in Unix milliseconds, may hold the post.
    pub(super) fn since(&self) -> Millis {
        self.created_at.saturating_sub(MAX_CLOCK_SKEW)
    }
}

/// Which of a job's recipients a page serves. The broker remembers it for later attempts: see [`JobProgress`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageRecipients {
    /// The followers after one id up to another, in the order of [`Edges::followers_after`](crate::ledger::FollowStore::followers_after);
    /// if `after` is empty, the author's own inbox, too.
    Range {
        /// The id before the first.
        after: String,
        /// The last.
        to: String,
    },
    /// The users of the page. The number tells it from other such pages of the attempt.
    Users(u64),
    /// The author's own inbox: the others get the entry by the pulled log.
    Own,
}

/// One attempt at a job. It is a fencing token: the pages of an attempt are refused once a later one has
/// [begun](super::InboxStore::begin_attempt).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobAttempt {
    /// The job.
    pub job: i64,
    /// The generation of the lease, from the ledger.
    pub generation: u64,
    /// How often this worker began anew, because a store failed.
    pub retry: u32,
    /// The [run](super::InboxStore::run) of the broker in which the attempt began. In another one its pages are refused.
    pub run: Arc<str>,
}

impl JobAttempt {
    /// Later attempts at a job have greater tokens.
    pub(super) fn token(&self) -> u64 {
        const RETRY_BITS: u32 = 20;
        self.generation << RETRY_BITS | u64::from(self.retry.min((1 << RETRY_BITS) - 1))
    }
}

/// What earlier attempts at a job have written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobProgress {
    /// Ranges of followers, as in [`PageRecipients::Range`]: after which id, and the last.
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

    /// Whether the author has it.
    pub fn covers_author(&self, author: &UserId) -> bool {
        self.own || self.users.contains(author) || self.ranges.iter().any(|(after, _)| after.is_empty())
    }

    /// The last follower up to whom everybody has the entry, from a cursor on.
    pub fn advance(&self, cursor: &str) -> Option<&str> {
        let within = |(after, to): &&(String, String)| after.as_str() <= cursor && cursor < to.as_str();
        self.ranges.iter().filter(within).map(|(_, to)| to.as_str()).max()
    }
}

/// An entry of the pulled log (see `ledger::pulled`) for many inboxes.
#[derive(Clone, Copy, Debug)]
pub struct Pull<'a> {
    /// Its mark.
    pub mark: u64,
    /// What to append.
    pub entry: &'a Entry,
    /// Whose inboxes. Whoever calls has seen to it that each has, or will be brought, what concerns it below the mark.
    pub users: &'a [UserId],
    /// Whether the entry may be in some of them otherwise than by the pulled log, or is for those only that hold the post.
    pub attempt: Attempt,
}

/// Whether a call may have been made before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// It was not.
    First,
    /// It may have been.
    Repeated,
}

/// What came of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FannedOut {
    /// It is written. One entry a user, in the order given.
    Written(Vec<Receipt>),
    /// Nothing was written: a later attempt at the job has begun, or the broker is in another run. The caller asks the ledger
    /// whether it still holds the job, and begins another attempt.
    Fenced,
}

/// What came of one inbox of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// There is no inbox: the user is inactive.
    Absent,
    /// The inbox has no use for the entry, see [`InboxStore::fan_out`](super::InboxStore::fan_out): nothing was written.
    Unchanged,
    /// Written; this many nodes were told, 0 means the user is not connected.
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
    /// Reads one page; others are none of ours.
    pub(super) fn add(&mut self, field: &str, value: &str) {
        match field.split_at_checked(1) {
            Some(("r", after)) => self.ranges.push((after.to_owned(), value.to_owned())),
            Some(("u", _)) => self.users.extend(value.split(' ').filter_map(UserId::parse)),
            Some(("o", _)) => self.own = true,
            _ => {}
        }
    }
}

/// Ids as text that compares as they do: 16 digits.
pub(super) fn padded(id: PostId) -> String {
    format!("{:016}", id.0)
}
