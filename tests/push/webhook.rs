//! Webhooks.

use std::time::Duration;

use aws_lc_rs::hmac;
use feedline::config::Secret;
use feedline::push::providers::settings::WebhookSettings;
use feedline::push::providers::{Outcome, Providers, ProvidersConfig, Scope, Target};
use serde_json::json;

use crate::server::{Received, Reply, Server};
use crate::{alert, config, demanded, now, summary};

const OLD: &str = "old-secret-old-secret-old-secret-";
const NEW: &str = "new-secret-new-secret-new-secret-";

fn webhooks(secrets: &[&str]) -> Providers {
    let secrets = secrets.iter().map(|secret| Secret::new((*secret).to_owned())).collect();
    let mut config = ProvidersConfig { webhook: Some(WebhookSettings { secrets, concurrency: 10 }), ..config() };
    config.breaker.failures = 1000;
    config.breaker.min_open = Duration::ZERO;
    config.misconfigured_pause = Duration::ZERO;
    Providers::new(&config).unwrap()
}

/// What a receiver does: any of the signatures with its secret, and a recent time.
fn verify(request: &Received, secret: &str) -> bool {
    let parts: Vec<&str> = request.header("feedline-signature").split(',').collect();
    let time = parts[0].strip_prefix("t=").unwrap();
    assert!(time.parse::<u64>().unwrap().abs_diff(now() / 1000) <= 5);
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, &[time.as_bytes(), b".", &request.body].concat());
    let expected: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    parts[1..].iter().any(|part| part.strip_prefix("v1=") == Some(expected.as_str()))
}

#[tokio::test]
async fn a_request_is_signed_with_every_secret() {
    let server = Server::start(|_| Reply::new(204)).await;
    let webhooks = webhooks(&[NEW, OLD]);
    let push = alert(Target::Webhook { url: server.url("/hook?key=1"), secret: None });
    assert_eq!(webhooks.send(&push).await, Outcome::accepted(None));
    let request = &server.requests()[0];
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/hook?key=1"));
    assert_eq!(request.header("content-type"), "application/json");
    assert_eq!(request.header("feedline-delivery"), push.id.to_string());
    assert!(verify(request, NEW) && verify(request, OLD) && !verify(request, "another"));
    let expected = json!({
        "type": "push", "id": push.id.to_string(), "device": "phone", "push": "alert", "title": push.title,
        "body": push.body, "collapse_key": "reply:17", "thread": "post:17", "badge": 3, "urgency": "high",
        "expires_at": push.expires_at, "data": {"post": "17"},
    });
    assert_eq!(request.json(), expected);

    let own = Target::Webhook { url: server.url("/hook"), secret: Some(Secret::new("own-secret".into())) };
    webhooks.send(&alert(own)).await;
    let request = &server.requests()[0];
    assert!(verify(request, "own-secret") && !verify(request, NEW));
}

#[tokio::test]
async fn every_status_has_its_consequence() {
    let origin = Some(Scope::Origin);
    let cases = [
        (200, ("accepted", "", None)),
        (410, ("token_gone", "gone", None)),
        (404, ("rejected", "refused", None)),
        (400, ("rejected", "refused", None)),
        (401, ("misconfigured", "unauthorized", Some(Scope::Device))),
        (403, ("misconfigured", "unauthorized", Some(Scope::Device))),
        (409, ("retry", "timeout", Some(Scope::Device))),
        (429, ("retry", "too_many_requests", origin)),
        (500, ("retry", "server_error", origin)),
        (308, ("rejected", "redirect", None)),
    ];
    let server = Server::start(|_| Reply::new(200)).await;
    let webhooks = webhooks(&[NEW]);
    // A device that is refused waits.
    let target = |status: u16| Target::Webhook { url: server.url(&format!("/hook?{status}")), secret: None };
    for (status, expected) in cases {
        server.answer(move |_| Reply::new(status));
        assert_eq!(summary(&webhooks.send(&alert(target(status))).await), expected, "{status}");
    }
    server.answer(|_| Reply::new(503).with("retry-after", "30"));
    assert_eq!(demanded(&webhooks.send(&alert(target(503))).await), Some(Duration::from_secs(30)));
}

#[test]
fn short_secrets_are_refused() {
    for secrets in [vec![], vec![Secret::new("short".into())]] {
        let webhook = Some(WebhookSettings { secrets, concurrency: 1 });
        let error = Providers::new(&ProvidersConfig { webhook, ..config() }).err().unwrap().to_string();
        assert!(error.starts_with("push.webhook_secrets") && !error.contains("short"), "{error}");
    }
}
