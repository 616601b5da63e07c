//! Devices of users, and the pushes that they want.

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;

use super::PostgresLedger;
use super::columns::{at, count, integer, json_text, natural_at, one};
use super::rows::readable;
use crate::ledger::devices::address_key;
use crate::ledger::{DeviceRegistration, DeviceStore, LedgerError, Result};
use crate::model::{Device, DeviceId, Millis, PushPreferences, PushTarget, UserId};

const REGISTER: &str = "SELECT feedline_register_device($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";

const DEVICES: &str = "\
    SELECT id, target, locale, time_zone, app_version, registered_at, seen_at FROM devices
    WHERE owner = $1 ORDER BY id";

const REMOVE: &str = "DELETE FROM devices WHERE owner = $1 AND id = $2 RETURNING 1";

const FORGET: &str = "DELETE FROM devices WHERE owner = $1 AND address = $2 AND seen_at < $3 RETURNING 1";

/// Locks rows in the order of their keys.
const TOUCH: &str = "\
    UPDATE devices d SET used_at = $2 FROM (
        SELECT owner, id FROM devices WHERE owner = ANY ($1) AND used_at < $3 ORDER BY owner, id FOR UPDATE
    ) old
    WHERE d.owner = old.owner AND d.id = old.id";

const FORGET_IDLE: &str = "\
    DELETE FROM devices d USING (
        SELECT owner, id FROM devices WHERE used_at < $1 LIMIT $2 FOR UPDATE SKIP LOCKED
    ) old
    WHERE d.owner = old.owner AND d.id = old.id RETURNING 1";

const PREFERENCES: &str = "SELECT preferences FROM push_preferences WHERE owner = $1";

const SET_PREFERENCES: &str = "\
    INSERT INTO push_preferences (owner, preferences) VALUES ($1, $2)
    ON CONFLICT (owner) DO UPDATE SET preferences = excluded.preferences";

#[async_trait]
impl DeviceStore for PostgresLedger {
    async fn register_device(
        &self,
        user: &UserId,
        registration: &DeviceRegistration,
        most: usize,
    ) -> Result<Option<Device>> {
        let DeviceRegistration { device, session } = registration;
        let address = address_key(&device.target);
        let target = json_text(&device.target)?;
        let now = integer(device.registered_at);
        let issued_at = integer(session.issued_at);
        let generation = session.generation.map(integer);
        let most = count(most);
        let parameters: super::statements::Parameters<'_> = &[
            &user.as_str(),
            &device.id.as_str(),
            &address,
            &target,
            &device.locale,
            &device.time_zone,
            &device.app_version,
            &now,
            &session.token,
            &generation,
            &issued_at,
            &most,
        ];
        let registered_at: Option<i64> = at(one(&self.pool.write(REGISTER, parameters).await?)?, 0)?;
        let registered_at = registered_at.map(|at| u64::try_from(at).unwrap_or_default());
        Ok(registered_at.map(|registered_at| Device { registered_at, ..device.clone() }))
    }

    async fn devices(&self, user: &UserId) -> Result<Vec<Device>> {
        let rows = self.pool.read(DEVICES, &[&user.as_str()]).await?;
        Ok(readable("devices", &rows, |row| device(row, 0)))
    }

    async fn remove_device(&self, user: &UserId, id: &DeviceId) -> Result<bool> {
        Ok(!self.pool.write(REMOVE, &[&user.as_str(), &id.as_str()]).await?.is_empty())
    }

    async fn forget_address(&self, user: &UserId, target: &PushTarget, since: Millis) -> Result<bool> {
        let address = address_key(target);
        Ok(!self.pool.write(FORGET, &[&user.as_str(), &address, &integer(since)]).await?.is_empty())
    }

    async fn touch_devices(&self, users: &[UserId], now: Millis, since: Millis) -> Result<()> {
        let users: Vec<&str> = users.iter().map(UserId::as_str).collect();
        self.pool.write(TOUCH, &[&users, &integer(now), &integer(since)]).await.map(drop)
    }

    async fn forget_idle_devices(&self, before: Millis, limit: usize) -> Result<usize> {
        Ok(self.pool.write(FORGET_IDLE, &[&integer(before), &count(limit)]).await?.len())
    }

    async fn push_preferences(&self, user: &UserId) -> Result<Option<PushPreferences>> {
        let rows = self.pool.read(PREFERENCES, &[&user.as_str()]).await?;
        rows.first().map(|row| json_at(row, 0)).transpose()
    }

    async fn set_push_preferences(&self, user: &UserId, preferences: &PushPreferences) -> Result<()> {
        self.pool.write(SET_PREFERENCES, &[&user.as_str(), &json_text(preferences)?]).await.map(drop)
    }
}

/// Reads `id, target, locale, time_zone, app_version, registered_at, seen_at`, starting at a column.
pub(super) fn device(row: &Row, first: usize) -> Result<Device> {
    Ok(Device {
        id: device_id_at(row, first)?,
        target: json_at(row, first + 1)?,
        locale: at(row, first + 2)?,
        time_zone: at(row, first + 3)?,
        app_version: at(row, first + 4)?,
        registered_at: natural_at(row, first + 5)?,
        seen_at: natural_at(row, first + 6)?,
    })
}

/// Reads a column with the id of a device.
pub(super) fn device_id_at(row: &Row, column: usize) -> Result<DeviceId> {
    let text: &str = at(row, column)?;
    DeviceId::parse(text).ok_or_else(|| LedgerError::Failed(format!("{text:?} is not the id of a device")))
}

/// Reads a column with JSON. Errors do not contain its value, which may be secret.
pub(super) fn json_at<T: DeserializeOwned>(row: &Row, column: usize) -> Result<T> {
    serde_json::from_str(at(row, column)?).map_err(|error| {
        LedgerError::Failed(format!("its JSON cannot be decoded, at column {} of the text", error.column()))
    })
}
