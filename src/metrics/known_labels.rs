//! The values of labels that are known before they occur: their samples are exposed from the start, at 0, so that rates
//! and alerts notice the first event.

use std::hash::Hash;

use prometheus_client::metrics::family::Family;

use super::instruments::ByCode;
use crate::protocol::Disconnect;

/// Why a connection is refused: a limit, the origin of its page, or its first bytes.
pub(super) const REFUSALS: [&str; 5] = ["connections", "connections_per_address", "origin", "proxy_protocol", "tls"];

/// The transports of clients.
pub(super) const TRANSPORTS: [&str; 6] =
    ["websocket", "http_stream", "sse", "uni_websocket", "uni_http_stream", "uni_sse"];

/// The outcomes of requests with commands for a stream.
pub(super) const EMULATION_OUTCOMES: [&str; 7] =
    ["delivered", "gone", "forwarded", "unknown", "malformed", "limited", "failed"];

/// The commands of clients that take time.
pub(super) const COMMANDS: [&str; 6] = ["connect", "subscribe", "publish", "presence", "history", "rpc"];

/// Why a client is closed whose send queue is full.
pub(super) const SLOW: &str = "slow";

/// The codes that close a WebSocket whose frames cannot be read. Those of the protocol are [`Disconnect::ALL`].
const FRAME_ERRORS: [u16; 3] = [1002, 1007, 1009];

/// The limits of rates, as in `feedline_rate_limited_total`: the keys of `[rates]`, and that of failed sign-ins for one
/// account.
pub(super) const RATE_CLASSES: [&str; 14] = [
    "posts",
    "comments",
    "likes",
    "follows",
    "writes",
    "reports",
    "mentions",
    "topics",
    "subscriptions",
    "reads",
    "publications",
    "accounts",
    "sessions",
    "account_failures",
];

/// Whether a client that subscribes again gets the entries that it missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryOutcome {
    /// It got all of them.
    Recovered,
    /// The log does not have all of them any more, or there are too many.
    TooOld,
    /// The log began anew.
    EpochChanged,
}

impl RecoveryOutcome {
    pub(super) const ALL: [Self; 3] = [Self::Recovered, Self::TooOld, Self::EpochChanged];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Recovered => "recovered",
            Self::TooOld => "too_old",
            Self::EpochChanged => "epoch_changed",
        }
    }
}

/// The close codes of the server.
pub(super) fn close_codes() -> impl Iterator<Item = ByCode> {
    let codes = Disconnect::ALL.iter().map(|(close, _)| close.code).chain(FRAME_ERRORS);
    codes.map(|code| ByCode { code: code.into() })
}

/// A family with these samples at 0.
pub(super) fn exposed<L, M>(labels: impl IntoIterator<Item = L>) -> Family<L, M>
where
    L: Clone + Eq + Hash,
    M: Default,
{
    let family = Family::default();
    for labels in labels {
        drop(family.get_or_create(&labels));
    }
    family
}
