//! Idempotency keys, and rate limits of writes.

use std::path::Path;
use std::time::{Duration, Instant};

use futures::future::join_all;
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::client::Client;
use crate::server::{API_KEY, Answer, PATIENCE, Server, token};

/// An HTTP operation of a user with an `Idempotency-Key` header.
async fn named(server: &Server, user: &str, key: &str, method: &str, path: &str, body: &Value) -> Answer {
    let token = format!("Bearer {}", token(user));
    let headers = [("authorization", &*token), ("idempotency-key", key)];
    let body = if body.is_null() { String::new() } else { body.to_string() };
    server.http(method, &format!("/api/v1{path}"), &headers, &body).await
}

fn said(answer: &Answer) -> (u16, Value) {
    (answer.status.as_u16(), answer.body.clone())
}

fn refusal(answer: &Answer) -> (u16, &str, Option<&str>) {
    let error = &answer.body["error"];
    (answer.status.as_u16(), error["code"].as_str().unwrap_or_default(), error["field"].as_str())
}

async fn posts(server: &Server, user: &str) -> Vec<Value> {
    let page = server.done(user, "GET", &format!("/users/{user}/posts?limit=100"), &Value::Null).await;
    page["items"].as_array().expect("items").clone()
}

/// A server whose ledger file the test can open.
async fn open_server() -> (Server, Connection, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ledger.db");
    let server = Server::start_with(&[("ledger.url", &format!("sqlite://{}", path.display()))]).await;
    let db = open(&path);
    (server, db, folder)
}

fn open(path: &Path) -> Connection {
    let db = Connection::open(path).expect("the ledger");
    db.busy_timeout(PATIENCE).expect("a timeout");
    db
}

fn change(db: &Connection, sql: &str) {
    assert_eq!(db.execute(sql, []).expect(sql), 1, "{sql}");
}

#[tokio::test]
async fn repeated_writes_return_the_first_answer_on_any_transport() {
    let server = Server::start().await;
    let mut ann = Client::connect(&server, "ann").await;
    let draft = json!({ "text": "once #t", "data": { "n": 1.5 } });
    let mut with_key = draft.clone();
    with_key["idempotency_key"] = "a key!".into();

    let first = named(&server, "ann", "a key!", "POST", "/posts", &draft).await;
    assert_eq!(first.status, 201, "{first:?}");
    assert_eq!(said(&named(&server, "ann", "a key!", "POST", "/posts", &draft).await), said(&first));
    assert_eq!(said(&named(&server, "ann", "a key!", "POST", "/posts", &with_key).await), said(&first), "both");
    assert_eq!(said(&server.call("ann", "POST", "/posts", &with_key).await), said(&first), "in the body");
    assert_eq!(ann.rpc("posts.create", &with_key).await, first.body);
    assert_eq!(posts(&server, "ann").await, std::slice::from_ref(&first.body));
    assert_eq!(ann.publication("timeline:ann").await["data"]["post"]["id"], first.body["id"]);

    // The reverse order, and an id that is text in a path and a number in rpc.
    let id = &first.body["id"];
    let done = ann.rpc("posts.delete", &json!({ "id": id, "idempotency_key": "d" })).await;
    let gone = server.call("ann", "DELETE", &format!("/posts/{id}?idempotency_key=d"), &Value::Null).await;
    assert_eq!(said(&gone), (200, done));
    let unnamed = server.call("ann", "DELETE", &format!("/posts/{id}"), &Value::Null).await;
    assert_eq!(unnamed.status, 404, "without the key it is another deletion");
    assert_eq!(said(&named(&server, "ann", "a key!", "POST", "/posts", &draft).await), said(&first), "as it was");
    assert!(posts(&server, "ann").await.is_empty());

    // Permanent errors are stored, too: a follow of an unknown user keeps failing under its key even after that user
    // exists.
    let refused = named(&server, "ann", "f", "PUT", "/users/bo/follow", &Value::Null).await;
    assert_eq!(refusal(&refused), (404, "not_found", None));
    server.done("bo", "GET", "/users/bo", &Value::Null).await;
    assert_eq!(said(&named(&server, "ann", "f", "PUT", "/users/bo/follow", &Value::Null).await), said(&refused));
    let over_rpc = json!({ "rpc": { "method": "users.follow", "data": { "id": "bo", "idempotency_key": "f" } } });
    let reply = ann.call(over_rpc).await;
    assert_eq!(reply["error"]["code"], 404, "{reply}");
    assert_eq!(reply["error"]["message"], "not_found: no such user");
    assert!(reply["error"].get("temporary").is_none_or(|temporary| *temporary == false), "{reply}");
    assert_eq!(named(&server, "ann", "g", "PUT", "/users/bo/follow", &Value::Null).await.status, 200);
}

