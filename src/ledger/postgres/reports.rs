//! Reports.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::PostgresLedger;
use super::columns::{at, id_at, integer, natural, natural_at, one, plain};
use super::events::NewEvent;
use super::statements::Parameters;
use crate::ledger::{LedgerError, ReportStore, Result, job_plan};
use crate::model::{Millis, Report, ReportAction, ReportId, ReportReason, ReportTarget};

const CREATE: &str = "SELECT feedline_create_report($1, $2, $3, $4, $5, $6, $7, $8, $9)";

/// In the columns that [`report`] reads.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, coalesce((SELECT handle FROM users WHERE users.id = reporter), reporter), kind, object,
                coalesce((SELECT handle FROM users WHERE users.id = about), about), reason, text, at, closed_at,
                action FROM reports ",
            $rest
        )
    };
}

pub(super) const OPEN: &str = select!("WHERE closed_at IS NULL AND id < $1 ORDER BY id DESC LIMIT $2");
pub(super) const CLOSED: &str = select!("WHERE closed_at IS NOT NULL AND id < $1 ORDER BY id DESC LIMIT $2");

const ONE: &str = select!("WHERE id = $1");

const CLOSE: &str = "UPDATE reports SET closed_at = coalesce(closed_at, $2), action = $3 WHERE id = $1";

#[async_trait]
impl ReportStore for PostgresLedger {
    async fn create_report(&self, new: &Report) -> Result<Report> {
        let unnumbered = Report { id: ReportId(0), ..new.clone() };
        let event = NewEvent::new(Some(&job_plan::report_event(&unnumbered)), self.outlet)?;
        let text = new.text.as_deref().map(plain);
        let parameters: Parameters<'_> = &[
            &new.reporter.as_str(),
            &new.target.kind(),
            &new.target.object(),
            &new.about.as_str(),
            &new.reason.as_str(),
            &text,
            &integer(new.created_at),
            &event.text,
            &event.pending,
        ];
        let id = natural_at(one(&self.pool.write(CREATE, parameters).await?)?, 0)?;
        let found = self.report(ReportId(id)).await?;
        found.ok_or_else(|| LedgerError::Failed(format!("report {id} is not stored")))
    }

    async fn reports(&self, open: bool, before: ReportId, limit: usize) -> Result<Vec<Report>> {
        let sql = if open { OPEN } else { CLOSED };
        self.readable_page("reports", sql, &[&integer(before.0)], limit, report).await
    }

    async fn close_report(&self, id: ReportId, action: ReportAction, now: Millis) -> Result<Option<Report>> {
        self.pool.write(CLOSE, &[&integer(id.0), &integer(now), &action.as_str()]).await?;
        self.report(id).await
    }
}

impl PostgresLedger {
    async fn report(&self, id: ReportId) -> Result<Option<Report>> {
        self.pool.read(ONE, &[&integer(id.0)]).await?.first().map(report).transpose()
    }
}

fn report(row: &Row) -> Result<Report> {
    let unknown = || LedgerError::Failed("a report with an unknown name".to_owned());
    let action: Option<&str> = at(row, 9)?;
    let about = id_at(row, 4)?;
    Ok(Report {
        id: ReportId(natural_at(row, 0)?),
        reporter: id_at(row, 1)?,
        target: ReportTarget::parse(at(row, 2)?, at(row, 3)?).ok_or_else(unknown)?.spelled_as(&about),
        about,
        reason: ReportReason::parse(at(row, 5)?).ok_or_else(unknown)?,
        text: at(row, 6)?,
        created_at: natural_at(row, 7)?,
        closed_at: at::<Option<i64>>(row, 8)?.map(natural),
        action: action.map(|action| ReportAction::parse(action).ok_or_else(unknown)).transpose()?,
    })
}
