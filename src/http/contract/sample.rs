//! Examples of requests and responses, made from their schemas.

use serde_json::{Map, Value, json};

/// The deepest nesting of an example: schemas may refer to themselves.
const MAX_DEPTH: usize = 12;

/// Values of members whose schema says too little, by name.
const MEMBERS: &[(&str, &str)] = &[
    ("text", "Hello from Bo. #rust"),
    ("topics", "rust"),
    ("epoch", "pRz3kQ"),
    ("password", "correct horse battery staple"),
    ("old", "correct horse battery staple"),
    ("new", "seven small fishes"),
    ("token", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl"),
    ("url", "https://pictures.example/harbour.jpg"),
    ("avatar", "https://pictures.example/ann.jpg"),
    ("channel", "chat:lobby"),
    ("channels", "chat:lobby"),
];

/// A media type with a schema, and the place of its example: see [`fill`].
pub(super) fn with_sample(schema: &Value) -> Value {
    json!({ "schema": schema, "example": null })
}

/// Fills in the examples of all media types of a document that have none.
pub(super) fn fill(document: &mut Value) {
    let schemas = document["components"]["schemas"].as_object().cloned().unwrap_or_default();
    fill_in(document, &schemas);
}

fn fill_in(value: &mut Value, schemas: &Map<String, Value>) {
    match value {
        Value::Object(members) => {
            if let (Some(schema), Some(Value::Null)) = (members.get("schema"), members.get("example")) {
                let example = sample("", schema, schemas, 0);
                members.insert("example".into(), example);
            } else {
                members.values_mut().for_each(|member| fill_in(member, schemas));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill_in(item, schemas)),
        _ => {}
    }
}

/// A value that a schema allows; `name` is the name of the member that has it.
fn sample(name: &str, schema: &Value, schemas: &Map<String, Value>, depth: usize) -> Value {
    let within = |part: &Value| sample(name, part, schemas, depth + 1);
    let referred = schema["$ref"].as_str().and_then(|path| schemas.get(path.rsplit('/').next()?));
    let first = |keyword: &str| schema[keyword].get(0);
    if depth > MAX_DEPTH {
        return Value::Null;
    }
    if let Some(value) = first("examples").or(schema.get("const")).or(first("enum")) {
        return value.clone();
    }
    if let Some(part) = referred.or(first("oneOf")).or(first("anyOf")).or(first("allOf")) {
        return within(part);
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"].get(0)?.as_str());
    match kind {
        Some("object") => object(schema, schemas, depth),
        Some("array") => json!([within(&schema["items"])]),
        Some("string") => MEMBERS.iter().find(|(member, _)| *member == name).map_or("ann", |(_, text)| *text).into(),
        Some("integer") => number(name, schema),
        Some("number") => json!(1.5),
        Some("boolean") => json!(true),
        _ => json!({}),
    }
}

fn number(name: &str, schema: &Value) -> Value {
    if name.ends_with("_at") {
        return json!(1_795_236_753_868_u64);
    }
    if ["id", "post", "comment"].contains(&name) {
        return json!(2_699_932_278_243_328_u64);
    }
    schema.get("default").filter(|value| value.is_u64()).or(schema.get("minimum")).cloned().unwrap_or(json!(1))
}

fn object(schema: &Value, schemas: &Map<String, Value>, depth: usize) -> Value {
    let required = |name: &str| schema["required"].as_array().is_some_and(|it| it.iter().any(|it| it == name));
    let properties = schema["properties"].as_object().cloned().unwrap_or_default();
    // An object without required members would have an empty example: one member is shown.
    let typical = ["text", "result"].into_iter().find(|name| properties.contains_key(*name));
    let is_typical = |index: usize, name: &str| typical.map_or(index == 0, |typical| name == typical);
    let shown =
        |index: usize, name: &str| required(name) || (schema.get("required").is_none() && is_typical(index, name));
    let members = properties.iter().enumerate().filter(|(index, (name, _))| shown(*index, name));
    let members = members.map(|(_, (name, member))| (name.clone(), sample(name, member, schemas, depth + 1)));
    let mut object: Map<String, Value> = members.collect();
    if properties.is_empty() && schema["additionalProperties"].is_object() {
        object.insert("ann".into(), sample("", &schema["additionalProperties"], schemas, depth + 1));
    }
    object.into()
}
