//! The options of the feed, as the configuration sets them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::fanout::FanoutOptions;
use super::likes::LikesOptions;
use super::rate_limits::Rates;
use crate::net::TrustedProxies;

/// The options of the feed.
#[derive(Clone, Debug)]
pub struct FeedOptions {
    /// Entries of an inbox: older ones are trimmed (`timeline.length`).
    pub timeline_length: usize,
    /// How long an inbox is kept without its owner (`timeline.idle_days`).
    pub timeline_idle: Duration,
    /// The most posts of a new followee that are put into the inbox; older ones are read from the ledger (`timeline.follow_merge`).
    pub follow_merge: usize,
    /// Missed entries that are recovered at once; a client that missed more reads the timeline again (`client.recovery_limit`).
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
    pub limits: Limits,
    /// Rate limits.
    pub rates: Rates,
    /// Proxies whose address stands for many clients: they are exempt from limits by address.
    pub trusted_proxies: Arc<TrustedProxies>,
    /// The fan-out of posts.
    pub fanout: FanoutOptions,
    /// The intake and settling of likes.
    pub likes: LikesOptions,
}

/// The limits of sizes. Errors name the limit that an input exceeds.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
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
