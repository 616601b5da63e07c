//! Reposts and quotes: who sees them, how often a timeline shows a post, and what is pushed. Each test runs with both
//! ledgers and both brokers.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Client;
use crate::moderation::{read, suspend, unsuspend};
use crate::redis_server::RedisServer;
use crate::server::{Server, until};

/// A server, with the Redis that it may use.
struct Setup {
    server: Server,
    _redis: Option<RedisServer>,
}

impl Setup {
    async fn all() -> [Self; 2] {
        let redis = RedisServer::start();
        let postgres = crate::postgres_server::shared();
        let ledger = postgres.url(&postgres.migrated().await);
        let server = Server::start_with(&[("broker.url", &redis.url()), ("ledger.url", &ledger)]).await;
        [Self { server: Server::start().await, _redis: None }, Self { server, _redis: Some(redis) }]
    }
}

async fn items(server: &Server, user: &str, path: &str) -> Vec<Value> {
    server.done(user, "GET", path, &Value::Null).await["items"].as_array().expect("items").clone()
}

pub(crate) async fn ids(server: &Server, user: &str, path: &str) -> Vec<u64> {
    items(server, user, path).await.iter().map(|item| item["id"].as_u64().expect("an id")).collect()
}

/// Waits until a list has these posts: a fan-out ends after the reply.
async fn lists(server: &Server, user: &str, path: &str, expected: &[u64]) {
    until(&format!("{path} of {user} is {expected:?}"), async || ids(server, user, path).await == expected).await;
}

pub(crate) async fn repost(server: &Server, user: &str, post: u64) -> u64 {
    let repost = server.done(user, "PUT", &format!("/posts/{post}/repost"), &Value::Null).await;
    assert_eq!((&repost["author"], repost["repost"].is_object()), (&json!(user), true), "{repost}");
    repost["id"].as_u64().expect("an id")
}

async fn quote(server: &Server, user: &str, post: u64) -> Value {
    server.done(user, "POST", "/posts", &json!({ "text": "look at this", "quote": post })).await
}

async fn status(server: &Server, user: &str, method: &str, path: &str) -> u16 {
    server.call(user, method, path, &Value::Null).await.status.as_u16()
}

async fn notified(server: &Server, user: &str, kind: &str) -> Vec<Value> {
    let groups = items(server, user, "/notifications").await.into_iter().filter(|group| group["kind"] == kind);
    groups.flat_map(|group| group["people"].as_array().expect("people").clone()).map(|it| it["id"].clone()).collect()
}

