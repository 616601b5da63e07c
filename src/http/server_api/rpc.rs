//! `rpc`: operations of the feed, for the user in `X-User` or for nobody.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::answers::{ApiError, read};
use super::context::{BackendCaller, ServerApi};
use crate::api::{Request, has_input};
use crate::protocol::ErrorCode;

/// An operation, and its input.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "RpcRequest")]
pub(super) struct RpcInput {
    /// The rpc method of an operation, such as `users.get`.
    method: String,
    /// Its input: an object.
    #[serde(default)]
    #[schemars(with = "serde_json::Value")]
    params: Option<Box<RawValue>>,
}

/// The result of an operation.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RpcResult")]
pub(super) struct RpcOutput {
    /// What the operation returns.
    data: Value,
}

/// Runs an operation. Returns the text of the result.
pub(super) async fn rpc(api: &ServerApi, caller: &BackendCaller, body: &[u8]) -> Result<String, ApiError> {
    let RpcInput { method, params } = read(body)?;
    if method.is_empty() {
        return Err(ErrorCode::BAD_REQUEST.into());
    }
    let input = match params.map(|params| serde_json::from_str(params.get())) {
        None | Some(Ok(Value::Null)) => Map::new(),
        Some(Ok(Value::Object(input))) => input,
        Some(_) => return Err(ErrorCode::BAD_REQUEST.into()),
    };
    let Some(operation) = api.operations.by_rpc(&method, has_input(&input)) else {
        return Err(ApiError::METHOD_NOT_FOUND);
    };
    let BackendCaller { caller, credential, origin, trace } = caller.clone();
    let input = Value::Object(input);
    let request = Request { caller, credential, origin, client: None, key: None, input, trace };
    let output = api.executor.run(operation, request).await.map_err(|error| ApiError::of_operation(&error))?;
    let data = std::str::from_utf8(&output).map_err(|_| ErrorCode::INTERNAL)?;
    Ok(format!(r#"{{"data":{data}}}"#))
}
