//! Apple Push Notification service.

use std::sync::Arc;
use std::time::Duration;

use feedline::config::Secret;
use feedline::push::providers::apns::Apns;
use feedline::push::providers::endpoint::EndpointUrl;
use feedline::push::providers::settings::ApnsSettings;
use feedline::push::providers::{
    ApnsEnvironment, Outcome, Provider as _, Providers, ProvidersConfig, Push, Scope, Target, Urgency,
};
use hyper::Version;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::{Value, json};

use crate::server::{BrokenPath, Received, Reply, Server};
use crate::{alert, clear, config, demanded, keys, now, summary};

const TOKEN: &str = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0";

fn settings(production: &Server, sandbox: &Server) -> ApnsSettings {
    ApnsSettings {
        key: Secret::new(keys::p256().0.clone()),
        key_id: "ABC123DEFG".into(),
        team_id: "DEF123GHIJ".into(),
        topic: "com.example.app".into(),
        environment: ApnsEnvironment::Production,
        production_url: production.url(""),
        sandbox_url: sandbox.url(""),
        connections: 1,
        concurrency: 100,
    }
}

fn apns(production: &Server, sandbox: &Server) -> Providers {
    let mut config = ProvidersConfig { apns: Some(settings(production, sandbox)), ..config() };
    config.breaker.failures = 1000;
    config.breaker.min_open = Duration::ZERO;
    config.misconfigured_pause = Duration::ZERO;
    Providers::new(&config).unwrap()
}

/// A device whose environment is known.
fn target() -> Target {
    Target::apns(TOKEN, None, Some(ApnsEnvironment::Production)).unwrap()
}

fn accepted(request: &Received) -> Reply {
    Reply::new(200).with("apns-id", request.header("apns-id"))
}

fn refused(status: u16, reason: &str) -> Reply {
    Reply::json(status, &json!({"reason": reason}))
}

#[tokio::test]
async fn a_message_has_the_documented_headers() {
    let server = Server::start(accepted).await;
    let apns = apns(&server, &server);
    let push = alert(target());
    assert_eq!(apns.send(&push).await, Outcome::accepted(Some(push.id.to_string())));
    assert_eq!(apns.send(&push).await.name(), "accepted");
    let requests = server.requests();
    let request = &requests[0];
    assert_eq!((request.method.as_str(), request.version), ("POST", Version::HTTP_2));
    assert_eq!(request.path, format!("/3/device/{TOKEN}"));
    let expected = [
        ("apns-topic", "com.example.app"),
        ("apns-push-type", "alert"),
        ("apns-id", &push.id.to_string()),
        ("apns-priority", "10"),
        ("apns-collapse-id", "reply:17"),
    ];
    for (name, value) in expected {
        assert_eq!(request.header(name), value, "{name}");
    }
    let expiration: u64 = request.header("apns-expiration").parse().unwrap();
    assert!(expiration.abs_diff(push.expires_at / 1000) <= 1, "{expiration}");

    let token = request.header("authorization").strip_prefix("bearer ").unwrap();
    let header = decode_header(token).unwrap();
    assert_eq!((header.alg, header.kid.as_deref()), (Algorithm::ES256, Some("ABC123DEFG")));
    let mut validation = Validation::new(Algorithm::ES256);
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    let key = DecodingKey::from_ec_pem(keys::p256().1.as_bytes()).unwrap();
    let claims = decode::<Value>(token, &key, &validation).unwrap().claims;
    assert_eq!(claims["iss"], "DEF123GHIJ");
    let age = now() / 1000 - claims["iat"].as_u64().unwrap();
    assert!((295..=2_105).contains(&age), "{age} s");
    assert_eq!(claims["iat"].as_u64().unwrap() % 1_800, 0, "the same in all processes");
    assert_eq!(requests[1].header("authorization"), request.header("authorization"), "the token is reused");
    assert_eq!(requests[1].header("apns-id"), request.header("apns-id"), "an attempt is recognised");

    let payload = request.json();
    let aps = json!({
        "alert": {"title": push.title, "body": push.body}, "badge": 3, "sound": "default", "thread-id": "post:17",
    });
    assert_eq!(payload["aps"], aps);
    let data = json!({"post": "17", "id": push.id.to_string(), "kind": "alert", "thread": "post:17", "badge": "3"});
    assert_eq!(payload["feedline"], data);
}

