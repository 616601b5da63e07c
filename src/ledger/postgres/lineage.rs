//! The identity of the data in the database, which detects a restored ledger.

use async_trait::async_trait;

use super::PostgresLedger;
use super::columns::{at, integer, natural_at, one};
use crate::ledger::{JOBS, LedgerError, Lineage, LineageStore, NUMBERS_SKIPPED, PULLED, Result};
use crate::store_refusal::Refusal;

/// The incarnation, and the oids of the database and of the table `meta`. In a copy made by `pg_dump` at least one of
/// the oids differs.
pub(super) const IDENTITY: &str = "\
    SELECT value, (SELECT oid::text FROM pg_database WHERE datname = current_database()) || '.' || 'meta'::regclass::oid
    FROM meta WHERE name = 'incarnation'";

/// The system identifier of the cluster, and its WAL timeline. The timeline changes when a standby is promoted and
/// after point-in-time recovery.
const TIMELINE: &str = "\
    SELECT (SELECT system_identifier::text FROM pg_control_system()) || '.'
        || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)";

const NUMBERS: &str = "\
    SELECT (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM jobs_id_seq), (SELECT mark FROM pulled_end)";

const POSITIONS: &str = "SELECT partition, position FROM like_positions";

const BEGIN: &str = "SELECT feedline_begin_incarnation($1, $2, $3, $4, $5)";

#[async_trait]
impl LineageStore for PostgresLedger {
    async fn lineage(&self) -> Result<Lineage> {
        let rows = self.pool.inspect(IDENTITY, &[]).await?;
        let row = one(&rows)?;
        let incarnation: String = at(row, 0)?;
        let database: String = at(row, 1)?;
        let timeline = match self.pool.inspect(TIMELINE, &[]).await {
            Ok(rows) => at(one(&rows)?, 0)?,
            // Some hosted servers deny access to these functions. Then only the numbers reveal lost writes.
            Err(
                LedgerError::Failed(why) | LedgerError::Refused(Refusal::NoPermission | Refusal::SchemaDamaged, why),
            ) => {
                tracing::debug!(why, "the server does not report its timeline");
                String::new()
            }
            Err(error) => return Err(error),
        };
        let rows = self.pool.inspect(NUMBERS, &[]).await?;
        let row = one(&rows)?;
        let numbers = vec![(JOBS, natural_at(row, 0)?), (PULLED, natural_at(row, 1)?)];
        let rows = self.pool.inspect(POSITIONS, &[]).await?;
        let position = |row| Ok((u16::try_from(at::<i32>(row, 0)?).unwrap_or_default(), at(row, 1)?));
        let positions = rows.iter().map(position).collect::<Result<_>>()?;
        Ok(Lineage { incarnation, place: format!("{database} {timeline}"), numbers, positions })
    }

    async fn begin_incarnation(&self, from: &str, to: &str, least: &[(&'static str, u64)]) -> Result<bool> {
        let known = |kind| integer(least.iter().find(|(name, _)| *name == kind).map_or(0, |(_, number)| *number));
        let jobs = known(JOBS);
        let pulled = known(PULLED);
        let skipped = integer(NUMBERS_SKIPPED);
        let rows = self.pool.inspect(BEGIN, &[&from, &to, &jobs, &pulled, &skipped]).await?;
        at(one(&rows)?, 0)
    }

    async fn replaced(&self) {
        self.pool.replaced().await;
    }

    fn begin_comparison(&self) -> u64 {
        self.pool.begin_comparison()
    }

    fn admit(&self, comparison: u64) -> bool {
        self.pool.admit(comparison)
    }
}
