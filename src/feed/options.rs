//! The options of the feed, as the configuration sets them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::net::TrustedProxies;

/// The options of the feed.
#[derive(Clone, Debug)]
pub struct FeedOptions {
    /// Entries of an inbox: older ones are trimmed (`timeline.length`).
    pub timeline_length: usize,
    /// How long an inbox is kept without its owner (`timeline.idle_days`).
    pub timeline_idle: Duration,
    /// The most posts of a new followee that are put into the inbox; older ones are read from the ledger
    /// (`timeline.follow_merge`).
    pub follow_merge: usize,
    /// Missed entries that are recovered at once; a client that missed more reads the timeline again
    /// (`client.recovery_limit`).
    pub recovery_limit: usize,
    /// How long a session lasts (`auth.token_ttl`).
    pub session_ttl: Duration,
    /// For how long an expired token is accepted, because clocks differ (`auth.leeway`).
    pub leeway: Duration,
    /// For how long a revocation without an expiry is kept (`auth.revocation_ttl`).
    pub revocation_ttl: Duration,
    /// The erasure log, a file beside the backups; `None`: none is written.
    pub erasure_log: Option<PathBuf>,
    /// Sizes.
    pub limits: LimitOptions,
    /// Rate limits.
    pub rates: RateOptions,
    /// Proxies whose address stands for many clients: they are exempt from limits by address.
    pub trusted_proxies: Arc<TrustedProxies>,
    /// The fan-out of posts.
    pub fanout: FanoutOptions,
    /// The intake and settling of likes.
    pub likes: LikesOptions,
}

/// The limits of sizes. Errors name the limit that an input exceeds.
#[derive(Clone, Copy, Debug)]
pub struct LimitOptions {
    /// Characters of a post, and of a comment.
    pub text: usize,
    /// Pictures and videos of a post.
    pub media: usize,
    /// Topics of a post.
    pub topics: usize,
    /// Bytes of a post's `data` as JSON.
    pub data_bytes: usize,
    /// Followees of a user.
    pub follows: u64,
    /// Favourites of one type of a user.
    pub favourites: u64,
}

/// The fan-out of posts (`fanout.*`).
#[derive(Clone, Copy, Debug)]
pub struct FanoutOptions {
    /// Followers past which an author's posts go to the pull log instead of each inbox.
    pub push_limit: u64,
    /// Inboxes of a page: one script call of the broker each.
    pub page: usize,
    /// Jobs that run concurrently.
    pub workers: usize,
    /// How long a job is held without a sign of life.
    pub lease: Duration,
}

/// The intake and settling of likes (`likes.*`).
#[derive(Clone, Copy, Debug)]
pub struct LikesOptions {
    /// Likes that may wait to be settled.
    pub queue_length: u64,
    /// Publications of one object's counts, a second.
    pub counts_per_second: u32,
}

/// Rate limits, a minute each; `None`: no limit. Bursts may be twice as large (`rates.*`).
#[derive(Clone, Copy, Debug, Default)]
pub struct RateOptions {
    /// Posts written or edited by a user.
    pub posts: Option<u32>,
    /// Comments written by a user.
    pub comments: Option<u32>,
    /// Likes given or taken back by a user.
    pub likes: Option<u32>,
    /// Edges made or ended by a user: follows, hides, mutes, blocks, post alerts.
    pub follows: Option<u32>,
    /// All other writes of a user.
    pub writes: Option<u32>,
    /// Users mentioned in posts and comments of a user.
    pub mentions: Option<u32>,
    /// Units of reading of a user; an anonymous address has [`ADDRESS_READS`](super::ADDRESS_READS) times as many.
    pub reads: Option<u32>,
    /// Units of 1 KiB that a user publishes to channels; an anonymous address has
    /// [`ADDRESS_READS`](super::ADDRESS_READS) times as many.
    pub publications: Option<u32>,
    /// Accounts made from an address.
    pub accounts: Option<u32>,
    /// Failures to sign in from an address, before they are delayed.
    pub sessions: Option<u32>,
}
