//! Reports.

use async_trait::async_trait;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::rows::user_id_at;
use super::{SqliteLedger, UNLIMITED, events, integer, natural, readable_page};
use crate::ledger::{ReportStore, Result, job_plan};
use crate::model::{Millis, Report, ReportAction, ReportId, ReportReason, ReportTarget};

#[async_trait]
impl ReportStore for SqliteLedger {
    async fn create_report(&self, report: &Report) -> Result<Report> {
        let report = report.clone();
        let outlet = self.outlet;
        self.write(move |db| create(db, report, outlet)).await
    }

    async fn reports(&self, open: bool, before: ReportId, limit: usize) -> Result<Vec<Report>> {
        self.read(move |db| {
            let sql = if open { OPEN } else { CLOSED };
            let wanted = params![integer(before.0), UNLIMITED];
            readable_page("reports", db.prepare_cached(sql)?.query(wanted)?, limit, report)
        })
        .await
    }

    async fn close_report(&self, id: ReportId, action: ReportAction, now: Millis) -> Result<Option<Report>> {
        self.write(move |db| {
            let sql = "UPDATE reports SET closed_at = coalesce(closed_at, ?2), action = ?3 WHERE id = ?1";
            db.prepare_cached(sql)?.execute(params![integer(id.0), integer(now), action.as_str()])?;
            one(db, id)
        })
        .await
    }
}

/// In the columns that [`report`] reads.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, coalesce((SELECT handle FROM users WHERE users.id = reporter), reporter), kind, object, \
                coalesce((SELECT handle FROM users WHERE users.id = about), about), reason, text, at, closed_at, \
                action FROM reports ",
            $rest
        )
    };
}

const OPEN: &str = select!("INDEXED BY reports_open WHERE closed_at IS NULL AND id < ?1 ORDER BY id DESC LIMIT ?2");
const CLOSED: &str =
    select!("INDEXED BY reports_closed WHERE closed_at IS NOT NULL AND id < ?1 ORDER BY id DESC LIMIT ?2");

fn create(db: &Connection, mut new: Report, outlet: bool) -> rusqlite::Result<Report> {
    let kind = new.target.kind();
    let object = new.target.object();
    let same = select!("WHERE reporter = ?1 AND kind = ?2 AND object = ?3 AND closed_at IS NULL");
    let wanted = params![new.reporter.as_str(), kind, object];
    if let Some(open) = db.prepare_cached(same)?.query_row(wanted, report).optional()? {
        return Ok(open);
    }
    let sql =
        "INSERT INTO reports (reporter, kind, object, about, reason, text, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let row = params![
        new.reporter.as_str(),
        kind,
        object,
        new.about.as_str(),
        new.reason.as_str(),
        new.text,
        integer(new.created_at)
    ];
    new.id = ReportId(natural(db.prepare_cached(sql)?.insert(row)?));
    events::append(db, Some(&job_plan::report_event(&new)), new.created_at, outlet)?;
    Ok(one(db, new.id)?.unwrap_or(new))
}

fn one(db: &Connection, id: ReportId) -> rusqlite::Result<Option<Report>> {
    db.prepare_cached(select!("WHERE id = ?1"))?.query_row([integer(id.0)], report).optional()
}

fn report(row: &Row<'_>) -> rusqlite::Result<Report> {
    let unknown = |column| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, "an unknown name".into());
    let about = user_id_at(row, 4)?;
    let target = ReportTarget::parse(row.get_ref(2)?.as_str()?, row.get_ref(3)?.as_str()?);
    let action = row.get_ref(9)?.as_str_or_null()?;
    Ok(Report {
        id: ReportId(natural(row.get(0)?)),
        reporter: user_id_at(row, 1)?,
        target: target.ok_or_else(|| unknown(3))?.spelled_as(&about),
        about,
        reason: ReportReason::parse(row.get_ref(5)?.as_str()?).ok_or_else(|| unknown(5))?,
        text: row.get(6)?,
        created_at: natural(row.get(7)?),
        closed_at: row.get::<_, Option<i64>>(8)?.map(natural),
        action: action.map(|action| ReportAction::parse(action).ok_or_else(|| unknown(9))).transpose()?,
    })
}
