//! Circuit breakers: a server that fails is left alone for a while, instead of being asked again for every request that
//! waits. The push bridge, the hooks and the outlet use them.
//!
//! A client of Feedline may choose the server, or cause requests that it refuses. So failures count only if several
//! sources (users, or addresses) caused them, and after a probe of one source that failed, others go first.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rand::RngExt as _;

use crate::shares::SourceId;

/// The time after which a probe without a result is forgotten and another one allowed.
const PROBE_TIMEOUT: Duration = Duration::from_secs(60);

/// The number of entries that are compared to find one to evict.
const EVICTION_SAMPLE: usize = 16;

/// What fails together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BreakerKey {
    /// A service with a configured address, by its name. It is never evicted.
    Service(&'static str),
    /// A server of many devices.
    Origin(String),
}

/// When breakers open, and for how long.
#[derive(Clone, Debug)]
pub struct BreakerOptions {
    /// The number of failures in sequence that open a breaker.
    pub failures: u32,
    /// The number of sources that these failures must have.
    pub sources: usize,
    /// How long a breaker stays open the first time. Every failed probe doubles it.
    pub min_open: Duration,
    /// The longest time that a breaker stays open, unless a [`BreakerVerdict::Failure`] demands more.
    pub max_open: Duration,
    /// The maximum number of servers whose failures are remembered.
    pub max_keys: usize,
}

impl Default for BreakerOptions {
    fn default() -> Self {
        let min_open = Duration::from_secs(1);
        let max_open = Duration::from_secs(300);
        Self { failures: 5, sources: 1, min_open, max_open, max_keys: 10_000 }
    }
}

/// The breakers of all providers and servers. A closed breaker without failures needs no memory.
#[derive(Clone, Debug)]
pub struct Breakers {
    states: Arc<Mutex<HashMap<BreakerKey, BreakerState>>>,
    options: Arc<BreakerOptions>,
}

#[derive(Clone, Debug)]
struct BreakerState {
    /// Failures in sequence while closed.
    failures: u32,
    /// Their sources, as many as are needed to open.
    sources: Vec<SourceId>,
    /// The shortest delay that one of them demanded; `None`: one demanded none.
    demanded: Option<Duration>,
    /// How often the breaker opened without closing in between.
    openings: u32,
    /// Half-open after this time. `None`: closed.
    open_until: Option<Instant>,
    /// When the running probe is forgotten.
    probe_until: Option<Instant>,
    /// The source of the last probe, which failed.
    failed_probe: Option<SourceId>,
}

/// What a request showed about the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerVerdict {
    /// The server works.
    Success,
    /// The server failed. `after`: it asks to be left alone for this time, so that the breaker opens at once.
    Failure {
        /// The demanded delay.
        after: Option<Duration>,
    },
    /// The server fails or wants less, perhaps for the source of the request alone. So the breaker opens after several
    /// in sequence, for the shortest delay that they demand, and at most for its longest time.
    Refused {
        /// The demanded delay.
        after: Option<Duration>,
    },
}

/// The right to send one request. Dropping it without a verdict changes nothing.
#[derive(Debug)]
pub struct BreakerPermit {
    breakers: Breakers,
    key: BreakerKey,
    source: SourceId,
    probe: bool,
    settled: bool,
}

/// A failed request.
#[derive(Clone, Copy)]
struct RequestFailure {
    source: SourceId,
    is_probe: bool,
    /// It opens the breaker alone.
    at_once: bool,
    /// The demanded delay.
    after: Option<Duration>,
}

impl Breakers {
    /// All closed.
    pub fn new(options: BreakerOptions) -> Self {
        Self { states: Arc::default(), options: Arc::new(options) }
    }

    /// Asks to send a request that a source caused.
    ///
    /// # Errors
    /// How long to wait, if the breaker is open or a probe is running.
    pub fn admit(&self, key: BreakerKey, source: SourceId) -> Result<BreakerPermit, Duration> {
        self.admit_at(key, source, Instant::now())
    }