#[tokio::test]
async fn idempotency_keys_are_scoped_to_user_and_write() {
    let server = Server::start().await;
    let draft = json!({ "text": "mine" });
    let first = named(&server, "ann", "k", "POST", "/posts", &draft).await;
    let reused = (422, "idempotency_conflict", Some("idempotency_key"));
    for (method, path, body) in [
        ("POST", "/posts", json!({ "text": "other" })),
        ("POST", "/posts", json!({ "text": "mine", "topics": [] })),
        ("POST", "/posts", json!({})),
        ("DELETE", "/users/bo/follow", json!(null)),
    ] {
        let answer = named(&server, "ann", "k", method, path, &body).await;
        assert_eq!(refusal(&answer), reused, "{method} {path} {body}");
    }
    assert_eq!(said(&named(&server, "ann", "k", "POST", "/posts", &draft).await), said(&first), "as before");
    let bos = named(&server, "bo", "k", "POST", "/posts", &draft).await;
    assert_eq!((bos.status.as_u16(), &bos.body["author"]), (201, &json!("bo")), "keys are scoped to a user");
    // A backend that acts for a user shares the keys of that user.
    let headers = [("x-api-key", API_KEY), ("x-user", "ann"), ("idempotency-key", "k")];
    let backend = server.http("POST", "/api/v1/posts", &headers, &draft.to_string()).await;
    assert_eq!(said(&backend), said(&first));
    assert_eq!(posts(&server, "ann").await.len(), 1);

    let mut longest = draft.clone();
    longest["idempotency_key"] = "x".repeat(255).into();
    assert_eq!(server.call("ann", "POST", "/posts", &longest).await.status, 201);
    for wrong in [json!(""), json!("x".repeat(256)), json!("a\nb"), json!("é"), json!(7)] {
        let mut body = draft.clone();
        body["idempotency_key"] = wrong;
        let answer = server.call("ann", "POST", "/posts", &body).await;
        assert_eq!(refusal(&answer), (400, "invalid", Some("idempotency_key")), "{body}");
    }
    longest["text"] = "two names".into();
    let two = named(&server, "ann", "other", "POST", "/posts", &longest).await;
    assert_eq!(refusal(&two), (400, "invalid", Some("idempotency_key")));

    // Reads do not accept a key; an operation that creates a user has no user to store a key for.
    let token = format!("Bearer {}", token("ann"));
    let read = [("authorization", &*token), ("idempotency-key", "k")];
    assert_eq!(server.http("GET", "/api/v1/timeline", &read, "").await.status, 200);
    let named = server.call("ann", "GET", "/timeline?idempotency_key=k", &Value::Null).await;
    assert_eq!(refusal(&named), (400, "invalid", Some("idempotency_key")));
    let account = json!({ "user": "dee", "password": "long enough" }).to_string();
    let status =
        async || server.http("POST", "/api/v1/accounts", &[("idempotency-key", "k")], &account).await.status.as_u16();
    assert_eq!((status().await, status().await), (201, 409));
}

#[tokio::test]
async fn concurrent_repeats_execute_once() {
    let server = Server::start().await;
    let draft = json!({ "text": "once" });
    for round in 0..5 {
        let key = format!("k{round}");
        let answers = join_all((0..12).map(|_| named(&server, "ann", &key, "POST", "/posts", &draft))).await;
        let first = said(&answers[0]);
        assert_eq!(first.0, 201, "{first:?}");
        assert!(answers.iter().all(|answer| said(answer) == first), "{answers:?}");
        assert_eq!(posts(&server, "ann").await.len(), round + 1);
    }
}

