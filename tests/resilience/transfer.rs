//! `feedline export` and `feedline import`: an instance that moves from SQLite to PostgreSQL and back is the same.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::{attempt, done};
use crate::postgres_server::shared;
use crate::server::{Server, until};

const USERS: [&str; 4] = ["ann", "bo", "cy", "di"];

/// Writes some of everything. Returns the addresses under which it is read.
async fn fill(server: &Server) -> Vec<String> {
    let ask = async |user: &str, method: &str, path: &str, body: Value| {
        let (status, answer) = attempt(server, user, method, path, &body).await;
        assert!((200..300).contains(&status), "{user} {method} {path}: {status} {answer}");
        answer
    };
    let account = json!({ "user": "Eva", "password": "correct horse", "name": "Eva Éclair 東" });
    let made = server.http("POST", "/api/v1/accounts", &[], &account.to_string()).await;
    assert_eq!(made.status.as_u16(), 201, "{made:?}");
    for user in USERS {
        ask(user, "PATCH", "/users/me", json!({ "name": format!("{user} \"Ü\" \\ 🎈"), "bio": "x\ny" })).await;
    }
    for (one, other) in [("ann", "bo"), ("bo", "ann"), ("cy", "ann"), ("di", "ann"), ("ann", "cy"), ("di", "bo")] {
        ask(one, "PUT", &format!("/users/{other}/follow"), json!({})).await;
    }
    ask("cy", "PUT", "/users/di/mute", json!({})).await;
    ask("ann", "PUT", "/users/eva/block", json!({})).await;
    let media = json!([{ "type": "image", "url": "https://example.org/a.png", "alt": "an \u{202e} image" }]);
    let mut posts = Vec::new();
    for visibility in [json!("public"), json!("followers"), json!({ "only_to": ["bo"] }), json!({ "not_to": ["di"] })] {
        let post =
            json!({ "text": "Hello @cy #Rust #東京", "visibility": visibility, "media": media, "data": { "n": [1] } });
        posts.push(ask("ann", "POST", "/posts", post).await["id"].as_u64().unwrap());
    }
    let gone = ask("ann", "POST", "/posts", json!({ "text": "gone #rust" })).await["id"].as_u64().unwrap();
    ask("ann", "DELETE", &format!("/posts/{gone}"), json!({})).await;
    let edited = ask("bo", "POST", "/posts", json!({ "text": "before" })).await["id"].as_u64().unwrap();
    ask("bo", "PATCH", &format!("/posts/{edited}"), json!({ "text": "after #Rust" })).await;
    let first = posts[0];
    let comments = format!("/posts/{first}/comments");
    let comment = ask("bo", "POST", &comments, json!({ "text": "yes @di" })).await["id"].as_u64().unwrap();
    ask("ann", "POST", &comments, json!({ "text": "no", "reply_to": comment })).await;
    for user in ["bo", "cy", "di"] {
        ask(user, "PUT", &format!("/posts/{first}/like"), json!({})).await;
        ask(user, "PUT", &format!("/comments/{comment}/like"), json!({})).await;
        ask(user, "PUT", &format!("/favourites/post/{first}"), json!({})).await;
    }
    ask("cy", "DELETE", &format!("/posts/{first}/like"), json!({})).await;
    let said = json!({ "to": USERS, "kind": "app.x", "key": "k", "title": "東 \"x\"", "body": "a\nb" });
    ask("", "POST", "/notifications", said).await;
    let hook = json!({ "platform": "unifiedpush", "endpoint": "https://push.example.org/x" });
    let (status, answer) = attempt(server, "bo", "PUT", "/devices/phone", &hook).await;
    assert!(status < 500, "{answer}");
    server.backend("block_user", &json!({ "user": "di" })).await;
    server.backend("unblock_user", &json!({ "user": "di" })).await;
    until("likes are settled, and notifications are there", async || {
        let likes = done(server, "ann", "GET", &format!("/posts/{first}")).await["likes"].as_u64();
        let groups = done(server, "ann", "GET", "/notifications").await["items"].as_array().map_or(0, Vec::len);
        let mut is_settled = likes == Some(2) && groups >= 4;
        for queue in ["feedline_events_pending", "feedline_like_events_pending", "feedline_likes_queue"] {
            is_settled &= server.metric(queue).await == Some(0.0);
        }
        is_settled
    })
    .await;
    // Not before its comments and likes are notifications: a muted conversation has none.
    ask("ann", "PUT", &format!("/posts/{first}/mute"), json!({})).await;
    let newest = done(server, "ann", "GET", "/notifications").await["items"][1]["seq"].clone();
    if newest.is_u64() {
        let (status, answer) = attempt(server, "ann", "POST", "/notifications/read", &json!({ "upto": newest })).await;
        assert!(status < 500, "{answer}");
    }
    let mut paths: Vec<String> = ["timeline", "notifications", "posts/explore", "topics", "topics/rust/posts"]
        .iter()
        .chain(&["users?q=a", "users/suggested", "users/me/friends", "users/me/muted", "users/me/blocked", "devices"])
        .chain(&["favourites/post", "favourites/post/common/bo", "accounts/export", "push/preferences"])
        .map(|path| format!("/{path}"))
        .collect();
    for user in USERS.iter().chain(&["eva"]) {
        for list in ["", "/posts", "/likes", "/comments", "/followers", "/following", "/shared"] {
            paths.push(format!("/users/{user}{list}"));
        }
    }
    for post in posts.iter().chain(&[gone, edited]) {
        for list in ["", "/comments", "/likes"] {
            paths.push(format!("/posts/{post}{list}"));
        }
    }
    paths.push(format!("/posts/{first}/comments?reply_to={comment}"));
    paths.push(format!("/comments/{comment}/likes"));
    paths.push(format!("/objects/post/{first}/favourites"));
    paths
}

