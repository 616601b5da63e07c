//! Web Push and UnifiedPush. The receiver decrypts as a browser does.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use feedline::config::Secret;
use feedline::push::providers::settings::WebPushSettings;
use feedline::push::providers::webpush::PushSubscription;
use feedline::push::providers::{Outcome, Providers, ProvidersConfig, Push, Scope, Target, Urgency, public_key};
use hyper::Version;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::server::{Reply, Server};
use crate::{alert, clear, config, demanded, keys, now, summary};

fn web_push() -> Providers {
    web_push_with(2847)
}

fn web_push_with(max_body: usize) -> Providers {
    let settings = WebPushSettings {
        private_key: Secret::new(keys::p256().0.clone()),
        subject: "mailto:ops@example.com".into(),
        max_body,
        concurrency: 100,
    };
    let mut config = ProvidersConfig { web_push: Some(settings), ..config() };
    config.breaker.failures = 1000;
    config.breaker.min_open = Duration::ZERO;
    config.misconfigured_pause = Duration::ZERO;
    Providers::new(&config).unwrap()
}

fn subscription(browser: &Browser, endpoint: &str) -> PushSubscription {
    let (public, auth) = browser.keys();
    PushSubscription::parse(endpoint, &public, &auth).unwrap()
}

fn target(server: &Server, browser: &Browser) -> Target {
    Target::WebPush(subscription(browser, server.url("/wpush/v2/gAAAAABsecretsecret").reveal()))
}

