//! Moderation: what the application's backend decides about users and what they wrote, and the reports of users.
//!
//! | file | contents |
//! |---|---|
//! | `suspensions.rs` | the standing of users: limited, suspended |
//! | `removals.rs` | removal and restoration of posts and comments |
//! | `reports.rs` | reports |
//!
//! Standings apply at delivery: `feed/visibility/visibility_rules.rs` has the rules, `feed/identity/standings.rs` the
//! users. A removed post is stored with an audience of nobody, and a removed comment as a deleted one.

mod removals;
mod reports;
mod suspensions;

pub(crate) use removals::{CommentRemoval, PostRemoval, Removals};
pub(crate) use reports::{ReportClosing, ReportDraft, ReportList, ReportPage, Reports};
pub(crate) use suspensions::{Suspension, Suspensions};

use super::error::{FeedError, Result};
use crate::text::is_blank;

/// The maximal number of characters of a reason.
const MAX_REASON: usize = 500;

/// A reason that a backend gave; `None`: it gave none, or a text with nothing to see.
fn checked_reason(reason: Option<String>) -> Result<Option<String>> {
    let Some(reason) = reason.filter(|reason| !is_blank(reason)) else { return Ok(None) };
    if reason.chars().count() > MAX_REASON {
        return Err(FeedError::LimitExceeded {
            field: "reason",
            what: "characters of a reason",
            most: MAX_REASON as u64,
        });
    }
    Ok(Some(reason))
}