    fn admit_at(&self, key: BreakerKey, source: SourceId, now: Instant) -> Result<BreakerPermit, Duration> {
        let mut probe = false;
        if let Some(state) = self.states.lock().get_mut(&key)
            && let Some(open_until) = state.open_until
        {
            if state.waits_until() > Some(now) {
                // While a probe runs, its result is near.
                let wait = if open_until > now { open_until - now } else { self.options.min_open };
                return Err(wait);
            }
            // Otherwise a source with many requests, all of which fail, would keep the breaker open.
            let others_first = open_until + self.options.min_open;
            if self.options.sources > 1 && state.failed_probe == Some(source) && now < others_first {
                return Err(others_first - now);
            }
            state.probe_until = Some(now + PROBE_TIMEOUT);
            probe = true;
        }
        Ok(BreakerPermit { breakers: self.clone(), key, source, probe, settled: false })
    }

    /// Whether a request would be refused now. Unlike [`admit`](Self::admit), this takes no probe.
    pub fn is_open(&self, key: &BreakerKey) -> bool {
        self.states.lock().get(key).is_some_and(|state| state.waits_until() > Some(Instant::now()))
    }

    /// The number of breakers that are open or half-open.
    pub fn open(&self) -> usize {
        self.states.lock().values().filter(|state| state.open_until.is_some()).count()
    }

    /// The number of servers whose failures are remembered.
    pub fn len(&self) -> usize {
        self.states.lock().len()
    }

    /// Whether no server failed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn succeed(&self, key: &BreakerKey, probe: bool) {
        let mut states = self.states.lock();
        // A late success of a request from before the breaker opened says nothing about the server now.
        if probe || states.get(key).is_some_and(|state| state.open_until.is_none()) {
            states.remove(key);
        }
    }

    fn fail(&self, key: &BreakerKey, failure: RequestFailure, now: Instant) {
        let RequestFailure { source, is_probe, at_once, after } = failure;
        let mut states = self.states.lock();
        if !states.contains_key(key) && states.len() >= self.options.max_keys {
            evict(&mut states);
        }
        let state = states.entry(key.clone()).or_insert_with(BreakerState::closed);
        if state.open_until.is_some() && !is_probe {
            // One of many requests that failed together: only a demand of the server counts again.
            let demanded = after.filter(|_| at_once).map(|after| now + after);
            state.open_until = state.open_until.max(demanded);
            return;
        }
        state.demanded = if state.failures == 0 { after } else { state.demanded.min(after) };
        state.failures += 1;
        if state.sources.len() < self.options.sources && !state.sources.contains(&source) {
            state.sources.push(source);
        }
        let are_several = state.failures >= self.options.failures && state.sources.len() >= self.options.sources;
        if is_probe || at_once || are_several {
            let max_open = self.options.max_open;
            let nominal = self.options.min_open.saturating_mul(1 << state.openings.min(20)).min(max_open);
            let jittered = nominal.mul_f64(rand::rng().random_range(0.5..=1.0));
            let demanded = match at_once {
                true => after,
                false => state.demanded.filter(|_| are_several).map(|demanded| demanded.min(max_open)),
            };
            *state = BreakerState {
                openings: state.openings.saturating_add(1),
                open_until: Some(now + jittered.max(demanded.unwrap_or_default())),
                failed_probe: Some(source).filter(|_| is_probe),
                ..BreakerState::closed()
            };
        }
    }
}

impl BreakerState {
    fn closed() -> Self {
        Self {
            failures: 0,
            sources: Vec::new(),
            demanded: None,
            openings: 0,
            open_until: None,
            probe_until: None,
            failed_probe: None,
        }
    }

    /// When the next request is admitted; `None`: the breaker is closed.
    fn waits_until(&self) -> Option<Instant> {
        let open_until = self.open_until?;
        Some(self.probe_until.map_or(open_until, |probe_until| probe_until.max(open_until)))
    }
}

