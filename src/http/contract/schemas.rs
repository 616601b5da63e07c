//! The schemas of inputs and outputs, each under one name.
//!
//! A type that is part of an input and of an output can have two schemas: an input may omit a member with a default,
//! an output always has it. The schema of the output then keeps the name, and that of the input is `<Name>Input`.

use std::collections::BTreeSet;

use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::feed::patch::CLEARABLE;

/// A function that makes the schema of a type, [`SchemaGenerator::subschema_for`].
pub(super) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// Where references to schemas of outputs lead. Those of inputs lead there too, once they have their names.
const SCHEMAS: &str = "#/components/schemas/";

/// Where references to schemas of inputs lead meanwhile.
const INPUTS: &str = "#/components/inputs/";

/// The schemas that a document uses.
pub(super) struct Schemas {
    inputs: SchemaGenerator,
    outputs: SchemaGenerator,
    /// The bodies of requests, by the name of the input.
    bodies: Map<String, Value>,
}

impl Schemas {
    pub(super) fn new() -> Self {
        let mut inputs = SchemaSettings::draft2020_12();
        inputs.definitions_path = INPUTS.trim_start_matches('#').trim_end_matches('/').into();
        let mut outputs = SchemaSettings::draft2020_12().for_serialize();
        outputs.definitions_path = SCHEMAS.trim_start_matches('#').trim_end_matches('/').into();
        Self { inputs: inputs.into_generator(), outputs: outputs.into_generator(), bodies: Map::new() }
    }

    /// The schema of an output, usually a reference.
    pub(super) fn output(&mut self, schema: SchemaOf) -> Value {
        schema(&mut self.outputs).to_value()
    }

    /// The schema of an output itself, without a name of its own.
    pub(super) fn take_output(&mut self, schema: SchemaOf) -> Value {
        let schema = self.output(schema);
        let name = schema["$ref"].as_str().and_then(|path| path.strip_prefix(SCHEMAS));
        name.and_then(|name| self.outputs.definitions_mut().remove(name)).unwrap_or(schema)
    }

    /// The name and the schema of an input.
    pub(super) fn input(&mut self, schema: SchemaOf) -> (String, Value) {
        let schema = schema(&mut self.inputs).to_value();
        let name = schema["$ref"].as_str().and_then(|path| path.strip_prefix(INPUTS)).unwrap_or_default().to_owned();
        let mut schema = self.inputs.definitions().get(&name).cloned().unwrap_or(schema);
        describe_input(&mut schema);
        (name, schema)
    }

    /// Adds the body of a request, named after its input; returns a reference to it.
    pub(super) fn add_body(&mut self, name: &str, schema: Value) -> Value {
        self.bodies.insert(name.to_owned(), schema);
        reference(INPUTS, name)
    }

    /// Adds a schema that belongs to no Rust type.
    pub(super) fn add(&mut self, name: &str, schema: Value) -> Value {
        self.outputs.definitions_mut().insert(name.to_owned(), schema);
        reference(SCHEMAS, name)
    }

    /// Gives the schemas their names in a document that refers to them, and returns those that it uses.
    pub(super) fn name_in(mut self, document: &mut Value) -> Map<String, Value> {
        let mut schemas = self.outputs.take_definitions(true);
        schemas.values_mut().for_each(describe_output);
        let mut inputs = self.inputs.take_definitions(true);
        inputs.values_mut().for_each(describe_input);
        inputs.extend(self.bodies);
        let is_shared = |name: &str, input: &Value| {
            let mut same = input.clone();
            rename(&mut same, &|path| path.strip_prefix(INPUTS).map(|name| format!("{SCHEMAS}{name}")));
            schemas.get(name).is_none_or(|output| *output == same)
        };
        let own: BTreeSet<String> =
            inputs.iter().filter(|(name, input)| !is_shared(name, input)).map(|(name, _)| name.clone()).collect();
        let named = |name: &str| if own.contains(name) { format!("{name}Input") } else { name.to_owned() };
        let path = |path: &str| path.strip_prefix(INPUTS).map(|name| format!("{SCHEMAS}{}", named(name)));
        for (name, mut input) in inputs {
            rename(&mut input, &path);
            schemas.insert(named(&name), input);
        }
        rename(document, &path);
        adapt_to_generators(document);
        schemas.values_mut().for_each(adapt_to_generators);
        used(document, schemas)
    }
}

fn reference(place: &str, name: &str) -> Value {
    json!({ "$ref": format!("{place}{name}") })
}

/// The schemas that a document refers to, directly or through others.
fn used(document: &Value, mut schemas: Map<String, Value>) -> Map<String, Value> {
    let mut used = BTreeSet::new();
    let mut open = BTreeSet::new();
    references(document, &mut open);
    while let Some(name) = open.pop_first() {
        if let Some(schema) = schemas.get(&name).filter(|_| used.insert(name)) {
            references(schema, &mut open);
        }
    }
    schemas.retain(|name, _| used.contains(name));
    schemas
}

