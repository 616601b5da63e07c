//! What people choose for their posts and profiles: who may comment, posts that are shown first, kinds of posts in a
//! list, the length of previews, and mutes that end by themselves.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::moderation::read;
use crate::server::{Server, until};

async fn ids(server: &Server, user: &str, path: &str) -> Vec<Value> {
    let page = server.done(user, "GET", path, &Value::Null).await;
    page["items"].as_array().expect("items").iter().map(|item| item["id"].clone()).collect()
}

async fn post_with(server: &Server, user: &str, body: &Value) -> u64 {
    server.done(user, "POST", "/posts", body).await["id"].as_u64().expect("an id")
}

#[tokio::test]
async fn authors_limit_who_comments() {
    let server = Server::start().await;
    server.follow("fan", "ann").await;
    for user in ["named", "stranger"] {
        server.done(user, "GET", "/users/ann", &Value::Null).await;
    }
    for (policy, may) in [
        ("everyone", &["ann", "fan", "named", "stranger"][..]),
        ("followers", &["ann", "fan"]),
        ("mentioned", &["ann", "named"]),
        ("nobody", &["ann"]),
    ] {
        let post = post_with(&server, "ann", &json!({ "text": "hi @named", "comment_policy": policy })).await;
        for user in ["ann", "fan", "named", "stranger"] {
            let expected = may.contains(&user);
            let shown = server.done(user, "GET", &format!("/posts/{post}"), &Value::Null).await;
            assert_eq!(shown["can_comment"], expected, "{policy}, {user}: {shown}");
            assert_eq!(shown["comment_policy"].as_str().unwrap_or("everyone"), policy);
            let comments = format!("/posts/{post}/comments");
            let answer = server.call(user, "POST", &comments, &json!({ "text": "well" })).await;
            assert_eq!(answer.status, if expected { 201 } else { 403 }, "{policy}, {user}: {answer:?}");
        }
        let (_, page) = read(&server, "fan", "/timeline").await;
        let page: Value = serde_json::from_str(&page).expect("JSON");
        assert_eq!(page["items"][0]["can_comment"], may.contains(&"fan"), "{policy}");
        let (_, shown) = read(&server, "", &format!("/posts/{post}")).await;
        assert!(!shown.contains("can_comment"), "anonymous readers have no flags: {shown}");
    }
    // An edit changes it for later comments, also for replies. What is there stays.
    let post = post_with(&server, "ann", &json!({ "text": "open" })).await;
    let comments = format!("/posts/{post}/comments");
    let first = server.done("stranger", "POST", &comments, &json!({ "text": "first" })).await;
    let edited = server.done("ann", "PATCH", &format!("/posts/{post}"), &json!({ "comment_policy": "nobody" })).await;
    assert_eq!((&edited["comment_policy"], &edited["can_comment"]), (&json!("nobody"), &json!(true)));
    let reply = json!({ "text": "again", "reply_to": first["id"] });
    assert_eq!(server.call("stranger", "POST", &comments, &reply).await.status, 403);
    assert_eq!(ids(&server, "fan", &comments).await, [first["id"].clone()]);
    let text = server.done("ann", "PATCH", &format!("/posts/{post}"), &json!({ "text": "still open?" })).await;
    assert_eq!(text["comment_policy"], "nobody", "an edit of the text keeps it");
    let wrong = server.call("ann", "POST", "/posts", &json!({ "text": "x", "comment_policy": "friends" })).await;
    assert_eq!(wrong.status, 400);
}

#[tokio::test]
async fn profiles_show_pinned_posts_to_those_who_may_see_them() {
    let server = Server::start().await;
    server.follow("fan", "ann").await;
    let public = server.post("ann", "public").await;
    let hidden = post_with(&server, "ann", &json!({ "text": "for followers", "visibility": "followers" })).await;
    let last = server.post("ann", "the last one").await;
    let others = server.post("fan", "another's").await;
    let pin = json!({ "pinned": [hidden, public, last] });
    assert_eq!(server.done("ann", "PATCH", "/users/me", &pin).await["pinned"], json!([hidden, public, last]));
    let pinned = async |user: &str| server.done(user, "GET", "/users/ann", &Value::Null).await["pinned"].clone();
    assert_eq!(pinned("fan").await, json!([hidden, public, last]), "in their order");
    assert_eq!(pinned("stranger").await, json!([public, last]));
    server.done("ann", "PATCH", "/users/me", &json!({ "bio": "hello" })).await;
    server.done("ann", "DELETE", &format!("/posts/{last}"), &Value::Null).await;
    assert_eq!(pinned("ann").await, json!([hidden, public]), "without deleted ones, whatever else changes");
    for wrong in [json!([others]), json!([public, public]), json!([5]), json!([last]), json!("no")] {
        let answer = server.call("ann", "PATCH", "/users/me", &json!({ "pinned": wrong })).await;
        assert_eq!(answer.status, 400, "{wrong}: {answer:?}");
    }
    let six: Vec<u64> = (0..6).map(|n| public + n).collect();
    assert_eq!(server.call("ann", "PATCH", "/users/me", &json!({ "pinned": six })).await.status, 422);
    let export = server.done("ann", "GET", "/accounts/export", &Value::Null).await;
    assert_eq!(export["user"]["pinned"], json!([hidden, public, last]));
    server.done("ann", "PATCH", "/users/me", &json!({ "pinned": null })).await;
    assert_eq!(pinned("ann").await, json!([hidden, public]), "null is absent");
    server.done("ann", "PATCH", "/users/me", &json!({ "pinned": [] })).await;
    assert_eq!(pinned("ann").await, Value::Null);
}

