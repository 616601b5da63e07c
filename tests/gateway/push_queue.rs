//! The queue of pushes: deferrals, the daily cap, the size of its table, and the check right before a message leaves.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::identity::{account, sign_in, with_token};
use crate::keys;
use crate::push_browser::Browser;
use crate::push_clears::{subscribe, web_push};
use crate::push_provider::{Received, Reply, Server as Provider};
use crate::push_receiver::{GRACE, Receiver, register, server, server_with};
use crate::server::{PATIENCE, Server, signed, unix};

/// Counts the rows of the queue that quiet hours hold.
pub(crate) const HELD: &str =
    "SELECT count(*) FROM push_queue WHERE state = 0 AND due_at > queued_at + 60000 AND holder IS NULL";

/// A server whose ledger file the test can open.
pub(crate) async fn with_ledger(keys: &[(&str, &str)]) -> (Server, PathBuf, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ledger.db");
    let url = format!("sqlite://{}", path.display());
    let mut all = vec![("ledger.url", url.as_str())];
    all.extend(keys);
    (server_with(&all).await, path, folder)
}

pub(crate) fn open(path: &PathBuf) -> Connection {
    let db = Connection::open(path).expect("the ledger");
    db.busy_timeout(PATIENCE).expect("a timeout");
    db
}

/// Quiet hours that surround this minute.
pub(crate) fn quiet_now() -> Value {
    let minutes = unix() / 60 % 1_440;
    let time = |minutes: u64| format!("{:02}:{:02}", minutes / 60 % 24, minutes % 60);
    json!({ "from": time(minutes + 1_440 - 5), "to": time(minutes + 30), "time_zone": "UTC" })
}

