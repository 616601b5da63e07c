//! The sign-in guard: counts failed sign-ins by address and by account, and delays further attempts.
//!
//! Each address and each account has an allowance of failures, which refills over time. Each failure beyond the
//! allowance doubles the delay before the next attempt is accepted. Successful sign-ins are not counted. An address
//! with a recent successful sign-in to an account has a separate counter for that account, so that failures from other
//! addresses cannot lock out the owner.
//!
//! The current time is a parameter. The counters belong to this process. Delays from counters that several nodes share
//! are passed to [`SignInAttempt::failed`].

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::model::UserId;

/// The number of failures at one account before the first delay, and the time in which one failure is restored.
const ACCOUNT_ALLOWANCE: u32 = 5;
const ACCOUNT_REFILL: Duration = Duration::from_secs(60);

/// The first delay; each further failure doubles it, up to the longest delay. The longest delay of an address is
/// shorter, because many users may share an address.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY_OF_ADDRESS: Duration = Duration::from_secs(60);
const LONGEST_DELAY_AT_ACCOUNT: Duration = Duration::from_secs(300);

/// How long a counter is kept after its last failure.
const KEPT: Duration = Duration::from_secs(1_800);

/// How long an address stays trusted for an account after a successful sign-in.
const TRUSTED_FOR: Duration = Duration::from_secs(30 * 24 * 3_600);

/// The maximum number of entries in each table: counters of addresses, counters of accounts, trusted pairs. When a
/// table is full, a new entry evicts the least recently used of `SAMPLE` entries.
const MAX_KEPT: usize = 100_000;
const SAMPLE: usize = 8;

/// The maximum number of attempts, right or wrong, that wait for their password check: for one address, for one address
/// that many users share, and at one account. The numbers are small so that a few addresses cannot fill the password
/// queue.
const MAX_PENDING_OF_ADDRESS: u32 = 4;
const MAX_PENDING_OF_SHARED_ADDRESS: u32 = 64;
const MAX_PENDING_AT_ACCOUNT: u32 = 2;

/// The delay for attempts beyond the maximum of pending ones.
const RETRY_PENDING: Duration = Duration::from_secs(1);

/// Counts failed sign-ins.
#[derive(Debug)]
pub struct SignInGuard {
    state: Mutex<GuardState>,
    address: Allowance,
    account: Allowance,
}

#[derive(Debug, Default)]
struct GuardState {
    addresses: HashMap<IpAddr, Failures>,
    accounts: HashMap<UserId, Failures>,
    /// The addresses with a recent successful sign-in, by account.
    trusted: HashMap<(IpAddr, UserId), Trusted>,
}

/// An address with a recent successful sign-in to an account.
#[derive(Debug)]
struct Trusted {
    until: Instant,
    /// The failures at the account from this address.
    failures: Failures,
}

/// The rate of failures without a delay.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    burst: u32,
    /// The time in which one failure is restored.
    refill: Duration,
    longest_delay: Duration,
    max_pending: u32,
}

/// The failures of an address or at an account.
#[derive(Debug)]
struct Failures {
    /// When the whole allowance is restored. Each failure postpones it.
    refilled_at: Instant,
    /// The number of failures beyond the allowance.
    level: u32,
    /// Attempts before this time are refused.
    delayed_until: Instant,
    last: Instant,
    /// The number of attempts whose outcome is unknown.
    pending: u32,
}

impl Failures {
    fn new(now: Instant) -> Self {
        Self { refilled_at: now, level: 0, delayed_until: now, last: now, pending: 0 }
    }

    fn fail(&mut self, allowance: Allowance, now: Instant) {
        // Each period of twice the longest delay without a failure lowers the level by one.
        let quiet = now.saturating_duration_since(self.last).as_secs() / (2 * allowance.longest_delay.as_secs());
        self.level = self.level.saturating_sub(u32::try_from(quiet).unwrap_or(u32::MAX));
        self.last = now;
        let full = now + allowance.refill * allowance.burst;
        self.refilled_at = (self.refilled_at.max(now) + allowance.refill).min(full);
        let taken = self.refilled_at.duration_since(now).as_nanos().div_ceil(allowance.refill.as_nanos().max(1));
        if self.level == 0 && taken < u128::from(allowance.burst) {
            return;
        }
        let delay = FIRST_DELAY.saturating_mul(1 << self.level.min(16)).min(allowance.longest_delay);
        self.level += 1;
        self.delayed_until = now + delay;
    }

