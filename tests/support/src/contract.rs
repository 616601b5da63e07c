//! Validates every response and push that the tests receive against the server's own OpenAPI and AsyncAPI documents.
//!
//! The documents are read once per test program, from its first server. Objects are closed: a member that is not in the
//! documents is an error.

use std::collections::HashMap;
use std::sync::Arc;

use jsonschema::Validator;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::server::{Answer, Server};

static CONTRACT: OnceCell<Contract> = OnceCell::const_new();

/// The parsed documents and their compiled schemas.
struct Contract {
    openapi: Value,
    asyncapi: Value,
    /// The HTTP operations: method, path segments, and pointer into the document.
    routes: Vec<(String, Vec<String>, String)>,
    /// Validators by schema pointer, compiled on first use.
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

/// Reads the documents from the server at this port, unless they are already loaded.
pub(crate) async fn learn(port: u16) {
    // The answers of a former build match its own documents.
    if std::env::var_os("FEEDLINE_FORMER").is_some() {
        return;
    }
    CONTRACT
        .get_or_init(|| async {
            let document = async |path| Server::http_at(port, "GET", path, &[], "").await.expect("a document").body;
            let mut openapi = document("/api/openapi.json").await;
            let mut asyncapi = document("/api/asyncapi.json").await;
            let routes = routes(&openapi);
            close(&mut openapi);
            close(&mut asyncapi);
            Contract { openapi, asyncapi, routes, validators: Mutex::default() }
        })
        .await;
}

/// Forbids members that the schema does not declare.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(keywords) => {
            if keywords.get("properties").is_some_and(Value::is_object)
                && keywords.get("type") == Some(&json!("object"))
            {
                keywords.entry("additionalProperties").or_insert(false.into());
            }
            keywords.values_mut().for_each(close);
        }
        Value::Array(schemas) => schemas.iter_mut().for_each(close),
        _ => {}
    }
}

fn routes(openapi: &Value) -> Vec<(String, Vec<String>, String)> {
    let mut routes: Vec<(String, Vec<String>, String)> = Vec::new();
    for (path, verbs) in openapi["paths"].as_object().expect("paths") {
        for verb in verbs.as_object().expect("verbs").keys() {
            let pointer = format!("/paths/{}/{verb}", path.replace('/', "~1"));
            routes.push((verb.to_uppercase(), path.split('/').map(str::to_owned).collect(), pointer));
        }
    }
    // A fixed segment takes precedence over a parameter.
    routes.sort_by_key(|(_, segments, _)| segments.iter().filter(|segment| segment.starts_with('{')).count());
    routes
}

impl Contract {
    /// Validates a value against the schema at a pointer into one of the documents.
    fn validate(&self, document: &Value, pointer: &str, value: &Value, what: &str) {
        let validator = {
            let mut validators = self.validators.lock();
            let compiled = validators.entry(pointer.to_owned()).or_insert_with(|| {
                let schema = document.pointer(pointer).unwrap_or_else(|| panic!("no schema at {pointer}"));
                let root = json!({ "allOf": [schema], "components": document["components"] });
                Arc::new(jsonschema::draft202012::new(&root).unwrap_or_else(|error| panic!("{pointer}: {error}")))
            });
            Arc::clone(compiled)
        };
        let errors: Vec<String> =
            validator.iter_errors(value).map(|error| format!("{} at {}", error, error.instance_path())).collect();
        assert!(errors.is_empty(), "{what} does not match {pointer}:\n{}\n{value}", errors.join("\n"));
    }

