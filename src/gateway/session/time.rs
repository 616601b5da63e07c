//! The time of sessions: it is always a parameter, and expiries are computed from it.

use std::time::Duration;

/// How long after its expiry a connection or a subscription may still be refreshed, in seconds.
const EXPIRY_GRACE: u64 = 25;

/// The current time, passed in by the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionTime {
    /// Milliseconds on a monotonic clock with an arbitrary zero.
    pub ticks: u64,
    /// Unix seconds, the unit of tokens.
    pub unix: u64,
}

/// The time until something expires.
pub(super) enum TimeLeft {
    Unlimited,
    Seconds(u64),
    Expired,
}

impl TimeLeft {
    pub(super) fn until(expires_at: Option<u64>, now: SessionTime) -> Self {
        match expires_at {
            None => Self::Unlimited,
            Some(at) if at > now.unix => Self::Seconds(ttl(at, now)),
            Some(_) => Self::Expired,
        }
    }
}

/// Whether something has expired and its grace period is over.
pub(super) fn is_over(expires_at: Option<u64>, now: SessionTime) -> bool {
    expires_at.is_some_and(|at| now.unix >= at.saturating_add(EXPIRY_GRACE))
}

/// When the grace period of an expiry is over, in ticks. Always later than now.
pub(super) fn over_at(expires_at: u64, now: SessionTime) -> u64 {
    let left = expires_at.saturating_add(EXPIRY_GRACE).saturating_sub(now.unix).max(1);
    now.ticks.saturating_add(left.saturating_mul(1_000))
}

/// Seconds until an expiry: at least 1, and at most the maximum of the protocol's 32-bit integer.
pub(super) fn ttl(expires_at: u64, now: SessionTime) -> u64 {
    expires_at.saturating_sub(now.unix).clamp(1, u32::MAX.into())
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
