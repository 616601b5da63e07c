//! Devices of users, and the pushes that they want.

use async_trait::async_trait;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::rows::ids_json;
use super::{SqliteLedger, count, integer, json_text, natural, readable};
use crate::ledger::devices::address_key;
use crate::ledger::{DeviceRegistration, DeviceStore, Result, Revocation, RevocationKind};
use crate::model::{Device, DeviceId, Millis, PushPreferences, PushTarget, UserId};

#[async_trait]
impl DeviceStore for SqliteLedger {
    async fn register_device(
        &self,
        user: &UserId,
        registration: &DeviceRegistration,
        most: usize,
    ) -> Result<Option<Device>> {
        let user = user.clone();
        let registration = registration.clone();
        self.write(move |db| register(db, &user, &registration, most)).await
    }

    async fn devices(&self, user: &UserId) -> Result<Vec<Device>> {
        let user = user.clone();
        self.read(move |db| {
            let sql = "SELECT id, target, locale, time_zone, app_version, registered_at, seen_at FROM devices \
                       WHERE user = ?1 ORDER BY id";
            readable("devices", db.prepare_cached(sql)?.query([user.as_str()])?, |row| device(row, 0))
        })
        .await
    }

    async fn remove_device(&self, user: &UserId, id: &DeviceId) -> Result<bool> {
        let user = user.clone();
        let id = id.clone();
        self.write(move |db| {
            let sql = "DELETE FROM devices WHERE user = ?1 AND id = ?2";
            Ok(db.prepare_cached(sql)?.execute([user.as_str(), id.as_str()])? == 1)
        })
        .await
    }

    async fn forget_address(&self, user: &UserId, target: &PushTarget, since: Millis) -> Result<bool> {
        let user = user.clone();
        let address = address_key(target);
        self.write(move |db| {
            let sql = "DELETE FROM devices WHERE user = ?1 AND address = ?2 AND seen_at < ?3";
            Ok(db.prepare_cached(sql)?.execute(params![user.as_str(), address, integer(since)])? == 1)
        })
        .await
    }

    async fn touch_devices(&self, users: &[UserId], now: Millis, since: Millis) -> Result<()> {
        let users = users.to_vec();
        self.write(move |db| {
            let sql =
                "UPDATE devices SET used_at = ?2 WHERE user IN (SELECT value FROM json_each(?1)) AND used_at < ?3";
            db.prepare_cached(sql)?.execute(params![ids_json(&users)?, integer(now), integer(since)]).map(drop)
        })
        .await
    }

    async fn forget_idle_devices(&self, before: Millis, limit: usize) -> Result<usize> {
        self.write(move |db| {
            let sql = "DELETE FROM devices WHERE (user, id) IN \
                       (SELECT user, id FROM devices INDEXED BY devices_used WHERE used_at < ?1 LIMIT ?2)";
            db.prepare_cached(sql)?.execute(params![integer(before), count(limit)])
        })
        .await
    }

    async fn push_preferences(&self, user: &UserId) -> Result<Option<PushPreferences>> {
        let user = user.clone();
        self.read(move |db| {
            let sql = "SELECT preferences FROM push_preferences WHERE user = ?1";
            db.prepare_cached(sql)?.query_row([user.as_str()], |row| json_at(row, 0)).optional()
        })
        .await
    }

    async fn set_push_preferences(&self, user: &UserId, preferences: &PushPreferences) -> Result<()> {
        let user = user.clone();
        let preferences = preferences.clone();
        self.write(move |db| {
            let sql = "INSERT INTO push_preferences (user, preferences) VALUES (?1, ?2) \
                       ON CONFLICT DO UPDATE SET preferences = excluded.preferences";
            db.prepare_cached(sql)?.execute(params![user.as_str(), json_text(&preferences)?]).map(drop)
        })
        .await
    }
}

/// Whether the session of a registration has ended. Parameters: token, user, time of issue, generation, now.
const HAS_ENDED: &str = "SELECT EXISTS (SELECT 1 FROM revocations WHERE kind = 'token' AND subject = ?1 \
        AND expires_at > ?5) \
    OR EXISTS (SELECT 1 FROM revocations WHERE kind = 'user_tokens' AND subject = ?2 AND ?3 < value \
        AND expires_at > ?5) \
    OR EXISTS (SELECT 1 FROM revocations WHERE kind = 'sessions' AND subject = ?2 AND ?4 < value \
        AND spared IS NOT ?1 AND expires_at > ?5)";

