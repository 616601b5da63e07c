//! `[limits]` and `[rates]`: sizes and rate limits.

use super::layers::SectionReader;
use super::parse;

/// `[limits]`: maximum sizes and numbers.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct LimitsConfig {
    /// The maximum length of the text of a post or comment, in characters.
    pub text: usize,
    /// The maximum number of media of a post.
    pub media: usize,
    /// The maximum number of topics of a post.
    pub topics: usize,
    /// The maximum size of `data` of a post, in bytes.
    pub data_bytes: usize,
    /// The maximum number of users that a user may follow.
    pub follows: u64,
    /// The maximum number of favourites of one type that a user may have.
    pub favourites: u64,
}

impl LimitsConfig {
    pub(super) fn read(mut section: SectionReader<'_>) -> Self {
        Self {
            text: section.read("text", parse::integer(1..=1_000_000)),
            media: section.read("media", parse::integer(0..=1000)),
            topics: section.read("topics", parse::integer(0..=1000)),
            data_bytes: section.read("data_bytes", parse::integer(0..=1 << 20)),
            follows: section.read("follows", parse::integer(1..=10_000_000)),
            favourites: section.read("favourites", parse::integer(1..=1_000_000)),
        }
    }
}

/// `[rates]`: rate limits, each in units per minute with bursts of twice as many; `None`: no limit.
#[derive(Clone, Debug, PartialEq)]
pub struct RatesConfig {
    /// Posts of one user.
    pub posts: Option<u32>,
    /// Comments of one user.
    pub comments: Option<u32>,
    /// Likes and unlikes of one user.
    pub likes: Option<u32>,
    /// Changes of follows and restrictions by one user.
    pub follows: Option<u32>,
    /// All other writes of one user.
    pub writes: Option<u32>,
    /// Users mentioned by one user.
    pub mentions: Option<u32>,
    /// Topics of the posts of one user.
    pub topics: Option<u32>,
    /// Subscriptions of one user to channels.
    pub subscriptions: Option<u32>,
    /// Read units of one user. The table of operations contains the cost of each operation.
    pub reads: Option<u32>,
    /// The volume that one user publishes to channels, in KiB.
    pub publications: Option<u32>,
    /// Sign-ups from one address.
    pub accounts: Option<u32>,
    /// Sign-in attempts from one address.
    pub sessions: Option<u32>,
}

impl RatesConfig {
    pub(super) fn read(mut section: SectionReader<'_>) -> Self {
        let mut rate = |key| section.read(key, parse::limit(1_000_000));
        Self {
            posts: rate("posts"),
            comments: rate("comments"),
            likes: rate("likes"),
            follows: rate("follows"),
            writes: rate("writes"),
            mentions: rate("mentions"),
            topics: rate("topics"),
            subscriptions: rate("subscriptions"),
            reads: rate("reads"),
            publications: rate("publications"),
            accounts: rate("accounts"),
            sessions: rate("sessions"),
        }
    }
}
