//! `export_user` and `delete_user`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::answers::{Answer, read, refused};
use super::context::ServerApi;
use crate::model::UserId;
use crate::protocol::ErrorCode;

/// The user to export or to erase.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "UserRequest")]
pub(super) struct UserInput {
    /// The user.
    user: UserId,
    /// For an export: the `next` of the previous page.
    #[serde(default)]
    cursor: Option<String>,
}

pub(super) async fn export_user(api: &ServerApi, body: &[u8]) -> Answer {
    let UserInput { user, cursor } = read(body)?;
    let export = api.feed.exports.page(&user, cursor.as_deref()).await.map_err(|error| refused(&error))?;
    serde_json::to_value(export).map_err(|_| ErrorCode::INTERNAL)
}

pub(super) async fn delete_user(api: &ServerApi, body: &[u8]) -> Answer {
    let UserInput { user, .. } = read(body)?;
    api.feed.erasures.erase(&user).await.map_err(|error| refused(&error))?;
    Ok(json!({}))
}
