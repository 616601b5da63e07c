//! The depth of JSON that is stored or passed on.

use serde_json::{Map, Value};

/// The maximum number of nested arrays and objects in JSON that is stored or passed on, the same on every way in.
/// Decoders of clients have limits of 64 levels and more, and the frame adds levels of its own around the data.
pub const MAX_DEPTH: u32 = 32;

/// The rule of [`MAX_DEPTH`], for messages.
pub(crate) const NESTED_TOO_DEEP: &str = "at most 32 levels of arrays and objects";

/// Whether an object has at most 32 levels of arrays and objects, itself included.
pub(crate) fn is_shallow(object: &Map<String, Value>) -> bool {
    fn fits(value: &Value, levels: u32) -> bool {
        match value {
            Value::Array(items) => levels > 0 && items.iter().all(|item| fits(item, levels - 1)),
            Value::Object(members) => levels > 0 && members.values().all(|member| fits(member, levels - 1)),
            _ => true,
        }
    }
    object.values().all(|member| fits(member, MAX_DEPTH - 1))
}
