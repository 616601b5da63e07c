//! Devices that receive pushes, which of them are in use, and the pushes that their owners want.

mod input;
pub(super) mod target_validator;
pub(super) mod time_zones;
mod usage;

use std::sync::Arc;

pub(crate) use self::input::{DeviceList, DeviceView, OneDevice, RegisterDevice};
use self::target_validator::InvalidAddress;
pub use self::usage::ConnectedUsers;
pub(crate) use self::usage::DeviceUsage;
use super::call::{Call, Caller, Credential};
use super::error::{FeedError, Result};
use super::input::{Done, NoInput};
use super::runtime::now;
use crate::auth::TokenKind;
use crate::feed::base::Base;
use crate::ledger::{DeviceRegistration, DeviceSession};
use crate::model::{Platform, PushPreferences};

/// The maximal number of devices of a user. One more replaces the device that was registered longest ago: apps that are
/// installed again and again leave devices behind.
const MAX_DEVICES: usize = 20;

/// Registers devices, and stores the preferences of their owners.
pub(crate) struct Devices {
    base: Arc<Base>,
}

impl Devices {
    /// Devices in this ledger.
    pub(crate) fn new(base: Arc<Base>) -> Self {
        Self { base }
    }

    pub(crate) async fn register(&self, call: Call, device: RegisterDevice) -> Result<DeviceView> {
        let user = call.caller.user()?;
        if device.platform() == Platform::Webhook && !matches!(call.credential, Credential::Backend(_)) {
            return Err(FeedError::Forbidden("only backends register webhooks"));
        }
        let device = device.checked(now())?;
        let validated = self.base.options.target_validator.validate(&device.target);
        validated.map_err(|InvalidAddress { field, problem }| FeedError::invalid(field, problem))?;
        let registration = DeviceRegistration { session: session(&call.credential), device };
        let device = self.base.ledger.register_device(user, &registration, MAX_DEVICES).await?;
        device.map(DeviceView::from).ok_or(FeedError::Unauthorized("this session has ended"))
    }

    pub(crate) async fn list(&self, caller: Caller, _: NoInput) -> Result<DeviceList> {
        let devices = self.base.ledger.devices(caller.user()?).await?;
        Ok(DeviceList { items: devices.into_iter().map(DeviceView::from).collect() })
    }

    pub(crate) async fn remove(&self, caller: Caller, device: OneDevice) -> Result<Done> {
        self.base.ledger.remove_device(caller.user()?, &device.id).await?;
        Ok(Done {})
    }

    pub(crate) async fn preferences(&self, caller: Caller, _: NoInput) -> Result<PushPreferences> {
        Ok(self.base.ledger.push_preferences(caller.user()?).await?.unwrap_or_default())
    }

    pub(crate) async fn set_preferences(
        &self,
        caller: Caller,
        preferences: PushPreferences,
    ) -> Result<PushPreferences> {
        let user = caller.user()?;
        input::check_preferences(&preferences)?;
        self.base.ledger.set_push_preferences(user, &preferences).await?;
        if let Some(plan) = self.base.options.pushes.plan {
            self.base.ledger.end_deferrals(user, now(), plan).await?;
        }
        Ok(preferences)
    }
}

/// The session that registers a device.
fn session(credential: &Credential) -> DeviceSession {
    match credential.token() {
        Some(token) => DeviceSession {
            token: token.id.as_deref().map(str::to_owned),
            generation: match token.kind {
                TokenKind::Session { generation } => Some(generation),
                TokenKind::Application => None,
            },
            issued_at: token.issued_at.unwrap_or(0),
        },
        None => DeviceSession { token: None, generation: None, issued_at: now() / 1_000 },
    }
}
