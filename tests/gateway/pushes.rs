//! Pushes to devices: their content and time, and the reasons not to send them. The receiver is a webhook.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Client;
use crate::push_receiver::{GRACE, Receiver, register, server, server_with};
use crate::server::{PATIENCE, Server, signed, unix, until};

/// The user mentions ann in a post.
async fn mention(server: &Server, by: &str, text: &str) -> u64 {
    server.post(by, &format!("@ann {text}")).await
}

#[tokio::test]
async fn notifications_are_pushed_after_the_grace_period() {
    let (server, receiver) = (server().await, Receiver::start(&[]).await);
    register(&server, "ann", "hook", &receiver.url).await;
    let begun = Instant::now();
    let post = mention(&server, "bo", "look at this").await;
    let push = receiver.wait_for(1).await.remove(0);
    assert!(begun.elapsed() >= GRACE, "after {:?}", begun.elapsed());
    assert_eq!((&push["type"], &push["push"], &push["device"]), (&json!("push"), &json!("alert"), &json!("hook")));
    assert!(push["title"].as_str().is_some_and(|title| title.contains("bo")), "{push}");
    assert!(push["body"].as_str().is_some_and(|body| body.contains("look at this")), "{push}");
    assert_eq!((&push["data"]["type"], &push["data"]["post"]), (&json!("mention"), &json!(post.to_string())));
    assert_eq!(push["badge"], 1);
    // Nothing is sent twice.
    mention(&server, "cy", "again").await;
    let pushes = receiver.wait_for(2).await;
    tokio::time::sleep(GRACE).await;
    assert_eq!(receiver.received.lock().len(), 2);
    assert_eq!(pushes[1]["badge"], 2, "{pushes:?}");
    let metrics = server.http("GET", "/metrics", &[], "").await.body.to_string();
    assert!(metrics.contains("feedline_push_accepted_total{platform=\\\"webhook\\\"} 2"), "{metrics}");
}

#[tokio::test]
async fn each_kind_has_its_title_and_body_in_both_languages() {
    let server = server().await;
    let post = server.post("ann", "what ann wrote").await;
    let comments = format!("/posts/{post}/comments");
    let done = async |user: &str, method: &str, path: &str, body: Value| server.done(user, method, path, &body).await;
    let said = done("ann", "POST", &comments, json!({ "text": "what ann said" })).await["id"].clone();
    let headers = [("x-api-key", crate::server::API_KEY), ("x-user", "ann")];
    for (locale, titles) in [
        (
            "en",
            [
                "commented on",
                "replied to",
                "liked",
                "reposted your post",
                "quoted you",
                "followed",
                "mentioned",
                "New post by",
                "accepted your request",
                "asked to follow",
            ],
        ),
        ("zh_CN", ["评论", "回复", "赞", "转发", "引用", "关注", "提到", "发布", "通过", "请求关注"]),
    ] {
        // Each cause is the only one that waits, so that none becomes a digest.
        let receiver = Receiver::start(&[]).await;
        let device = json!({ "platform": "webhook", "endpoint": receiver.url, "locale": locale });
        let answer = server.http("PUT", "/api/v1/devices/hook", &headers, &device.to_string()).await;
        assert_eq!(answer.status.as_u16(), 200, "{answer:?}");
        let by = format!("bo-{}", &locale[..2]);
        let causes: [(&str, String, Value, &str); 10] = [
            ("POST", comments.clone(), json!({ "text": "a comment" }), "a comment"),
            ("POST", comments.clone(), json!({ "text": "a reply", "reply_to": said }), "a reply"),
            ("PUT", format!("/posts/{post}/like"), Value::Null, "what ann wrote"),
            ("PUT", format!("/posts/{post}/repost"), Value::Null, "what ann wrote"),
            ("POST", "/posts".into(), json!({ "text": "a quote", "quote": post }), "a quote"),
            ("PUT", "/users/ann/follow".into(), Value::Null, ""),
            ("POST", "/posts".into(), json!({ "text": "in a post, @ann" }), "in a post, @ann"),
            ("POST", "/posts".into(), json!({ "text": "an alert" }), "an alert"),
            ("PUT", "/users/me/requests/ann".into(), Value::Null, ""),
            ("PUT", "/users/ann/follow".into(), Value::Null, ""),
        ];
        for ((method, path, body, text), title) in causes.into_iter().zip(titles) {
            match title {
                "New post by" | "发布" => drop(done("ann", "PUT", &format!("/users/{by}/notify"), Value::Null).await),
                "accepted your request" | "通过" => {
                    done(&by, "PATCH", "/users/me", json!({ "locked": true })).await;
                    done("ann", "PUT", &format!("/users/{by}/follow"), Value::Null).await;
                }
                "asked to follow" | "请求关注" => {
                    done(&by, "DELETE", "/users/ann/follow", Value::Null).await;
                    done("ann", "PATCH", "/users/me", json!({ "locked": true })).await;
                }
                _ => {}
            }
            let before = receiver.received.lock().len();
            done(&by, method, &path, body).await;
            let alert = async || receiver.received.lock().iter().skip(before).find(|it| it["push"] == "alert").cloned();
            until("it is pushed", async || alert().await.is_some()).await;
            let push = alert().await.expect("a push");
            let shown = push["title"].as_str().unwrap_or_default();
            assert!(shown.contains(title) && shown.contains(&by), "{locale} {path}: {push}");
            assert_eq!(push["body"], text, "{locale} {path}: {push}");
            assert!(!push.to_string().contains("{t") && !push.to_string().contains("{n"), "{push}");
        }
        done("ann", "PATCH", "/users/me", json!({ "locked": false })).await;
    }
}

