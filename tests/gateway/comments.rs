//! Comments from the users' view: in threads, live, and after some of them were deleted.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::client::Client;
use crate::reading::cost;
use crate::server::{Answer, PATIENCE, Server};

async fn comment(server: &Server, user: &str, post: u64, body: Value) -> u64 {
    let comment = server.done(user, "POST", &format!("/posts/{post}/comments"), &body).await;
    comment["id"].as_u64().expect("an id")
}

async fn say(server: &Server, user: &str, post: u64, text: &str) -> u64 {
    comment(server, user, post, json!({ "text": text })).await
}

async fn reply(server: &Server, user: &str, post: u64, to: u64, text: &str) -> u64 {
    comment(server, user, post, json!({ "text": text, "reply_to": to })).await
}

async fn remove(server: &Server, user: &str, comment: u64) -> Answer {
    server.call(user, "DELETE", &format!("/comments/{comment}"), &Value::Null).await
}

async fn page(server: &Server, user: &str, post: u64, query: &str) -> Value {
    server.done(user, "GET", &format!("/posts/{post}/comments?{query}"), &Value::Null).await
}

fn ids(page: &Value) -> Vec<u64> {
    page["items"].as_array().expect("items").iter().map(|item| item["id"].as_u64().expect("an id")).collect()
}

fn refusal(answer: &Answer) -> (u16, &str, Option<&str>) {
    let error = &answer.body["error"];
    (answer.status.as_u16(), error["code"].as_str().unwrap_or_default(), error["field"].as_str())
}

/// The next push of this type on a post's channel.
async fn received(client: &mut Client, post: u64, kind: &str) -> Value {
    let data = client.publication(&format!("post:{post}")).await["data"].clone();
    assert_eq!(data["type"], kind, "{data}");
    data
}

/// A comment as it is pushed: without the reader's flags.
fn without_flags(comment: &Value) -> Value {
    let mut comment = comment.clone();
    assert_eq!(comment.as_object_mut().expect("a comment").remove("liked"), Some(json!(false)));
    comment
}

#[tokio::test]
async fn comments_are_listed_and_pushed_to_viewers_of_the_post() {
    let server = Server::start().await;
    let post = server.post("ann", "hello").await;
    let (mut bo, mut cy) = (Client::connect(&server, "bo").await, Client::connect(&server, "cy").await);
    for client in [&mut bo, &mut cy] {
        client.subscribe(&format!("post:{post}")).await;
    }
    let said = server.done("bo", "POST", &format!("/posts/{post}/comments"), &json!({ "text": "hi @ann, @cy" })).await;
    assert_eq!((&said["author"], &said["text"]), (&json!("bo"), &json!("hi @ann, @cy")));
    assert_eq!((&said["post"], &said["mentions"]), (&json!(post), &json!(["ann", "cy"])));
    assert_eq!((&said["likes"], &said["replies"]), (&json!(0), &json!(0)));
    for client in [&mut bo, &mut cy] {
        let arrived = received(client, post, "comment").await;
        assert_eq!(arrived["comment"], without_flags(&said));
        assert_eq!(arrived["people"]["bo"]["name"], "bo");
        let counts = received(client, post, "counts").await;
        let version = counts["version"].as_u64().expect("a version");
        assert_eq!(counts, json!({ "type": "counts", "id": post, "likes": 0, "comments": 1, "version": version }));
    }
    let listed = page(&server, "cy", post, "").await;
    assert_eq!(listed, json!({ "items": [said], "people": { "bo": { "id": "bo", "name": "bo" } } }));

    let answer = cy.rpc("comments.create", &json!({ "id": post, "text": "me too", "reply_to": said["id"] })).await;
    assert_eq!(answer["reply_to"], said["id"]);
    assert_eq!(received(&mut bo, post, "comment").await["comment"], without_flags(&answer));
    assert_eq!(received(&mut bo, post, "counts").await["comments"], 2);
    assert_eq!(page(&server, "cy", post, "").await["items"][0]["replies"], 1);
}

