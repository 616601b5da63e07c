//! Pings and pongs.

use super::options::SessionOptions;
use super::time::{SessionTime, millis};

/// The next ping or pong, in ticks.
#[derive(Debug)]
pub(super) enum Heartbeat {
    /// The time of the next ping.
    PingAt(u64),
    /// The deadline of the expected pong.
    PongBy(u64),
}

/// The action that the heartbeat requires now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeartbeatEvent {
    None,
    SendPing,
    PongMissing,
}

impl Heartbeat {
    /// The state before the first ping. `jitter`, from 0 to 1, spreads the first pings of many sessions over half an
    /// interval.
    pub(super) fn new(options: &SessionOptions, now: SessionTime, jitter: f64) -> Self {
        let interval = millis(options.client.ping_interval);
        let first = interval - (interval as f64 / 2.0 * jitter.clamp(0.0, 1.0)) as u64;
        Self::PingAt(now.ticks + first)
    }

    /// Handles a pong. Returns `false` if no ping is unanswered.
    pub(super) fn pong(&mut self, options: &SessionOptions, now: SessionTime) -> bool {
        let Self::PongBy(by) = *self else { return false };
        // The interval between pings does not depend on when the pong arrives.
        let sent_at = by - millis(options.client.pong_timeout);
        *self = Self::PingAt((sent_at + millis(options.client.ping_interval)).max(now.ticks));
        true
    }

    /// Begins a ping now. Returns `false` if one is unanswered: its pong is expected anyway.
    pub(super) fn ping_now(&mut self, options: &SessionOptions, now: SessionTime) -> bool {
        let Self::PingAt(_) = *self else { return false };
        *self = Self::PongBy(now.ticks.saturating_add(millis(options.client.pong_timeout)));
        true
    }

    /// Returns the action that is due now. After `SendPing`, a pong is expected.
    pub(super) fn poll(&mut self, options: &SessionOptions, now: SessionTime) -> HeartbeatEvent {
        match *self {
            Self::PongBy(by) if now.ticks >= by => HeartbeatEvent::PongMissing,
            Self::PingAt(at) if now.ticks >= at => {
                *self = Self::PongBy(now.ticks.saturating_add(millis(options.client.pong_timeout)));
                HeartbeatEvent::SendPing
            }
            Self::PingAt(_) | Self::PongBy(_) => HeartbeatEvent::None,
        }
    }

    /// The time of the next call of [`poll`](Self::poll), in ticks.
    pub(super) fn next(&self) -> u64 {
        let (Self::PingAt(at) | Self::PongBy(at)) = *self;
        at
    }
}
