//! Every operation, and every kind of caller: who vouches for somebody gives them no right that users do not have.

use feedline::api::operations::{Access, Operation, Operations};
use serde_json::{Value, json};

use crate::client::Client;
use crate::hooks::Backend;
use crate::http::request;
use crate::server::{API_KEY, Server, token};

/// A way to call: over HTTP with these headers, or over a socket.
enum Caller<'a> {
    Http(&'a Server, Vec<(&'static str, String)>),
    Socket(Box<Client>),
}

/// What operations of each access say to: a request without credentials, a token, a session of an account, a client
/// that the connect hook names, an anonymous client of an insecure server, a token there, a backend, and a backend for
/// a user.
///
/// `+` allowed, `-` 401, `x` 403, `.` no such method on sockets.
const READER: &str = "-+++++++";
const USER: &str = "-+++-+-+";
const OPEN: &str = "+.+...++";
const BACKEND: &str = "-xxxxx+x";

/// Operations that say something else.
const OTHERS: &[(&str, &str)] = &[("accounts.password", "-x+x-x-x"), ("devices.register", "-xxx-x-+")];

/// Operations that end the access of their caller. They are the last.
const LAST: [&str; 3] = ["accounts.password", "sessions.delete", "accounts.delete"];

/// An input with the parameters of the path. It needs no others: a caller is refused before an input is.
fn input(operation: &Operation) -> Value {
    match operation.name {
        "devices.register" => {
            return json!({ "id": "d", "platform": "webhook", "endpoint": "https://hooks.example/1" });
        }
        // It must not end the session that the next operation needs.
        "sessions.delete" => return json!({ "all": "neither" }),
        "accounts.password" => return json!({ "old": "a long password", "new": "another password" }),
        _ => {}
    }
    let names = operation.paths[0].split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let value = |name: &str| match (name, operation.name.split('.').next()) {
        ("id", Some("posts" | "comments" | "conversations" | "likes")) | ("post" | "comment", _) => json!(1),
        ("type", _) => json!("book"),
        _ => json!("somebody"),
    };
    Value::Object(names.map(|name| (name.to_owned(), value(name))).collect())
}

async fn sign(caller: &mut Caller<'_>, operation: &Operation) -> char {
    let input = input(operation);
    let code = match caller {
        Caller::Http(server, headers) => {
            let (path, body) = request(operation.verb.as_str(), operation.paths[0], &input);
            let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let body = if body.is_null() { String::new() } else { body.to_string() };
            let answer = server.http(operation.verb.as_str(), &format!("/api/v1{path}"), &headers, &body).await;
            answer.status.as_u16().into()
        }
        Caller::Socket(client) => {
            let reply = client.call(json!({ "rpc": { "method": operation.name, "data": input } })).await;
            reply["error"]["code"].as_u64().unwrap_or(200)
        }
    };
    match code {
        108 => '.',
        401 => '-',
        403 => 'x',
        100 | 107 | 111 | 429 | 500..=599 => panic!("{} answers {code}", operation.name),
        _ => '+',
    }
}

#[tokio::test]
async fn every_operation_and_every_kind_of_caller() {
    let backend = Backend::start().await;
    backend.result("connect", json!({ "user": "hal" }));
    let plain = Server::start().await;
    let hooked = backend.server(&["connect"], &[]).await;
    let insecure = Server::start_with(&[("client.insecure", "true")]).await;
    let account = json!({ "user": "sam", "password": "a long password" }).to_string();
    let session = plain.http("POST", "/api/v1/accounts", &[], &account).await.body["token"].clone();
    let session = format!("Bearer {}", session.as_str().expect("a session"));
    let open = async |server: &Server, connect: Value| {
        let mut client = Client::open(server).await;
        client.done(json!({ "connect": connect })).await;
        Caller::Socket(Box::new(client))
    };
    let key = ("x-api-key", API_KEY.to_owned());
    let mut callers = [
        Caller::Http(&plain, Vec::new()),
        open(&plain, json!({ "token": token("tom") })).await,
        Caller::Http(&plain, vec![("authorization", session)]),
        open(&hooked, json!({})).await,
        open(&insecure, json!({})).await,
        open(&insecure, json!({ "token": token("ian") })).await,
        Caller::Http(&plain, vec![key.clone()]),
        Caller::Http(&plain, vec![key, ("x-user", "bea".to_owned())]),
    ];
    let operations = Operations::new();
    let is_last = |operation: &&Operation| LAST.contains(&operation.name);
    let first = operations.all().iter().filter(|operation| !is_last(operation));
    let last = LAST.iter().filter_map(|name| operations.all().iter().find(|operation| operation.name == *name));
    let mut wrong = Vec::new();
    for operation in first.chain(last) {
        let expected = OTHERS.iter().find(|(name, _)| *name == operation.name).map(|(_, signs)| *signs);
        let expected = expected.unwrap_or(match operation.access {
            Access::Open => OPEN,
            Access::Reader => READER,
            Access::User => USER,
            Access::Backend => BACKEND,
        });
        let mut signs = String::new();
        for caller in &mut callers {
            signs.push(sign(caller, operation).await);
        }
        if signs != expected {
            wrong.push(format!("{}: {signs}, expected {expected}", operation.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(operations.all().iter().filter(|operation| LAST.contains(&operation.name)).count(), LAST.len());
}