/// Removes the entry of a sample that matters least: a closed breaker, or the one that has been open the longest.
fn evict(states: &mut HashMap<BreakerKey, BreakerState>) {
    let sample = states.iter().filter(|(key, _)| matches!(key, BreakerKey::Origin(_))).take(EVICTION_SAMPLE);
    let victim = sample.min_by_key(|(_, state)| state.open_until).map(|(key, _)| key.clone());
    if let Some(victim) = victim {
        states.remove(&victim);
    }
}

impl BreakerPermit {
    /// Reports what the request showed.
    pub fn settle(self, verdict: BreakerVerdict) {
        self.settle_at(verdict, Instant::now());
    }

    fn settle_at(mut self, verdict: BreakerVerdict, now: Instant) {
        self.settled = true;
        let (at_once, after) = match verdict {
            BreakerVerdict::Success => return self.breakers.succeed(&self.key, self.probe),
            BreakerVerdict::Failure { after } => (after.is_some(), after),
            BreakerVerdict::Refused { after } => (false, after),
        };
        let failure = RequestFailure { source: self.source, is_probe: self.probe, at_once, after };
        self.breakers.fail(&self.key, failure, now);
    }
}

impl Drop for BreakerPermit {
    fn drop(&mut self) {
        if self.probe
            && !self.settled
            && let Some(state) = self.breakers.states.lock().get_mut(&self.key)
        {
            state.probe_until = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: BreakerVerdict = BreakerVerdict::Failure { after: None };
    const ONLY: SourceId = SourceId::ONLY;
    const SECOND: Duration = Duration::from_secs(1);

    fn breakers(max_keys: usize) -> Breakers {
        Breakers::new(BreakerOptions {
            failures: 3,
            sources: 1,
            min_open: 10 * SECOND,
            max_open: 40 * SECOND,
            max_keys,
        })
    }

    fn key(name: &str) -> BreakerKey {
        BreakerKey::Origin(name.to_owned())
    }

    #[test]
    fn a_breaker_opens_probes_and_closes() {
        let breakers = breakers(10);
        let start = Instant::now();
        let settle = |verdict, at| breakers.admit_at(key("a"), ONLY, at).unwrap().settle_at(verdict, at);
        settle(FAILED, start);
        settle(FAILED, start);
        settle(BreakerVerdict::Success, start);
        for _ in 0..3 {
            settle(FAILED, start);
        }
        let wait = breakers.admit_at(key("a"), ONLY, start).unwrap_err();
        assert!((5 * SECOND..=10 * SECOND).contains(&wait), "{wait:?}");
        assert!(breakers.admit_at(key("b"), ONLY, start).is_ok(), "another server is not affected");

        let half_open = start + wait;
        let probe = breakers.admit_at(key("a"), ONLY, half_open).unwrap();
        assert!(breakers.admit_at(key("a"), ONLY, half_open).is_err(), "one probe at a time");
        probe.settle_at(FAILED, half_open);
        let longer = breakers.admit_at(key("a"), ONLY, half_open).unwrap_err();
        assert!((10 * SECOND..=20 * SECOND).contains(&longer), "{longer:?}");

        let mut at = half_open + longer;
        for _ in 0..5 {
            settle(FAILED, at);
            let wait = breakers.admit_at(key("a"), ONLY, at).unwrap_err();
            assert!(wait <= 40 * SECOND, "{wait:?}");
            at += wait;
        }
        settle(BreakerVerdict::Success, at);
        assert!(breakers.is_empty() && breakers.admit_at(key("a"), ONLY, at).is_ok());
    }

    #[test]
    fn a_demanded_delay_opens_at_once_and_is_kept() {
        let breakers = breakers(10);
        let start = Instant::now();
        let [first, second, late] = std::array::from_fn(|_| breakers.admit_at(key("a"), ONLY, start).unwrap());
        first.settle_at(BreakerVerdict::Failure { after: Some(100 * SECOND) }, start);
        second.settle_at(FAILED, start);
        late.settle_at(BreakerVerdict::Success, start);
        assert_eq!(breakers.admit_at(key("a"), ONLY, start).unwrap_err(), 100 * SECOND);
    }

    #[test]
    fn several_refused_requests_in_sequence_open_for_the_shortest_demanded_delay() {
        let breakers = breakers(10);
        let start = Instant::now();
        let refused = |seconds: u32| BreakerVerdict::Refused { after: Some(seconds * SECOND) };
        for verdict in [refused(9), refused(9), BreakerVerdict::Success, refused(99), refused(30), refused(99)] {
            breakers.admit_at(key("a"), ONLY, start).unwrap().settle_at(verdict, start);
        }
        assert_eq!(breakers.admit_at(key("a"), ONLY, start).unwrap_err(), 30 * SECOND);
        (0..3).for_each(|_| breakers.admit_at(key("b"), ONLY, start).unwrap().settle_at(refused(86_400), start));
        assert_eq!(breakers.admit_at(key("b"), ONLY, start).unwrap_err(), 40 * SECOND, "a bounded time");
    }

    #[test]
    fn one_source_cannot_open_a_breaker_or_keep_it_open() {
        let options = BreakerOptions { sources: 2, ..BreakerOptions::clone(&breakers(10).options) };
        let breakers = Breakers::new(options);
        let start = Instant::now();
        let [ann, bo] = ["ann", "bo"].map(SourceId::of);
        let admit = |source, at| breakers.admit_at(key("a"), source, at);
        for _ in 0..100 {
            let refused = BreakerVerdict::Refused { after: Some(100 * SECOND) };
            admit(ann, start).unwrap().settle_at(refused, start);
            admit(ann, start).unwrap().settle_at(FAILED, start);
        }
        admit(bo, start).unwrap().settle_at(FAILED, start);
        let wait = admit(bo, start).unwrap_err();
        assert!(wait <= 10 * SECOND, "failures of two open it, for no time that one demands: {wait:?}");

        let half_open = start + wait;
        admit(ann, half_open).unwrap().settle_at(FAILED, half_open);
        let again = half_open + admit(bo, half_open).unwrap_err();
        assert_eq!(admit(ann, again).unwrap_err(), 10 * SECOND, "others probe first");
        admit(bo, again).unwrap().settle_at(BreakerVerdict::Success, again);
        assert!(admit(ann, again).is_ok());
    }

    #[test]
    fn a_lone_source_probes_again_after_a_while() {
        let options = BreakerOptions { sources: 2, ..BreakerOptions::clone(&breakers(10).options) };
        let breakers = Breakers::new(options);
        let start = Instant::now();
        let ann = SourceId::of("ann");
        let demanding = BreakerVerdict::Failure { after: Some(10 * SECOND) };
        breakers.admit_at(key("a"), ann, start).unwrap().settle_at(demanding, start);
        let half_open = start + 10 * SECOND;
        breakers.admit_at(key("a"), ann, half_open).unwrap().settle_at(FAILED, half_open);
        let open = breakers.admit_at(key("a"), ann, half_open).unwrap_err();
        assert!(breakers.admit_at(key("a"), ann, half_open + open + 10 * SECOND).is_ok());
    }

    #[test]
    fn a_cancelled_probe_makes_room_for_another() {
        let breakers = breakers(10);
        let start = Instant::now();
        let permit = breakers.admit_at(key("a"), ONLY, start).unwrap();
        permit.settle_at(BreakerVerdict::Failure { after: Some(20 * SECOND) }, start);
        let later = start + 21 * SECOND;
        assert!(breakers.is_open(&key("a")), "by the clock of the process");
        drop(breakers.admit_at(key("a"), ONLY, later).unwrap());
        assert!(breakers.admit_at(key("a"), ONLY, later).is_ok());
    }

    #[test]
    fn the_number_of_servers_is_bounded_and_providers_stay() {
        let breakers = breakers(100);
        let provider = BreakerKey::Service("fcm");
        breakers.admit(provider.clone(), ONLY).unwrap().settle(BreakerVerdict::Failure { after: Some(9 * SECOND) });
        for server in 0..1000 {
            breakers.admit(key(&server.to_string()), ONLY).unwrap().settle(FAILED);
        }
        assert_eq!(breakers.len(), 100);
        assert!(breakers.admit(provider, ONLY).is_err());
    }
}