/// Does what notifies a user of this kind, or what alerts are about.
async fn cause(server: &Server, kind: &str, by: &str, to: &str) {
    let post = server.post(to, "mine").await;
    let comments = format!("/posts/{post}/comments");
    let follow = format!("/users/{to}/follow");
    let lock = json!({ "locked": true });
    let done = async |user: &str, method: &str, path: &str, body: Value| server.done(user, method, path, &body).await;
    match kind {
        "mention" => done(by, "POST", "/posts", json!({ "text": format!("look, @{to}") })).await,
        "comment" => done(by, "POST", &comments, json!({ "text": "a comment" })).await,
        "reply" => {
            let said = done(to, "POST", &comments, json!({ "text": "mine" })).await;
            done(by, "POST", &comments, json!({ "text": "a reply", "reply_to": said["id"] })).await
        }
        "like" | "repost" => done(by, "PUT", &format!("/posts/{post}/{kind}"), Value::Null).await,
        "quote" => done(by, "POST", "/posts", json!({ "text": "look", "quote": post })).await,
        "follow" => done(by, "PUT", &follow, Value::Null).await,
        "request" => {
            done(to, "PATCH", "/users/me", lock).await;
            done(by, "PUT", &follow, Value::Null).await
        }
        "accepted" => {
            done(by, "PATCH", "/users/me", lock).await;
            done(to, "PUT", &format!("/users/{by}/follow"), Value::Null).await;
            done(by, "PUT", &format!("/users/me/requests/{to}"), Value::Null).await
        }
        "post" => {
            done(to, "PUT", &format!("/users/{by}/notify"), Value::Null).await;
            done(by, "POST", "/posts", json!({ "text": "an alert" })).await
        }
        _ => panic!("no kind: {kind}"),
    };
}

#[tokio::test]
async fn only_words_to_the_receiver_have_a_high_priority() {
    let (server, receiver) = (server().await, Receiver::start(&[]).await);
    let high = ["mention", "comment", "reply"].map(|kind| (kind, "high"));
    let normal = ["like", "follow", "repost", "quote", "request", "accepted", "post"].map(|kind| (kind, "normal"));
    let kinds = [&high[..], &normal].concat();
    for (kind, _) in &kinds {
        // Each has users of its own, so that none becomes a digest.
        let (by, to) = (format!("by-{kind}"), format!("to-{kind}"));
        server.post(&by, "hello").await;
        register(&server, &to, kind, &format!("{}?{kind}", receiver.url)).await;
        cause(&server, kind, &by, &to).await;
    }
    let pushes = receiver.wait_for(kinds.len()).await;
    for (kind, urgency) in kinds {
        let push = pushes.iter().find(|push| push["device"] == kind);
        let push = push.unwrap_or_else(|| panic!("no {kind}: {pushes:?}"));
        assert_eq!((&push["data"]["type"], &push["urgency"]), (&json!(kind), &json!(urgency)), "{push}");
    }
}

