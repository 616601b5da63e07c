//! Suspended and limited users, removed posts and comments.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Client;
use crate::redis_server::RedisServer;
use crate::server::{API_KEY, Answer, Server, until};

/// A call of the backend for itself.
pub(crate) async fn moderate(server: &Server, method: &str, path: &str, body: &Value) -> Answer {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    server.http(method, &format!("/api/v1{path}"), &[("x-api-key", API_KEY)], &body).await
}

pub(crate) async fn set(server: &Server, method: &str, path: &str, body: &Value) -> Value {
    let answer = moderate(server, method, path, body).await;
    assert!(answer.status.is_success(), "{method} {path}: {answer:?}");
    answer.body
}

pub(crate) async fn suspend(server: &Server, user: &str, level: &str) {
    set(server, "PUT", &format!("/users/{user}/suspend"), &json!({ "level": level })).await;
}

pub(crate) async fn unsuspend(server: &Server, user: &str) {
    set(server, "DELETE", &format!("/users/{user}/suspend"), &Value::Null).await;
}

/// A read by a user; anonymous if the name is empty. Returns its status and its body as text.
pub(crate) async fn read(server: &Server, user: &str, path: &str) -> (u16, String) {
    let answer = match user {
        "" => server.http("GET", &format!("/api/v1{path}"), &[("x-api-key", API_KEY)], "").await,
        user => server.call(user, "GET", path, &Value::Null).await,
    };
    (answer.status.as_u16(), answer.body.to_string())
}

/// A user whose every trace has the mark `offender` in it, with everything that others can read of them.
pub(crate) struct Scene {
    pub(crate) post: u64,
    pub(crate) comment: u64,
    /// A post of another user, with a comment, a like and a favourite of the offender, and a mention.
    other: u64,
}

