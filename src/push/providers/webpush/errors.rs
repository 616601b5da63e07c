//! The consequence of a response.

use std::time::Duration;

use crate::push::providers::endpoint::EndpointUrl;
use crate::push::providers::http::HttpResponse;
use crate::push::providers::outcome::TOO_MANY_REQUESTS;
use crate::push::providers::{Outcome, Reason, Scope};

/// The delay after a distributor of UnifiedPush knows no receiver at the moment (507 of ntfy).
const NO_SUBSCRIBER_DELAY: Duration = Duration::from_secs(600);

/// The consequence of a response for the message and the subscription.
pub(super) fn outcome(response: &HttpResponse, endpoint: &EndpointUrl) -> Outcome {
    let after = response.retry_after();
    let retry = |after, scope, code| Outcome::Retry { after, scope, reason: Reason::new(code) };
    let outcome = match response.status {
        // `Location` is a credential for the message: it is not kept.
        200..=299 => return Outcome::accepted(None),
        404 => Outcome::gone("not_found"),
        410 => Outcome::gone("gone"),
        413 => Outcome::rejected("too_large"),
        // The signature or the encryption is wrong, or this subscription was made with another key: others of the same
        // push service are not affected.
        400 | 401 | 403 => Outcome::Misconfigured { scope: Scope::Device, reason: Reason::new("vapid_refused") },
        429 => retry(after, Scope::Origin, TOO_MANY_REQUESTS),
        507 => retry(Some(after.unwrap_or(NO_SUBSCRIBER_DELAY)), Scope::Device, "no_subscriber"),
        408 | 425 => retry(after, Scope::Device, "timeout"),
        500..=599 => retry(after, Scope::Origin, "server_error"),
        300..=399 => Outcome::rejected("redirect"),
        _ => Outcome::rejected("refused"),
    };
    let detail = format!("{} {}", response.status, response.text());
    let path = endpoint.url().path();
    outcome.with_detail(&detail, &[endpoint.reveal(), path, path.rsplit('/').next().unwrap_or_default()])
}
