//! Filters (muted words): what they leave out and mark, on pages, live, after a recovery, in notifications and pushes;
//! and that they concern nobody else.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Client;
use crate::moderation::moderate;
use crate::push_receiver::{GRACE, Receiver, register, server as push_server};
use crate::redis_server::RedisServer;
use crate::server::{Server, until};

/// A server with each pair of stores, and the Redis that it may use.
async fn all() -> [(Server, Option<RedisServer>); 2] {
    let redis = RedisServer::start();
    let postgres = crate::postgres_server::shared();
    let ledger = postgres.url(&postgres.migrated().await);
    let server = Server::start_with(&[("broker.url", &redis.url()), ("ledger.url", &ledger)]).await;
    [(Server::start().await, None), (server, Some(redis))]
}

async fn get(server: &Server, user: &str, path: &str) -> Value {
    server.done(user, "GET", path, &Value::Null).await
}

async fn items(server: &Server, user: &str, path: &str) -> Vec<Value> {
    get(server, user, path).await["items"].as_array().expect("items").clone()
}

fn ids(items: &[Value]) -> Vec<u64> {
    items.iter().map(|item| item["id"].as_u64().expect("an id")).collect()
}

/// Waits until a list has these: a fan-out ends after the reply.
async fn lists(server: &Server, user: &str, path: &str, expected: &[u64]) {
    until(&format!("{path} of {user} is {expected:?}"), async || ids(&items(server, user, path).await) == expected)
        .await;
}

/// Creates a filter of these words, with other members, and returns its id.
async fn filter(server: &Server, user: &str, words: &[&str], more: Value) -> u64 {
    let mut draft = json!({ "words": words });
    draft.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
    server.done(user, "POST", "/filters", &draft).await["id"].as_u64().expect("an id")
}

async fn delete(server: &Server, user: &str, filter: u64) {
    server.done(user, "DELETE", &format!("/filters/{filter}"), &Value::Null).await;
}

async fn comment(server: &Server, user: &str, post: u64, text: &str) -> u64 {
    let comment = json!({ "text": text });
    server.done(user, "POST", &format!("/posts/{post}/comments"), &comment).await["id"].as_u64().expect("an id")
}

async fn quote(server: &Server, user: &str, post: u64, text: &str) -> u64 {
    let quote = json!({ "text": text, "quote": post });
    server.done(user, "POST", "/posts", &quote).await["id"].as_u64().expect("an id")
}

async fn repost(server: &Server, user: &str, post: u64) -> u64 {
    let repost = server.done(user, "PUT", &format!("/posts/{post}/repost"), &Value::Null).await;
    repost["id"].as_u64().expect("an id")
}

/// The next publications of a channel, as their offsets, types, ids, and reasons or marks.
async fn next(client: &mut Client, channel: &str) -> (u64, String, u64, Value) {
    let publication = client.publication(channel).await;
    let data = &publication["data"];
    let id = data["id"].as_u64().or(data["post"]["id"].as_u64()).or(data["comment"]["id"].as_u64());
    let marks = [&data["reason"], &data["post"]["filtered"], &data["comment"]["filtered"]];
    let mark = marks.into_iter().find(|mark| !mark.is_null()).cloned().unwrap_or_default();
    let kind = data["type"].as_str().unwrap_or_default().to_owned();
    (publication["offset"].as_u64().unwrap_or(0), kind, id.unwrap_or(0), mark)
}

/// Waits until ann hears that her filters changed.
async fn filters_changed(ann: &mut Client) -> Value {
    loop {
        let publication = ann.publication("notifications:ann").await;
        if publication["data"]["type"] == "filters.changed" {
            return publication;
        }
    }
}

