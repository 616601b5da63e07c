//! Devices and push preferences: who may register, list and remove them, and what ends them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Client;
use crate::identity::{account, sign_in, with_token};
use crate::postgres_server::PostgresServer;
use crate::redis_server::RedisServer;
use crate::server::{API_KEY, PATIENCE, Server, signed, unix};

fn fcm(token: &str) -> Value {
    json!({ "platform": "fcm", "token": token })
}

async fn devices(server: &Server, user: &str) -> Vec<String> {
    let list = server.done(user, "GET", "/devices", &Value::Null).await;
    let items = list["items"].as_array().expect("items");
    items.iter().map(|device| device["id"].as_str().expect("an id").to_owned()).collect()
}

#[tokio::test]
async fn devices_are_registered_listed_and_removed() {
    let server = Server::start().await;
    let phone = json!({
        "platform": "fcm", "token": "secret-1", "locale": "zh-CN", "time_zone": "Asia/Shanghai", "app_version": "1.0"
    });
    let shown = server.done("ann", "PUT", "/devices/phone", &phone).await;
    assert_eq!((&shown["id"], &shown["platform"], &shown["locale"]), (&json!("phone"), &json!("fcm"), &json!("zh-CN")));
    assert_eq!(shown["registered_at"], shown["seen_at"]);
    let again = server.done("ann", "PUT", "/devices/phone", &fcm("secret-2")).await;
    assert_eq!((&again["registered_at"], again.get("locale")), (&shown["registered_at"], None));
    let mut ann = Client::connect(&server, "ann").await;
    let key = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
    let tablet = json!({
        "id": "browser", "platform": "webpush", "endpoint": "https://push.example/secret",
        "p256dh": key, "auth": "BTBZMqHH6r4Tts7J_aSIgg"
    });
    ann.rpc("devices.register", &tablet).await;
    let list = ann.rpc("devices.list", &json!({})).await;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(2));
    assert!(!list.to_string().contains("secret"), "addresses are not shown: {list}");
    assert!(devices(&server, "bo").await.is_empty());
    server.done("bo", "DELETE", "/devices/phone", &Value::Null).await;
    assert_eq!(devices(&server, "ann").await, ["browser", "phone"], "bo's call removed nothing");
    for _ in 0..2 {
        assert_eq!(server.done("ann", "DELETE", "/devices/phone", &Value::Null).await, json!({}));
    }
    assert_eq!(devices(&server, "ann").await, ["browser"]);
    // The address goes to the user who registered it last.
    server
        .done(
            "bo",
            "PUT",
            "/devices/shared",
            &json!({
                "platform": "webpush", "endpoint": "https://push.example/secret", "p256dh": key,
                "auth": "BTBZMqHH6r4Tts7J_aSIgg"
            }),
        )
        .await;
    assert_eq!((devices(&server, "ann").await.len(), devices(&server, "bo").await.len()), (0, 1));
}

#[tokio::test]
async fn addresses_that_could_never_be_reached_are_refused() {
    let server = Server::start_with(&[("push.endpoints_deny", "*.denied.example")]).await;
    let key = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
    let (auth, url) = ("BTBZMqHH6r4Tts7J_aSIgg", "https://push.example/1");
    let off_curve = format!("{}A", &key[..key.len() - 1]);
    for platform in ["webpush", "unifiedpush"] {
        let device = |url: &str, p256dh: &str, auth: &str| {
            let keys = [("platform", platform), ("endpoint", url), ("p256dh", p256dh), ("auth", auth)];
            json!(BTreeMap::from(keys))
        };
        for (wrong, field) in [
            (device("https://127.0.0.1/", key, auth), "endpoint"),
            (device("https://[::ffff:10.0.0.1]/", key, auth), "endpoint"),
            (device("https://x:6379/", key, auth), "endpoint"),
            (device("https://localhost", key, auth), "endpoint"),
            (device("https://metadata.google.internal/", key, auth), "endpoint"),
            (device("https://a.denied.example/", key, auth), "endpoint"),
            (device("http://push.example/", key, auth), "endpoint"),
            (device("https://user@push.example/", key, auth), "endpoint"),
            (device(url, &off_curve, auth), "p256dh"),
            (device(url, key, "BTBZMqHH6r4Tts7J"), "auth"),
        ] {
            let refused = server.call("ann", "PUT", "/devices/browser", &wrong).await;
            assert_eq!(refused.status.as_u16(), 400, "{wrong}: {refused:?}");
            assert_eq!(refused.body["error"]["field"], field, "{wrong}: {refused:?}");
        }
        server.done("ann", "PUT", &format!("/devices/{platform}"), &device(url, key, auth)).await;
    }
    let headers = [("x-api-key", API_KEY), ("x-user", "ann")];
    let hook = json!({ "platform": "webhook", "endpoint": "https://10.0.0.1/" }).to_string();
    let refused = server.http("PUT", "/api/v1/devices/hook", &headers, &hook).await;
    assert_eq!((refused.status.as_u16(), &refused.body["error"]["field"]), (400, &json!("endpoint")));
    assert_eq!(devices(&server, "ann").await, ["unifiedpush", "webpush"], "only valid ones");
}

