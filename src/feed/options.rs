//! The options of the feed, filled from the configuration.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::devices::target_validator::TargetValidator;
use super::outlet::options::OutletOptions;
use crate::ledger::PushPlan;
use crate::net::{OwnHosts, TrustedProxies};

/// The options of the feed.
#[derive(Clone, Debug)]
pub struct FeedOptions {
    /// The number of entries of an inbox; older entries are trimmed (`timeline.length`).
    pub timeline_length: usize,
    /// How long an inbox is kept after its owner was last active (`timeline.idle_days`).
    pub timeline_idle: Duration,
    /// The maximal number of posts of a new followee that are merged into the inbox; older ones are read from the
    /// ledger (`timeline.follow_merge`).
    pub follow_merge: usize,
    /// The maximal number of missed entries that are recovered at once; a client that missed more reloads the timeline
    /// (`client.recovery_limit`).
    pub recovery_limit: usize,
    /// The lifetime of a session (`auth.token_ttl`).
    pub session_ttl: Duration,
    /// How long an expired token is still accepted, because clocks differ (`auth.leeway`).
    pub leeway: Duration,
    /// How long a revocation without an expiry is kept (`auth.revocation_ttl`).
    pub revocation_ttl: Duration,
    /// The path of the erasure log, a file beside the backups; `None`: no log is written.
    pub erasure_log: Option<PathBuf>,
    /// Size limits (`limits.*`).
    pub limits: LimitOptions,
    /// Rate limits (`rates.*`).
    pub rates: RateOptions,
    /// The proxies in front of this server. Each of their addresses stands for many clients, so they are exempt from
    /// limits by address.
    pub trusted_proxies: Arc<TrustedProxies>,
    /// The hosts of this server.
    pub own_hosts: Arc<OwnHosts>,
    /// The fan-out of posts (`fanout.*`).
    pub fanout: FanoutOptions,
    /// The intake and settling of likes (`likes.*`).
    pub likes: LikesOptions,
    /// Pushes to devices (`push.*`).
    pub pushes: PushOptions,
    /// Decides which addresses of devices may be registered.
    pub target_validator: Arc<dyn TargetValidator>,
    /// What happened, for consumers outside of Feedline (`outlet.*`).
    pub outlet: OutletOptions,
    /// The public key of Web Push in base64url; `None`: there is no Web Push.
    pub vapid_public_key: Option<String>,
}

/// Pushes to devices (`push.*`).
#[derive(Clone, Copy, Debug, Default)]
pub struct PushOptions {
    /// How notifications are queued for devices; `None`: they are not.
    pub plan: Option<PushPlan>,
    /// How long after its notification a push is of use (`push.ttl`).
    pub time_to_live: Duration,
    /// How long a device is kept without a registration or a connection of its user (`push.device_idle`); `None`: for
    /// ever.
    pub device_idle: Option<Duration>,
    /// Whether users may have sockets at other nodes.
    pub several_nodes: bool,
}

/// Size limits. Errors name the limit that an input exceeds.
#[derive(Clone, Copy, Debug)]
pub struct LimitOptions {
    /// The maximal number of characters of a post and of a comment.
    pub text: usize,
    /// The maximal number of pictures and videos of a post.
    pub media: usize,
    /// The maximal number of topics of a post.
    pub topics: usize,
    /// The maximal size of a post's `data` as JSON, in bytes.
    pub data_bytes: usize,
    /// The maximal number of users that one user follows.
    pub follows: u64,
    /// The maximal number of favourites of one type of a user.
    pub favourites: u64,
}

/// The fan-out of posts (`fanout.*`).
#[derive(Clone, Copy, Debug)]
pub struct FanoutOptions {
    /// The number of followers above which an author's posts go to the pull log instead of each inbox.
    pub push_limit: u64,
    /// The number of inboxes of a page. A page is one script call of the broker.
    pub page: usize,
    /// The number of jobs that run concurrently.
    pub workers: usize,
    /// How long a job stays leased without a renewal.
    pub lease: Duration,
}

/// The intake and settling of likes (`likes.*`).
#[derive(Clone, Copy, Debug)]
pub struct LikesOptions {
    /// The maximal number of likes that wait to be settled.
    pub queue_length: u64,
    /// The maximal number of publications of one object's counts per second.
    pub counts_per_second: u32,
}

/// Rate limits, per minute; `None`: no limit. Bursts may be twice as large (`rates.*`).
#[derive(Clone, Copy, Debug, Default)]
pub struct RateOptions {
    /// Posts that a user writes or edits.
    pub posts: Option<u32>,
    /// Comments that a user writes.
    pub comments: Option<u32>,
    /// Likes and unlikes of a user.
    pub likes: Option<u32>,
    /// Changes of a user's edges: follows, hides, mutes, blocks, post alerts.
    pub follows: Option<u32>,
    /// All other writes of a user.
    pub writes: Option<u32>,
    /// Users that a user mentions in posts and comments.
    pub mentions: Option<u32>,
    /// Topics that a user adds to posts.
    pub topics: Option<u32>,
    /// Subscriptions of a user's clients; an anonymous address has [`ADDRESS_READS`](super::ADDRESS_READS) times as
    /// many.
    pub subscriptions: Option<u32>,
    /// Units of reading of a user; an anonymous address has [`ADDRESS_READS`](super::ADDRESS_READS) times as many.
    pub reads: Option<u32>,
    /// Units of 1 KiB that a user publishes to channels; an anonymous address has
    /// [`ADDRESS_READS`](super::ADDRESS_READS) times as many.
    pub publications: Option<u32>,
    /// New accounts of an address.
    pub accounts: Option<u32>,
    /// Failed sign-ins of an address, before further attempts are delayed.
    pub sessions: Option<u32>,
}
