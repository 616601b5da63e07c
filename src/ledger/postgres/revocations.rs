//! The log of revocations.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::PostgresLedger;
use super::columns::{at, count, integer, natural_at, one, plain};
use crate::ledger::{Result, Revocation, RevocationKind, RevocationStore, SessionsEnd};
use crate::model::{Millis, UserId};

const REVOKE: &str = "SELECT feedline_revoke($1, $2, $3, $4, $5, $6, $7, $8)";

const END_SESSIONS: &str = "SELECT feedline_end_sessions($1, $2, $3, $4, $5, $6)";

/// Locks the row first, so that the generation compared is the generation incremented.
const CHANGE_PASSWORD: &str = "\
    WITH account AS MATERIALIZED (SELECT FROM accounts WHERE \"user\" = $1 AND generation = $7 FOR UPDATE)
    SELECT feedline_end_sessions($1, $2, $3, $4, $5, $6) FROM account";

pub(super) const AFTER: &str = "\
    SELECT seq, kind, subject, owner, value, spared, at, expires_at FROM revocations
    WHERE seq > $1 ORDER BY seq LIMIT $2";

/// Keeps an entry that was replaced concurrently: PostgreSQL checks the outer condition again after it locks the row.
const FORGET: &str = "\
    DELETE FROM revocations WHERE seq = ANY (ARRAY(
        SELECT seq FROM revocations WHERE expires_at < $1 ORDER BY expires_at LIMIT $2
    )) AND expires_at < $1 RETURNING 1";

#[async_trait]
impl RevocationStore for PostgresLedger {
    async fn revoke(&self, new: &Revocation) -> Result<u64> {
        let kind = new.kind.as_str();
        let subject = plain(&new.subject);
        let grows = new.only_grows();
        let owner = new.owner.as_ref().map(UserId::as_str);
        let spared = new.spared.as_deref().map(plain);
        let value = integer(new.value);
        let now = integer(new.at);
        let expires_at = integer(new.expires_at.unwrap_or(Millis::MAX));
        let parameters: super::statements::Parameters<'_> =
            &[&kind, &subject, &owner, &value, &spared, &now, &expires_at, &grows];
        natural_at(one(&self.pool.write(REVOKE, parameters).await?)?, 0)
    }

    async fn end_sessions(&self, user: &UserId, end: &SessionsEnd) -> Result<Option<u64>> {
        let spared = end.spared.as_deref().map(plain);
        let now = integer(end.at);
        let expires_at = integer(end.expires_at);
        let none: Option<&str> = None;
        let parameters: super::statements::Parameters<'_> = &[&user.as_str(), &none, &none, &spared, &now, &expires_at];
        let rows = self.pool.write(END_SESSIONS, parameters).await?;
        let generation: Option<i64> = at(one(&rows)?, 0)?;
        Ok(generation.map(|generation| u64::try_from(generation).unwrap_or_default()))
    }

    async fn change_password(
        &self,
        user: &UserId,
        from: &str,
        generation: u64,
        to: &str,
        end: &SessionsEnd,
    ) -> Result<Option<u64>> {
        let spared = end.spared.as_deref().map(plain);
        let now = integer(end.at);
        let expires_at = integer(end.expires_at);
        let generation = integer(generation);
        let parameters: super::statements::Parameters<'_> =
            &[&user.as_str(), &from, &to, &spared, &now, &expires_at, &generation];
        let rows = self.pool.write(CHANGE_PASSWORD, parameters).await?;
        let taken = rows.first().map(|row| at::<Option<i64>>(row, 0)).transpose()?.flatten();
        Ok(taken.map(|generation| u64::try_from(generation).unwrap_or_default()))
    }

    async fn revocations_after(&self, seq: u64, limit: usize) -> Result<Vec<(u64, Revocation)>> {
        self.readable_page("revocations", AFTER, &[&integer(seq)], limit, entry).await
    }

    async fn forget_revocations(&self, before: Millis, limit: usize) -> Result<usize> {
        Ok(self.pool.write(FORGET, &[&integer(before), &count(limit)]).await?.len())
    }
}

fn entry(row: &Row) -> Result<(u64, Revocation)> {
    // The entry is in force even if its owner cannot be decoded: the owner only determines whose sockets are checked.
    let owner = at::<Option<&str>>(row, 3)?.and_then(UserId::parse);
    let expires_at: i64 = at(row, 7)?;
    let revocation = Revocation {
        kind: RevocationKind::parse(at(row, 1)?),
        subject: at(row, 2)?,
        owner,
        value: natural_at(row, 4)?,
        spared: at(row, 5)?,
        at: natural_at(row, 6)?,
        expires_at: (expires_at < i64::MAX).then(|| u64::try_from(expires_at).unwrap_or_default()),
    };
    Ok((natural_at(row, 0)?, revocation))
}
