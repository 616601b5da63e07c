//! The bridge of the real server, from a notification to a stand-in for the provider, and back: which devices stay.

use std::time::{Duration, Instant};

use feedline_test_support::server::{Answer, PATIENCE, Server as Feedline};
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::server::{Received, Reply, Server};
use crate::{keys, now};

const FCM_TOKEN: &str = "dGVzdA:APA91bHun4MxP5egoKMwt2KZFBaFUH-1RYqx";
const APNS_TOKEN: &str = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0";
const ACCESS_TOKEN: &str = "ya29.an-access-token-of-fcm";
const VAPID_KEY: &str = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw";

/// A server that pushes to FCM and APNs, for which one stands in. No network is allowed to endpoints of users.
async fn feedline(provider: &Server, more: &[(&str, &str)]) -> Feedline {
    let url = format!("https://{}", provider.address);
    let account = json!({
        "type": "service_account", "project_id": "example-project", "private_key_id": "key-1",
        "private_key": keys::rsa().0, "client_email": "push@example-project.iam.gserviceaccount.com",
        "token_uri": format!("{url}/token"),
    });
    let (account, certificate) = (account.to_string(), String::from_utf8_lossy(&keys::certificate().0));
    let mut all = vec![
        ("push.enabled", "true"),
        ("push.grace", "300ms"),
        ("push.ca_certificates", &*certificate),
        ("push.fcm_service_account", &account),
        ("push.fcm_url", &url),
        ("push.apns_key", &keys::p256().0),
        ("push.apns_key_id", "ABC123DEFG"),
        ("push.apns_team_id", "DEF123GHIJ"),
        ("push.apns_topic", "com.example.app"),
        ("push.apns_url", &url),
        ("push.apns_sandbox_url", &url),
        ("push.vapid_private_key", VAPID_KEY),
        ("push.vapid_subject", "mailto:ops@example.org"),
    ];
    all.extend(more);
    Feedline::start_with(&all).await
}

/// Gives out access tokens, and answers messages with `reply`.
fn provider(reply: impl Fn(&Received) -> Reply + Send + Sync) -> impl Fn(&Received) -> Reply + Send + Sync {
    move |request| match request.path.as_str() {
        "/token" => Reply::json(200, &json!({ "access_token": ACCESS_TOKEN, "expires_in": 3600 })),
        _ => reply(request),
    }
}

fn accepted(_: &Received) -> Reply {
    Reply::json(200, &json!({ "name": "projects/example-project/messages/0:1" }))
}

async fn register(server: &Feedline, device: &str, body: Value) -> Answer {
    let answer = server.call("ann", "PUT", &format!("/devices/{device}"), &body).await;
    assert_eq!(answer.status.as_u16(), 200, "{answer:?}");
    answer
}

fn fcm() -> Value {
    json!({ "platform": "fcm", "token": FCM_TOKEN })
}

fn apns() -> Value {
    json!({ "platform": "apns", "token": APNS_TOKEN, "environment": "production" })
}

async fn devices(server: &Feedline) -> usize {
    let list = server.done("ann", "GET", "/devices", &Value::Null).await;
    list["items"].as_array().expect("items").len()
}

