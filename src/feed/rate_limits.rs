//! Rate limits: reads and writes of users, sign-ups and sign-ins of addresses.
//!
//! Each limit has a bucket for each user or address. A bucket refills at the configured rate and holds twice the amount
//! of a minute (`crate::limiter`). Backends with an API key are trusted and not counted.
//!
//! | counted | where | while the broker cannot be reached |
//! |---|---|---|
//! | posts, mentions, new accounts, attempts to sign in | for the whole cluster, in the broker | by each node for itself |
//! | everything else | by each node for itself | the same |
//!
//! Reads are weighted by their cost. The table of operations (`api/operations/table.rs`) assigns operations to these
//! limits.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use super::call::{Call, Origin};
use super::config::RatesConfig;
use super::error::{FeedError, Result};
use super::rate_limit_buckets::{Limit, RateSubject};
use crate::broker::Broker;
use crate::limiter::BucketKey;
use crate::metrics::Metrics;
use crate::model::{UserId, others};
use crate::net::{TrustedProxies, subscriber_network};

/// The factor by which an anonymous address may read more than a user: many people may share an address.
pub const ADDRESS_READS: u32 = 10;

/// The number of response bytes that cost one unit of reading; rounded down.
const ANSWER_UNIT: usize = 64 * 1024;

/// The number of bytes of a publication that cost one unit; rounded up.
const PUBLICATION_UNIT: usize = 1024;

/// The number of failed sign-ins per minute for one account, on all nodes together, after which each node delays the
/// next.
const ACCOUNT_FAILURES: u32 = 5;

/// The number of reports of a user per minute, unless `rates.writes` is lower or off.
const REPORTS: u32 = 30;

/// The rate limit that a write counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RateClass {
    /// `rates.posts`.
    Posts,
    /// `rates.comments`.
    Comments,
    /// `rates.likes`.
    Likes,
    /// `rates.follows`.
    Follows,
    /// `rates.writes`.
    Writes,
    /// Reports: [`REPORTS`].
    Reports,
}

/// All limits.
pub(crate) struct RateLimits {
    posts: Limit,
    comments: Limit,
    likes: Limit,
    follows: Limit,
    writes: Limit,
    reports: Limit,
    mentions: Limit,
    topics: Limit,
    subscriptions: Limit,
    address_subscriptions: Limit,
    reads: Limit,
    address_reads: Limit,
    publications: Limit,
    address_publications: Limit,
    forwarded: Limit,
    accounts: Limit,
    failed_sign_ins: Limit,
    account_failures: Limit,
    hasher: RandomState,
    trusted: Arc<TrustedProxies>,
    /// Counts the limits that all nodes share.
    broker: Arc<dyn Broker>,
    metrics: Arc<Metrics>,
}

impl RateLimits {
    /// Anonymous reads by `trusted` proxies and by loopback addresses are not counted: many clients share these
    /// addresses.
    pub(crate) fn new(
        rates: RatesConfig,
        trusted: Arc<TrustedProxies>,
        broker: Arc<dyn Broker>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let limits = Self {
            posts: Limit::shared("posts", "posts"),
            comments: Limit::local("comments", "comments"),
            likes: Limit::local("likes", "likes"),
            follows: Limit::local("follows", "follows, hides, mutes and blocks"),
            writes: Limit::local("writes", "writes"),
            reports: Limit::local("reports", "reports"),
            mentions: Limit::shared("mentions", "mentioned users"),
            topics: Limit::local("topics", "topics of posts"),
            subscriptions: Limit::local("subscriptions", "subscriptions"),
            address_subscriptions: Limit::local("subscriptions", "subscriptions from this address"),
            reads: Limit::local("reads", "reads"),
            address_reads: Limit::local("reads", "reads from this address"),
            publications: Limit::local("publications", "publications"),
            address_publications: Limit::local("publications", "publications from this address"),
            forwarded: Limit::local("publications", "commands for other nodes from this address"),
            accounts: Limit::shared("accounts", "new accounts"),
            failed_sign_ins: Limit::shared("sessions", "failed sign-ins"),
            account_failures: Limit::shared("account_failures", "failed sign-ins"),
            hasher: RandomState::new(),
            trusted,
            broker,
            metrics,
        };
        limits.set(rates);
        limits
    }

    /// Replaces the rates. The buckets of a limit whose rate stays are kept; others begin full.
    pub(crate) fn set(&self, rates: RatesConfig) {
        let of_address = |rate: Option<u32>| rate.map(|units| units.saturating_mul(ADDRESS_READS));
        self.posts.set(rates.posts);
        self.comments.set(rates.comments);
        self.likes.set(rates.likes);
        self.follows.set(rates.follows);
        self.writes.set(rates.writes);
        self.reports.set(rates.writes.map(|rate| rate.min(REPORTS)));
        self.mentions.set(rates.mentions);
        self.topics.set(rates.topics);
        self.subscriptions.set(rates.subscriptions);
        self.address_subscriptions.set(of_address(rates.subscriptions));
        self.reads.set(rates.reads);
        self.address_reads.set(of_address(rates.reads));
        self.publications.set(rates.publications);
        self.address_publications.set(of_address(rates.publications));
        self.forwarded.set(of_address(rates.publications));
        self.accounts.set(rates.accounts);
        self.failed_sign_ins.set(rates.sessions);
        self.account_failures.set(rates.sessions.map(|rate| rate.min(ACCOUNT_FAILURES)));
    }

