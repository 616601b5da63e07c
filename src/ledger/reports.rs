//! Reports of users, posts and comments.

use async_trait::async_trait;

use super::Result;
use crate::model::{Millis, Report, ReportAction, ReportId};

/// Reports. The number of a report is its place in the order of creation.
#[async_trait]
pub trait ReportStore: Send + Sync {
    /// Stores a report, and its event [`ReportCreated`](crate::model::DomainEvent::ReportCreated) for the outlet, in
    /// one transaction. Ignores the id of the input. Returns the report; or the open report of the same reporter about
    /// the same object, which stays as it is. The caller has checked that the users exist.
    async fn create_report(&self, report: &Report) -> Result<Report>;

    /// The reports that are open, or that are closed, below `before`, latest first. The cost depends on `limit`, not on
    /// the number of reports.
    async fn reports(&self, open: bool, before: ReportId, limit: usize) -> Result<Vec<Report>>;

    /// Closes a report, or replaces the action of a closed one. Returns the report; `None`: it does not exist.
    async fn close_report(&self, id: ReportId, action: ReportAction, now: Millis) -> Result<Option<Report>>;
}