#[tokio::test]
async fn unanswered_writes_are_retried_under_the_same_id() {
    let (server, db, _folder) = open_server().await;
    let draft = json!({ "text": "once" });
    let mut ann = Client::connect(&server, "ann").await;
    let first = named(&server, "ann", "k", "POST", "/posts", &draft).await;
    ann.publication("timeline:ann").await;

    // The first request is still running on another node.
    change(&db, "UPDATE idempotency SET answer = NULL, until = 9000000000000");
    let running = named(&server, "ann", "k", "POST", "/posts", &draft).await;
    assert_eq!(refusal(&running), (409, "in_progress", Some("idempotency_key")));
    assert_eq!(running.header("retry-after"), Some("1"));
    let rpc = json!({ "rpc": { "method": "posts.create", "data": { "text": "once", "idempotency_key": "k" } } });
    let reply = ann.call(rpc).await;
    assert_eq!((&reply["error"]["code"], &reply["error"]["temporary"]), (&json!(409), &json!(true)), "{reply}");

    // The first request ends while a repeat waits.
    let (waited, ()) = tokio::join!(named(&server, "ann", "k", "POST", "/posts", &draft), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        change(&db, "UPDATE idempotency SET until = 0");
    });
    assert_eq!(said(&waited), said(&first), "stored without a reply: the same post, not another");
    assert_eq!(posts(&server, "ann").await, std::slice::from_ref(&first.body));
    assert_eq!(ann.pushed().await, [json!(null); 0], "no user was notified twice");

    // The post was deleted: the key still refers to it, and it is not restored.
    server.done("ann", "DELETE", &format!("/posts/{}", first.body["id"]), &Value::Null).await;
    change(&db, "UPDATE idempotency SET answer = NULL, until = 0");
    assert_eq!(said(&named(&server, "ann", "k", "POST", "/posts", &draft).await), said(&first));
    assert!(posts(&server, "ann").await.is_empty());
    let deleted = server.call("ann", "GET", &format!("/posts/{}", first.body["id"]), &Value::Null).await;
    assert_eq!(deleted.status, 404);

    // The key expires after a day.
    change(&db, "UPDATE idempotency SET begun_at = begun_at - 23 * 3600000");
    assert_eq!(said(&named(&server, "ann", "k", "POST", "/posts", &draft).await), said(&first));
    change(&db, "UPDATE idempotency SET begun_at = begun_at - 2 * 3600000");
    let second = named(&server, "ann", "k", "POST", "/posts", &draft).await;
    assert_eq!(second.status, 201);
    assert_ne!(second.body["id"], first.body["id"]);
}