#[tokio::test]
async fn hidden_words_are_left_out_of_the_timeline_of_their_reader_alone() {
    for (server, _redis) in all().await {
        server.post("bo", "the first").await;
        for reader in ["ann", "dee"] {
            server.follow(reader, "bo").await;
        }
        let mut ann = Client::open(&server).await;
        let connected = ann.done(json!({ "connect": { "token": crate::server::token("ann") } })).await;
        let position = connected["connect"]["subs"]["timeline:ann"].clone();
        let mut dee = Client::connect(&server, "dee").await;
        let before = server.post("bo", "Rust is old").await;
        lists(&server, "ann", "/timeline?limit=1", &[before]).await;
        assert_eq!(next(&mut ann, "timeline:ann").await.1, "post");
        let rust = filter(&server, "ann", &["rust"], json!({})).await;
        assert!(filters_changed(&mut ann).await["offset"].as_u64().is_some(), "it is recovered");

        // The page at once, and what comes.
        let first = ids(&items(&server, "ann", "/timeline").await);
        assert!(first.len() == 1 && !first.contains(&before), "{first:?}");
        let muted = server.post("bo", "I like RUST!").await;
        let other = server.post("bo", "I trust you").await;
        let (offset, kind, id, reason) = next(&mut ann, "timeline:ann").await;
        assert_eq!((&*kind, id, reason), ("gone", muted, json!("filtered")));
        assert_eq!(next(&mut ann, "timeline:ann").await, (offset + 1, "post".into(), other, Value::Null));
        lists(&server, "ann", "/timeline?limit=1", &[other]).await;
        let page = get(&server, "ann", "/timeline").await;
        assert_eq!((ids(page["items"].as_array().unwrap()).len(), &page["read"]["unread"]), (2, &json!(2)));
        // An edit can bring a word, and take it away.
        let edit = json!({ "text": "rust, too" });
        server.done("bo", "PATCH", &format!("/posts/{other}"), &edit).await;
        let (_, kind, id, reason) = next(&mut ann, "timeline:ann").await;
        assert_eq!((&*kind, id, reason), ("gone", other, json!("filtered")));
        server.done("bo", "PATCH", &format!("/posts/{other}"), &json!({ "text": "I trust you" })).await;
        assert_eq!(next(&mut ann, "timeline:ann").await.1, "edited");

        // A client that was away gets the same, with all offsets.
        let (mut back, recovered) = Client::recover(&server, "ann", &position).await;
        let missed = recovered["publications"].as_array().expect("publications");
        let hidden: Vec<&Value> = missed.iter().filter(|entry| entry["data"]["reason"] == "filtered").collect();
        assert_eq!(missed.len(), 5, "{missed:?}");
        assert!(hidden.iter().map(|entry| &entry["data"]["id"]).eq([&json!(before), &json!(muted)]), "{missed:?}");
        assert!(back.pushed().await.iter().all(|push| push["pub"]["data"]["type"] != "post"));
        let updates =
            format!("/timeline/updates?offset={}&epoch={}", position["offset"], position["epoch"].as_str().unwrap());
        let updates = get(&server, "ann", &updates).await;
        assert_eq!(updates["items"].to_string().matches("filtered").count(), 2, "{updates}");

        // By id and on the profile it is there; what one wrote oneself is never left out.
        assert_eq!(get(&server, "ann", &format!("/posts/{muted}")).await["text"], "I like RUST!");
        assert_eq!(ids(&items(&server, "ann", "/users/bo/posts?limit=2").await), [other, muted]);
        let own = server.post("ann", "my rust").await;
        lists(&server, "ann", "/timeline?limit=2", &[own, other]).await;
        assert_eq!(next(&mut ann, "timeline:ann").await.1, "post");

        // Nobody else is concerned.
        let dees = ids(&items(&server, "dee", "/timeline").await);
        assert!(dees.contains(&muted) && dees.contains(&before), "{dees:?}");
        let mut seen = Vec::new();
        for _ in 0..3 {
            let (_, kind, id, _) = next(&mut dee, "timeline:dee").await;
            assert_eq!(kind, "post");
            seen.push(id);
        }
        assert_eq!(seen, [before, muted, other]);

        delete(&server, "ann", rust).await;
        filters_changed(&mut ann).await;
        assert_eq!(ids(&items(&server, "ann", "/timeline").await)[..4], [own, other, muted, before]);
    }
}

