//! `null` is absent in every request: each member of each operation and method, over every way in.

use serde_json::{Map, Value, json};

use crate::client::Client;
use crate::server::{API_KEY, Server};

const NAMESPACES: &str = r#"[{"name":"chat","history_size":9,"history_ttl":"60s","presence":true,
    "subscribe":"anyone","publish":"anyone","history":"anyone"}]"#;

/// Operations whose success would end the caller's own access.
const LAST: [&str; 3] = ["accounts.delete", "sessions.delete", "accounts.password"];

/// An operation or method: its name, its members with their schemas, and the names of those that are required.
struct Input {
    name: String,
    members: Map<String, Value>,
    required: Vec<String>,
}

fn names(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|name| Some(name.as_str()?.to_owned())).collect()
}

/// The operations for rpc, or the methods of the server API, as the OpenAPI document describes them.
async fn inputs(server: &Server, is_wanted: impl Fn(&str, &Value) -> Option<String>) -> Vec<Input> {
    let document = server.http("GET", "/api/openapi.json", &[], "").await.body;
    let mut inputs = Vec::new();
    for (path, verbs) in document["paths"].as_object().expect("paths") {
        for operation in verbs.as_object().expect("verbs").values() {
            let Some(name) = is_wanted(path, operation) else { continue };
            let mut schema = operation["requestBody"]["content"]["application/json"]["schema"].clone();
            if let Some(reference) = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')) {
                schema = document.pointer(reference).expect("a schema").clone();
            }
            let mut members = schema["properties"].as_object().cloned().unwrap_or_default();
            let mut required = names(&schema["required"]);
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let Some(name) = parameter["name"].as_str().filter(|_| parameter["in"] != "header") else { continue };
                members.insert(name.to_owned(), parameter["schema"].clone());
                if parameter["required"] == true {
                    required.push(name.to_owned());
                }
            }
            inputs.push(Input { name, members, required });
        }
    }
    inputs
}

/// A value for a required member.
fn value(operation: &str, member: &str, post: u64, comment: u64) -> Value {
    match (operation.split('.').next().unwrap_or_default(), member) {
        ("comments", "id") if !matches!(operation, "comments.create" | "comments.list") => json!(comment),
        ("posts" | "quotes" | "comments" | "conversations" | "likes" | "timeline", "id") => json!(post),
        // Nobody's: the input is valid, and not found.
        ("lists" | "filters", "id") => json!(1),
        ("filters", "words") => json!(["x"]),
        (_, "post") => json!(post),
        (_, "comment") => json!(comment),
        ("users", "id") => json!("bo"),
        ("reports", "reason") => json!("spam"),
        ("devices", "id") => json!("phone"),
        ("favourites", "id") => json!("a"),
        ("favourites", "ids") => json!(["a"]),
        (_, "ids") => json!([post]),
        (_, "type") => json!("book"),
        (_, "platform") => json!("fcm"),
        (_, "user") => json!("bo"),
        (_, "offset") => json!(0),
        (_, "channels") => json!(["chat:1"]),
        (_, "channel") => json!("chat:1"),
        (_, "method") => json!("posts.explore"),
        _ => json!("x"),
    }
}

/// A valid input: the required members, and those that an operation needs besides.
fn base(input: &Input, post: u64, comment: u64) -> Value {
    let mut base: Value = match &*input.name {
        "posts.create" => json!({ "text": "a post" }),
        "devices.register" => json!({ "token": "t" }),
        "reports.create" => json!({ "user": "bo" }),
        "publish" | "broadcast" => json!({ "data": 1 }),
        _ => json!({}),
    };
    for member in &input.required {
        base[member] = value(&input.name, member, post, comment);
    }
    base
}

