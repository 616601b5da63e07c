//! Notifications from the users' view: live, grouped, counted, and marked on every device.

use serde_json::{Value, json};

use crate::client::Client;
use crate::server::{PATIENCE, Server};

async fn say(server: &Server, user: &str, post: u64, text: &str) -> u64 {
    let said = server.done(user, "POST", &format!("/posts/{post}/comments"), &json!({ "text": text })).await;
    said["id"].as_u64().expect("an id")
}

async fn reply(server: &Server, user: &str, post: u64, to: u64, text: &str) -> u64 {
    let body = json!({ "text": text, "reply_to": to });
    server.done(user, "POST", &format!("/posts/{post}/comments"), &body).await["id"].as_u64().expect("an id")
}

async fn page(server: &Server, user: &str, query: &str) -> Value {
    server.done(user, "GET", &format!("/notifications?{query}"), &Value::Null).await
}

/// The next notification that the user receives. Those that are gone are skipped.
async fn received(client: &mut Client, user: &str) -> Value {
    loop {
        let data = client.publication(&format!("notifications:{user}")).await["data"].clone();
        match data["type"].as_str() {
            Some("notification.gone") => {}
            kind => {
                assert_eq!(kind, Some("notification"), "{data}");
                return data["notification"].clone();
            }
        }
    }
}

/// The next mark that the user's sockets receive.
async fn marked(client: &mut Client, user: &str) -> Value {
    loop {
        let data = client.publication(&format!("notifications:{user}")).await["data"].clone();
        if data["type"] == "notifications.read" {
            return data;
        }
    }
}

fn people(notification: &Value) -> Vec<&str> {
    let people = notification["people"].as_array().expect("people");
    people.iter().map(|person| person["id"].as_str().expect("an id")).collect()
}

/// The notifications of a page: kind, object and people of each.
fn said(page: &Value) -> Vec<(&str, u64, Vec<&str>)> {
    let item = |item: &'_ Value| item["object"]["id"].as_u64().unwrap_or_default();
    let items = page["items"].as_array().expect("items").iter();
    items.map(|one| (one["kind"].as_str().expect("a kind"), item(one), people(one))).collect()
}

fn left(page: &Value) -> (u64, u64) {
    (page["unread"].as_u64().expect("a count"), page["unseen"].as_u64().expect("a count"))
}

