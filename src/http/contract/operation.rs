//! The description of one operation.

use serde_json::{Map, Value, json};

use super::errors::ErrorResponses;
use super::sample::with_sample;
use super::schemas::Schemas;
use crate::api::operations::{Access, Operation};

/// An idempotency key.
const KEY_PATTERN: &str = "^[ -~]{1,255}$";

/// Describes an operation at each of its paths: path, and description.
pub(super) fn describe(
    operation: &Operation,
    schemas: &mut Schemas,
    errors: &mut ErrorResponses,
) -> Vec<(&'static str, Value)> {
    let (input_name, input) = schemas.input(operation.input);
    let output = schemas.output(operation.output);
    let errors = errors.of(operation);
    let members = input["properties"].as_object().cloned().unwrap_or_default();
    let is_elsewhere = |path: &str, name: &str| {
        operation.paths.iter().any(|other| *other != path && in_path(other, name)) && !in_path(path, name)
    };
    let mut described = Vec::new();
    for (index, path) in operation.paths.iter().enumerate() {
        let members = members.iter().filter(|(name, _)| !is_elsewhere(path, name));
        let members = members.map(|(name, schema)| (name.clone(), schema.clone())).collect();
        let inputs = InputMembers { operation, path, members, required: required(&input) };
        let mut description = json!({
            // The second path of an operation is named after its objects.
            "operationId": match index {
                0 => operation.name.to_owned(),
                _ => format!("{}.{}", operation.name, path_parameters(path).next().unwrap_or_default()),
            },
            "summary": operation.summary,
            "tags": [operation.name.split('.').next().unwrap_or_default()],
            "parameters": inputs.parameters(),
            "responses": responses(operation, &output, &errors),
        });
        if operation.is_rpc() {
            description["x-rpc-method"] = operation.name.into();
            description["security"] = match operation.access {
                Access::Backend => json!([{ "api_key": [] }]),
                Access::Open | Access::Reader | Access::User => json!([{ "token": [] }, { "api_key": [] }]),
            };
        }
        if let Some((schema, is_required)) = inputs.body(&input) {
            let schema = schemas.add_body(&input_name, schema);
            description["requestBody"] =
                json!({ "required": is_required, "content": { "application/json": with_sample(&schema) } });
        }
        described.push((*path, description));
    }
    described
}

fn responses(operation: &Operation, output: &Value, errors: &Map<String, Value>) -> Map<String, Value> {
    let done = json!({ "description": "Done.", "content": { "application/json": with_sample(output) } });
    let mut responses = Map::from_iter([(operation.status.to_string(), done)]);
    responses.extend(errors.clone());
    responses
}

fn required(input: &Value) -> Vec<String> {
    let names = input["required"].as_array().into_iter().flatten();
    names.filter_map(|name| Some(name.as_str()?.to_owned())).collect()
}

fn path_parameters(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn in_path(path: &str, name: &str) -> bool {
    path_parameters(path).any(|parameter| parameter == name)
}

/// The members of an input at one path: in the path, the query or the body.
struct InputMembers<'a> {
    operation: &'a Operation,
    path: &'a str,
    members: Map<String, Value>,
    required: Vec<String>,
}

impl InputMembers<'_> {
    fn parameters(&self) -> Vec<Value> {
        let has_body = self.operation.verb.has_body();
        let mut parameters: Vec<Value> = self
            .members
            .iter()
            .filter(|(name, _)| in_path(self.path, name) || !has_body)
            .map(|(name, schema)| self.parameter(name, schema))
            .collect();
        if self.operation.takes_key() {
            parameters.push(json!({ "$ref": "#/components/parameters/IdempotencyKey" }));
        }
        if matches!(self.operation.access, Access::Reader | Access::User) {
            parameters.push(json!({ "$ref": "#/components/parameters/User" }));
            parameters.push(json!({ "$ref": "#/components/parameters/UserOrigin" }));
        }
        parameters
    }

    fn parameter(&self, name: &str, schema: &Value) -> Value {
        let is_in_path = in_path(self.path, name);
        let place = if is_in_path { "path" } else { "query" };
        let mut schema = schema.clone();
        let description = schema.as_object_mut().and_then(|keywords| keywords.remove("description"));
        let is_required = is_in_path || self.required.iter().any(|required| required == name);
        let mut parameter = json!({ "name": name, "in": place, "required": is_required, "schema": schema });
        if let Some(description) = description {
            parameter["description"] = description;
        }
        if parameter["schema"]["type"] == "array" {
            // Lists are separated by commas, not by repeated names.
            parameter["explode"] = false.into();
        }
        parameter
    }

    /// The schema of the body, and whether one is required.
    fn body(&self, input: &Value) -> Option<(Value, bool)> {
        if !self.operation.verb.has_body() {
            return None;
        }
        let members: Map<String, Value> = self
            .members
            .iter()
            .filter(|(name, _)| !in_path(self.path, name))
            .map(|(n, s)| (n.clone(), s.clone()))
            .collect();
        if members.is_empty() {
            return None;
        }
        let required: Vec<&String> = self.required.iter().filter(|name| members.contains_key(*name)).collect();
        let mut members = members;
        if self.operation.takes_key() {
            members.insert("idempotency_key".into(), idempotency_key());
        }
        let mut schema = input.clone();
        let is_required = !required.is_empty();
        match is_required {
            true => schema["required"] = json!(required),
            false => _ = schema.as_object_mut().map(|keywords| keywords.remove("required")),
        }
        schema["properties"] = members.into();
        Some((schema, is_required))
    }
}

/// The member that names a write; every write takes it over rpc.
fn idempotency_key() -> Value {
    json!({
        "type": "string", "pattern": KEY_PATTERN,
        "description": "Names this write, as `Idempotency-Key` does. Send one of the two.",
        "examples": ["0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11"],
    })
}

/// The parameters that operations share, for `components.parameters`.
pub(super) fn shared_parameters() -> Value {
    json!({
        "IdempotencyKey": {
            "name": "Idempotency-Key", "in": "header", "required": false,
            "description": "Names this write: a repeat within 24 hours changes nothing and returns the first answer. \
                The member `idempotency_key` of the input has the same effect.",
            "schema": { "type": "string", "pattern": KEY_PATTERN },
            "example": "0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11",
        },
        "User": {
            "name": "X-User", "in": "header", "required": false,
            "description": "With X-API-Key: the user for whom the backend acts. Without it, the backend reads as an \
                anonymous caller. Ignored with a token.",
            "schema": { "$ref": "#/components/schemas/UserId" },
            "example": "ann",
        },
        "UserOrigin": {
            "name": "X-User-Origin", "in": "header", "required": false,
            "description": "With X-User: whether it is a user of the application or an account with a password.",
            "schema": { "type": "string", "enum": ["application", "account"] },
        },
    })
}
