//! The result of a send.

use std::fmt;
use std::time::Duration;

use crate::model::Millis;

/// The maximum length of the detail of a [`Reason`], in characters.
const MAX_DETAIL_CHARS: usize = 160;

/// Shorter texts are not removed from a detail: they are words or parts of paths, not secrets.
const MIN_SECRET_LENGTH: usize = 6;

/// The code of a server that receives too much.
pub(super) const TOO_MANY_REQUESTS: &str = "too_many_requests";

/// The code of FCM for a project or device that receives too much.
pub(super) const QUOTA_EXCEEDED: &str = "quota_exceeded";

/// The code of a message that is not sent because the breaker of its provider or server is open.
pub(super) const BREAKER_OPEN: &str = "breaker_open";

/// The code of a message to a device that receives too much, and is left alone for a while.
pub(super) const DEVICE_PAUSED: &str = "device_paused";

/// The code of a message whose provider, server or user had as many requests as it may have, for too long.
pub(super) const BUSY: &str = "busy";

/// The code of a message that found no free request before the process stopped.
pub(super) const STOPPING: &str = "stopping";

/// The consequence of a send, for the message and for the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The provider took the message over.
    Accepted {
        /// The provider's id of the message, if it has one.
        id: Option<String>,
    },
    /// The provider no longer delivers to this device: delete it.
    TokenGone {
        /// The device became invalid at this time: delete it only if it registered before. `None`: delete it if its
        /// token is still the one that was used.
        since: Option<Millis>,
        /// Why.
        reason: Reason,
    },
    /// A later attempt may succeed.
    Retry {
        /// The minimum delay, as the provider demands it. `None`: back off.
        after: Option<Duration>,
        /// The messages that have to wait.
        scope: Scope,
        /// Why.
        reason: Reason,
    },
    /// The message will never be accepted: a dead letter. The token stays.
    Rejected {
        /// Why.
        reason: Reason,
    },
    /// Keys or settings are wrong: an alarm for the operator. The token stays, and the message is retried later.
    Misconfigured {
        /// The messages that are affected. [`Scope::Device`]: perhaps the device itself causes it, so that others do
        /// not wait.
        scope: Scope,
        /// Why.
        reason: Reason,
    },
}

/// The messages that an outcome concerns. The breakers apply it: a queue needs to delay only the message itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Messages for the same device.
    Device,
    /// Messages for the same origin: the push service of a browser, or the server of a webhook.
    Origin,
    /// All messages of the provider.
    Provider,
}

/// Why a message was not accepted.
#[derive(Clone, PartialEq, Eq)]
pub struct Reason {
    /// One of a fixed set of words, for metrics.
    pub code: &'static str,
    detail: String,
}

impl Outcome {
    /// The provider took the message over.
    pub fn accepted(id: Option<String>) -> Self {
        Self::Accepted { id }
    }

    /// Delete the device.
    pub fn gone(code: &'static str) -> Self {
        Self::TokenGone { since: None, reason: Reason::new(code) }
    }

    /// Retry after back-off.
    pub fn retry(scope: Scope, reason: Reason) -> Self {
        Self::Retry { after: None, scope, reason }
    }

    /// A dead letter.
    pub fn rejected(code: &'static str) -> Self {
        Self::Rejected { reason: Reason::new(code) }
    }

    /// The public name of the outcome, for metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Accepted { .. } => "accepted",
            Self::TokenGone { .. } => "token_gone",
            Self::Retry { .. } => "retry",
            Self::Rejected { .. } => "rejected",
            Self::Misconfigured { .. } => "misconfigured",
        }
    }

    /// Why the message was not accepted; `None` if it was.
    pub fn reason(&self) -> Option<&Reason> {
        match self {
            Self::Accepted { .. } => None,
            Self::TokenGone { reason, .. }
            | Self::Retry { reason, .. }
            | Self::Rejected { reason }
            | Self::Misconfigured { reason, .. } => Some(reason),
        }
    }

    /// The same outcome with another detail in its reason.
    #[must_use]
    pub(crate) fn with_detail(mut self, detail: &str, secrets: &[&str]) -> Self {
        match &mut self {
            Self::Accepted { .. } => {}
            Self::TokenGone { reason, .. }
            | Self::Retry { reason, .. }
            | Self::Rejected { reason }
            | Self::Misconfigured { reason, .. } => {
                *reason = Reason::with_detail(reason.code, detail, secrets);
            }
        }
        self
    }
}

impl Reason {
    /// A reason without a detail.
    pub fn new(code: &'static str) -> Self {
        Self { code, detail: String::new() }
    }

    /// A reason with the provider's own words. They are shortened, control characters become spaces, and `secrets`
    /// that the provider repeats are removed.
    pub fn with_detail(code: &'static str, detail: &str, secrets: &[&str]) -> Self {
        let mut detail = detail.to_owned();
        for secret in secrets.iter().filter(|secret| secret.len() >= MIN_SECRET_LENGTH) {
            detail = detail.replace(secret, "[secret]");
        }
        let visible = |c: char| if c.is_control() { ' ' } else { c };
        Self { code, detail: detail.chars().map(visible).take(MAX_DETAIL_CHARS).collect() }
    }

    /// Whether the provider receives too much, and is not at fault otherwise.
    pub(super) fn is_throttling(&self) -> bool {
        matches!(self.code, TOO_MANY_REQUESTS | QUOTA_EXCEEDED)
    }

    /// Whether the message waits without an attempt: a breaker is open, the provider is busy, the device
    /// is left alone, or the process stops.
    pub(in crate::push) fn is_postponement(&self) -> bool {
        matches!(self.code, BREAKER_OPEN | BUSY | DEVICE_PAUSED | STOPPING)
    }

    /// Whether no request with the message was made. Sizes are measured before sending, so a message that is too large
    /// stays here.
    pub(in crate::push) fn is_local(&self) -> bool {
        let codes = [
            BREAKER_OPEN,
            BUSY,
            DEVICE_PAUSED,
            STOPPING,
            "encoding",
            "encryption",
            "endpoint_forbidden",
            "expired",
            "not_configured",
            "oauth_key",
            "oauth_refused",
            "oauth_response",
            "oauth_unavailable",
            "provider_token",
            "reserved_key",
            "silent_unsupported",
            "too_large",
            "vapid",
            "wrong_platform",
        ];
        codes.contains(&self.code)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.detail.is_empty() { f.write_str(self.code) } else { write!(f, "{}: {}", self.code, self.detail) }
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reason({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detail_is_short_has_no_control_characters_and_no_secret() {
        let words = format!("token abc123 is\nbad {}", "x".repeat(500));
        let reason = Reason::with_detail("bad_token", &words, &["abc123", ""]);
        assert!(reason.detail.starts_with("token [secret] is bad xxx"), "{reason}");
        assert_eq!(reason.detail.chars().count(), MAX_DETAIL_CHARS);
        assert_eq!(Reason::new("bad_token").to_string(), "bad_token");
    }
}
