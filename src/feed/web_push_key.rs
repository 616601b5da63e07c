//! The public key of Web Push: browsers need it to subscribe to pushes of this server.

use schemars::JsonSchema;
use serde::Serialize;

use super::call::Caller;
use super::error::Result;
use super::input::NoInput;

/// Gives browsers the public key of this server.
pub(crate) struct WebPushPublicKey {
    public_key: Option<String>,
}

/// The key with which browsers subscribe to pushes.
#[derive(Serialize, JsonSchema)]
pub(crate) struct WebPushKey {
    /// The public key of VAPID, base64url: the `applicationServerKey` of a subscription. Absent: no Web Push.
    #[serde(skip_serializing_if = "Option::is_none")]
    vapid_public_key: Option<String>,
}

impl WebPushPublicKey {
    /// The public key of VAPID in base64url; `None`: this server sends no Web Push.
    pub(crate) fn new(public_key: Option<String>) -> Self {
        Self { public_key }
    }

    pub(crate) async fn get(&self, _: Caller, _: NoInput) -> Result<WebPushKey> {
        Ok(WebPushKey { vapid_public_key: self.public_key.clone() })
    }
}
