//! The contract: the OpenAPI and AsyncAPI documents. The test clients validate every answer and every push of all other
//! tests against them, see `tests/support/src/contract.rs`.

use std::collections::BTreeSet;

use feedline_test_support::contract;
use serde_json::{Map, Value, json};

use crate::client::Client;
use crate::server::{API_KEY, Answer, Server};

async fn document(server: &Server, name: &str) -> Value {
    server.http("GET", &format!("/api/{name}.json"), &[], "").await.body
}

/// Adds all values of `$ref`.
fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(Value::as_str));
            members.values().for_each(|member| references(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[tokio::test]
async fn every_example_matches_its_schema() {
    let _server = Server::start().await;
    contract::check_examples();
}

#[tokio::test]
async fn references_lead_to_components_and_each_component_is_used() {
    let server = Server::start().await;
    for name in ["openapi", "asyncapi"] {
        let document = document(&server, name).await;
        let mut used = BTreeSet::new();
        references(&document, &mut used);
        for reference in &used {
            let pointer = reference.strip_prefix('#').expect("a local reference");
            assert!(document.pointer(pointer).is_some(), "{name}: {reference} leads nowhere");
        }
        for (kind, components) in document["components"].as_object().unwrap() {
            for component in components.as_object().unwrap().keys().filter(|_| kind != "securitySchemes") {
                let reference = format!("#/components/{kind}/{component}");
                assert!(used.contains(&*reference), "{name}: {reference} is not used");
            }
        }
    }
}

#[tokio::test]
async fn every_event_is_in_both_documents() {
    let server = Server::start().await;
    let (openapi, asyncapi) = (document(&server, "openapi").await, document(&server, "asyncapi").await);
    let types: BTreeSet<&str> = openapi["webhooks"].as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "comment",
        "counts",
        "edited",
        "filters.changed",
        "gone",
        "like.changed",
        "like.reverted",
        "like.settled",
        "notification",
        "notification.gone",
        "notifications.read",
        "post",
        "read",
        "reposted",
    ];
    assert_eq!(types, BTreeSet::from(expected));
    let messages = asyncapi["components"]["messages"].as_object().unwrap();
    let pushed = messages.values().filter_map(|message| message["name"].as_str()).filter(|name| *name != "data");
    assert_eq!(pushed.collect::<BTreeSet<_>>(), types);
    for (name, address) in [
        ("timeline", "timeline:{user}"),
        ("list", "list:{id}"),
        ("notifications", "notifications:{user}"),
        ("user", "user:{id}"),
        ("topic", "topic:{name}"),
        ("post", "post:{id}"),
    ] {
        let channel = &asyncapi["channels"][name];
        assert_eq!(channel["address"], address);
        assert!(channel["x-subscribers"].is_string() && !channel["messages"].as_object().unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_change_with_the_defaults_of_the_schema_changes_nothing() {
    let server = Server::start().await;
    let openapi = document(&server, "openapi").await;
    // The body of a client that fills in the defaults of the schema.
    let defaults = |path: &str| {
        let body = &openapi["paths"][path]["patch"]["requestBody"]["content"]["application/json"]["schema"];
        let pointer = body["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')).expect("a reference");
        let members = openapi.pointer(pointer).and_then(|schema| schema["properties"].as_object()).expect("members");
        assert!(!members.is_empty(), "{path}");
        let with_default =
            members.iter().filter_map(|(name, schema)| Some((name.clone(), schema.get("default")?.clone())));
        Value::Object(with_default.collect::<Map<_, _>>())
    };
    server.follow("bo", "ann").await;
    let post = json!({
        "text": "for bo #x", "topics": ["y"], "visibility": { "only_to": ["bo"] }, "data": { "k": 1 },
        "media": [{ "type": "image", "url": "https://a.example/1.jpg" }], "location": { "lat": 1.5, "lon": 2.5 },
    });
    let post = server.done("ann", "POST", "/posts", &post).await;
    let path = format!("/posts/{}", post["id"]);
    server.done("ann", "PATCH", &path, &defaults("/api/v1/posts/{id}")).await;
    let mut same = server.done("ann", "GET", &path, &Value::Null).await;
    for member in ["edited_at", "liked", "favourited"] {
        same.as_object_mut().unwrap().remove(member);
    }
    let mut before = post.clone();
    for member in ["liked", "favourited"] {
        before.as_object_mut().unwrap().remove(member);
    }
    assert_eq!(same, before);
    let named = json!({ "name": "Ann", "avatar": "https://a.example/ann.jpg" });
    let user = server.done("ann", "PATCH", "/users/me", &named).await;
    assert_eq!(server.done("ann", "PATCH", "/users/me", &defaults("/api/v1/users/me")).await, user);
}

#[tokio::test]
async fn absent_and_null_are_told_apart_in_changes_and_the_status_only() {
    let server = Server::start().await;
    let openapi = document(&server, "openapi").await;
    let allows_null = |schema: &Value| {
        let is_null = |kind: &Value| kind == "null" || kind["type"] == "null";
        let any = |keyword: &str| schema[keyword].as_array().is_some_and(|them| them.iter().any(is_null));
        any("type") || any("anyOf") || any("oneOf")
    };
    let mut nullable = BTreeSet::new();
    for (name, schema) in openapi["components"]["schemas"].as_object().unwrap() {
        for (member, schema) in schema["properties"].as_object().into_iter().flatten() {
            assert!(!schema.get("default").is_some_and(Value::is_null), "{name}.{member}");
            if allows_null(schema) {
                nullable.insert(format!("{name}.{member}"));
            }
        }
    }
    let cleared = ["data", "location", "media"].map(|it| format!("PostEdit.{it}"));
    let of_profile = ["avatar", "bio", "data"].map(|it| format!("ProfileUpdate.{it}"));
    // Null is "unknown", because the ledger cannot be read; an empty list is "none".
    let unknown = ["nodes", "quarantine", "work"].map(|it| format!("DeploymentStatus.{it}"));
    let ending = ["FilterUpdate.until".to_owned()];
    let expected: BTreeSet<String> = cleared.into_iter().chain(of_profile).chain(unknown).chain(ending).collect();
    assert_eq!(nullable, expected);
}

#[tokio::test]
async fn rpc_errors_begin_with_their_code() {
    let server = Server::start().await;
    let mut ann = Client::connect(&server, "ann").await;
    for (method, input, code, name) in [
        ("posts.get", json!({ "id": 1 }), 404, "not_found"),
        ("posts.create", json!({ "text": "" }), 400, "invalid"),
        ("likes.add", json!({}), 400, "invalid"),
        ("likes.add", json!({ "post": 1, "comment": 1 }), 400, "invalid"),
    ] {
        let error = ann.call(json!({ "rpc": { "method": method, "data": input } })).await["error"].clone();
        let message = error["message"].as_str().expect("a message");
        assert_eq!(
            (error["code"].as_u64(), message.split_once(": ").map(|it| it.0)),
            (Some(code), Some(name)),
            "{error}"
        );
    }
}

/// The described paths of backends with this verb, without `/api/`.
fn backend_paths<'a>(openapi: &'a Value, verb: &str) -> Vec<&'a str> {
    let paths = openapi["paths"].as_object().unwrap().iter().filter(|(_, verbs)| verbs.get(verb).is_some());
    paths.filter_map(|(path, _)| path.strip_prefix("/api/").filter(|rest| !rest.starts_with("v1/"))).collect()
}

#[tokio::test]
async fn every_method_of_the_server_api_is_described_and_exists() {
    let server = Server::start().await;
    let openapi = document(&server, "openapi").await;
    let methods = backend_paths(&openapi, "post");
    assert_eq!(methods.len(), 20, "{methods:?}");
    for method in methods {
        let expected = if ["channels", "info"].contains(&method) { "result" } else { "error" };
        assert!(server.backend(method, &json!({})).await[expected].is_object(), "{method}");
    }
}

#[tokio::test]
async fn bodies_have_the_members_that_the_server_takes() {
    let server = Server::start().await;
    let openapi = document(&server, "openapi").await;
    let body = |path: &str, verb: &str| -> Option<Value> {
        let body = openapi["paths"][path][verb].get("requestBody")?;
        let pointer = body["content"]["application/json"]["schema"]["$ref"].as_str()?.strip_prefix('#')?;
        Some(openapi.pointer(pointer)?["properties"].clone())
    };
    assert_eq!(body("/api/info", "post"), None, "a method without input");
    let members =
        |path: &str| body(path, "post").and_then(|it| Some(it.as_object()?.keys().cloned().collect::<Vec<_>>()));
    assert_eq!(members("/api/delete_user"), Some(vec!["user".into()]));
    assert_eq!(members("/api/export_user"), Some(vec!["cursor".into(), "user".into()]));
    assert_eq!(members("/api/batch"), Some(vec!["commands".into(), "parallel".into()]));
    assert_eq!(members("/api"), Some(vec!["id".into(), "method".into(), "params".into()]));
    // A write that has a body and takes a key has the key in the body, too; a read has not.
    let mut with_key = 0;
    for (path, verbs) in openapi["paths"].as_object().unwrap().iter().filter(|(path, _)| path.starts_with("/api/v1/")) {
        for (verb, operation) in verbs.as_object().unwrap() {
            let key = json!({ "$ref": "#/components/parameters/IdempotencyKey" });
            let takes_key = operation["parameters"].as_array().is_some_and(|them| them.contains(&key));
            let Some(members) = body(path, verb) else { continue };
            assert_eq!(members.get("idempotency_key").is_some(), takes_key, "{verb} {path}");
            with_key += usize::from(takes_key);
        }
    }
    assert!(with_key > 5, "{with_key}");
    let keyed = json!({ "text": "once", "idempotency_key": "k" });
    let first = server.done("ann", "POST", "/posts", &keyed).await;
    assert_eq!(server.done("ann", "POST", "/posts", &keyed).await["id"], first["id"]);
}

#[tokio::test]
async fn errors_outside_of_operations_have_described_codes() {
    let server = Server::start().await;
    let openapi = document(&server, "openapi").await;
    let codes = &openapi["components"]["schemas"]["ErrorCode"]["enum"];
    let key = [("x-api-key", API_KEY)];
    for (method, path, headers, body, status) in [
        ("PUT", "/api/v1/posts", &[][..], "", 405),
        ("GET", "/api/publish", &key[..], "", 405),
        ("GET", "/connection/websocket", &[], "", 400),
        ("POST", "/emulation", &[], "{}", 400),
        ("POST", "/api", &key, "[]", 400),
        ("POST", "/api/no_such", &key, "{}", 404),
        ("GET", "/api/v1/no_such", &[], "", 404),
    ] {
        let answer = server.http(method, path, headers, body).await;
        let code = &answer.body["error"]["code"];
        assert_eq!(answer.status.as_u16(), status, "{method} {path}");
        assert!(codes.as_array().unwrap().contains(code), "{method} {path}: {code}");
    }
}

#[tokio::test]
async fn every_transport_is_described_and_exists() {
    let uni = ["websocket", "http_stream", "sse"].map(|name| format!("transports.uni_{name}"));
    let keys: Vec<(&str, &str)> = uni.iter().map(|key| (key.as_str(), "true")).collect();
    let server = Server::start_with(&keys).await;
    let asyncapi = document(&server, "asyncapi").await;
    let transports = asyncapi["servers"].as_object().unwrap();
    let mut names: Vec<&str> = transports.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["http_stream", "sse", "uni_http_stream", "uni_sse", "uni_websocket", "websocket"]);
    for (name, transport) in transports {
        let path = transport["pathname"].as_str().expect("a path");
        assert_eq!(path, format!("/connection/{name}"));
        // Another method than the transport's shows that the path is there.
        assert_eq!(server.http("PATCH", path, &[], "").await.status, 405, "{path}");
    }
    for channel in asyncapi["channels"].as_object().unwrap().values() {
        assert_eq!(channel["servers"].as_array().map(Vec::len), Some(6), "{channel}");
    }
}

#[tokio::test]
async fn the_long_poll_is_described_and_exists() {
    let server = Server::start_with(&[("outlet.consumers", "app")]).await;
    let openapi = document(&server, "openapi").await;
    assert_eq!(backend_paths(&openapi, "get"), ["events", "status"]);
    let poll = &openapi["paths"]["/api/events"]["get"];
    let mut query = Vec::new();
    for parameter in poll["parameters"].as_array().unwrap() {
        let (name, schema) = (parameter["name"].as_str().unwrap(), &parameter["schema"]);
        assert_eq!((parameter["in"].as_str(), parameter["required"] == true), (Some("query"), name == "consumer"));
        let value = match name {
            "consumer" => "app".to_owned(),
            "cursor" => "0".to_owned(),
            // The least value of a number is accepted, and its neighbours beyond the range are not.
            _ => {
                let (least, most) = (schema["minimum"].as_i64().unwrap(), schema["maximum"].as_i64().unwrap());
                for wrong in [least - 1, most + 1] {
                    let answer = poll_with(&server, &format!("consumer=app&{name}={wrong}")).await;
                    assert_eq!(answer.body["error"]["field"], name, "{wrong}: {answer:?}");
                }
                least.to_string()
            }
        };
        query.push(format!("{name}={value}"));
    }
    assert_eq!(query, ["consumer=app", "cursor=0", "limit=1", "wait=0"]);
    let answer = poll_with(&server, &query.join("&")).await;
    assert_eq!(answer.body, json!({ "events": [], "cursor": "0", "missed": 0 }), "{answer:?}");
    // The test client validates answers and errors against the document.
    for (query, status) in [("consumer=none", 404), ("consumer=app&cursor=x", 400), ("consumer=app&cursor=9", 400)] {
        assert_eq!(poll_with(&server, query).await.status.as_u16(), status, "{query}");
    }
    let types = openapi["components"]["schemas"]["OutletEvent"]["oneOf"].as_array().unwrap();
    let types: Vec<&str> = types.iter().filter_map(|event| event["properties"]["type"]["const"].as_str()).collect();
    let page = include_str!("../../docs/outlet.md");
    let section = page.split("## Events").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("a section");
    let documented = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let documented: Vec<&str> = documented.collect();
    assert_eq!(documented, types);
}

async fn poll_with(server: &Server, query: &str) -> Answer {
    server.http("GET", &format!("/api/events?{query}"), &[("x-api-key", API_KEY)], "").await
}