#[tokio::test]
async fn a_page_with_nine_of_ten_posts_hidden_is_full() {
    let server = Server::start_with(&[("timeline.length", "50")]).await;
    server.post("bo", "the first").await;
    server.follow("ann", "bo").await;
    let mut shown = Vec::new();
    for n in 0..150 {
        let text = if n % 10 == 0 { "fine" } else { "noise" };
        let post = server.post("bo", text).await;
        if n % 10 == 0 {
            shown.insert(0, post);
        }
    }
    let noise = filter(&server, "ann", &["noise"], json!({ "in": ["home"] })).await;
    lists(&server, "ann", "/timeline?limit=15", &shown).await;
    let mut read = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = get(&server, "ann", &format!("/timeline?limit=4{cursor}")).await;
        read.extend(ids(page["items"].as_array().expect("items")));
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(read[..15], shown, "with small pages");
    // With everything hidden, pages end at some time, and the last one says so.
    server.done("ann", "PATCH", &format!("/filters/{noise}"), &json!({ "words": ["noise", "fine", "first"] })).await;
    assert_eq!(get(&server, "ann", "/timeline").await["items"], json!([]));
}

#[tokio::test]
async fn posts_are_searched_with_what_they_name_as_far_as_the_reader_sees_it() {
    for (server, _redis) in all().await {
        for author in ["bo", "cy", "dee"] {
            server.post(author, "hello").await;
        }
        for author in ["bo", "cy"] {
            server.follow("ann", author).await;
        }
        server.follow("bo", "dee").await;
        let filter_id = filter(&server, "ann", &["secret"], json!({ "in": ["home"] })).await;
        let original = server.post("dee", "a secret").await;
        let reposted = repost(&server, "bo", original).await;
        let quoting = quote(&server, "cy", original, "look").await;
        let after = server.post("cy", "after all").await;
        lists(&server, "ann", "/timeline?limit=1", &[after]).await;
        let home = ids(&items(&server, "ann", "/timeline").await);
        assert!(!home.contains(&reposted) && !home.contains(&quoting), "{home:?}");

        // Elsewhere the quoting post is shown, without the quoted one; a repost by its id whole.
        let page = get(&server, "ann", &format!("/posts/{quoting}")).await;
        assert_eq!((&page["quote"]["state"], &page["quote"]["post"]), (&json!("unavailable"), &Value::Null), "{page}");
        assert_eq!(get(&server, "ann", &format!("/posts/{reposted}")).await["repost"]["text"], "a secret");
        let own = quote(&server, "ann", original, "mine").await;
        lists(&server, "ann", "/timeline?limit=1", &[own]).await;
        assert_eq!(items(&server, "ann", "/timeline?limit=1").await[0]["quote"]["state"], "unavailable");
        assert_eq!(get(&server, "dee", &format!("/posts/{quoting}")).await["quote"]["state"], "shown");

        // What the reader may not see decides nothing: a filter cannot be used to read it.
        let private = json!({ "text": "a secret, again", "visibility": "followers" });
        let private = server.done("dee", "POST", "/posts", &private).await["id"].as_u64().expect("an id");
        let of_private = quote(&server, "bo", private, "for friends").await;
        lists(&server, "ann", "/timeline?limit=1", &[of_private]).await;
        let mut ann = Client::connect(&server, "ann").await;
        let live = quote(&server, "bo", private, "once more").await;
        assert_eq!(next(&mut ann, "timeline:ann").await, (ann_offset(&server).await, "post".into(), live, Value::Null));
        // One's own post, reposted by somebody, is one's own.
        let mine = server.post("ann", "my secret").await;
        let by_bo = repost(&server, "bo", mine).await;
        assert_eq!(get(&server, "ann", &format!("/posts/{by_bo}")).await["repost"]["text"], "my secret");
        delete(&server, "ann", filter_id).await;
        assert!(ids(&items(&server, "ann", "/timeline").await).contains(&quoting));
    }
}

/// The offset of the last entry of ann's timeline.
async fn ann_offset(server: &Server) -> u64 {
    get(server, "ann", "/timeline?limit=1").await["position"]["offset"].as_u64().expect("an offset")
}

