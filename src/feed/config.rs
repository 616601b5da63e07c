//! `[timeline]`, `[fanout]`, `[likes]`, `[notifications]`, `[limits]` and `[rates]`.

use std::time::Duration;

use crate::model::Retention;
use crate::settings::{parse, section};

section! {
    /// `[timeline]`: the inboxes of users.
    #[derive(Copy)]
    pub struct TimelineConfig {
        /// The minimum number of entries that an inbox keeps.
        pub length: usize = parse::integer(1..=100_000),
        /// Days after which the inbox of an inactive user is removed.
        pub idle_days: u32 = parse::integer(1..=3650),
        /// The maximum number of posts that a follow adds to the inbox.
        pub follow_merge: usize = parse::integer(0..=10_000),
    }
}

impl TimelineConfig {
    /// How long the inbox of an inactive user is kept.
    pub fn idle(&self) -> Duration {
        Duration::from_secs(u64::from(self.idle_days) * 24 * 3_600)
    }

    /// How much of the log of a user's notifications is kept.
    pub fn notification_log(&self) -> Retention {
        Retention::notifications(self.idle())
    }
}

section! {
    /// `[fanout]`: the jobs that write posts to inboxes.
    #[derive(Copy)]
    pub struct FanoutConfig {
        /// The maximum number of followers whose inboxes fan-out writes. Posts of authors with more followers go to the
        /// pull log.
        pub push_limit: u64 = parse::integer(0..=1_000_000_000),
        /// The number of followers in one step of a job.
        pub page: usize = parse::integer(1..=10_000),
        /// The number of jobs that a node runs concurrently.
        pub workers: usize = parse::integer(1..=256),
        /// How long a process owns partitions of work without renewing its lease.
        pub lease: Duration = parse::duration("100ms"..="10m"),
    }
}

section! {
    /// `[likes]`: the write-behind queue of likes.
    #[derive(Copy)]
    pub struct LikesConfig {
        /// The maximum number of likes that wait to be settled.
        pub queue_length: u64 = parse::integer(1..=100_000_000),
        /// The maximum number of count events per second for one post.
        pub counts_per_second: u32 = parse::integer(1..=1000),
    }
}

section! {
    /// `[notifications]`: the lists of notifications.
    #[derive(Copy)]
    pub struct NotificationsConfig {
        /// How long a notification is kept after its last event; `None`: for ever.
        pub retention: Option<Duration> = parse::duration_limit("1s"..="3650d"),
    }
}

section! {
    /// `[limits]`: maximum sizes and numbers.
    #[derive(Copy, serde::Serialize)]
    pub struct LimitsConfig {
        /// The maximum length of the text of a post or comment, in characters.
        pub text: usize = parse::integer(1..=1_000_000),
        /// The maximum number of media of a post.
        pub media: usize = parse::integer(0..=1000),
        /// The maximum number of topics of a post.
        pub topics: usize = parse::integer(0..=1000),
        /// The maximum size of `data` of a post, in bytes.
        pub data_bytes: usize = parse::integer(0..=1 << 20),
        /// The maximum number of users that a user may follow.
        pub follows: u64 = parse::integer(1..=10_000_000),
        /// The maximum number of favourites of one type that a user may have.
        pub favourites: u64 = parse::integer(1..=1_000_000),
    }
}

section! {
    /// `[rates]`: rate limits, each in units per minute with bursts of twice as many; `None`: no limit.
    #[derive(Copy, Default)]
    pub struct RatesConfig {
        /// Posts that one user writes or edits.
        pub posts: Option<u32> = parse::limit(1_000_000),
        /// Comments of one user.
        pub comments: Option<u32> = parse::limit(1_000_000),
        /// Likes and unlikes of one user.
        pub likes: Option<u32> = parse::limit(1_000_000),
        /// Changes of the edges of one user: follows, hides, mutes, blocks, post alerts.
        pub follows: Option<u32> = parse::limit(1_000_000),
        /// All other writes of one user.
        pub writes: Option<u32> = parse::limit(1_000_000),
        /// Users mentioned by one user.
        pub mentions: Option<u32> = parse::limit(1_000_000),
        /// Topics of the posts of one user.
        pub topics: Option<u32> = parse::limit(1_000_000),
        /// Subscriptions of one user to channels; an anonymous address has [`ADDRESS_READS`](super::ADDRESS_READS)
        /// times as many.
        pub subscriptions: Option<u32> = parse::limit(1_000_000),
        /// Read units of one user; an anonymous address has [`ADDRESS_READS`](super::ADDRESS_READS) times as many. The
        /// table of operations contains the cost of each operation.
        pub reads: Option<u32> = parse::limit(1_000_000),
        /// The volume that one user publishes to channels, in KiB; an anonymous address has
        /// [`ADDRESS_READS`](super::ADDRESS_READS) times as much.
        pub publications: Option<u32> = parse::limit(1_000_000),
        /// Sign-ups from one address.
        pub accounts: Option<u32> = parse::limit(1_000_000),
        /// Failed sign-ins from one address, before further attempts are delayed.
        pub sessions: Option<u32> = parse::limit(1_000_000),
    }
}
