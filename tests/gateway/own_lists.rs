//! Lists of one's own: hidden, muted and blocked users, friends, and the followees that one shares with a user.

use serde_json::{Value, json};

use crate::client::Client;
use crate::server::Server;

async fn set(server: &Server, user: &str, what: &str, target: &str) {
    server.done(user, "PUT", &format!("/users/{target}/{what}"), &Value::Null).await;
}

async fn exist(server: &Server, users: &[&str]) {
    for user in users {
        server.done(user, "GET", &format!("/users/{user}"), &Value::Null).await;
    }
}

/// The ids of all pages of this size. All pages but the last are full.
async fn ids(server: &Server, user: &str, path: &str, limit: usize) -> Vec<String> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.done(user, "GET", &format!("{path}?limit={limit}&cursor={cursor}"), &Value::Null).await;
        let items = page["items"].as_array().expect("items");
        found.extend(items.iter().map(|item| item["id"].as_str().expect("an id").to_owned()));
        let Some(next) = page["next"].as_str() else { return found };
        assert_eq!(items.len(), limit, "{path}");
        cursor = next.to_owned();
    }
}

#[tokio::test]
async fn restrictions_are_listed_latest_first() {
    let server = Server::start().await;
    let others = ["d", "a", "c", "b", "e"];
    exist(&server, &others).await;
    exist(&server, &["late"]).await;
    for (what, list) in [("hide", "hidden"), ("mute", "muted"), ("block", "blocked")] {
        let path = format!("/users/me/{list}");
        assert!(ids(&server, "ann", &path, 3).await.is_empty(), "{list}");
        for other in others {
            set(&server, "ann", what, other).await;
            // Times have the precision of a millisecond.
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        set(&server, "ann", what, "a").await;
        for limit in [1, 2, 5, 100] {
            assert_eq!(ids(&server, "ann", &path, limit).await, ["e", "b", "c", "a", "d"], "{list}, {limit} a page");
        }
        let first = server.done("ann", "GET", &format!("{path}?limit=2"), &Value::Null).await;
        set(&server, "ann", what, "late").await;
        server.done("ann", "DELETE", &format!("/users/c/{what}"), &Value::Null).await;
        let mut ann = Client::connect(&server, "ann").await;
        let rest = ann.rpc(&format!("users.{list}"), &json!({ "cursor": first["next"] })).await;
        let rest: Vec<&str> = rest["items"].as_array().unwrap().iter().filter_map(|item| item["id"].as_str()).collect();
        assert_eq!(rest, ["a", "d"], "{list}: changes above a cursor move nothing");
        assert!(ids(&server, "d", &path, 9).await.is_empty(), "only one's own");
        assert_eq!(server.http("GET", &format!("/api/v1{path}"), &[], "").await.status, 401);
        let wrong = server.call("ann", "GET", &format!("{path}?cursor=e1"), &Value::Null).await;
        assert_eq!((wrong.status.as_u16(), &wrong.body["error"]["field"]), (400, &json!("cursor")));
    }
}

#[tokio::test]
async fn friends_follow_each_other() {
    let server = Server::start().await;
    for other in ["a", "b", "c", "d", "e"] {
        server.follow("ann", other).await;
    }
    for other in ["e", "c", "a", "fan"] {
        server.follow(other, "ann").await;
    }
    for limit in [1, 2, 3, 100] {
        assert_eq!(ids(&server, "ann", "/users/me/friends", limit).await, ["e", "c", "a"], "{limit} a page");
    }
    assert_eq!(ids(&server, "c", "/users/me/friends", 9).await, ["ann"]);
    assert!(ids(&server, "fan", "/users/me/friends", 9).await.is_empty());
    assert!(ids(&server, "new", "/users/me/friends", 9).await.is_empty(), "a user without follows");
    server.done("ann", "DELETE", "/users/c/follow", &Value::Null).await;
    set(&server, "e", "block", "ann").await;
    // Hides and mutes do not end a friendship, and are not revealed.
    set(&server, "a", "hide", "ann").await;
    set(&server, "ann", "mute", "a").await;
    assert_eq!(ids(&server, "ann", "/users/me/friends", 9).await, ["a"]);
}

#[tokio::test]
async fn shared_followers_are_users_whom_the_caller_follows() {
    let server = Server::start().await;
    for other in ["a", "b", "c", "d", "star"] {
        server.follow("ann", other).await;
    }
    for fan in ["d", "x", "b", "a", "ann"] {
        server.follow(fan, "star").await;
    }
    for limit in [1, 2, 3, 100] {
        assert_eq!(ids(&server, "ann", "/users/star/shared", limit).await, ["d", "b", "a"], "{limit} a page");
    }
    let mut ann = Client::connect(&server, "ann").await;
    let page = ann.rpc("users.shared", &json!({ "id": "star", "limit": 1 })).await;
    assert_eq!(page["items"][0]["id"], "d");
    assert!(ids(&server, "x", "/users/star/shared", 9).await.is_empty());
    assert!(ids(&server, "ann", "/users/a/shared", 9).await.is_empty(), "nobody follows them");
    let nobody = server.call("ann", "GET", "/users/nobody/shared", &Value::Null).await;
    assert_eq!(nobody.status, 404);
    assert_eq!(server.http("GET", "/api/v1/users/star/shared", &[], "").await.status, 401);
    set(&server, "d", "block", "ann").await;
    set(&server, "ann", "mute", "b").await;
    assert_eq!(ids(&server, "ann", "/users/star/shared", 9).await, ["b", "a"]);
    set(&server, "star", "block", "ann").await;
    assert_eq!(server.call("ann", "GET", "/users/star/shared", &Value::Null).await.body, nobody.body);
}

#[tokio::test]
async fn own_restrictions_reveal_no_profile_of_users_who_block_the_caller() {
    let server = Server::start().await;
    let profile = json!({ "name": "Secret", "avatar": "https://a.example/secret" });
    server.done("bo", "PATCH", "/users/me", &profile).await;
    for (what, list) in [("hide", "hidden"), ("mute", "muted"), ("block", "blocked")] {
        set(&server, "ann", what, "bo").await;
        let path = format!("/users/me/{list}");
        let item = async || server.done("ann", "GET", &path, &Value::Null).await["items"][0].take();
        assert_eq!(item().await["name"], "Secret", "{list}");
        set(&server, "bo", "block", "ann").await;
        let seen = item().await;
        assert_eq!((&seen["id"], &seen["name"], seen.get("avatar")), (&json!("bo"), &json!("bo"), None), "{list}");
        server.done("bo", "DELETE", "/users/ann/block", &Value::Null).await;
        server.done("ann", "DELETE", &format!("/users/bo/{what}"), &Value::Null).await;
        assert!(ids(&server, "ann", &path, 9).await.is_empty(), "{list}");
    }
}