#[tokio::test]
async fn only_backends_register_webhooks() {
    let server = Server::start().await;
    let hook = json!({ "platform": "webhook", "endpoint": "https://hooks.example/1" });
    let refused = server.call("ann", "PUT", "/devices/hook", &hook).await;
    assert_eq!((refused.status.as_u16(), &refused.body["error"]["code"]), (403, &json!("forbidden")));
    let mut ann = Client::connect(&server, "ann").await;
    let by_rpc = json!({ "id": "hook", "platform": "webhook", "endpoint": "https://hooks.example/1" });
    assert_eq!(ann.refused(json!({ "rpc": { "method": "devices.register", "data": by_rpc } })).await, 403);
    assert!(devices(&server, "ann").await.is_empty());
    let headers = [("x-api-key", API_KEY), ("x-user", "ann")];
    let done = server.http("PUT", "/api/v1/devices/hook", &headers, &hook.to_string()).await;
    assert_eq!(done.status.as_u16(), 200, "{done:?}");
    assert_eq!(devices(&server, "ann").await, ["hook"]);
    let anonymous = server.http("PUT", "/api/v1/devices/hook", &[], &hook.to_string()).await;
    assert_eq!(anonymous.status.as_u16(), 401);
}

#[tokio::test]
async fn devices_end_with_the_session_that_registered_them() {
    let server = Server::start().await;
    account(&server, "ann").await;
    let (one, two) = (sign_in(&server, "ann", "correct horse").await, sign_in(&server, "ann", "correct horse").await);
    let list = async |token: &str| {
        let list = with_token(&server, token, "GET", "/devices", &Value::Null).await;
        list.body["items"].as_array().map_or(0, Vec::len)
    };
    for (token, device) in [(&one, "a"), (&one, "b"), (&two, "c")] {
        let done = with_token(&server, token, "PUT", &format!("/devices/{device}"), &fcm(device)).await;
        assert_eq!(done.status.as_u16(), 200, "{done:?}");
    }
    assert_eq!(list(&two).await, 3);
    assert_eq!(with_token(&server, &one, "DELETE", "/sessions", &Value::Null).await.status.as_u16(), 200);
    assert_eq!(list(&two).await, 1, "those of the other session stay");
    let refused = with_token(&server, &one, "PUT", "/devices/a", &fcm("a")).await;
    assert_eq!(refused.status.as_u16(), 401);
    with_token(&server, &two, "DELETE", "/sessions", &json!({ "all": true })).await;
    let three = sign_in(&server, "ann", "correct horse").await;
    assert_eq!(list(&three).await, 0);
}

#[tokio::test]
async fn devices_end_when_a_backend_revokes_or_erases() {
    let server = Server::start().await;
    let token = |id: &str| signed(&json!({ "sub": "bo", "jti": id, "iat": unix() - 5, "exp": unix() + 600 }));
    let list = async || devices(&server, "bo").await;
    for name in ["one", "two"] {
        with_token(&server, &token(name), "PUT", &format!("/devices/{name}"), &fcm(name)).await;
    }
    assert_eq!(list().await, ["one", "two"]);
    assert_eq!(server.backend("revoke_token", &json!({ "uid": "one" })).await, json!({ "result": {} }));
    assert_eq!(list().await, ["two"]);
    server.backend("invalidate_user_tokens", &json!({ "user": "bo", "issued_before": unix() - 1 })).await;
    let own = token("three");
    assert_eq!(with_token(&server, &own, "GET", "/devices", &Value::Null).await.status.as_u16(), 401);
    let fresh = signed(&json!({ "sub": "bo", "iat": unix(), "exp": unix() + 600 }));
    let list = with_token(&server, &fresh, "GET", "/devices", &Value::Null).await;
    assert_eq!(list.body["items"], json!([]), "{list:?}");
}