#[tokio::test]
async fn unanswered_comments_are_retried_under_the_same_id() {
    let (server, db, _folder) = open_server().await;
    let post = server.post("bo", "say something").await;
    let path = format!("/posts/{post}/comments");
    let mut bo = Client::connect(&server, "bo").await;
    bo.subscribe(&format!("post:{post}")).await;
    let comment = json!({ "text": "once" });
    let first = named(&server, "ann", "k", "POST", &path, &comment).await;
    assert_eq!(first.status, 201, "{first:?}");
    change(&db, "UPDATE idempotency SET answer = NULL, until = 0");
    assert_eq!(said(&named(&server, "ann", "k", "POST", &path, &comment).await), said(&first));
    let comments = server.done("ann", "GET", &path, &Value::Null).await;
    assert_eq!(comments["items"].as_array().map(Vec::len), Some(1), "{comments}");
    let received = bo.pushed().await;
    let arrived = received.iter().filter(|push| push["pub"]["data"]["type"] == "comment").count();
    assert_eq!(arrived, 1, "{received:?}");
    // The repeat wrote no event: once the first event is processed, no other follows.
    let until = Instant::now() + PATIENCE;
    let notifications = loop {
        let notifications = server.done("bo", "GET", "/notifications", &Value::Null).await;
        if notifications["items"].as_array().is_some_and(|items| !items.is_empty()) {
            break notifications;
        }
        assert!(Instant::now() < until, "no notification arrived");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(notifications["items"].as_array().map(Vec::len), Some(1), "{notifications}");
    assert_eq!(notifications["items"][0]["count"], 1, "{notifications}");
}

#[tokio::test]
async fn repeated_deletions_return_the_first_answer() {
    let (server, db, _folder) = open_server().await;
    let post = server.post("ann", "goes").await;
    let under = server.post("ann", "stays").await;
    let said_under = json!({ "text": "goes" });
    let comment = server.done("bo", "POST", &format!("/posts/{under}/comments"), &said_under).await;
    let filter = server.done("cy", "POST", "/filters", &json!({ "words": ["goes"] })).await;
    let list = server.done("dee", "POST", "/lists", &json!({ "name": "goes", "exclusive": true })).await;
    server.done("dee", "PUT", &format!("/lists/{}/users/ann", list["id"]), &Value::Null).await;
    server.done("dee", "PUT", "/users/ann/follow", &Value::Null).await;
    // A node died in the middle of the deletion: ann is excluded, and the list is not exclusive any more.
    change(&db, "UPDATE lists SET exclusive = 0");
    for (user, path) in [
        ("ann", format!("/posts/{post}")),
        ("bo", format!("/comments/{}", comment["id"])),
        ("cy", format!("/filters/{}", filter["id"])),
        ("dee", format!("/lists/{}", list["id"])),
    ] {
        let delete = async |key: &'static str| named(&server, user, key, "DELETE", &path, &Value::Null).await;
        assert_eq!(said(&delete("k").await), (200, json!({})));
        assert_eq!(said(&delete("k").await), (200, json!({})), "{path}: remembered");
        // The write succeeded, and the server crashed before it stored the reply.
        let of = format!("key = 'k' AND user = '{user}' AND reserved IS NULL");
        change(&db, &format!("UPDATE idempotency SET answer = NULL, until = 0 WHERE {of}"));
        assert_eq!(said(&delete("k").await), (200, json!({})), "{path}: found done");
        assert_eq!(delete("another").await.status, 404, "{path}: another deletion finds nothing");
        assert_eq!(delete("another").await.status, 404, "{path}: and goes on finding nothing");
    }
    let timeline = server.done("dee", "GET", "/timeline", &Value::Null).await;
    assert_eq!(timeline["items"][0]["id"], json!(under), "without the list, its user is back: {timeline}");
}

#[tokio::test]
async fn repeats_after_a_lost_reply_return_the_first_answer() {
    let (server, db, _folder) = open_server().await;
    let do_as = async |user: &str, method: &str, path: &str, body: Value| server.done(user, method, path, &body).await;
    let post = server.post("ann", "quoted").await;
    let quote = do_as("bo", "POST", "/posts", json!({ "text": "look", "quote": post })).await["id"].clone();
    let list = do_as("ann", "POST", "/lists", json!({ "name": "near" })).await["id"].clone();
    do_as("ann", "PUT", &format!("/lists/{list}/users/bo"), Value::Null).await;
    do_as("bo", "PUT", "/users/ann/follow", Value::Null).await;
    do_as("ann", "PATCH", "/users/me", json!({ "locked": true })).await;
    do_as("cy", "PUT", "/users/ann/follow", Value::Null).await;
    do_as("dee", "PUT", "/users/ann/follow", Value::Null).await;
    do_as("eve", "PUT", "/users/ann/follow", Value::Null).await;
    let open = server.post("flo", "open").await;
    for (user, method, path, body) in [
        ("ann", "DELETE", format!("/posts/{quote}/quote"), Value::Null),
        ("ann", "DELETE", "/quotes?user=bo".into(), Value::Null),
        ("ann", "DELETE", format!("/lists/{list}/users/bo"), Value::Null),
        ("ann", "PUT", format!("/lists/{list}/topics/rust"), Value::Null),
        ("ann", "PUT", "/users/me/requests/cy".into(), Value::Null),
        ("ann", "DELETE", "/users/me/requests/dee".into(), Value::Null),
        ("ann", "DELETE", "/users/me/followers/bo".into(), Value::Null),
        ("eve", "DELETE", "/users/ann/follow".into(), Value::Null),
        ("ann", "PUT", format!("/posts/{open}/repost"), Value::Null),
        ("ann", "DELETE", format!("/posts/{open}/repost"), Value::Null),
        ("ann", "POST", "/reports".into(), json!({ "post": open, "reason": "spam" })),
        ("ann", "POST", "/filters".into(), json!({ "words": ["once"] })),
        ("ann", "POST", "/lists".into(), json!({ "name": "once" })),
        ("ann", "PUT", "/topics/rust/follow".into(), Value::Null),
        ("ann", "DELETE", "/topics/rust/follow".into(), Value::Null),
        ("ann", "DELETE", "/devices/none".into(), Value::Null),
    ] {
        let key = format!("{method} {path}");
        let first = said(&named(&server, user, &key, method, &path, &body).await);
        assert!((200..300).contains(&first.0), "{key}: {first:?}");
        change(&db, &format!("UPDATE idempotency SET answer = NULL, until = 0 WHERE key = '{key}'"));
        assert_eq!(said(&named(&server, user, &key, method, &path, &body).await), first, "{key}");
    }
    for path in ["/filters", "/lists"] {
        let page = server.done("ann", "GET", path, &Value::Null).await.to_string();
        assert_eq!(page.matches("once").count(), 1, "{path}: {page}");
    }
}

#[tokio::test]
async fn disconnected_clients_find_the_answer_of_their_write() {
    let (server, db, _folder) = open_server().await;
    server.done("ann", "GET", "/users/ann", &Value::Null).await;
    let body = r#"{"text":"once"}"#;
    let answered = async |key: &str| -> bool {
        // The ledger accepts no writes until the client has disconnected.
        db.execute_batch("BEGIN IMMEDIATE").expect("the lock");
        let mut socket = TcpStream::connect(("127.0.0.1", server.port())).await.expect("to connect");
        let request = format!(
            "POST /api/v1/posts HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\nidempotency-key: {key}\r\n\
             content-length: {}\r\n\r\n{body}",
            token("ann"),
            body.len()
        );
        socket.write_all(request.as_bytes()).await.expect("to send");
        tokio::time::sleep(Duration::from_millis(200)).await;
        drop(socket);
        tokio::time::sleep(Duration::from_millis(100)).await;
        db.execute_batch("ROLLBACK").expect("the end of it");
        let until = Instant::now() + Duration::from_secs(2);
        let sql = "SELECT count(*) FROM idempotency WHERE key = ?1 AND answer IS NOT NULL";
        while Instant::now() < until {
            if db.query_row(sql, [key], |row| row.get::<_, u32>(0)).expect("a count") == 1 {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        false
    };
    // If the server read the request only after the client disconnected, it has nothing to do.
    let mut kept = false;
    for attempt in 0..5 {
        kept = kept || answered(&format!("k{attempt}")).await;
    }
    assert!(kept, "the write that had begun is not finished");
}

#[tokio::test]
async fn transient_errors_are_not_stored() {
    let (server, db, _folder) = open_server().await;
    let draft = json!({ "text": "once" });
    server.done("ann", "GET", "/users/ann", &Value::Null).await;
    db.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let refused = named(&server, "ann", "k", "POST", "/posts", &draft).await;
    assert!(refused.status.is_server_error() || refused.status == 429, "{refused:?}");
    db.execute_batch("ROLLBACK").expect("the end of it");
    assert_eq!(named(&server, "ann", "k", "POST", "/posts", &draft).await.status, 201);

    // A write that begins and fails: its post cannot be stored.
    let forbid = "CREATE TRIGGER no_posts BEFORE INSERT ON posts BEGIN SELECT RAISE(ABORT, 'not now'); END";
    db.execute_batch(forbid).expect("a trigger");
    let refused = named(&server, "ann", "l", "POST", "/posts", &draft).await;
    assert_eq!(refusal(&refused), (500, "internal", None));
    db.execute_batch("DROP TRIGGER no_posts").expect("no trigger");
    let begun = Instant::now();
    assert_eq!(named(&server, "ann", "l", "POST", "/posts", &draft).await.status, 201);
    assert!(begun.elapsed() < PATIENCE);
    assert_eq!(posts(&server, "ann").await.len(), 2);
}

/// Posts until the rate limit rejects one. Returns the number of accepted posts.
async fn repeat_until_limited(server: &Server, user: &str) -> (usize, Answer) {
    for n in 0..500 {
        let answer = server.call(user, "POST", "/posts", &json!({ "text": "again" })).await;
        if !answer.status.is_success() {
            return (n, answer);
        }
    }
    panic!("no limit");
}

#[tokio::test]
async fn writes_over_the_rate_limit_return_retry_after() {
    let server = Server::start_with(&[("rates.posts", "20"), ("rates.follows", "1")]).await;
    let named_before = named(&server, "ann", "before", "POST", "/posts", &json!({ "text": "x" })).await;
    let (posted, limited) = repeat_until_limited(&server, "ann").await;
    assert!(posted >= 39, "a burst of twice the rate: {posted}");
    assert_eq!(refusal(&limited), (429, "rate_limited", None));
    let seconds: u64 = limited.header("retry-after").expect("when").parse().expect("seconds");
    assert!((1..=3).contains(&seconds), "one every three seconds: {seconds}");

    let mut ann = Client::connect(&server, "ann").await;
    // One token may have been refilled since.
    let again = async |data: Value| server.call("ann", "POST", "/posts", &data).await;
    let reply = loop {
        let reply = ann.call(json!({ "rpc": { "method": "posts.create", "data": { "text": "x" } } })).await;
        if reply.get("error").is_some() {
            break reply;
        }
    };
    assert_eq!((&reply["error"]["code"], &reply["error"]["temporary"]), (&json!(429), &json!(true)), "{reply}");
    assert_eq!(
        again(json!({ "text": "x", "idempotency_key": "before" })).await.body,
        named_before.body,
        "replayed, not executed"
    );

    // Other users, backends, reads and other writes are not limited.
    assert_eq!(server.call("bo", "POST", "/posts", &json!({ "text": "x" })).await.status, 201);
    for _ in 0..3 {
        let headers = [("x-api-key", API_KEY), ("x-user", "ann")];
        assert_eq!(server.http("POST", "/api/v1/posts", &headers, r#"{"text":"x"}"#).await.status, 201);
    }
    server.done("ann", "GET", "/timeline", &Value::Null).await;
    server.done("ann", "PUT", "/users/bo/follow", &Value::Null).await;
    server.done("ann", "DELETE", "/users/bo/follow", &Value::Null).await;
    let edges = server.call("ann", "PUT", "/users/bo/follow", &Value::Null).await;
    assert_eq!(refusal(&edges), (429, "rate_limited", None));

    // A rate-limited request is not stored under its key: a later repeat is executed.
    let before = posts(&server, "ann").await.len();
    let until = Instant::now() + PATIENCE;
    while again(json!({ "text": "later", "idempotency_key": "k" })).await.status == 429 {
        assert!(Instant::now() < until, "the limit is never lifted");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(posts(&server, "ann").await.len(), before + 1);
}

#[tokio::test]
async fn sign_ups_and_sign_ins_of_an_address_are_limited() {
    let server = Server::start_with(&[("rates.accounts", "1"), ("rates.sessions", "2")]).await;
    let account = |n: u32| json!({ "user": format!("u{n}"), "password": "long enough" }).to_string();
    let ask =
        async |path: &str, n: u32, headers: &[(&str, &str)]| server.http("POST", path, headers, &account(n)).await;
    for n in 0..2 {
        assert_eq!(ask("/api/v1/accounts", n, &[]).await.status, 201);
    }
    let limited = ask("/api/v1/accounts", 2, &[]).await;
    assert_eq!(refusal(&limited), (429, "rate_limited", None));
    assert!(limited.header("retry-after").is_some());
    let wrong = json!({ "user": "u0", "password": "guess" }).to_string();
    for _ in 0..4 {
        assert_eq!(server.http("POST", "/api/v1/sessions", &[], &wrong).await.status, 401);
    }
    let limited = ask("/api/v1/sessions", 0, &[]).await;
    assert_eq!(refusal(&limited), (429, "rate_limited", None), "even with the correct password");
    let backend = [("x-api-key", API_KEY)];
    assert_eq!(ask("/api/v1/accounts", 2, &backend).await.status, 201);
    assert_eq!(ask("/api/v1/sessions", 0, &backend).await.status, 201);
    assert_eq!(ask("/api/v1/sessions", 0, &[("x-api-key", "wrong")]).await.status, 401);
}