#[tokio::test]
async fn followers_see_a_reposted_post() {
    for Setup { server, .. } in &Setup::all().await {
        server.follow("fan", "bo").await;
        let post = server.post("ann", "by ann #hers").await;
        let first = repost(server, "bo", post).await;
        assert_eq!(repost(server, "bo", post).await, first, "one a user and post");
        assert_eq!(repost(server, "bo", first).await, first, "a repost means the post");
        lists(server, "fan", "/timeline", &[first]).await;
        for (user, path) in [
            ("fan", "/timeline".to_owned()),
            ("bo", "/timeline".to_owned()),
            ("stranger", "/users/bo/posts".to_owned()),
            ("stranger", "/users/bo/posts?only=reposts".to_owned()),
            ("stranger", format!("/posts?ids={first}")),
        ] {
            let page = server.done(user, "GET", &path, &Value::Null).await;
            let shown = &page["items"][0];
            assert_eq!((&shown["id"], &shown["author"]), (&json!(first), &json!("bo")), "{user} {path}: {page}");
            let inner = &shown["repost"];
            assert_eq!(
                (&inner["id"], &inner["text"], &inner["reposts"]),
                (&json!(post), &json!("by ann #hers"), &json!(1))
            );
            assert_eq!(inner["liked"], false, "with the reader's flags: {inner}");
            assert_eq!((&shown["can_comment"], &inner["can_comment"]), (&json!(false), &json!(true)), "{path}");
            assert_eq!(page["people"]["ann"]["id"], "ann", "{path}: {page}");
        }
        assert!(ids(server, "fan", "/users/bo/posts?without=reposts").await.is_empty());
        assert_eq!(ids(server, "fan", "/posts/explore").await, [post], "not in explore");
        assert_eq!(ids(server, "fan", "/topics/hers/posts").await, [post], "nor in a topic");
        let reposters = items(server, "fan", &format!("/posts/{post}/reposts")).await;
        assert_eq!(reposters[0]["id"], "bo");
        until("the author is notified", async || notified(server, "ann", "repost").await == ["bo"]).await;
        // What is meant for the post.
        for (method, path, body) in [
            ("PUT", format!("/posts/{first}/like"), Value::Null),
            ("POST", format!("/posts/{first}/comments"), json!({ "text": "x" })),
            ("PUT", format!("/favourites/post/{first}"), Value::Null),
            ("PATCH", format!("/posts/{first}"), json!({ "text": "x" })),
        ] {
            let answer = server.call("bo", method, &path, &body).await;
            let text = answer.body.to_string();
            assert!(answer.status == 400 && text.contains(&post.to_string()), "{method} {path}: {answer:?}");
        }
        // Taken back by the post, and by the repost.
        server.done("bo", "DELETE", &format!("/posts/{post}/repost"), &Value::Null).await;
        assert_eq!(status(server, "fan", "GET", &format!("/posts/{first}")).await, 404);
        assert!(ids(server, "fan", "/timeline").await.is_empty());
        until("the notification ends", async || notified(server, "ann", "repost").await.is_empty()).await;
        server.done("bo", "DELETE", &format!("/posts/{post}/repost"), &Value::Null).await;
        let second = repost(server, "bo", post).await;
        assert_ne!(second, first);
        server.done("bo", "DELETE", &format!("/posts/{second}"), &Value::Null).await;
        let shown = server.done("fan", "GET", &format!("/posts/{post}"), &Value::Null).await;
        assert_eq!((&shown["reposts"], &shown["quotes"]), (&json!(0), &json!(0)));
        assert_eq!(server.done("fan", "GET", "/users/bo", &Value::Null).await["posts"], 0);
    }
}

#[tokio::test]
async fn only_posts_for_everyone_are_reposted() {
    for Setup { server, .. } in &Setup::all().await {
        server.follow("bo", "ann").await;
        server.follow("fan", "bo").await;
        let post = async |visibility: Value| {
            let body = json!({ "text": "by ann", "visibility": visibility });
            server.done("ann", "POST", "/posts", &body).await["id"].as_u64().expect("an id")
        };
        let followers = post(json!("followers")).await;
        let not_to = post(json!({ "not_to": ["fan"] })).await;
        let path = |post: u64| format!("/posts/{post}/repost");
        assert_eq!(status(server, "bo", "PUT", &path(followers)).await, 403);
        assert_eq!(status(server, "stranger", "PUT", &path(followers)).await, 404);
        assert_eq!(status(server, "fan", "PUT", &path(not_to)).await, 404);
        assert_eq!(status(server, "fan", "PUT", &path(77)).await, 404);
        let hidden = repost(server, "bo", not_to).await;
        assert!(ids(server, "fan", "/timeline").await.is_empty(), "the post is not for them");
        assert_eq!(status(server, "fan", "GET", &format!("/posts/{hidden}")).await, 404);
        assert_eq!(ids(server, "stranger", "/users/bo/posts").await, [hidden]);
        // One's own posts: a repost is never seen by more.
        let own = repost(server, "ann", followers).await;
        assert_eq!(ids(server, "bo", "/users/ann/posts?only=reposts").await, [own]);
        assert!(ids(server, "stranger", "/users/ann/posts?only=reposts").await.is_empty());
        // For the followers of the one who reposts.
        let public = server.post("cy", "by cy").await;
        let body = json!({ "visibility": "followers" });
        let some = server.done("bo", "PUT", &path(public), &body).await["id"].clone();
        lists(server, "fan", "/timeline", &[some.as_u64().expect("an id")]).await;
        assert!(!json!(ids(server, "stranger", "/users/bo/posts").await).to_string().contains(&some.to_string()));
        assert!(items(server, "stranger", &format!("/posts/{public}/reposts")).await.is_empty(), "nor who reposted");
        assert!(notified(server, "cy", "repost").await.is_empty(), "the author may not see it");
        let wrong = server.call("bo", "PUT", &path(public), &json!({ "visibility": "friends" })).await;
        assert_eq!(wrong.status, 400);
        server.done("cy", "PATCH", "/users/me", &json!({ "locked": true })).await;
        server.done("cy", "PATCH", "/users/me", &json!({ "locked": false })).await;
        server.done("ann", "PATCH", "/users/me", &json!({ "locked": true })).await;
        let open = post(json!("public")).await;
        assert_eq!(status(server, "bo", "PUT", &path(open)).await, 403, "a follower of a locked account");
    }
}

