//! JSON that backends send as base64.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::value::RawValue;

use crate::protocol::ErrorCode;

/// Decodes base64 of JSON.
pub(super) fn decode_base64_json(text: &str) -> Result<Box<RawValue>, ErrorCode> {
    let bytes = BASE64_STANDARD.decode(text).map_err(|_| ErrorCode::BAD_REQUEST)?;
    serde_json::from_slice(&bytes).map_err(|_| ErrorCode::BAD_REQUEST)
}
