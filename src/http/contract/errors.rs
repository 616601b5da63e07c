//! Errors: one schema with all codes, and one response for each set of codes that share a status.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::api::ErrorKind;
use crate::api::operations::{Operation, Verb};

/// The body did not arrive in time: HTTP only, before the operation starts.
pub(super) const TIMEOUT: ErrorKind = ErrorKind {
    code: "timeout",
    status: 408,
    is_temporary: true,
    meaning: "The body of the request did not arrive in time.",
};

/// The path exists, and the method does not: HTTP only. Every path can answer with it, and the operations never do.
const METHOD_NOT_ALLOWED: ErrorKind = ErrorKind {
    code: "method_not_allowed",
    status: 405,
    is_temporary: false,
    meaning: "The path takes other methods; `Allow` names them.",
};

/// The errors of requests, as responses that several operations share.
#[derive(Default)]
pub(super) struct ErrorResponses {
    components: Map<String, Value>,
}

impl ErrorResponses {
    /// References to the responses of an operation, by status.
    pub(super) fn of(&mut self, operation: &Operation) -> Map<String, Value> {
        let mut kinds: Vec<&ErrorKind> = operation.errors().collect();
        if operation.verb != Verb::Get {
            kinds.push(&TIMEOUT);
        }
        self.refer(&kinds)
    }

    /// References to responses with these errors, by status.
    pub(super) fn refer(&mut self, kinds: &[&ErrorKind]) -> Map<String, Value> {
        let mut by_status: BTreeMap<u16, Vec<&ErrorKind>> = BTreeMap::new();
        for kind in kinds {
            by_status.entry(kind.status).or_default().push(kind);
        }
        let mut references = Map::new();
        for (status, kinds) in by_status {
            let name = kinds.iter().map(|kind| type_name(kind.code)).collect::<Vec<_>>().join("Or");
            references.insert(status.to_string(), json!({ "$ref": format!("#/components/responses/{name}") }));
            self.components.entry(name).or_insert_with(|| response(&kinds));
        }
        references
    }

    /// A reference to a response of this name.
    pub(super) fn refer_to(&mut self, name: &str, response: Value) -> Value {
        self.components.entry(name).or_insert(response);
        json!({ "$ref": format!("#/components/responses/{name}") })
    }

    /// The responses, for `components.responses`.
    pub(super) fn into_components(self) -> Map<String, Value> {
        self.components
    }
}

/// `not_found` as `NotFound`.
fn type_name(code: &str) -> String {
    let upper = |word: &str| word[..1].to_uppercase() + &word[1..];
    code.split('_').filter(|word| !word.is_empty()).map(upper).collect()
}

fn response(kinds: &[&ErrorKind]) -> Value {
    let codes: Vec<&str> = kinds.iter().map(|kind| kind.code).collect();
    let meanings: Vec<String> = kinds.iter().map(|kind| format!("`{}`: {}", kind.code, kind.meaning)).collect();
    let examples = kinds.iter().map(|kind| {
        let message = kind.meaning.split(['.', ',', ';']).next().unwrap_or_default().to_lowercase();
        (kind.code.to_owned(), json!({ "value": { "error": { "code": kind.code, "message": message } } }))
    });
    let mut response = json!({
        "description": meanings.join(" "),
        "x-error-codes": codes,
        "content": { "application/json": {
            "schema": { "$ref": "#/components/schemas/Error" },
            "examples": examples.collect::<Map<_, _>>(),
        } },
    });
    if kinds.iter().any(|kind| waits(kind)) {
        response["headers"] = json!({ "Retry-After": { "$ref": "#/components/headers/RetryAfter" } });
    }
    response
}

/// Whether a response with this error says when to try again.
fn waits(kind: &ErrorKind) -> bool {
    kind.is_temporary && ![ErrorKind::INTERNAL.code, TIMEOUT.code].contains(&kind.code)
}

/// The header `Retry-After`, for `components.headers`.
pub(super) fn retry_after() -> Value {
    json!({
        "description": "The seconds to wait before a retry. Temporary errors have it, except `internal` and `timeout`.",
        "schema": { "type": "integer", "minimum": 0 },
        "example": 1,
    })
}

/// The codes of all errors.
pub(super) fn code_schema() -> Value {
    let codes: Vec<&str> = ErrorKind::ALL.iter().chain([&METHOD_NOT_ALLOWED, &TIMEOUT]).map(|kind| kind.code).collect();
    json!({
        "type": "string",
        "enum": codes,
        "description": "The kind of error. Over rpc the message begins with it and a colon.",
    })
}

/// The body of an error.
pub(super) fn error_schema() -> Value {
    json!({
        "type": "object",
        "required": ["error"],
        "properties": { "error": { "$ref": "#/components/schemas/ErrorDetail" } },
    })
}

/// The member `error` of the body.
pub(super) fn detail_schema() -> Value {
    json!({
        "type": "object",
        "required": ["code", "message"],
        "properties": {
            "code": { "$ref": "#/components/schemas/ErrorCode" },
            "message": { "type": "string", "description": "A description of the error, for people." },
            "field": { "type": "string", "description": "The field of the input at fault." },
        },
    })
}
