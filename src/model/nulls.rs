//! `null` in the JSON of clients and backends. Many languages write an absent member as `null`, so it is absent by
//! rule, before the JSON is decoded, and no type has to allow it.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Members whose values belong to the application and stay as they are, and `sub`: a token with `null` as its user is
/// refused, not anonymous.
const KEPT: [&str; 5] = [r#""data""#, r#""info""#, r#""meta""#, r#""params""#, r#""sub""#];

/// Members with keys that clients choose. No key in them has a meaning.
const MAPS: [&str; 3] = [r#""tags""#, r#""headers""#, r#""subs""#];

/// The levels of arrays and objects that are searched; requests have at most five of their own. It bounds the work.
const MAX_LEVELS: u32 = 8;

/// A command, request, hook answer or token without members that are `null`, at any level except in the application's
/// own values. Text that is not JSON is returned as it is. Text without the word costs one search for it.
pub(crate) fn without_nulls(json: &str) -> Cow<'_, str> {
    if !json.contains("null") {
        return Cow::Borrowed(json);
    }
    let mut kept = String::with_capacity(json.len());
    match copy(json, MAX_LEVELS, false, &mut kept) {
        Ok(()) => Cow::Owned(kept),
        Err(_) => Cow::Borrowed(json),
    }
}

/// Copies a value without its members that are `null`. `is_map`: its keys are those of a client.
fn copy(json: &str, levels: u32, is_map: bool, copied: &mut String) -> serde_json::Result<()> {
    let json = json.trim_ascii();
    if levels == 0 || !json.starts_with(['{', '[']) {
        copied.push_str(json);
        return Ok(());
    }
    let mut separator = "";
    if json.starts_with('[') {
        copied.push('[');
        for item in serde_json::from_str::<Vec<&RawValue>>(json)? {
            copied.push_str(std::mem::replace(&mut separator, ","));
            copy(item.get(), levels - 1, false, copied)?;
        }
        copied.push(']');
        return Ok(());
    }
    copied.push('{');
    for (key, value) in serde_json::from_str::<Members<'_>>(json)?.0 {
        let is_kept = !is_map && KEPT.contains(&key.get());
        if value.get() == "null" && !is_kept {
            continue;
        }
        for part in [std::mem::replace(&mut separator, ","), key.get(), ":"] {
            copied.push_str(part);
        }
        match is_kept {
            true => copied.push_str(value.get()),
            false => copy(value.get(), levels - 1, !is_map && MAPS.contains(&key.get()), copied)?,
        }
    }
    copied.push('}');
    Ok(())
}

/// The members of an object in their order, duplicates included: those are for the decoder to judge.
struct Members<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}

/// Removes members that are `null` from the input of an operation, nested ones included. `data`, which belongs to the
/// application, and `visibility`, which has no null, stay as they are; so do the `clearable` members, which `null`
/// clears.
pub(crate) fn remove_nulls(input: &mut Map<String, Value>, clearable: &[&str]) {
    input.retain(|name, value| {
        match name.as_str() {
            "visibility" => return true,
            "data" => {}
            _ => remove_nested(value),
        }
        !value.is_null() || clearable.contains(&name.as_str())
    });
}

fn remove_nested(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(remove_nested),
        Value::Object(members) => members.retain(|_, member| {
            remove_nested(member);
            !member.is_null()
        }),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_that_are_null_are_absent_at_every_level() {
        for (json, expected) in [
            (r#"{"a":1}"#, r#"{"a":1}"#),
            (r#" {"id": null, "a" : "null"} "#, r#"{"a":"null"}"#),
            (r#"{"a":null}"#, "{}"),
            (r#"{"a":{"b":{"c":null,"d":[{"e":null},null]}}}"#, r#"{"a":{"b":{"d":[{},null]}}}"#),
            (r#"{"a":1,"a":null,"a":2}"#, r#"{"a":1,"a":2}"#),
            // Values of the application, and an unnamed user, stay.
            (r#"{"publish":{"data":null,"x":null}}"#, r#"{"publish":{"data":null}}"#),
            (r#"{"data":{"a":null},"info":[{"b":null}],"x":null}"#, r#"{"data":{"a":null},"info":[{"b":null}]}"#),
            (r#"{"sub":null,"aud":null}"#, r#"{"sub":null}"#),
            // Keys of a map are names.
            (r#"{"tags":{"data":null,"info":"x"}}"#, r#"{"tags":{"info":"x"}}"#),
            (r#"{"subs":{"info":{"data":{"a":null},"x":null}}}"#, r#"{"subs":{"info":{"data":{"a":null}}}}"#),
            ("null", "null"),
            (r#"{"a":null"#, r#"{"a":null"#),
            ("{\"a\":null}{", "{\"a\":null}{"),
        ] {
            assert_eq!(without_nulls(json), expected);
        }
        let deep = format!("{}null{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(without_nulls(&deep), deep);
    }

    #[test]
    fn inputs_keep_what_null_clears_and_what_belongs_to_applications() {
        let mut input = json!({
            "text": null, "bio": null, "unknown": null, "visibility": null, "data": { "a": null },
            "media": [{ "alt": null, "url": "/a" }, null], "location": { "name": null },
        });
        let Some(members) = input.as_object_mut() else { panic!("an object") };
        remove_nulls(members, &["bio"]);
        let expected = json!({
            "bio": null, "visibility": null, "data": { "a": null }, "media": [{ "url": "/a" }, null], "location": {},
        });
        assert_eq!(input, expected);
        let mut input = json!({ "data": null, "visibility": { "public": null } });
        let Some(members) = input.as_object_mut() else { panic!("an object") };
        remove_nulls(members, &[]);
        assert_eq!(input, json!({ "visibility": { "public": null } }));
    }
}
