//! What time does to a session: pings and pongs, expiry, and how many commands may come.

use std::sync::Arc;
use std::time::Duration;

use super::{Action, Due, Session, State};
use crate::protocol::Disconnect;

/// How long after its expiry a connection or a subscription may still be refreshed.
const EXPIRY_GRACE: u64 = 25;

/// The time, as the connection tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds on a clock that never goes back; what zero is does not matter.
    pub ticks: u64,
    /// Seconds since the Unix epoch: what tokens speak of.
    pub unix: u64,
}

/// When the next ping or pong is due, in ticks.
#[derive(Debug)]
pub(super) enum Heart {
    /// A ping is to be said then.
    Ping(u64),
    /// The pong must have come by then.
    Pong(u64),
}

/// How long something lasts.
pub(super) enum Remaining {
    Forever,
    Seconds(u64),
    None,
}

pub(super) fn remaining(expires_at: Option<u64>, now: Moment) -> Remaining {
    match expires_at {
        None => Remaining::Forever,
        Some(at) if at > now.unix => Remaining::Seconds(ttl(at, now)),
        Some(_) => Remaining::None,
    }
}

/// In how many seconds something ends: at least one, and no more than the wire's number can say.
pub(super) fn ttl(expires_at: u64, now: Moment) -> u64 {
    expires_at.saturating_sub(now.unix).clamp(1, u32::MAX.into())
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Session {
    /// Takes one command off what may come now. `false` if nothing is left.
    pub(super) fn spend(&mut self, now: Moment) -> bool {
        let Some(rate) = self.options.commands_per_second.map(u64::from) else { return true };
        let earned = now.ticks.saturating_sub(self.refilled_at).saturating_mul(rate);
        self.allowance = self.allowance.saturating_add(earned).min(rate * 2_000);
        self.refilled_at = now.ticks;
        let enough = self.allowance >= 1_000;
        self.allowance -= if enough { 1_000 } else { 0 };
        enough
    }

    pub(super) fn pong(&mut self, now: Moment) -> Action {
        match (&self.state, &self.heart) {
            (State::Open(_), Heart::Pong(by)) => {
                // Pings keep their rhythm, whenever the pong comes.
                let asked_at = by - millis(self.options.pong_timeout);
                self.heart = Heart::Ping((asked_at + millis(self.options.ping_interval)).max(now.ticks));
                Action::Nothing
            }
            _ => Action::Close(Disconnect::BAD_REQUEST),
        }
    }

    /// What is due now. To be asked again at [`next_due`](Self::next_due).
    pub fn due(&mut self, now: Moment) -> Vec<Due> {
        let State::Open(identity) = &self.state else {
            let late = now.ticks >= self.connect_by;
            return if late { vec![Due::Close(Disconnect::STALE)] } else { Vec::new() };
        };
        let over = |expires_at: Option<u64>| expires_at.is_some_and(|at| now.unix >= at.saturating_add(EXPIRY_GRACE));
        if over(identity.expires_at) {
            return vec![Due::Close(Disconnect::EXPIRED)];
        }
        let mut due = Vec::new();
        match self.heart {
            Heart::Pong(by) if now.ticks >= by => return vec![Due::Close(Disconnect::NO_PONG)],
            Heart::Ping(at) if now.ticks >= at => {
                self.heart = Heart::Pong(now.ticks.saturating_add(millis(self.options.pong_timeout)));
                due.push(Due::Ping);
            }
            Heart::Ping(_) | Heart::Pong(_) => {}
        }
        self.subscriptions.retain(|subscription| {
            let ended = over(subscription.expires_at);
            if ended {
                self.tokens_changed |= subscription.token.is_some();
                due.push(Due::Expired(Arc::clone(&subscription.channel)));
            }
            !ended
        });
        due
    }

    /// When something may be due, in ticks. Expiry is looked at once a heartbeat at the least.
    pub fn next_due(&self, now: Moment) -> u64 {
        let State::Open(identity) = &self.state else { return self.connect_by };
        let (Heart::Ping(heart) | Heart::Pong(heart)) = self.heart;
        let expiries = self.subscriptions.iter().map(|subscription| subscription.expires_at);
        let expiry = expiries.chain([identity.expires_at]).flatten().min();
        let left = |at: u64| at.saturating_add(EXPIRY_GRACE).saturating_sub(now.unix).max(1).saturating_mul(1_000);
        expiry.map_or(heart, |at| heart.min(now.ticks.saturating_add(left(at))))
    }
}
