//! Decodes the inputs of operations from JSON, and encodes their outputs.

use bytes::Bytes;
use schemars::{JsonSchema, schema_for};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::operation::Input;
use crate::feed::{FeedError, Result};

/// Decodes an input.
///
/// # Errors
/// [`FeedError::Invalid`], with the field at fault if it is known.
pub(super) fn decode<T: DeserializeOwned + JsonSchema>(input: Input) -> Result<T> {
    serde_json::from_value(input).map_err(|error| {
        let mut message = error.to_string();
        // serde names a missing, unknown or duplicate field between backticks.
        let field = message.contains(" field `").then(|| message.split('`').nth(1)).flatten();
        let field = field.map(|field| field.to_owned().into());
        // serde lists the known fields only for types without flattened parts.
        if message.starts_with("unknown field") && !message.contains(", ") {
            message = format!("{message}, expected one of {}", field_names::<T>());
        }
        FeedError::Invalid { field, message: message.into() }
    })
}

/// The names of the fields of an input, each between backticks.
fn field_names<T: JsonSchema>() -> String {
    let schema = schema_for!(T);
    let fields = schema.get("properties").and_then(Value::as_object);
    fields.into_iter().flat_map(|fields| fields.keys()).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Encodes an output.
///
/// # Errors
/// [`FeedError::Internal`] if it has no JSON form.
pub(super) fn encode<T: Serialize>(output: &T) -> Result<Bytes> {
    serde_json::to_vec(output).map(Bytes::from).map_err(|error| {
        tracing::error!(%error, "the output of an operation could not be encoded");
        FeedError::Internal
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::feed::input::{OneUser, UserList};

    /// The field and the message of the error for an input.
    fn error_of<T: DeserializeOwned + JsonSchema>(input: Input) -> (Option<String>, String) {
        let error = decode::<T>(input).err().expect("an invalid input");
        (error.field().map(str::to_owned), error.to_string())
    }

    #[test]
    fn an_unknown_field_is_named_with_the_known_ones() {
        let (field, message) = error_of::<UserList>(json!({ "id": "ann", "limt": 3 }));
        assert_eq!(field.as_deref(), Some("limt"));
        assert_eq!(message, "unknown field `limt`, expected one of `cursor`, `id`, `limit`");
        let (field, message) = error_of::<OneUser>(json!({ "id": "ann", "limit": 3 }));
        assert_eq!((field.as_deref(), &*message), (Some("limit"), "unknown field `limit`, expected `id`"));
    }

    #[test]
    fn a_missing_field_is_named() {
        assert_eq!(error_of::<UserList>(json!({ "limit": 3 })).0.as_deref(), Some("id"));
        assert_eq!(error_of::<OneUser>(json!({})).0.as_deref(), Some("id"));
    }
}
