//! Notifications of the application's own: `notifications.send`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Client;
use crate::moderation::{moderate, suspend, unsuspend};
use crate::push_receiver::{GRACE, Receiver, register};
use crate::server::{API_KEY, Server, token, until};

/// A notification of this title, with other members.
fn draft(to: &[&str], title: &str, more: &Value) -> Value {
    let mut draft = json!({ "to": to, "kind": "app.build", "title": title, "body": "the text" });
    let more = more.as_object().cloned().unwrap_or_default();
    draft.as_object_mut().expect("an object").extend(more);
    draft
}

/// Sends a notification of this title. Returns the answer.
pub(crate) async fn send(server: &Server, to: &[&str], title: &str, more: Value) -> Value {
    let answer = moderate(server, "POST", "/notifications", &draft(to, title, &more)).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    answer.body
}

/// Waits until a user has been notified of these, the latest first. Returns the notifications.
pub(crate) async fn has(server: &Server, user: &str, expected: &[&str]) -> Vec<Value> {
    let list = async || {
        let page = server.done(user, "GET", "/notifications", &Value::Null).await;
        page["items"].as_array().expect("items").clone()
    };
    until(&format!("{user} has {expected:?}"), async || {
        let titles = list().await;
        titles.iter().map(|item| item["title"].as_str().unwrap_or("of the feed")).eq(expected.iter().copied())
    })
    .await;
    list().await
}

async fn people(server: &Server, users: &[&str]) {
    for user in users {
        server.done(user, "GET", &format!("/users/{user}"), &Value::Null).await;
    }
}

