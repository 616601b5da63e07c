//! Decoding of rows. A row that cannot be decoded does not affect the others.

use tokio_postgres::Row;

use super::PostgresLedger;
use super::columns::{at, count, user};
use super::statements::Parameters;
use crate::ledger::quarantine::report_unreadable;
use crate::ledger::{ListPage, Result};
use crate::model::User;

/// Decodes rows. A row that cannot be decoded is reported by its first column and omitted, so that it does not hide the
/// others.
pub(super) fn readable<T>(table: &'static str, rows: &[Row], decode: impl Fn(&Row) -> Result<T>) -> Vec<T> {
    let decoded = rows.iter().map(|row| decode(row).map_err(|error| (row, error)));
    let reported = decoded.filter_map(|decoded| match decoded {
        Ok(decoded) => Some(decoded),
        Err((row, error)) => {
            report_unreadable(table, &name_of(row), &error);
            None
        }
    });
    reported.collect()
}

impl PostgresLedger {
    /// Reads a page. The limit is the last parameter of the statement. Callers take a short page for the last page, so
    /// for each omitted row the method reads another one.
    pub(super) async fn readable_page<T>(
        &self,
        table: &'static str,
        sql: &'static str,
        parameters: Parameters<'_>,
        limit: usize,
        decode: impl Fn(&Row) -> Result<T> + Send + Sync,
    ) -> Result<Vec<T>> {
        let mut wanted = limit;
        loop {
            let bound = count(wanted);
            let mut all = parameters.to_vec();
            all.push(&bound);
            let rows = self.pool.read(sql, &all).await?;
            let mut page = readable(table, &rows, &decode);
            if page.len() >= limit || rows.len() < wanted {
                page.truncate(limit);
                return Ok(page);
            }
            wanted = wanted.saturating_mul(2);
        }
    }

    /// A page of users. The fifth column is the position in the list. There is a next page if the statement returns
    /// more than `limit` rows.
    pub(super) async fn listed(
        &self,
        sql: &'static str,
        parameters: Parameters<'_>,
        limit: usize,
    ) -> Result<ListPage<User>> {
        let person = |row: &Row| Ok((user(row)?, at::<i64>(row, 4)?));
        // The additional row shows whether there is a next page.
        let mut page = self.readable_page("users", sql, parameters, limit.saturating_add(1), person).await?;
        let more = page.len() > limit;
        page.truncate(limit);
        let next = page.last().filter(|_| more).map(|(_, place)| *place);
        Ok(ListPage { items: page.into_iter().map(|(user, _)| user).collect(), next })
    }
}

/// The first column of a row. It identifies the row in the log.
fn name_of(row: &Row) -> String {
    let text = || row.try_get::<_, &str>(0).map(|text| text.chars().take(64).collect());
    row.try_get::<_, i64>(0).map_or_else(|_| text().unwrap_or_default(), |number| number.to_string())
}
