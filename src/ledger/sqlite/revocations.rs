//! The log of revocations.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{SqliteLedger, count, devices, integer, natural, readable_page};
use crate::ledger::{Result, Revocation, RevocationKind, RevocationStore, SessionsEnd};
use crate::model::{Millis, UserId};

#[async_trait]
impl RevocationStore for SqliteLedger {
    async fn revoke(&self, revocation: &Revocation) -> Result<u64> {
        let revocation = revocation.clone();
        self.write(move |db| revoke(db, &revocation)).await
    }

    async fn end_sessions(&self, user: &UserId, end: &SessionsEnd) -> Result<Option<u64>> {
        let user = user.clone();
        let end = end.clone();
        self.write(move |db| end_sessions(db, &user, None, &end)).await
    }

    async fn change_password(
        &self,
        user: &UserId,
        from: &str,
        generation: u64,
        to: &str,
        end: &SessionsEnd,
    ) -> Result<Option<u64>> {
        let user = user.clone();
        let from = from.to_owned();
        let to = to.to_owned();
        let end = end.clone();
        let change = move |db: &Connection| end_sessions(db, &user, Some((&from, generation, &to)), &end);
        self.write(change).await
    }

    async fn revocations_after(&self, seq: u64, limit: usize) -> Result<Vec<(u64, Revocation)>> {
        self.read(move |db| {
            let sql = "SELECT seq, kind, subject, owner, value, spared, at, expires_at FROM revocations \
                       WHERE seq > ?1 ORDER BY seq";
            readable_page("revocations", db.prepare_cached(sql)?.query([integer(seq)])?, limit, entry)
        })
        .await
    }

    async fn forget_revocations(&self, before: Millis, limit: usize) -> Result<usize> {
        self.write(move |db| {
            let sql = "DELETE FROM revocations WHERE seq IN \
                       (SELECT seq FROM revocations WHERE expires_at < ?1 ORDER BY expires_at LIMIT ?2)";
            db.prepare_cached(sql)?.execute(params![integer(before), count(limit)])
        })
        .await
    }
}

/// Appends an entry, replaces the one of the same kind and subject, and removes the devices of the sessions that it
/// ends. Returns its number.
pub(super) fn revoke(db: &Connection, new: &Revocation) -> rusqlite::Result<u64> {
    devices::remove_revoked(db, new)?;
    let kind = new.kind.as_str();
    let expires_at = integer(new.expires_at.unwrap_or(Millis::MAX));
    let sql = "DELETE FROM revocations WHERE kind = ?1 AND subject = ?2 RETURNING owner, value, expires_at";
    let old = db.prepare_cached(sql)?.query_row(params![kind, new.subject], |row| {
        Ok((row.get::<_, Option<String>>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
    });
    let (mut owner, mut value, mut expiry) =
        (new.owner.as_ref().map(UserId::to_string), integer(new.value), expires_at);
    if let Some((old_owner, old_value, old_expiry)) = old.optional()? {
        owner = owner.or(old_owner);
        if new.only_grows() {
            (value, expiry) = (value.max(old_value), expiry.max(old_expiry));
        }
    }
    let sql = "INSERT INTO revocations (kind, subject, owner, value, spared, at, expires_at) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) RETURNING seq";
    let row = params![kind, new.subject, owner, value, new.spared, integer(new.at), expiry];
    db.prepare_cached(sql)?.query_row(row, |row| row.get(0).map(natural))
}

fn end_sessions(
    db: &Connection,
    user: &UserId,
    password: Option<(&str, u64, &str)>,
    end: &SessionsEnd,
) -> rusqlite::Result<Option<u64>> {
    let (from, to) = password.map(|(from, generation, to)| ((from, integer(generation)), to)).unzip();
    let (from, of) = from.unzip();
    let sql = "UPDATE accounts SET password = coalesce(?3, password), generation = generation + 1 \
               WHERE user = ?1 AND (?2 IS NULL OR (password = ?2 AND generation = ?4)) RETURNING generation";
    let row = params![user.as_str(), from, to, of];
    let generation = db.prepare_cached(sql)?.query_row(row, |row| row.get(0).map(natural));
    let Some(generation) = generation.optional()? else { return Ok(None) };
    let entry = Revocation {
        kind: RevocationKind::Sessions,
        subject: user.to_string(),
        owner: None,
        value: generation,
        spared: end.spared.clone(),
        at: end.at,
        expires_at: Some(end.expires_at),
    };
    revoke(db, &entry)?;
    Ok(Some(generation))
}

fn entry(row: &Row<'_>) -> rusqlite::Result<(u64, Revocation)> {
    // The entry is in force even if its owner cannot be decoded: the owner only determines whose sockets are checked.
    let owner = row.get_ref(3)?.as_str().ok().and_then(UserId::parse);
    let expires_at: i64 = row.get(7)?;
    let revocation = Revocation {
        kind: RevocationKind::parse(row.get_ref(1)?.as_str()?),
        subject: row.get(2)?,
        owner,
        value: natural(row.get(4)?),
        spared: row.get(5)?,
        at: natural(row.get(6)?),
        expires_at: (expires_at < i64::MAX).then(|| natural(expires_at)),
    };
    Ok((natural(row.get(0)?), revocation))
}
