//! Devices that receive pushes, and the pushes that their owners want.

mod input;
mod time_zones;

use std::fmt::{Debug, Display};
use std::sync::Arc;

pub(crate) use self::input::{DeviceList, DeviceView, OneDevice, RegisterDevice};
use super::call::{Call, Caller, Credential};
use super::error::{FeedError, Result};
use super::identity::IdentityService;
use super::input::{Done, NoInput};
use super::runtime::now;
use crate::auth::TokenKind;
use crate::ledger::{DeviceRegistration, DeviceSession, Ledger};
use crate::model::{Platform, PushPreferences, PushTarget};

/// The maximal number of devices of a user. One more replaces the device that was registered longest ago: apps that are
/// installed again and again leave devices behind.
const MAX_DEVICES: usize = 20;

/// Registers devices, and stores the preferences of their owners.
pub(crate) struct Devices {
    ledger: Arc<dyn Ledger>,
    identity: Arc<IdentityService>,
    validator: Arc<dyn TargetValidator>,
}

/// Decides which addresses of devices may be registered. The transports know what they can reach.
pub trait TargetValidator: Debug + Send + Sync {
    /// Checks an address. Makes no request.
    ///
    /// # Errors
    /// If no push would ever be sent to it.
    fn validate(&self, target: &PushTarget) -> std::result::Result<(), InvalidAddress>;
}

/// Why an address is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidAddress {
    /// The member of the registration at fault.
    pub field: &'static str,
    /// The rule that it violates.
    pub problem: String,
}

impl InvalidAddress {
    /// An error of a member.
    pub fn new(field: &'static str, problem: impl Display) -> Self {
        Self { field, problem: problem.to_string() }
    }
}

impl Devices {
    /// Devices in this ledger.
    pub(crate) fn new(
        ledger: Arc<dyn Ledger>,
        identity: Arc<IdentityService>,
        validator: Arc<dyn TargetValidator>,
    ) -> Self {
        Self { ledger, identity, validator }
    }

    pub(crate) async fn register(&self, call: Call, device: RegisterDevice) -> Result<DeviceView> {
        let user = call.caller.user()?;
        if device.platform() == Platform::Webhook && !matches!(call.credential, Credential::Backend(_)) {
            return Err(FeedError::Forbidden("only backends register webhooks"));
        }
        let device = device.checked(now())?;
        let validated = self.validator.validate(&device.target);
        validated.map_err(|InvalidAddress { field, problem }| FeedError::invalid(field, problem))?;
        let registration = DeviceRegistration { session: session(&call.credential), device };
        self.identity.ensure_user(user).await?;
        let device = self.ledger.register_device(user, &registration, MAX_DEVICES).await?;
        device.map(DeviceView::from).ok_or(FeedError::Unauthorized("this session has ended"))
    }

    pub(crate) async fn list(&self, caller: Caller, _: NoInput) -> Result<DeviceList> {
        let devices = self.ledger.devices(caller.user()?).await?;
        Ok(DeviceList { items: devices.into_iter().map(DeviceView::from).collect() })
    }

    pub(crate) async fn remove(&self, caller: Caller, device: OneDevice) -> Result<Done> {
        self.ledger.remove_device(caller.user()?, &device.id).await?;
        Ok(Done {})
    }

    pub(crate) async fn preferences(&self, caller: Caller, _: NoInput) -> Result<PushPreferences> {
        Ok(self.ledger.push_preferences(caller.user()?).await?.unwrap_or_default())
    }

    pub(crate) async fn set_preferences(
        &self,
        caller: Caller,
        preferences: PushPreferences,
    ) -> Result<PushPreferences> {
        let user = caller.user()?;
        input::check_preferences(&preferences)?;
        self.identity.ensure_user(user).await?;
        self.ledger.set_push_preferences(user, &preferences).await?;
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