#[tokio::test]
async fn a_timeline_shows_a_post_once_a_day() {
    for Setup { server, .. } in &Setup::all().await {
        for user in ["bo", "cy", "di"] {
            server.follow("fan", user).await;
        }
        let mut fan = Client::connect(server, "fan").await;
        let post = server.post("ann", "by ann").await;
        let first = repost(server, "bo", post).await;
        assert_eq!(fan.publication("timeline:fan").await["data"]["post"]["repost"]["id"], post);
        let second = repost(server, "cy", post).await;
        let told = fan.publication("timeline:fan").await["data"].clone();
        assert_eq!(
            told,
            json!({
                "type": "reposted", "id": post, "repost": second, "by": { "id": "cy", "name": "cy" }
            })
        );
        repost(server, "di", post).await;
        repost(server, "stranger", post).await;
        let page = server.done("fan", "GET", "/timeline", &Value::Null).await;
        assert_eq!(json!(page["items"].as_array().map(Vec::len)), json!(1), "{page}");
        assert_eq!(page["items"][0]["id"], first);
        assert_eq!(page["items"][0]["reposted_by"], json!({ "people": ["cy", "di"], "count": 2 }), "{page}");
        assert_eq!((&page["people"]["di"]["id"], &page["read"]["unread"]), (&json!("di"), &json!(1)), "{page}");
        // The first one is taken back: its repeat is shown, at its place.
        server.done("bo", "DELETE", &format!("/posts/{post}/repost"), &Value::Null).await;
        assert_eq!(ids(server, "fan", "/timeline").await, [second]);
        // With the post itself, no repost is shown.
        server.follow("fan", "ann").await;
        let page = server.done("fan", "GET", "/timeline", &Value::Null).await;
        assert_eq!(page["items"][0]["id"], post, "{page}");
        assert_eq!(page["items"].as_array().map(Vec::len), Some(1), "{page}");
        assert_eq!(page["items"][0]["reposted_by"], json!({ "people": ["cy", "di"], "count": 2 }));
        server.done("fan", "DELETE", "/users/ann/follow", &Value::Null).await;
        assert_eq!(ids(server, "fan", "/timeline").await, [second]);
        server.done("fan", "DELETE", "/users/cy/follow", &Value::Null).await;
        until("none is missing while a source is left", async || ids(server, "fan", "/timeline").await.len() == 1)
            .await;
        let third = ids(server, "fan", "/timeline").await;
        // One's own timeline has one's own repost.
        let own = repost(server, "fan", post).await;
        assert_eq!(ids(server, "fan", "/timeline").await, third, "after that of another: not {own}");
    }
}

