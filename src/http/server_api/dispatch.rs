//! The methods by name.

use super::answers::ApiError;
use super::context::{BackendCaller, ServerApi};
use super::{access, channels, connections, nodes, publications, rpc, users};

/// Runs a method. Returns the text of the result.
pub(super) async fn call(
    api: &ServerApi,
    caller: &BackendCaller,
    method: &str,
    params: &[u8],
) -> Result<String, ApiError> {
    let answer = match method {
        "publish" => publications::publish(api, params).await,
        "broadcast" => return publications::broadcast(api, params).await.map_err(ApiError::from),
        "subscribe" => connections::subscribe(api, params).await,
        "unsubscribe" => connections::unsubscribe(api, params).await,
        "disconnect" => connections::disconnect(api, params).await,
        "refresh" => connections::refresh(api, params).await,
        "presence" => channels::presence(api, params).await,
        "presence_stats" => channels::presence_stats(api, params).await,
        "history" => channels::history(api, params).await,
        "history_remove" => channels::history_remove(api, params).await,
        "channels" => nodes::channels(api, params).await,
        "info" => nodes::info(api).await,
        "rpc" => return rpc::rpc(api, caller, params).await,
        "invalidate_user_tokens" => access::invalidate_user_tokens(api, params).await,
        "revoke_token" => access::revoke_token(api, params).await,
        "block_user" => access::block_user(api, params).await,
        "unblock_user" => access::unblock_user(api, params).await,
        "delete_user" => users::delete_user(api, params).await,
        "export_user" => users::export_user(api, params).await,
        _ => return Err(ApiError::METHOD_NOT_FOUND),
    };
    Ok(answer?.to_string())
}