#[tokio::test]
async fn null_is_absent_in_every_operation() {
    let server = Server::start().await;
    let post = server.post("ann", "a post").await;
    let commented = server.done("ann", "POST", &format!("/posts/{post}/comments"), &json!({ "text": "x" })).await;
    let comment = commented["id"].as_u64().expect("an id");
    let mut ann = Client::connect(&server, "ann").await;
    let of_rpc = |_: &str, operation: &Value| {
        // Users are refused by operations of backends.
        let is_for_users = operation["security"].as_array()?.iter().any(|needed| needed.get("token").is_some());
        operation["x-rpc-method"].as_str().filter(|_| is_for_users).map(str::to_owned)
    };
    let inputs = inputs(&server, of_rpc).await;
    assert!(inputs.len() > 50, "{}", inputs.len());
    for input in inputs.iter().filter(|input| !LAST.contains(&&*input.name)) {
        let plain = base(input, post, comment);
        for member in input.members.keys().map(String::as_str).chain(["unknown"]) {
            let mut with_null = plain.clone();
            with_null[member] = Value::Null;
            let is_needed = plain.get(member).is_some() || member == "visibility";
            let what = format!("{} {with_null}", input.name);
            let reply = ann.call(json!({ "rpc": { "method": input.name, "data": with_null } })).await;
            let over_socket = reply["error"]["code"].as_u64().unwrap_or(200);
            let body = json!({ "method": input.name, "params": with_null });
            let headers = [("x-api-key", API_KEY), ("x-user", "ann")];
            let by_backend = server.http("POST", "/api/rpc", &headers, &body.to_string()).await.body;
            let by_backend = by_backend["error"]["code"].as_u64().unwrap_or(200);
            for code in [over_socket, by_backend] {
                assert!(code < 500 && ![100, 107, 108, 111, 429].contains(&code), "{what}: {code}");
            }
            assert_eq!(over_socket == 400, is_needed, "{what}: {reply}");
            assert_eq!(by_backend == 400, is_needed, "{what}: {reply}");
        }
    }
}

#[tokio::test]
async fn null_is_absent_in_bodies_and_nested_members() {
    let server = Server::start().await;
    let media = json!([{ "type": "image", "url": "https://a.example/1", "alt": null, "width": null, "height": null }]);
    let place = json!({ "lat": 1.0, "lon": 2.0, "name": null });
    let draft = json!({ "text": null, "media": media, "location": place, "topics": null, "platform": null,
        "data": { "kept": null, "list": [null, { "a": null }] }, "idempotency_key": null, "unknown": null });
    let post = server.done("ann", "POST", "/posts", &draft).await;
    assert_eq!(post["data"], draft["data"], "data belongs to the application");
    let path = format!("/posts/{}", post["id"]);
    let kept = server.done("ann", "PATCH", &path, &json!({ "text": null, "topics": null, "unknown": null })).await;
    assert_eq!((&kept["media"], &kept["data"]), (&post["media"], &post["data"]));
    let cleared = server.done("ann", "PATCH", &path, &json!({ "text": "x", "media": null, "data": null })).await;
    assert_eq!((cleared.get("media"), cleared.get("data")), (None, None));
    let named = server.done("ann", "PATCH", "/users/me", &json!({ "name": "Ann", "bio": "b" })).await;
    assert_eq!((&named["name"], &named["bio"]), (&json!("Ann"), &json!("b")));
    let after = server.done("ann", "PATCH", "/users/me", &json!({ "name": null, "bio": null })).await;
    assert_eq!((&after["name"], after.get("bio")), (&json!("Ann"), None));
    let preferences = json!({ "kinds": { "like": null, "post": false }, "private": null, "quiet_hours": null,
        "daily_cap": null });
    let set = server.done("ann", "PUT", "/push/preferences", &preferences).await;
    assert_eq!(
        (&set["kinds"]["like"], &set["kinds"]["post"], &set["daily_cap"]),
        (&json!(true), &json!(false), &json!(100))
    );
    let mut ann = Client::connect(&server, "ann").await;
    ann.rpc("likes.add", &json!({ "post": post["id"], "comment": null })).await;
    let read = ann.rpc("push.preferences", &json!({ "kinds": null })).await;
    assert_eq!(read["kinds"]["post"], json!(false), "members that are null are no input");
    let account = json!({ "user": "eve", "password": "long enough", "name": null });
    let created = server.http("POST", "/api/v1/accounts", &[], &account.to_string()).await;
    assert_eq!(created.status.as_u16(), 201, "{created:?}");
    // A repeat with the same key is the same write, with null or without the member.
    let once = json!({ "text": "once", "idempotency_key": "k" });
    let again = json!({ "text": "once", "idempotency_key": "k", "location": null });
    let first = server.done("ann", "POST", "/posts", &once).await;
    assert_eq!(server.done("ann", "POST", "/posts", &again).await["id"], first["id"]);
}