#[tokio::test]
async fn reposts_of_a_followee_are_switched_off() {
    for Setup { server, .. } in &Setup::all().await {
        server.follow("fan", "bo").await;
        let mut fan = Client::connect(server, "fan").await;
        let post = server.post("ann", "by ann").await;
        let first = repost(server, "bo", post).await;
        let own = server.post("bo", "by bo").await;
        let of_fan = async || ids(server, "fan", "/timeline").await;
        lists(server, "fan", "/timeline", &[own, first]).await;
        for id in [first, own] {
            assert_eq!(fan.publication("timeline:fan").await["data"]["post"]["id"], id);
        }
        server.done("fan", "PUT", "/users/bo/reposts/mute", &Value::Null).await;
        assert_eq!(of_fan().await, [own]);
        let gone = fan.publication("timeline:fan").await["data"].clone();
        assert_eq!((&gone["type"], &gone["id"]), (&json!("gone"), &json!(first)), "{gone}");
        let edges = server.done("fan", "GET", "/users/bo", &Value::Null).await["edges"].clone();
        assert_eq!((&edges["reposts_off"], &edges["muting"]), (&json!(true), &json!(false)));
        assert_eq!(ids(server, "fan", "/users/bo/posts").await, [own, first], "the profile has them");
        let another = server.post("ann", "by ann again").await;
        let second = repost(server, "bo", another).await;
        let next = server.post("bo", "by bo again").await;
        assert_eq!(fan.publication("timeline:fan").await["data"]["post"]["id"], next, "no repost before it");
        assert_eq!(of_fan().await, [next, own]);
        server.done("fan", "DELETE", "/users/bo/reposts/mute", &Value::Null).await;
        assert_eq!(of_fan().await, [next, second, own, first]);
        for id in [first, second] {
            assert_eq!(fan.publication("timeline:fan").await["data"]["post"]["id"], id, "they return");
        }
        assert_eq!(status(server, "fan", "PUT", "/users/nobody/reposts/mute").await, 404);
    }
}

#[tokio::test]
async fn a_repost_leaves_with_its_post() {
    for Setup { server, .. } in &Setup::all().await {
        server.follow("fan", "bo").await;
        let mut fan = Client::connect(server, "fan").await;
        let scene = async |server: &Server, fan: &mut Client| {
            let post = server.post("ann", "by ann").await;
            let repost = repost(server, "bo", post).await;
            assert_eq!(fan.publication("timeline:fan").await["data"]["post"]["id"], repost);
            (post, repost)
        };
        let is_gone = async |server: &Server, fan: &mut Client, repost: u64| {
            assert!(!ids(server, "fan", "/timeline").await.contains(&repost));
            assert_eq!(status(server, "fan", "GET", &format!("/posts/{repost}")).await, 404);
            let gone = fan.publication("timeline:fan").await["data"].clone();
            assert_eq!((&gone["type"], &gone["id"]), (&json!("gone"), &json!(repost)), "{gone}");
        };
        let (post, first) = scene(server, &mut fan).await;
        let narrower = json!({ "visibility": "followers" });
        server.done("ann", "PATCH", &format!("/posts/{post}"), &narrower).await;
        is_gone(server, &mut fan, first).await;
        server.done("ann", "PATCH", &format!("/posts/{post}"), &json!({ "visibility": "public" })).await;
        assert!(ids(server, "fan", "/timeline").await.contains(&first), "and returns with it");
        let (post, second) = scene(server, &mut fan).await;
        server.done("ann", "DELETE", &format!("/posts/{post}"), &Value::Null).await;
        is_gone(server, &mut fan, second).await;
        assert_eq!(status(server, "bo", "DELETE", &format!("/posts/{second}")).await, 200, "bo can still delete it");
        assert_eq!(fan.publication("timeline:fan").await["data"]["id"], second);
        let (_, third) = scene(server, &mut fan).await;
        suspend(server, "ann", "suspended").await;
        assert!(ids(server, "fan", "/timeline").await.is_empty());
        let mut gone = Vec::new();
        for _ in 0..2 {
            let event = fan.publication("timeline:fan").await["data"].clone();
            gone.push(event["id"].as_u64().expect("an id"));
        }
        assert!(gone.contains(&first) && gone.contains(&third), "{gone:?}");
        unsuspend(server, "ann").await;
        assert_eq!(ids(server, "fan", "/timeline").await, [third, first]);
        // What the reader thinks of its author decides, too.
        server.done("fan", "PUT", "/users/ann/mute", &Value::Null).await;
        assert!(ids(server, "fan", "/timeline").await.is_empty());
        let muted = server.post("ann", "muted").await;
        let fourth = repost(server, "bo", muted).await;
        loop {
            let unseen = fan.publication("timeline:fan").await["data"].clone();
            assert_eq!((&unseen["type"], &unseen["reason"]), (&json!("gone"), &json!("hidden")), "{unseen}");
            if unseen["id"] == fourth {
                break;
            }
        }
        assert!(ids(server, "fan", "/timeline").await.is_empty());
        server.done("bo", "DELETE", &format!("/posts/{fourth}"), &Value::Null).await;
        server.done("fan", "DELETE", "/users/ann/mute", &Value::Null).await;
        server.done("ann", "PUT", "/users/fan/block", &Value::Null).await;
        assert!(ids(server, "fan", "/timeline").await.is_empty());
        assert_eq!(ids(server, "stranger", "/users/bo/posts").await, [third, first]);
    }
}

