//! The description of one method of the server API.

use schemars::SchemaGenerator;
use serde_json::{Value, json};

use super::errors::{ErrorResponses, TIMEOUT};
use super::sample::with_sample;
use super::schemas::Schemas;
use crate::feed::ErrorKind;
use crate::http::server_api::{Method, ServerError};

/// Describes a method: its reply has either the result or the error, both with status 200, or the error alone with a
/// status of its own.
pub(super) fn describe_method(method: &Method, schemas: &mut Schemas, errors: &mut ErrorResponses) -> Value {
    let (input_name, input) = schemas.input(method.input);
    let body = schemas.add_body(&input_name, input);
    let result = schemas.output(method.result);
    let error = schemas.output(SchemaGenerator::subschema_for::<ServerError>);
    let words = method.name.split('_').map(|word| word[..1].to_uppercase() + &word[1..]);
    let reply = json!({
        "type": "object",
        "description": "Either `result` or `error`.",
        "properties": { "result": result, "error": error },
        "minProperties": 1,
        "maxProperties": 1,
    });
    let reply = schemas.add(&format!("{}Reply", words.collect::<String>()), reply);
    let with_status = json!({
        "description": "Refused, if the request has `X-Centrifugo-Error-Mode: transport`.",
        "content": { "application/json": with_sample(&error) },
    });
    let done = json!({ "description": "Done, or refused.", "content": { "application/json": with_sample(&reply) } });
    let mut responses = errors.refer(&[&ErrorKind::UNAUTHORIZED, &TIMEOUT, &ErrorKind::TOO_LARGE]);
    responses.insert("200".into(), done);
    let with_status = errors.refer_to("ServerError", with_status);
    for status in ["400", "404", "409", "416", "500"] {
        responses.insert(status.into(), with_status.clone());
    }
    json!({
        "operationId": format!("server.{}", method.name),
        "summary": method.summary,
        "tags": ["server"],
        "security": [{ "api_key": [] }],
        "parameters": [{
            "name": "X-Centrifugo-Error-Mode", "in": "header", "required": false,
            "description": "`transport`: errors are HTTP statuses.",
            "schema": { "type": "string", "enum": ["transport"] },
        }],
        "requestBody": { "required": true, "content": { "application/json": with_sample(&body) } },
        "responses": responses,
    })
}
