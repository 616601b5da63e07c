//! Locked accounts: who sees them, requests to follow them, and what is pushed.

use serde_json::{Value, json};

use crate::client::Client;
use crate::moderation::{read, suspend, unsuspend};
use crate::redis_server::RedisServer;
use crate::server::{Server, until};

/// Locks or unlocks an account.
async fn lock(server: &Server, user: &str, locked: bool) {
    let details = server.done(user, "PATCH", "/users/me", &json!({ "locked": locked })).await;
    assert_eq!(details["locked"], locked, "{details}");
}

async fn ask(server: &Server, follower: &str, user: &str) {
    let reply = server.done(follower, "PUT", &format!("/users/{user}/follow"), &Value::Null).await;
    assert_eq!(reply, json!({ "state": "requested" }));
}

/// The ids on a page of users or posts.
async fn ids(server: &Server, user: &str, path: &str) -> Vec<Value> {
    let page = server.done(user, "GET", path, &Value::Null).await;
    page["items"].as_array().expect("items").iter().map(|item| item["id"].clone()).collect()
}

async fn edges(server: &Server, viewer: &str, user: &str) -> Value {
    server.done(viewer, "GET", &format!("/users/{user}"), &Value::Null).await["edges"].take()
}

/// The people in the notifications of a user of a kind.
async fn notified(server: &Server, user: &str, kind: &str) -> Vec<Value> {
    let page = server.done(user, "GET", "/notifications", &Value::Null).await;
    let groups = page["items"].as_array().expect("items").iter().filter(|group| group["kind"] == kind);
    groups.flat_map(|group| group["people"].as_array().expect("people")).map(|person| person["id"].clone()).collect()
}

/// An author with a follower, posts for several audiences, and a comment under the post of another user.
struct Scene {
    public: u64,
    not_to: u64,
    followers: u64,
    other: u64,
}

impl Scene {
    async fn set(server: &Server) -> Self {
        server.follow("fan", "ann").await;
        server.follow("ann", "other").await;
        server.follow("stranger", "other").await;
        let public = server.post("ann", "by ann for all #hers").await;
        let post = async |visibility: Value| {
            let body = json!({ "text": "by ann for some #hers", "visibility": visibility });
            server.done("ann", "POST", "/posts", &body).await["id"].as_u64().expect("an id")
        };
        let not_to = post(json!({ "not_to": ["other"] })).await;
        let followers = post(json!("followers")).await;
        let other = server.post("other", "by another").await;
        let comment = json!({ "text": "ann says" });
        server.done("ann", "POST", &format!("/posts/{other}/comments"), &comment).await;
        server.done("ann", "PUT", &format!("/posts/{other}/like"), &Value::Null).await;
        let likes = format!("/posts/{other}/likes");
        until("the like is settled", async || read(server, "fan", &likes).await.1.contains("ann")).await;
        Self { public, not_to, followers, other }
    }

    /// What is read, whether a follower and others see ann's public posts or lists there while the account is open, and
    /// what these others get while it is locked: the status, and whether it shows something.
    fn paths(&self) -> Vec<(String, (u16, bool))> {
        let Self { public, not_to, other, .. } = self;
        [
            (format!("/posts/{public}"), (404, false)),
            (format!("/posts/{not_to}"), (404, false)),
            (format!("/posts?ids={public},{not_to}"), (200, false)),
            (format!("/posts/{public}/comments"), (404, false)),
            (format!("/posts/{public}/likes"), (404, false)),
            ("/users/ann/posts".to_owned(), (403, false)),
            ("/users/ann/likes".to_owned(), (403, false)),
            ("/users/ann/comments".to_owned(), (403, false)),
            ("/users/ann/followers".to_owned(), (403, false)),
            ("/users/ann/following".to_owned(), (403, false)),
            ("/posts/explore".to_owned(), (200, false)),
            ("/topics/hers/posts".to_owned(), (200, false)),
            // The card of the profile, and what ann does with the posts of others.
            ("/users/ann".to_owned(), (200, true)),
            ("/users?q=ann".to_owned(), (200, true)),
            (format!("/posts/{other}/comments"), (200, true)),
            (format!("/posts/{other}/likes"), (200, true)),
        ]
        .into()
    }
}