    /// Returns the pointer of an operation's response with this status.
    fn response(&self, operation: &str, status: &str) -> Option<String> {
        let pointer = format!("{operation}/responses/{status}");
        let response = self.openapi.pointer(&pointer)?;
        let shared = response["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
        Some(shared.map_or(pointer, str::to_owned))
    }

    /// Returns the pointer of the operation that matches a request.
    fn route(&self, method: &str, path: &str) -> Option<&str> {
        let path = path.split('?').next().unwrap_or_default();
        let given: Vec<&str> = path.split('/').collect();
        let fits = |segments: &[String]| {
            let mut pairs = segments.iter().zip(&given);
            segments.len() == given.len() && pairs.all(|(wanted, given)| wanted.starts_with('{') || wanted == given)
        };
        let found = self.routes.iter().find(|(verb, segments, _)| verb == method && fits(segments));
        found.map(|(_, _, pointer)| pointer.as_str())
    }
}

/// Validates an HTTP response.
pub(crate) fn check_answer(method: &str, path: &str, answer: &Answer) {
    let Some(contract) = CONTRACT.get() else { return };
    let Some(pointer) = contract.route(method, path) else { return };
    let status = answer.status.as_u16();
    let what = format!("the answer {status} to {method} {path}");
    let response = contract.response(pointer, &status.to_string());
    let response = response.unwrap_or_else(|| panic!("{what} is not described: {}", answer.body));
    let schema = format!("{response}/content/application~1json/schema");
    match answer.body.as_str() {
        // `POST /api` answers with one line for each command.
        Some(lines) if path == "/api" => lines.lines().for_each(|line| {
            let reply = serde_json::from_str(line).unwrap_or_else(|error| panic!("{what}: {error} in {line}"));
            contract.validate(&contract.openapi, &schema, &reply, &what);
        }),
        _ => contract.validate(&contract.openapi, &schema, &answer.body, &what),
    }
    if let Some(code) = answer.body["error"]["code"].as_str() {
        let response = contract.openapi.pointer(&response).expect("a response");
        let codes = response["x-error-codes"].as_array();
        let is_described = codes.is_none_or(|codes| codes.iter().any(|it| it == code));
        assert!(is_described, "{what}: {code} is not described: {}", answer.body);
        let waits = response["headers"].get("Retry-After").is_some() && code != "conflict" && code != "internal";
        assert!(!waits || answer.header("retry-after").is_some(), "{what}: no Retry-After: {}", answer.body);
    }
}

/// Validates the output of an RPC method. Those of the application's backend (`app.…`) have no contract.
pub(crate) fn check_output(method: &str, output: &Value) {
    if method.starts_with("app.") {
        return;
    }
    let Some(contract) = CONTRACT.get() else { return };
    let operation = |pointer: &&str| contract.openapi.pointer(pointer).is_some_and(|it| it["operationId"] == method);
    let pointer = contract.routes.iter().map(|(_, _, pointer)| pointer.as_str()).find(operation);
    let pointer = pointer.unwrap_or_else(|| panic!("{method} is not described"));
    let responses = contract.openapi.pointer(&format!("{pointer}/responses")).and_then(Value::as_object);
    let status = responses.and_then(|it| it.keys().find(|status| status.starts_with('2'))).expect("a success");
    let schema = format!("{pointer}/responses/{status}/content/application~1json/schema");
    contract.validate(&contract.openapi, &schema, output, &format!("the output of {method}"));
}

/// Validates the data of a publication on a channel of the feed.
pub(crate) fn check_event(channel: &str, data: &Value) {
    let Some(contract) = CONTRACT.get() else { return };
    let kind = channel.split_once(':').map_or("", |(kind, _)| kind);
    let Some(messages) = contract.asyncapi["channels"][kind]["messages"].as_object() else { return };
    // Selects the schema by the event's type, so that errors name the invalid member. Schemas of the same type differ
    // by their members.
    let components = &contract.asyncapi["components"];
    let same_type = |name: &&String| components["messages"][name]["name"] == data["type"];
    let is_whole = |name: &&String| {
        let required = components["schemas"][name]["required"].as_array().into_iter().flatten();
        required.filter_map(Value::as_str).all(|member| data.get(member).is_some())
    };
    let names: Vec<&String> = messages.keys().filter(same_type).collect();
    let name = names.iter().find(|name| is_whole(name)).or(names.first());
    let name = name.unwrap_or_else(|| panic!("no event of {kind}: {data}"));
    let schema = format!("/components/schemas/{name}");
    contract.validate(&contract.asyncapi, &schema, data, &format!("an event on {channel}"));
}

/// Validates every example in the documents: requests, responses and events.
pub fn check_examples() {
    let contract = CONTRACT.get().expect("a server that was started");
    let mut checked = 0;
    for document in [&contract.openapi, &contract.asyncapi] {
        examples(document, "", &mut |schema, example| {
            contract.validate(document, schema, example, "the example");
            checked += 1;
        });
    }
    assert!(checked > 120, "only {checked} examples");
}

/// Visits each example below a pointer, with the pointer of its schema.
fn examples(value: &Value, pointer: &str, visit: &mut dyn FnMut(&str, &Value)) {
    let inner = |name: &str| format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
    match value {
        Value::Object(members) => {
            let described = ["schema", "payload"].into_iter().find(|name| members.contains_key(*name));
            if let Some(name) = described {
                let several = members.get("examples").into_iter().flat_map(|examples| match examples {
                    Value::Object(named) => named.values().filter_map(|it| it.get("value")).collect::<Vec<_>>(),
                    Value::Array(list) => list.iter().filter_map(|it| it.get("payload")).collect(),
                    _ => Vec::new(),
                });
                several.chain(members.get("example")).for_each(|example| visit(&inner(name), example));
            }
            members.iter().for_each(|(name, member)| examples(member, &inner(name), visit));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, item)| examples(item, &format!("{pointer}/{n}"), visit));
        }
        _ => {}
    }
}
