//! Firebase Cloud Messaging.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use feedline::config::Secret;
use feedline::push::providers::settings::{FcmSettings, WebPushSettings, WebhookSettings};
use feedline::push::providers::webpush::PushSubscription;
use feedline::push::providers::{Outcome, Providers, ProvidersConfig, Push, Scope, Target, Urgency};
use hyper::Version;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::server::{Received, Reply, Server};
use crate::{alert, clear, config, demanded, keys, now, summary};

const TOKEN: &str = "dGVzdA:APA91bHun4MxP5egoKMwt2KZFBaFUH-1RYqx";

fn fcm(server: &Server) -> Providers {
    fcm_with(server, 1)
}

fn settings(server: &Server, connections: usize) -> FcmSettings {
    let account = json!({
        "type": "service_account",
        "project_id": "example-project",
        "private_key_id": "key-1",
        "private_key": keys::rsa().0,
        "client_email": "push@example-project.iam.gserviceaccount.com",
        "token_uri": server.url("/token").reveal(),
    });
    let service_account = Secret::new(account.to_string());
    FcmSettings { service_account, url: server.url(""), connections, concurrency: 100 }
}

fn fcm_with(server: &Server, connections: usize) -> Providers {
    let mut config = ProvidersConfig { fcm: Some(settings(server, connections)), ..config() };
    // The tests of statuses need an answer to every message.
    config.breaker.failures = 1000;
    config.breaker.min_open = Duration::ZERO;
    config.misconfigured_pause = Duration::ZERO;
    Providers::new(&config).unwrap()
}

fn target() -> Target {
    Target::fcm(TOKEN).unwrap()
}

/// Answers with access tokens that live as long as given, and with `reply` to messages.
fn service(
    lifetime: u64,
    reply: impl Fn(&Received) -> Reply + Send + Sync,
) -> impl Fn(&Received) -> Reply + Send + Sync {
    let tokens = AtomicU32::new(0);
    move |request| match request.path.as_str() {
        "/token" => {
            let token = format!("access-{}", tokens.fetch_add(1, Ordering::SeqCst));
            Reply::json(200, &json!({"access_token": token, "expires_in": lifetime, "token_type": "Bearer"}))
        }
        _ => reply(request),
    }
}

fn accepted() -> Reply {
    Reply::json(200, &json!({"name": "projects/example-project/messages/0:1"}))
}

/// The requests for tokens, and the messages.
fn split(requests: Vec<Received>) -> (Vec<Received>, Vec<Received>) {
    requests.into_iter().partition(|request| request.path == "/token")
}

#[tokio::test]
async fn a_message_has_the_documented_form() {
    let server = Server::start(service(3600, |_| accepted())).await;
    let fcm = fcm(&server);
    let push = alert(target());
    let outcome = fcm.send(&push).await;
    assert_eq!(outcome, Outcome::accepted(Some("projects/example-project/messages/0:1".into())));

    let (tokens, messages) = split(server.requests());
    let form = std::str::from_utf8(&tokens[0].body).unwrap();
    assert_eq!(tokens[0].header("content-type"), "application/x-www-form-urlencoded");
    let assertion =
        form.strip_prefix("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=").unwrap();
    let mut validation = Validation::new(Algorithm::RS256);
    validation.set_audience(&[server.url("/token").reveal()]);
    let key = DecodingKey::from_rsa_pem(keys::rsa().1.as_bytes()).unwrap();
    let claims = decode::<Value>(assertion, &key, &validation).unwrap().claims;
    assert_eq!(decode_header(assertion).unwrap().kid.as_deref(), Some("key-1"));
    assert_eq!(claims["iss"], "push@example-project.iam.gserviceaccount.com");
    assert_eq!(claims["scope"], "https://www.googleapis.com/auth/firebase.messaging");
    assert_eq!(claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(), 3600);

    let request = &messages[0];
    assert_eq!((request.method.as_str(), request.version), ("POST", Version::HTTP_2));
    assert_eq!(request.path, "/v1/projects/example-project/messages:send");
    assert_eq!(request.header("authorization"), "Bearer access-0");
    assert_eq!(request.header("content-type"), "application/json");
    let message = &request.json()["message"];
    assert_eq!(message["token"], TOKEN);
    assert_eq!(message["notification"], json!({"title": push.title, "body": push.body}));
    let id = push.id.to_string();
    let data = json!({"post": "17", "id": id, "kind": "alert", "thread": "post:17", "badge": "3"});
    assert_eq!(message["data"], data, "all values are text");
    let android = &message["android"];
    assert_eq!((&android["priority"], &android["ttl"]), (&json!("HIGH"), &json!("3600s")));
    assert_eq!(android["notification"], json!({"tag": "reply:17", "notification_count": 3}));
    assert_eq!(android.get("collapse_key"), None, "FCM keeps four keys only");
    let apns = &message["apns"];
    assert_eq!(apns["headers"]["apns-priority"], "10");
    assert_eq!(apns["headers"]["apns-collapse-id"], "reply:17");
    assert_eq!(apns["payload"]["aps"], json!({"badge": 3, "thread-id": "post:17", "sound": "default"}));
}