#[tokio::test]
async fn a_clear_is_a_background_message_with_priority_5() {
    let server = Server::start(accepted).await;
    let apns = apns(&server, &server);
    assert_eq!(apns.send(&clear(target())).await.name(), "accepted");
    let request = &server.requests()[0];
    assert_eq!((request.header("apns-push-type"), request.header("apns-priority")), ("background", "5"));
    assert_eq!(request.json()["aps"], json!({"badge": 3, "content-available": 1}));

    for (urgency, priority) in
        [(Urgency::High, "10"), (Urgency::Normal, "5"), (Urgency::Low, "5"), (Urgency::VeryLow, "1")]
    {
        apns.send(&Push { urgency, ..alert(target()) }).await;
        assert_eq!(server.requests()[0].header("apns-priority"), priority);
    }
}

#[tokio::test]
async fn long_collapse_ids_are_hashed_and_payloads_fit_4096_bytes() {
    let server = Server::start(accepted).await;
    let apns = apns(&server, &server);
    let id = async |key: &str| {
        apns.send(&Push { collapse_key: Some(key.into()), ..alert(target()) }).await;
        server.requests()[0].header("apns-collapse-id").to_owned()
    };
    let exact = "x".repeat(64);
    assert_eq!(id(&exact).await, exact);
    let (one, other) = (id(&"x".repeat(65)).await, id(&"x".repeat(66)).await);
    assert!(one.len() <= 64 && other.len() <= 64 && one != other, "{one} {other}");
    assert_eq!(id(&"x".repeat(65)).await, one);
    assert!(id("评论 17").await.is_ascii());

    let body = "👨‍👩‍👧‍👦 \"quoted\" ".repeat(1000);
    assert_eq!(apns.send(&Push { body: body.clone(), ..alert(target()) }).await.name(), "accepted");
    let request = &server.requests()[0];
    assert!((4050..=4096).contains(&request.body.len()), "{}", request.body.len());
    let sent = request.json()["aps"]["alert"]["body"].as_str().unwrap().to_owned();
    assert!(body.starts_with(sent.strip_suffix('…').unwrap()), "{sent}");
    let mut large = alert(target());
    large.data.insert("large".into(), "x".repeat(4096));
    assert_eq!(summary(&apns.send(&large).await), ("rejected", "too_large", None));
    let late = Push { expires_at: now(), ..alert(target()) };
    assert_eq!(summary(&apns.send(&late).await), ("rejected", "expired", None));
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn every_status_has_its_consequence() {
    let provider = Some(Scope::Provider);
    let cases = [
        (400, "BadDeviceToken", ("token_gone", "bad_device_token", None)),
        (400, "DeviceTokenNotForTopic", ("misconfigured", "device_token_not_for_topic", Some(Scope::Device))),
        (400, "BadTopic", ("misconfigured", "topic", provider)),
        (400, "MissingTopic", ("misconfigured", "topic", provider)),
        (400, "TopicDisallowed", ("misconfigured", "topic", provider)),
        (400, "PayloadEmpty", ("rejected", "bad_request", None)),
        (400, "BadCollapseId", ("rejected", "bad_request", None)),
        (400, "BadPriority", ("rejected", "bad_request", None)),
        (400, "BadMessageId", ("rejected", "bad_request", None)),
        (400, "BadExpirationDate", ("rejected", "bad_request", None)),
        (400, "InvalidPushType", ("rejected", "bad_request", None)),
        (400, "DuplicateHeaders", ("rejected", "bad_request", None)),
        (400, "IdleTimeout", ("retry", "idle_timeout", Some(Scope::Device))),
        (403, "InvalidProviderToken", ("misconfigured", "provider_token", provider)),
        (403, "MissingProviderToken", ("misconfigured", "provider_token", provider)),
        (403, "ExpiredProviderToken", ("misconfigured", "expired_provider_token", provider)),
        (403, "Forbidden", ("misconfigured", "provider_token", provider)),
        (403, "BadEnvironmentKeyInToken", ("misconfigured", "key_environment", Some(Scope::Device))),
        (404, "BadPath", ("misconfigured", "bad_path", provider)),
        (405, "MethodNotAllowed", ("misconfigured", "bad_path", provider)),
        (413, "PayloadTooLarge", ("rejected", "too_large", None)),
        (429, "TooManyRequests", ("retry", "too_many_requests", Some(Scope::Device))),
        (500, "InternalServerError", ("retry", "internal", provider)),
        (503, "ServiceUnavailable", ("retry", "unavailable", provider)),
        (503, "Shutdown", ("retry", "shutdown", provider)),
        (502, "", ("retry", "server_error", provider)),
        (302, "", ("misconfigured", "redirect", provider)),
        // The last one: it pauses the provider.
        (429, "TooManyProviderTokenUpdates", ("retry", "provider_token_updates", provider)),
    ];
    let server = Server::start(accepted).await;
    let apns = apns(&server, &server);
    for (n, (status, reason, expected)) in cases.into_iter().enumerate() {
        server.answer(move |_| refused(status, reason));
        let target = Target::apns(&format!("{n:064x}"), None, Some(ApnsEnvironment::Production)).unwrap();
        assert_eq!(summary(&apns.send(&alert(target)).await), expected, "{status} {reason}");
        assert_eq!(server.requests().len(), 1, "{status} {reason}: a fresh provider token is not replaced");
    }
}

#[tokio::test]
async fn a_device_that_unregistered_has_the_time() {
    let server = Server::start(accepted).await;
    let apns = apns(&server, &server);
    for reason in ["Unregistered", "ExpiredToken"] {
        server.answer(move |_| Reply::json(410, &json!({"reason": reason, "timestamp": 1_700_000_000_123_u64})));
        let outcome = apns.send(&alert(target())).await;
        let Outcome::TokenGone { since, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!(since, Some(1_700_000_000_123));
    }
}

#[tokio::test]
async fn a_token_is_bad_only_if_its_environment_says_so() {
    let production = Server::start(|_| refused(400, "BadDeviceToken")).await;
    let sandbox = Server::start(accepted).await;
    let apns = apns(&production, &sandbox);
    let unknown = Target::apns(TOKEN, Some("com.example.other"), None).unwrap();
    assert_eq!(apns.send(&alert(unknown.clone())).await.name(), "accepted");
    assert_eq!((production.requests().len(), sandbox.requests().len()), (1, 1));

    sandbox.answer(|_| refused(503, "ServiceUnavailable"));
    assert_eq!(apns.send(&alert(unknown.clone())).await.name(), "retry");
    sandbox.answer(|_| refused(400, "BadDeviceToken"));
    assert_eq!(apns.send(&alert(unknown.clone())).await.name(), "token_gone");
    sandbox.answer(|_| refused(403, "BadEnvironmentKeyInToken"));
    assert_eq!(apns.send(&alert(unknown)).await.name(), "token_gone", "the key is for production only");
    sandbox.requests();

    let known = Target::apns(TOKEN, None, Some(ApnsEnvironment::Sandbox)).unwrap();
    production.requests();
    sandbox.answer(accepted);
    assert_eq!(apns.send(&alert(known)).await.name(), "accepted");
    assert_eq!((production.requests().len(), sandbox.requests()[0].header("apns-topic")), (0, "com.example.app"));
}

#[tokio::test]
async fn a_topic_that_a_device_named_is_its_own_problem() {
    let server = Server::start(|_| refused(400, "TopicDisallowed")).await;
    let apns = apns(&server, &server);
    let own = Target::apns(TOKEN, Some("com.example.other"), Some(ApnsEnvironment::Production)).unwrap();
    assert_eq!(summary(&apns.send(&alert(own)).await), ("misconfigured", "topic", Some(Scope::Device)));
    assert_eq!(server.requests()[0].header("apns-topic"), "com.example.other");
}

#[tokio::test]
async fn a_device_that_receives_too_much_is_left_alone_and_others_are_not() {
    let server = Server::start(|_| refused(429, "TooManyRequests")).await;
    let apns = apns(&server, &server);
    assert_eq!(summary(&apns.send(&alert(target())).await).1, "too_many_requests");
    server.answer(accepted);
    let outcome = apns.send(&alert(target())).await;
    assert_eq!(summary(&outcome), ("retry", "device_paused", Some(Scope::Device)));
    assert!(demanded(&outcome).is_some_and(|wait| wait > Duration::from_secs(25)), "{outcome:?}");
    let other = Target::apns(&"ab".repeat(32), None, Some(ApnsEnvironment::Production)).unwrap();
    assert_eq!(apns.send(&alert(other)).await.name(), "accepted");
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn a_wrong_default_topic_deletes_no_device() {
    let wrong_topic = |_: &Received| refused(400, "DeviceTokenNotForTopic");
    let (production, sandbox) = (Server::start(wrong_topic).await, Server::start(wrong_topic).await);
    let apns = apns(&production, &sandbox);
    let of = |topic: Option<&str>| Target::apns(TOKEN, topic, None).unwrap();
    let alarm = ("misconfigured", "device_token_not_for_topic", Some(Scope::Device));
    assert_eq!(summary(&apns.send(&alert(of(None))).await), alarm);
    assert_eq!((production.requests().len(), sandbox.requests().len()), (1, 1), "the environment is checked first");
    // The other environment does not know the token at all, so the first one is right about the topic.
    sandbox.answer(|_| refused(400, "BadDeviceToken"));
    assert_eq!(summary(&apns.send(&alert(of(None))).await), alarm);
    let own = Some("com.example.other");
    assert_eq!(summary(&apns.send(&alert(of(own))).await).0, "token_gone", "the device named the topic");
    sandbox.answer(accepted);
    assert_eq!(apns.send(&alert(of(None))).await.name(), "accepted");
}

#[tokio::test]
async fn one_connection_serves_all_within_the_limit_of_its_streams() {
    let server = Server::start_limited(5, |request| accepted(request).after(Duration::from_millis(10))).await;
    let apns = Arc::new(apns(&server, &server));
    // The connection has to know the limit.
    apns.send(&alert(target())).await;
    let sends: Vec<_> = (0..50)
        .map(|_| {
            let apns = Arc::clone(&apns);
            tokio::spawn(async move { apns.send(&alert(target())).await.name() })
        })
        .collect();
    for send in sends {
        assert_eq!(send.await.unwrap(), "accepted");
    }
    assert_eq!((server.connections(), server.max_active()), (1, 5));
}

#[tokio::test]
async fn too_many_provider_tokens_pause_the_provider_and_replace_the_connection() {
    let server = Server::start(|_| refused(429, "TooManyProviderTokenUpdates")).await;
    let provider = Apns::new(&settings(&server, &server), config().http()).unwrap();
    let outcome = provider.send(&alert(target())).await;
    assert_eq!(demanded(&outcome), Some(Duration::from_secs(60)));
    server.answer(accepted);
    assert_eq!(provider.send(&alert(target())).await.name(), "accepted");
    let requests = server.requests();
    assert_eq!(server.connections(), 2);
    assert_eq!(requests[0].header("authorization"), requests[1].header("authorization"), "the provider token stays");
}

#[tokio::test]
async fn a_connection_that_the_server_ends_is_replaced_without_a_failure() {
    let server = Server::start(accepted).await;
    let apns = apns(&server, &server);
    assert_eq!(apns.send(&alert(target())).await.name(), "accepted");
    server.go_away();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(apns.send(&alert(target())).await.name(), "accepted");
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_connection_that_died_silently_is_replaced_before_a_message_needs_it() {
    let server = Server::start(accepted).await;
    let path = BrokenPath::to(&server).await;
    let url = EndpointUrl::parse(&format!("https://{}", path.address)).unwrap();
    let settings = ApnsSettings { production_url: url, ..settings(&server, &server) };
    let ping_interval = Duration::from_millis(400);
    let apns = Providers::new(&ProvidersConfig { apns: Some(settings), ping_interval, ..config() }).unwrap();
    assert_eq!(apns.send(&alert(target())).await.name(), "accepted");
    path.cut();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let outcome = apns.send(&alert(target())).await;
    assert_eq!(outcome.name(), "accepted", "{outcome:?}");
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_shutdown_replaces_the_connection_and_keeps_the_provider_token() {
    let server = Server::start(accepted).await;
    let apns = apns(&server, &server);
    apns.send(&alert(target())).await;
    server.answer(|_| refused(503, "Shutdown"));
    assert_eq!(summary(&apns.send(&alert(target())).await).1, "shutdown");
    server.answer(accepted);
    assert_eq!(apns.send(&alert(target())).await.name(), "accepted");
    assert_eq!(server.connections(), 2);
    let requests = server.requests();
    assert_eq!(requests[0].header("authorization"), requests[2].header("authorization"));
}
