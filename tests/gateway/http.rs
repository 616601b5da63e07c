//! Operations over HTTP and over rpc, which must agree, and the errors of HTTP.

use std::collections::BTreeSet;

use feedline::api::operations::{Access, Operation, Operations};
use serde_json::{Value, json};

use crate::client::Client;
use crate::operation_cases::{
    account_and_user_cases, list_and_filter_cases, post_and_comment_cases, timeline_and_list_cases,
};
use crate::server::{API_KEY, Answer, Server, token};

fn error(answer: &Answer) -> (u16, &str, Option<&str>) {
    let error = &answer.body["error"];
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{answer:?}");
    (answer.status.as_u16(), error["code"].as_str().expect("a code"), error["field"].as_str())
}

/// Puts an input into an operation's path, and the remaining fields into its query or body.
pub(crate) fn request(verb: &str, path: &str, input: &Value) -> (String, Value) {
    let mut path = path.to_owned();
    let mut left = serde_json::Map::new();
    for (name, value) in input.as_object().expect("an object") {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let placed = path.replace(&format!("{{{name}}}"), &text);
        if placed == path {
            left.insert(name.clone(), value.clone());
        }
        path = placed;
    }
    if matches!(verb, "POST" | "PUT" | "PATCH") {
        return (path, Value::Object(left));
    }
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    // A list is its items, with commas between them.
    let text = |value: &Value| match value.as_array() {
        Some(items) => items.iter().map(plain).collect::<Vec<_>>().join(","),
        None => plain(value),
    };
    let query: Vec<String> = left.iter().map(|(name, value)| format!("{name}={}", text(value))).collect();
    if !query.is_empty() {
        path = format!("{path}?{}", query.join("&"));
    }
    (path, Value::Null)
}

/// Removes the fields that differ between two objects that were created alike.
fn timeless(mut created: Value) -> Value {
    for field in ["id", "created_at", "seen_at"] {
        created[field] = Value::Null;
    }
    created
}

/// The path whose parameters the input has.
fn path_of(operation: &Operation, input: &Value) -> &'static str {
    let has_all = |path: &&&str| {
        let mut parameters = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        parameters.all(|name| input.get(name).is_some())
    };
    operation.paths.iter().find(has_all).unwrap_or(&operation.paths[0])
}

/// Calls an operation over both transports: status, reply and error must be equal.
async fn compare_http_and_rpc(server: &Server, client: &mut Client, operation: &Operation, input: &Value) {
    let name = operation.name;
    let (path, body) = request(operation.verb.as_str(), path_of(operation, input), input);
    let answer = server.call("ann", operation.verb.as_str(), &path, &body).await;
    let reply = client.call(json!({ "rpc": { "method": name, "data": input } })).await;
    if answer.status.is_success() {
        assert_eq!(answer.status.as_u16(), operation.status, "{name}");
        let data = reply["rpc"]["data"].clone();
        let (http, rpc) = if name.ends_with(".create") || name == "devices.register" {
            (timeless(answer.body), timeless(data))
        } else {
            (answer.body, data)
        };
        assert_eq!(http, rpc, "{name} {input}");
    } else {
        let (status, _, field) = error(&answer);
        let refused = &reply["error"];
        assert_eq!(refused["code"], status, "{name} {input}: {reply}");
        let error = &answer.body["error"];
        let message = format!("{}: {}", error["code"].as_str().unwrap(), error["message"].as_str().unwrap());
        assert_eq!(refused["message"], message, "{name} {input}");
        assert_eq!(refused["field"].as_str(), field, "{name} {input}");
    }
}