#[tokio::test]
async fn a_clear_shows_nothing_and_wakes_nothing() {
    let server = Server::start(service(3600, |_| accepted())).await;
    let fcm = fcm(&server);
    assert_eq!(fcm.send(&clear(target())).await.name(), "accepted");
    assert_eq!(fcm.send(&Push { urgency: Urgency::Normal, ..alert(target()) }).await.name(), "accepted");
    let messages = split(server.requests()).1;
    let message = &messages[0].json()["message"];
    assert_eq!(message.get("notification"), None);
    assert_eq!(message["data"]["kind"], "clear");
    assert_eq!(
        (&message["android"]["priority"], &message["android"]["collapse_key"]),
        (&json!("NORMAL"), &json!("clear"))
    );
    assert_eq!(message["apns"]["headers"]["apns-push-type"], "background");
    assert_eq!(message["apns"]["headers"]["apns-priority"], "5");
    assert_eq!(message["apns"]["payload"]["aps"], json!({"badge": 3, "content-available": 1}));
    assert_eq!(messages[1].json()["message"]["android"]["priority"], "NORMAL");
}

#[tokio::test]
async fn the_ttl_is_at_most_28_days_and_expired_messages_are_not_sent() {
    let server = Server::start(service(3600, |_| accepted())).await;
    let fcm = fcm(&server);
    let year = Push { expires_at: now() + 365 * 86_400_000, ..alert(target()) };
    assert_eq!(fcm.send(&year).await.name(), "accepted");
    assert_eq!(split(server.requests()).1[0].json()["message"]["android"]["ttl"], "2419200s");
    let late = Push { expires_at: now() - 1, ..alert(target()) };
    assert_eq!(summary(&fcm.send(&late).await), ("rejected", "expired", None));
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn messages_fit_4096_bytes() {
    let server = Server::start(service(3600, |_| accepted())).await;
    let fcm = fcm(&server);
    for body in ["\"\\\n".repeat(3000), "漢👨‍👩‍👧‍👦".repeat(1000)] {
        assert_eq!(fcm.send(&Push { body: body.clone(), ..alert(target()) }).await.name(), "accepted");
        let message = split(server.requests()).1[0].json();
        let size = message.to_string().len() - TOKEN.len();
        assert!((4000..=4096).contains(&size), "{size}");
        let sent = message["message"]["notification"]["body"].as_str().unwrap().to_owned();
        let kept = sent.strip_suffix('…').unwrap();
        assert!(body.starts_with(kept) && !kept.ends_with('\u{200d}'), "{sent}");
    }
    let mut large = alert(target());
    large.data.insert("large".into(), "x".repeat(4096));
    assert_eq!(summary(&fcm.send(&large).await), ("rejected", "too_large", None));
    for name in ["from", "message_type", "google.x", "gcm", "gcm.notification.x", ""] {
        let mut reserved = alert(target());
        reserved.data.insert(name.into(), "x".into());
        assert_eq!(summary(&fcm.send(&reserved).await), ("rejected", "reserved_key", None), "{name}");
    }
    assert!(server.requests().is_empty(), "what FCM would refuse is not sent");
}

/// An error in the form of Google's services.
fn error(status: u16, name: &str, message: &str, details: &Value) -> Reply {
    Reply::json(status, &json!({"error": {"code": status, "status": name, "message": message, "details": details}}))
}

fn fcm_error(code: &str) -> Value {
    json!({"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": code})
}

fn bad_request(field: &str) -> Value {
    let violation = json!({"field": field, "description": "Invalid value"});
    json!({"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation]})
}

/// What `summary` returns.
type Expected = (&'static str, &'static str, Option<Scope>);

/// Responses and their consequences.
fn statuses() -> Vec<(Reply, Expected)> {
    const NOT_VALID: &str = "The registration token is not a valid FCM registration token";
    let invalid = || fcm_error("INVALID_ARGUMENT");
    let quota = |subject: &str| {
        let violation = json!({"subject": subject, "description": "quota exceeded"});
        json!({"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]})
    };
    let exceeded = || fcm_error("QUOTA_EXCEEDED");
    let provider = Some(Scope::Provider);
    vec![
        (error(404, "NOT_FOUND", "gone", &json!([fcm_error("UNREGISTERED")])), ("token_gone", "unregistered", None)),
        (error(404, "NOT_FOUND", "no such project", &json!([])), ("misconfigured", "unknown_project", provider)),
        (error(400, "INVALID_ARGUMENT", NOT_VALID, &json!([invalid()])), ("token_gone", "invalid_token", None)),
        (
            error(400, "INVALID_ARGUMENT", "x", &json!([invalid(), bad_request("message.token")])),
            ("token_gone", "invalid_token", None),
        ),
        (
            error(400, "INVALID_ARGUMENT", NOT_VALID, &json!([invalid(), bad_request("message.data[0].value")])),
            ("rejected", "invalid_argument", None),
        ),
        (
            error(400, "INVALID_ARGUMENT", "Android message is too big", &json!([invalid()])),
            ("rejected", "invalid_argument", None),
        ),
        (error(400, "INVALID_ARGUMENT", NOT_VALID, &json!([])), ("rejected", "invalid_argument", None)),
        (
            error(401, "UNAUTHENTICATED", "x", &json!([fcm_error("THIRD_PARTY_AUTH_ERROR")])),
            ("misconfigured", "third_party_auth", Some(Scope::Device)),
        ),
        (error(401, "UNAUTHENTICATED", "x", &json!([])), ("misconfigured", "unauthenticated", provider)),
        (
            error(403, "PERMISSION_DENIED", "x", &json!([fcm_error("SENDER_ID_MISMATCH")])),
            ("rejected", "sender_id_mismatch", None),
        ),
        (error(403, "PERMISSION_DENIED", "x", &json!([])), ("misconfigured", "permission_denied", provider)),
        (error(429, "RESOURCE_EXHAUSTED", "x", &json!([exceeded()])), ("retry", "quota_exceeded", provider)),
        (
            error(429, "RESOURCE_EXHAUSTED", "x", &json!([exceeded(), quota("device:abc")])),
            ("retry", "quota_exceeded", Some(Scope::Device)),
        ),
        (error(500, "INTERNAL", "x", &json!([fcm_error("INTERNAL")])), ("retry", "internal", provider)),
        (error(503, "UNAVAILABLE", "x", &json!([fcm_error("UNAVAILABLE")])), ("retry", "unavailable", provider)),
        (Reply::text(502, "<html>bad gateway</html>"), ("retry", "server_error", provider)),
        (Reply::new(302).with("location", "https://example.com/"), ("misconfigured", "redirect", provider)),
        (Reply::text(418, "?"), ("rejected", "refused", None)),
    ]
}

#[tokio::test]
async fn every_status_has_its_consequence() {
    let server = Server::start(|_| accepted()).await;
    for (reply, expected) in statuses() {
        let shown = format!("{reply:?}");
        server.answer(service(3600, move |_| reply.clone()));
        assert_eq!(summary(&fcm(&server).send(&alert(target())).await), expected, "{shown}");
    }
}

#[tokio::test]
async fn demanded_delays_are_kept_and_quotas_wait_a_minute() {
    let server = Server::start(|_| accepted()).await;
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    for (status, header, expected) in [
        (429, None, seconds(60)),
        (429, Some("7"), seconds(7)),
        (503, Some("120"), seconds(120)),
        (503, None, None),
        (500, Some("99999999"), seconds(86_400)),
    ] {
        server.answer(service(3600, move |_| {
            let reply = error(status, "X", "x", &json!([]));
            header.map_or(reply.clone(), |header| reply.with("retry-after", header))
        }));
        assert_eq!(demanded(&fcm(&server).send(&alert(target())).await), expected, "{status} {header:?}");
    }
}

#[tokio::test]
async fn many_messages_need_one_access_token_and_one_connection() {
    let server = Server::start(service(3600, |_| accepted().after(Duration::from_millis(50)))).await;
    let fcm = Arc::new(fcm(&server));
    let sends: Vec<_> = (0..50)
        .map(|_| {
            let fcm = Arc::clone(&fcm);
            tokio::spawn(async move { fcm.send(&alert(target())).await.name() })
        })
        .collect();
    for send in sends {
        assert_eq!(send.await.unwrap(), "accepted");
    }
    let (tokens, messages) = split(server.requests());
    assert_eq!((tokens.len(), messages.len(), server.connections()), (1, 50, 1));
}

#[tokio::test]
async fn several_connections_share_the_messages() {
    let server = Server::start(service(3600, |_| accepted())).await;
    let fcm = fcm_with(&server, 3);
    for _ in 0..9 {
        assert_eq!(fcm.send(&alert(target())).await.name(), "accepted");
    }
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn an_access_token_is_refreshed_ahead_of_its_end() {
    let server = Server::start(service(3, |_| accepted())).await;
    let fcm = fcm(&server);
    fcm.send(&alert(target())).await;
    fcm.send(&alert(target())).await;
    assert_eq!(split(server.requests()).0.len(), 1);
    // From 2.5 seconds on it is refreshed, from 2.95 on it is not used any more.
    tokio::time::sleep(Duration::from_millis(2600)).await;
    // A refresh that fails leaves the old token in use.
    server.answer(|request| if request.path == "/token" { Reply::new(503) } else { accepted() });
    assert_eq!(fcm.send(&alert(target())).await.name(), "accepted");
    let (tokens, messages) = split(server.requests());
    assert_eq!((tokens.len(), messages[0].header("authorization")), (1, "Bearer access-0"));
    tokio::time::sleep(Duration::from_millis(1200)).await;
    server.answer(service(3600, |_| accepted()));
    let outcome = fcm.send(&alert(target())).await;
    assert_eq!(outcome.name(), "accepted", "{outcome:?}");
    assert_eq!(split(server.requests()).0.len(), 1);
}

#[tokio::test]
async fn a_revoked_access_token_is_replaced_once() {
    let server = Server::start(service(3600, |request| match request.header("authorization") {
        "Bearer access-0" => error(401, "UNAUTHENTICATED", "revoked", &json!([])),
        _ => accepted(),
    }))
    .await;
    let revoked = fcm(&server);
    assert_eq!(revoked.send(&alert(target())).await.name(), "accepted");
    assert_eq!(split(server.requests()).0.len(), 2);

    server.answer(service(3600, |_| error(401, "UNAUTHENTICATED", "no", &json!([]))));
    let refused = fcm(&server);
    for _ in 0..5 {
        assert_eq!(summary(&refused.send(&alert(target())).await).1, "unauthenticated");
    }
    assert_eq!(split(server.requests()).0.len(), 2, "not a token for each message");
}

#[tokio::test]
async fn a_private_gateway_opens_no_network_to_endpoints_of_users() {
    let server = Server::start(service(3600, |_| accepted())).await;
    let closed = |config| ProvidersConfig { allow_networks: Vec::new(), ..config };
    let web_push = Some(WebPushSettings {
        private_key: Secret::new(keys::p256().0.clone()),
        subject: "mailto:ops@example.com".into(),
        max_body: 2_847,
        concurrency: 1,
    });
    let webhook = Some(WebhookSettings { secrets: vec![Secret::new("x".repeat(32))], concurrency: 1 });
    let fcm = Some(settings(&server, 1));
    let providers = Providers::new(&closed(ProvidersConfig { fcm, web_push, webhook, ..config() })).unwrap();
    assert_eq!(providers.send(&alert(target())).await.name(), "accepted");
    let (public, auth) = Browser::new().keys();
    let subscription = PushSubscription::parse(server.url("/s").reveal(), &public, &auth).unwrap();
    for target in [Target::WebPush(subscription), Target::Webhook { url: server.url("/hook"), secret: None }] {
        assert_eq!(summary(&providers.send(&alert(target)).await).1, "endpoint_forbidden");
    }
    assert_eq!(server.requests().len(), 2, "an access token, and the message");
}

#[tokio::test]
async fn without_an_access_token_nothing_is_sent() {
    let server = Server::start(|_| accepted()).await;
    let refusal = json!({"error": "invalid_grant", "error_description": "Invalid JWT Signature."});
    let refused = ("misconfigured", "oauth_refused", Some(Scope::Provider));
    let unavailable = ("retry", "oauth_unavailable", Some(Scope::Provider));
    for (reply, expected) in [(Reply::json(400, &refusal), refused), (Reply::new(503), unavailable)] {
        server.answer(move |_| reply.clone());
        let fcm = fcm(&server);
        for _ in 0..5 {
            assert_eq!(summary(&fcm.send(&alert(target())).await), expected);
        }
        let (tokens, messages) = split(server.requests());
        assert_eq!((tokens.len(), messages.len()), (1, 0), "failed attempts have a delay");
    }
}

#[tokio::test]
async fn service_accounts_are_checked_when_they_are_loaded() {
    let place = |account: String| {
        let url = feedline::push::providers::endpoint::EndpointUrl::parse("https://fcm.googleapis.com").unwrap();
        let service_account = Secret::new(account);
        let settings = FcmSettings { service_account, url, connections: 1, concurrency: 1 };
        let error =
            Providers::new(&ProvidersConfig { fcm: Some(settings), ..ProvidersConfig::default() }).err().unwrap();
        assert!(!error.to_string().contains("SECRET"), "{error}");
        error.to_string()
    };
    let account = |key: &str, uri: &str| {
        let (kind, email) = ("service_account", "a@b.c");
        json!({"type": kind, "project_id": "p", "client_email": email, "private_key": key, "token_uri": uri})
            .to_string()
    };
    let uri = "https://oauth2.googleapis.com/token";
    assert!(place("{SECRET".into()).contains("not the JSON of a service account"));
    assert!(place(account("SECRET", uri)).contains("`private_key`"));
    assert!(place(account(&keys::p256().0, uri)).contains("`private_key`"));
    assert!(place(account(&keys::rsa().0, "http://oauth2.googleapis.com/token")).contains("https"));
    assert!(place(account(&keys::rsa().0, "https://user@oauth2.googleapis.com/token")).contains("user name"));
}
