//! What a repost and a quote do not do: pass a limit of rates, alert, or be listed for users who block each other.

use serde_json::{Value, json};

use crate::client::Client;
use crate::moderation::{set, suspend};
use crate::push_receiver::{GRACE, Receiver, register, server};
use crate::server::{Server, until};

async fn status(server: &Server, user: &str, method: &str, path: &str, body: &Value) -> u16 {
    server.call(user, method, path, body).await.status.as_u16()
}

async fn ids(server: &Server, user: &str, path: &str) -> Vec<Value> {
    let page = server.done(user, "GET", path, &Value::Null).await;
    page["items"].as_array().expect("items").iter().map(|item| item["id"].clone()).collect()
}

#[tokio::test]
async fn reposts_and_quotes_count_as_posts() {
    let server = Server::start_with(&[("rates.posts", "1")]).await;
    let mut posts = Vec::new();
    for author in ["ann", "bo", "cy"] {
        posts.push(server.post(author, "a post").await);
    }
    let [one, two, three] = posts[..] else { panic!("three posts") };
    let repost = |post: u64| format!("/posts/{post}/repost");
    assert_eq!(status(&server, "fan", "PUT", &repost(one), &Value::Null).await, 200);
    let quote = json!({ "text": "look", "quote": two });
    assert_eq!(status(&server, "fan", "POST", "/posts", &quote).await, 201);
    assert_eq!(status(&server, "fan", "PUT", &repost(three), &Value::Null).await, 429);
    assert_eq!(status(&server, "fan", "POST", "/posts", &quote).await, 429);
}

#[tokio::test]
async fn posts_of_limited_users_stay_with_their_followers() {
    let server = Server::start().await;
    let post = server.post("ann", "a post").await;
    server.follow("fan", "ann").await;
    server.follow("stranger", "fan").await;
    suspend(&server, "ann", "limited").await;
    let path = format!("/posts/{post}/repost");
    assert_eq!(status(&server, "stranger", "PUT", &path, &Value::Null).await, 403);
    let repost = server.done("fan", "PUT", &path, &Value::Null).await["id"].clone();
    assert_eq!(ids(&server, "fan", "/users/fan/posts").await, [repost]);
    let own = server.post("fan", "by fan").await;
    let first = async || ids(&server, "stranger", "/timeline").await;
    until("the next post is there", async || first().await.contains(&json!(own))).await;
    assert_eq!(first().await, [json!(own)]);
    assert_eq!(ids(&server, "stranger", "/users/fan/posts").await, [json!(own)]);
}

#[tokio::test]
async fn a_repost_is_no_alert() {
    let (server, receiver) = (server().await, Receiver::start(&[]).await);
    let post = server.post("cy", "by cy").await;
    server.done("bo", "GET", "/users/bo", &Value::Null).await;
    register(&server, "ann", "hook", &receiver.url).await;
    server.done("ann", "PUT", "/users/bo/notify", &Value::Null).await;
    server.done("bo", "PUT", &format!("/posts/{post}/repost"), &Value::Null).await;
    tokio::time::sleep(3 * GRACE).await;
    let own = server.post("bo", "by bo").await;
    let pushes = receiver.wait_for(1).await;
    assert_eq!(pushes[0]["data"]["post"], json!(own.to_string()), "{pushes:?}");
    assert_eq!(receiver.received.lock().len(), 1);
}

