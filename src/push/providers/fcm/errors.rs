//! The consequence of a response.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::push::providers::http::HttpResponse;
use crate::push::providers::outcome::QUOTA_EXCEEDED;
use crate::push::providers::{Outcome, Reason, Scope};
use crate::settings::Secret;

/// The delay after an exceeded quota without `Retry-After`. Google counts by the minute.
const QUOTA_DELAY: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
struct Accepted {
    name: String,
}

#[derive(Default, Deserialize)]
struct FcmErrorBody {
    #[serde(default)]
    error: ErrorStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorStatus {
    message: String,
    status: String,
    details: Vec<Detail>,
}

/// One of the details of an error. Its members depend on `@type`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Detail {
    #[serde(rename = "@type")]
    kind: String,
    /// Of `FcmError`.
    #[serde(rename = "errorCode")]
    error_code: String,
    /// Of `BadRequest`.
    #[serde(rename = "fieldViolations")]
    field_violations: Vec<FieldViolation>,
    /// Of `QuotaFailure`.
    violations: Vec<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FieldViolation {
    field: String,
}

impl ErrorStatus {
    fn parse(response: &HttpResponse) -> Self {
        serde_json::from_slice(&response.body).map(|body: FcmErrorBody| body.error).unwrap_or_default()
    }

    fn detail(&self, kind: &str) -> Option<&Detail> {
        self.details.iter().find(|detail| detail.kind.rsplit(['.', '/']).next() == Some(kind))
    }

    /// The code of FCM, which is more specific than the status.
    fn fcm_code(&self) -> &str {
        self.detail("FcmError").map_or("", |detail| &detail.error_code)
    }
}

/// Whether the access token was refused.
pub(super) fn is_unauthenticated(response: &HttpResponse) -> bool {
    response.status == 401 && ErrorStatus::parse(response).fcm_code() != "THIRD_PARTY_AUTH_ERROR"
}

/// The consequence of a response for the message and the token.
pub(super) fn outcome(response: &HttpResponse, token: &Secret) -> Outcome {
    if response.status == 200 {
        let accepted: Option<Accepted> = serde_json::from_slice(&response.body).ok();
        return Outcome::accepted(accepted.map(|accepted| accepted.name));
    }
    let error = ErrorStatus::parse(response);
    let retry = |after, scope, code| Outcome::Retry { after, scope, reason: Reason::new(code) };
    let misconfigured = |code| Outcome::Misconfigured { scope: Scope::Provider, reason: Reason::new(code) };
    let after = response.retry_after();
    let outcome = match (response.status, error.fcm_code()) {
        (404, "UNREGISTERED") => Outcome::gone("unregistered"),
        (400, _) => invalid_argument(&error),
        // The project has no credentials for the platform of this device: APNs, or Web Push.
        (401, "THIRD_PARTY_AUTH_ERROR") => {
            Outcome::Misconfigured { scope: Scope::Device, reason: Reason::new("third_party_auth") }
        }
        (401, _) => misconfigured("unauthenticated"),
        // The token belongs to an app of another project. A wrong service account refuses all devices so, which is no
        // reason to forget them.
        (403, "SENDER_ID_MISMATCH") => Outcome::rejected("sender_id_mismatch"),
        (403, _) => misconfigured("permission_denied"),
        (404, _) => misconfigured("unknown_project"),
        (429, _) => retry(Some(after.unwrap_or(QUOTA_DELAY)), quota_scope(&error), QUOTA_EXCEEDED),
        (500, _) => retry(after, Scope::Provider, "internal"),
        (503, _) => retry(after, Scope::Provider, "unavailable"),
        (502 | 504..=599, _) => retry(after, Scope::Provider, "server_error"),
        (408, _) => retry(after, Scope::Provider, "timeout"),
        (300..=399, _) => misconfigured("redirect"),
        _ => Outcome::rejected("refused"),
    };
    let words = if error.message.is_empty() { &error.status } else { &error.message };
    outcome.with_detail(words, &[token.reveal()])
}

/// `INVALID_ARGUMENT` stands for a bad message as well as for a bad token. The token is at fault only if FCM names it.
fn invalid_argument(error: &ErrorStatus) -> Outcome {
    let violations = error.detail("BadRequest").map_or(&[][..], |detail| &detail.field_violations);
    let names_token = match violations {
        [] => error.fcm_code() == "INVALID_ARGUMENT" && error.message.to_lowercase().contains("registration token"),
        fields => fields.iter().all(|violation| violation.field == "message.token"),
    };
    if names_token { Outcome::gone("invalid_token") } else { Outcome::rejected("invalid_argument") }
}

/// Whether the quota of a device or of the project is exceeded.
fn quota_scope(error: &ErrorStatus) -> Scope {
    let of_device = |text: &str| text.to_lowercase().contains("device");
    let violations = error.detail("QuotaFailure").map_or(&[][..], |detail| &detail.violations);
    let mut texts =
        violations.iter().flat_map(|violation| ["subject", "description"].map(|name| violation[name].as_str()));
    if texts.any(|text| text.is_some_and(of_device)) { Scope::Device } else { Scope::Provider }
}
