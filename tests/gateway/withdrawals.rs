//! Withdrawals: a user may take back what they did although they cannot see its object any more.

use serde_json::{Value, json};

use crate::client::Client;
use crate::server::{Server, until};

/// Why an object is out of sight.
const REASONS: [&str; 5] = ["blocked", "blocking", "private", "hidden", "narrowed"];

/// The author of the objects of a case.
fn author(reason: &str) -> String {
    format!("author-{reason}")
}

struct Objects {
    post: u64,
    comment: u64,
    /// A comment by ann.
    own: u64,
}

async fn comment(server: &Server, user: &str, post: u64) -> u64 {
    let path = format!("/posts/{post}/comments");
    server.done(user, "POST", &path, &json!({ "text": "words" })).await["id"].as_u64().expect("an id")
}

/// A post of an author, with a comment of the author and one of ann. Ann has done everything that can be taken back.
async fn done_by_ann(server: &Server, reason: &str) -> Objects {
    let author = author(reason);
    let post = server.post(&author, "a post").await;
    let objects =
        Objects { post, comment: comment(server, &author, post).await, own: comment(server, "ann", post).await };
    for path in doings(&objects, &author) {
        server.done("ann", "PUT", &path, &Value::Null).await;
    }
    let likes = async || likes(server, &author, &objects).await == [1, 1];
    until("the likes are settled", likes).await;
    objects
}

/// What is done by PUT and taken back by DELETE.
fn doings(Objects { post, comment, .. }: &Objects, author: &str) -> Vec<String> {
    let of_post = ["like", "mute"].map(|what| format!("/posts/{post}/{what}"));
    let of_author = ["mute", "hide", "notify"].map(|what| format!("/users/{author}/{what}"));
    let others = [format!("/comments/{comment}/like"), format!("/favourites/post/{post}")];
    of_post.into_iter().chain(of_author).chain(others).collect()
}

/// The likes of the post and of the comment, as their author sees them.
async fn likes(server: &Server, author: &str, Objects { post, comment, .. }: &Objects) -> [u64; 2] {
    let mut found = [0; 2];
    for (likes, path) in found.iter_mut().zip([format!("/posts/{post}"), format!("/comments/{comment}")]) {
        *likes = server.done(author, "GET", &path, &Value::Null).await["likes"].as_u64().expect("a count");
    }
    found
}

/// Hides the objects from ann.
async fn take_out_of_sight(server: &Server, reason: &str, Objects { post, .. }: &Objects) {
    let author = author(reason);
    let path = format!("/posts/{post}");
    match reason {
        "blocked" => server.done(&author, "PUT", "/users/ann/block", &Value::Null).await,
        "blocking" => server.done("ann", "PUT", &format!("/users/{author}/block"), &Value::Null).await,
        "hidden" => server.done(&author, "PUT", "/users/ann/hide", &Value::Null).await,
        "private" => server.done(&author, "PATCH", &path, &json!({ "visibility": { "only_to": ["zoe"] } })).await,
        _ => server.done(&author, "PATCH", &path, &json!({ "visibility": { "not_to": ["ann"] } })).await,
    };
    assert_eq!(server.call("ann", "GET", &path, &Value::Null).await.status, 404, "{reason}");
}

async fn status(server: &Server, user: &str, method: &str, path: &str) -> u16 {
    server.call(user, method, path, &Value::Null).await.status.as_u16()
}

#[tokio::test]
async fn everything_done_is_taken_back_out_of_sight() {
    let server = Server::start().await;
    for reason in REASONS {
        let objects = done_by_ann(&server, reason).await;
        let author = author(reason);
        take_out_of_sight(&server, reason, &objects).await;
        for path in doings(&objects, &author) {
            let answer = server.call("ann", "DELETE", &path, &Value::Null).await;
            assert_eq!(answer.status, 200, "{reason} {path}: {answer:?}");
            assert!(answer.body.get("likes").is_none(), "{reason} {path}: counts are for those who see it");
        }
        assert_eq!(status(&server, "ann", "DELETE", &format!("/users/{author}/follow")).await, 200, "{reason}");
        let own = format!("/comments/{}", objects.own);
        assert_eq!(status(&server, "ann", "DELETE", &own).await, 200, "{reason}");
        assert_eq!(status(&server, &author, "GET", &own).await, 404, "{reason}: the comment is gone");
        until("the likes are gone", async || likes(&server, &author, &objects).await == [0, 0]).await;
        let shown = server.done(&author, "GET", &format!("/posts/{}", objects.post), &Value::Null).await;
        assert_eq!((&shown["favourites"], &shown["comments"]), (&json!(0), &json!(1)), "{reason}: {shown}");
        for list in ["muted", "hidden"] {
            let page = server.done("ann", "GET", &format!("/users/me/{list}"), &Value::Null).await;
            assert_eq!(page["items"], json!([]), "{reason}");
        }
    }
}