impl Scene {
    pub(crate) async fn set(server: &Server) -> Self {
        for user in ["fan", "other", "stranger"] {
            server.follow(user, "offender").await;
        }
        server.done("stranger", "DELETE", "/users/offender/follow", &Value::Null).await;
        server.follow("fan", "other").await;
        server.follow("stranger", "other").await;
        server.follow("offender", "other").await;
        server.done("offender", "PATCH", "/users/me", &json!({ "name": "offender by name" })).await;
        let post = server.post("offender", "by the offender #offending").await;
        let other = server.post("other", "by another, of @offender").await;
        let comments = format!("/posts/{other}/comments");
        let comment = server.done("offender", "POST", &comments, &json!({ "text": "offender says" })).await;
        let comment = comment["id"].as_u64().expect("an id");
        server.done("offender", "PUT", &format!("/posts/{other}/like"), &Value::Null).await;
        server.done("offender", "PUT", &format!("/favourites/post/{other}"), &Value::Null).await;
        server.done("fan", "PUT", &format!("/posts/{post}/like"), &Value::Null).await;
        server.done("fan", "PUT", &format!("/favourites/post/{post}"), &Value::Null).await;
        for path in [format!("/posts/{other}/likes"), format!("/posts/{post}/likes")] {
            until("the likes are settled", async || read(server, "fan", &path).await.1.contains(r#""id""#)).await;
        }
        let notified = async || read(server, "other", "/notifications").await.1.contains("offender");
        until("the notifications are there", notified).await;
        Self { post, comment, other }
    }

    /// All that others read, which shows the offender while active.
    fn paths(&self) -> Vec<(String, &'static str)> {
        let Self { post, comment, other } = self;
        let all = [
            (format!("/posts/{post}"), "fan stranger _"),
            (format!("/posts?ids={post},{other}&with=people"), "fan stranger _"),
            (format!("/comments/{comment}"), "fan stranger _"),
            (format!("/comments?ids={comment}"), "fan stranger _"),
            (format!("/comments/{comment}/likes"), ""),
            ("/users/offender".to_owned(), "fan stranger _"),
            ("/users/offender/posts".to_owned(), "fan stranger _"),
            ("/users/offender/comments".to_owned(), "fan stranger _"),
            ("/users/offender/followers".to_owned(), ""),
            ("/users/other/following".to_owned(), "fan stranger _"),
            ("/users/other/followers".to_owned(), "fan stranger _"),
            ("/users?q=offen".to_owned(), "fan stranger _"),
            ("/users/suggested".to_owned(), "stranger"),
            ("/posts/explore".to_owned(), "fan stranger _"),
            ("/topics/offending/posts".to_owned(), "fan stranger _"),
            ("/timeline".to_owned(), "fan"),
            ("/timeline?with=likers,comments,people".to_owned(), "fan stranger"),
            (format!("/posts/{other}?with=likers,comments,people"), "fan stranger _"),
            (format!("/posts/{other}/likes"), "fan stranger _"),
            (format!("/posts/{other}/comments"), "fan stranger _"),
            (format!("/posts/{other}/comments?order=oldest"), "fan stranger _"),
            (format!("/objects/post/{other}/favourites"), "fan stranger _"),
            ("/users/fan/likes".to_owned(), "fan stranger _"),
            ("/favourites/post".to_owned(), "fan"),
            ("/notifications".to_owned(), "other"),
        ];
        all.into_iter().collect()
    }
}

/// The readers of a path; `_` is an anonymous one.
fn readers(of: &str) -> impl Iterator<Item = &str> {
    of.split_whitespace().map(|reader| if reader == "_" { "" } else { reader })
}

/// What a reader sees, without what a read changes.
async fn pages(server: &Server, scene: &Scene) -> Vec<(String, u16, String)> {
    let mut pages = Vec::new();
    for (path, of) in scene.paths() {
        for reader in readers(of) {
            let (status, mut body) = read(server, reader, &path).await;
            if let Some(at) = body.find(r#""position":{"#).filter(|_| path.starts_with("/timeline")) {
                body.truncate(at);
            }
            pages.push((format!("{reader} {path}"), status, body));
        }
    }
    pages
}

async fn nothing_of_suspended_users_is_seen(server: &Server) {
    let scene = Scene::set(server).await;
    let before = pages(server, &scene).await;
    for (what, status, body) in &before {
        assert!(*status == 200 && body.contains("offender"), "{what} shows the offender before: {status} {body}");
    }
    suspend(server, "offender", "suspended").await;
    for (what, status, body) in pages(server, &scene).await {
        // The text of another's post may name anybody.
        let body = body.replace("of @offender", "").replace(r#""mentions":["offender"]"#, "");
        let path = what.split_whitespace().last().unwrap_or_default();
        assert!(status == 200 || status == 404, "{what}: {status} {body}");
        assert!(!body.contains("offender"), "{what} shows the offender: {body}");
        assert_eq!(status == 404, path.starts_with("/users/offender") || by_id(path, &scene), "{what}: {status}");
    }
    for path in ["/users/offender/follow", "/users/offender/notify"] {
        let answer = server.call("stranger", "PUT", path, &Value::Null).await;
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
    }
    let like = server.call("fan", "PUT", &format!("/posts/{}/like", scene.post), &Value::Null).await;
    assert_eq!(like.status, 404, "{like:?}");
    // The offender reads on, and writes nothing.
    for path in ["/users/me/friends", "/timeline", "/users/offender", "/accounts/export"] {
        assert_eq!(read(server, "offender", path).await.0, 200, "{path}");
    }
    assert!(read(server, "offender", &format!("/posts/{}", scene.post)).await.1.contains("by the offender"));
    for (method, path, body) in [
        ("POST", "/posts".to_owned(), json!({ "text": "again" })),
        ("POST", format!("/posts/{}/comments", scene.other), json!({ "text": "again" })),
        ("PUT", format!("/posts/{}/like", scene.other), Value::Null),
        ("PUT", "/users/fan/follow".to_owned(), Value::Null),
        ("PATCH", "/users/me".to_owned(), json!({ "name": "another" })),
    ] {
        let answer = server.call("offender", method, &path, &body).await;
        assert_eq!(answer.status, 403, "{method} {path}: {answer:?}");
    }
    // What ends something of the offender's own is no write of theirs.
    server.done("offender", "DELETE", "/devices/phone", &Value::Null).await;
    unsuspend(server, "offender").await;
    assert_eq!(pages(server, &scene).await, before, "all pages are as before");
    server.post("offender", "I am back").await;
    suspend(server, "offender", "suspended").await;
    server.done("offender", "DELETE", "/sessions", &json!({ "all": true })).await;
}

/// Whether a path names a post or a comment of the offender.
fn by_id(path: &str, scene: &Scene) -> bool {
    [format!("/posts/{}", scene.post), format!("/comments/{}", scene.comment)].iter().any(|it| path == it)
}

#[tokio::test]
async fn nothing_of_suspended_users_is_seen_in_memory() {
    nothing_of_suspended_users_is_seen(&Server::start().await).await;
}

#[tokio::test]
async fn nothing_of_suspended_users_is_seen_with_redis_and_postgres() {
    let redis = RedisServer::start();
    let postgres = crate::postgres_server::shared();
    let ledger = postgres.url(&postgres.migrated().await);
    let server = Server::start_with(&[("broker.url", &redis.url()), ("ledger.url", &ledger)]).await;
    nothing_of_suspended_users_is_seen(&server).await;
}

#[tokio::test]
async fn connections_and_subscriptions_end_and_followers_are_told_once() {
    let server = Server::start().await;
    let scene = Scene::set(&server).await;
    let second = server.post("offender", "another one").await;
    let mut offender = Client::connect(&server, "offender").await;
    let mut fan = Client::connect(&server, "fan").await;
    let mut stranger = Client::connect(&server, "stranger").await;
    for client in [&mut fan, &mut stranger] {
        client.subscribe(&format!("post:{}", scene.post)).await;
        client.subscribe("user:offender").await;
        client.subscribe("user:other").await;
    }
    let page = fan.rpc("timeline.read", &json!({})).await;
    suspend(&server, "offender", "suspended").await;
    assert_eq!(offender.closed().await.0, 3507);
    let gone = fan.publication("timeline:fan").await;
    assert_eq!(gone["data"], json!({ "type": "gone", "author": "offender", "reason": "hidden" }), "one entry");
    for client in [&mut fan, &mut stranger] {
        for channel in [format!("post:{}", scene.post), "user:offender".to_owned()] {
            let ended = client.push_of(&channel, "unsubscribe").await;
            assert_eq!(ended["code"], 2000, "{channel}: {ended}");
        }
    }
    let mut refused = Client::open(&server).await;
    refused.command(json!({ "connect": { "token": crate::server::token("offender") } })).await;
    assert_eq!(refused.closed().await.0, 3507);
    assert_eq!(stranger.refused(json!({ "subscribe": { "channel": "user:offender" } })).await, 102);
    // A follower who was away gets the same entry, and nothing else of the offender.
    let position = page["position"].clone();
    let path =
        format!("/timeline/updates?offset={}&epoch={}", position["offset"], position["epoch"].as_str().expect("it"));
    let updates = server.done("fan", "GET", &path, &Value::Null).await;
    assert_eq!(updates["items"].as_array().expect("items").len(), 1, "{updates}");
    assert_eq!(updates["items"][0]["data"]["author"], "offender", "{updates}");
    suspend(&server, "offender", "suspended").await;
    unsuspend(&server, "offender").await;
    let path = "/timeline?limit=100";
    let ids: Vec<Value> = server.done("fan", "GET", path, &Value::Null).await["items"]
        .as_array()
        .expect("items")
        .iter()
        .map(|post| post["id"].clone())
        .collect();
    assert_eq!(ids, [json!(second), json!(scene.other), json!(scene.post)]);
    let third = server.post("offender", "after it").await;
    let next = fan.publication("timeline:fan").await;
    assert_eq!((&next["data"]["type"], &next["data"]["post"]["id"]), (&json!("post"), &json!(third)), "no replay");
}

#[tokio::test]
async fn followers_who_were_away_are_told_when_they_return() {
    for limit in ["5", "100000"] {
        let server = Server::start_with(&[("fanout.push_limit", limit)]).await;
        let scene = Scene::set(&server).await;
        let position = server.done("fan", "GET", "/timeline", &Value::Null).await["position"].clone();
        suspend(&server, "offender", "suspended").await;
        let (mut fan, reply) = Client::recover(&server, "fan", &position).await;
        let missed = reply["publications"].clone();
        let told = missed.as_array().into_iter().flatten().filter(|it| it["data"]["author"] == "offender").count();
        let told = if told == 0 {
            usize::from(fan.publication("timeline:fan").await["data"]["author"] == "offender")
        } else {
            told
        };
        assert_eq!(told, 1, "{reply}");
        unsuspend(&server, "offender").await;
        // The entry has no effect for those who read it later.
        let (_, reply) = Client::recover(&server, "fan", &position).await;
        let missed = reply["publications"].to_string();
        assert!(!missed.contains(r#""gone""#), "{missed}");
        let page = read(&server, "fan", "/timeline").await.1;
        assert!(page.contains(&scene.post.to_string()), "{page}");
    }
}

#[tokio::test]
async fn suspensions_end_by_themselves() {
    let server = Server::start().await;
    let scene = Scene::set(&server).await;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time").as_millis();
    let until_time = u64::try_from(now).expect("a time") + 3_000;
    let body = json!({ "level": "suspended", "reason": "spam", "until": until_time });
    set(&server, "PUT", "/users/offender/suspend", &body).await;
    let path = format!("/posts/{}", scene.post);
    assert_eq!(read(&server, "fan", &path).await.0, 404);
    until("it has ended", async || read(&server, "fan", &path).await.0 == 200).await;
    server.post("offender", "again").await;
    let wrong = [json!({ "level": "suspended", "until": 5 }), json!({ "level": "gone" }), json!({})];
    for body in wrong {
        assert_eq!(moderate(&server, "PUT", "/users/offender/suspend", &body).await.status, 400, "{body}");
    }
    assert_eq!(moderate(&server, "DELETE", "/users/nobody/suspend", &Value::Null).await.status, 404);
}

#[tokio::test]
async fn limited_users_are_seen_by_followers_and_by_id_only() {
    let server = Server::start().await;
    let scene = Scene::set(&server).await;
    server.post("offender", "to @stranger and @fan").await;
    let mut fan = Client::connect(&server, "fan").await;
    let mut topic = Client::connect(&server, "stranger").await;
    topic.subscribe("topic:offending").await;
    topic.subscribe("topic:other").await;
    suspend(&server, "offender", "limited").await;
    let hidden = ["/users?q=offen", "/users/suggested", "/posts/explore", "/topics/offending/posts"];
    for (path, of) in scene.paths() {
        for reader in readers(of) {
            let (status, body) = read(&server, reader, &path).await;
            let is_seen =
                body.contains("by the offender") || body.contains("offender by name") || body.contains("says");
            let expects = !hidden.contains(&&*path);
            assert!(status == 200 && (is_seen || path == "/notifications") == expects, "{reader} {path}: {body}");
        }
    }
    let next = server.post("offender", "limited to @stranger and @fan #offending #other").await;
    assert_eq!(fan.publication("timeline:fan").await["data"]["post"]["id"], next);
    let last = server.post("other", "and this #other").await;
    assert_eq!(topic.publication("topic:other").await["data"]["post"]["id"], last, "nothing of the limited author");
    let notified = async |user: &str| read(&server, user, "/notifications").await.1.contains(&next.to_string());
    until("the follower is notified", async || notified("fan").await).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!notified("stranger").await, "only followers are");
    unsuspend(&server, "offender").await;
    for path in hidden {
        assert!(read(&server, "stranger", path).await.1.contains("offender"), "{path}");
    }
}

#[tokio::test]
async fn removed_posts_are_seen_by_their_authors_and_come_back() {
    for keys in [&[][..], &[("fanout.push_limit", "1")]] {
        let server = Server::start_with(keys).await;
        let scene = Scene::set(&server).await;
        let newer = server.post("offender", "a newer one").await;
        let mut fan = Client::connect(&server, "fan").await;
        fan.subscribe(&format!("post:{}", scene.post)).await;
        let timeline = read(&server, "fan", "/timeline").await.1;
        let explore = read(&server, "", "/posts/explore").await.1;
        let path = format!("/posts/{}/removal", scene.post);
        for _ in 0..2 {
            set(&server, "PUT", &path, &json!({ "reason": "spam" })).await;
        }
        assert_eq!(
            fan.publication("timeline:fan").await["data"],
            json!({ "type": "gone", "id": scene.post, "reason": "hidden" })
        );
        for (path, of) in scene.paths() {
            for reader in readers(of) {
                let body = read(&server, reader, &path).await.1;
                assert!(!body.contains("by the offender"), "{reader} {path}: {body}");
            }
        }
        let own = server.done("offender", "GET", &format!("/posts/{}", scene.post), &Value::Null).await;
        assert_eq!((&own["removed"], &own["visibility"]), (&json!({ "reason": "spam" }), &json!("public")), "{own}");
        assert!(own.get("edited_at").is_none(), "{own}");
        let profile = server.done("offender", "GET", "/users/offender/posts", &Value::Null).await;
        assert_eq!(profile["items"][1]["removed"]["reason"], "spam", "{profile}");
        let export = server.done("offender", "GET", "/accounts/export", &Value::Null).await;
        let exported = export["posts"].as_array().expect("posts").iter().find(|post| post["id"] == scene.post);
        assert_eq!(exported.expect("the post")["removed"], json!({ "reason": "spam" }), "{export}");
        let edit = json!({ "text": "another text", "visibility": "public" });
        let edited = server.call("offender", "PATCH", &format!("/posts/{}", scene.post), &edit).await;
        assert_eq!(edited.status, 403, "{edited:?}");
        suspend(&server, "offender", "suspended").await;
        for _ in 0..2 {
            set(&server, "DELETE", &path, &Value::Null).await;
        }
        unsuspend(&server, "offender").await;
        let back = async || read(&server, "fan", "/timeline").await.1.contains("by the offender");
        until("it is back in the timeline", back).await;
        let page = server.done("fan", "GET", "/timeline", &Value::Null).await;
        let ids: Vec<&Value> = page["items"].as_array().expect("items").iter().map(|post| &post["id"]).collect();
        assert_eq!(ids, [&json!(newer), &json!(scene.other), &json!(scene.post)], "at its old place");
        let items = |text: &str| serde_json::from_str::<Value>(text).expect("JSON")["items"].clone();
        assert_eq!(page["items"], items(&timeline), "as it was");
        assert_eq!(items(&read(&server, "", "/posts/explore").await.1), items(&explore));
    }
}

#[tokio::test]
async fn posts_of_suspended_and_blocked_authors_can_be_removed() {
    let server = Server::start().await;
    let scene = Scene::set(&server).await;
    suspend(&server, "offender", "suspended").await;
    server.backend("block_user", &json!({ "user": "offender" })).await;
    let path = format!("/posts/{}/removal", scene.post);
    set(&server, "PUT", &path, &json!({})).await;
    unsuspend(&server, "offender").await;
    server.backend("unblock_user", &json!({ "user": "offender" })).await;
    assert_eq!(read(&server, "fan", &format!("/posts/{}", scene.post)).await.0, 404);
    let own = server.done("offender", "GET", &format!("/posts/{}", scene.post), &Value::Null).await;
    assert_eq!(own["removed"], json!({}));
    server.done("offender", "DELETE", &format!("/posts/{}", scene.post), &Value::Null).await;
    assert_eq!(moderate(&server, "DELETE", &path, &Value::Null).await.status, 404, "its author deleted it");
    assert_eq!(moderate(&server, "PUT", "/posts/77/removal", &Value::Null).await.status, 404);
}

#[tokio::test]
async fn removed_comments_are_shown_as_deleted_ones_until_they_are_restored() {
    let server = Server::start().await;
    let Scene { other, comment, .. } = Scene::set(&server).await;
    let comments = format!("/posts/{other}/comments");
    let reply = json!({ "text": "a reply", "reply_to": comment });
    let reply = server.done("fan", "POST", &comments, &reply).await["id"].clone();
    let mut fan = Client::connect(&server, "fan").await;
    fan.subscribe(&format!("post:{other}")).await;
    let path = format!("/comments/{comment}");
    let before = server.done("fan", "GET", &path, &Value::Null).await;
    let removal = format!("/comments/{comment}/removal");
    for _ in 0..2 {
        set(&server, "PUT", &removal, &json!({ "reason": "rude" })).await;
    }
    let gone = fan.publication(&format!("post:{other}")).await;
    assert_eq!(gone["data"], json!({ "type": "gone", "comment": comment, "stays": true }));
    let counts = fan.publication(&format!("post:{other}")).await;
    assert_eq!(counts["data"]["comments"], 1, "{counts}");
    let shown = server.done("fan", "GET", &path, &Value::Null).await;
    assert!(shown.get("author").is_none() && shown.get("text").is_none() && shown.get("removed").is_none(), "{shown}");
    let list = server.done("fan", "GET", &comments, &Value::Null).await;
    assert!(!list.to_string().contains("offender"), "{list}");
    let replies = server.done("fan", "GET", &format!("{comments}?reply_to={comment}"), &Value::Null).await;
    assert_eq!(replies["items"][0]["id"], reply, "replies stay");
    for path in [path.clone(), comments.clone()] {
        let own = read(&server, "offender", &path).await.1;
        assert!(own.contains(r#""removed":{"reason":"rude"}"#) && own.contains("offender says"), "{own}");
    }
    let export = server.done("offender", "GET", "/accounts/export", &Value::Null).await;
    assert_eq!(export["comments"][0]["removed"]["reason"], "rude", "{export}");
    // Its author hides from a user, who sees the replies while the comment is removed.
    server.done("third", "GET", "/users/third", &Value::Null).await;
    server.done("offender", "PUT", "/users/third/hide", &Value::Null).await;
    let like = format!("/comments/{reply}/like");
    for (method, expected) in [("PUT", 200), ("DELETE", 200)] {
        assert_eq!(server.call("third", method, &like, &Value::Null).await.status, expected, "{method}");
    }
    for _ in 0..2 {
        set(&server, "DELETE", &removal, &Value::Null).await;
    }
    assert_eq!(server.call("third", "PUT", &like, &Value::Null).await.status, 404);
    let back = fan.publication(&format!("post:{other}")).await;
    assert_eq!((&back["data"]["type"], &back["data"]["comment"]["text"]), (&json!("edited"), &json!("offender says")));
    assert_eq!(server.done("fan", "GET", &path, &Value::Null).await, before);
    assert_eq!(moderate(&server, "PUT", "/comments/77/removal", &Value::Null).await.status, 404);
}

#[tokio::test]
async fn authors_see_a_removal_live_as_on_pages() {
    let server = Server::start().await;
    let scene = Scene::set(&server).await;
    let mut author = Client::connect(&server, "offender").await;
    let channel = format!("post:{}", scene.post);
    author.subscribe(&channel).await;
    let path = format!("/posts/{}/removal", scene.post);
    set(&server, "PUT", &path, &json!({ "reason": "spam" })).await;
    let told = author.publication(&channel).await["data"].take();
    assert_eq!((&told["type"], &told["post"]["removed"]), (&json!("edited"), &json!({ "reason": "spam" })), "{told}");
    assert_eq!((&told["post"]["visibility"], told["post"].get("edited_at")), (&json!("public"), None), "{told}");
    let comment = json!({ "text": "why?" });
    let answer = server.call("offender", "POST", &format!("/posts/{}/comments", scene.post), &comment).await;
    assert_eq!(answer.status, 403, "nobody comments on a removed post: {answer:?}");
    set(&server, "DELETE", &path, &Value::Null).await;
    let back = author.push_of(&channel, "pub").await["data"].take();
    assert!(back["post"].get("removed").is_none(), "{back}");
}
