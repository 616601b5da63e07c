//! The consequence of a response.

use std::time::Duration;

use serde::Deserialize;

use crate::model::Millis;
use crate::push::providers::http::HttpResponse;
use crate::push::providers::outcome::TOO_MANY_REQUESTS;
use crate::push::providers::{Outcome, Reason, Scope};
use crate::settings::Secret;

/// The pause after "TooManyProviderTokenUpdates". The team's token is kept for longer than that.
const TOKEN_UPDATES_PAUSE: Duration = Duration::from_secs(60);

/// The reasons for which the token of a device is deleted although the status is 400.
const BAD_DEVICE_TOKEN: &str = "bad_device_token";
const WRONG_TOPIC: &str = "device_token_not_for_topic";

/// The key of the provider token is for the other environment only.
const KEY_ENVIRONMENT: &str = "key_environment";

#[derive(Default, Deserialize)]
struct ApnsErrorBody {
    #[serde(default)]
    reason: String,
    /// When the token became invalid, in Unix milliseconds; with status 410.
    timestamp: Option<Millis>,
}

impl ApnsErrorBody {
    fn parse(response: &HttpResponse) -> Self {
        serde_json::from_slice(&response.body).unwrap_or_default()
    }
}

/// Apple's name of the error, empty if there is none.
pub(super) fn reason(response: &HttpResponse) -> String {
    ApnsErrorBody::parse(response).reason
}

/// Whether the connection should be replaced: Apple closes it, or refuses all that comes over it for a while.
pub(super) fn needs_reconnect(response: &HttpResponse) -> bool {
    matches!(reason(response).as_str(), "Shutdown" | "TooManyProviderTokenUpdates")
}

/// Whether the token may belong to the other environment.
pub(super) fn may_be_other_environment(outcome: &Outcome) -> bool {
    outcome.reason().is_some_and(|reason| [BAD_DEVICE_TOKEN, WRONG_TOPIC].contains(&reason.code))
}

/// The outcome for a token that the first environment does not know, after an attempt in the second one.
pub(super) fn of_both(first: Outcome, second: Outcome) -> Outcome {
    let is = |outcome: &Outcome, code| outcome.reason().is_some_and(|reason| reason.code == code);
    // The key reaches the first environment only, or the token is of the first one, with another topic.
    if is(&second, KEY_ENVIRONMENT) || (is(&first, WRONG_TOPIC) && is(&second, BAD_DEVICE_TOKEN)) {
        return first;
    }
    second
}

/// The consequence of a response for the message and the token. `own_topic`: the device named the topic.
pub(super) fn outcome(response: &HttpResponse, token: &Secret, own_topic: bool) -> Outcome {
    if response.status == 200 {
        return Outcome::accepted(response.header("apns-id").map(str::to_owned));
    }
    let error = ApnsErrorBody::parse(response);
    let after = response.retry_after();
    let retry = |after, scope, code| Outcome::Retry { after, scope, reason: Reason::new(code) };
    let misconfigured = |code| Outcome::Misconfigured { scope: Scope::Provider, reason: Reason::new(code) };
    // What a device chose must not pause others.
    let of_device = |code| Outcome::Misconfigured { scope: Scope::Device, reason: Reason::new(code) };
    let outcome = match (response.status, error.reason.as_str()) {
        (400, "BadDeviceToken") => Outcome::gone(BAD_DEVICE_TOKEN),
        (400, "DeviceTokenNotForTopic") if own_topic => Outcome::gone(WRONG_TOPIC),
        // A wrong `push.apns_topic` is answered so for all devices, which must not be deleted for it. A single token of
        // another app is, too, and must not pause others.
        (400, "DeviceTokenNotForTopic") => of_device(WRONG_TOPIC),
        (400, "BadTopic" | "MissingTopic" | "TopicDisallowed") if own_topic => of_device("topic"),
        (400, "BadTopic" | "MissingTopic" | "TopicDisallowed") => misconfigured("topic"),
        (400, "BadCertificate" | "BadCertificateEnvironment") => misconfigured("certificate"),
        (400, "IdleTimeout") => retry(after, Scope::Device, "idle_timeout"),
        // The message is wrong, which is a bug of the bridge: the token is not at fault.
        (400, _) => Outcome::rejected("bad_request"),
        (403, "ExpiredProviderToken") => misconfigured("expired_provider_token"),
        (403, "BadEnvironmentKeyInToken" | "BadEnvironmentKeyIdInToken") => of_device(KEY_ENVIRONMENT),
        (403, _) => misconfigured("provider_token"),
        (404 | 405, _) => misconfigured("bad_path"),
        (410, _) => Outcome::TokenGone { since: error.timestamp, reason: Reason::new("unregistered") },
        (413, _) => Outcome::rejected("too_large"),
        (429, "TooManyProviderTokenUpdates") => {
            retry(Some(after.unwrap_or(TOKEN_UPDATES_PAUSE)), Scope::Provider, "provider_token_updates")
        }
        (429, _) => retry(after, Scope::Device, TOO_MANY_REQUESTS),
        (500, _) => retry(after, Scope::Provider, "internal"),
        (503, "Shutdown") => retry(after, Scope::Provider, "shutdown"),
        (503, _) => retry(after, Scope::Provider, "unavailable"),
        (500..=599, _) => retry(after, Scope::Provider, "server_error"),
        (300..=399, _) => misconfigured("redirect"),
        _ => Outcome::rejected("refused"),
    };
    outcome.with_detail(&error.reason, &[token.reveal()])
}