#[tokio::test]
async fn a_block_takes_reposts_of_the_other_from_everybody() {
    for Setup { server, .. } in &Setup::all().await {
        server.follow("fan", "bo").await;
        server.follow("fan", "cy").await;
        let post = server.post("ann", "by ann").await;
        // The inbox is filled before it gets a post: one that arrives meanwhile moves to a new offset.
        let before = server.done("fan", "GET", "/timeline", &Value::Null).await["position"].clone();
        let by_bo = repost(server, "bo", post).await;
        lists(server, "fan", "/timeline", &[by_bo]).await;
        let by_cy = repost(server, "cy", post).await;
        until("the repeat is counted", async || {
            items(server, "fan", "/timeline").await[0]["reposted_by"]["count"] == 1
        })
        .await;
        for (by, of) in [("ann", "bo"), ("bo", "ann")] {
            server.done(by, "PUT", &format!("/users/{of}/block"), &Value::Null).await;
            let what = format!("{by} blocks {of}");
            assert_eq!(ids(server, "fan", "/timeline").await, [by_cy], "{what}: another repost takes its place");
            for reader in ["fan", "stranger", "bo"] {
                assert!(ids(server, reader, "/users/bo/posts").await.is_empty(), "{what}: {reader}");
                assert_eq!(status(server, reader, "GET", &format!("/posts/{by_bo}")).await, 404, "{what}: {reader}");
            }
            server.done(by, "DELETE", &format!("/users/{of}/block"), &Value::Null).await;
            assert_eq!(ids(server, "fan", "/timeline").await, [by_bo], "{what}: it returns");
            assert_eq!(ids(server, "stranger", "/users/bo/posts").await, [by_bo], "{what}");
        }
        // Pushes and recovery leave it out as well.
        server.done("bo", "PUT", "/users/ann/block", &Value::Null).await;
        let (offset, epoch) = (&before["offset"], before["epoch"].as_str().expect("an epoch"));
        let updates = format!("/timeline/updates?offset={offset}&epoch={epoch}");
        let updates = server.done("fan", "GET", &updates, &Value::Null).await;
        let posts = updates["items"].as_array().expect("items").iter().map(|it| &it["data"]["post"]["id"]);
        assert_eq!(posts.filter(|id| !id.is_null()).collect::<Vec<_>>(), [&json!(by_cy)], "{before} {updates}");
    }
}