/// A withdrawal does not reveal that an object exists.
#[tokio::test]
async fn nothing_is_taken_back_from_what_one_never_touched() {
    let server = Server::start().await;
    for reason in REASONS {
        let author = author(reason);
        let post = server.post(&author, "a post").await;
        let there = Objects { post, comment: comment(&server, &author, post).await, own: 0 };
        server.done("ann", "GET", "/users/ann", &Value::Null).await;
        take_out_of_sight(&server, reason, &there).await;
        let missing = doings(&Objects { post: 1, comment: 1, own: 0 }, "nobody-there");
        for (path, missing) in doings(&there, &author).iter().zip(&missing) {
            let hidden = server.call("ann", "DELETE", path, &Value::Null).await;
            let missing = server.call("ann", "DELETE", missing, &Value::Null).await;
            assert_eq!((hidden.status, &hidden.body), (missing.status, &missing.body), "{reason} {path}");
        }
        let comment = format!("/comments/{}", there.comment);
        assert_eq!(status(&server, "ann", "DELETE", &comment).await, 404, "{reason}: it is not hers");
    }
    for path in ["/posts/1/like", "/comments/1/like", "/posts/1/mute"] {
        assert_eq!(status(&server, "ann", "DELETE", path).await, 404, "{path}");
    }
}

#[tokio::test]
async fn everything_done_is_taken_back_after_a_deletion() {
    let server = Server::start().await;
    let objects = done_by_ann(&server, "deleted").await;
    let author = author("deleted");
    server.done(&author, "DELETE", &format!("/comments/{}", objects.comment), &Value::Null).await;
    server.done(&author, "DELETE", &format!("/posts/{}", objects.post), &Value::Null).await;
    for path in doings(&objects, &author) {
        assert_eq!(status(&server, "ann", "DELETE", &path).await, 200, "{path}");
    }
    assert_eq!(status(&server, "ann", "DELETE", &format!("/comments/{}", objects.own)).await, 200);
    for path in [format!("/posts/{}/like", objects.post), format!("/comments/{}/like", objects.comment)] {
        assert_eq!(status(&server, "zoe", "DELETE", &path).await, 404, "{path}: she never liked it");
    }
}

#[tokio::test]
async fn a_like_is_taken_back_over_a_socket_before_it_is_settled() {
    let server = Server::start().await;
    let mut ann = Client::connect(&server, "ann").await;
    let mut attempt = 0;
    let (author, post) = loop {
        let author = format!("bo-{attempt}");
        let post = server.post(&author, "a post").await;
        assert_eq!(ann.rpc("likes.add", &json!({ "post": post })).await["liked"], true);
        server.done(&author, "PUT", "/users/ann/block", &Value::Null).await;
        let reply = ann.call(json!({ "rpc": { "method": "likes.remove", "data": { "post": post } } })).await;
        if reply["error"].is_null() {
            assert_eq!(reply["rpc"]["data"], json!({ "state": "accepted", "liked": false }));
            break (author, post);
        }
        // On a busy machine, it may be too late: the like was reverted, because the post is hidden.
        assert_eq!(reply["error"]["code"], 404, "{reply}");
        attempt += 1;
        assert!(attempt < 10, "{reply}");
    };
    let is_unliked = async || {
        let shown = server.done(&author, "GET", &format!("/posts/{post}"), &Value::Null).await;
        shown["likes"] == 0
    };
    until("the like is gone", is_unliked).await;
}