#[tokio::test]
async fn warnings_mark_what_is_shown() {
    for (server, _redis) in all().await {
        server.post("bo", "hello").await;
        server.follow("ann", "bo").await;
        let first = filter(&server, "ann", &["rust"], json!({ "action": "warn" })).await;
        let second = filter(&server, "ann", &["#go", "C++"], json!({ "action": "warn", "in": ["home"] })).await;
        let mut ann = Client::connect(&server, "ann").await;
        ann.subscribe("topic:go").await;
        let marked = server.post("bo", "rust and #go").await;
        let (_, kind, id, marks) = next(&mut ann, "timeline:ann").await;
        assert_eq!((&*kind, id, marks), ("post", marked, json!([first, second])));
        let (_, kind, id, marks) = next(&mut ann, "topic:go").await;
        assert_eq!((&*kind, id, marks), ("post", marked, json!([first])), "the second is for the timeline");
        lists(&server, "ann", "/timeline?limit=1", &[marked]).await;
        assert_eq!(items(&server, "ann", "/timeline?limit=1").await[0]["filtered"], json!([first, second]));
        for path in ["/topics/go/posts", "/posts/explore"] {
            let page = items(&server, "ann", path).await;
            assert_eq!((&page[0]["id"], &page[0]["filtered"]), (&json!(marked), &json!([first])), "{path}");
        }
        for path in [format!("/posts/{marked}"), "/users/bo/posts?limit=1".to_owned()] {
            assert!(!get(&server, "ann", &path).await.to_string().contains("filtered"), "{path}");
        }
        // A repost and a quote have the marks of what they name.
        server.post("cy", "hello").await;
        server.follow("ann", "cy").await;
        let elsewhere = server.post("dee", "c++").await;
        let reposted = repost(&server, "cy", elsewhere).await;
        let quoting = quote(&server, "cy", elsewhere, "look").await;
        lists(&server, "ann", "/timeline?limit=2", &[quoting, reposted]).await;
        for post in items(&server, "ann", "/timeline?limit=2").await {
            assert_eq!(post["filtered"], json!([second]), "{post}");
        }
        // An edit that takes the word away takes the mark away.
        server.done("bo", "PATCH", &format!("/posts/{marked}"), &json!({ "text": "#go" })).await;
        until("the edit is pushed", async || {
            let (_, kind, _, marks) = next(&mut ann, "timeline:ann").await;
            kind == "edited" && marks == json!([second])
        })
        .await;
    }
}

#[tokio::test]
async fn topics_and_comments_leave_out_hidden_words() {
    for (server, _redis) in all().await {
        server.post("ann", "hello").await;
        filter(&server, "ann", &["spam"], json!({ "in": ["topics", "comments"] })).await;
        let warned = filter(&server, "ann", &["maybe"], json!({ "in": ["comments"], "action": "warn" })).await;
        let mut ann = Client::connect(&server, "ann").await;
        let mut dee = Client::connect(&server, "dee").await;
        let post = server.post("bo", "#news").await;
        for client in [&mut ann, &mut dee] {
            client.subscribe("topic:news").await;
            client.subscribe(&format!("post:{post}")).await;
        }
        let hidden = server.post("bo", "#news spam").await;
        let shown = server.post("bo", "#news again").await;
        for (client, expected) in [(&mut ann, vec![shown]), (&mut dee, vec![hidden, shown])] {
            let mut seen = Vec::new();
            while seen.last() != Some(&shown) {
                seen.push(next(client, "topic:news").await.2);
            }
            // The fan-out of the first post may end after its reply.
            assert_eq!(seen.strip_prefix(&[post]).unwrap_or(&seen), expected);
        }
        assert_eq!(ids(&items(&server, "ann", "/topics/news/posts").await), [shown, post]);
        assert_eq!(ids(&items(&server, "dee", "/topics/news/posts").await), [shown, hidden, post]);
        assert!(!ids(&items(&server, "ann", "/posts/explore").await).contains(&hidden));

        let (first, second, third) = (
            comment(&server, "bo", post, "spam!").await,
            comment(&server, "bo", post, "maybe").await,
            comment(&server, "bo", post, "fine").await,
        );
        let own = comment(&server, "ann", post, "no spam please").await;
        let channel = format!("post:{post}");
        let mut seen = Vec::new();
        while seen.last().is_none_or(|(id, _)| *id != own) {
            let (_, kind, id, marks) = next(&mut ann, &channel).await;
            if kind == "comment" {
                seen.push((id, marks));
            }
        }
        assert_eq!(seen, [(second, json!([warned])), (third, Value::Null), (own, Value::Null)]);
        let path = format!("/posts/{post}/comments");
        let list = items(&server, "ann", &path).await;
        assert_eq!(ids(&list), [own, third, second]);
        assert_eq!((&list[2]["filtered"], list[1].get("filtered")), (&json!([warned]), None));
        assert_eq!(ids(&items(&server, "dee", &path).await), [own, third, second, first]);
        let preview = get(&server, "ann", &format!("/posts/{post}?with=comments:5")).await;
        assert_eq!(ids(preview["newest_comments"].as_array().expect("comments")), [own, third, second], "{preview}");
        assert_eq!(preview["newest_comments"][2]["filtered"], json!([warned]));
        assert_eq!(preview["comments"], 4, "counts are those of all");
        // By id it is there.
        assert_eq!(get(&server, "ann", &format!("/comments/{first}")).await["text"], "spam!");
    }
}

