//! How often one user may write, and one address sign up and in.
//!
//! Each pair of a kind and a user (or address) has a bucket that fills at the configured rate and holds twice a minute's
//! worth. This is per node: with several, one who spreads over all of them may do so many times as much. Backends with
//! an API key are trusted and not counted.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::operations::{Access, Operation, Origin, Request};
use super::{Caller, FeedError, Result};
use crate::model::UserId;

/// How often, a minute; `None`: as often as they like. Bursts may be twice as many.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    /// Posts written or edited by a user.
    pub posts: Option<u32>,
    /// Comments written by a user.
    pub comments: Option<u32>,
    /// Likes given or taken back by a user.
    pub likes: Option<u32>,
    /// Edges made or ended by a user: follows, hides, mutes, blocks, wishes to be told.
    pub follows: Option<u32>,
    /// All other writes of a user.
    pub writes: Option<u32>,
    /// Accounts made from an address.
    pub accounts: Option<u32>,
    /// Attempts to sign in from an address.
    pub sessions: Option<u32>,
}

/// How many are counted of each kind at once. Who has not used up anything is not among them; if there are more, those
/// who come then are let through.
const COUNTED: usize = 100_000;

/// The buckets of all kinds.
pub(super) struct Buckets {
    posts: Kind<UserId>,
    comments: Kind<UserId>,
    likes: Kind<UserId>,
    follows: Kind<UserId>,
    writes: Kind<UserId>,
    accounts: Kind<IpAddr>,
    sessions: Kind<IpAddr>,
}

impl Buckets {
    pub(super) fn new(rates: Rates) -> Self {
        Self {
            posts: Kind::new("posts", rates.posts),
            comments: Kind::new("comments", rates.comments),
            likes: Kind::new("likes", rates.likes),
            follows: Kind::new("follows, hides, mutes and blocks", rates.follows),
            writes: Kind::new("writes", rates.writes),
            accounts: Kind::new("new accounts", rates.accounts),
            sessions: Kind::new("attempts to sign in", rates.sessions),
        }
    }

    /// Counts an operation that is asked for.
    ///
    /// # Errors
    /// [`FeedError::RateLimited`] if it is one too many.
    pub(super) fn take(&self, operation: &Operation, asked: &Request) -> Result<()> {
        let now = Instant::now();
        match (asked.origin, &asked.caller) {
            (Origin::Backend, _) => Ok(()),
            (Origin::Address(address), _) if operation.access == Access::Open => {
                let kind = if operation.name == "sessions.create" { &self.sessions } else { &self.accounts };
                kind.take(&one_host(address), now)
            }
            (_, Caller::User(user)) if operation.writes() => self.of(operation.name).take(user, now),
            _ => Ok(()),
        }
    }

    fn of(&self, operation: &str) -> &Kind<UserId> {
        match operation {
            "posts.create" | "posts.edit" => &self.posts,
            "comments.create" => &self.comments,
            "likes.add" | "likes.remove" | "comments.like" | "comments.unlike" => &self.likes,
            "users.update" => &self.writes,
            _ if operation.starts_with("users.") => &self.follows,
            _ => &self.writes,
        }
    }
}

