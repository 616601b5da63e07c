//! Exports and erasure of one user, as users and backends meet them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::server::Server;

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
async fn an_export_holds_everything_of_ones_own_and_nothing_private_of_others() {
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
    server.done("ann", "PATCH", "/users/me", &json!({ "name": "Ann A." })).await;
    server.done("ann", "PUT", "/timeline/read", &json!({ "id": other })).await;
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
    let all = tokio::time::timeout(crate::server::PATIENCE, settled()).await.expect("likes and notifications settle");

    assert_eq!(
        (&all["user"]["name"], &all["has_password"], &all["read"]),
        (&json!("Ann A."), &json!(false), &json!(other))
    );
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
    for private in ["what bo keeps", "what ann likes", "what bo says"] {
        assert!(!all.to_string().contains(private), "{private}: {all}");
    }

    let of_backend = server.backend("export_user", &json!({ "user": "ann" })).await["result"].clone();
    assert_eq!(of_backend, all, "a backend is told the same");
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
async fn a_large_export_comes_in_pages_of_bounded_size() {
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
}