    fn is_over(&self, now: Instant) -> bool {
        self.pending == 0 && now.saturating_duration_since(self.last) > KEPT
    }
}

/// An attempt that the guard admitted. It counts as failed when it is dropped, unless another outcome was reported: a
/// caller that disconnects has used the password check but does not learn the result.
#[derive(Debug)]
pub struct SignInAttempt {
    guard: Arc<SignInGuard>,
    address: IpAddr,
    user: UserId,
    /// Whether the attempt counts in the separate counter of a trusted address.
    is_trusted: bool,
    outcome: AttemptOutcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AttemptOutcome {
    /// With the delays of the shared counters: for the address, and for the account.
    Failed([Option<Duration>; 2]),
    Succeeded,
    Unknown,
}

impl SignInGuard {
    /// `failures_per_minute` is the rate of failures of one address without a delay; bursts may be twice as large.
    /// `None` disables the guard.
    pub fn new(failures_per_minute: Option<u32>) -> Option<Arc<Self>> {
        let rate = failures_per_minute?.max(1);
        let burst = rate.saturating_mul(2);
        let address = Allowance {
            burst,
            refill: Duration::from_secs(60) / rate,
            longest_delay: LONGEST_DELAY_OF_ADDRESS,
            max_pending: MAX_PENDING_OF_ADDRESS,
        };
        let account = Allowance {
            burst: burst.min(ACCOUNT_ALLOWANCE),
            refill: ACCOUNT_REFILL,
            longest_delay: LONGEST_DELAY_AT_ACCOUNT,
            max_pending: MAX_PENDING_AT_ACCOUNT,
        };
        Some(Arc::new(Self { state: Mutex::default(), address, account }))
    }

    /// Whether the other one has the same rate.
    pub fn has_rate_of(&self, other: &Self) -> bool {
        self.address.refill == other.address.refill
    }

    /// Admits an attempt, or refuses it. `address` identifies one host: for IPv6 it is the /64 network of one
    /// subscriber. `is_shared`: many users share the address.
    ///
    /// # Errors
    /// The time to wait before the next attempt.
    pub fn begin(
        self: &Arc<Self>,
        address: IpAddr,
        is_shared: bool,
        user: &UserId,
        now: Instant,
    ) -> Result<SignInAttempt, Duration> {
        let max_pending = if is_shared { MAX_PENDING_OF_SHARED_ADDRESS } else { self.address.max_pending };
        let mut state = self.state.lock();
        let GuardState { addresses, accounts, trusted } = &mut *state;
        may_begin(addresses.get(&address), Allowance { max_pending, ..self.address }, now)?;
        let trusted = trusted.get_mut(&(address, user.clone())).filter(|trusted| trusted.until > now);
        let is_trusted = trusted.is_some();
        let at_account = match trusted {
            Some(trusted) => {
                may_begin(Some(&trusted.failures), self.account, now)?;
                &mut trusted.failures
            }
            None => {
                may_begin(accounts.get(user), self.account, now)?;
                counter(accounts, user.clone(), now)
            }
        };
        at_account.pending += 1;
        counter(addresses, address, now).pending += 1;
        drop(state);
        let guard = Arc::clone(self);
        let user = user.clone();
        let outcome = AttemptOutcome::Failed([None; 2]);
        Ok(SignInAttempt { guard, address, user, is_trusted, outcome })
    }

    fn end(&self, attempt: &SignInAttempt, now: Instant) {
        let mut state = self.state.lock();
        let GuardState { addresses, accounts, trusted } = &mut *state;
        let pair = (attempt.address, attempt.user.clone());
        let at_account = match attempt.is_trusted {
            true => trusted.get_mut(&pair).map(|trusted| &mut trusted.failures),
            false => accounts.get_mut(&attempt.user),
        };
        let ends = [(addresses.get_mut(&attempt.address), self.address), (at_account, self.account)];
        for (n, (failures, allowance)) in ends.into_iter().enumerate() {
            let Some(failures) = failures else { continue };
            failures.pending = failures.pending.saturating_sub(1);
            if let AttemptOutcome::Failed(delays) = attempt.outcome {
                failures.fail(allowance, now);
                let shared = delays[n].unwrap_or_default().min(allowance.longest_delay);
                failures.delayed_until = failures.delayed_until.max(now + shared);
            }
        }
        if attempt.outcome == AttemptOutcome::Succeeded {
            if !trusted.contains_key(&pair) {
                make_room(trusted, |trusted| trusted.until <= now, |trusted| trusted.until);
            }
            let new = || Trusted { until: now, failures: Failures::new(now) };
            trusted.entry(pair).or_insert_with(new).until = now + TRUSTED_FOR;
        }
    }
}

impl SignInAttempt {
    /// Reports a correct password: nothing is counted, and the address becomes trusted for the account.
    pub fn succeeded(mut self) {
        self.outcome = AttemptOutcome::Succeeded;
    }