#[tokio::test]
async fn a_message_is_encrypted_and_signed() {
    let server = Server::start(|_| Reply::new(201).with("location", "https://push.example/m/1")).await;
    let (web_push, browser) = (web_push(), Browser::new());
    let push = alert(target(&server, &browser));
    assert_eq!(web_push.send(&push).await, Outcome::accepted(None));
    let request = &server.requests()[0];
    assert_eq!((request.method.as_str(), request.version), ("POST", Version::HTTP_2));
    assert_eq!(request.path, "/wpush/v2/gAAAAABsecretsecret");
    assert_eq!(request.header("content-encoding"), "aes128gcm");
    assert_eq!(request.header("urgency"), "high");
    assert_eq!(request.header("ttl"), "3600");
    let topic = request.header("topic").to_owned();
    assert_eq!(topic.len(), 32);
    assert!(topic.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{topic}");

    let payload: Value = serde_json::from_slice(&browser.decrypt(&request.body)).unwrap();
    let expected = json!({
        "id": push.id.to_string(), "kind": "alert", "title": push.title, "body": push.body, "tag": "reply:17",
        "thread": "post:17", "badge": 3, "data": {"post": "17"},
    });
    assert_eq!(payload, expected);

    let (token, key) = request.header("authorization").strip_prefix("vapid t=").unwrap().split_once(", k=").unwrap();
    assert_eq!(Some(key.to_owned()), public_key(&Secret::new(keys::p256().0.clone())));
    let point = URL_SAFE_NO_PAD.decode(key).unwrap();
    assert_eq!(point.len(), 65);
    let origin = format!("https://{}", server.address);
    let mut validation = Validation::new(Algorithm::ES256);
    validation.set_audience(&[&origin]);
    let claims = decode::<Value>(token, &DecodingKey::from_ec_der(&point), &validation).unwrap().claims;
    assert_eq!(claims["sub"], "mailto:ops@example.com");
    let lifetime = claims["exp"].as_u64().unwrap() - now() / 1000;
    assert!((3600..=24 * 3600).contains(&lifetime), "{lifetime}");

    assert_eq!(web_push.send(&push).await.name(), "accepted");
    let again = &server.requests()[0];
    assert_eq!(again.header("authorization"), request.header("authorization"), "one token for each origin");
    assert_eq!(again.header("topic"), topic);
    assert_ne!(again.body[..16], request.body[..16], "a new salt");
    assert_ne!(again.body[21..86], request.body[21..86], "a new key");
}

#[tokio::test]
async fn urgency_ttl_and_topic_follow_the_message() {
    let server = Server::start(|_| Reply::new(201)).await;
    let (web_push, browser) = (web_push(), Browser::new());
    let target = target(&server, &browser);
    let urgencies =
        [(Urgency::VeryLow, "very-low"), (Urgency::Low, "low"), (Urgency::Normal, "normal"), (Urgency::High, "high")];
    for (urgency, name) in urgencies {
        web_push.send(&Push { urgency, ..alert(target.clone()) }).await;
        assert_eq!(server.requests()[0].header("urgency"), name);
    }
    web_push.send(&Push { expires_at: now() + 365 * 86_400_000, ..alert(target.clone()) }).await;
    assert_eq!(server.requests()[0].header("ttl"), "2419200");
    web_push.send(&Push { collapse_key: None, ..alert(target.clone()) }).await;
    assert!(!server.requests()[0].headers.contains_key("topic"));
    let late = web_push.send(&Push { expires_at: now(), ..alert(target.clone()) }).await;
    assert_eq!(summary(&late), ("rejected", "expired", None));
    let silent = clear(target);
    assert_eq!(web_push.send(&silent).await.name(), "accepted");
    let requests = server.requests();
    let payload: Value = serde_json::from_slice(&browser.decrypt(&requests[0].body)).unwrap();
    assert_eq!((requests.len(), &payload["kind"], payload.get("title")), (1, &json!("clear"), None));
    let safari = Target::WebPush(subscription(&browser, "https://web.push.apple.com/QGuQyavXutnMH"));
    assert_eq!(summary(&web_push.send(&clear(safari)).await), ("rejected", "silent_unsupported", None));
}

#[tokio::test]
async fn the_encrypted_size_is_limited() {
    let server = Server::start(|_| Reply::new(201)).await;
    let browser = Browser::new();
    for limit in [2847, 4096] {
        let web_push = web_push_with(limit);
        let body = "漢\"👍🏽".repeat(2000);
        let push = Push { body: body.clone(), ..alert(target(&server, &browser)) };
        assert_eq!(web_push.send(&push).await.name(), "accepted");
        let request = &server.requests()[0];
        assert!((limit - 20..=limit).contains(&request.body.len()), "{} of {limit}", request.body.len());
        let payload: Value = serde_json::from_slice(&browser.decrypt(&request.body)).unwrap();
        let kept = payload["body"].as_str().unwrap().strip_suffix('…').unwrap().to_owned();
        assert!(body.starts_with(&kept) && !kept.ends_with('👍'), "{kept}");
        let mut large = push;
        large.data.insert("large".into(), "x".repeat(limit));
        assert_eq!(summary(&web_push.send(&large).await), ("rejected", "too_large", None));
        assert!(server.requests().is_empty());
    }
}

#[tokio::test]
async fn a_message_that_is_too_large_is_sent_once_more_with_less_text() {
    let server = Server::start(|request| Reply::new(if request.body.len() > 2_000 { 413 } else { 201 })).await;
    let (web_push, browser) = (web_push(), Browser::new());
    let push = Push { body: "x".repeat(4_000), ..alert(target(&server, &browser)) };
    assert_eq!(web_push.send(&push).await.name(), "accepted");
    let sizes: Vec<usize> = server.requests().iter().map(|request| request.body.len()).collect();
    assert!(matches!(sizes[..], [2_840..=2_847, 1_400..=1_423]), "{sizes:?}");
    server.answer(|_| Reply::new(413));
    assert_eq!(summary(&web_push.send(&push).await), ("rejected", "too_large", None));
    assert_eq!(server.requests().len(), 2, "once");
}

#[tokio::test]
async fn every_status_has_its_consequence() {
    let origin = Some(Scope::Origin);
    let cases = [
        (200, ("accepted", "", None)),
        (201, ("accepted", "", None)),
        (202, ("accepted", "", None)),
        (404, ("token_gone", "not_found", None)),
        (410, ("token_gone", "gone", None)),
        (413, ("rejected", "too_large", None)),
        (400, ("misconfigured", "vapid_refused", Some(Scope::Device))),
        (401, ("misconfigured", "vapid_refused", Some(Scope::Device))),
        (403, ("misconfigured", "vapid_refused", Some(Scope::Device))),
        (429, ("retry", "too_many_requests", origin)),
        (500, ("retry", "server_error", origin)),
        (503, ("retry", "server_error", origin)),
        (507, ("retry", "no_subscriber", Some(Scope::Device))),
        (301, ("rejected", "redirect", None)),
        (418, ("rejected", "refused", None)),
    ];
    let server = Server::start(|_| Reply::new(201)).await;
    let (web_push, browser) = (web_push(), Browser::new());
    // A device that is refused waits.
    let device = |path: &str| subscription(&browser, server.url(path).reveal());
    for (status, expected) in cases {
        server.answer(move |_| Reply::new(status));
        let device = device(&format!("/{status}"));
        for target in [Target::WebPush(device.clone()), Target::UnifiedPush(device)] {
            assert_eq!(summary(&web_push.send(&alert(target)).await), expected, "{status}");
        }
    }
    let delays = [(429, Some("0"), Some(0)), (503, None, None), (507, None, Some(600)), (507, Some("0"), Some(0))];
    for (status, header, expected) in delays {
        server.answer(move |_| {
            header.map_or(Reply::new(status), |header| Reply::new(status).with("retry-after", header))
        });
        let target = Target::WebPush(device(&format!("/{status}/{header:?}")));
        let outcome = web_push.send(&alert(target)).await;
        assert_eq!(demanded(&outcome), expected.map(Duration::from_secs), "{status} {header:?}");
    }
}

#[tokio::test]
async fn a_server_of_http_1_works_and_its_words_hide_the_endpoint() {
    let server = Server::start_plain(|request| Reply::text(503, format!("cannot deliver to {}", request.path))).await;
    let (web_push, browser) = (web_push(), Browser::new());
    let endpoint = format!("http://{}/UPsecretsecret?up=1", server.address);
    let outcome = web_push.send(&alert(Target::UnifiedPush(subscription(&browser, &endpoint)))).await;
    assert_eq!(summary(&outcome), ("retry", "server_error", Some(Scope::Origin)));
    let shown = format!("{outcome:?}");
    assert!(shown.contains("cannot deliver") && !shown.contains("secretsecret"), "{shown}");
    assert_eq!(server.requests()[0].version, Version::HTTP_11);
}