#[tokio::test]
async fn hidden_words_notify_nobody() {
    for (server, _redis) in all().await {
        let post = server.post("ann", "hello").await;
        server.post("bo", "hello").await;
        let mut ann = Client::connect(&server, "ann").await;
        let hide = filter(&server, "ann", &["spam"], json!({ "in": ["notifications"] })).await;
        let warn = filter(&server, "ann", &["maybe"], json!({ "action": "warn" })).await;
        comment(&server, "bo", post, "spam").await;
        server.post("bo", "@ann spam").await;
        quote(&server, "bo", post, "spam, too").await;
        let app = |title: &str, from: Option<&str>| {
            let mut draft = json!({ "to": ["ann"], "kind": "app.x", "title": title, "body": "spam" });
            if let Some(from) = from {
                draft["from"] = json!(from);
            }
            draft
        };
        moderate(&server, "POST", "/notifications", &app("from a user", Some("bo"))).await;
        let reply = comment(&server, "cy", post, "maybe").await;
        moderate(&server, "POST", "/notifications", &app("of the application itself", None)).await;
        until("the last one is there", async || {
            items(&server, "ann", "/notifications").await.iter().any(|item| item["kind"] == "app.x")
        })
        .await;
        let page = get(&server, "ann", "/notifications").await;
        let list = page["items"].as_array().expect("items");
        assert_eq!((list.len(), &page["unread"]), (2, &json!(2)), "{page}");
        assert_eq!((&list[0]["title"], list[0].get("filtered")), (&json!("of the application itself"), None));
        // One group: the comment by bo does not count.
        assert_eq!((&list[1]["comment"], &list[1]["count"]), (&json!(reply), &json!(1)), "{page}");
        assert_eq!(list[1]["filtered"], json!([warn]));
        let mut pushed = Vec::new();
        while pushed.last() != Some(&json!("of the application itself")) {
            let push = ann.publication("notifications:ann").await;
            if push["data"]["type"] == "notification" {
                let text = push["data"]["notification"].to_string();
                assert!(!text.contains("from a user"), "{text}");
                pushed.push(push["data"]["notification"]["title"].clone());
            }
        }
        delete(&server, "ann", hide).await;
        let kinds = items(&server, "ann", "/notifications").await;
        let mut kinds: Vec<&str> = kinds.iter().filter_map(|item| item["kind"].as_str()).collect();
        kinds.sort_unstable();
        assert_eq!(kinds, ["app.x", "app.x", "comment", "mention", "quote"], "they were only hidden");
    }
}

#[tokio::test]
async fn hidden_words_are_not_pushed() {
    let (server, receiver) = (push_server().await, Receiver::start(&[]).await);
    let post = server.post("ann", "hello").await;
    server.done("bo", "GET", "/users/bo", &Value::Null).await;
    register(&server, "ann", "hook", &receiver.url).await;
    server.done("ann", "PUT", "/users/bo/notify", &Value::Null).await;
    filter(&server, "ann", &["spam"], json!({ "in": ["notifications"] })).await;
    filter(&server, "ann", &["noise"], json!({ "in": ["home"] })).await;
    comment(&server, "bo", post, "spam").await;
    server.post("bo", "spam for all").await;
    server.post("bo", "noise for all").await;
    let seen = server.post("bo", "noiseless").await;
    let push = receiver.wait_for(1).await.remove(0);
    tokio::time::sleep(3 * GRACE).await;
    assert_eq!(push["data"]["post"], json!(seen.to_string()));
    assert_eq!(receiver.received.lock().len(), 1, "{:?}", receiver.received.lock());
}