    /// Reports a wrong password. `delays` are the minimum delays before the next attempt, for the address and for the
    /// account.
    pub fn failed(mut self, delays: [Option<Duration>; 2]) {
        self.outcome = AttemptOutcome::Failed(delays);
    }

    /// The address and the account of the attempt.
    pub fn who(&self) -> (IpAddr, &UserId) {
        (self.address, &self.user)
    }

    /// Reports that the password was not checked: nothing is counted.
    pub fn cancelled(mut self) {
        self.outcome = AttemptOutcome::Unknown;
    }
}

impl Drop for SignInAttempt {
    fn drop(&mut self) {
        let guard = Arc::clone(&self.guard);
        guard.end(self, Instant::now());
    }
}

fn may_begin(failures: Option<&Failures>, allowance: Allowance, now: Instant) -> Result<(), Duration> {
    let Some(failures) = failures else { return Ok(()) };
    let wait = failures.delayed_until.saturating_duration_since(now);
    if !wait.is_zero() {
        return Err(wait);
    }
    if failures.pending >= allowance.max_pending { Err(RETRY_PENDING) } else { Ok(()) }
}

fn counter<K: Eq + Hash + Clone>(counters: &mut HashMap<K, Failures>, key: K, now: Instant) -> &mut Failures {
    if !counters.contains_key(&key) {
        make_room(counters, |failures| failures.is_over(now), |failures| failures.last);
    }
    let failures = counters.entry(key).or_insert_with(|| Failures::new(now));
    if failures.is_over(now) {
        *failures = Failures::new(now);
    }
    failures
}

/// Makes room for a new entry: of a few sampled entries, removes those that are over, and the oldest one. The map uses
/// a random hash key, so an attacker cannot choose the sample.
fn make_room<K: Eq + Hash + Clone, V>(
    map: &mut HashMap<K, V>,
    is_over: impl Fn(&V) -> bool,
    last_used: impl Fn(&V) -> Instant,
) {
    if map.len() < MAX_KEPT {
        return;
    }
    let sample: Vec<(K, bool, Instant)> =
        map.iter().take(SAMPLE).map(|(key, value)| (key.clone(), is_over(value), last_used(value))).collect();
    let oldest = sample.iter().min_by_key(|(_, _, last)| *last).map(|(key, ..)| key.clone());
    for (key, is_over, _) in &sample {
        if *is_over || Some(key) == oldest.as_ref() {
            map.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(n: u8) -> IpAddr {
        IpAddr::from([203, 0, 113, n])
    }

    fn user(name: &str) -> UserId {
        UserId::parse(name).unwrap()
    }

    /// Ends an attempt as failed at the given time.
    fn fail(guard: &Arc<SignInGuard>, address: IpAddr, name: &str, now: Instant) -> Result<(), Duration> {
        let mut attempt = guard.begin(address, false, &user(name), now)?;
        guard.end(&attempt, now);
        // The drop must not count as well: it goes to another guard.
        attempt.guard = SignInGuard::new(Some(1)).unwrap();
        Ok(())
    }

    #[test]
    fn failures_at_an_account_are_delayed_from_any_address() {
        let guard = SignInGuard::new(Some(300)).unwrap();
        let mut now = Instant::now();
        let anywhere = (1..=255).map(ip).collect::<Vec<_>>();
        let mut from = anywhere.iter().cycle();
        for _ in 1..ACCOUNT_ALLOWANCE {
            fail(&guard, *from.next().unwrap(), "ann", now).unwrap();
        }
        let mut waited = Vec::new();
        for _ in 0..12 {
            fail(&guard, *from.next().unwrap(), "ann", now).unwrap();
            let wait = fail(&guard, *from.next().unwrap(), "ann", now).unwrap_err();
            waited.push(wait.as_secs());
            now += wait;
        }
        assert_eq!(waited, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        assert!(fail(&guard, ip(1), "bo", now).is_ok(), "another account");
    }

    #[test]
    fn failures_of_an_address_are_delayed_for_any_account() {
        let guard = SignInGuard::new(Some(6)).unwrap();
        let now = Instant::now();
        let failed = (0..100).take_while(|n| fail(&guard, ip(1), &format!("user{n}"), now).is_ok()).count();
        assert_eq!(failed, 12, "twice the rate");
        assert!(fail(&guard, ip(2), "user1", now).is_ok(), "another address");
        assert_eq!(fail(&guard, ip(1), "ann", now), Err(FIRST_DELAY));
        assert!(fail(&guard, ip(1), "ann", now + FIRST_DELAY).is_ok());
        assert_eq!(fail(&guard, ip(1), "ann", now + FIRST_DELAY), Err(FIRST_DELAY * 2));
        let much_later = now + KEPT * 2;
        assert_eq!((0..13).filter(|_| fail(&guard, ip(1), "cy", much_later).is_ok()).count(), 5, "the account's");
    }

    #[test]
    fn successes_and_unchecked_attempts_do_not_count() {
        let guard = SignInGuard::new(Some(1)).unwrap();
        // Dropping an attempt uses the real clock, so the test's time is ahead of it.
        let now = Instant::now() + Duration::from_secs(60);
        for _ in 0..100 {
            guard.begin(ip(1), false, &user("ann"), now).unwrap().succeeded();
            guard.begin(ip(1), false, &user("ann"), now).unwrap().cancelled();
        }
        drop(guard.begin(ip(1), false, &user("ann"), now).unwrap());
        assert!(guard.state.lock().addresses[&ip(1)].refilled_at > now, "who goes away has failed");
    }

    #[test]
    fn users_are_not_locked_out_by_other_addresses() {
        let guard = SignInGuard::new(Some(300)).unwrap();
        // Dropping an attempt uses the real clock, so the test's time is ahead of it.
        let now = Instant::now() + Duration::from_secs(60);
        guard.begin(ip(1), false, &user("ann"), now).unwrap().succeeded();
        while fail(&guard, ip(9), "ann", now).is_ok() {}
        assert!(guard.begin(ip(2), false, &user("ann"), now).is_err(), "a strange address is held up");
        guard.begin(ip(1), false, &user("ann"), now).unwrap().succeeded();
        let guessed = (0..100).take_while(|_| fail(&guard, ip(1), "ann", now).is_ok()).count();
        assert_eq!(guessed as u32, ACCOUNT_ALLOWANCE, "but nobody guesses there as long as they like");
    }

    #[test]
    fn attempts_at_the_same_time_are_bounded() {
        let guard = SignInGuard::new(Some(300)).unwrap();
        let now = Instant::now();
        let at_ann: Vec<_> = (0..20).filter_map(|n| guard.begin(ip(n), false, &user("ann"), now).ok()).collect();
        assert_eq!(at_ann.len() as u32, MAX_PENDING_AT_ACCOUNT);
        let of_one: Vec<_> =
            (0..100).filter_map(|n| guard.begin(ip(99), false, &user(&format!("u{n}")), now).ok()).collect();
        assert_eq!(of_one.len() as u32, MAX_PENDING_OF_ADDRESS);
        let of_proxy = (0..100).map(|n| guard.begin(ip(98), true, &user(&format!("p{n}")), now));
        assert_eq!(of_proxy.filter_map(Result::ok).collect::<Vec<_>>().len() as u32, MAX_PENDING_OF_SHARED_ADDRESS);
    }

    #[test]
    fn counters_are_bounded() {
        let guard = SignInGuard::new(Some(300)).unwrap();
        let now = Instant::now();
        for n in 0..MAX_KEPT as u32 + 50 {
            let address = IpAddr::V6(((0x2001_u128 << 112) | (u128::from(n) << 64)).into());
            guard.begin(address, false, &user(&format!("u{n}")), now).unwrap().succeeded();
        }
        let state = guard.state.lock();
        assert!(state.addresses.len() <= MAX_KEPT && state.accounts.len() <= MAX_KEPT);
        assert!(state.trusted.len() <= MAX_KEPT);
    }
}
