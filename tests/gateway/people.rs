//! Profiles of users, user search, and follow suggestions.

use serde_json::{Value, json};

use crate::client::Client;
use crate::server::{API_KEY, Answer, Server, signed};

fn refusal(answer: &Answer) -> (u16, &str, Option<&str>) {
    let error = &answer.body["error"];
    (answer.status.as_u16(), error["code"].as_str().unwrap_or_default(), error["field"].as_str())
}

async fn get(server: &Server, user: &str, path: &str) -> Value {
    server.done(user, "GET", path, &Value::Null).await
}

/// All pages of a list with a small page size; `of` selects a field of each item.
async fn all(server: &Server, user: &str, path: &str, limit: usize, of: &str) -> Vec<Value> {
    let mut items = Vec::new();
    let mut cursor = String::new();
    loop {
        let separator = if path.contains('?') { '&' } else { '?' };
        let page = get(server, user, &format!("{path}{separator}limit={limit}&cursor={cursor}")).await;
        let received = page["items"].as_array().expect("items");
        assert!(received.len() <= limit);
        items.extend(received.iter().map(|item| item[of].clone()));
        let Some(next) = page["next"].as_str() else { return items };
        assert_eq!(received.len(), limit, "a page that is not the last is full");
        cursor = next.to_owned();
    }
}

#[tokio::test]
async fn profile_changes_are_visible_at_once() {
    let server = Server::start().await;
    let me = server
        .done("ann", "PATCH", "/users/me", &json!({ "name": "  Ann É. ", "avatar": "https://a.example/1" }))
        .await;
    assert_eq!(
        (&me["id"], &me["name"], &me["avatar"]),
        (&json!("ann"), &json!("Ann É."), &json!("https://a.example/1"))
    );
    let seen = get(&server, "bo", "/users/ann").await;
    assert_eq!((&seen["name"], &seen["avatar"]), (&json!("Ann É."), &json!("https://a.example/1")));
    server.follow("ann", "bo").await;
    let mut listed = me.clone();
    let profile = listed.as_object_mut().expect("an object");
    profile.remove("locked");
    profile.remove("quotable");
    assert_eq!(get(&server, "bo", "/users/bo/followers").await["items"], json!([listed]), "in lists too");

    let mut ann = Client::connect(&server, "ann").await;
    let me = ann.rpc("users.update", &json!({ "avatar": null })).await;
    assert_eq!((&me["name"], me.get("avatar")), (&json!("Ann É."), None));
    let me = server.done("ann", "PATCH", "/users/me", &json!({})).await;
    assert_eq!(me["name"], "Ann É.");
    let path = ann.rpc("users.update", &json!({ "avatar": "/demo/ann.svg" })).await;
    assert_eq!(path["avatar"], "/demo/ann.svg", "a path of the same origin, as for media");
    ann.rpc("users.update", &json!({ "avatar": null })).await;
    for (body, field) in [
        (json!({ "name": " " }), Some("name")),
        (json!({ "name": "x".repeat(101) }), Some("name")),
        (json!({ "name": "a\u{7}b" }), Some("name")),
        (json!({ "avatar": "javascript:alert(1)" }), Some("avatar")),
        (json!({ "avatar": "//a.example/1" }), Some("avatar")),
        (json!({ "avatar": "/\\a.example/1" }), Some("avatar")),
        (json!({ "avatar": "https://a.example/a b" }), Some("avatar")),
        (json!({ "avatar": format!("https://a.example/{}", "x".repeat(2_000)) }), Some("avatar")),
        (json!({ "id": "bo" }), Some("id")),
        (json!({ "name": 7 }), None),
    ] {
        let answer = server.call("ann", "PATCH", "/users/me", &body).await;
        assert_eq!(refusal(&answer), (400, "invalid", field), "{body}");
    }
    let read = get(&server, "bo", "/users/ann").await;
    assert_eq!((&read["name"], read.get("avatar")), (&json!("Ann É."), None), "the profile is unchanged");
    assert_eq!(server.http("PATCH", "/api/v1/users/me", &[], "{}").await.status, 401);
}

