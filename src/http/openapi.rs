//! The OpenAPI document, generated from the table of operations.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::answers::json_answer;
use crate::api::operations::{Access, Operation, Operations};
use crate::feed::ErrorKind;

/// Serves `GET /api/openapi.json`.
pub(super) async fn serve(State(operations): State<Arc<Operations>>) -> Response<Body> {
    json_answer(StatusCode::OK, document(&operations).to_string())
}

/// The OpenAPI 3.1 document of these operations.
pub fn document(operations: &Operations) -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    let mut generator = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for operation in operations.all() {
        let input = resolved((operation.input)(&mut generator).to_value(), generator.definitions());
        let output = (operation.output)(&mut generator).to_value();
        let path = paths.entry(format!("/api/v1{}", operation.path)).or_insert_with(|| json!({}));
        path[operation.verb.as_str().to_lowercase()] = describe(operation, &input, &output);
    }
    let mut schemas = generator.take_definitions(true);
    schemas.insert("Error".into(), error_schema());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Feedline",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The feed's operations. Each that has a token is an rpc method of the same name over the \
                socket too.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer", "bearerFormat": "JWT" },
                "api_key": {
                    "type": "apiKey", "in": "header", "name": "X-API-Key",
                    "description": "A backend; X-User names the user it acts for, a user of the application \
                        unless X-User-Origin is account.",
                },
            },
        },
    })
}

/// Replaces a reference by the schema it names.
fn resolved(schema: Value, definitions: &Map<String, Value>) -> Value {
    let name = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next());
    name.and_then(|name| definitions.get(name)).cloned().unwrap_or(schema)
}

fn describe(operation: &Operation, input: &Value, output: &Value) -> Value {
    let empty = Map::new();
    let members = input.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let required: Vec<&str> = input
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let in_path = |name: &str| operation.path.contains(&format!("{{{name}}}"));
    let has_body = operation.verb.has_body();
    let parameter = |(name, schema): (&String, &Value)| {
        let (place, required) =
            if in_path(name) { ("path", true) } else { ("query", required.contains(&name.as_str())) };
        let mut parameter = json!({ "name": name, "in": place, "required": required, "schema": schema });
        if schema["type"] == "array" {
            // Lists are separated by commas, not by repeated names.
            parameter["explode"] = false.into();
        }
        parameter
    };
    let mut parameters: Vec<Value> =
        members.iter().filter(|(name, _)| in_path(name) || !has_body).map(parameter).collect();
    if operation.takes_key() {
        parameters.push(json!({
            "name": "Idempotency-Key", "in": "header", "required": false,
            "description": "Names this write: a repeat within 24 hours changes nothing and returns the first answer. \
                The member `idempotency_key` of the input has the same effect.",
            "schema": { "type": "string", "pattern": "^[ -~]{1,255}$" },
        }));
    }
    let mut described = json!({
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.name.split('.').next().unwrap_or_default()],
        "parameters": parameters,
        "responses": {
            operation.status.to_string(): {
                "description": "Done.", "content": { "application/json": { "schema": output } },
            },
            "default": {
                "description": "Refused or failed.",
                "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } },
            },
        },
    });
    if operation.access != Access::Open {
        described["security"] = json!([{ "token": [] }, { "api_key": [] }]);
    }
    let body: Map<String, Value> = members
        .iter()
        .filter(|(name, _)| !in_path(name))
        .map(|(name, schema)| (name.clone(), schema.clone()))
        .collect();
    if has_body && !body.is_empty() {
        let mut schema = input.clone();
        schema["required"] = required.iter().filter(|name| body.contains_key(**name)).copied().collect();
        schema["properties"] = body.into();
        described["requestBody"] = json!({ "required": true, "content": { "application/json": { "schema": schema } } });
    }
    described
}

fn error_schema() -> Value {
    let codes: Vec<&str> = ErrorKind::ALL.iter().map(|kind| kind.code).collect();
    json!({
        "type": "object",
        "required": ["error"],
        "properties": { "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {
                "code": { "type": "string", "enum": codes, "description": "The kind of error." },
                "message": { "type": "string", "description": "A description of the error, for people." },
                "field": { "type": "string", "description": "The field of the input at fault." },
            },
        } },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the schemas. Generated clients use them as type names: a renamed Rust type keeps its schema's name
    /// with `#[schemars(rename = "...")]`.
    const SCHEMAS: &[&str] = &[
        "About",
        "Accepted",
        "AuthorList",
        "Change",
        "Checked",
        "CheckedObjects",
        "Comment",
        "CommentDraft",
        "CommentId",
        "CommentList",
        "CommentPage",
        "CommonList",
        "CommonPage",
        "Count",
        "Done",
        "Draft",
        "Edges",
        "Edit",
        "ErasureRequest",
        "Error",
        "Export",
        "ExportRequest",
        "FavouriteItem",
        "FavouriteList",
        "FavouritePage",
        "HolderItem",
        "HolderList",
        "HolderPage",
        "Kind",
        "Left",
        "Location",
        "LonePost",
        "Marking",
        "Media",
        "MediaKind",
        "Notification",
        "NotificationId",
        "NotificationPage",
        "ObjectId",
        "ObjectType",
        "Objects",
        "OneComment",
        "OneObject",
        "OnePost",
        "OneType",
        "OneUser",
        "OwnList",
        "PageItem",
        "Part",
        "PasswordChange",
        "Person",
        "Position",
        "PostId",
        "PostList",
        "PostPage",
        "Profile",
        "Read",
        "ReadPost",
        "ReadUpTo",
        "Search",
        "ShownPost",
        "SignIn",
        "SignOut",
        "SignUp",
        "SignedIn",
        "Since",
        "State",
        "Suggestion",
        "SuggestionPage",
        "Target",
        "TimelineList",
        "TimelinePage",
        "TopicItem",
        "TopicList",
        "TopicPage",
        "Update",
        "UpdatesPage",
        "User",
        "UserId",
        "UserList",
        "UserPage",
        "Visibility",
    ];

    #[test]
    fn schemas_keep_their_names() {
        let document = document(&Operations::new());
        let schemas = document["components"]["schemas"].as_object().expect("an object");
        assert_eq!(schemas.keys().collect::<Vec<_>>(), SCHEMAS);
    }
}
