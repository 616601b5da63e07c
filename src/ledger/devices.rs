//! Devices of users, and the pushes that they want.

use async_trait::async_trait;
use sha2::{Digest as _, Sha256};

use super::Result;
use crate::model::{Device, DeviceId, Millis, PushPreferences, PushTarget, UserId};

/// The session or token that registered a device. The device is removed when it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceSession {
    /// The id of the token; `None`: it has none, or a backend registered the device.
    pub token: Option<String>,
    /// The generation of a session of an account; `None` for all other tokens.
    pub generation: Option<u64>,
    /// When the token was issued, in Unix seconds; 0 if it does not say so. For a backend: the time of the call.
    pub issued_at: u64,
}

/// A registration.
#[derive(Clone, Debug)]
pub struct DeviceRegistration {
    /// The device. Its `registered_at` is the current time; a device that exists keeps its own.
    pub device: Device,
    /// The session that registers it.
    pub session: DeviceSession,
}

/// The key of an address: SHA-256, in hexadecimal, of the platform and the token or URL.
pub(super) fn address_key(target: &PushTarget) -> String {
    let mut hash = Sha256::new();
    hash.update(target.platform().as_str());
    hash.update([0]);
    hash.update(target.address());
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Devices and preferences.
///
/// [`RevocationStore::revoke`](super::RevocationStore::revoke) and its like remove the devices of the sessions that
/// they end, and [`ErasureStore::begin_erasure`](super::ErasureStore::begin_erasure) removes those of the user, in the
/// same transaction.
#[async_trait]
pub trait DeviceStore: Send + Sync {
    /// Registers a device, or updates it. A device with the same address is removed, of any user. If the
    /// user has more than `most` devices then, those that were registered longest ago are removed. Returns the device;
    /// `None` if its session was ended meanwhile. The caller has checked that the user exists.
    async fn register_device(
        &self,
        user: &UserId,
        registration: &DeviceRegistration,
        most: usize,
    ) -> Result<Option<Device>>;

    /// The devices of a user, ordered by id.
    async fn devices(&self, user: &UserId) -> Result<Vec<Device>>;

    /// Removes a device. Returns whether it existed.
    async fn remove_device(&self, user: &UserId, id: &DeviceId) -> Result<bool>;

    /// Removes the device with an address that its provider does not know any more, unless it was registered again at
    /// or after `since`, in Unix milliseconds. Returns whether it was removed.
    async fn forget_address(&self, user: &UserId, target: &PushTarget, since: Millis) -> Result<bool>;

    /// The users have connections at `now`: their devices are in use. Devices that were in use at `since` or later are
    /// not written again. Accepts any number of users.
    async fn touch_devices(&self, users: &[UserId], now: Millis, since: Millis) -> Result<()>;

    /// Removes up to `limit` devices that were last registered, and in use, before a time. Returns their number.
    async fn forget_idle_devices(&self, before: Millis, limit: usize) -> Result<usize>;

    /// The preferences of a user; `None`: the defaults.
    async fn push_preferences(&self, user: &UserId) -> Result<Option<PushPreferences>>;

    /// Replaces the preferences of a user. The caller has checked that the user exists.
    async fn set_push_preferences(&self, user: &UserId, preferences: &PushPreferences) -> Result<()>;
}
