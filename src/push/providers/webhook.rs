//! Webhooks: signed requests to a backend of the application.
//!
//! The body is JSON. The header `Feedline-Signature` is `t=<Unix seconds>,v1=<signature>`, with a `v1` for each secret:
//! the HMAC-SHA-256, in hexadecimal digits, of the time, a full stop and the body. A receiver computes it with its
//! secret, compares it in constant time with every `v1`, and refuses times that are more than five minutes from its
//! own, so that a recorded request cannot be repeated. `Feedline-Delivery` is the same in all attempts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::slice;

use async_trait::async_trait;
use aws_lc_rs::hmac::{Context, HMAC_SHA256, Key};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde::Serialize;

use super::clock::now;
use super::endpoint::EndpointUrl;
use super::http::{Connections, HttpClient, HttpOptions, HttpResponse};
use super::outcome::TOO_MANY_REQUESTS;
use super::settings::WebhookSettings;
use super::{Outcome, Provider, ProviderError, Push, Reason, Scope, Target};
use crate::model::Millis;
use crate::settings::Secret;

/// The header with the time and the signatures.
pub const SIGNATURE_HEADER: &str = "feedline-signature";

/// The header with the id of the delivery.
pub const DELIVERY_HEADER: &str = "feedline-delivery";

/// The transport to backends.
pub struct Webhook {
    http: HttpClient,
    secrets: Vec<Secret>,
}

/// The body of a message.
#[derive(Serialize)]
struct WebhookPayload<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    id: String,
    device: &'a str,
    push: &'static str,
    title: &'a str,
    body: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    collapse_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    badge: Option<u32>,
    urgency: &'static str,
    /// Unix milliseconds.
    expires_at: Millis,
    data: &'a BTreeMap<String, String>,
}

impl Webhook {
    /// Checks the settings.
    ///
    /// # Errors
    /// If there is no secret, or one is shorter than 32 characters.
    pub fn new(settings: &WebhookSettings, options: HttpOptions) -> Result<Self, ProviderError> {
        if settings.secrets.is_empty() || settings.secrets.iter().any(Secret::is_short) {
            return Err(ProviderError::new("push.webhook_secrets", "must have at least one secret of 32 characters"));
        }
        Ok(Self { http: HttpClient::new(options, Connections::Many)?, secrets: settings.secrets.clone() })
    }

    /// Sends a body, which is JSON, with the configured secrets or the receiver's own. `delivery` identifies the body
    /// in all attempts.
    pub async fn deliver(&self, url: &EndpointUrl, own: Option<&Secret>, delivery: &str, body: Vec<u8>) -> Outcome {
        let secrets = own.map_or(&self.secrets[..], slice::from_ref);
        let signature = signature(secrets, now() / 1000, &body);
        let values = (HeaderValue::try_from(signature), HeaderValue::try_from(delivery));
        let (Ok(signature), Ok(delivery)) = values else { return Outcome::rejected("encoding") };
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(HeaderName::from_static(SIGNATURE_HEADER), signature);
        headers.insert(HeaderName::from_static(DELIVERY_HEADER), delivery);
        match self.http.post(url, headers, body).await {
            Ok(response) => outcome(&response, url),
            Err(error) => error.outcome(Scope::Origin),
        }
    }
}

#[async_trait]
impl Provider for Webhook {
    async fn send(&self, push: &Push) -> Outcome {
        let Target::Webhook { url, secret } = &push.target else { return Outcome::rejected("wrong_platform") };
        let payload = WebhookPayload {
            kind: "push",
            id: push.id.to_string(),
            device: &push.device,
            push: push.kind.name(),
            title: &push.title,
            body: &push.body,
            collapse_key: push.collapse_key.as_deref(),
            thread: push.thread.as_deref(),
            badge: push.badge,
            urgency: push.urgency.name(),
            expires_at: push.expires_at,
            data: &push.data,
        };
        let Ok(body) = serde_json::to_vec(&payload) else { return Outcome::rejected("encoding") };
        self.deliver(url, secret.as_ref(), &payload.id, body).await
    }
}

/// The value of `Feedline-Signature`. `time` is in Unix seconds.
pub fn signature(secrets: &[Secret], time: u64, body: &[u8]) -> String {
    let mut value = format!("t={time}");
    for secret in secrets {
        let mut context = Context::with_key(&Key::new(HMAC_SHA256, secret.reveal().as_bytes()));
        context.update(format!("{time}.").as_bytes());
        context.update(body);
        value.push_str(",v1=");
        for byte in context.sign().as_ref() {
            // Writing to a string does not fail.
            let _ = write!(value, "{byte:02x}");
        }
    }
    value
}

/// The consequence of a response.
fn outcome(response: &HttpResponse, url: &EndpointUrl) -> Outcome {
    let after = response.retry_after();
    let retry = |scope, code| Outcome::Retry { after, scope, reason: Reason::new(code) };
    let outcome = match response.status {
        200..=299 => return Outcome::accepted(None),
        410 => Outcome::gone("gone"),
        // The receiver refuses the signature. Others of the same host may have another secret.
        401 | 403 => Outcome::Misconfigured { scope: Scope::Device, reason: Reason::new("unauthorized") },
        408 | 409 | 425 => retry(Scope::Device, "timeout"),
        429 => retry(Scope::Origin, TOO_MANY_REQUESTS),
        500..=599 => retry(Scope::Origin, "server_error"),
        300..=399 => Outcome::rejected("redirect"),
        _ => Outcome::rejected("refused"),
    };
    let detail = format!("{} {}", response.status, response.text());
    outcome.with_detail(&detail, &[url.reveal(), url.url().query().unwrap_or_default()])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value can be checked with
    /// `printf '1700000000.{}' | openssl dgst -sha256 -hmac 0123456789abcdef0123456789abcdef`.
    #[test]
    fn the_signature_is_documented() {
        let secret = Secret::new("0123456789abcdef0123456789abcdef".into());
        let expected = "417adf36b901772f658597a76d329694e335e65fc0849d7715c3ca33406309b5";
        assert_eq!(signature(slice::from_ref(&secret), 1_700_000_000, b"{}"), format!("t=1700000000,v1={expected}"));
        let both = signature(&[secret.clone(), Secret::new("x".repeat(32))], 1_700_000_000, b"{}");
        assert!(both.starts_with(&format!("t=1700000000,v1={expected},v1=")), "{both}");
    }
}
