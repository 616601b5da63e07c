//! Decodes the inputs of operations from JSON, and encodes their outputs.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::operation::Input;
use crate::feed::{FeedError, Result};

/// Decodes an input.
///
/// # Errors
/// [`FeedError::Invalid`], with the field at fault if it is known.
pub(super) fn decode<T: DeserializeOwned>(input: Input) -> Result<T> {
    serde_json::from_value(input).map_err(|error| {
        let message = error.to_string();
        // serde names a missing, unknown or duplicate field between backticks.
        let field = message.contains(" field `").then(|| message.split('`').nth(1)).flatten();
        FeedError::Invalid { field: field.map(|field| field.to_owned().into()), message: message.into() }
    })
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