#[tokio::test]
async fn filters_are_checked_and_belong_to_their_owner() {
    let server = Server::start().await;
    let long = "é".repeat(101);
    for (draft, status, field) in [
        (json!({ "words": [] }), 400, "words"),
        (json!({ "words": [" "] }), 400, "words"),
        (json!({ "words": ["\u{200b}"] }), 400, "words"),
        (json!({ "words": [long] }), 422, "words"),
        (json!({ "words": (0..51).map(|n| format!("w{n}")).collect::<Vec<_>>() }), 422, "words"),
        (json!({ "words": ["a"], "in": [] }), 400, "in"),
        (json!({ "words": ["a"], "in": ["nowhere"] }), 400, ""),
        (json!({ "words": ["a"], "action": "block" }), 400, ""),
        (json!({ "words": ["a"], "until": 5 }), 400, "until"),
        (json!({ "words": "a" }), 400, ""),
        (json!({}), 400, ""),
    ] {
        let answer = server.call("ann", "POST", "/filters", &draft).await;
        assert_eq!(answer.status, status, "{draft}: {answer:?}");
        if !field.is_empty() {
            assert_eq!(answer.body["error"]["field"], field, "{draft}: {answer:?}");
        }
    }
    let words = json!({ "words": [" Rust ", "rust", "日本語"] });
    let made = server.done("ann", "POST", "/filters", &words).await;
    let expected = json!(["home", "lists", "topics", "comments", "notifications"]);
    assert_eq!((&made["words"], &made["in"]), (&json!(["Rust", "日本語"]), &expected));
    assert_eq!((&made["action"], &made["whole_word"], made.get("until")), (&json!("hide"), &json!(true), None));
    let path = format!("/filters/{}", made["id"]);
    let later = made["created_at"].as_u64().expect("a time") + 3_600_000;
    let change = json!({ "action": "warn", "in": ["topics", "home"], "whole_word": false, "until": later });
    let changed = server.done("ann", "PATCH", &path, &change).await;
    assert_eq!((&changed["words"], &changed["in"]), (&made["words"], &json!(["home", "topics"])));
    assert_eq!((&changed["action"], &changed["until"]), (&json!("warn"), &json!(later)));
    let changed = server.done("ann", "PATCH", &path, &json!({ "until": null, "words": ["go"] })).await;
    assert_eq!((&changed["words"], changed.get("until"), &changed["action"]), (&json!(["go"]), None, &json!("warn")));
    assert_eq!(get(&server, "ann", "/filters").await, json!({ "items": [changed] }));
    for (method, body) in [("PATCH", json!({ "action": "hide" })), ("DELETE", Value::Null)] {
        assert_eq!(server.call("bo", method, &path, &body).await.status, 404, "{method}");
    }
    assert_eq!(get(&server, "bo", "/filters").await, json!({ "items": [] }));
    for n in 1..20 {
        filter(&server, "ann", &[&format!("w{n}")], json!({})).await;
    }
    let refused = server.call("ann", "POST", "/filters", &json!({ "words": ["one more"] })).await;
    assert_eq!(
        (refused.status.as_u16(), &refused.body["error"]["code"]),
        (422, &json!("limit_exceeded")),
        "{refused:?}"
    );
    let export = get(&server, "ann", "/accounts/export").await;
    assert_eq!(export["filters"].as_array().map(Vec::len), Some(20), "{export}");
    delete(&server, "ann", made["id"].as_u64().expect("an id")).await;
    assert_eq!(server.call("ann", "DELETE", &path, &Value::Null).await.status, 404);
}

#[tokio::test]
async fn a_filter_ends_at_its_time() {
    let server = Server::start().await;
    server.post("bo", "hello").await;
    server.follow("ann", "bo").await;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time");
    let until = u64::try_from((now + Duration::from_secs(3)).as_millis()).expect("a time");
    filter(&server, "ann", &["rust"], json!({ "until": until })).await;
    let muted = server.post("bo", "rust").await;
    let shown = server.post("bo", "other").await;
    lists(&server, "ann", "/timeline?limit=1", &[shown]).await;
    assert!(!ids(&items(&server, "ann", "/timeline").await).contains(&muted));
    lists(&server, "ann", "/timeline?limit=2", &[shown, muted]).await;
}