#[tokio::test]
async fn http_and_rpc_answers_are_equal_for_every_operation() {
    let server = Server::start().await;
    server.follow("cy", "ann").await;
    server.follow("ann", "bo").await;
    let post = server.post("bo", "hello #rust").await;
    let comment = server.done("bo", "POST", &format!("/posts/{post}/comments"), &json!({ "text": "hm" })).await;
    let (to_delete, to_delete_too) = (server.post("ann", "a").await, server.post("ann", "b").await);
    let mut ann = Client::connect(&server, "ann").await;
    let position = ann.rpc("timeline.read", &json!({})).await["position"].clone();
    let mut cases = account_and_user_cases();
    cases.extend(post_and_comment_cases(post, &comment["id"], to_delete));
    let list = server.done("ann", "POST", "/lists", &json!({ "name": "mine" })).await;
    let filter = json!({ "words": ["x"], "action": "warn" });
    let filter = server.done("ann", "POST", "/filters", &filter).await;
    cases.extend(list_and_filter_cases(&list["id"], &filter["id"]));
    cases.extend(timeline_and_list_cases(post, position));
    let operations = Operations::new();
    let named: BTreeSet<&str> = cases.iter().map(|(name, _)| *name).collect();
    let is_for_users = |operation: &&Operation| operation.is_rpc() && operation.access != Access::Backend;
    let all = operations.all().iter().filter(is_for_users).map(|operation| operation.name);
    // After an erasure no second call can succeed, so the operation is not compared.
    let all = all.filter(|name| *name != "accounts.delete").collect();
    assert_eq!(named, all, "each operation is here");
    for (name, input) in cases {
        compare_http_and_rpc(&server, &mut ann, operations.by_rpc(name, false).unwrap(), &input).await;
    }
    let gone = server.call("ann", "DELETE", &format!("/posts/{to_delete}"), &Value::Null).await;
    assert_eq!((gone.status.as_u16(), gone.body), (200, json!({})));
    assert_eq!(ann.rpc("posts.delete", &json!({ "id": to_delete_too })).await, json!({}));
    assert_eq!(Client::connect(&server, "dee").await.rpc("accounts.delete", &json!({})).await, json!({}));
    for (operation, path, id) in [("lists.delete", "lists", &list["id"]), ("filters.delete", "filters", &filter["id"])]
    {
        assert_eq!(ann.rpc(operation, &json!({ "id": id })).await, json!({}));
        let gone = server.call("ann", "DELETE", &format!("/{path}/{id}"), &Value::Null).await;
        assert_eq!(error(&gone), (404, "not_found", None));
    }
    for id in [to_delete, to_delete_too] {
        let gone = server.call("ann", "GET", &format!("/posts/{id}"), &Value::Null).await;
        assert_eq!(error(&gone), (404, "not_found", None));
    }
}

#[tokio::test]
async fn errors_name_the_field_and_the_reason() {
    let server = Server::start().await;
    let post = server.post("bo", "hello").await;
    for (method, path, body, expected) in [
        ("POST", "/posts", json!({ "text": "" }), (400, "invalid", Some("text"))),
        ("POST", "/posts", json!({ "text": "x".repeat(5001) }), (422, "limit_exceeded", Some("text"))),
        ("POST", "/posts", json!({ "nonsense": 1 }), (400, "invalid", Some("nonsense"))),
        ("POST", "/posts", json!([1]), (400, "invalid", None)),
        ("GET", "/timeline?limit=0", json!(null), (400, "invalid", Some("limit"))),
        ("GET", "/timeline?limit=x", json!(null), (400, "invalid", None)),
        ("GET", "/timeline?cursor=x", json!(null), (400, "invalid", Some("cursor"))),
        ("GET", "/timeline?limit=%zz", json!(null), (400, "invalid", None)),
        ("GET", "/timeline?unknown=1", json!(null), (400, "invalid", Some("unknown"))),
        ("GET", "/timeline/updates", json!(null), (400, "invalid", Some("offset"))),
        ("GET", "/users/nobody", json!(null), (404, "not_found", None)),
        ("GET", "/users/a%20b", json!(null), (400, "invalid", None)),
        ("GET", "/posts/x", json!(null), (400, "invalid", None)),
        ("PUT", "/users/ann/follow", json!(null), (400, "invalid", Some("id"))),
        ("GET", "/no/such/path", json!(null), (404, "not_found", None)),
        ("PATCH", "/timeline", json!({}), (405, "method_not_allowed", None)),
        ("POST", "/timeline", json!({}), (405, "method_not_allowed", None)),
        ("POST", "/posts", json!({ "text": "x".repeat(300 * 1024) }), (413, "too_large", None)),
        ("POST", "/accounts", json!({ "user": "a b", "password": "long enough" }), (400, "invalid", None)),
        ("POST", "/accounts", json!({ "user": "dee", "password": "short" }), (400, "invalid", Some("password"))),
        ("POST", "/sessions", json!({ "user": "dee", "password": "long enough" }), (401, "unauthorized", None)),
    ] {
        let answer = server.call("ann", method, path, &body).await;
        assert_eq!(error(&answer), expected, "{method} {path}: {answer:?}");
    }
    let answer = server.call("ann", "DELETE", &format!("/posts/{post}"), &Value::Null).await;
    assert_eq!(error(&answer), (403, "forbidden", None));
    let bearer = format!("Bearer {}", token("ann"));
    let answer = server.http("POST", "/api/v1/posts", &[("authorization", &bearer)], "{").await;
    assert_eq!(error(&answer), (400, "invalid", None));
    for path in ["/nowhere", "/../Cargo.toml", "/%2e%2e/Cargo.toml"] {
        assert_eq!(error(&server.http("GET", path, &[], "").await), (404, "not_found", None), "{path}");
    }
}

