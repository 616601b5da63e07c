//! The public key of Web Push: browsers need it to subscribe to pushes of this server.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::base::Base;
use super::call::Caller;
use super::error::Result;
use super::input::NoInput;

/// Gives browsers the public key of this server.
pub(crate) struct WebPushPublicKey {
    base: Arc<Base>,
}

/// The key with which browsers subscribe to pushes.
#[derive(Serialize, JsonSchema)]
pub(crate) struct WebPushKey {
    /// The public key of VAPID, base64url: the `applicationServerKey` of a subscription. Absent: no Web Push.
    #[serde(skip_serializing_if = "Option::is_none")]
    vapid_public_key: Option<String>,
}

impl WebPushPublicKey {
    /// The key of this server, if it has one.
    pub(crate) fn new(base: Arc<Base>) -> Self {
        Self { base }
    }

    pub(crate) async fn get(&self, _: Caller, _: NoInput) -> Result<WebPushKey> {
        Ok(WebPushKey { vapid_public_key: self.base.options.vapid_public_key.clone() })
    }
}