    /// Counts a write of a user.
    ///
    /// # Errors
    /// [`FeedError::RateLimited`] if the limit is exceeded.
    pub(crate) async fn take_write(&self, class: RateClass, user: &UserId) -> Result<()> {
        let limit = match class {
            RateClass::Posts => &self.posts,
            RateClass::Comments => &self.comments,
            RateClass::Likes => &self.likes,
            RateClass::Follows => &self.follows,
            RateClass::Writes => &self.writes,
            RateClass::Reports => &self.reports,
        };
        self.charge(limit, RateSubject::User(user), 1).await
    }

    /// Counts a new account from an address.
    ///
    /// # Errors
    /// [`FeedError::RateLimited`] if the limit is exceeded.
    pub(crate) async fn take_account(&self, address: IpAddr) -> Result<()> {
        self.charge(&self.accounts, RateSubject::Address(address), 1).await
    }

    /// Counts units of reading of a user, or of an anonymous client at an address.
    ///
    /// # Errors
    /// [`FeedError::RateLimited`] if the limit is exceeded.
    pub(crate) fn take_reads(&self, user: Option<&UserId>, address: IpAddr, units: u32) -> Result<()> {
        self.take_of_client(user, address, units, [&self.reads, &self.address_reads])
    }

    /// Counts the size of a large response as units of reading.
    ///
    /// # Errors
    /// [`FeedError::RateLimited`] if the response exceeds the remaining units.
    pub(crate) fn take_answer(&self, user: Option<&UserId>, origin: Origin, bytes: usize) -> Result<()> {
        let units = u32::try_from(bytes / ANSWER_UNIT).unwrap_or(u32::MAX);
        match origin {
            Origin::Address(address) | Origin::Connection(address) => self.take_reads(user, address, units),
            Origin::Backend => Ok(()),
        }
    }

    /// Counts units of reading of a user.
    ///
    /// # Errors
    /// [`FeedError::RateLimited`] if the limit is exceeded.
    pub(crate) fn take_user_reads(&self, user: &UserId, units: u32) -> Result<()> {
        self.charge_here(&self.reads, RateSubject::User(user), units)
    }

    /// Counts a publication to a channel, of a user or of an anonymous client at an address. `bytes` is what it takes
    /// in the store.
    ///
    /// # Errors
    /// [`FeedError::RateLimited`] if the limit is exceeded.
    pub(crate) fn take_publication(&self, user: Option<&UserId>, address: IpAddr, bytes: usize) -> Result<()> {
        self.take_of_client(user, address, publication_units(bytes), [&self.publications, &self.address_publications])
    }

    /// Counts a subscription of a user, or of an anonymous client at an address. It pays for its end, too.
    ///
    /// # Errors
    /// [`FeedError::RateLimited`] if the limit is exceeded.
    pub(crate) fn take_subscription(&self, user: Option<&UserId>, address: IpAddr) -> Result<()> {
        self.take_of_client(user, address, 1, [&self.subscriptions, &self.address_subscriptions])
    }

    /// Charges a user, or without one an address, by the limit of each.
    fn take_of_client(
        &self,
        user: Option<&UserId>,
        address: IpAddr,
        units: u32,
        [of_user, of_address]: [&Limit; 2],
    ) -> Result<()> {
        match user {
            Some(user) => self.charge_here(of_user, RateSubject::User(user), units),
            None if self.trusted.is_exempt(address) => Ok(()),
            None => self.charge_here(of_address, RateSubject::Address(address), units),
        }
    }

    /// Counts commands that an address sends to a stream of another node. Nobody is signed in there, and an address may
    /// be shared by many users.
    ///
    /// # Errors
    /// [`FeedError::RateLimited`] if the limit is exceeded.
    pub(crate) fn take_forwarded(&self, address: IpAddr, bytes: usize) -> Result<()> {
        self.take_of_client(None, address, publication_units(bytes), [&self.publications, &self.forwarded])
    }

    /// Charges a limit that each node counts for itself.
    fn charge_here(&self, limit: &Limit, subject: RateSubject<'_>, units: u32) -> Result<()> {
        let bucket = limit.bucket.get();
        let (Some(bucket), Some(units)) = (&*bucket, NonZeroU32::new(units)) else { return Ok(()) };
        let taken = bucket.limiter.take(self.key(subject), units);
        taken.map_err(|retry_after| self.refusal(limit, retry_after))
    }

    fn refusal(&self, limit: &Limit, retry_after: Duration) -> FeedError {
        self.metrics.rate_limited(limit.name);
        FeedError::RateLimited { what: limit.what, retry_after }
    }

