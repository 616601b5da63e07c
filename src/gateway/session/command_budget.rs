//! The rate limit on the commands of one connection.

use super::time::SessionTime;

/// A token bucket in thousandths of a command. Its capacity is two seconds of the rate.
#[derive(Debug)]
pub(super) struct CommandBudget {
    available: u64,
    refilled_at: u64,
}

impl CommandBudget {
    /// A full bucket. `rate` is in commands per second; `None`: unlimited.
    pub(super) fn new(rate: Option<u32>, now: SessionTime) -> Self {
        Self { available: rate.map_or(0, |rate| u64::from(rate) * 2_000), refilled_at: now.ticks }
    }

    /// Takes one command. `false` if the bucket is empty.
    pub(super) fn spend(&mut self, rate: Option<u32>, now: SessionTime) -> bool {
        let Some(rate) = rate.map(u64::from) else { return true };
        let earned = now.ticks.saturating_sub(self.refilled_at).saturating_mul(rate);
        self.available = self.available.saturating_add(earned).min(rate * 2_000);
        self.refilled_at = now.ticks;
        let is_allowed = self.available >= 1_000;
        self.available -= if is_allowed { 1_000 } else { 0 };
        is_allowed
    }
}
