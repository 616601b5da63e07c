//! The description of the long poll of the outlet.

use schemars::SchemaGenerator;
use serde_json::{Value, json};

use super::errors::ErrorResponses;
use super::schemas::Schemas;
use crate::api::ErrorKind;
use crate::feed::outlet::{OutletEvent, PollOutlet};

/// The errors of a poll.
const ERRORS: &[&ErrorKind] = &[
    &ErrorKind::INVALID,
    &ErrorKind::UNAUTHORIZED,
    &ErrorKind::NOT_FOUND,
    &ErrorKind::TOO_MANY_REQUESTS,
    &ErrorKind::INTERNAL,
    &ErrorKind::BUSY,
    &ErrorKind::UNAVAILABLE,
];

/// Describes `GET /api/events`.
pub(super) fn describe_poll(schemas: &mut Schemas, errors: &mut ErrorResponses) -> Value {
    let event = schemas.output(SchemaGenerator::subschema_for::<OutletEvent<'static>>);
    let page = json!({
        "type": "object",
        "description": "Events, in order.",
        "required": ["events", "cursor", "missed"],
        "properties": {
            "events": { "type": "array", "items": event },
            "cursor": {
                "type": "string",
                "pattern": "^[0-9]+$",
                "description": "The position of the last event. The next poll passes it once the events are processed.",
            },
            "missed": {
                "type": "integer",
                "minimum": 0,
                "description": "The number of events before these that were removed, because they were older than \
                                `outlet.retention`.",
            },
        },
    });
    let page = schemas.add("OutletEventPage", page);
    let mut responses = errors.refer(ERRORS);
    let content = json!({ "application/json": { "schema": page, "example": example() } });
    responses.insert("200".into(), json!({ "description": "Done.", "content": content }));
    json!({
        "operationId": "outlet.poll",
        "summary": "Acknowledges events of the outlet, and returns the next ones.",
        "description": "An acknowledgement never moves back; a request with an older cursor reads the events again.",
        "tags": ["outlet"],
        "security": [{ "api_key": [] }],
        "parameters": parameters(),
        "responses": responses,
    })
}

fn parameters() -> Value {
    json!([
        {
            "name": "consumer", "in": "query", "required": true,
            "description": "One of `outlet.consumers`.",
            "schema": { "type": "string", "pattern": "^[a-z0-9_-]{1,64}$" },
            "example": "billing",
        },
        {
            "name": "cursor", "in": "query", "required": false,
            "description": "Acknowledges the events up to this one, and returns those after it. Without it: those \
                            after the last acknowledged one.",
            "schema": { "type": "string", "pattern": "^[0-9]+$" },
            "example": "41",
        },
        {
            "name": "limit", "in": "query", "required": false,
            "description": "The maximum number of events in the reply.",
            "schema": {
                "type": "integer", "minimum": 1, "maximum": PollOutlet::MAX_LIMIT,
                "default": PollOutlet::DEFAULT_LIMIT,
            },
        },
        {
            "name": "wait", "in": "query", "required": false,
            "description": "How long to wait if there is no event, in seconds.",
            "schema": {
                "type": "integer", "minimum": 0, "maximum": PollOutlet::MAX_WAIT.as_secs(), "default": 0,
            },
        },
    ])
}

fn example() -> Value {
    let event = json!({
        "id": "41", "type": "post.created", "at": 1_795_236_753_868_u64, "user": "ann",
        "post": 2_699_932_278_243_328_u64, "mentions": ["bo"],
    });
    json!({ "events": [event], "cursor": "41", "missed": 0 })
}