    /// Counts the users that a text mentions against the author's limit of mentions. A repeated attempt counts again,
    /// because the earlier attempt may have been rejected.
    ///
    /// # Errors
    /// [`FeedError::RateLimited`] if the limit is exceeded; nothing is written then.
    pub(crate) async fn take_mentions(&self, call: &Call, mentions: &[UserId]) -> Result<()> {
        if call.origin == Origin::Backend {
            return Ok(());
        }
        let author = call.caller.user()?;
        self.charge_mentions(author, others(mentions, author).len()).await
    }

    /// Counts the topics that a post adds against the author's limit of topics. A repeated attempt counts again.
    ///
    /// # Errors
    /// [`FeedError::RateLimited`] if the limit is exceeded; nothing is written then.
    pub(crate) fn take_topics(&self, call: &Call, added: usize) -> Result<()> {
        if call.origin == Origin::Backend {
            return Ok(());
        }
        let author = call.caller.user()?;
        self.charge_here(&self.topics, RateSubject::User(author), u32::try_from(added).unwrap_or(u32::MAX))
    }

    async fn charge_mentions(&self, author: &UserId, mentioned: usize) -> Result<()> {
        let units = u32::try_from(mentioned).unwrap_or(u32::MAX);
        self.charge(&self.mentions, RateSubject::User(author), units).await
    }

    /// Counts a failed sign-in for all nodes. Returns the delays of the next attempt from this address and for this
    /// account.
    pub(crate) async fn count_failed_sign_in(&self, address: IpAddr, user: &UserId) -> [Option<Duration>; 2] {
        let of_address = self.charge(&self.failed_sign_ins, RateSubject::Address(address), 1);
        let at_account = self.charge(&self.account_failures, RateSubject::User(user), 1);
        let (of_address, at_account) = tokio::join!(of_address, at_account);
        [of_address, at_account].map(|charged| match charged {
            Err(FeedError::RateLimited { retry_after, .. }) => Some(retry_after),
            _ => None,
        })
    }

    async fn charge(&self, limit: &Limit, subject: RateSubject<'_>, units: u32) -> Result<()> {
        let bucket = limit.bucket.get();
        let (Some(bucket), Some(units)) = (&*bucket, NonZeroU32::new(units)) else { return Ok(()) };
        let key = self.key(subject);
        let taken = match &bucket.denials {
            Some(denials) => bucket.take_shared(&*self.broker, limit.name, (subject, key), units, denials).await,
            None => bucket.limiter.take(key, units),
        };
        taken.map_err(|retry_after| self.refusal(limit, retry_after))
    }

    /// The key of a subject. The neighbourhood of an address is its /24 (IPv4) or /48 (IPv6).
    fn key(&self, subject: RateSubject<'_>) -> BucketKey {
        match subject {
            RateSubject::User(user) => BucketKey::of(self.hasher.hash_one(user.as_str())),
            RateSubject::Address(address) => {
                let host = subscriber_network(address);
                let class = neighbourhood(address);
                BucketKey::in_class(self.hasher.hash_one((1, host)), self.hasher.hash_one((2, class)))
            }
        }
    }
}

fn publication_units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PUBLICATION_UNIT)).unwrap_or(u32::MAX)
}

/// The network around a subscriber.
fn neighbourhood(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, ..] = address.segments();
            IpAddr::from([a, b, c, 0, 0, 0, 0, 0])
        }
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            IpAddr::from([a, b, c, 0])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::{InboxOptions, MemoryBroker};

    fn broker() -> Arc<dyn Broker> {
        Arc::new(MemoryBroker::new(InboxOptions { length: 10, idle: Duration::from_secs(60) }))
    }

    #[test]
    fn neighbours_are_in_one_network() {
        let network = |text: &str| neighbourhood(text.parse().expect("an address"));
        assert_eq!(network("2001:db8:1:2::7"), network("2001:db8:1:3::7"));
        assert_ne!(network("2001:db8:1:2::7"), network("2001:db8:2:2::7"));
        assert_eq!((network("10.0.0.2"), network("10.0.0.3")), (network("::ffff:10.0.0.1"), network("10.0.0.1")));
    }

    #[tokio::test]
    async fn shared_limits_are_counted_by_the_broker_and_by_the_node_without_it() {
        let broker = broker();
        // Two nodes, one broker.
        let rates = RatesConfig { mentions: Some(10), ..RatesConfig::default() };
        let nodes = [0, 1].map(|_| RateLimits::new(rates, Arc::default(), Arc::clone(&broker), Arc::default()));
        let ann = UserId::parse("ann").expect("an id");
        let mut taken = 0;
        for n in 0..100 {
            taken += usize::from(nodes[n % 2].charge_mentions(&ann, 1).await.is_ok());
        }
        assert_eq!(taken, 20, "twice a minute's worth, on both nodes together");
        assert!(nodes[0].charge_mentions(&UserId::parse("bo").expect("an id"), 20).await.is_ok());
    }
}