#[tokio::test]
async fn null_is_absent_in_every_method_of_the_server_api() {
    let server = Server::start_with(&[("namespaces", NAMESPACES)]).await;
    let of_api = |path: &str, operation: &Value| {
        let name = path.strip_prefix("/api/").filter(|name| !name.contains(['/', '.', '{']))?;
        (operation.get("requestBody").is_some() && name != "batch").then(|| name.to_owned())
    };
    let inputs = inputs(&server, of_api).await;
    assert!(inputs.len() > 15, "{}", inputs.len());
    for input in &inputs {
        let plain = base(input, 1, 1);
        for member in input.members.keys().map(String::as_str).chain(["unknown"]) {
            let mut with_null = plain.clone();
            with_null[member] = Value::Null;
            let answer = server.backend(&input.name, &with_null).await;
            let sequence = json!({ "id": null, "method": input.name, "params": with_null }).to_string();
            let headers = [("x-api-key", API_KEY)];
            let in_sequence = server.http("POST", "/api", &headers, &sequence).await.body;
            let batch = json!({ "parallel": null, "commands": [{ &*input.name: with_null }] });
            let in_batch = server.backend("batch", &batch).await["replies"][0].clone();
            let is_refused = |answer: &Value| answer["error"]["code"] == 107;
            let expected = plain.get(member).is_some() && !(matches!(member, "data" | "params"));
            for answer in [&answer, &in_sequence, &in_batch] {
                assert_eq!(is_refused(answer), expected, "{} {with_null}: {answer}", input.name);
            }
        }
    }
    let nested = json!({ "channel": "chat:1", "data": { "a": null }, "tags": { "data": null, "k": "v" } });
    assert!(server.backend("publish", &nested).await["result"]["offset"].is_u64());
    let latest = json!({ "channel": "chat:1", "limit": 1, "reverse": true, "since": null });
    let read = server.backend("history", &latest).await["result"]["publications"][0].clone();
    assert_eq!((&read["data"], &read["tags"]), (&json!({ "a": null }), &json!({ "k": "v" })));
    let empty = server.http("POST", "/api/info", &[("x-api-key", API_KEY)], "null").await;
    assert!(empty.body["result"]["nodes"].is_array(), "{empty:?}");
}

#[tokio::test]
async fn null_is_absent_in_every_command() {
    let server = Server::start_with(&[("namespaces", NAMESPACES), ("auth.anonymous", "true")]).await;
    let mut client = Client::open(&server).await;
    client
        .done(json!({ "connect": { "token": null, "name": null, "version": null, "data": null,
            "headers": { "data": null }, "subs": { "chat:9": null } } }))
        .await;
    for (command, members) in [
        (
            "subscribe",
            json!({ "token": null, "recover": null, "epoch": null, "offset": null, "flag": null,
            "data": null, "delta": null, "tf": null, "unknown": null }),
        ),
        ("publish", json!({ "data": null })),
        ("presence", json!({ "unknown": null })),
        ("presence_stats", json!({ "unknown": null })),
        ("history", json!({ "limit": null, "since": null, "reverse": null })),
        ("history", json!({ "since": { "offset": null, "epoch": null } })),
        ("unsubscribe", json!({ "unknown": null })),
    ] {
        let mut request = members.clone();
        request["channel"] = "chat:1".into();
        let reply = client.call(json!({ command: request, "connect": null })).await;
        assert_eq!(reply.get("error"), None, "{command} {members}: {reply}");
    }
    let history = client.done(json!({ "history": { "channel": "chat:1", "limit": 1 } })).await;
    assert_eq!(history["history"]["publications"][0]["data"], Value::Null, "a publication may be null");
}