/// An address, or of IPv6 the network that one subscriber has: all its addresses are theirs.
fn one_host(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// The buckets of a kind.
struct Kind<K> {
    what: &'static str,
    /// The time in which one more may be done; `None` without a limit.
    each: Option<Duration>,
    /// How far a bucket's time may lie ahead for one more to be let through.
    ahead: Duration,
    filling: Mutex<Filling<K>>,
}

/// The buckets that are not full: one that is full is the same as none.
struct Filling<K> {
    /// When each will be full again.
    full_at: HashMap<K, Instant>,
    /// When those that are full by then are looked for again, if there is no room.
    sweep_at: Option<Instant>,
}

impl<K: Hash + Eq> Filling<K> {
    /// Makes room for a newcomer if there is any. A map that has grown to its capacity is looked through before it grows
    /// further, and one that may not grow once a second: so each newcomer pays for a few steps.
    fn has_room(&mut self, now: Instant) -> bool {
        let most = self.full_at.len() >= COUNTED;
        if self.full_at.len() == self.full_at.capacity() || (most && self.sweep_at.is_none_or(|at| at <= now)) {
            self.full_at.retain(|_, at| *at > now);
            self.sweep_at = Some(now + Duration::from_secs(1));
        }
        self.full_at.len() < COUNTED
    }
}

impl<K: Hash + Eq + Clone> Kind<K> {
    fn new(what: &'static str, a_minute: Option<u32>) -> Self {
        let each = a_minute.map(|rate| Duration::from_secs(60) / rate.max(1));
        // Two minutes' worth, one of which is being asked for.
        let ahead = each.map_or(Duration::ZERO, |each| Duration::from_secs(120).saturating_sub(each));
        Self { what, each, ahead, filling: Mutex::new(Filling { full_at: HashMap::new(), sweep_at: None }) }
    }

    fn take(&self, who: &K, now: Instant) -> Result<()> {
        let Some(each) = self.each else { return Ok(()) };
        let mut filling = self.filling.lock();
        if let Some(at) = filling.full_at.get_mut(who) {
            let from = (*at).max(now);
            if let Some(wait) = from.checked_duration_since(now + self.ahead).filter(|wait| !wait.is_zero()) {
                return Err(FeedError::RateLimited { what: self.what, retry_after: wait });
            }
            *at = from + each;
        } else if filling.has_room(now) {
            filling.full_at.insert(who.clone(), now + each);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::operations::Operations;
    use super::*;

    #[test]
    fn a_bucket_holds_two_minutes_worth_and_fills_at_the_rate() {
        let kind = Kind::new("posts", Some(6));
        let start = Instant::now();
        let taken = |who: &str, at: u64| {
            let now = start + Duration::from_secs(at);
            (0..100).take_while(|_| kind.take(&who.to_owned(), now).is_ok()).count()
        };
        assert_eq!(taken("ann", 0), 12, "twice the rate at once");
        assert_eq!(taken("bo", 0), 12, "each has a bucket");
        assert_eq!((taken("ann", 9), taken("ann", 10), taken("ann", 10)), (0, 1, 0));
        assert_eq!(taken("ann", 40), 3);
        assert_eq!(taken("ann", 10_000), 12, "and no more however long one waits");
        let later = start + Duration::from_millis(10_003_500);
        match kind.take(&"ann".to_owned(), later) {
            Err(FeedError::RateLimited { retry_after, .. }) => assert_eq!(retry_after, Duration::from_millis(6_500)),
            other => panic!("{other:?}"),
        }
        assert!(kind.take(&"ann".to_owned(), later + Duration::from_millis(6_500)).is_ok(), "it told the truth");
        let unlimited = Kind::new("posts", None);
        assert!((0..1_000).all(|_| unlimited.take(&"ann".to_owned(), start).is_ok()));
        assert!(unlimited.filling.lock().full_at.is_empty());
    }

    #[test]
    fn every_write_has_its_kind() {
        let buckets = Buckets::new(Rates::default());
        for operation in Operations::new().all().iter().filter(|operation| operation.writes()) {
            let name = operation.name;
            let expected = match name.split_once('.').expect("a dot") {
                ("posts", "create" | "edit") => "posts",
                ("comments", "create") => "comments",
                ("likes", _) | ("comments", "like" | "unlike") => "likes",
                ("users", what) if what != "update" => "follows, hides, mutes and blocks",
                _ => "writes",
            };
            assert_eq!(buckets.of(name).what, expected, "{name}");
        }
    }

    #[test]
    fn the_memory_is_bounded_and_full_buckets_make_room() {
        let kind = Kind::new("posts", Some(1));
        let start = Instant::now();
        for who in 0..COUNTED + 10 {
            assert!(kind.take(&who, start).is_ok());
        }
        assert_eq!(kind.filling.lock().full_at.len(), COUNTED);
        assert!((0..9).all(|_| kind.take(&COUNTED, start).is_ok()), "no room: let through");
        let later = start + Duration::from_secs(61);
        assert_eq!((0..9).take_while(|_| kind.take(&COUNTED, later).is_ok()).count(), 2);
        assert_eq!(kind.filling.lock().full_at.len(), 1);
    }

    #[test]
    fn an_ipv6_subscriber_is_one_host() {
        let host = |text: &str| one_host(text.parse().expect("an address"));
        assert_eq!(host("2001:db8:1:2::7"), host("2001:db8:1:2:ffff::1"));
        assert_ne!(host("2001:db8:1:2::7"), host("2001:db8:1:3::7"));
        assert_eq!(host("::ffff:10.0.0.1"), host("10.0.0.1"));
        assert_ne!(host("10.0.0.2"), host("10.0.0.1"));
    }
}