#[tokio::test]
async fn notifications_of_reposts_end_when_the_author_may_not_see_them() {
    let server = Server::start().await;
    let post = server.post("ann", "by ann").await;
    let repost = server.done("bo", "PUT", &format!("/posts/{post}/repost"), &Value::Null).await["id"].clone();
    let quote = server.done("bo", "POST", "/posts", &json!({ "text": "look", "quote": post })).await["id"].clone();
    let page = async || server.done("ann", "GET", "/notifications", &Value::Null).await;
    let kinds = async || {
        let page = page().await;
        let items = page["items"].as_array().expect("items").clone();
        let mut kinds: Vec<String> = items.iter().map(|it| it["kind"].as_str().unwrap_or_default().into()).collect();
        kinds.sort_unstable();
        (kinds, page["unread"].clone())
    };
    let both = (vec!["quote".to_owned(), "repost".to_owned()], json!(2));
    until("both are listed", async || kinds().await == both).await;
    server.done("bo", "PATCH", "/users/me", &json!({ "locked": true })).await;
    assert_eq!(kinds().await, (vec![], json!(0)), "the account is locked");
    server.done("bo", "PATCH", "/users/me", &json!({ "locked": false })).await;
    assert_eq!(kinds().await, both);
    let mut ann = Client::connect(&server, "ann").await;
    let ids = [repost, quote];
    for (id, left) in ids.iter().zip(["quote", ""]) {
        set(&server, "PUT", &format!("/posts/{id}/removal"), &Value::Null).await;
        let left: Vec<String> = (!left.is_empty()).then(|| left.to_owned()).into_iter().collect();
        assert_eq!(kinds().await, (left.clone(), json!(left.len())), "{id} is removed");
        while ann.publication("notifications:ann").await["data"]["type"] != "notification.gone" {}
    }
    for id in &ids {
        set(&server, "DELETE", &format!("/posts/{id}/removal"), &Value::Null).await;
    }
    assert_eq!(kinds().await.0, both.0, "they are restored");
}

#[tokio::test]
async fn a_repost_stays_the_first_when_the_post_is_narrowed() {
    let server = Server::start().await;
    server.follow("cy", "ann").await;
    let post = server.post("ann", "by ann").await;
    let path = format!("/posts/{post}/repost");
    let first = server.done("cy", "PUT", &path, &Value::Null).await["id"].clone();
    server.done("ann", "PATCH", &format!("/posts/{post}"), &json!({ "visibility": "followers" })).await;
    assert_eq!(server.done("cy", "PUT", &path, &Value::Null).await["id"], first);
    // Muting a conversation by a repost mutes that of its post.
    server.done("cy", "PUT", &format!("/posts/{first}/mute"), &Value::Null).await;
    assert_eq!(server.done("cy", "GET", &format!("/posts/{post}"), &Value::Null).await["muted"], true);
    server.done("cy", "DELETE", &format!("/posts/{first}/mute"), &Value::Null).await;
    assert_ne!(server.done("cy", "GET", &format!("/posts/{post}"), &Value::Null).await["muted"], true);
}

#[tokio::test]
async fn what_hides_a_post_takes_its_reposts_off_open_timelines() {
    let server = Server::start().await;
    server.follow("fan", "bo").await;
    let post = server.post("ann", "by ann").await;
    let repost = server.done("bo", "PUT", &format!("/posts/{post}/repost"), &Value::Null).await["id"].clone();
    let mut fan = Client::connect(&server, "fan").await;
    until("it is there", async || ids(&server, "fan", "/timeline").await == [repost.clone()]).await;
    for (by, path) in [("fan", "/users/ann/mute"), ("fan", "/users/ann/block"), ("ann", "/users/fan/hide")] {
        server.done(by, "PUT", path, &Value::Null).await;
        let gone = json!({ "type": "gone", "id": repost, "reason": "hidden" });
        assert_eq!(fan.publication("timeline:fan").await["data"], gone, "{by} {path}");
        server.done(by, "DELETE", path, &Value::Null).await;
        assert_eq!(ids(&server, "fan", "/timeline").await, std::slice::from_ref(&repost), "{by} {path} has ended");
        // The entry that put it back into the inbox, at the latest.
        server.post("bo", "another").await;
        while fan.publication("timeline:fan").await["data"]["post"]["author"] != "bo" {}
        let another = ids(&server, "fan", "/timeline").await[0].clone();
        server.done("bo", "DELETE", &format!("/posts/{another}"), &Value::Null).await;
        while fan.publication("timeline:fan").await["data"]["id"] != another {}
    }
    // A post that only left the timeline may be seen elsewhere.
    server.follow("fan", "ann").await;
    server.done("fan", "DELETE", "/users/ann/follow", &Value::Null).await;
    let list = server.done("fan", "POST", "/lists", &json!({ "name": "apart", "exclusive": true })).await["id"].clone();
    server.follow("fan", "ann").await;
    server.done("fan", "PUT", &format!("/lists/{list}/users/ann"), &Value::Null).await;
    for _ in 0..2 {
        let gone = loop {
            let data = fan.publication("timeline:fan").await["data"].clone();
            if data["type"] == "gone" {
                break data;
            }
        };
        assert_eq!((&gone["id"], &gone["reason"]), (&json!(post), &json!("unfollowed")), "{gone}");
    }
    assert_eq!(ids(&server, "fan", "/timeline").await, [repost]);
}

