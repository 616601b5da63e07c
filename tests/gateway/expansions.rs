//! Expansions of posts on request: likers, comments, people.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Client;
use crate::redis_server::RedisServer;
use crate::server::{PATIENCE, Server};

const ALL: &str = "likers,comments,people";

/// Likes a post as each of these users in turn, and waits until that many likes are settled.
async fn like(server: &Server, post: u64, likers: impl Iterator<Item = String>, many: usize) {
    for liker in likers {
        server.done(&liker, "PUT", &format!("/posts/{post}/like"), &Value::Null).await;
    }
    let until = Instant::now() + PATIENCE;
    while get(server, "bo", &format!("/posts/{post}")).await["likes"] != many {
        assert!(Instant::now() < until, "the likes of {post} are not settled");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn comment(server: &Server, who: &str, post: u64, text: &str) -> u64 {
    let comment = json!({ "text": text });
    server.done(who, "POST", &format!("/posts/{post}/comments"), &comment).await["id"].as_u64().expect("an id")
}

async fn get(server: &Server, who: &str, path: &str) -> Value {
    server.done(who, "GET", path, &Value::Null).await
}

fn names(of: &Value) -> BTreeSet<&str> {
    of.as_object().expect("people").keys().map(String::as_str).collect()
}

/// The ids of a list of people or comments.
fn ids(list: &Value) -> Vec<Value> {
    list["items"].as_array().expect("items").iter().map(|item| item["id"].clone()).collect()
}

#[tokio::test]
async fn every_post_list_expands_its_previews() {
    brings_along(&Server::start_with(&[("auth.anonymous", "true")]).await).await;
}

#[tokio::test]
async fn every_post_list_expands_its_previews_with_redis() {
    let redis = RedisServer::start();
    brings_along(&Server::start_with(&[("auth.anonymous", "true"), ("broker.url", &redis.url())]).await).await;
}

async fn brings_along(server: &Server) {
    server.follow("ann", "bo").await;
    get(server, "dee", "/users/dee").await;
    let quiet = server.post("bo", "nothing came of it #t").await;
    let post = server.post("bo", "to @dee and @nobody #t").await;
    like(server, post, (0..11).map(|n| format!("u{n}")), 11).await;
    let mut comments = Vec::new();
    for n in 0..5 {
        comments.push(comment(server, &format!("c{n}"), post, &format!("for @e{n}")).await);
    }
    get(server, "e4", "/users/e4").await;
    let reply = json!({ "text": "a reply", "reply_to": comments[4] });
    server.done("c0", "POST", &format!("/posts/{post}/comments"), &reply).await;
    for one in [quiet, post] {
        server.done("ann", "PUT", &format!("/favourites/post/{one}"), &Value::Null).await;
    }

    let likers = ids(&get(server, "ann", &format!("/posts/{post}/likes?limit=8")).await);
    assert_eq!((likers.len(), &likers[0]), (8, &json!("u10")));
    let mut newest = get(server, "ann", &format!("/posts/{post}/comments?limit=3")).await;
    // Only lists of comments say what the reader likes.
    for comment in newest["items"].as_array_mut().expect("comments") {
        assert_eq!(comment.as_object_mut().expect("a comment").remove("liked"), Some(json!(false)));
    }
    let said: Vec<&u64> = comments.iter().rev().take(3).collect();
    assert_eq!(json!(ids(&newest)), json!(said));
    let all: BTreeSet<&str> =
        ["bo", "dee", "c4", "c3", "c2", "e4"].into_iter().chain(likers.iter().filter_map(Value::as_str)).collect();

    let mut ann = Client::connect(server, "ann").await;
    for (method, path, mut input) in [
        ("timeline.read", "/timeline?", json!({})),
        ("users.posts", "/users/bo/posts?", json!({ "id": "bo" })),
        ("topics.read", "/topics/t/posts?", json!({ "name": "t" })),
        ("favourites.list", "/favourites/post?", json!({ "type": "post" })),
        ("posts.get", &format!("/posts/{post}?"), json!({ "id": post })),
    ] {
        let plain = ann.rpc(method, &input).await;
        let received = get(server, "ann", &format!("{path}with={ALL}")).await;
        input["with"] = json!(["likers", "comments", "people"]);
        assert_eq!(received, ann.rpc(method, &input).await, "{method}: by HTTP, and over the socket");
        let items = |page: &Value| match method {
            "posts.get" => vec![page.clone()],
            "favourites.list" => page["items"].as_array().unwrap().iter().map(|item| item["post"].clone()).collect(),
            _ => page["items"].as_array().expect("items").clone(),
        };
        let items_with = items(&received);
        assert_eq!(items_with[0]["id"], post, "{method}");
        assert_eq!(items_with[0]["likers"], json!(likers), "{method}");
        assert_eq!(items_with[0]["newest_comments"], newest["items"], "{method}");
        assert_eq!(names(&received["people"]), all, "{method}");
        assert_eq!(received["people"]["dee"], json!({ "id": "dee", "name": "dee" }), "{method}");
        if let Some(quiet) = items_with.get(1) {
            assert_eq!((&quiet["likers"], &quiet["newest_comments"]), (&json!([]), &json!([])), "{method}");
        }
        // Each expansion alone, without any other that was not requested.
        for (part, member) in [("likers", "likers"), ("comments", "newest_comments"), ("people", "id")] {
            input["with"] = json!(part);
            let page = ann.rpc(method, &input).await;
            for item in items(&page) {
                let has: Vec<&str> =
                    ["likers", "newest_comments"].into_iter().filter(|it| item.get(it).is_some()).collect();
                let should: Vec<&str> = [member].into_iter().filter(|it| *it != "id").collect();
                assert_eq!(has, should, "{method} with {part}");
            }
            match (part, method) {
                ("people", _) => assert_eq!(names(&page["people"]), ["bo", "dee"].into(), "{method}"),
                (_, "posts.get") => assert!(page.get("people").is_none(), "{page}"),
                _ => assert_eq!(names(&page["people"]), ["bo"].into(), "{method}"),
            }
        }
        input["with"] = json!([]);
        assert_eq!(ann.rpc(method, &input).await, plain, "{method}");
        assert!(items(&plain).iter().all(|it| it.get("likers").is_none() && it.get("newest_comments").is_none()));
    }
    let mut nobody = Client::open(server).await;
    nobody.done(json!({ "connect": {} })).await;
    let received = nobody.rpc("users.posts", &json!({ "id": "bo", "with": ALL })).await;
    assert_eq!(received["items"][0]["likers"], json!(likers), "somebody anonymous");
    assert_eq!(names(&received["people"]), all);
    let common = get(server, "ann", &format!("/favourites/post/common/bo?with={ALL}")).await;
    assert_eq!(common["items"], json!([]), "an empty list has no expansions");
}

#[tokio::test]
async fn unknown_expand_fields_are_rejected_by_name() {
    let server = Server::start().await;
    let post = server.post("bo", "a post #t").await;
    let mut bo = Client::connect(&server, "bo").await;
    for path in
        ["/timeline?", "/users/bo/posts?", "/topics/t/posts?", "/favourites/post?", "/favourites/post/common/bo?"]
            .map(str::to_owned)
            .into_iter()
            .chain([format!("/posts/{post}?")])
    {
        for wrong in ["friends", "likers,friends", "likers,", "Likers"] {
            let refused = server.call("bo", "GET", &format!("{path}with={wrong}"), &Value::Null).await;
            let error = &refused.body["error"];
            let received = (refused.status.as_u16(), &error["code"], &error["field"]);
            assert_eq!(received, (400, &json!("invalid"), &json!("with")), "{path}with={wrong}: {refused:?}");
        }
        get(&server, "bo", &format!("{path}with=")).await;
    }
    for wrong in [json!(7), json!({}), json!(["likers", 7]), json!([["likers"]])] {
        let asked = json!({ "rpc": { "method": "timeline.read", "data": { "with": wrong } } });
        assert_eq!(bo.refused(asked).await, 400, "{wrong}");
    }
    // Lists without posts do not accept the parameter.
    let refused = server.call("bo", "GET", "/users/bo/followers?with=people", &Value::Null).await;
    assert_eq!((refused.status.as_u16(), &refused.body["error"]["field"]), (400, &json!("with")));
}

#[tokio::test]
async fn previews_omit_hidden_users_and_fill_up_with_others() {
    let server = Server::start().await;
    server.follow("ann", "bo").await;
    let people = ["muted", "hiding", "blocked", "blocking"];
    let named: Vec<String> = people.iter().map(|who| format!("@{who}")).collect();
    let post = server.post("bo", &named.join(" ")).await;
    let friends = (0..9).map(|n| format!("f{n}"));
    like(&server, post, friends.clone(), 9).await;
    for friend in friends.take(4) {
        comment(&server, &friend, post, "a comment").await;
    }
    // The users that the reader cannot see like last, so they are first in the list.
    for who in people {
        comment(&server, who, post, "a comment").await;
    }
    let strangers = (0..5).map(|n| format!("s{n}"));
    let last = people.iter().map(|who| (*who).to_owned()).chain(strangers.clone());
    like(&server, post, last, 18).await;
    server.done("ann", "PUT", "/users/muted/mute", &Value::Null).await;
    server.done("hiding", "PUT", "/users/ann/hide", &Value::Null).await;
    server.done("blocking", "PUT", "/users/ann/block", &Value::Null).await;
    for who in ["blocked".to_owned()].into_iter().chain(strangers) {
        server.done("ann", "PUT", &format!("/users/{who}/block"), &Value::Null).await;
    }

    let page = get(&server, "ann", &format!("/timeline?with={ALL}")).await;
    let item = &page["items"][0];
    // A mute does not affect content that the reader opens.
    assert_eq!(item["likers"], json!(["muted", "f8", "f7", "f6", "f5", "f4", "f3", "f2"]));
    let authors: Vec<&str> =
        item["newest_comments"].as_array().unwrap().iter().filter_map(|it| it["author"].as_str()).collect();
    assert_eq!(authors, ["muted", "f3", "f2"]);
    let likers = ids(&get(&server, "ann", &format!("/posts/{post}/likes?limit=8")).await);
    assert_eq!(item["likers"], json!(likers), "as the list itself");
    // Mentioned users are included unless either side blocks the other; hides are not revealed.
    let received = names(&page["people"]);
    let expected = ["bo", "muted", "hiding", "f8", "f7", "f6", "f5", "f4", "f3", "f2"].into();
    assert_eq!(received, expected);
}