/// The devices of ann, as `list` shows them, become these within a while.
async fn wait_for(server: &Server, user: &str, wanted: &[&str]) {
    let begun = Instant::now();
    while devices(server, user).await != wanted {
        assert!(begun.elapsed() < PATIENCE, "{:?} instead of {wanted:?}", devices(server, user).await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn devices_outlive_tokens_but_not_their_revocation() {
    let server = Server::start().await;
    let token = |user: &str, id: &str, lives: u64| {
        signed(&json!({ "sub": user, "jti": id, "iat": unix() - 5, "exp": unix() + lives }))
    };
    for (user, id) in [("ann", "one"), ("ann", "two"), ("bo", "three")] {
        let done = with_token(&server, &token(user, id, 1), "PUT", &format!("/devices/{id}"), &fcm(id)).await;
        assert_eq!(done.status.as_u16(), 200, "{done:?}");
    }
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    assert_eq!(with_token(&server, &token("ann", "one", 0), "GET", "/devices", &Value::Null).await.status, 401);
    assert_eq!(devices(&server, "ann").await, ["one", "two"], "their tokens have expired");
    // The token is accepted nowhere any more, with and without the time at which that began.
    let expired = unix() - 3_600;
    server.backend("revoke_token", &json!({ "uid": "one", "expire_at": expired })).await;
    assert_eq!(devices(&server, "ann").await, ["two"]);
    server.backend("revoke_token", &json!({ "uid": "two" })).await;
    assert!(devices(&server, "ann").await.is_empty());
    server.backend("block_user", &json!({ "user": "bo" })).await;
    server.backend("unblock_user", &json!({ "user": "bo" })).await;
    assert_eq!(devices(&server, "bo").await, ["three"], "a block ends none");
    server.backend("invalidate_user_tokens", &json!({ "user": "bo", "issued_before": 0 })).await;
    assert_eq!(devices(&server, "bo").await, ["three"], "nothing is invalidated");
    server.backend("invalidate_user_tokens", &json!({ "user": "bo", "issued_before": unix() - 2 })).await;
    let fresh = signed(&json!({ "sub": "bo", "iat": unix(), "exp": unix() + 600 }));
    let list = with_token(&server, &fresh, "GET", "/devices", &Value::Null).await;
    assert_eq!(list.body["items"], json!([]), "{list:?}");
}

#[tokio::test]
async fn idle_devices_end() {
    let (redis, postgres) = (RedisServer::start(), PostgresServer::start());
    let other = [("broker.url", redis.url()), ("ledger.url", postgres.url("postgres"))];
    for keys in [vec![], other.to_vec()] {
        let keys: Vec<(&str, &str)> = keys.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let keys: Vec<_> = keys.into_iter().chain([("push.device_idle", "2s")]).collect();
        let server = Server::start_with(&keys).await;
        for user in ["ann", "bo", "cy"] {
            server.done(user, "PUT", "/devices/phone", &fcm(user)).await;
        }
        let socket = Client::connect(&server, "ann").await;
        let (begun, mut registrations) = (Instant::now(), 0);
        while begun.elapsed() < Duration::from_secs(5) {
            server.done("bo", "PUT", "/devices/phone", &fcm("bo")).await;
            registrations += 1;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        assert_eq!(devices(&server, "ann").await, ["phone"], "she has a connection");
        assert_eq!(devices(&server, "bo").await, ["phone"], "registered {registrations} times");
        wait_for(&server, "cy", &[]).await;
        drop(socket);
        wait_for(&server, "ann", &[]).await;
        wait_for(&server, "bo", &[]).await;
    }
}

#[tokio::test]
async fn what_a_device_says_of_itself_costs_no_registration() {
    let server = Server::start().await;
    for (given, shown) in [
        (json!({ "locale": "zh_TW" }), json!({ "locale": "zh-TW" })),
        (
            json!({ "locale": "en-US-u-ca-buddhist-nu-thai-hc-h23x" }),
            json!({ "locale": "en-US-u-ca-buddhist-nu-thai-hc-h23x" }),
        ),
        (
            json!({ "locale": "en-US-u-ca-buddhist-nu-thai-hc-h23xy" }),
            json!({ "locale": "en-US-u-ca-buddhist-nu-thai-hc" }),
        ),
        (json!({ "locale": "", "time_zone": "", "app_version": "" }), json!({})),
        (json!({ "locale": null, "time_zone": null, "app_version": null }), json!({})),
        (json!({ "time_zone": "GMT+02:00" }), json!({ "time_zone": "GMT+02:00" })),
        (json!({ "time_zone": "Mars/Olympus" }), json!({})),
        (json!({ "app_version": "1.0".repeat(50) }), json!({ "app_version": &"1.0".repeat(50)[..64] })),
    ] {
        let mut device = fcm("t");
        device.as_object_mut().expect("an object").extend(given.as_object().expect("an object").clone());
        let mut answer = server.done("ann", "PUT", "/devices/phone", &device).await;
        for member in ["id", "platform", "registered_at", "seen_at"] {
            answer.as_object_mut().expect("an object").remove(member);
        }
        assert_eq!(answer, shown, "{given}");
    }
}

#[tokio::test]
async fn preferences_are_replaced_as_a_whole() {
    let server = Server::start().await;
    let read = async || server.done("ann", "GET", "/push/preferences", &Value::Null).await;
    let kinds = json!({ "mention": true, "reply": true, "comment": true, "like": true, "follow": true, "request": true,
        "accepted": true, "repost": true, "quote": true, "post": true });
    let defaults = json!({ "kinds": kinds, "private": false, "daily_cap": 100 });
    assert_eq!(read().await, defaults);
    let quiet = json!({ "from": "22:30", "to": "07:00", "time_zone": "Europe/Berlin" });
    let some = json!({ "kinds": { "like": false }, "private": true, "quiet_hours": quiet });
    let stored = server.done("ann", "PUT", "/push/preferences", &some).await;
    assert_eq!(stored["kinds"]["like"], false);
    assert_eq!(
        (&stored["kinds"]["reply"], &stored["daily_cap"], &stored["quiet_hours"]),
        (&json!(true), &json!(100), &quiet)
    );
    assert_eq!(read().await, stored);
    // Over rpc, one method reads and replaces.
    let mut ann = Client::connect(&server, "ann").await;
    assert_eq!(ann.rpc("push.preferences", &json!({})).await, stored);
    let replaced = ann.rpc("push.preferences", &json!({ "daily_cap": 5 })).await;
    assert_eq!((&replaced["daily_cap"], &replaced["private"]), (&json!(5), &json!(false)));
    assert_eq!(read().await, replaced);
    assert_eq!(server.done("ann", "PUT", "/push/preferences", &json!({})).await, defaults);
    for (wrong, field) in [
        (json!({ "daily_cap": 0 }), "daily_cap"),
        (json!({ "quiet_hours": { "from": "1:00", "to": "07:00" } }), ""),
        (json!({ "quiet_hours": { "from": "01:00", "to": "07:00", "time_zone": "x" } }), "quiet_hours"),
        (json!({ "kinds": { "poke": true } }), "poke"),
    ] {
        let refused = server.call("ann", "PUT", "/push/preferences", &wrong).await;
        assert_eq!(refused.status.as_u16(), 400, "{wrong}");
        assert_eq!(refused.body["error"]["field"].as_str().unwrap_or_default(), field, "{wrong}");
    }
}

#[tokio::test]
async fn browsers_learn_the_key_of_web_push() {
    let key = async |keys: &[(&str, &str)]| {
        let server = Server::start_with(keys).await;
        server.done("ann", "GET", "/push/key", &Value::Null).await
    };
    // The keys of the example in RFC 8291.
    let configured = [
        ("push.enabled", "true"),
        ("push.vapid_private_key", "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"),
        ("push.vapid_subject", "mailto:ops@example.org"),
    ];
    let public = "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8";
    assert_eq!(key(&configured).await, json!({ "vapid_public_key": public }));
    assert_eq!(key(&[]).await, json!({}), "no Web Push");
    assert_eq!(key(&configured[1..]).await, json!({}), "no bridge");
}