#[tokio::test]
async fn lists_of_reposts_and_quotes_omit_blocked_users() {
    let server = Server::start().await;
    let post = server.post("ann", "by ann").await;
    for user in ["bo", "cy"] {
        server.done(user, "PUT", &format!("/posts/{post}/repost"), &Value::Null).await;
        server.done(user, "POST", "/posts", &json!({ "text": user, "quote": post })).await;
    }
    let (reposts, quotes) = (format!("/posts/{post}/reposts"), format!("/posts/{post}/quotes"));
    for reader in ["fan", "ann"] {
        assert_eq!(ids(&server, reader, &reposts).await.len(), 2, "{reader}");
        assert_eq!(ids(&server, reader, &quotes).await.len(), 2, "{reader}");
        for (by, of) in [(reader, "bo"), ("bo", reader)] {
            server.done(by, "PUT", &format!("/users/{of}/block"), &Value::Null).await;
            assert_eq!(ids(&server, reader, &reposts).await, [json!("cy")], "{by} blocks {of}");
            assert_eq!(ids(&server, reader, &quotes).await.len(), 1, "{by} blocks {of}");
            let shown = server.done(reader, "GET", &format!("/posts/{post}"), &Value::Null).await;
            assert_eq!((&shown["reposts"], &shown["quotes"]), (&json!(2), &json!(2)), "whoever sees them");
            server.done(by, "DELETE", &format!("/users/{of}/block"), &Value::Null).await;
        }
    }
}

#[tokio::test]
async fn an_edit_of_a_reposted_post_is_pushed_on_its_own_channels_alone() {
    let server = Server::start().await;
    server.follow("fan", "bo").await;
    server.follow("friend", "ann").await;
    let mut fan = Client::connect(&server, "fan").await;
    let mut friend = Client::connect(&server, "friend").await;
    let post = server.post("ann", "before the edit #news").await;
    let thread = format!("post:{post}");
    let of_post = ["timeline:friend", "user:ann", "topic:news", &*thread];
    for channel in &of_post[1..] {
        friend.subscribe(channel).await;
    }
    fan.subscribe("user:bo").await;
    let repost = server.done("bo", "PUT", &format!("/posts/{post}/repost"), &Value::Null).await["id"].clone();
    let of_fan = ["timeline:fan", "user:bo"];
    for channel in of_fan {
        let shown = fan.publication(channel).await["data"].clone();
        assert_eq!((&shown["type"], &shown["post"]["id"]), (&json!("post"), &repost), "{channel}: {shown}");
    }
    let edit = json!({ "text": "after the edit #news" });
    server.done("ann", "PATCH", &format!("/posts/{post}"), &edit).await;
    for channel in of_post {
        let edited = loop {
            let data = friend.publication(channel).await["data"].clone();
            if data["type"] == "edited" {
                break data;
            }
        };
        assert_eq!((&edited["post"]["id"], &edited["post"]["text"]), (&json!(post), &edit["text"]), "{channel}");
    }
    // The next thing that the fan hears of is the next post.
    let next = server.post("bo", "by bo").await;
    for channel in of_fan {
        let shown = fan.publication(channel).await["data"].clone();
        assert_eq!((&shown["type"], &shown["post"]["id"]), (&json!("post"), &json!(next)), "{channel}: {shown}");
    }
    let others = fan.pushed().await;
    assert!(others.iter().all(|push| push["pub"]["data"]["type"] != "edited"), "{others:?}");
    let page = server.done("fan", "GET", "/timeline", &Value::Null).await;
    let shown = &page["items"][1];
    assert_eq!((&shown["id"], &shown["repost"]["text"]), (&repost, &edit["text"]), "{page}");
}