#[tokio::test]
async fn bios_and_data_belong_to_the_profile() {
    let server = Server::start().await;
    let about = async |user: &str| {
        let profile = get(&server, user, "/users/ann").await;
        (profile.get("bio").cloned(), profile.get("data").cloned())
    };
    let set = async |body: Value| server.done("ann", "PATCH", "/users/me", &body).await;
    set(json!({ "name": "Ann" })).await;
    assert_eq!(about("bo").await, (None, None));
    let (bio, data) = (json!("I am\nann"), json!({ "site": { "n": 1 } }));
    let me = set(json!({ "bio": "  I am\nann ", "data": data })).await;
    assert_eq!((&me["name"], &me["bio"], &me["data"]), (&json!("Ann"), &bio, &data));
    for user in ["ann", "bo"] {
        assert_eq!(about(user).await, (Some(bio.clone()), Some(data.clone())), "{user}");
    }
    assert_eq!(get(&server, "bo", "/users?q=ann").await["items"][0].get("bio"), None, "lists are short");
    // Absent members stay, null clears.
    assert_eq!(set(json!({ "name": "Ann A." })).await["bio"], bio);
    let me = set(json!({ "bio": null })).await;
    assert_eq!((me.get("bio"), &me["data"]), (None, &data));
    assert_eq!(set(json!({ "bio": "x".repeat(500), "data": null })).await.get("data"), None);
    let largest = json!({ "k": "x".repeat(1_024 - r#"{"k":""}"#.len()) });
    assert_eq!(set(json!({ "data": largest })).await["data"], largest);
    assert_eq!(set(json!({ "bio": "" })).await.get("bio"), None);
    for (body, code, field) in [
        (json!({ "bio": "\u{1F600}".repeat(501) }), "limit_exceeded", "bio"),
        (json!({ "bio": "a\u{7}b" }), "invalid", "bio"),
        (json!({ "data": { "k": "x".repeat(1_024 - r#"{"k":""}"#.len() + 1) } }), "limit_exceeded", "data"),
    ] {
        let answer = server.call("ann", "PATCH", "/users/me", &body).await;
        let error = &answer.body["error"];
        assert_eq!((&error["code"], &error["field"]), (&json!(code), &json!(field)), "{answer:?}");
    }
    assert_eq!(server.call("ann", "PATCH", "/users/me", &json!({ "data": [1] })).await.status, 400);
    assert_eq!(about("bo").await, (None, Some(largest)), "the profile is unchanged");
    // Those who may not see the profile see neither.
    server.done("ann", "PUT", "/users/bo/block", &Value::Null).await;
    assert_eq!(server.call("bo", "GET", "/users/ann", &Value::Null).await.status, 404);
}

#[tokio::test]
async fn search_matches_prefixes_of_id_and_name_in_any_case() {
    let server = Server::start().await;
    for (id, name) in [("anna", "Zoe"), ("bo", "ÄNNE Müller"), ("ANN2", "x"), ("cy", "Annika")] {
        server.done(id, "PATCH", "/users/me", &json!({ "name": name })).await;
    }
    for n in 0..7 {
        server.done(&format!("many{n}"), "PATCH", "/users/me", &json!({ "name": "Many" })).await;
    }
    assert_eq!(all(&server, "bo", "/users?q=AnN", 100, "id").await, ["ANN2", "anna", "bo", "cy"]);
    assert_eq!(all(&server, "bo", "/users?q=%C3%A4nne+m%C3%9C", 100, "id").await, ["bo"]);
    assert!(all(&server, "bo", "/users?q=ller", 100, "id").await.is_empty());
    assert_eq!(all(&server, "bo", "/users?q=muller", 100, "id").await, ["bo"], "any word of the name");
    assert!(all(&server, "bo", "/users?q=%25", 100, "id").await.is_empty());
    let many: Vec<Value> = (0..7).map(|n| json!(format!("many{n}"))).collect();
    for limit in [1, 2, 7, 8] {
        assert_eq!(all(&server, "bo", "/users?q=many", limit, "id").await, many, "{limit} a page");
    }
    // A user created while a client pages through the list does not shift the pages.
    let page = get(&server, "bo", "/users?q=many&limit=3").await;
    server.done("many", "GET", "/users/many", &Value::Null).await;
    let next = get(&server, "bo", &format!("/users?q=many&limit=3&cursor={}", page["next"].as_str().unwrap())).await;
    assert_eq!(next["items"][0]["id"], "many3");
    for (path, field) in [
        ("/users", Some("q")),
        ("/users?q=", Some("q")),
        ("/users?q=+", Some("q")),
        (&format!("/users?q={}", "x".repeat(101)), Some("q")),
        ("/users?q=a&cursor=x", Some("cursor")),
        (&format!("/users?q=other&cursor={}", page["next"].as_str().unwrap()), Some("cursor")),
        ("/users?q=a&limit=0", Some("limit")),
    ] {
        let answer = server.call("bo", "GET", path, &Value::Null).await;
        assert_eq!(refusal(&answer), (400, "invalid", field), "{path}");
    }
}

#[tokio::test]
async fn suggestions_are_followees_of_followees() {
    let server = Server::start().await;
    for (from, to) in
        [("me1", "a"), ("me1", "b"), ("me1", "c"), ("a", "x"), ("b", "x"), ("c", "x"), ("a", "y"), ("b", "y")]
    {
        server.follow(from, to).await;
    }
    for (from, to) in [("a", "z"), ("b", "w"), ("a", "b"), ("c", "me1"), ("x", "far")] {
        server.follow(from, to).await;
    }
    let page = get(&server, "me1", "/users/suggested?limit=2").await;
    let received: Vec<_> =
        page["items"].as_array().unwrap().iter().map(|item| (&item["id"], &item["mutual"])).collect();
    assert_eq!(received, [(&json!("x"), &json!(3)), (&json!("y"), &json!(2))]);
    assert!(page["items"][0]["name"].is_string() && page["items"][0]["created_at"].is_u64());
    for limit in [1, 2, 3, 100] {
        assert_eq!(all(&server, "me1", "/users/suggested", limit, "id").await, ["x", "y", "w", "z"], "{limit} a page");
    }
    server.follow("me1", "x").await;
    assert_eq!(all(&server, "me1", "/users/suggested", 100, "id").await, ["y", "far", "w", "z"]);
    assert!(all(&server, "nobody", "/users/suggested", 100, "id").await.is_empty());
    let answer = server.call("me1", "GET", "/users/suggested?cursor=p1", &Value::Null).await;
    assert_eq!(refusal(&answer), (400, "invalid", Some("cursor")));
}

#[tokio::test]
async fn hidden_users_are_neither_found_nor_suggested() {
    let server = Server::start().await;
    // p1 hides from ann, p2 blocks her, she blocks p4 and mutes p6. Hides are not revealed: a search by name includes
    // these users, as their profiles do.
    for n in 0..7 {
        server.follow("friend", &format!("p{n}")).await;
    }
    server.follow("ann", "friend").await;
    let set = async |user: &str, path: &str| server.done(user, "PUT", path, &Value::Null).await;
    set("p1", "/users/ann/hide").await;
    set("p2", "/users/ann/block").await;
    set("ann", "/users/p4/block").await;
    set("ann", "/users/p6/mute").await;
    for limit in [1, 2, 3, 100] {
        assert_eq!(
            all(&server, "ann", "/users?q=p", limit, "id").await,
            ["p0", "p1", "p3", "p5", "p6"],
            "{limit} a page"
        );
        assert_eq!(all(&server, "ann", "/users/suggested", limit, "id").await, ["p0", "p3", "p5"], "{limit} a page");
    }
    assert_eq!(all(&server, "bo", "/users?q=p", 2, "id").await.len(), 7, "others see them");
    for (id, status) in [("p0", 200), ("p6", 200), ("p1", 200), ("p2", 404), ("p4", 409)] {
        let answer = server.call("ann", "PUT", &format!("/users/{id}/notify"), &Value::Null).await;
        assert_eq!(answer.status.as_u16(), status, "{id}");
    }
    assert_eq!(
        server.call("ann", "DELETE", "/users/p4/notify", &Value::Null).await.status,
        200,
        "alerts can always be disabled"
    );
}

#[tokio::test]
async fn post_alerts_notify_of_an_authors_posts() {
    let server = Server::start().await;
    server.done("bo", "GET", "/users/bo", &Value::Null).await;
    let asked = async || get(&server, "ann", "/users/bo").await["edges"]["notify"].clone();
    assert_eq!(asked().await, false);
    for _ in 0..2 {
        assert_eq!(server.done("ann", "PUT", "/users/bo/notify", &Value::Null).await, json!({}));
        assert_eq!(asked().await, true);
    }
    assert_eq!(get(&server, "ann", "/users/bo").await["edges"]["following"], false, "alerts do not require a follow");
    assert_eq!(get(&server, "bo", "/users/ann").await["edges"]["notify"], false);
    for _ in 0..2 {
        assert_eq!(server.done("ann", "DELETE", "/users/bo/notify", &Value::Null).await, json!({}));
        assert_eq!(asked().await, false);
    }
    let nobody = server.call("ann", "PUT", "/users/nobody/notify", &Value::Null).await;
    assert_eq!(refusal(&nobody), (404, "not_found", None));
    let oneself = server.call("ann", "PUT", "/users/ann/notify", &Value::Null).await;
    assert_eq!(refusal(&oneself), (400, "invalid", Some("id")));
}

#[tokio::test]
async fn reserved_path_words_are_rejected_as_user_ids() {
    let server = Server::start().await;
    for reserved in ["me", "ME", "suggested", "Suggested", "explore"] {
        let account = json!({ "user": reserved, "password": "long enough" }).to_string();
        let answer = server.http("POST", "/api/v1/accounts", &[], &account).await;
        assert_eq!(refusal(&answer), (400, "invalid", Some("user")));
        let answer = server.call(reserved, "GET", "/timeline", &Value::Null).await;
        assert_eq!(refusal(&answer), (401, "unauthorized", None), "with a token");
        let headers = [("x-api-key", API_KEY), ("x-user", reserved)];
        let answer = server.http("GET", "/api/v1/timeline", &headers, "").await;
        assert_eq!(refusal(&answer), (400, "invalid", Some("X-User")));
        let mut socket = Client::open(&server).await;
        socket.command(json!({ "connect": { "token": signed(&json!({ "sub": reserved })) } })).await;
        assert_eq!(socket.closed().await.0, 3500);
    }
}

/// Neither a repeated follow nor several at once exceed the limit, and a repeated one is no error.
#[tokio::test]
async fn the_limit_of_follows_counts_new_ones() {
    let server = Server::start_with(&[("limits.follows", "3")]).await;
    let users = ["bo", "cy", "dee", "eve", "fay"];
    for user in users {
        get(&server, user, &format!("/users/{user}")).await;
    }
    let follow = async |user: &str| server.call("ann", "PUT", &format!("/users/{user}/follow"), &Value::Null).await;
    let mut answers = futures::future::join_all(users.map(follow)).await;
    answers.sort_by_key(|answer| answer.status);
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status.as_u16()).collect();
    assert_eq!(statuses, [200, 200, 200, 422, 422]);
    assert_eq!(answers[4].body["error"]["code"], "limit_exceeded");
    let followed = all(&server, "ann", "/users/ann/following", 2, "id").await;
    assert_eq!(followed.len(), 3);
    for user in &followed {
        let again = follow(user.as_str().expect("an id")).await;
        assert_eq!(again.status, 200, "{again:?}");
    }
}