/// What each user reads, without the positions of logs, which belong to the broker.
async fn everything(server: &Server, paths: &[String]) -> Vec<String> {
    let mut all = Vec::new();
    for user in USERS {
        for path in paths {
            let (status, mut answer) = attempt(server, user, "GET", path, &Value::Null).await;
            assert!(status < 500, "{user} {path}: {answer}");
            if let Some(members) = answer.as_object_mut() {
                members.remove("position");
            }
            all.push(format!("{user} {path} {status} {answer}"));
        }
    }
    all
}

/// The same once nothing changes any more: likes are notifications a while after they count.
async fn settled(server: &Server, paths: &[String]) -> Vec<String> {
    let mut before = everything(server, paths).await;
    loop {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let now = everything(server, paths).await;
        if now == before {
            return now;
        }
        before = now;
    }
}

/// Shows the answers that differ.
fn assert_same(now: &[String], before: &[String]) {
    let differ = |(now, before): &(&String, &String)| now != before;
    let different: Vec<_> = now.iter().zip(before).filter(differ).collect();
    assert!(different.is_empty(), "{different:#?}");
}

/// The rows of an export, apart from their order.
fn rows(file: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(file).expect("an export");
    let lines = text.lines().filter(|line| !line.contains("feedline-export"));
    lines.map(|line| serde_json::from_str::<Value>(line).expect("JSON").to_string()).collect()
}

fn run(server: &Server, ledger: Option<&str>, args: &[&str]) -> String {
    let mut command = server.program(args);
    if let Some(url) = ledger {
        command.env("FEEDLINE__LEDGER__URL", url);
    }
    let ended = command.output().expect("the program");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success(), "{args:?}: {said}");
    said
}

