//! The description of one method of the server API, and of requests with many methods.

use schemars::SchemaGenerator;
use serde_json::{Value, json};

use super::errors::{ErrorResponses, TIMEOUT};
use super::sample::with_sample;
use super::schemas::Schemas;
use crate::api::ErrorKind;
use crate::http::server_api::{MAX_COMMANDS, Method, ServerError};

/// Describes a method: its reply has either the result or the error, both with status 200, or the error alone with a
/// status of its own.
pub(super) fn describe_method(method: &Method, schemas: &mut Schemas, errors: &mut ErrorResponses) -> Value {
    let (input_name, input) = schemas.input(method.input);
    let result = schemas.output(method.result);
    let words = method.name.split('_').map(|word| word[..1].to_uppercase() + &word[1..]);
    let reply = either(schemas, &format!("{}Reply", words.collect::<String>()), "result", &result);
    let has_input = input["properties"].as_object().is_some_and(|members| !members.is_empty());
    let body = has_input.then(|| schemas.add_body(&input_name, input));
    let mut description = describe(method.name, method.summary, &reply, body.as_ref(), errors);
    let with_status = with_status(schemas, errors);
    for status in ["400", "404", "409", "416", "500"] {
        description["responses"][status] = with_status.clone();
    }
    description["parameters"] = error_mode();
    description
}

/// Describes `/api/batch`: many commands in one object.
pub(super) fn describe_batch(schemas: &mut Schemas, errors: &mut ErrorResponses) -> Value {
    let command = schemas.add(
        "BatchCommand",
        json!({
            "type": "object",
            "description": "The input of one method, as the only member, named after the method.",
            "minProperties": 1,
            "maxProperties": 1,
            "additionalProperties": { "description": "The input of the method.", "type": "object" },
            "examples": [{ "publish": { "channel": "chat:lobby", "data": { "hello": "all" } } }],
        }),
    );
    let body = schemas.add(
        "BatchRequest",
        json!({
            "type": "object",
            "description": "Commands.",
            "required": ["commands"],
            "properties": {
                "commands": {
                    "type": "array", "items": command, "maxItems": MAX_COMMANDS, "description": "The commands.",
                },
                "parallel": {
                    "type": "boolean", "default": false, "description": "Whether commands run in any order.",
                },
            },
        }),
    );
    let one = schemas.add(
        "BatchCommandReply",
        json!({
            "type": "object",
            "description": "The result, named after the method; or `error`, a `ServerError`.",
            "minProperties": 1,
            "maxProperties": 1,
            "additionalProperties": { "type": "object" },
            "examples": [{ "publish": {} }],
        }),
    );
    let replies = json!({ "type": "array", "items": one, "description": "One for each command, in their order." });
    let reply = either(schemas, "BatchReply", "replies", &replies);
    let mut description = describe("batch", "Runs many commands in one request.", &reply, Some(&body), errors);
    description["responses"]["400"] = with_status(schemas, errors);
    description["parameters"] = error_mode();
    description
}

/// Describes `/api`: commands one after another, each an object.
pub(super) fn describe_sequence(schemas: &mut Schemas, errors: &mut ErrorResponses) -> Value {
    let body = schemas.add(
        "Command",
        json!({
            "type": "object",
            "description": "A command.",
            "required": ["method"],
            "properties": {
                "id": {
                    "type": "integer", "format": "int64", "minimum": 0, "maximum": u32::MAX,
                    "description": "Repeated in the reply.",
                },
                "method": { "type": "string", "description": "The method.", "examples": ["publish"] },
                "params": {
                    "type": "object", "description": "The input of the method.",
                    "examples": [{ "channel": "chat:lobby", "data": { "hello": "all" } }],
                },
            },
        }),
    );
    let error = schemas.output(SchemaGenerator::subschema_for::<ServerError>);
    let reply = schemas.add(
        "CommandReply",
        json!({
            "type": "object",
            "description": "Either `result` or `error`.",
            "properties": {
                "id": { "type": "integer", "format": "int64", "description": "That of the command, unless it is 0." },
                "result": { "type": "object", "description": "The result of the method.", "examples": [{}] },
                "error": error,
            },
            "minProperties": 1,
            "maxProperties": 2,
            "examples": [{ "id": 1, "result": {} }],
        }),
    );
    let summary = "Runs commands, one after another. The body has one or more of these objects, the response one line \
        for each.";
    let mut description = describe("commands", summary, &reply, Some(&body), errors);
    description["responses"]["400"] = errors.refer(&[&ErrorKind::INVALID])["400"].clone();
    description
}

/// What all have in common.
fn describe(name: &str, summary: &str, reply: &Value, body: Option<&Value>, errors: &mut ErrorResponses) -> Value {
    let done = json!({ "description": "Done, or refused.", "content": { "application/json": with_sample(reply) } });
    let mut responses = errors.refer(&[&ErrorKind::UNAUTHORIZED, &TIMEOUT, &ErrorKind::TOO_LARGE]);
    responses.insert("200".into(), done);
    let mut description = json!({
        "operationId": format!("server.{name}"),
        "summary": summary,
        "tags": ["server"],
        "security": [{ "api_key": [] }],
        "responses": responses,
    });
    if let Some(body) = body {
        description["requestBody"] = json!({ "required": true, "content": { "application/json": with_sample(body) } });
    }
    description
}

/// A reply with this member or an error.
fn either(schemas: &mut Schemas, name: &str, member: &str, value: &Value) -> Value {
    let error = schemas.output(SchemaGenerator::subschema_for::<ServerError>);
    let reply = json!({
        "type": "object",
        "description": format!("Either `{member}` or `error`."),
        "properties": { member: value, "error": error },
        "minProperties": 1,
        "maxProperties": 1,
    });
    schemas.add(name, reply)
}

/// The response to a backend that wants errors as HTTP statuses.
fn with_status(schemas: &mut Schemas, errors: &mut ErrorResponses) -> Value {
    let error = schemas.output(SchemaGenerator::subschema_for::<ServerError>);
    let response = json!({
        "description": "Refused, if the request has `X-Centrifugo-Error-Mode: transport`.",
        "content": { "application/json": with_sample(&error) },
    });
    errors.refer_to("ServerError", response)
}

fn error_mode() -> Value {
    json!([{
        "name": "X-Centrifugo-Error-Mode", "in": "header", "required": false,
        "description": "`transport`: errors are HTTP statuses.",
        "schema": { "type": "string", "enum": ["transport"] },
    }])
}