#[tokio::test]
async fn backends_act_for_users_with_the_api_key() {
    let server = Server::start().await;
    let ask = async |headers: &[(&str, &str)]| server.http("GET", "/api/v1/timeline", headers, "").await;
    assert!(ask(&[("x-api-key", API_KEY), ("x-user", "ann")]).await.status.is_success());
    assert_eq!(error(&ask(&[("x-api-key", API_KEY)]).await), (401, "unauthorized", None), "without a user");
    assert_eq!(error(&ask(&[("x-api-key", API_KEY), ("x-user", "a b")]).await), (400, "invalid", Some("X-User")));
    assert_eq!(error(&ask(&[("x-api-key", "wrong"), ("x-user", "ann")]).await), (401, "unauthorized", None));
    assert_eq!(error(&ask(&[("x-user", "ann")]).await), (401, "unauthorized", None));
    let bearer = format!("Bearer {}", token("ann"));
    let both = ask(&[("x-api-key", "wrong"), ("authorization", &bearer)]).await;
    assert_eq!(error(&both), (401, "unauthorized", None), "a wrong key is not made good by a token");
    assert_eq!(error(&ask(&[("authorization", "Basic YTpi")]).await), (401, "unauthorized", None));
    let headers = [("x-api-key", API_KEY), ("x-user", "ann")];
    let post = server.http("POST", "/api/v1/posts", &headers, r#"{"text":"for ann"}"#).await;
    assert_eq!((post.status.as_u16(), &post.body["author"]), (201, &json!("ann")));
}

#[tokio::test]
async fn accounts_are_created_once_and_their_tokens_connect() {
    let server = Server::start().await;
    let account = json!({ "user": "ann", "password": "a long password", "name": "Ann" }).to_string();
    let made = server.http("POST", "/api/v1/accounts", &[], &account).await;
    assert_eq!(made.status, 201, "{made:?}");
    let again = server.http("POST", "/api/v1/accounts", &[], &account).await;
    assert_eq!(error(&again), (409, "conflict", Some("user")));
    for (password, status) in [("a long password", 201), ("another password", 401)] {
        let who = json!({ "user": "ann", "password": password }).to_string();
        let answer = server.http("POST", "/api/v1/sessions", &[], &who).await;
        assert_eq!(answer.status.as_u16(), status, "{answer:?}");
        if status == 201 {
            let mut client = Client::open(&server).await;
            let reply = client.done(json!({ "connect": { "token": answer.body["token"] } })).await;
            assert_eq!(reply["connect"]["expires"], true);
        }
    }
    assert_eq!(server.done("bo", "GET", "/users/ann", &Value::Null).await["name"], "Ann");
}

/// Checks that every `$ref` in a document resolves.
fn check_refs(document: &Value, part: &Value) {
    match part {
        Value::Object(members) => {
            if let Some(reference) = members.get("$ref") {
                let pointer = reference.as_str().and_then(|path| path.strip_prefix('#')).expect("a local reference");
                assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
            }
            members.values().for_each(|member| check_refs(document, member));
        }
        Value::Array(items) => items.iter().for_each(|item| check_refs(document, item)),
        _ => {}
    }
}

/// Checks the description of an operation at one of its paths.
fn check_description(operation: &Operation, path: &str, described: &Value) {
    let id = described["operationId"].as_str().unwrap_or_else(|| panic!("{} is not described", operation.name));
    assert!(id.strip_prefix(operation.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')), "{id}");
    assert!(described["responses"].get(operation.status.to_string()).is_some(), "{id}");
    assert_eq!(described.get("security").is_some(), operation.access != Access::Open, "{id}");
    let parameters = described["parameters"].as_array().expect("parameters");
    let in_path: BTreeSet<&str> = parameters
        .iter()
        .filter(|parameter| parameter["in"] == "path")
        .map(|parameter| {
            assert_eq!(parameter["required"], true, "{id}");
            parameter["name"].as_str().expect("a name")
        })
        .collect();
    let templated: BTreeSet<&str> =
        path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
    assert_eq!(in_path, templated, "{id}");
    let is_complete = |parameter: &Value| parameter["schema"].is_object() || parameter.get("$ref").is_some();
    assert!(parameters.iter().all(is_complete), "{id}");
    // A list in a query is separated by commas, and the document declares that.
    let is_list = |parameter: &&Value| parameter["schema"]["type"] == "array";
    for list in parameters.iter().filter(is_list) {
        assert_eq!((&list["in"], &list["explode"]), (&json!("query"), &json!(false)), "{id}");
        let element = match (list["name"].as_str(), id) {
            (Some("ids"), "comments.many") => "CommentId",
            (Some("ids"), _) => "PostId",
            (Some("without"), _) => "PostKind",
            _ => "RequestedPart",
        };
        assert_eq!(list["schema"]["items"]["$ref"], format!("#/components/schemas/{element}"), "{id}");
    }
    let lists = match id {
        "posts.many" => vec!["ids", "with"],
        "comments.many" => vec!["ids"],
        "users.posts" => vec!["with", "without"],
        "timeline.read" | "topics.read" | "favourites.list" | "favourites.common" | "posts.get" | "posts.explore"
        | "users.likes" | "posts.quotes" | "lists.read" => vec!["with"],
        _ => Vec::new(),
    };
    let named: Vec<_> = parameters.iter().filter(is_list).filter_map(|list| list["name"].as_str()).collect();
    assert_eq!(named, lists, "{id}");
}

#[tokio::test]
async fn the_openapi_document_describes_every_operation() {
    let server = Server::start().await;
    let document = server.http("GET", "/api/openapi.json", &[], "").await.body;
    assert_eq!(document["openapi"], "3.1.0");
    assert!(document["info"]["title"].is_string() && document["info"]["version"].is_string());
    check_refs(&document, &document);
    let mut ids = BTreeSet::new();
    for operation in Operations::new().all() {
        for path in operation.paths {
            let path = format!("/api/v1{path}");
            let described = &document["paths"][&path][operation.verb.as_str().to_lowercase()];
            check_description(operation, &path, described);
            assert!(ids.insert(described["operationId"].as_str().unwrap()), "{path}: its id is there twice");
        }
    }
    let paths = document["paths"].as_object().unwrap();
    let paths = paths.iter().filter(|(path, _)| path.starts_with("/api/v1/")).collect::<Vec<_>>();
    let described: usize = paths.iter().map(|(_, path)| path.as_object().unwrap().len()).sum();
    assert_eq!(described, ids.len(), "and nothing else");
}

#[tokio::test]
async fn responses_carry_a_request_id() {
    let server = Server::start().await;
    let answer = server.http("GET", "/health", &[("x-request-id", "of-the-proxy")], "").await;
    assert_eq!((answer.status.as_u16(), answer.header("x-request-id")), (200, Some("of-the-proxy")));
    let answer = server.http("GET", "/health", &[("x-request-id", "not plain")], "").await;
    assert!(answer.header("x-request-id").is_some_and(|id| id.len() == 32), "{answer:?}");
}
