//! Refused credentials and requests of clients: each with its reason at `debug`, and counted by reason.
//!
//! Clients receive less detail. The counters are those of this process; the metrics expose them.

use std::fmt;
use std::sync::LazyLock;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// What was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The token of a client or a request.
    Token,
    /// The API key of a backend.
    ApiKey,
    /// A page of a foreign origin.
    Origin,
    /// A subscription to a channel.
    Subscription,
    /// What the application's backend decided, or did not answer.
    Hook,
}

impl Denied {
    /// The reasons that are exposed from the start. Those of subscriptions are the messages of error codes.
    const REASONS: [(Self, &'static str); 11] = [
        (Self::Token, "invalid"),
        (Self::Token, "no expiry"),
        (Self::Token, "expired"),
        (Self::Token, "revoked"),
        (Self::ApiKey, "wrong"),
        (Self::Origin, "not listed"),
        (Self::Subscription, "permission denied"),
        (Self::Subscription, "unknown channel"),
        (Self::Hook, "error"),
        (Self::Hook, "disconnect"),
        (Self::Hook, "no answer"),
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::ApiKey => "api_key",
            Self::Origin => "origin",
            Self::Subscription => "subscription",
            Self::Hook => "hook",
        }
    }

    fn counter(self, reason: &'static str) -> Counter {
        DENIALS.get_or_create(&DenialLabels { what: self.name(), reason }).clone()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DenialLabels {
    what: &'static str,
    reason: &'static str,
}

static DENIALS: LazyLock<Family<DenialLabels, Counter>> = LazyLock::new(Family::default);

/// Records a refusal. `reason` is one of few; `detail` is what an operator needs besides, without any secret.
pub(crate) fn deny(what: Denied, reason: &'static str, detail: &dyn fmt::Display) {
    what.counter(reason).inc();
    tracing::debug!(what = what.name(), reason, %detail, "denied");
}

/// Registers the counter.
pub(crate) fn register(r: &mut Registry) {
    for (what, reason) in Denied::REASONS {
        drop(what.counter(reason));
    }
    r.register("denials", "Credentials and requests of clients that were refused, by reason", DENIALS.clone());
}