/// Whether a page shows something of ann: a post, a comment, a user.
fn shows(path: &str, body: &str) -> bool {
    let body: Value = serde_json::from_str(body).expect("JSON");
    let is_of_list = ["/followers", "/following", "/users/ann/likes"].iter().any(|end| path.ends_with(end));
    match body["items"].as_array() {
        Some(items) if is_of_list => !items.is_empty(),
        Some(items) => items.iter().any(|item| item["author"] == "ann" || item["id"] == "ann"),
        None => body["author"] == "ann" || body["id"] == "ann",
    }
}

async fn a_locked_account_is_for_its_followers(server: &Server) {
    let scene = Scene::set(server).await;
    let empty = |path: &str| path.ends_with("/comments") || path.ends_with("/likes");
    let check_open = async |when: &str| {
        for (path, _) in scene.paths() {
            for reader in ["fan", "stranger", ""] {
                let (status, body) = read(server, reader, &path).await;
                let shown = shows(&path, &body) || (path.starts_with("/posts/") && empty(&path));
                assert!(status == 200 && shown, "{when}, {reader:?} {path}: {status} {body}");
            }
        }
    };
    check_open("before").await;
    lock(server, "ann", true).await;
    for (path, (status, shown)) in scene.paths() {
        for reader in ["stranger", ""] {
            let (answer, body) = read(server, reader, &path).await;
            assert_eq!((answer, answer == 200 && shows(&path, &body)), (status, shown), "{reader:?} {path}: {body}");
            let code = if status == 403 { "locked" } else { "not_found" };
            assert!(status == 200 || body.contains(&format!(r#""code":"{code}""#)), "{path}: {body}");
        }
        // Followers see all of it but in the list of everybody's posts.
        let (answer, body) = read(server, "fan", &path).await;
        let expected = path != "/posts/explore";
        let shown = shows(&path, &body) || (path.starts_with("/posts/") && empty(&path));
        assert_eq!((answer, shown), (200, expected), "fan {path}: {body}");
        assert_eq!(read(server, "ann", &path).await.0, 200, "ann {path}");
    }
    assert_eq!(read(server, "other", &format!("/posts/{}", scene.not_to)).await.0, 404);
    let card = server.done("stranger", "GET", "/users/ann", &Value::Null).await;
    assert_eq!((&card["locked"], &card["followers"], &card["posts"]), (&json!(true), &json!(1), &json!(0)));
    assert_eq!(server.done("fan", "GET", "/users/ann", &Value::Null).await["posts"], 3);
    for path in [format!("/posts/{}/like", scene.public), format!("/favourites/post/{}", scene.public)] {
        assert_eq!(server.call("stranger", "PUT", &path, &Value::Null).await.status, 404, "{path}");
    }
    assert!(ids(server, "fan", "/timeline").await.contains(&json!(scene.followers)), "the timeline is as before");
    // The counts of topics follow.
    let counted = async |of: &Value| server.done("fan", "GET", "/topics", &Value::Null).await["items"] == *of;
    until("no topic counts ann's posts", async || counted(&json!([])).await).await;
    lock(server, "ann", false).await;
    check_open("afterwards").await;
    until("they are counted again", async || !counted(&json!([])).await).await;
    let export = server.done("ann", "GET", "/accounts/export", &Value::Null).await;
    assert_eq!(export["user"]["locked"], false);
}

#[tokio::test]
async fn locked_accounts_are_for_their_followers_in_memory() {
    a_locked_account_is_for_its_followers(&Server::start().await).await;
}

#[tokio::test]
async fn locked_accounts_are_for_their_followers_with_redis_and_postgres() {
    let redis = RedisServer::start();
    let postgres = crate::postgres_server::shared();
    let ledger = postgres.url(&postgres.migrated().await);
    let server = Server::start_with(&[("broker.url", &redis.url()), ("ledger.url", &ledger)]).await;
    a_locked_account_is_for_its_followers(&server).await;
}

#[tokio::test]
async fn a_lock_ends_the_subscriptions_of_strangers_and_hides_what_is_pushed() {
    let server = Server::start().await;
    let scene = Scene::set(&server).await;
    let mut fan = Client::connect(&server, "fan").await;
    let mut stranger = Client::connect(&server, "stranger").await;
    let post = format!("post:{}", scene.public);
    for client in [&mut fan, &mut stranger] {
        for channel in [&*post, "user:ann", "user:other", "topic:hers"] {
            client.subscribe(channel).await;
        }
    }
    lock(&server, "ann", true).await;
    for channel in [&*post, "user:ann"] {
        let ended = stranger.push_of(channel, "unsubscribe").await;
        assert_eq!(
            (&ended["code"], &ended["reason"]),
            (&json!(2000), &json!("no longer visible")),
            "{channel}: {ended}"
        );
        assert_eq!(stranger.refused(json!({ "subscribe": { "channel": channel } })).await, 102);
    }
    // All who may see it still get what ann writes, and nobody else does.
    let mention = "for @stranger and @fan #hers";
    let next = server.post("ann", mention).await;
    for channel in ["timeline:fan", "user:ann", "topic:hers"] {
        assert_eq!(fan.publication(channel).await["data"]["post"]["id"], next, "{channel}");
    }
    until("the follower is notified", async || !notified(&server, "fan", "mention").await.is_empty()).await;
    let last = server.post("other", "and this #hers").await;
    assert_eq!(stranger.publication("topic:hers").await["data"]["post"]["id"], last, "nothing of ann's before it");
    assert!(notified(&server, "stranger", "mention").await.is_empty());
    // The old posts are back at once for those whom ann accepts.
    ask(&server, "stranger", "ann").await;
    server.done("ann", "PUT", "/users/me/requests/stranger", &Value::Null).await;
    stranger.subscribe("user:ann").await;
    stranger.subscribe(&post).await;
}

#[tokio::test]
async fn requests_are_answered_and_told_of() {
    let server = Server::start().await;
    let scene = Scene::set(&server).await;
    lock(&server, "ann", true).await;
    let mut ann = Client::connect(&server, "ann").await;
    let mut stranger = Client::connect(&server, "stranger").await;
    for _ in 0..2 {
        ask(&server, "stranger", "ann").await;
        assert_eq!(edges(&server, "stranger", "ann").await["requested"], true);
        assert_eq!(edges(&server, "ann", "stranger").await["requested_by"], true);
    }
    let told = ann.publication("notifications:ann").await;
    assert_eq!(told["data"]["notification"]["kind"], "request", "{told}");
    assert_eq!(notified(&server, "ann", "request").await, ["stranger"]);
    assert_eq!(ids(&server, "ann", "/users/me/requests").await, ["stranger"]);
    assert_eq!(ids(&server, "stranger", "/users/me/requested").await, ["ann"]);
    assert!(!ids(&server, "stranger", "/timeline").await.contains(&json!(scene.public)), "not yet");
    // Accepted: the posts are there with the answer, and a repeat answers the same.
    for _ in 0..2 {
        server.done("ann", "PUT", "/users/me/requests/stranger", &Value::Null).await;
        assert!(ids(&server, "stranger", "/timeline").await.contains(&json!(scene.public)));
    }
    assert_eq!(edges(&server, "stranger", "ann").await["following"], true);
    assert_eq!(stranger.publication("timeline:stranger").await["data"]["type"], "post");
    until("the one who asked is told", async || notified(&server, "stranger", "accepted").await == ["ann"]).await;
    until("the request is answered", async || notified(&server, "ann", "request").await.is_empty()).await;
    assert_eq!(notified(&server, "ann", "follow").await, ["fan"], "an accepted request is no new follow");
    // A follower is removed without a word.
    let before = notified(&server, "stranger", "follow").await;
    server.done("ann", "DELETE", "/users/me/followers/stranger", &Value::Null).await;
    assert!(!ids(&server, "stranger", "/timeline").await.contains(&json!(scene.public)));
    assert_eq!(edges(&server, "stranger", "ann").await["following"], false);
    until("the acceptance is over", async || notified(&server, "stranger", "accepted").await.is_empty()).await;
    assert_eq!(notified(&server, "stranger", "follow").await, before);
    assert_eq!(server.call("ann", "PUT", "/users/me/requests/stranger", &Value::Null).await.status, 404);
}

#[tokio::test]
async fn a_rejection_is_silent_and_delays_the_next_request() {
    let server = Server::start().await;
    Scene::set(&server).await;
    lock(&server, "ann", true).await;
    ask(&server, "stranger", "ann").await;
    until("ann is told", async || notified(&server, "ann", "request").await == ["stranger"]).await;
    let exported =
        async || server.done("ann", "GET", "/accounts/export", &Value::Null).await["requests_to_follow"].take();
    assert_eq!(exported().await[0]["user"], "stranger");
    server.done("ann", "DELETE", "/users/me/requests/stranger", &Value::Null).await;
    until("nothing waits", async || notified(&server, "ann", "request").await.is_empty()).await;
    let page = read(&server, "stranger", "/notifications").await.1;
    assert!(page.contains(r#""items":[]"#), "nobody tells the one who asked: {page}");
    ask(&server, "stranger", "ann").await;
    assert_eq!(ids(&server, "stranger", "/users/me/requested").await, ["ann"]);
    assert!(ids(&server, "ann", "/users/me/requests").await.is_empty());
    assert_eq!(exported().await.as_array().map_or(0, Vec::len), 0, "nor does the export show it");
    assert_eq!(edges(&server, "ann", "stranger").await["requested_by"], false);
    assert_eq!(server.call("ann", "PUT", "/users/me/requests/stranger", &Value::Null).await.status, 404);
    // Another one, whom ann has not rejected, withdraws the request, and asks again.
    ask(&server, "other", "ann").await;
    server.done("other", "DELETE", "/users/ann/follow", &Value::Null).await;
    assert!(ids(&server, "ann", "/users/me/requests").await.is_empty());
    ask(&server, "other", "ann").await;
    assert_eq!(ids(&server, "ann", "/users/me/requests").await, ["other"]);
    until("the last request counts", async || notified(&server, "ann", "request").await == ["other"]).await;
    server.done("ann", "PUT", "/users/other/block", &Value::Null).await;
    assert!(ids(&server, "ann", "/users/me/requests").await.is_empty());
    until("a block ends it", async || notified(&server, "ann", "request").await.is_empty()).await;
    server.done("ann", "DELETE", "/users/other/block", &Value::Null).await;
    assert!(notified(&server, "ann", "request").await.is_empty());
}

#[tokio::test]
async fn an_unlock_accepts_all_who_wait() {
    for keys in [&[][..], &[("fanout.push_limit", "1")]] {
        let server = Server::start_with(keys).await;
        let scene = Scene::set(&server).await;
        lock(&server, "ann", true).await;
        let many: Vec<String> = (0..20).map(|n| format!("u{n}")).collect();
        for user in &many {
            ask(&server, user, "ann").await;
        }
        // One was rejected before, and the second request is not shown yet.
        server.done("ann", "DELETE", "/users/me/requests/u7", &Value::Null).await;
        ask(&server, "u7", "ann").await;
        suspend(&server, "u8", "suspended").await;
        assert_eq!(ids(&server, "ann", "/users/me/requests").await.len(), 18);
        lock(&server, "ann", false).await;
        for user in &many {
            let sees = async || ids(&server, user, "/timeline").await.contains(&json!(scene.public));
            until(&format!("{user} follows"), sees).await;
        }
        assert!(ids(&server, "ann", "/users/me/requests").await.is_empty());
        let followers = server.done("fan", "GET", "/users/ann", &Value::Null).await["followers"].clone();
        assert_eq!(followers, 21);
        until("they are told", async || notified(&server, "u0", "accepted").await == ["ann"]).await;
        let reply = server.done("late", "PUT", "/users/ann/follow", &Value::Null).await;
        assert_eq!(reply, json!({ "state": "following" }));
    }
}

#[tokio::test]
async fn requests_of_suspended_users_are_not_accepted() {
    let server = Server::start().await;
    lock(&server, "ann", true).await;
    server.done("bo", "PUT", "/users/ann/follow", &Value::Null).await;
    suspend(&server, "bo", "suspended").await;
    let accept = async || server.call("ann", "PUT", "/users/me/requests/bo", &Value::Null).await.status.as_u16();
    assert_eq!(accept().await, 404, "as if there was none");
    unsuspend(&server, "bo").await;
    assert_eq!(accept().await, 200, "the request waits");
}