#[tokio::test]
async fn a_shown_repost_names_three_others_and_counts_all() {
    let server = Server::start().await;
    let users = ["bo", "cy", "di", "ed", "flo", "gus"];
    for user in users {
        server.follow("fan", user).await;
    }
    let post = server.post("ann", "by ann").await;
    let mut reposts = Vec::new();
    for user in users {
        let repost = server.done(user, "PUT", &format!("/posts/{post}/repost"), &Value::Null).await;
        reposts.push(repost["id"].clone());
    }
    let page = async || server.done("fan", "GET", "/timeline", &Value::Null).await;
    until("all are counted", async || page().await["items"][0]["reposted_by"]["count"] == 5).await;
    let page = page().await;
    assert_eq!((page["items"].as_array().map(Vec::len), &page["items"][0]["id"]), (Some(1), &reposts[0]), "{page}");
    assert_eq!(page["items"][0]["reposted_by"], json!({ "people": ["cy", "di", "ed"], "count": 5 }));
}

#[tokio::test]
async fn posts_of_a_user_are_listed_without_quotes_or_reposts() {
    let server = Server::start().await;
    let post = server.post("ann", "by ann").await;
    let own = json!(server.post("bo", "by bo").await);
    let quote = server.done("bo", "POST", "/posts", &json!({ "text": "look", "quote": post })).await["id"].clone();
    let repost = server.done("bo", "PUT", &format!("/posts/{post}/repost"), &Value::Null).await["id"].clone();
    for (query, expected) in [
        ("", vec![&repost, &quote, &own]),
        ("?without=quotes", vec![&repost, &own]),
        ("?without=reposts", vec![&quote, &own]),
        ("?without=quotes,reposts", vec![&own]),
        ("?only=quotes", vec![&quote]),
        ("?only=reposts", vec![&repost]),
    ] {
        let listed = ids(&server, "fan", &format!("/users/bo/posts{query}")).await;
        assert!(listed.iter().eq(expected), "{query}: {listed:?}");
    }
}

#[tokio::test]
async fn authors_see_the_audience_and_the_removal_of_their_posts_in_others() {
    let server = Server::start().await;
    server.follow("fan", "ann").await;
    let mut sockets = [Client::connect(&server, "ann").await, Client::connect(&server, "fan").await];
    let narrow = json!({ "text": "for some", "visibility": { "only_to": ["fan", "other"] } });
    let narrow = server.done("ann", "POST", "/posts", &narrow).await["id"].clone();
    let open = server.post("ann", "for all").await;
    for post in [&narrow, &json!(open)] {
        server.done("ann", "PUT", &format!("/posts/{post}/repost"), &Value::Null).await;
    }
    let shown = async |user: &str, post: &Value| {
        let page = server.done(user, "GET", "/users/ann/posts", &Value::Null).await;
        let reposted = |item: &&Value| item["repost"]["id"] == *post;
        page["items"].as_array().expect("items").iter().find(reposted).map(|item| item["repost"].clone())
    };
    let all = json!({ "only_to": ["fan", "other"] });
    let none = json!({ "only_to": [] });
    for (user, expected) in [("ann", &all), ("fan", &none)] {
        assert_eq!(shown(user, &narrow).await.expect("a repost")["visibility"], *expected, "{user}");
    }
    // Live, of ann's own quote and of that of a user whom she follows.
    server.follow("ann", "fan").await;
    for author in ["ann", "fan"] {
        let quote = json!({ "text": "look", "quote": narrow });
        let quote = server.done(author, "POST", "/posts", &quote).await["id"].clone();
        for (socket, user, visibility) in
            sockets.iter_mut().zip(["ann", "fan"]).zip([&all, &none]).map(|((socket, user), it)| (socket, user, it))
        {
            let shown = loop {
                let mut data = socket.publication(&format!("timeline:{user}")).await["data"].take();
                if data["post"]["id"] == quote {
                    break data["post"]["quote"]["post"].take();
                }
            };
            assert_eq!(shown["visibility"], *visibility, "by {author}, for {user}: {shown}");
        }
    }
    set(&server, "PUT", &format!("/posts/{open}/removal"), &json!({ "reason": "off topic" })).await;
    let own = shown("ann", &json!(open)).await.expect("its author sees it");
    assert_eq!(own["removed"]["reason"], "off topic", "{own}");
    assert_eq!(shown("fan", &json!(open)).await, None);
}
