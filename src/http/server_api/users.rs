//! `export_user` and `delete_user`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::answers::{Answer, read, refused};
use super::context::ServerApi;
use crate::model::UserId;
use crate::protocol::ErrorCode;

/// The user to export.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "ExportUserRequest")]
pub(super) struct ExportInput {
    /// The user.
    user: UserId,
    /// The `next` of the previous page.
    #[serde(default)]
    cursor: Option<String>,
}

/// The user to erase.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "DeleteUserRequest")]
pub(super) struct DeleteInput {
    /// The user.
    user: UserId,
}

pub(super) async fn export_user(api: &ServerApi, body: &[u8]) -> Answer {
    let ExportInput { user, cursor } = read(body)?;
    let export = api.feed.exports.page(&user, cursor.as_deref()).await.map_err(|error| refused(&error))?;
    serde_json::to_value(export).map_err(|_| ErrorCode::INTERNAL)
}

pub(super) async fn delete_user(api: &ServerApi, body: &[u8]) -> Answer {
    let DeleteInput { user } = read(body)?;
    api.feed.erasures.erase(&user).await.map_err(|error| refused(&error))?;
    Ok(json!({}))
}