#[tokio::test]
async fn thread_pages_have_no_gap_or_repeat_while_comments_arrive() {
    let server = Server::start().await;
    for with_parent in [false, true] {
        let post = server.post("ann", "hello").await;
        let parent = say(&server, "bo", post, "first").await;
        let (say_it, under) = if with_parent {
            (json!({ "text": "a reply", "reply_to": parent }), format!("&reply_to={parent}"))
        } else {
            (json!({ "text": "on the post" }), String::new())
        };
        let mut wanted = if with_parent { Vec::new() } else { vec![parent] };
        for n in 0..11 {
            wanted.push(comment(&server, "bo", post, say_it.clone()).await);
            // Comments of another list do not appear in between.
            reply(&server, "cy", post, wanted[n / 2], "elsewhere").await;
        }
        wanted.reverse();
        let (mut read, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = page(&server, "di", post, &format!("limit=4{under}{cursor}")).await;
            assert!(ids(&page).len() <= 4);
            read.extend(ids(&page));
            comment(&server, "bo", post, say_it.clone()).await;
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(read, wanted, "replies: {with_parent}");
    }
}

#[tokio::test]
async fn comments_are_deleted_by_their_or_the_posts_author_only() {
    let server = Server::start().await;
    let post = server.post("ann", "hello").await;
    let (one, two) = (say(&server, "bo", post, "one").await, say(&server, "bo", post, "two").await);
    let mut cy = Client::connect(&server, "cy").await;
    cy.subscribe(&format!("post:{post}")).await;
    assert_eq!(refusal(&remove(&server, "cy", one).await), (403, "forbidden", None));
    for (user, gone, left) in [("bo", one, 1), ("ann", two, 0)] {
        assert_eq!(remove(&server, user, gone).await.status, 200);
        let data = received(&mut cy, post, "gone").await;
        assert_eq!(data, json!({ "type": "gone", "comment": gone, "stays": false }));
        assert_eq!(received(&mut cy, post, "counts").await["comments"], left);
        assert_eq!(refusal(&remove(&server, user, gone).await), (404, "not_found", None));
    }
    assert!(ids(&page(&server, "cy", post, "").await).is_empty());
}

#[tokio::test]
async fn deleted_comments_with_replies_stay_without_text() {
    let server = Server::start().await;
    let post = server.post("ann", "hello").await;
    let top = say(&server, "bo", post, "secret").await;
    let under = reply(&server, "cy", post, top, "why?").await;
    let mut di = Client::connect(&server, "di").await;
    di.subscribe(&format!("post:{post}")).await;
    remove(&server, "bo", top).await;
    assert_eq!(received(&mut di, post, "gone").await, json!({ "type": "gone", "comment": top, "stays": true }));
    assert_eq!(received(&mut di, post, "counts").await["comments"], 1);
    let left = page(&server, "di", post, "").await;
    let created_at = left["items"][0]["created_at"].clone();
    let stub = json!({ "id": top, "post": post, "created_at": created_at, "likes": 0, "replies": 1 });
    assert_eq!(left, json!({ "items": [stub], "people": {} }));
    assert_eq!(ids(&page(&server, "di", post, &format!("reply_to={top}")).await), [under]);
    let more = json!({ "text": "me too", "reply_to": top });
    let refused = server.call("di", "POST", &format!("/posts/{post}/comments"), &more).await;
    assert_eq!(refusal(&refused), (404, "not_found", None));
    assert_eq!(refusal(&remove(&server, "bo", top).await), (404, "not_found", None));

    remove(&server, "cy", under).await;
    for gone in [under, top] {
        assert_eq!(received(&mut di, post, "gone").await, json!({ "type": "gone", "comment": gone, "stays": false }));
    }
    assert!(ids(&page(&server, "di", post, "").await).is_empty());
    let nothing = server.call("di", "GET", &format!("/posts/{post}/comments?reply_to={top}"), &Value::Null).await;
    assert_eq!(refusal(&nothing), (404, "not_found", None));
}

#[tokio::test]
async fn comments_of_deleted_posts_are_unreachable() {
    let server = Server::start().await;
    let post = server.post("ann", "hello").await;
    let mine = say(&server, "bo", post, "one").await;
    let other = say(&server, "cy", post, "two").await;
    server.done("ann", "DELETE", &format!("/posts/{post}"), &Value::Null).await;
    let path = format!("/posts/{post}/comments");
    let refused = [
        server.call("bo", "GET", &path, &Value::Null).await,
        server.call("bo", "GET", &format!("{path}?reply_to={mine}"), &Value::Null).await,
        server.call("bo", "POST", &path, &json!({ "text": "x" })).await,
        server.call("bo", "POST", &path, &json!({ "text": "x", "reply_to": mine })).await,
        remove(&server, "bo", other).await,
        remove(&server, "ann", other).await,
    ];
    for answer in refused {
        assert_eq!(refusal(&answer), (404, "not_found", None), "{answer:?}");
    }
    assert_eq!(remove(&server, "bo", mine).await.status, 200, "authors can delete their own comments");
}

#[tokio::test]
async fn invalid_comments_are_rejected_with_a_reason() {
    let server = Server::start_with(&[("limits.text", "20")]).await;
    let (post, other) = (server.post("ann", "hello").await, server.post("ann", "another").await);
    let elsewhere = say(&server, "bo", other, "elsewhere").await;
    let cases = [
        (json!({ "text": "\u{e9}".repeat(21) }), (422, "limit_exceeded", Some("text"))),
        (json!({ "text": " \n " }), (400, "invalid", Some("text"))),
        (json!({}), (400, "invalid", Some("text"))),
        (json!({ "text": "x", "reply_to": elsewhere }), (404, "not_found", None)),
        (json!({ "text": "x", "reply_to": 1 }), (404, "not_found", None)),
        (json!({ "text": "x", "parent": elsewhere }), (400, "invalid", Some("parent"))),
    ];
    for (body, wrong) in cases {
        let answer = server.call("bo", "POST", &format!("/posts/{post}/comments"), &body).await;
        assert_eq!(refusal(&answer), wrong, "{body}");
    }
    let missing = server.call("bo", "POST", "/posts/1/comments", &json!({ "text": "x" })).await;
    assert_eq!(refusal(&missing), (404, "not_found", None));
    for query in ["limit=0", "limit=101", "cursor=e1"] {
        let answer = server.call("bo", "GET", &format!("/posts/{post}/comments?{query}"), &Value::Null).await;
        assert_eq!(refusal(&answer).0, 400, "{query}");
    }
    assert!(ids(&page(&server, "bo", post, "").await).is_empty(), "no comment was stored");
    say(&server, "bo", post, &"\u{e9}".repeat(20)).await;
}

#[tokio::test]
async fn concurrent_comments_are_stored_and_counted() {
    let server = Server::start().await;
    let post = server.post("ann", "hello").await;
    let mut cy = Client::connect(&server, "cy").await;
    cy.subscribe(&format!("post:{post}")).await;
    let said = futures::future::join_all((0..20).map(|n| {
        let (server, user) = (&server, format!("user-{}", n % 5));
        async move { say(server, &user, post, &format!("comment {n}")).await }
    }));
    let said: BTreeSet<u64> = said.await.into_iter().collect();
    let (mut heard, mut last) = (BTreeSet::new(), (0, 0));
    while heard.len() < 20 || last.1 < 20 {
        let data = cy.publication(&format!("post:{post}")).await["data"].clone();
        if data["type"] == "comment" {
            heard.insert(data["comment"]["id"].as_u64().expect("an id"));
        } else {
            let counts = (data["version"].as_u64().expect("a version"), data["comments"].as_u64().expect("a count"));
            assert!(counts > last, "{counts:?} after {last:?}");
            last = counts;
        }
    }
    assert_eq!(heard, said);
    assert_eq!(ids(&page(&server, "cy", post, "limit=100").await).into_iter().collect::<BTreeSet<_>>(), said);
}

#[tokio::test]
async fn comment_and_notification_round_trips_do_not_depend_on_page_length() {
    let server = Server::start().await;
    let mut ann = Client::connect(&server, "ann").await;
    let crowded = server.post("bo", "hello").await;
    for n in 0..110 {
        let (user, post) = (format!("user-{n}"), server.post("ann", "hello").await);
        say(&server, &user, crowded, "hi").await;
        say(&server, &user, post, "hi").await;
    }
    let deadline = std::time::Instant::now() + PATIENCE;
    while ann.publication("notifications:ann").await["data"]["notification"]["people"][0]["id"] != "user-109" {
        assert!(std::time::Instant::now() < deadline, "the last comment does not arrive");
    }
    for (method, mut input) in [("comments.list", json!({ "id": crowded })), ("notifications.list", json!({}))] {
        let mut costs = Vec::new();
        for limit in [1, 20, 100] {
            input["limit"] = limit.into();
            let page = ann.rpc(method, &input).await;
            assert_eq!(page["items"].as_array().map(Vec::len), Some(limit), "{method}");
            costs.push(cost(&server, &mut ann, method, &input).await);
        }
        assert!(costs.iter().all(|cost| *cost == costs[0]), "{method} of 1, 20 and 100: {costs:?}");
        assert!(costs[0].0 >= 2 && costs[0].0 <= 8, "{method} makes some round trips and not many: {costs:?}");
    }
}

#[tokio::test]
async fn restricted_users_see_no_comments_of_the_other() {
    let server = Server::start().await;
    let post = server.post("ann", "hello").await;
    let (mut bos, mut cys) = (Vec::new(), Vec::new());
    for n in 0..4 {
        cys.push(say(&server, "cy", post, &format!("{n}")).await);
        for _ in 0..5 {
            bos.push(say(&server, "bo", post, &format!("{n}")).await);
        }
    }
    let under_bo = reply(&server, "cy", post, bos[0], "to bo").await;
    server.done("di", "PUT", "/users/bo/mute", &Value::Null).await;
    assert_eq!(ids(&page(&server, "di", post, "limit=100").await).len(), 24, "a mute affects deliveries only");
    let mut di = Client::connect(&server, "di").await;
    di.subscribe(&format!("post:{post}")).await;
    server.done("di", "PUT", "/users/bo/block", &Value::Null).await;
    let (mut read, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = page(&server, "di", post, &format!("limit=2{cursor}")).await;
        assert!(ids(&page).len() == 2 || page.get("next").is_none(), "a page is filled: {page}");
        assert!(page["people"].get("bo").is_none());
        read.extend(ids(&page));
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    cys.reverse();
    assert_eq!(read, cys);
    let path = format!("/posts/{post}/comments");
    let refused = [
        server.call("di", "GET", &format!("{path}?reply_to={}", bos[0]), &Value::Null).await,
        server.call("di", "POST", &path, &json!({ "text": "x", "reply_to": bos[0] })).await,
        remove(&server, "di", bos[0]).await,
    ];
    for answer in refused {
        assert_eq!(refusal(&answer), (404, "not_found", None), "{answer:?}");
    }
    assert_eq!(ids(&page(&server, "cy", post, &format!("reply_to={}", bos[0])).await), [under_bo]);

    say(&server, "bo", post, "not for di").await;
    assert_eq!(received(&mut di, post, "counts").await["comments"], 26, "a count does not reveal users");
    let last = say(&server, "cy", post, "for di").await;
    assert_eq!(received(&mut di, post, "comment").await["comment"]["id"], last);
    say(&server, "di", post, "not for bo").await;
    assert_eq!(page(&server, "bo", post, "limit=1").await["items"][0]["id"], last);
}

#[tokio::test]
async fn comments_of_invisible_posts_are_neither_read_nor_written() {
    let server = Server::start().await;
    server.follow("bo", "ann").await;
    let body = json!({ "text": "hello", "visibility": "followers" });
    let post = server.done("ann", "POST", "/posts", &body).await["id"].as_u64().expect("an id");
    let said = say(&server, "bo", post, "hi").await;
    let path = format!("/posts/{post}/comments");
    let refused = [
        server.call("cy", "GET", &path, &Value::Null).await,
        server.call("cy", "POST", &path, &json!({ "text": "x" })).await,
        remove(&server, "cy", said).await,
    ];
    for answer in refused {
        assert_eq!(refusal(&answer), (404, "not_found", None), "{answer:?}");
    }
    assert_eq!(ids(&page(&server, "ann", post, "").await), [said]);
}