#[tokio::test]
async fn the_application_notifies_users_in_groups_by_key() {
    let server = Server::start_with(&[("outlet.consumers", "app")]).await;
    people(&server, &["ann", "bo"]).await;
    let mut ann = Client::open(&server).await;
    let connected = ann.done(json!({ "connect": { "token": token("ann") } })).await;
    let position = connected["connect"]["subs"]["notifications:ann"].clone();
    let more = json!({ "key": "main", "url": "/builds/7", "data": { "build": 7 } });
    let answer = send(&server, &["ann", "bo", "nobody", "ann"], "failed", more).await;
    assert_eq!(answer, json!({ "accepted": 2, "unknown": ["nobody"] }));
    let live = ann.publication("notifications:ann").await["data"]["notification"].clone();
    let listed = server.done("ann", "GET", "/notifications", &Value::Null).await;
    assert_eq!((&listed["items"], &listed["unread"]), (&json!([live]), &json!(1)));
    assert_eq!(
        (&live["kind"], &live["title"], &live["body"]),
        (&json!("app.build"), &json!("failed"), &json!("the text"))
    );
    assert_eq!(
        (&live["url"], &live["data"], &live["key"]),
        (&json!("/builds/7"), &json!({ "build": 7 }), &json!("main"))
    );
    assert_eq!((&live["people"], &live["count"]), (&json!([]), &json!(0)), "nobody did it");
    assert!(live.get("object").is_none() && live.get("push").is_none(), "{live}");
    has(&server, "bo", &["failed"]).await;

    // The same key is the same group, also when it was read. Another notification is another group.
    server.done("ann", "PUT", "/notifications/read", &json!({})).await;
    send(&server, &["ann"], "alone", json!({ "from": "bo" })).await;
    send(&server, &["ann"], "mended", json!({ "key": "main" })).await;
    send(&server, &["ann"], "another kind", json!({ "key": "main", "kind": "app.deploy" })).await;
    has(&server, "ann", &["another kind", "mended", "alone"]).await;
    let page = server.done("ann", "GET", "/notifications", &Value::Null).await;
    assert_eq!((&page["items"][1]["id"], &page["unread"]), (&live["id"], &json!(3)));
    assert!(page["items"][1].get("url").is_none() && page["items"][1]["people"] == json!([]), "{page}");
    assert_eq!((&page["items"][2]["people"][0]["id"], &page["items"][2]["count"]), (&json!("bo"), &json!(1)));

    // A client that was away recovers them, and the outlet has their kinds.
    let from = json!({ "recover": true, "offset": position["offset"], "epoch": position["epoch"] });
    let connect = json!({ "token": token("ann"), "subs": { "notifications:ann": from } });
    let back = Client::open(&server).await.done(json!({ "connect": connect })).await;
    let recovered = &back["connect"]["subs"]["notifications:ann"];
    assert_eq!(recovered["recovered"], true, "{recovered}");
    let missed = recovered["publications"].as_array().expect("publications");
    assert!(missed.iter().any(|entry| entry["data"]["notification"]["title"] == "mended"), "{missed:?}");
    until("the outlet has them", async || {
        let answer = server.http("GET", "/api/events?consumer=app&limit=100", &[("x-api-key", API_KEY)], "").await;
        let text = answer.body.to_string();
        // The texts stay out, and recipients are not among those who act.
        assert!(!text.contains("mended") && !text.contains(r#""by":["ann"]"#), "{text}");
        text.contains(r#""kind":"app.deploy""#) && text.contains(r#""by":["bo"],"count":1"#)
    })
    .await;
    let export = server.done("ann", "GET", "/accounts/export", &Value::Null).await;
    assert!(export["notifications"].as_array().expect("rows").iter().any(|row| row["title"] == "mended"), "{export}");
}

#[tokio::test]
async fn nothing_reaches_who_does_not_want_it_from_a_user() {
    let server = Server::start().await;
    people(&server, &["ann", "bo", "cy", "dee", "eve", "from"]).await;
    for (user, what) in [("ann", "block"), ("bo", "mute"), ("cy", "hide")] {
        server.done(user, "PUT", &format!("/users/from/{what}"), &Value::Null).await;
    }
    server.done("from", "PUT", "/users/dee/block", &Value::Null).await;
    let all = ["ann", "bo", "cy", "dee", "eve", "from"];
    assert_eq!(send(&server, &all, "hello", json!({ "from": "from" })).await["accepted"], 6);
    send(&server, &all, "afterwards", json!({})).await;
    for user in ["ann", "bo", "cy", "dee"] {
        has(&server, user, &["afterwards"]).await;
    }
    for user in ["eve", "from"] {
        has(&server, user, &["afterwards", "hello"]).await;
    }
    // A group of two: what one of them says is hidden with them.
    send(&server, &["eve"], "by dee", json!({ "key": "k", "from": "dee" })).await;
    send(&server, &["eve"], "by from", json!({ "key": "k", "from": "from" })).await;
    has(&server, "eve", &["by from", "afterwards", "hello"]).await;
    suspend(&server, "from", "suspended").await;
    // What was there is hidden.
    has(&server, "eve", &["afterwards"]).await;
    send(&server, &["eve"], "through a suspended one", json!({ "from": "from" })).await;
    send(&server, &["eve"], "from nobody", json!({})).await;
    has(&server, "eve", &["from nobody", "afterwards"]).await;
    unsuspend(&server, "from").await;
    has(&server, "eve", &["from nobody", "by from", "afterwards", "hello"]).await;
}

#[tokio::test]
async fn only_the_backend_notifies_and_what_it_says_is_checked() {
    let server = Server::start().await;
    people(&server, &["ann"]).await;
    let body = draft(&["ann"], "title", &Value::Null);
    assert_eq!(server.call("ann", "POST", "/notifications", &body).await.status, 403);
    let with_user = [("x-api-key", API_KEY), ("x-user", "ann")];
    assert_eq!(server.http("POST", "/api/v1/notifications", &with_user, &body.to_string()).await.status, 403);
    let many: Vec<String> = (0..1_001).map(|n| format!("u{n}")).collect();
    for (more, status, field) in [
        (json!({ "kind": "build" }), 400, "kind"),
        (json!({ "kind": "app." }), 400, "kind"),
        (json!({ "kind": "app.Build" }), 400, "kind"),
        (json!({ "kind": format!("app.{}", "x".repeat(61)) }), 400, "kind"),
        (json!({ "to": [] }), 400, "to"),
        (json!({ "to": many }), 422, "to"),
        (json!({ "title": " " }), 400, "title"),
        (json!({ "title": "two\nlines" }), 400, "title"),
        (json!({ "title": "東".repeat(101) }), 422, "title"),
        (json!({ "body": "東".repeat(1_001) }), 422, "body"),
        (json!({ "body": "\u{7}" }), 400, "body"),
        (json!({ "key": "" }), 400, "key"),
        (json!({ "key": "x".repeat(201) }), 400, "key"),
        (json!({ "url": "javascript:alert(1)" }), 400, "url"),
        (json!({ "url": "//elsewhere" }), 400, "url"),
        (json!({ "data": { "much": "x".repeat(4_096) } }), 422, "data"),
        (json!({ "unknown": 1 }), 400, "unknown"),
    ] {
        let answer = moderate(&server, "POST", "/notifications", &draft(&["ann"], "title", &more)).await;
        assert_eq!(answer.status, status, "{more}: {answer:?}");
        assert_eq!(answer.body["error"]["field"], field, "{more}: {answer:?}");
    }
    let nobody = moderate(&server, "POST", "/notifications", &draft(&["ann"], "x", &json!({ "from": "ghost" }))).await;
    assert_eq!(nobody.status, 404, "{nobody:?}");
    let largest = json!({
        "title": "東".repeat(100), "body": "東\n".repeat(500), "kind": format!("app.{}", "x".repeat(60)),
        "key": "x".repeat(200), "url": "https://example.org/", "data": { "much": "x".repeat(4_000) }
    });
    send(&server, &["ann"], "largest", largest).await;
    let only_unknown = send(&server, &["ghost"], "to nobody", json!({})).await;
    assert_eq!(only_unknown, json!({ "accepted": 0, "unknown": ["ghost"] }));
    has(&server, "ann", &["東".repeat(100).as_str()]).await;

    // A key makes a repeat harmless; the API for backends takes the same input.
    let once = async |title: &str| {
        let headers = [("x-api-key", API_KEY), ("idempotency-key", "one")];
        let body = draft(&["ann", "ghost"], title, &Value::Null).to_string();
        server.http("POST", "/api/v1/notifications", &headers, &body).await
    };
    let (first, again) = (once("once").await, once("once").await);
    assert_eq!((first.status.as_u16(), &first.body), (202, &again.body));
    assert_eq!(once("twice").await.status, 422);
    let input = json!({ "method": "notifications.send", "params": draft(&["ann"], "by rpc", &Value::Null) });
    let over_rpc = server.backend("rpc", &input).await;
    assert_eq!(over_rpc["result"]["data"]["accepted"], 1, "{over_rpc}");
    has(&server, "ann", &["by rpc", "once", "東".repeat(100).as_str()]).await;
}

#[tokio::test]
async fn pushes_have_the_texts_and_users_choose_by_kind() {
    let (server, receiver) = (crate::push_receiver::server().await, Receiver::start(&[]).await);
    register(&server, "ann", "hook", &receiver.url).await;
    let choose = async |preferences: Value| server.done("ann", "PUT", "/push/preferences", &preferences).await;
    let pushed = async |title: &str, more: Value| {
        let before = receiver.alerts().len();
        send(&server, &["ann"], title, more).await;
        until("it is listed", async || {
            let page = server.done("ann", "GET", "/notifications", &Value::Null).await;
            page["items"][0]["title"] == title
        })
        .await;
        tokio::time::sleep(2 * GRACE).await;
        receiver.alerts()[before..].to_vec()
    };
    let push = pushed("failed", json!({ "key": "k", "url": "/builds/7" })).await.remove(0);
    assert_eq!((&push["title"], &push["body"]), (&json!("failed"), &json!("the text")));
    assert_eq!((&push["data"]["type"], &push["data"]["url"]), (&json!("app.build"), &json!("/builds/7")));
    assert_eq!(pushed("quietly", json!({ "push": false })).await, [] as [Value; 0]);
    let kinds = choose(json!({ "kinds": { "app.build": false } })).await["kinds"].clone();
    assert_eq!((&kinds["app.build"], &kinds["like"]), (&json!(false), &json!(true)));
    assert_eq!(pushed("unwanted", json!({})).await, [] as [Value; 0]);
    assert_eq!(pushed("another", json!({ "kind": "app.deploy" })).await.len(), 1);
    choose(json!({ "kinds": { "app.*": false, "app.build": true } })).await;
    assert_eq!(pushed("unwanted", json!({ "kind": "app.deploy" })).await, [] as [Value; 0]);
    assert_eq!(pushed("wanted", json!({})).await.len(), 1);
    for kinds in [json!({ "app.": true }), json!({ "poke": true }), json!({ "app.A": true })] {
        let answer = server.call("ann", "PUT", "/push/preferences", &json!({ "kinds": kinds })).await;
        assert_eq!(answer.status, 400, "{kinds}: {answer:?}");
    }
    let many: Value = (0..101).map(|n| (format!("app.{n}"), json!(true))).collect::<serde_json::Map<_, _>>().into();
    let answer = server.call("ann", "PUT", "/push/preferences", &json!({ "kinds": many })).await;
    assert_eq!((answer.status.as_u16(), &answer.body["error"]["field"]), (422, &json!("kinds")), "{answer:?}");
    choose(json!({ "private": true })).await;
    let push = pushed("a secret", json!({ "url": "/secret" })).await.remove(0).to_string();
    assert!(!push.contains("secret") && !push.contains("the text"), "{push}");
    // Read elsewhere before it is due.
    choose(json!({})).await;
    let before = receiver.alerts().len();
    send(&server, &["ann"], "read at once", json!({})).await;
    until("it is listed", async || {
        server.done("ann", "GET", "/notifications", &Value::Null).await["items"][0]["title"] == "read at once"
    })
    .await;
    server.done("ann", "PUT", "/notifications/read", &json!({})).await;
    tokio::time::sleep(2 * GRACE).await;
    assert_eq!(receiver.alerts().len(), before);
}

#[tokio::test]
async fn what_a_socket_took_is_not_pushed_and_what_was_read_is_cleared() {
    let (server, receiver) = (crate::push_receiver::server().await, Receiver::start(&[]).await);
    register(&server, "ann", "hook", &receiver.url).await;
    let mut client = Client::connect(&server, "ann").await;
    let reading = tokio::spawn(async move {
        loop {
            client.hear().await;
        }
    });
    send(&server, &["ann"], "taken live", json!({})).await;
    has(&server, "ann", &["taken live"]).await;
    tokio::time::sleep(3 * GRACE + Duration::from_secs(1)).await;
    assert!(receiver.received.lock().is_empty(), "her socket answered: {:?}", receiver.received.lock());
    reading.abort();
    send(&server, &["ann"], "not taken", json!({})).await;
    let alert = receiver.wait_for(1).await.remove(0);
    assert_eq!((&alert["push"], &alert["title"], &alert["badge"]), (&json!("alert"), &json!("not taken"), &json!(2)));
    server.done("ann", "PUT", "/notifications/read", &json!({})).await;
    let clear = receiver.wait_for(2).await.remove(1);
    let data = &clear["data"];
    assert_eq!((&clear["push"], &clear["badge"], &data["unread"]), (&json!("clear"), &json!(0), &json!("")));
    assert_eq!(data["upto"], alert["data"]["notification"], "{clear}");
}
