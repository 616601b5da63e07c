//! Cache invalidation across nodes: invalidations, and the lease under which a node may use its caches.
//!
//! A node serves from its caches only while it holds a [`CacheLease`]. The broker renews the lease each time the node
//! has applied all invalidations of the shared log. A node that is paused, disconnected or behind loses the lease
//! within [`CACHE_LEASE`], and reads the ledger until it has caught up. So a change is in force on every node as soon
//! as each live node has confirmed its invalidation, or [`CACHE_LEASE`] after the invalidation was appended, whichever
//! comes first. [`Confirmation::wait`] waits for that.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::future::BoxFuture;

use crate::model::{CommentId, PostId, UserId};

/// The time for which a node may use its caches after it requested the state of the log, if it had caught up with it.
pub const CACHE_LEASE: Duration = Duration::from_millis(500);

/// An object whose cached copies must not be used any more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Invalidation {
    /// A post was edited or deleted, or its visibility changed.
    Post(PostId),
    /// A post was reposted, or a repost of it ended. The post itself is as before.
    Reposts(PostId),
    /// A comment was deleted.
    Comment(CommentId),
    /// The relation between two users changed, in either direction.
    Relation(UserId, UserId),
    /// A user was erased: all of their content is hidden.
    Erased(UserId),
    /// The standing of a user changed.
    Standing(UserId),
    /// A user locked or unlocked their account.
    Locked(UserId),
    /// The filters of a user changed.
    Filters(UserId),
    /// The topics that a user follows changed.
    Topics(UserId),
    /// The lists of a user changed: a list was deleted, or has another member.
    Lists(UserId),
    /// Any cached data of a user, their posts and their relations may have changed.
    User(UserId),
}

impl fmt::Display for Invalidation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Post(id) => write!(f, "post {id}"),
            Self::Reposts(id) => write!(f, "reposts {id}"),
            Self::Comment(id) => write!(f, "comment {id}"),
            Self::Relation(one, other) => write!(f, "relation {one} {other}"),
            Self::Erased(user) => write!(f, "erased {user}"),
            Self::Standing(user) => write!(f, "standing {user}"),
            Self::Locked(user) => write!(f, "locked {user}"),
            Self::Filters(user) => write!(f, "filters {user}"),
            Self::Topics(user) => write!(f, "topics {user}"),
            Self::Lists(user) => write!(f, "lists {user}"),
            Self::User(user) => write!(f, "user {user}"),
        }
    }
}

impl Invalidation {
    /// Encodes invalidations as text, one a line.
    pub(super) fn encode_all(all: &[Self]) -> String {
        all.iter().map(Self::to_string).collect::<Vec<_>>().join("\n")
    }

    /// Decodes them; `None` if a newer version wrote one that this version does not know.
    pub(super) fn decode_all(text: &str) -> Option<Vec<Self>> {
        text.lines().map(Self::decode).collect()
    }

    fn decode(line: &str) -> Option<Self> {
        let (kind, rest) = line.split_once(' ')?;
        Some(match kind {
            "post" => Self::Post(PostId::parse(rest)?),
            "comment" => Self::Comment(CommentId::parse(rest)?),
            "relation" => {
                let (one, other) = rest.split_once(' ')?;
                Self::Relation(UserId::parse(one)?, UserId::parse(other)?)
            }
            "erased" => Self::Erased(UserId::parse(rest)?),
            "standing" => Self::Standing(UserId::parse(rest)?),
            "locked" => Self::Locked(UserId::parse(rest)?),
            "reposts" => Self::Reposts(PostId::parse(rest)?),
            "filters" => Self::Filters(UserId::parse(rest)?),
            "topics" => Self::Topics(UserId::parse(rest)?),
            "lists" => Self::Lists(UserId::parse(rest)?),
            "user" => Self::User(UserId::parse(rest)?),
            _ => return None,
        })
    }
}

/// An invalidation that was appended to the log. Some nodes may not have applied it yet.
#[must_use = "the change is in force on every node after `wait` only"]
pub struct Confirmation(Option<BoxFuture<'static, usize>>);

impl fmt::Debug for Confirmation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Confirmation(pending)" } else { "Confirmation(immediate)" })
    }
}

impl Confirmation {
    /// The confirmation of a change that is in force already.
    pub fn immediate() -> Self {
        Self(None)
    }

    /// `pending` ends when the change is in force; its output is the number of nodes that did not confirm.
    pub(super) fn pending(pending: impl Future<Output = usize> + Send + 'static) -> Self {
        Self(Some(Box::pin(pending)))
    }

    /// Whether other nodes have to confirm.
    pub fn is_pending(&self) -> bool {
        self.0.is_some()
    }