#[tokio::test]
async fn an_instance_moves_between_the_ledgers_and_is_the_same() {
    let mut first = Server::start().await;
    let paths = fill(&first).await;
    let before = settled(&first, &paths).await;
    first.stop().await;

    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| -> PathBuf { folder.path().join(name) };
    let (from_sqlite, from_postgres, again) = (file("sqlite"), file("postgres"), file("again"));
    run(&first, None, &["export", "--to", from_sqlite.to_str().unwrap()]);
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&from_sqlite).expect("the file").permissions());
    assert_eq!(mode & 0o777, 0o600, "it has the hashes of passwords");

    let database = shared().database("template1").await;
    let postgres = shared().url(&database);
    let said = run(&first, Some(&postgres), &["import", from_sqlite.to_str().unwrap()]);
    assert!(said.contains("imported"), "{said}");
    let repeated = run(&first, Some(&postgres), &["import", from_sqlite.to_str().unwrap()]);
    assert!(repeated.contains(" 0 of them new"), "{repeated}");
    run(&first, Some(&postgres), &["export", "--to", from_postgres.to_str().unwrap()]);
    assert_eq!(rows(&from_postgres), rows(&from_sqlite));
    // Notifications remember events that are gone: a later event with such a number would not count.
    let behind = "SELECT pg_sequence_last_value(pg_get_serial_sequence('events', 'seq')::regclass) >=
                      (SELECT max(event) FROM notification_people)";
    let client = shared().client(&database).await;
    assert!(client.query_one(behind, &[]).await.expect("an answer").get::<_, bool>(0));

    let mut second = Server::start_with(&[("ledger.url", &postgres)]).await;
    assert_same(&everything(&second, &paths).await, &before);
    // Numbers continue behind those of the imported rows.
    let used = second.post("ann", "and on #rust").await;
    done(&second, "di", "PUT", "/users/cy/follow").await;
    done(&second, "di", "PUT", &format!("/posts/{used}/like")).await;
    done(&second, "di", "PUT", &format!("/favourites/post/{used}")).await;
    until("the like is settled", async || done(&second, "ann", "GET", &format!("/posts/{used}")).await["likes"] == 1)
        .await;
    until("events are notifications", async || second.metric("feedline_events_pending").await == Some(0.0)).await;
    let said = second.program(&["import", from_sqlite.to_str().unwrap()]).output().expect("the program");
    assert!(String::from_utf8_lossy(&said.stderr).contains("a node is running"), "{said:?}");
    let after = settled(&second, &paths).await;
    second.stop().await;

    run(&second, None, &["export", "--to", again.to_str().unwrap()]);
    let third_ledger = format!("sqlite://{}", file("third.db").display());
    run(&second, Some(&third_ledger), &["import", again.to_str().unwrap()]);
    let third = Server::start_with(&[("ledger.url", &third_ledger)]).await;
    assert_same(&everything(&third, &paths).await, &after);
    third.post("bo", "on SQLite again").await;
}

#[tokio::test]
async fn files_that_are_cut_off_or_something_else_are_refused() {
    let mut server = Server::start().await;
    server.post("ann", "hello").await;
    server.stop().await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("export");
    run(&server, None, &["export", "--to", file.to_str().unwrap()]);
    let text = fs::read_to_string(&file).expect("an export");
    let lines: Vec<&str> = text.lines().collect();
    let without_one = [&lines[..2], &lines[3..]].concat().join("\n");
    let unknown = text.replacen("\"type\":\"users\"", "\"type\":\"ghosts\"", 1);
    for (name, content, expected) in [
        ("empty", String::new(), "line 1: the file ends"),
        ("cut", lines[..lines.len() - 1].join("\n"), "it was cut off"),
        ("lost", without_one, "the file has lost lines"),
        ("another", "{\"type\":\"users\"}".to_owned(), "line 1: expected a file of feedline export"),
        ("version", text.replacen("\"version\":1", "\"version\":2", 1), "the file has version 2"),
        ("no JSON", text.replacen(lines[1], "hello", 1), "line 2: no row"),
        ("unknown", unknown, "unknown type \"ghosts\""),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, content).expect("a file");
        let target = format!("sqlite://{}", folder.path().join(format!("{name}.db")).display());
        let mut import = server.program(&["import", path.to_str().unwrap()]);
        let ended = import.env("FEEDLINE__LEDGER__URL", target).output().expect("the program");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success() && said.contains(expected), "{name}: {said}");
    }
    let again = server.program(&["export", "--to", file.to_str().unwrap()]).output().expect("the program");
    assert!(!again.status.success(), "the file is there already");
    let piped = server.program(&["export"]).output().expect("the program");
    assert_eq!(piped.stdout.iter().filter(|byte| **byte == b'\n').count(), lines.len());
}