/// Adds the names of the schemas that a value refers to.
fn references(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            let path = members.get("$ref").and_then(Value::as_str);
            names.extend(path.and_then(|path| path.strip_prefix(SCHEMAS)).map(str::to_owned));
            members.values().for_each(|member| references(member, names));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, names)),
        _ => {}
    }
}

/// Changes references for which `path` returns another path.
fn rename(value: &mut Value, path: &dyn Fn(&str) -> Option<String>) {
    match value {
        Value::Object(members) => {
            if let Some(reference) = members.get_mut("$ref")
                && let Some(new) = reference.as_str().and_then(path)
            {
                *reference = new.into();
            }
            members.values_mut().for_each(|member| rename(member, path));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, path)),
        _ => {}
    }
}

/// Outputs have no `null` where a member can be absent, and no defaults.
fn describe_output(schema: &mut Value) {
    each_member(schema, &|member, is_required| {
        member.as_object_mut().map(|members| members.remove("default"));
        if !is_required {
            without_null(member);
        }
    });
}

/// Optional members of inputs are absent, not `null`, except where `null` clears: there it is not the default, or
/// clients that fill in defaults would clear.
fn describe_input(schema: &mut Value) {
    each_member(schema, &|member, is_required| {
        let Some(keywords) = member.as_object_mut() else { return };
        if keywords.get("default").is_some_and(Value::is_null) {
            keywords.remove("default");
        }
        if keywords.remove(CLEARABLE).is_none() && !is_required {
            without_null(member);
        }
    });
}

/// Generators of clients know signed formats only, and take integers of other formats for 32 bits. Some of them do not
/// know `true` as a schema.
fn adapt_to_generators(schema: &mut Value) {
    match schema {
        Value::Object(keywords) => {
            let signed = match keywords.get("format").and_then(Value::as_str) {
                Some("uint64" | "uint") => Some("int64"),
                Some("uint32" | "uint16") => Some("int32"),
                _ => None,
            };
            if let Some(signed) = signed {
                keywords.insert("format".into(), signed.into());
            }
            join_constants(keywords);
            if keywords.get("items") == Some(&Value::Bool(true)) {
                keywords.insert("items".into(), Map::new().into());
            }
            keywords.values_mut().for_each(adapt_to_generators);
        }
        Value::Array(schemas) => schemas.iter_mut().for_each(adapt_to_generators),
        _ => {}
    }
}

/// Constants in a choice become one enumeration. Generators make a type of that; of several constants, some of them
/// accept the first alone.
fn join_constants(keywords: &mut Map<String, Value>) {
    let is_constant = |variant: &Value| variant["type"] == "string" && variant["const"].is_string();
    let Some(Value::Array(variants)) = keywords.get_mut("oneOf") else { return };
    if variants.iter().filter(|variant| is_constant(variant)).count() < 2 {
        return;
    }
    let (constants, mut others): (Vec<Value>, Vec<Value>) = std::mem::take(variants).into_iter().partition(is_constant);
    let names: Vec<&Value> = constants.iter().map(|variant| &variant["const"]).collect();
    let meaning =
        |variant: &Value| Some(format!("`{}`: {}", variant["const"].as_str()?, variant["description"].as_str()?));
    let meanings = constants.iter().filter_map(meaning).collect::<Vec<_>>().join(" ");
    let joined = json!({ "type": "string", "enum": names, "description": meanings });
    if !others.is_empty() {
        others.insert(0, joined);
        keywords.insert("oneOf".into(), others.into());
        return;
    }
    keywords.remove("oneOf");
    let description = keywords.get("description").and_then(Value::as_str).unwrap_or_default();
    let description = format!("{description} {meanings}").trim().to_owned();
    keywords.extend(joined.as_object().cloned().unwrap_or_default());
    keywords.insert("description".into(), description.into());
}

/// Visits every member of every object in a schema; the second argument is whether the member is required.
fn each_member(schema: &mut Value, visit: &dyn Fn(&mut Value, bool)) {
    match schema {
        Value::Object(keywords) => {
            let required = keywords.get("required").cloned();
            let is_required = |name: &str| {
                required.as_ref().and_then(Value::as_array).is_some_and(|names| names.iter().any(|it| it == name))
            };
            if let Some(Value::Object(members)) = keywords.get_mut("properties") {
                members.iter_mut().for_each(|(name, member)| visit(member, is_required(name)));
            }
            keywords.values_mut().for_each(|keyword| each_member(keyword, visit));
        }
        Value::Array(schemas) => schemas.iter_mut().for_each(|schema| each_member(schema, visit)),
        _ => {}
    }
}

/// Removes `null` from the values that a schema allows.
fn without_null(schema: &mut Value) {
    let Some(keywords) = schema.as_object_mut() else { return };
    if let Some(Value::Array(types)) = keywords.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = &types[..] {
            let only = only.clone();
            keywords.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(variants)) = keywords.get_mut("anyOf") {
        variants.retain(|variant| variant["type"] != "null");
        if let [Value::Object(only)] = &variants[..] {
            let only = only.clone();
            keywords.remove("anyOf");
            for (keyword, value) in only {
                keywords.entry(keyword).or_insert(value);
            }
        }
    }
}
