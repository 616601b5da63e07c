//! The options of the outlet.

use std::time::Duration;

/// The options of the outlet (`outlet.*`).
#[derive(Clone, Debug, Default)]
pub struct OutletOptions {
    /// The consumers that poll over HTTP.
    pub consumers: Vec<String>,
    /// All consumers with a cursor in the ledger: those above, and webhooks.
    pub registered: Vec<String>,
    /// Whether there is any consumer. If not, nothing is written.
    pub enabled: bool,
    /// How long entries are kept.
    pub retention: Duration,
    /// Whether users who connect and go away cause events.
    pub users: bool,
    /// Whether subscriptions to channels of the application cause events.
    pub channels: bool,
    /// The time without a connection after which a user is away, and without a subscriber after which a channel is
    /// vacated.
    pub away_after: Duration,
}