#[tokio::test]
async fn readers_see_a_quoted_post_only_if_they_may() {
    for Setup { server, .. } in &Setup::all().await {
        server.follow("fan", "bo").await;
        server.follow("other", "bo").await;
        server.follow("fan", "ann").await;
        server.follow("bo", "ann").await;
        let body = json!({ "text": "by ann for followers", "visibility": "followers" });
        let post = server.done("ann", "POST", "/posts", &body).await["id"].as_u64().expect("an id");
        let mut fan = Client::connect(server, "fan").await;
        let mut other = Client::connect(server, "other").await;
        for client in [&mut fan, &mut other] {
            client.subscribe("user:bo").await;
        }
        let quoted = quote(server, "bo", post).await;
        assert_eq!((&quoted["quote"]["state"], &quoted["quote"]["post"]["id"]), (&json!("shown"), &json!(post)));
        let id = quoted["id"].as_u64().expect("an id");
        let unavailable = json!({ "id": post, "state": "unavailable" });
        for channel in ["timeline:fan", "user:bo"] {
            let shown = fan.publication(channel).await["data"]["post"]["quote"].clone();
            assert_eq!(
                (&shown["state"], &shown["post"]["text"]),
                (&json!("shown"), &body["text"]),
                "{channel}: {shown}"
            );
        }
        for channel in ["timeline:other", "user:bo"] {
            assert_eq!(other.publication(channel).await["data"]["post"]["quote"], unavailable, "{channel}");
        }
        let seen =
            async |user: &str| server.done(user, "GET", &format!("/posts/{id}"), &Value::Null).await["quote"].clone();
        assert_eq!(seen("fan").await["state"], "shown");
        assert_eq!(seen("other").await, unavailable);
        assert_eq!(items(server, "other", "/timeline").await[0]["quote"], unavailable);
        until("the author is notified", async || notified(server, "ann", "quote").await == ["bo"]).await;
        assert_eq!(ids(server, "fan", &format!("/posts/{post}/quotes")).await, [id]);
        assert_eq!(ids(server, "fan", "/users/bo/posts?only=quotes").await, [id]);
        assert_eq!(server.done("fan", "GET", &format!("/posts/{post}"), &Value::Null).await["quotes"], 1);
        // A repost of the quote shows the quoted post to the same readers.
        let reposted = repost(server, "cy", id).await;
        let of_cy = async |user: &str| items(server, user, "/users/cy/posts").await[0]["repost"]["quote"].clone();
        assert_eq!((of_cy("fan").await["state"].clone(), of_cy("other").await), (json!("shown"), unavailable.clone()));
        // A quote of a quote shows one level.
        let outer = quote(server, "cy", reposted).await;
        assert_eq!((&outer["quote"]["id"], &outer["quote"]["post"]["quote"]), (&json!(id), &Value::Null), "{outer}");
        // Deleted, and a quote that is deleted.
        server.done("bo", "DELETE", &format!("/posts/{id}"), &Value::Null).await;
        assert_eq!(server.done("fan", "GET", &format!("/posts/{post}"), &Value::Null).await["quotes"], 0);
        until("its notification ends", async || notified(server, "ann", "quote").await.is_empty()).await;
        let id = outer["id"].as_u64().expect("an id");
        let shown = server.done("cy", "GET", &format!("/posts/{id}"), &Value::Null).await["quote"].clone();
        assert_eq!(shown["state"], "unavailable", "{shown}");
        let empty = server.call("bo", "POST", "/posts", &json!({ "text": " ", "quote": post })).await;
        assert_eq!(empty.status, 400, "{empty:?}");
    }
}