fn register(
    db: &Connection,
    user: &UserId,
    registration: &DeviceRegistration,
    most: usize,
) -> rusqlite::Result<Option<Device>> {
    let DeviceRegistration { device, session } = registration;
    let generation = session.generation.map(integer);
    let issued_at = integer(session.issued_at);
    let now = integer(device.registered_at);
    let wanted = params![session.token, user.as_str(), issued_at, generation, now];
    if db.prepare_cached(HAS_ENDED)?.query_row(wanted, |row| row.get(0))? {
        return Ok(None);
    }
    let address = address_key(&device.target);
    let sql = "DELETE FROM devices WHERE address = ?1 AND (user, id) <> (?2, ?3)";
    db.prepare_cached(sql)?.execute(params![address, user.as_str(), device.id.as_str()])?;
    let sql = "INSERT INTO devices (user, id, address, target, locale, time_zone, app_version, registered_at, seen_at, \
                   used_at, session, generation, issued_at) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?8, ?9, ?10, ?11) \
               ON CONFLICT (user, id) DO UPDATE SET address = excluded.address, target = excluded.target, \
                   locale = excluded.locale, time_zone = excluded.time_zone, app_version = excluded.app_version, \
                   seen_at = max(seen_at, excluded.seen_at), used_at = max(used_at, excluded.used_at), \
                   session = excluded.session, \
                   generation = excluded.generation, issued_at = excluded.issued_at \
               RETURNING id, target, locale, time_zone, app_version, registered_at, seen_at";
    let row = params![
        user.as_str(),
        device.id.as_str(),
        address,
        json_text(&device.target)?,
        device.locale,
        device.time_zone,
        device.app_version,
        now,
        session.token,
        generation,
        issued_at
    ];
    let registered = db.prepare_cached(sql)?.query_row(row, |row| self::device(row, 0))?;
    let sql = "DELETE FROM devices WHERE user = ?1 AND id IN (SELECT id FROM devices \
               WHERE user = ?1 AND id <> ?2 ORDER BY seen_at DESC, id DESC LIMIT -1 OFFSET ?3)";
    let others = count(most.saturating_sub(1));
    db.prepare_cached(sql)?.execute(params![user.as_str(), device.id.as_str(), others])?;
    Ok(Some(registered))
}

/// Removes the devices of the sessions that an entry of the log of revocations ends.
pub(super) fn remove_revoked(db: &Connection, entry: &Revocation) -> rusqlite::Result<()> {
    let subject = &entry.subject;
    let value = integer(entry.value);
    match entry.kind {
        RevocationKind::Token => {
            db.prepare_cached("DELETE FROM devices WHERE session = ?1")?.execute([subject])?;
        }
        RevocationKind::UserTokens => {
            let sql = "DELETE FROM devices WHERE user = ?1 AND issued_at < ?2";
            db.prepare_cached(sql)?.execute(params![subject, value])?;
        }
        RevocationKind::Sessions => {
            let sql = "DELETE FROM devices WHERE user = ?1 AND (generation IS NULL OR generation < ?2) \
                       AND (?3 IS NULL OR session IS NOT ?3)";
            db.prepare_cached(sql)?.execute(params![subject, value, entry.spared])?;
        }
        RevocationKind::Erased => {
            db.prepare_cached("DELETE FROM devices WHERE user = ?1")?.execute([subject])?;
        }
        RevocationKind::Block | RevocationKind::Unknown => {}
    }
    Ok(())
}

/// Reads `id, target, locale, time_zone, app_version, registered_at, seen_at`, starting at a column.
pub(super) fn device(row: &Row<'_>, first: usize) -> rusqlite::Result<Device> {
    Ok(Device {
        id: device_id_at(row, first)?,
        target: json_at(row, first + 1)?,
        locale: row.get(first + 2)?,
        time_zone: row.get(first + 3)?,
        app_version: row.get(first + 4)?,
        registered_at: row.get(first + 5).map(natural)?,
        seen_at: row.get(first + 6).map(natural)?,
    })
}

/// Reads a column with the id of a device.
pub(super) fn device_id_at(row: &Row<'_>, column: usize) -> rusqlite::Result<DeviceId> {
    let text = row.get_ref(column)?.as_str()?;
    DeviceId::parse(text).ok_or_else(|| {
        let why = format!("{text:?} is not the id of a device");
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, why.into())
    })
}

/// Reads a column with JSON. Errors do not contain its value, which may be secret.
pub(super) fn json_at<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text).map_err(|error| {
        let why = format!("its JSON cannot be decoded, at column {} of the text", error.column());
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, why.into())
    })
}