#[tokio::test]
async fn likes_are_pushed_as_one_group() {
    let (server, receiver) = (server().await, Receiver::start(&[]).await);
    register(&server, "ann", "hook", &receiver.url).await;
    let post = server.post("ann", "mine").await;
    let like = async |by: &str| server.done(by, "PUT", &format!("/posts/{post}/like"), &Value::Null).await;
    for by in ["bo", "cy", "dee"] {
        like(by).await;
    }
    let pushes = receiver.wait_for(1).await;
    assert_eq!(pushes.len(), 1);
    assert!(pushes[0]["title"].as_str().is_some_and(|title| title.contains("others")), "{pushes:?}");
    let begun = Instant::now();
    like("eve").await;
    let pushes = receiver.wait_for(2).await;
    assert!(begun.elapsed() > Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(pushes[0]["collapse_key"], pushes[1]["collapse_key"], "it replaces the former one");
}

/// Sends a mention that must not be pushed, with a change before the grace period ends, and one that must.
async fn not_pushed(server: &Server, receiver: &Receiver, change: impl AsyncFnOnce(u64)) {
    let before = receiver.alerts().len();
    let post = mention(server, "bo", "never").await;
    let notified = async {
        loop {
            let page = server.done("ann", "GET", "/notifications", &Value::Null).await;
            if page["items"].as_array().is_some_and(|items| items.iter().any(|item| item["object"]["id"] == post)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, notified).await.expect("a notification");
    change(post).await;
    tokio::time::sleep(GRACE).await;
    mention(server, "cy", "marker").await;
    let begun = Instant::now();
    while receiver.alerts().len() <= before {
        assert!(begun.elapsed() < PATIENCE, "the marker is expected");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let pushes = receiver.alerts();
    assert_eq!(pushes.len(), before + 1, "{pushes:?}");
    assert!(pushes[before]["body"].as_str().is_some_and(|body| body.contains("marker")), "{pushes:?}");
    server.done("ann", "PUT", "/notifications/read", &json!({})).await;
}

#[tokio::test]
async fn what_changed_meanwhile_is_not_pushed() {
    let (server, receiver) = (server().await, Receiver::start(&[]).await);
    register(&server, "ann", "hook", &receiver.url).await;
    let ann = async |method: &str, path: &str, body: Value| server.done("ann", method, path, &body).await;
    not_pushed(&server, &receiver, async |_| drop(ann("PUT", "/notifications/read", json!({})).await)).await;
    not_pushed(&server, &receiver, async |_| drop(ann("PUT", "/notifications/read", json!({ "seen": true })).await))
        .await;
    not_pushed(&server, &receiver, async |post| {
        server.done("bo", "DELETE", &format!("/posts/{post}"), &Value::Null).await;
    })
    .await;
    not_pushed(&server, &receiver, async |post| {
        let hidden = json!({ "visibility": { "not_to": ["ann"] } });
        server.done("bo", "PATCH", &format!("/posts/{post}"), &hidden).await;
    })
    .await;
    for (on, off) in [("mute", "mute"), ("block", "block")] {
        not_pushed(&server, &receiver, async |_| drop(ann("PUT", &format!("/users/bo/{on}"), Value::Null).await)).await;
        ann("DELETE", &format!("/users/bo/{off}"), Value::Null).await;
    }
    not_pushed(&server, &receiver, async |_| {
        server.done("ann", "PUT", "/push/preferences", &json!({ "kinds": { "mention": false } })).await;
        tokio::time::sleep(GRACE).await;
        server.done("ann", "PUT", "/push/preferences", &json!({})).await;
    })
    .await;
}

#[tokio::test]
async fn edits_are_pushed_as_they_are() {
    let (server, receiver) = (server().await, Receiver::start(&[]).await);
    register(&server, "ann", "hook", &receiver.url).await;
    let post = mention(&server, "bo", "first words").await;
    server.done("bo", "PATCH", &format!("/posts/{post}"), &json!({ "text": "@ann last words" })).await;
    let pushes = receiver.wait_for(1).await;
    assert!(pushes[0]["body"].as_str().is_some_and(|body| body.contains("last words")), "{pushes:?}");
}

#[tokio::test]
async fn signed_out_and_blocked_users_get_no_push() {
    let (server, receiver) = (server().await, Receiver::start(&[]).await);
    register(&server, "ann", "hook", &receiver.url).await;
    mention(&server, "bo", "never").await;
    server.backend("block_user", &json!({ "user": "ann" })).await;
    tokio::time::sleep(2 * GRACE).await;
    assert!(receiver.received.lock().is_empty(), "she is blocked");
    server.backend("unblock_user", &json!({ "user": "ann" })).await;
    mention(&server, "bo", "never either").await;
    server.backend("invalidate_user_tokens", &json!({ "user": "ann" })).await;
    tokio::time::sleep(2 * GRACE).await;
    assert!(receiver.received.lock().is_empty(), "her devices are removed");
    let fresh = signed(&json!({ "sub": "ann", "iat": unix(), "exp": unix() + 600 }));
    let bearer = format!("Bearer {fresh}");
    let list = server.http("GET", "/api/v1/devices", &[("authorization", &bearer)], "").await;
    assert_eq!(list.body["items"], json!([]), "{list:?}");
}

/// Two pushes are due, and the provider takes one at a time. What happens during the first one concerns the other.
async fn stopped_in_the_queue(change: impl AsyncFnOnce(&Server, [(&str, u64); 2])) {
    let receiver = Receiver::start_slow(&[], Duration::from_millis(1_500)).await;
    let server = server_with(&[("push.concurrency", "1")]).await;
    register(&server, "ann", "hook", &receiver.url).await;
    let mut posts = ["bo", "cy"].map(|author| (author, 0));
    for (author, post) in &mut posts {
        *post = mention(&server, author, "one of two").await;
    }
    receiver.wait_for(1).await;
    change(&server, posts).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(receiver.alerts().len(), 1, "{:?}", receiver.alerts());
}

#[tokio::test]
async fn nothing_is_sent_after_the_answer() {
    let ann = async |server: &Server, method: &str, path: &str, body: Value| {
        server.done("ann", method, path, &body).await;
    };
    let backend = async |server: &Server, method: &str| drop(server.backend(method, &json!({ "user": "ann" })).await);
    tokio::join!(
        stopped_in_the_queue(async |server, _| backend(server, "block_user").await),
        stopped_in_the_queue(async |server, _| backend(server, "invalidate_user_tokens").await),
        stopped_in_the_queue(async |server, _| ann(server, "PUT", "/notifications/read", json!({})).await),
        stopped_in_the_queue(async |server, _| ann(server, "DELETE", "/devices/hook", Value::Null).await),
        stopped_in_the_queue(async |server, _| {
            ann(server, "PUT", "/push/preferences", json!({ "kinds": { "mention": false } })).await;
        }),
        stopped_in_the_queue(async |server, posts| {
            for (author, _) in posts {
                ann(server, "PUT", &format!("/users/{author}/block"), Value::Null).await;
            }
        }),
        stopped_in_the_queue(async |server, posts| {
            for (author, post) in posts {
                server.done(author, "DELETE", &format!("/posts/{post}"), &Value::Null).await;
            }
        }),
        stopped_in_the_queue(async |server, posts| {
            let hidden = json!({ "visibility": { "not_to": ["ann"] } });
            for (author, post) in posts {
                server.done(author, "PATCH", &format!("/posts/{post}"), &hidden).await;
            }
        }),
    );
}

#[tokio::test]
async fn private_pushes_tell_nothing_and_quiet_hours_defer() {
    let (server, receiver) = (server().await, Receiver::start(&[]).await);
    register(&server, "ann", "hook", &receiver.url).await;
    server.done("ann", "PUT", "/push/preferences", &json!({ "private": true })).await;
    mention(&server, "bobby", "a secret").await;
    let pushes = receiver.wait_for(1).await;
    let shown = pushes[0].to_string();
    assert!(!shown.contains("bobby") && !shown.contains("a secret") && !shown.contains("mention\""), "{shown}");
    // Quiet hours that surround this time, in UTC.
    let minutes = unix() / 60 % 1_440;
    let time = |minutes: u64| format!("{:02}:{:02}", minutes / 60 % 24, minutes % 60);
    let quiet = json!({ "from": time(minutes + 1_440 - 5), "to": time(minutes + 30), "time_zone": "UTC" });
    server.done("ann", "PUT", "/push/preferences", &json!({ "quiet_hours": quiet })).await;
    mention(&server, "bobby", "later").await;
    tokio::time::sleep(2 * GRACE).await;
    assert_eq!(receiver.received.lock().len(), 1);
}

#[tokio::test]
async fn refused_pushes_are_retried_or_end_the_device() {
    let (server, receiver) = (server().await, Receiver::start(&[503, 200, 410]).await);
    register(&server, "ann", "hook", &receiver.url).await;
    mention(&server, "bo", "one").await;
    let pushes = receiver.wait_for(2).await;
    assert_eq!(pushes[0]["id"], pushes[1]["id"], "the second attempt has the same identity");
    mention(&server, "bo", "two").await;
    receiver.wait_for(3).await;
    let removed = async {
        while server.done("ann", "GET", "/devices", &Value::Null).await["items"] != json!([]) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, removed).await.expect("the device is removed");
}

#[tokio::test]
async fn a_killed_server_loses_no_push() {
    let receiver = Receiver::start(&[]).await;
    // Later than all notifications are written.
    let mut server = server_with(&[("push.grace", "3s")]).await;
    for number in 0..5 {
        let user = format!("user{number}");
        register(&server, &user, "hook", &format!("{}?{user}", receiver.url)).await;
        server.post("bo", &format!("@{user} to be kept")).await;
    }
    let page = async |user: &str| server.done(user, "GET", "/notifications", &Value::Null).await;
    let begun = Instant::now();
    for number in 0..5 {
        while page(&format!("user{number}")).await["items"].as_array().map_or(0, Vec::len) < 1 {
            assert!(begun.elapsed() < PATIENCE);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    server.kill();
    server.start_again().await;
    let pushes = receiver.wait_for(5).await;
    let ids: std::collections::HashSet<String> = pushes.iter().map(|push| push["id"].to_string()).collect();
    assert_eq!(ids.len(), 5, "each of them");
}

#[tokio::test]
async fn the_daily_cap_ends_pushes() {
    let (server, receiver) = (server().await, Receiver::start(&[]).await);
    register(&server, "ann", "hook", &receiver.url).await;
    server.done("ann", "PUT", "/push/preferences", &json!({ "daily_cap": 2 })).await;
    for number in 0..3 {
        mention(&server, &format!("user{number}"), "hello").await;
        receiver.wait_for((number + 1).min(2)).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(2 * GRACE).await;
    assert_eq!(receiver.received.lock().len(), 2);
}

#[tokio::test]
async fn users_who_take_notifications_live_get_no_push() {
    let redis = crate::redis_server::RedisServer::start();
    for keys in [vec![], vec![("broker.url", redis.url())]] {
        let keys: Vec<(&str, &str)> = keys.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let (server, receiver) = (server_with(&keys).await, Receiver::start(&[]).await);
        register(&server, "ann", "hook", &receiver.url).await;
        let mut client = Client::connect(&server, "ann").await;
        let reading = tokio::spawn(async move {
            loop {
                client.hear().await;
            }
        });
        mention(&server, "bo", "taken live").await;
        tokio::time::sleep(3 * GRACE + Duration::from_secs(1)).await;
        assert!(receiver.received.lock().is_empty(), "her socket answered: {:?}", receiver.received.lock());
        // The socket stays open, and nobody reads it any more.
        reading.abort();
        let _silent = {
            let mut silent = Client::open(&server).await;
            silent.done(json!({ "connect": { "token": crate::server::token("ann") } })).await;
            silent
        };
        mention(&server, "cy", "not taken").await;
        let pushes = receiver.wait_for(1).await;
        assert!(pushes[0]["body"].as_str().is_some_and(|body| body.contains("not taken")), "{pushes:?}");
    }
}