/// Waits until a query returns this number.
pub(crate) async fn wait_for_count(db: &Connection, sql: &str, expected: i64) {
    let begun = Instant::now();
    loop {
        let count: i64 = db.query_row(sql, [], |row| row.get(0)).expect(sql);
        if count == expected {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{sql}: {count}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn pushes_leave_when_quiet_hours_are_switched_off() {
    let receiver = Receiver::start(&[]).await;
    let (server, path, _folder) = with_ledger(&[]).await;
    register(&server, "ann", "hook", &receiver.url).await;
    server.done("ann", "PUT", "/push/preferences", &json!({ "quiet_hours": quiet_now() })).await;
    server.post("bo", "@ann now").await;
    wait_for_count(&open(&path), HELD, 1).await;
    // Other preferences leave it where it is.
    server.done("ann", "PUT", "/push/preferences", &json!({ "quiet_hours": quiet_now(), "daily_cap": 9 })).await;
    wait_for_count(&open(&path), HELD, 1).await;
    server.done("ann", "PUT", "/push/preferences", &json!({})).await;
    assert_eq!(receiver.wait_for(1).await[0]["body"], "@ann now");
}

#[tokio::test]
async fn a_deferred_push_is_sent_at_the_end_of_quiet_hours_with_its_full_time() {
    let receiver = Receiver::start(&[503, 200]).await;
    let (mut server, path, _folder) = with_ledger(&[("push.ttl", "10d")]).await;
    register(&server, "ann", "hook", &receiver.url).await;
    server.done("ann", "PUT", "/push/preferences", &json!({ "quiet_hours": quiet_now() })).await;
    server.post("bo", "@ann later").await;
    let db = open(&path);
    // Deferred by more than the grace.
    wait_for_count(&db, HELD, 1).await;
    server.kill();
    // The quiet hours end now, and have lasted longer than a webhook is retried.
    let changes = "UPDATE push_queue SET queued_at = queued_at - 80 * 3600000, due_at = 1;
                   UPDATE devices SET registered_at = 1; DELETE FROM push_preferences;";
    db.execute_batch(changes).expect("changes");
    server.start_again().await;
    let pushes = receiver.wait_for(2).await;
    assert_eq!(pushes[0]["id"], pushes[1]["id"], "the attempt after the transient error");
}

#[tokio::test]
async fn the_daily_cap_holds_for_pushes_that_are_due_together() {
    let receiver = Receiver::start_slow(&[], Duration::from_millis(300)).await;
    let server = server_with(&[("push.grace", "2s")]).await;
    register(&server, "ann", "hook", &receiver.url).await;
    server.done("ann", "PUT", "/push/preferences", &json!({ "daily_cap": 3 })).await;
    // Alerts about posts are in no digest.
    server.post("bo", "the first post").await;
    server.done("ann", "PUT", "/users/bo/notify", &Value::Null).await;
    for _ in 0..12 {
        server.post("bo", "hello").await;
    }
    receiver.wait_for(3).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(receiver.received.lock().len(), 3);
}

#[tokio::test]
async fn all_old_rows_are_removed() {
    let (_server, path, _folder) = with_ledger(&[]).await;
    let db = open(&path);
    let insert = "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 20000)
        INSERT INTO push_queue (user, device, item, kind, seq, state, due_at, queued_at, sent_at, sends)
        SELECT 'ann', 'phone', n, 'like', 1, 1, 1, 1, 1, 1 FROM numbers";
    assert_eq!(db.execute(insert, []).expect("rows"), 20_000);
    let begun = Instant::now();
    wait_for_count(&db, "SELECT count(*) FROM push_queue", 0).await;
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}

/// FCM, whose access token takes two seconds.
fn slow_fcm(request: &Received) -> Reply {
    match request.path.as_str() {
        "/token" => {
            let token = json!({ "access_token": "access", "expires_in": 3600, "token_type": "Bearer" });
            Reply::json(200, &token).after(Duration::from_secs(2))
        }
        _ => Reply::json(200, &json!({ "name": "projects/example-project/messages/0:1" })),
    }
}

#[tokio::test]
async fn a_sign_out_during_the_fetch_of_a_token_stops_the_push() {
    let provider = Provider::start(slow_fcm).await;
    let account_key = json!({
        "type": "service_account",
        "project_id": "example-project",
        "private_key_id": "key-1",
        "private_key": keys::rsa().0,
        "client_email": "push@example-project.iam.gserviceaccount.com",
        "token_uri": provider.url("/token").reveal(),
    })
    .to_string();
    let (url, authority) = (provider.url("").reveal().to_owned(), String::from_utf8_lossy(&keys::certificate().0));
    let server = server_with(&[
        ("push.fcm_service_account", account_key.as_str()),
        ("push.fcm_url", url.as_str()),
        ("push.ca_certificates", &authority),
    ])
    .await;
    let (ann, cy) = (signed(&json!({ "sub": "ann", "jti": "one" })), signed(&json!({ "sub": "cy", "jti": "two" })));
    for (token, address) in [(&ann, "address-of-ann"), (&cy, "address-of-cy")] {
        let device = json!({ "platform": "fcm", "token": address });
        let answer = with_token(&server, token, "PUT", "/devices/phone", &device).await;
        assert_eq!(answer.status.as_u16(), 200, "{answer:?}");
    }
    server.post("bo", "@ann @cy hello").await;
    let mut requests = Vec::new();
    wait_for_request(&provider, &mut requests, "/token").await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.backend("revoke_token", &json!({ "uid": "one" })).await;
    wait_for_request(&provider, &mut requests, "/v1/projects/example-project/messages:send").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    requests.extend(provider.requests());
    let messages = requests.iter().filter(|request| request.path != "/token");
    let messages: Vec<_> = messages.map(|request| String::from_utf8_lossy(&request.body)).collect();
    assert!(messages.len() == 1 && messages[0].contains("address-of-cy"), "{messages:?}");
}

/// Collects the requests to a provider until one has this path.
async fn wait_for_request(provider: &Provider, requests: &mut Vec<Received>, path: &str) {
    let begun = Instant::now();
    while !requests.iter().any(|request| request.path == path) {
        assert!(begun.elapsed() < PATIENCE, "a request to {path} is expected");
        tokio::time::sleep(Duration::from_millis(10)).await;
        requests.extend(provider.requests());
    }
}

/// Bo causes a push to a browser of ann, who signed in with this token. Then something stops it.
async fn stopped(change: impl AsyncFnOnce(&Server, &str)) {
    let (server, receiver) = (web_push().await, Receiver::start(&[]).await);
    account(&server, "ann").await;
    let session = sign_in(&server, "ann", "correct horse").await;
    subscribe(&server, &session, "laptop", &Browser::new(), &receiver.url).await;
    server.post("bo", "@ann never").await;
    change(&server, &session).await;
    tokio::time::sleep(3 * GRACE).await;
    assert!(receiver.received.lock().is_empty(), "{:?}", receiver.received.lock());
}

#[tokio::test]
async fn signing_out_and_deleting_the_account_stop_queued_pushes() {
    tokio::join!(
        stopped(async |server, session| {
            let answer = with_token(server, session, "DELETE", "/sessions", &Value::Null).await;
            assert_eq!(answer.status.as_u16(), 200, "{answer:?}");
        }),
        stopped(async |server, session| {
            let answer = with_token(server, session, "DELETE", "/sessions", &json!({ "all": true })).await;
            assert_eq!(answer.status.as_u16(), 200, "{answer:?}");
        }),
        stopped(async |server, session| {
            let answer = with_token(server, session, "DELETE", "/accounts", &Value::Null).await;
            assert_eq!(answer.status.as_u16(), 200, "{answer:?}");
        }),
    );
}

#[tokio::test]
async fn muting_a_conversation_stops_queued_pushes() {
    let (server, receiver) = (server().await, Receiver::start(&[]).await);
    register(&server, "ann", "hook", &receiver.url).await;
    let posts = [server.post("ann", "one").await, server.post("ann", "two").await];
    for post in posts {
        server.done("bo", "POST", &format!("/posts/{post}/comments"), &json!({ "text": "hello" })).await;
    }
    server.done("ann", "PUT", &format!("/posts/{}/mute", posts[0]), &Value::Null).await;
    receiver.wait_for(1).await;
    tokio::time::sleep(2 * GRACE).await;
    let pushes = receiver.received.lock().clone();
    assert_eq!(pushes.len(), 1, "{pushes:?}");
    assert_eq!(pushes[0]["data"]["post"], json!(posts[1].to_string()));
}

#[tokio::test]
async fn a_slow_server_leaves_requests_for_others() {
    // Each origin may have one of the four requests.
    let slow = Receiver::start_slow(&[], Duration::from_secs(4)).await;
    let (server, quick) = (server_with(&[("push.concurrency", "4")]).await, Receiver::start(&[]).await);
    for number in 0..8 {
        register(&server, "ann", &format!("slow{number}"), &format!("{}?{number}", slow.url)).await;
    }
    register(&server, "bo", "hook", &quick.url).await;
    server.post("cy", "@ann").await;
    slow.wait_for(1).await;
    server.post("cy", "@bo").await;
    let begun = Instant::now();
    quick.wait_for(1).await;
    assert!(begun.elapsed() < GRACE + Duration::from_millis(1_500), "{:?}", begun.elapsed());
    assert!(slow.received.lock().len() <= 2, "one after the other");
}

/// A user may register endpoints at any number of origins.
#[tokio::test]
async fn silent_endpoints_of_a_user_do_not_delay_others() {
    let server = server_with(&[("push.concurrency", "8")]).await;
    let quick = Receiver::start(&[]).await;
    let mut silent = Vec::new();
    for number in 0..5 {
        let receiver = Receiver::start_slow(&[], Duration::from_secs(60)).await;
        for device in 0..4 {
            let url = format!("{}?{device}", receiver.url);
            register(&server, "ann", &format!("silent{number}-{device}"), &url).await;
        }
        silent.push(receiver);
    }
    register(&server, "bo", "hook", &quick.url).await;
    server.post("cy", "@ann").await;
    let begun = Instant::now();
    while silent.iter().all(|receiver| receiver.received.lock().is_empty()) {
        assert!(begun.elapsed() < PATIENCE, "the silent endpoints are asked");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.post("cy", "@bo").await;
    let begun = Instant::now();
    quick.wait_for(1).await;
    assert!(begun.elapsed() < GRACE + Duration::from_millis(1_500), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_push_that_is_given_up_is_listed() {
    let receiver = Receiver::start(&[400]).await;
    let (mut server, path, _folder) = with_ledger(&[]).await;
    register(&server, "ann", "hook", &receiver.url).await;
    server.post("bo", "@ann hello").await;
    receiver.wait_for(1).await;
    wait_for_count(&open(&path), "SELECT count(*) FROM quarantine WHERE kind = 'push'", 1).await;
    server.stop().await;
    let listed = server.command(&["quarantine", "list", "--kind", "push"]);
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.status.success(), "{listed:?}");
    assert!(text.starts_with("push ann/hook/") && text.contains("refused"), "{text}");
    assert!(!text.contains(&receiver.url), "addresses are secrets: {text}");
}

#[tokio::test]
async fn a_bridge_of_its_own_needs_a_shared_broker() {
    let server = server().await;
    let refused = server.command(&["serve", "--only", "push"]);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned() + &String::from_utf8_lossy(&refused.stdout);
    assert!(!refused.status.success(), "{refused:?}");
    assert!(text.contains("--only push needs a broker that processes share"), "{text}");
}

#[tokio::test]
async fn without_pushes_posts_and_likes_cost_no_more_than_before() {
    const DONE: Duration = Duration::from_millis(20);
    // Likes are gathered for 100 ms: what a like causes is not to count as the next post's.
    const SETTLED: Duration = Duration::from_millis(250);
    let redis = crate::redis_server::RedisServer::start();
    let url = redis.url();
    let server = server_with(&[("push.enabled", "false"), ("broker.url", url.as_str())]).await;
    let liked = server.post("bo", "to be liked").await;
    let levels = async || {
        let ledger = server.metric("feedline_ledger_round_trips_total").await.unwrap_or_default();
        (ledger, server.metric("feedline_redis_round_trips_total").await.unwrap_or_default())
    };
    let (mut of_post, mut of_like) = ((f64::MAX, f64::MAX), (f64::MAX, f64::MAX));
    let is_within = |(ledger, redis): (f64, f64), most: (f64, f64)| ledger <= most.0 && redis <= most.1;
    for number in 0..100 {
        tokio::time::sleep(SETTLED).await;
        let [before, between, after] = {
            let before = levels().await;
            server.post("bo", "another").await;
            tokio::time::sleep(DONE).await;
            let between = levels().await;
            let like = format!("/posts/{liked}/like");
            server.done(&format!("user{number}"), "PUT", &like, &Value::Null).await;
            tokio::time::sleep(DONE).await;
            [before, between, levels().await]
        };
        // Background work makes calls of its own, so the smallest of several differences counts.
        let least = |least: (f64, f64), from: (f64, f64), to: (f64, f64)| {
            (least.0.min(to.0 - from.0), least.1.min(to.1 - from.1))
        };
        of_post = least(of_post, before, between);
        of_like = least(of_like, between, after);
        if is_within(of_post, (4.0, 5.0)) && is_within(of_like, (2.0, 5.0)) {
            break;
        }
    }
    assert!(is_within(of_post, (4.0, 5.0)), "round trips of a post to ledger and Redis: {of_post:?}");
    assert!(is_within(of_like, (2.0, 5.0)), "round trips of a like to ledger and Redis: {of_like:?}");
}