    /// Waits until the change is in force on every node: at most [`CACHE_LEASE`] and a small margin. Returns the number
    /// of nodes that did not confirm; they do not use their caches now.
    pub async fn wait(self) -> usize {
        match self.0 {
            Some(pending) => pending.await,
            None => 0,
        }
    }
}

/// Whether this node may use its caches.
///
/// Two clocks measure the lease: the monotonic clock, which steps of the wall clock do not affect, and the wall clock,
/// which continues while a virtual machine is suspended. The lease is held until either of them reaches its end.
#[derive(Debug)]
pub struct CacheLease {
    origin: Instant,
    /// The end of the lease, in microseconds since `origin`.
    until: AtomicU64,
    /// The time of the last renewal, in Unix milliseconds.
    renewed: AtomicU64,
    /// The number of invalidations applied on this node.
    invalidations: AtomicU64,
}

/// The value of `until` of a lease that does not end.
const UNLIMITED: u64 = u64::MAX;

impl CacheLease {
    fn new(until: u64) -> Self {
        Self {
            origin: Instant::now(),
            until: AtomicU64::new(until),
            renewed: AtomicU64::new(0),
            invalidations: AtomicU64::new(0),
        }
    }

    /// A lease that does not end: there is a single node, which applies every invalidation at once.
    pub fn unlimited() -> Self {
        Self::new(UNLIMITED)
    }

    /// A lease that is not held yet.
    pub(crate) fn lapsed() -> Self {
        Self::new(0)
    }

    /// Whether the lease is held.
    pub fn is_held(&self) -> bool {
        let until = self.until.load(Ordering::Acquire);
        if until == UNLIMITED {
            return true;
        }
        let lease = u64::try_from(CACHE_LEASE.as_millis()).unwrap_or(u64::MAX);
        let renewed = self.renewed.load(Ordering::Acquire);
        self.micros(Instant::now()) < until && unix_millis().checked_sub(renewed).is_some_and(|since| since < lease)
    }

    /// Renews the lease after a read of the log that began at this time, by both clocks.
    pub(crate) fn renew(&self, (asked, asked_unix): (Instant, u64)) {
        self.renewed.store(asked_unix, Ordering::Release);
        self.until.store(self.micros(asked + CACHE_LEASE), Ordering::Release);
    }

    /// Ends the lease: the node is behind.
    pub(super) fn revoke(&self) {
        self.until.store(0, Ordering::Release);
    }

    /// The time now by both clocks, for [`renew`](Self::renew).
    pub(crate) fn clocks() -> (Instant, u64) {
        (Instant::now(), unix_millis())
    }

    /// The number of invalidations that this node has applied.
    pub fn invalidations(&self) -> u64 {
        self.invalidations.load(Ordering::SeqCst)
    }

    /// Counts an invalidation that was applied.
    pub fn count_invalidation(&self) {
        self.invalidations.fetch_add(1, Ordering::SeqCst);
    }

    fn micros(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.origin).as_micros()).unwrap_or(UNLIMITED - 1)
    }
}

fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalidations_survive_the_log() {
        let id = |text| UserId::parse(text).expect("an id");
        let all = [
            Invalidation::Post(PostId(7)),
            Invalidation::Comment(CommentId(8)),
            Invalidation::Relation(id("ann"), id("b.o-")),
            Invalidation::User(id("cy")),
            Invalidation::Erased(id("dee")),
            Invalidation::Standing(id("eve")),
            Invalidation::Locked(id("eve")),
            Invalidation::Reposts(PostId(7)),
            Invalidation::Filters(id("fay")),
            Invalidation::Topics(id("gus")),
            Invalidation::Lists(id("hal")),
        ];
        assert_eq!(Invalidation::decode_all(&Invalidation::encode_all(&all)).as_deref(), Some(&all[..]));
        assert_eq!(Invalidation::decode_all("post 7\nnewer kind"), None);
        assert_eq!(Invalidation::decode_all("post x"), None);
    }

    #[test]
    fn a_lease_ends_by_either_clock_and_when_it_is_revoked() {
        let lease = CacheLease::lapsed();
        assert!(!lease.is_held());
        let (now, unix) = CacheLease::clocks();
        lease.renew((now, unix));
        assert!(lease.is_held());
        lease.revoke();
        assert!(!lease.is_held());
        // The process was paused.
        let Some(before) = now.checked_sub(CACHE_LEASE) else { return };
        lease.renew((before, unix));
        assert!(!lease.is_held());
        // The machine was suspended together with its monotonic clock; then its wall clock was set back.
        lease.renew((now, unix - 600));
        assert!(!lease.is_held());
        lease.renew((now, unix + 600_000));
        assert!(!lease.is_held());
        lease.renew((now, unix));
        assert!(lease.is_held());
        assert!(CacheLease::unlimited().is_held());
    }
}
