//! Exports and erasure of one user, through the user API and the server API.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Client;
use crate::identity::socket;
use crate::postgres_server::PostgresServer;
use crate::redis_server::RedisServer;
use crate::server::{API_KEY, PATIENCE, Server, token, until};

/// All pages of an export, joined.
async fn export(server: &Server, user: &str) -> Value {
    let mut all = server.done(user, "GET", "/accounts/export", &Value::Null).await;
    while let Some(next) = all["next"].as_str().map(str::to_owned) {
        let page = server.done(user, "GET", &format!("/accounts/export?cursor={next}"), &Value::Null).await;
        for (name, rows) in page.as_object().expect("an object") {
            if let (Some(all), Some(rows)) = (all[name].as_array_mut(), rows.as_array()) {
                all.extend(rows.iter().cloned());
            }
        }
        all["next"] = page["next"].clone();
    }
    all
}

fn rows<'a>(export: &'a Value, kind: &str) -> &'a Vec<Value> {
    export[kind].as_array().unwrap_or_else(|| panic!("no {kind} in {export}"))
}

#[tokio::test]
async fn exports_hold_all_own_data_and_no_private_data_of_others() {
    let server = Server::start().await;
    server.follow("bo", "ann").await;
    server.follow("ann", "bo").await;
    let post = server.post("ann", "mine #rust @bo").await;
    let restricted = json!({ "text": "for bo", "visibility": { "only_to": ["bo"] }, "data": { "k": 1 } });
    let restricted = server.done("ann", "POST", "/posts", &restricted).await["id"].clone();
    let theirs = json!({ "text": "what bo keeps from ann", "visibility": { "only_to": ["cy"] } });
    server.done("bo", "POST", "/posts", &theirs).await;
    let other = server.post("bo", "what ann likes").await;
    let said = server.done("ann", "POST", &format!("/posts/{other}/comments"), &json!({ "text": "hm" })).await;
    server.done("ann", "PUT", &format!("/posts/{other}/like"), &Value::Null).await;
    server.done("ann", "PUT", &format!("/favourites/post/{other}"), &Value::Null).await;
    server.done("ann", "PUT", "/favourites/book/a-b", &Value::Null).await;
    server.follow("cy", "dee").await;
    server.done("ann", "PUT", "/users/dee/mute", &Value::Null).await;
    server.done("ann", "PUT", "/users/bo/notify", &Value::Null).await;
    let profile = json!({ "name": "Ann A.", "bio": "of ann", "data": { "k": 1 } });
    server.done("ann", "PATCH", "/users/me", &profile).await;
    server.done("ann", "PUT", &format!("/posts/{other}/mute"), &Value::Null).await;
    server.done("ann", "PUT", "/timeline/read", &json!({ "id": other })).await;
    let phone = json!({ "platform": "fcm", "token": "what_ann_keeps_secret" });
    server.done("ann", "PUT", "/devices/phone", &phone).await;
    server.done("ann", "PUT", "/push/preferences", &json!({ "private": true })).await;
    server.done("bo", "POST", &format!("/posts/{post}/comments"), &json!({ "text": "what bo says" })).await;
    let settled = async || {
        loop {
            let all = export(&server, "ann").await;
            if !rows(&all, "likes").is_empty() && rows(&all, "notifications").len() == 2 {
                return all;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let all = tokio::time::timeout(PATIENCE, settled()).await.expect("likes and notifications settle");

    assert_eq!(
        (&all["user"]["name"], &all["has_password"], &all["read"]),
        (&json!("Ann A."), &json!(false), &json!(other))
    );
    assert_eq!((&all["user"]["bio"], &all["user"]["data"]), (&json!("of ann"), &json!({ "k": 1 })));
    assert_eq!(rows(&all, "muted_conversations")[0]["post"], other);
    let posts: Vec<_> = rows(&all, "posts").iter().map(|it| (&it["id"], &it["text"])).collect();
    assert_eq!(posts, [(&json!(post), &json!("mine #rust @bo")), (&restricted, &json!("for bo"))]);
    assert_eq!(rows(&all, "posts")[1]["visibility"], json!({ "only_to": ["bo"] }), "as its author wrote it");
    assert_eq!((&rows(&all, "comments")[0]["id"], &rows(&all, "comments")[0]["text"]), (&said["id"], &json!("hm")));
    assert_eq!(rows(&all, "likes")[0]["post"], other);
    let kept: Vec<_> = rows(&all, "favourites").iter().map(|it| (&it["type"], &it["id"])).collect();
    assert_eq!(kept, [(&json!("book"), &json!("a-b")), (&json!("post"), &json!(other.to_string()))]);
    assert_eq!(rows(&all, "following")[0]["user"], "bo");
    assert_eq!(rows(&all, "followers")[0]["user"], "bo");
    let restriction = &rows(&all, "restrictions")[0];
    assert_eq!((&restriction["kind"], &restriction["user"]), (&json!("mute"), &json!("dee")));
    assert_eq!(rows(&all, "post_alerts")[0]["user"], "bo");
    assert!(rows(&all, "comment_likes").is_empty());
    let device = &rows(&all, "devices")[0];
    assert_eq!((&device["id"], &device["platform"]), (&json!("phone"), &json!("fcm")), "{device}");
    assert_eq!(rows(&all, "push_preferences")[0]["private"], true);
    for private in ["what_ann", "what bo keeps", "what ann likes", "what bo says"] {
        assert!(!all.to_string().contains(private), "{private}: {all}");
    }

    let of_backend = server.backend("export_user", &json!({ "user": "ann" })).await["result"].clone();
    assert_eq!(of_backend, all, "a backend gets the same answer");
    let unknown = server.backend("export_user", &json!({ "user": "nobody" })).await;
    assert_eq!(unknown["error"]["code"], 104, "{unknown}");
    let wrong = server.backend("export_user", &json!({ "user": "ann", "cursor": "p1" })).await;
    assert_eq!(wrong["error"]["code"], 107, "{wrong}");
    let anonymous = server.http("GET", "/api/v1/accounts/export", &[], "").await;
    assert_eq!(anonymous.status, 401, "{anonymous:?}");
    let keyless = server.http("POST", "/api/export_user", &[("x-api-key", "wrong")], r#"{"user":"ann"}"#).await;
    assert_eq!(keyless.status, 401, "{keyless:?}");
}

#[tokio::test]
async fn large_exports_come_in_bounded_pages() {
    let server = Server::start().await;
    let text = "x".repeat(4_990);
    let mut ids = Vec::new();
    for n in 0..120 {
        ids.push(server.post("ann", &format!("{text} {n}")).await);
    }
    let first = server.done("ann", "GET", "/accounts/export", &Value::Null).await;
    let bytes = first.to_string().len();
    assert!(first["next"].is_string() && bytes < 300 * 1024, "{bytes} bytes");
    let all = export(&server, "ann").await;
    let exported: Vec<u64> = rows(&all, "posts").iter().map(|post| post["id"].as_u64().expect("an id")).collect();
    assert_eq!(exported, ids, "each once, in order");
    // An export that began before the erasure cannot be continued.
    assert_eq!(server.backend("delete_user", &json!({ "user": "ann" })).await, json!({ "result": {} }));
    let next = json!({ "user": "ann", "cursor": first["next"] });
    assert_eq!(server.backend("export_user", &next).await["error"]["code"], 104);
}

/// A socket of an erased user is closed within a second, and her token opens no new one.
async fn is_shut_out(server: &Server, mut ann: Client, erased_at: Instant) {
    assert_eq!(ann.closed().await, (3500, "invalid token".to_owned()));
    assert!(erased_at.elapsed() < Duration::from_secs(1), "it took {:?}", erased_at.elapsed());
    let mut ann = Client::open(server).await;
    ann.command(json!({ "connect": { "token": token("ann") } })).await;
    assert_eq!(ann.closed().await.0, 3500, "she cannot reconnect");
}

/// Strings that must not appear anywhere once ann is erased: her id as a value, and her texts.
const TRACES: [&str; 3] = ["\"ann\"", "secret", "Ann A."];

/// Activity between ann and the others. Returns her post, a post of bo, and her comment on it.
async fn live_together(server: &Server) -> (u64, u64, u64) {
    server.follow("bo", "ann").await;
    server.follow("ann", "bo").await;
    server.follow("bo", "cy").await;
    server.follow("cy", "ann").await;
    server.done("ann", "PATCH", "/users/me", &json!({ "name": "Ann A.", "bio": "secret" })).await;
    let hers = server.post("ann", "secret #rust").await;
    let theirs = server.post("bo", "of bo #rust").await;
    let comment = json!({ "text": "secret too" });
    let comment = server.done("ann", "POST", &format!("/posts/{theirs}/comments"), &comment).await;
    let comment = comment["id"].as_u64().expect("an id");
    let reply = json!({ "text": "a reply", "reply_to": comment });
    server.done("bo", "POST", &format!("/posts/{theirs}/comments"), &reply).await;
    server.done("bo", "POST", &format!("/posts/{hers}/comments"), &json!({ "text": "under it" })).await;
    for (who, path) in [
        ("ann", format!("/posts/{theirs}/like")),
        ("ann", format!("/favourites/post/{theirs}")),
        ("bo", format!("/posts/{hers}/like")),
        ("bo", format!("/favourites/post/{hers}")),
        ("cy", "/favourites/book/x".to_owned()),
        ("ann", "/favourites/book/x".to_owned()),
        ("ann", "/users/bo/notify".to_owned()),
    ] {
        server.done(who, "PUT", &path, &Value::Null).await;
    }
    let settled = async || {
        loop {
            let likes = server.done("bo", "GET", &format!("/posts/{theirs}/likes"), &Value::Null).await;
            let notified = server.done("bo", "GET", "/notifications", &Value::Null).await;
            if likes["items"] != json!([]) && notified["items"].as_array().is_some_and(|items| items.len() >= 3) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, settled()).await.expect("likes and notifications settle");
    (hers, theirs, comment)
}

/// Every public read that included data of ann.
fn reads(hers: u64, theirs: u64, comment: u64) -> Vec<(String, u16)> {
    let found = [
        "/timeline".to_owned(),
        "/timeline?with=likers,comments,people".to_owned(),
        "/topics/rust/posts".to_owned(),
        "/users?q=ann".to_owned(),
        "/users?q=Ann%20A".to_owned(),
        "/users/suggested".to_owned(),
        "/users/bo/followers".to_owned(),
        "/users/bo/following".to_owned(),
        "/users/bo/shared".to_owned(),
        "/users/me/friends".to_owned(),
        "/users/me/hidden".to_owned(),
        "/users/me/muted".to_owned(),
        "/users/bo/posts?with=likers,comments,people".to_owned(),
        format!("/posts/{theirs}?with=likers,comments,people"),
        format!("/posts/{theirs}/likes"),
        format!("/posts/{theirs}/comments"),
        format!("/objects/post/{theirs}/favourites"),
        "/objects/book/x/favourites".to_owned(),
        "/favourites/post".to_owned(),
        "/notifications".to_owned(),
        "/accounts/export".to_owned(),
    ];
    let gone = [
        "/users/ann".to_owned(),
        "/users/ann/posts".to_owned(),
        "/users/ann/followers".to_owned(),
        "/users/ann/following".to_owned(),
        "/users/ann/shared".to_owned(),
        "/favourites/book/common/ann".to_owned(),
        format!("/posts/{hers}"),
        format!("/posts/{hers}/comments"),
        format!("/posts/{hers}/likes"),
        format!("/objects/post/{hers}/favourites"),
        format!("/posts/{theirs}/comments?reply_to={comment}"),
    ];
    found.into_iter().map(|path| (path, 200)).chain(gone.into_iter().map(|path| (path, 404))).collect()
}

/// Nothing of ann is readable at this node. Once the erasure is finished, the reply to her comment is readable again.
async fn is_unreadable(server: &Server, (hers, theirs, comment): (u64, u64, u64), finished: bool) {
    for (path, status) in reads(hers, theirs, comment) {
        let answer = server.call("bo", "GET", &path, &Value::Null).await;
        let is_reply = path.contains("?reply_to=");
        // The erasure may finish at any moment.
        let is_expected = match answer.status.as_u16() {
            200 if is_reply => true,
            404 if is_reply => !finished,
            other => other == status,
        };
        assert!(is_expected, "{path}: {answer:?}");
        let text = answer.body.to_string();
        assert!(!TRACES.iter().any(|trace| text.contains(trace)), "{path}: {text}");
    }
    for (method, path) in [
        ("PUT", "/users/ann/follow".to_owned()),
        ("PUT", "/users/ann/block".to_owned()),
        ("PUT", "/users/ann/notify".to_owned()),
        ("PUT", format!("/posts/{hers}/like")),
        ("PUT", format!("/favourites/post/{hers}")),
    ] {
        let answer = server.call("bo", method, &path, &Value::Null).await;
        assert_eq!(answer.status, 404, "{method} {path}: {answer:?}");
    }
}

/// Neither ann's token nor a backend restores her, and no other user gets the id.
async fn is_a_tombstone(server: &Server) {
    for (method, path, body) in [
        ("GET", "/timeline", Value::Null),
        ("GET", "/users/bo", Value::Null),
        ("POST", "/posts", json!({ "text": "back" })),
        ("GET", "/accounts/export", Value::Null),
        ("DELETE", "/accounts", Value::Null),
    ] {
        let answer = server.call("ann", method, path, &body).await;
        assert_eq!(answer.status, 401, "{method} {path}: {answer:?}");
        let headers = [("x-api-key", API_KEY), ("x-user", "ann")];
        let answer = server.http(method, &format!("/api/v1{path}"), &headers, &body.to_string()).await;
        assert!([401, 403].contains(&answer.status.as_u16()), "{method} {path}: {answer:?}");
    }
    let export = server.backend("export_user", &json!({ "user": "ann" })).await;
    assert_eq!(export["error"]["code"], 104, "{export}");
    assert_eq!(server.backend("delete_user", &json!({ "user": "ann" })).await["result"], json!({}), "again");
}

/// Waits until one of the nodes has finished the erasure.
async fn finished(nodes: &[&Server]) {
    let deadline = Instant::now() + Duration::from_secs(90);
    loop {
        for node in nodes {
            if node.metric("feedline_erasures_total").await == Some(1.0) {
                return;
            }
        }
        assert!(Instant::now() < deadline, "the erasure is not finished");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Texts that ann wrote.
const TEXTS: [&str; 3] = ["Ann A.", "secret #rust", "secret too"];

/// A text of ann that the files of the ledger contain.
fn stored_text(server: &Server) -> Option<&'static str> {
    let folder = server.program(&[]).get_current_dir().expect("a folder").join("data");
    let mut bytes = std::fs::read(folder.join("feedline.db")).expect("the ledger");
    // There is none after a checkpoint.
    bytes.extend(std::fs::read(folder.join("feedline.db-wal")).unwrap_or_default());
    TEXTS.into_iter().find(|text| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
}

/// Nothing that ann wrote is in the files of the ledger or in the log.
async fn leaves_no_trace(server: &Server) {
    until("no text of ann is in a file", async || stored_text(server).is_none()).await;
    assert!(!TEXTS.iter().any(|text| server.log().contains(text)), "{}", server.log());
}

/// No count includes ann any more.
async fn is_gone(server: &Server, theirs: u64) {
    let bo = server.done("bo", "GET", "/users/bo", &Value::Null).await;
    assert_eq!((&bo["followers"], &bo["following"]), (&json!(0), &json!(1)), "{bo}");
    let post = server.done("bo", "GET", &format!("/posts/{theirs}"), &Value::Null).await;
    assert_eq!((&post["likes"], &post["comments"], &post["favourites"]), (&json!(0), &json!(1), &json!(0)), "{post}");
    let comments = server.done("bo", "GET", &format!("/posts/{theirs}/comments"), &Value::Null).await;
    let stub = &comments["items"][0];
    assert_eq!((stub.get("author"), stub.get("text"), &stub["replies"]), (None, None, &json!(1)), "{stub}");
    let holders = server.done("bo", "GET", "/objects/book/x/favourites", &Value::Null).await;
    assert_eq!(holders["count"], 1, "{holders}");
    let favourites = server.done("bo", "GET", "/favourites/post/count", &Value::Null).await;
    assert_eq!(favourites["count"], 0, "the post is gone: {favourites}");
}

#[tokio::test]
async fn erased_users_are_hidden_at_once_and_deleted_soon() {
    let server = Server::start().await;
    let ids = live_together(&server).await;
    let (hers, theirs, comment) = ids;
    let mut bo = Client::connect(&server, "bo").await;
    bo.subscribe(&format!("post:{theirs}")).await;
    let mut ann = Client::connect(&server, "ann").await;
    assert!(stored_text(&server).is_some(), "her texts are stored");
    assert_eq!(ann.rpc("accounts.delete", &json!({})).await, json!({}));
    is_shut_out(&server, ann, Instant::now()).await;
    is_unreadable(&server, ids, false).await;
    is_a_tombstone(&server).await;
    // Connected clients get the push.
    let timeline = bo.publication("timeline:bo").await["data"].clone();
    assert_eq!(timeline, json!({ "type": "gone", "id": hers, "reason": "deleted" }));
    loop {
        let received = bo.publication(&format!("post:{theirs}")).await["data"].clone();
        if received["type"] == "gone" {
            assert_eq!((&received["comment"], &received["stays"]), (&json!(comment), &json!(true)));
            break;
        }
    }
    finished(&[&server]).await;
    is_unreadable(&server, ids, true).await;
    is_a_tombstone(&server).await;
    is_gone(&server, theirs).await;
    leaves_no_trace(&server).await;
}

#[tokio::test]
async fn erasures_apply_on_every_node_and_survive_its_node() {
    let (redis, postgres) = (RedisServer::start(), PostgresServer::start());
    let (broker, ledger) = (redis.url(), postgres.url("postgres"));
    let keys = [("broker.url", broker.as_str()), ("ledger.url", ledger.as_str()), ("ledger.connections", "4")];
    let (mut a, b) = (Server::start_with(&keys).await, Server::start_with(&keys).await);
    let ids = live_together(&a).await;
    for n in 0..150 {
        a.post("ann", &format!("secret {n}")).await;
    }
    // Fills the caches of both nodes.
    for (path, _) in reads(ids.0, ids.1, ids.2) {
        b.call("bo", "GET", &path, &Value::Null).await;
    }
    let (here, there) = (Client::connect(&a, "ann").await, Client::connect(&b, "ann").await);
    let answer = a.backend("delete_user", &json!({ "user": "ann" })).await;
    assert_eq!(answer, json!({ "result": {} }));
    let erased_at = Instant::now();
    tokio::join!(is_shut_out(&a, here, erased_at), is_shut_out(&b, there, erased_at));
    is_unreadable(&b, ids, false).await;
    is_a_tombstone(&b).await;
    a.kill();
    finished(&[&b]).await;
    is_unreadable(&b, ids, true).await;
    is_a_tombstone(&b).await;
    is_gone(&b, ids.1).await;
    // The channel logs do not contain her texts either.
    let log = redis.ask_all(&format!("XRANGE feedline:{{post:{}}}:l - +", ids.1));
    assert!(TRACES.iter().all(|trace| !log.contains(trace)), "{log}");
}

#[tokio::test]
async fn restored_ledgers_apply_the_erasure_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, backup) = (folder.path().join("ledger.db"), folder.path().join("backup.db"));
    let (ledger, data) = (format!("sqlite://{}", path.display()), folder.path().join("data"));
    let keys = [("ledger.url", ledger.as_str()), ("server.data_dir", data.to_str().expect("a path"))];
    let mut server = Server::start_with(&keys).await;
    let ids = live_together(&server).await;
    server.stop().await;
    std::fs::copy(&path, &backup).expect("a copy");
    server.start_again().await;
    server.done("ann", "DELETE", "/accounts", &Value::Null).await;
    server.backend("delete_user", &json!({ "user": "never-seen" })).await;
    server.kill();
    let log = std::fs::read_to_string(data.join("erasures.log")).expect("the erasure log");
    assert_eq!(log.lines().count(), 2, "{log}");
    for left in ["ledger.db-wal", "ledger.db-shm"] {
        let _ = std::fs::remove_file(folder.path().join(left));
    }
    std::fs::copy(&backup, &path).expect("it is restored");
    server.start_again().await;
    is_unreadable(&server, ids, false).await;
    is_a_tombstone(&server).await;
    let answer = server.call("never-seen", "GET", "/timeline", &Value::Null).await;
    assert_eq!(answer.status, 401, "{answer:?}");
    assert!(server.log().contains("erased again"), "{}", server.log());
}

#[tokio::test]
async fn erased_accounts_cannot_be_created_again() {
    let server = Server::start_with(&[("accounts.enabled", "true")]).await;
    let account = json!({ "user": "ann", "password": "a long password", "name": "Ann A." }).to_string();
    let made = server.http("POST", "/api/v1/accounts", &[], &account).await;
    assert_eq!(made.status, 201, "{made:?}");
    let bearer = format!("Bearer {}", made.body["token"].as_str().expect("a token"));
    let headers = [("authorization", bearer.as_str())];
    let export = server.http("GET", "/api/v1/accounts/export", &headers, "").await;
    assert_eq!((&export.body["user"]["name"], &export.body["has_password"]), (&json!("Ann A."), &json!(true)));
    let mut ann = socket(&server, made.body["token"].as_str().expect("a token")).await;
    let erased = server.http("DELETE", "/api/v1/accounts", &headers, "").await;
    assert_eq!(erased.status, 200, "{erased:?}");
    assert_eq!(ann.closed().await.0, 3500);
    let again = server.http("POST", "/api/v1/accounts", &[], &account).await;
    assert_eq!((again.status.as_u16(), &again.body["error"]["code"]), (409, &json!("conflict")));
    let sign_in = json!({ "user": "ann", "password": "a long password" }).to_string();
    let sign_in = server.http("POST", "/api/v1/sessions", &[], &sign_in).await;
    assert_eq!(sign_in.status, 401, "{sign_in:?}");
    let used = server.http("GET", "/api/v1/timeline", &headers, "").await;
    assert_eq!(used.status, 401, "{used:?}");
}

#[tokio::test]
async fn an_export_ends_behind_a_notification_that_has_grown() {
    let server = Server::start().await;
    let post = server.post("ann", "liked by many").await;
    for by in ["bo", "cy", "dee"] {
        server.done(by, "PUT", &format!("/posts/{post}/like"), &Value::Null).await;
        let notified = async || {
            let page = server.done("ann", "GET", "/notifications", &Value::Null).await;
            page["items"][0]["people"].as_array().is_some_and(|people| people.iter().any(|one| one["id"] == by))
        };
        until("the like is in the group", notified).await;
    }
    let ended = tokio::time::timeout(PATIENCE, export(&server, "ann")).await.expect("an end");
    assert_eq!(rows(&ended, "notifications").len(), 1, "{ended}");
}
