//! The state of a scan of an author's followers.

use std::collections::HashSet;

use crate::broker::JobProgress;
use crate::feed::visibility::Recipients;
use crate::model::{Entry, Millis, UserId};

/// The maximal number of concurrent pages of one job. With several, the broker works while the ledger is read.
pub(super) const MAX_CONCURRENT_PAGES: usize = 3;

/// An entry, and its recipients among the author's followers.
pub(super) struct FollowerScan<'a> {
    pub(super) author: &'a UserId,
    pub(super) entry: &'a Entry,
    pub(super) recipients: Recipients<'a>,
    /// When the job was created.
    pub(super) created_at: Millis,
}

/// The followers that a scan has not served yet.
pub(super) struct RemainingFollowers {
    /// The author, if the author's own timeline is still to be served.
    pub(super) own: Option<UserId>,
    /// The only page, if it was read already.
    pub(super) first_page: Option<Vec<UserId>>,
    /// The scan continues after this follower.
    pub(super) cursor: String,
    /// Whether there may be more followers to read.
    pub(super) more: bool,
    /// Followers beyond the cursor that were served first, because they are connected.
    pub(super) served: HashSet<UserId>,
}

impl RemainingFollowers {
    /// All followers after `cursor`.
    pub(super) fn after(cursor: &str, author: &UserId, progress: &JobProgress) -> Self {
        Self {
            own: (cursor.is_empty() && !progress.covers_author(author)).then(|| author.clone()),
            first_page: None,
            cursor: cursor.to_owned(),
            more: true,
            served: HashSet::new(),
        }
    }

    /// Whether no follower is left.
    pub(super) fn is_exhausted(&self) -> bool {
        self.own.is_none() && self.first_page.is_none() && !self.more
    }
}