#[tokio::test]
async fn authors_decide_who_quotes_them() {
    for Setup { server, .. } in &Setup::all().await {
        server.follow("fan", "ann").await;
        let post = server.post("ann", "by ann").await;
        for user in ["rude", "shy", "stranger", "cy"] {
            server.done(user, "GET", "/users/ann", &Value::Null).await;
        }
        let may = async |user: &str| {
            server.call(user, "POST", "/posts", &json!({ "text": "hm", "quote": post })).await.status.as_u16()
        };
        for (quotable, fan, stranger) in [("everyone", 201, 201), ("followers", 201, 403), ("nobody", 403, 403)] {
            let details = server.done("ann", "PATCH", "/users/me", &json!({ "quotable": quotable })).await;
            assert_eq!(details["quotable"], quotable);
            assert_eq!((may("fan").await, may("stranger").await, may("ann").await), (fan, stranger, 201), "{quotable}");
        }
        assert_eq!(server.call("ann", "PATCH", "/users/me", &json!({ "quotable": "friends" })).await.status, 400);
        server.done("ann", "PATCH", "/users/me", &json!({ "quotable": "everyone", "bio": "hi" })).await;
        server.done("ann", "PUT", "/users/rude/block", &Value::Null).await;
        assert_eq!(may("rude").await, 404, "a block either way");
        server.done("shy", "PUT", "/users/ann/block", &Value::Null).await;
        assert_eq!(may("shy").await, 404);
        // Detached for good, by the author of the quoted post alone, and also if they may not see the quote.
        let id = quote(server, "bo", post).await["id"].as_u64().expect("an id");
        let path = format!("/posts/{id}/quote");
        let before = server.done("fan", "GET", &format!("/posts/{post}"), &Value::Null).await["quotes"].clone();
        assert_eq!(status(server, "fan", "DELETE", &path).await, 403);
        server.done("bo", "PUT", "/users/ann/block", &Value::Null).await;
        assert_eq!(status(server, "ann", "GET", &format!("/posts/{id}")).await, 404);
        for _ in 0..2 {
            assert_eq!(status(server, "ann", "DELETE", &path).await, 200);
        }
        let seen = server.done("fan", "GET", &format!("/posts/{id}"), &Value::Null).await["quote"].clone();
        assert_eq!(seen, json!({ "id": post, "state": "detached" }));
        let after = server.done("fan", "GET", &format!("/posts/{post}"), &Value::Null).await["quotes"].clone();
        assert_eq!(before.as_u64().map(|count| count - 1), after.as_u64());
        assert!(!ids(server, "fan", &format!("/posts/{post}/quotes")).await.contains(&id));
        server.done("bo", "PATCH", &format!("/posts/{id}"), &json!({ "text": "edited" })).await;
        let seen = server.done("fan", "GET", &format!("/posts/{id}"), &Value::Null).await;
        assert_eq!((&seen["text"], &seen["quote"]["state"]), (&json!("edited"), &json!("detached")));
        assert_eq!(status(server, "ann", "DELETE", &format!("/posts/{post}/quote")).await, 404, "it quotes nothing");
        // All of one person's.
        let all = [quote(server, "fan", post).await, quote(server, "fan", post).await];
        server.done("ann", "DELETE", "/quotes?user=fan", &Value::Null).await;
        for quote in all {
            let path = format!("/posts/{}", quote["id"]);
            assert_eq!(server.done("fan", "GET", &path, &Value::Null).await["quote"]["state"], "detached");
        }
        let (_, quotes) = read(server, "cy", &format!("/posts/{post}/quotes")).await;
        assert!(!quotes.contains(r#""author":"fan""#) && quotes.contains(r#""author":"ann""#), "{quotes}");
    }
}

#[tokio::test]
async fn the_suspension_of_those_who_repost_each_other_ends() {
    for Setup { server, .. } in &Setup::all().await {
        for user in ["ann", "bo", "cy"] {
            server.follow("fan", user).await;
        }
        let by_ann = server.post("ann", "by ann").await;
        let by_bo = server.post("bo", "by bo").await;
        for (user, post) in [("ann", by_ann), ("ann", by_bo), ("bo", by_ann), ("bo", by_bo)] {
            repost(server, user, post).await;
        }
        let mut fan = Client::connect(server, "fan").await;
        for user in ["ann", "bo"] {
            suspend(server, user, "suspended").await;
        }
        // Each repost is announced once at most for each of the two, beside the authors.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let last = server.post("cy", "by cy").await;
        let mut events = 0;
        while fan.publication("timeline:fan").await["data"]["post"]["id"] != last {
            events += 1;
            assert!(events < 20, "an announcement causes others");
        }
    }
}

#[tokio::test]
async fn readers_in_one_batch_get_what_their_own_timelines_lack() {
    for Setup { server, .. } in &Setup::all().await {
        server.follow("fan", "bo").await;
        server.follow("other", "ann").await;
        let mut fan = Client::connect(server, "fan").await;
        let _other = Client::connect(server, "other").await;
        for round in 0..15 {
            let post = server.post("ann", "by ann").await;
            let (first, _) = tokio::join!(repost(server, "bo", post), server.post("ann", "and another"));
            let shown = fan.publication("timeline:fan").await["data"].clone();
            assert_eq!((&shown["type"], &shown["post"]["id"]), (&json!("post"), &json!(first)), "{round}: {shown}");
        }
    }
}