/// The next messages, without the requests for access tokens.
async fn messages(provider: &Server, number: usize) -> Vec<Received> {
    let (begun, mut all) = (Instant::now(), Vec::new());
    loop {
        all.extend(provider.requests().into_iter().filter(|request| request.path != "/token"));
        if all.len() >= number {
            return all;
        }
        assert!(begun.elapsed() < 2 * PATIENCE, "{number} messages are expected: {all:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn devices_become(server: &Feedline, number: usize) {
    let begun = Instant::now();
    while devices(server).await != number {
        assert!(begun.elapsed() < PATIENCE, "{number} devices are expected");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn fcm_receives_a_notification_and_ends_a_device() {
    let fcm_error = |status: u16, code: &str, more: Value| {
        let kind = "type.googleapis.com/google.firebase.fcm.v1.FcmError";
        let details = json!([{ "@type": kind, "errorCode": code }, more]);
        Reply::json(status, &json!({ "error": { "code": status, "status": "X", "details": details } }))
    };
    let service = Server::start(provider(accepted)).await;
    let server = feedline(&service, &[]).await;
    register(&server, "phone", fcm()).await;
    let post = server.post("bo", "@ann hello").await;
    let request = &messages(&service, 1).await[0];
    assert_eq!(request.path, "/v1/projects/example-project/messages:send");
    assert_eq!(request.header("authorization"), format!("Bearer {ACCESS_TOKEN}"));
    let message = &request.json()["message"];
    assert_eq!((&message["token"], &message["data"]["post"]), (&json!(FCM_TOKEN), &json!(post.to_string())));
    assert!(message["notification"]["body"].as_str().is_some_and(|body| body.contains("hello")), "{message}");
    server.metric_is("feedline_push_accepted_total{platform=\"fcm\"}", 1.0).await;

    // The message is at fault, not the token.
    let violation = json!({
        "@type": "type.googleapis.com/google.rpc.BadRequest",
        "fieldViolations": [{ "field": "message.android.ttl", "description": "wrong" }],
    });
    service.answer(provider(move |_| fcm_error(400, "INVALID_ARGUMENT", violation.clone())));
    server.post("bo", "@ann refused").await;
    messages(&service, 1).await;
    let reason = "feedline_push_failed_total{platform=\"fcm\",reason=\"invalid_argument\"}";
    server.metric_is(reason, 1.0).await;
    assert_eq!(devices(&server).await, 1, "it is kept");
    let failed = server.command(&["quarantine", "list", "--kind", "push"]);
    let failed = String::from_utf8_lossy(&failed.stdout).into_owned();
    assert!(failed.starts_with("push ") && failed.contains("invalid_argument"), "{failed}");

    service.answer(provider(move |_| fcm_error(404, "UNREGISTERED", json!({}))));
    server.post("bo", "@ann the last one").await;
    messages(&service, 1).await;
    devices_become(&server, 0).await;
    server.metric_is("feedline_push_tokens_removed_total{platform=\"fcm\"}", 1.0).await;
}

#[tokio::test]
async fn apns_retries_and_ends_a_device_unless_it_registered_again() {
    let service = Server::start(|_| Reply::json(503, &json!({ "reason": "ServiceUnavailable" }))).await;
    let server = feedline(&service, &[]).await;
    register(&server, "phone", apns()).await;
    server.post("bo", "@ann hello").await;
    let first = messages(&service, 1).await.remove(0);
    assert_eq!(
        (first.path.as_str(), first.header("apns-topic")),
        (&*format!("/3/device/{APNS_TOKEN}"), "com.example.app")
    );
    service.answer(|request| Reply::new(200).with("apns-id", request.header("apns-id")));
    let again = messages(&service, 1).await.remove(0);
    assert_eq!(again.header("apns-id"), first.header("apns-id"), "receivers recognise a repetition");
    server.metric_is("feedline_push_accepted_total{platform=\"apns\"}", 1.0).await;

    // The device ended, and registered again since.
    let gone = |at: u64| move |_: &Received| Reply::json(410, &json!({ "reason": "Unregistered", "timestamp": at }));
    let before = now() - 60_000;
    service.answer(gone(before));
    server.post("bo", "@ann for the former app").await;
    messages(&service, 1).await;
    server.metric_is("feedline_push_failed_total{platform=\"apns\",reason=\"unregistered\"}", 1.0).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(devices(&server).await, 1, "it registered after that time");

    register(&server, "phone", apns()).await;
    service.answer(gone(now() + 1));
    server.post("bo", "@ann for nobody").await;
    messages(&service, 1).await;
    devices_become(&server, 0).await;
}

#[tokio::test]
async fn a_wrong_topic_keeps_the_devices_and_one_that_receives_too_much_waits() {
    let service = Server::start(|_| Reply::json(400, &json!({ "reason": "DeviceTokenNotForTopic" }))).await;
    let server = feedline(&service, &[]).await;
    register(&server, "phone", apns()).await;
    server.post("bo", "@ann hello").await;
    messages(&service, 1).await;
    server.metric_is("feedline_push_failed_total{platform=\"apns\",reason=\"device_token_not_for_topic\"}", 1.0).await;
    assert_eq!(devices(&server).await, 1, "push.apns_topic may be wrong");
    assert!(server.log().contains("device_token_not_for_topic"), "an alarm: {}", server.log());

    let own =
        json!({ "platform": "apns", "token": APNS_TOKEN, "environment": "production", "topic": "com.example.own" });
    register(&server, "phone", own).await;
    devices_become(&server, 0).await;

    service.requests();
    service.answer(|_| Reply::json(429, &json!({ "reason": "TooManyRequests" })));
    register(&server, "phone", apns()).await;
    server.post("bo", "@ann one").await;
    messages(&service, 1).await;
    server.post("cy", "@ann two").await;
    let paused = "feedline_push_failed_total{platform=\"apns\",reason=\"device_paused\"}";
    let begun = Instant::now();
    while server.metric(paused).await.is_none_or(|paused| paused < 2.0) {
        assert!(begun.elapsed() < PATIENCE, "both wait");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(service.requests().is_empty(), "no request to a device that waits");
}

/// The command blocks a thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn push_test_prints_the_answer_of_the_provider() {
    let service = Server::start(provider(accepted)).await;
    let server = feedline(&service, &[]).await;
    register(&server, "phone", fcm()).await;
    let test = |device: &str| server.command(&["push", "test", "--user", "ann", "--device", device]);
    let done = test("phone");
    let printed = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{done:?}");
    assert_eq!(printed, "fcm accepted the test as projects/example-project/messages/0:1\n");
    let message = &messages(&service, 1).await[0].json()["message"];
    assert_eq!((&message["data"]["kind"], &message["android"]["priority"]), (&json!("test"), &json!("HIGH")));
    service.answer(provider(|_| Reply::new(503)));
    for (device, problem) in [("phone", "fcm did not accept the test (retry)"), ("tablet", "has no device \"tablet\"")]
    {
        let refused = test(device);
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && error.contains(problem), "{error}");
        assert!(!error.contains(FCM_TOKEN) && !error.contains(ACCESS_TOKEN), "{error}");
    }
    assert_eq!(devices(&server).await, 1, "a test removes nothing");
}

#[tokio::test]
async fn the_log_at_its_finest_level_contains_no_secret() {
    let service = Server::start(provider(accepted)).await;
    let more = [("server.log_level", "trace"), ("push.allow_networks", "127.0.0.0/8")];
    let server = feedline(&service, &more).await;
    let (p256dh, auth) = Browser::new().keys();
    let endpoint = format!("https://{}/wpush/v2/gAAAAABsecretsecret", service.address);
    register(&server, "phone", fcm()).await;
    register(&server, "tablet", apns()).await;
    let browser = json!({ "platform": "webpush", "endpoint": endpoint, "p256dh": p256dh, "auth": auth });
    register(&server, "browser", browser).await;
    let text = "nobody else may read this";
    server.post("bo", &format!("@ann {text}")).await;
    let accepted = messages(&service, 3).await;
    // Refused, too: with words of the provider that repeat the address.
    service.answer(provider(|request| Reply::text(503, format!("cannot deliver to {}", request.path))));
    server.post("cy", &format!("@ann {text}")).await;
    messages(&service, 3).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let log = server.log();
    assert!(log.contains("TRACE") && log.contains("a push was refused"), "the level is on");
    let authorization = |request: &Received| {
        let value = request.header("authorization").split_whitespace().last().unwrap_or_default().to_owned();
        value.split(',').next().unwrap_or_default().to_owned()
    };
    let mut secrets: Vec<String> =
        accepted.iter().map(authorization).filter(|value| !value.starts_with("k=")).collect();
    secrets.extend(
        [FCM_TOKEN, APNS_TOKEN, ACCESS_TOKEN, VAPID_KEY, "gAAAAABsecretsecret", &p256dh, &auth, text].map(String::from),
    );
    let key_line = keys::rsa().0.lines().nth(1).expect("a line of the key").to_owned();
    secrets.push(key_line);
    for secret in secrets {
        let line = log.lines().find(|line| line.contains(&secret));
        assert!(line.is_none(), "{secret:?} is in the log: {line:?}");
    }
}