/// Polls the list until the condition holds.
async fn until(server: &Server, user: &str, so: impl Fn(&Value) -> bool) -> Value {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let page = page(server, user, "").await;
        if so(&page) {
            return page;
        }
        assert!(std::time::Instant::now() < deadline, "the list remains {page}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn every_kind_is_pushed_and_listed() {
    let server = Server::start().await;
    let mut ann = Client::connect(&server, "ann").await;
    let post = server.post("ann", "hello").await;
    server.follow("bo", "ann").await;
    let follow = received(&mut ann, "ann").await;
    assert_eq!((&follow["kind"], follow.get("object")), (&json!("follow"), None));
    assert_eq!(follow["people"], json!([{ "id": "bo", "name": "bo" }]));
    assert_eq!((&follow["count"], &follow["read"], &follow["seen"]), (&json!(1), &json!(false), &json!(false)));

    let hi = say(&server, "bo", post, "hi").await;
    let comment = received(&mut ann, "ann").await;
    assert_eq!((&comment["kind"], &comment["object"]), (&json!("comment"), &json!({ "type": "post", "id": post })));
    assert_eq!(comment["comment"], hi);

    let mine = say(&server, "ann", post, "welcome").await;
    let thanks = reply(&server, "cy", post, mine, "thanks").await;
    let answered = received(&mut ann, "ann").await;
    let object = json!({ "type": "comment", "id": mine, "post": post });
    assert_eq!((&answered["kind"], &answered["object"]), (&json!("reply"), &object));
    assert_eq!(answered["comment"], thanks);

    let theirs = server.post("cy", "see @ann and @nobody-here").await;
    let mention = received(&mut ann, "ann").await;
    assert_eq!((&mention["kind"], &mention["object"]), (&json!("mention"), &json!({ "type": "post", "id": theirs })));
    let there = say(&server, "bo", theirs, "hello @ann, @ann").await;
    let in_comment = received(&mut ann, "ann").await;
    let object = json!({ "type": "comment", "id": there, "post": theirs });
    assert_eq!((&in_comment["kind"], &in_comment["object"]), (&json!("mention"), &object));
    assert_eq!([in_comment.get("comment"), mention.get("comment"), follow.get("comment")], [None; 3]);

    let page = page(&server, "ann", "").await;
    assert_eq!(page["items"], json!([in_comment, mention, answered, comment, follow]), "the latest is first");
    assert_eq!(left(&page), (5, 5));
    assert!(page.get("next").is_none());
}

#[tokio::test]
async fn the_comment_of_a_group_is_the_newest_that_is_left() {
    let server = Server::start().await;
    let post = server.post("ann", "hello").await;
    let named = async |expected: Option<u64>| {
        until(&server, "ann", |page| page["items"][0]["comment"].as_u64() == expected).await;
    };
    let first = say(&server, "bo", post, "one").await;
    named(Some(first)).await;
    let second = say(&server, "cy", post, "two").await;
    named(Some(second)).await;
    let third = say(&server, "bo", post, "three").await;
    named(Some(third)).await;
    for (gone, left) in [(third, Some(second)), (second, Some(first)), (first, None)] {
        server.done("ann", "DELETE", &format!("/comments/{gone}"), &Value::Null).await;
        named(left).await;
    }
}

#[tokio::test]
async fn own_actions_do_not_notify_and_a_comment_notifies_once() {
    let server = Server::start().await;
    let mut ann = Client::connect(&server, "ann").await;
    let post = server.post("ann", "I, @ann, say").await;
    let mine = say(&server, "ann", post, "as @ann said").await;
    reply(&server, "ann", post, mine, "indeed").await;
    // The comment replies to ann, on ann's post, and mentions ann: it causes one notification.
    reply(&server, "bo", post, mine, "hi @ann").await;
    assert_eq!(received(&mut ann, "ann").await["kind"], "reply");
    say(&server, "bo", post, "hi again @ann").await;
    assert_eq!(received(&mut ann, "ann").await["kind"], "comment");
    server.follow("bo", "ann").await;
    assert_eq!(received(&mut ann, "ann").await["kind"], "follow");
    assert_eq!(said(&page(&server, "ann", "").await).len(), 3);
}

#[tokio::test]
async fn equal_events_of_many_users_are_grouped() {
    let server = Server::start().await;
    let mut ann = Client::connect(&server, "ann").await;
    let (post, other) = (server.post("ann", "hello").await, server.post("ann", "another").await);
    let mut id = Value::Null;
    for n in 1..=10_u64 {
        say(&server, &format!("fan-{n}"), post, "hi").await;
        let grown = received(&mut ann, "ann").await;
        if n == 1 {
            id = grown["id"].clone();
        }
        assert_eq!((&grown["id"], &grown["count"]), (&id, &json!(n)));
        let newest: Vec<String> = (1..=n).rev().take(8).map(|n| format!("fan-{n}")).collect();
        assert_eq!(people(&grown), newest);
    }
    say(&server, "fan-1", other, "hi").await;
    assert_eq!(received(&mut ann, "ann").await["count"], 1, "another post is another group");
    say(&server, "fan-3", post, "hi once more").await;
    let renewed = received(&mut ann, "ann").await;
    assert_eq!((&renewed["id"], &renewed["count"]), (&id, &json!(10)), "a repeated commenter counts once");
    assert_eq!(people(&renewed)[0], "fan-3");
    say(&server, "fan-11", post, "hi").await;
    let grown = received(&mut ann, "ann").await;
    assert_eq!((&grown["id"], &grown["count"]), (&id, &json!(11)));
    let page = page(&server, "ann", "").await;
    assert_eq!(page["items"].as_array().expect("items").len(), 2);
    assert_eq!(page["items"][0], grown, "a group that grows moves to the top");
    assert_eq!(left(&page), (2, 2));
}

#[tokio::test]
async fn read_marks_lower_the_count_on_all_sockets() {
    let server = Server::start().await;
    let (mut phone, mut desk) = (Client::connect(&server, "ann").await, Client::connect(&server, "ann").await);
    let mut ids = Vec::new();
    for n in 0..3 {
        let post = server.post("ann", &format!("post {n}")).await;
        say(&server, "bo", post, "hi").await;
        let (one, two) = (received(&mut phone, "ann").await, received(&mut desk, "ann").await);
        assert_eq!(one, two);
        ids.push(one["id"].clone());
    }
    let seen = phone.rpc("notifications.mark_read", &json!({ "seen": true })).await;
    assert_eq!(left(&seen), (3, 0));
    let heard = marked(&mut desk, "ann").await;
    let position = &page(&server, "ann", "").await["items"][0]["position"];
    let marked_all =
        json!({ "type": "notifications.read", "position": position, "seen": true, "unread": 3, "unseen": 0 });
    assert_eq!(heard, marked_all);
    assert_eq!(marked(&mut phone, "ann").await, heard);

    let read = phone.rpc("notifications.mark_read", &json!({ "id": ids[1] })).await;
    assert_eq!(left(&read), (1, 0), "up to and including that one");
    let heard = marked(&mut desk, "ann").await;
    assert_eq!((&heard["id"], &heard["seen"]), (&ids[1], &json!(false)), "{heard}");
    assert_eq!((left(&heard), heard["position"].as_u64() < position.as_u64()), ((1, 0), true), "{heard}");
    let flags = |page: &Value| -> Vec<(bool, bool)> {
        let items = page["items"].as_array().expect("items").iter();
        items.map(|item| (item["read"] == true, item["seen"] == true)).collect()
    };
    assert_eq!(flags(&page(&server, "ann", "").await), [(false, true), (true, true), (true, true)]);
    // A repeat changes and pushes nothing: the next push is the one after it.
    phone.rpc("notifications.mark_read", &json!({ "id": ids[0] })).await;
    server.done("ann", "PUT", "/notifications/read", &Value::Null).await;
    assert_eq!(left(&marked(&mut desk, "ann").await), (0, 0));
    assert_eq!(left(&page(&server, "ann", "").await), (0, 0));

    let others = server.call("bo", "PUT", "/notifications/read", &json!({ "id": ids[0] })).await;
    assert_eq!((others.status.as_u16(), left(&others.body)), (200, (0, 0)), "bo has no such group: nothing is marked");
}

/// A mark means what its client had listed, although groups have grown and others begun meanwhile.
#[tokio::test]
async fn marks_are_positions_as_they_were_listed() {
    let server = Server::start().await;
    let mut ann = Client::connect(&server, "ann").await;
    let post = server.post("ann", "hello").await;
    say(&server, "bo", post, "hi").await;
    let listed = received(&mut ann, "ann").await;
    server.follow("bo", "ann").await;
    let last = received(&mut ann, "ann").await;
    assert!(last["position"].as_u64() > listed["position"].as_u64(), "{listed} {last}");
    say(&server, "cy", post, "hi").await;
    let grown = received(&mut ann, "ann").await;
    assert_eq!((&grown["id"], grown["position"].as_u64() > last["position"].as_u64()), (&listed["id"], true));

    let mark = async |body: Value| server.call("ann", "PUT", "/notifications/read", &body).await;
    for body in
        [json!({ "position": listed["position"] }), json!({ "position": listed["position"], "id": grown["id"] })]
    {
        let marked = mark(body).await;
        assert_eq!((marked.status.as_u16(), left(&marked.body)), (200, (2, 2)), "the position decides");
    }
    assert_eq!(marked(&mut ann, "ann").await["position"], listed["position"]);
    let read = mark(json!({ "position": last["position"] })).await;
    assert_eq!(left(&read.body), (1, 1), "the group has grown since");
    assert_eq!(marked(&mut ann, "ann").await["position"], last["position"]);
    // Unknown, deleted and erased objects are no error, and mark nothing.
    for body in [json!({ "id": 999_999 }), json!({ "position": 0 }), json!({ "position": null, "id": 999_999 })] {
        let marked = mark(body).await;
        assert_eq!((marked.status.as_u16(), left(&marked.body)), (200, (1, 1)));
    }
    let beyond = mark(json!({ "position": 9_007_199_254_740_991_u64, "id": 999_999 })).await;
    assert_eq!(left(&beyond.body), (0, 0));
    assert_eq!(marked(&mut ann, "ann").await["position"], grown["position"], "cut to the greatest known");
    say(&server, "di", post, "hi").await;
    assert_eq!(received(&mut ann, "ann").await["read"], false, "what comes later is unread");
    for wrong in [json!(-1), json!(1.5), json!(9_007_199_254_740_992_u64), json!([])] {
        let refused = mark(json!({ "position": wrong })).await;
        assert_eq!(refused.status, 400, "{refused:?}");
    }
}

#[tokio::test]
async fn events_after_a_read_start_a_new_group() {
    let server = Server::start().await;
    let mut ann = Client::connect(&server, "ann").await;
    let post = server.post("ann", "hello").await;
    say(&server, "bo", post, "hi").await;
    let first = received(&mut ann, "ann").await;
    ann.rpc("notifications.mark_read", &json!({ "seen": true })).await;
    marked(&mut ann, "ann").await;
    say(&server, "cy", post, "hi").await;
    let grown = received(&mut ann, "ann").await;
    assert_eq!((&grown["id"], &grown["count"], &grown["seen"]), (&first["id"], &json!(2), &json!(false)));
    ann.rpc("notifications.mark_read", &json!({})).await;
    marked(&mut ann, "ann").await;
    say(&server, "bo", post, "hi again").await;
    let anew = received(&mut ann, "ann").await;
    assert_ne!(anew["id"], first["id"]);
    assert_eq!((&anew["count"], people(&anew)), (&json!(1), vec!["bo"]));
    assert_eq!(left(&page(&server, "ann", "").await), (1, 1));
}

#[tokio::test]
async fn deleting_content_removes_its_notifications() {
    let server = Server::start().await;
    let mut ann = Client::connect(&server, "ann").await;
    let (kept, deleted) = (server.post("ann", "kept").await, server.post("ann", "deleted").await);
    say(&server, "bo", kept, "hi").await;
    say(&server, "bo", deleted, "hi").await;
    let naming = server.post("bo", "see @ann").await;
    let mine = say(&server, "ann", kept, "welcome").await;
    reply(&server, "cy", kept, mine, "thanks").await;
    let there = say(&server, "cy", naming, "yes, @ann").await;
    until(&server, "ann", |page| said(page).len() == 5).await;
    for _ in 0..5 {
        received(&mut ann, "ann").await;
    }
    let all = page(&server, "ann", "").await;
    assert_eq!(said(&all)[0], ("mention", there, vec!["cy"]));

    server.done("cy", "DELETE", &format!("/comments/{there}"), &Value::Null).await;
    server.done("ann", "DELETE", &format!("/posts/{deleted}"), &Value::Null).await;
    server.done("ann", "DELETE", &format!("/comments/{mine}"), &Value::Null).await;
    let page = page(&server, "ann", "").await;
    assert_eq!(said(&page), [("mention", naming, vec!["bo"]), ("comment", kept, vec!["bo"])]);
    assert_eq!(left(&page), (2, 2), "invisible notifications are not counted");
    let read = ann.rpc("notifications.mark_read", &json!({ "id": page["items"][1]["id"] })).await;
    assert_eq!(left(&read), (1, 1));
}

#[tokio::test]
async fn pages_are_full_when_some_notifications_are_hidden() {
    let server = Server::start().await;
    let mut ann = Client::connect(&server, "ann").await;
    let mut posts = Vec::new();
    for n in 0..14 {
        let post = server.post("ann", &format!("post {n}")).await;
        say(&server, "bo", post, "hi").await;
        received(&mut ann, "ann").await;
        posts.push(post);
    }
    for post in posts.drain(4..10) {
        server.done("ann", "DELETE", &format!("/posts/{post}"), &Value::Null).await;
    }
    posts.reverse();
    let (mut read, mut cursor) = (Vec::new(), String::new());
    let mut sizes = Vec::new();
    loop {
        let page = page(&server, "ann", &format!("limit=3{cursor}")).await;
        sizes.push(said(&page).len());
        read.extend(said(&page).into_iter().map(|(_, post, _)| post));
        let fresh = server.post("ann", "fresh").await;
        say(&server, "cy", fresh, "hi").await;
        received(&mut ann, "ann").await;
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!((read, sizes), (posts, vec![3, 3, 2]));
}

#[tokio::test]
async fn notifications_missed_while_offline_are_recovered() {
    let server = Server::start().await;
    let post = server.post("ann", "hello").await;
    let mut ann = Client::open(&server).await;
    let connected = ann.done(json!({ "connect": { "token": crate::server::token("ann") } })).await;
    let position = connected["connect"]["subs"]["notifications:ann"].clone();
    drop(ann);
    say(&server, "bo", post, "hi").await;
    until(&server, "ann", |page| said(page).len() == 1).await;
    let offset = position["offset"].as_u64().unwrap_or_default();
    let from = json!({ "recover": true, "offset": offset, "epoch": position["epoch"] });
    let mut back = Client::open(&server).await;
    let subs = json!({ "notifications:ann": from });
    let connect = json!({ "connect": { "token": crate::server::token("ann"), "subs": subs } });
    let recovered = back.done(connect).await["connect"]["subs"]["notifications:ann"].clone();
    assert_eq!(recovered["recovered"], true);
    let missed = recovered["publications"].as_array().cloned().unwrap_or_default();
    let received = match missed.first() {
        Some(missed) => missed["data"]["notification"].clone(),
        // The notification is stored and pushed a moment later.
        None => received(&mut back, "ann").await,
    };
    assert_eq!((&received["kind"], &received["object"]["id"]), (&json!("comment"), &json!(post)));
}

#[tokio::test]
async fn restricted_users_notify_nobody() {
    let server = Server::start().await;
    let mut ann = Client::connect(&server, "ann").await;
    let post = server.post("ann", "hello").await;
    for name in ["muted", "blocked", "blocking", "hidden", "fan", "cy"] {
        server.done(name, "GET", &format!("/users/{name}"), &Value::Null).await;
    }
    // They comment before the restrictions exist, except on one post that ann cannot see.
    server.follow("fan", "cy").await;
    let only = json!({ "text": "not for @ann", "visibility": { "only_to": ["fan"] } });
    server.done("cy", "POST", "/posts", &only).await;
    for name in ["muted", "blocked", "blocking", "hidden", "cy"] {
        say(&server, name, post, "hi").await;
        assert_eq!(received(&mut ann, "ann").await["kind"], "comment");
    }
    let before = page(&server, "ann", "").await;
    assert_eq!(said(&before), [("comment", post, vec!["cy", "hidden", "blocking", "blocked", "muted"])]);

    server.done("ann", "PUT", "/users/muted/mute", &Value::Null).await;
    server.done("ann", "PUT", "/users/blocked/block", &Value::Null).await;
    server.done("blocking", "PUT", "/users/ann/block", &Value::Null).await;
    server.done("hidden", "PUT", "/users/ann/hide", &Value::Null).await;
    let after = page(&server, "ann", "").await;
    assert_eq!(said(&after), [("comment", post, vec!["cy"])], "including earlier ones");
    assert_eq!((&after["items"][0]["count"], left(&after)), (&json!(1), (1, 1)));
    ann.rpc("notifications.mark_read", &json!({})).await;
    marked(&mut ann, "ann").await;
    for name in ["muted", "hidden"] {
        say(&server, name, post, "hi again").await;
    }
    server.follow("muted", "ann").await;
    server.follow("fan", "ann").await;
    // The group of comments has lost people meanwhile.
    let fan = loop {
        let next = received(&mut ann, "ann").await;
        if next["kind"] == "follow" {
            break next;
        }
        assert!(next["id"] == before["items"][0]["id"] && next["count"] != 5, "{next}");
    };
    assert_eq!(people(&fan), ["fan"], "no other user is notified about");
    assert_eq!(left(&page(&server, "ann", "").await), (1, 1));

    server.done("ann", "PUT", "/users/cy/block", &Value::Null).await;
    let alone = page(&server, "ann", "").await;
    assert_eq!(said(&alone), [("follow", 0, vec!["fan"])], "groups without visible users are omitted");
}

#[tokio::test]
async fn withdrawn_notifications_are_not_recovered() {
    let server = Server::start().await;
    let post = server.post("ann", "hello").await;
    let mut ann = Client::open(&server).await;
    let connected = ann.done(json!({ "connect": { "token": crate::server::token("ann") } })).await;
    let position = connected["connect"]["subs"]["notifications:ann"].clone();
    say(&server, "bo", post, "hi").await;
    let heard = received(&mut ann, "ann").await;
    drop(ann);
    server.done("ann", "PUT", "/users/bo/block", &Value::Null).await;
    let offset = position["offset"].as_u64().unwrap_or_default();
    let from = json!({ "recover": true, "offset": offset, "epoch": position["epoch"] });
    let subs = json!({ "notifications:ann": from });
    let connect = json!({ "connect": { "token": crate::server::token("ann"), "subs": subs } });
    let recovered = Client::open(&server).await.done(connect).await["connect"]["subs"]["notifications:ann"].clone();
    let gone = json!({ "type": "notification.gone", "id": heard["id"] });
    assert_eq!(recovered["publications"][0]["data"], gone, "{recovered}");
}

#[tokio::test]
async fn edits_notify_newly_mentioned_users_only() {
    let server = Server::start().await;
    let (mut ann, mut cy) = (Client::connect(&server, "ann").await, Client::connect(&server, "cy").await);
    let post = server.post("bo", "see @ann").await;
    received(&mut ann, "ann").await;
    server.done("bo", "PATCH", &format!("/posts/{post}"), &json!({ "text": "see @ann and @cy" })).await;
    assert_eq!(received(&mut cy, "cy").await["object"]["id"], post);
    server.follow("bo", "ann").await;
    assert_eq!(received(&mut ann, "ann").await["kind"], "follow");
}

#[tokio::test]
async fn undecodable_events_do_not_block_others() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("ledger.db");
    let server = Server::start_with(&[("ledger.url", &format!("sqlite://{}", path.display()))]).await;
    server.follow("bo", "ann").await;
    let db = rusqlite::Connection::open(&path).expect("the ledger");
    db.busy_timeout(PATIENCE).expect("a timeout");
    for text in ["not JSON", r#"{"of_another_version":{}}"#] {
        let sql = "INSERT INTO events (at, event, pending) VALUES (0, ?1, 1)";
        db.execute(sql, [text]).expect("an event");
    }
    server.post("cy", "see @ann").await;
    until(&server, "ann", |page| page["items"].as_array().is_some_and(|items| items.len() == 2)).await;
    server.metric_is("feedline_events_failed_total", 2.0).await;
    server.metric_is("feedline_events_pending", 0.0).await;
    let kept = db.query_row("SELECT count(*) FROM quarantine WHERE kind = 'event' AND reason <> ''", [], |row| {
        row.get::<_, i64>(0)
    });
    assert_eq!(kept.expect("a count"), 2, "with the reasons");
}