#[tokio::test]
async fn posts_are_listed_by_kind() {
    let server = Server::start().await;
    let picture = json!({ "text": "", "media": [{ "type": "image", "url": "/a.png" }] });
    let mut pictures = Vec::new();
    for n in 0..40 {
        server.post("ann", &format!("text {n}")).await;
        if n % 10 == 0 {
            pictures.push(post_with(&server, "ann", &picture).await);
        }
    }
    pictures.reverse();
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/users/ann/posts?only=media&limit=3{cursor}");
        let page = server.done("bo", "GET", &path, &Value::Null).await;
        found.extend(page["items"].as_array().expect("items").iter().filter_map(|post| post["id"].as_u64()));
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(found, pictures);
    let texts = ids(&server, "bo", "/users/ann/posts?without=media&limit=100").await;
    assert_eq!(texts.len(), 40);
    assert!(!texts.iter().any(|id| pictures.iter().any(|picture| id == picture)));
    assert_eq!(ids(&server, "bo", "/users/ann/posts?limit=100").await.len(), 44);
    for wrong in ["only=texts", "without=media,texts", "only="] {
        assert_eq!(read(&server, "bo", &format!("/users/ann/posts?{wrong}")).await.0, 400, "{wrong}");
    }
}

#[tokio::test]
async fn previews_have_the_requested_length() {
    let server = Server::start().await;
    let post = server.post("ann", "liked and commented").await;
    for n in 0..22 {
        server.done("bo", "POST", &format!("/posts/{post}/comments"), &json!({ "text": format!("{n}") })).await;
        server.done(&format!("u{n}"), "PUT", &format!("/posts/{post}/like"), &Value::Null).await;
    }
    let lengths = async |with: &str| {
        let shown = server.done("cy", "GET", &format!("/posts/{post}?with={with}"), &Value::Null).await;
        ["likers", "newest_comments"].map(|part| shown[part].as_array().map(Vec::len))
    };
    until("the likes are settled", async || lengths("likers:20").await == [Some(20), None]).await;
    assert_eq!(lengths("likers,comments").await, [Some(8), Some(3)], "as without a number");
    assert_eq!(lengths("comments:20").await, [None, Some(20)]);
    assert_eq!(lengths("comments:1,likers:9").await, [Some(9), Some(1)]);
    assert_eq!(read(&server, "cy", &format!("/posts/{post}?with=comments:21")).await.0, 400);
}

#[tokio::test]
async fn mutes_end_by_themselves() {
    let server = Server::start().await;
    server.follow("bo", "ann").await;
    let post = server.post("ann", "hello").await;
    let soon = |millis: u64| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_millis();
        json!({ "until": u64::try_from(now).expect("a time") + millis })
    };
    let shown = async || ids(&server, "bo", "/timeline").await.contains(&json!(post));
    let mute = async |body: &Value| server.done("bo", "PUT", "/users/ann/mute", body).await;
    mute(&soon(1_500)).await;
    assert!(!shown().await);
    until("the mute is over", shown).await;
    let edges = server.done("bo", "GET", "/users/ann", &Value::Null).await["edges"].take();
    assert_eq!(edges["muting"], false);
    // A later mute replaces the end of an earlier one.
    mute(&soon(1_000)).await;
    mute(&Value::Null).await;
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    assert!(!shown().await, "it has no end any more");
    let export = server.done("bo", "GET", "/accounts/export", &Value::Null).await;
    assert_eq!(export["restrictions"][0]["until"], Value::Null, "{export}");
    mute(&soon(3_600_000)).await;
    let export = server.done("bo", "GET", "/accounts/export", &Value::Null).await;
    assert!(export["restrictions"][0]["until"].is_u64(), "{export}");
    for wrong in [json!({ "until": 5 }), json!({ "until": "tomorrow" })] {
        assert_eq!(server.call("bo", "PUT", "/users/ann/mute", &wrong).await.status, 400, "{wrong}");
    }
}

#[tokio::test]
async fn private_favourites_are_in_no_list_and_no_count_of_others() {
    let server = Server::start().await;
    let post = server.post("ann", "a favourite").await;
    let path = format!("/favourites/post/{post}");
    server.done("bo", "PUT", &path, &Value::Null).await;
    let added = server.done("cy", "PUT", &path, &json!({ "private": true })).await;
    assert_eq!(added["private"], true, "{added}");
    let holders = server.done("ann", "GET", &format!("/objects/post/{post}/favourites"), &Value::Null).await;
    assert_eq!((&holders["count"], holders["items"].as_array().expect("items").len()), (&json!(1), 1), "{holders}");
    assert_eq!(holders["items"][0]["id"], "bo");
    assert_eq!(server.done("ann", "GET", &format!("/posts/{post}"), &Value::Null).await["favourites"], 1);
    let own = server.done("cy", "GET", "/favourites/post", &Value::Null).await;
    assert_eq!((&own["items"][0]["id"], &own["items"][0]["private"]), (&json!(post.to_string()), &json!(true)));
    assert_eq!(server.done("cy", "GET", &format!("/posts/{post}"), &Value::Null).await["favourited"], true);
    let export = server.done("cy", "GET", "/accounts/export", &Value::Null).await;
    assert_eq!(export["favourites"][0]["private"], true, "{export}");
    // Added again without the word, it is one like others.
    server.done("cy", "PUT", &path, &Value::Null).await;
    assert_eq!(server.done("ann", "GET", &format!("/posts/{post}"), &Value::Null).await["favourites"], 2);
    let own = server.done("cy", "GET", "/favourites/post", &Value::Null).await;
    assert_eq!(own["items"][0]["private"], Value::Null);
}
