//! Reports: users report users, posts and comments, and moderators close the reports.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::feed::base::Base;
use crate::feed::call::{Call, Caller};
use crate::feed::error::{FeedError, NO_COMMENT, NO_USER, Result};
use crate::feed::input::OneComment;
use crate::feed::paging::{PageBuilder, PageCursor, PageRequest};
use crate::feed::posts::CommentReader;
use crate::feed::query_values::{flag, number};
use crate::feed::runtime::now;
use crate::feed::visibility::check_profile;
use crate::ledger::EventConsumer;
use crate::model::{CommentId, PostId, Report, ReportAction, ReportId, ReportReason, ReportTarget, UserId};
use crate::text::is_blank;

/// The maximal number of characters of the text of a report.
const MAX_TEXT: usize = 1_000;

/// A report as its reporter writes it. Exactly one of `user`, `post` and `comment` is present.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportDraft {
    /// The reported user.
    #[serde(default)]
    user: Option<UserId>,
    /// The reported post.
    #[serde(default)]
    post: Option<PostId>,
    /// The reported comment.
    #[serde(default)]
    comment: Option<CommentId>,
    /// Why it is reported.
    reason: ReportReason,
    /// What the reporter says about it, 1,000 characters at most.
    #[serde(default)]
    text: Option<String>,
}

/// A page of reports.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportList {
    /// `false`: the closed reports, instead of the open ones.
    #[serde(default = "is_open", deserialize_with = "flag")]
    open: bool,
    #[serde(flatten)]
    page: PageRequest,
}

fn is_open() -> bool {
    true
}

/// Reports, as a page.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ReportPage {
    /// The reports, latest first.
    items: Vec<Report>,
    /// The `cursor` of the next page; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// The end of a report.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportClosing {
    /// The number of the report.
    #[serde(deserialize_with = "number")]
    id: u64,
    /// What was done about it.
    action: ReportAction,
}

impl PageCursor for ReportId {
    fn decode(text: &str) -> Option<Self> {
        Some(Self(text.strip_prefix('r')?.parse().ok()?))
    }

    fn encode(&self) -> String {
        format!("r{}", self.0)
    }
}

/// Takes reports, and lists and closes them.
pub(crate) struct Reports {
    base: Arc<Base>,
    comments: Arc<CommentReader>,
}

impl Reports {
    /// Manages the reports in this ledger.
    pub(crate) fn new(base: Arc<Base>, comments: Arc<CommentReader>) -> Self {
        Self { base, comments }
    }

    pub(crate) async fn create(&self, call: Call, draft: ReportDraft) -> Result<Report> {
        let reporter = call.caller.user()?.clone();
        let text = draft.text.clone().filter(|text| !is_blank(text));
        if text.as_ref().is_some_and(|text| text.chars().count() > MAX_TEXT) {
            let what = "characters of a report";
            return Err(FeedError::LimitExceeded { field: "text", what, most: MAX_TEXT as u64 });
        }
        let reason = draft.reason;
        let target = draft.target()?;
        let about = self.reported_user(&call.caller, &target).await?;
        if about == reporter {
            return Err(FeedError::invalid("reason", "nobody reports themselves"));
        }
        let id = ReportId(0);
        let created_at = now();
        let new = Report { id, reporter, target, about, reason, text, created_at, closed_at: None, action: None };
        let report = self.base.ledger.create_report(&new).await?;
        self.base.events.wake(EventConsumer::Outlet);
        Ok(report)
    }

    /// The user that a report is about. The caller must be able to see what is reported.
    async fn reported_user(&self, caller: &Caller, target: &ReportTarget) -> Result<UserId> {
        match target {
            ReportTarget::User(user) => {
                check_profile(&*self.base.ledger, &self.base.visibility, caller.reader(), user).await?;
                let known = self.base.ledger.users(std::slice::from_ref(user)).await?.pop();
                known.map(|user| user.id).ok_or(NO_USER)
            }
            ReportTarget::Post(post) => {
                Ok(self.base.visibility.post(caller.reader(), *post).await?.post.author.clone())
            }
            ReportTarget::Comment(comment) => {
                let comment = self.comments.get(caller.clone(), OneComment { id: *comment }).await?;
                comment.author.ok_or(NO_COMMENT)
            }
        }
    }

    pub(crate) async fn list(&self, _: Caller, list: ReportList) -> Result<ReportPage> {
        let (limit, cursor) = list.page.decode::<ReportId>()?;
        let mut page = PageBuilder::new(cursor, limit);
        while let Some((before, count)) = page.wants() {
            let read = self.base.ledger.reports(list.open, before.unwrap_or(ReportId(u64::MAX)), count).await?;
            page.take(read.into_iter().map(|report| (report.id, Some(report))));
        }
        let (items, next) = page.finish();
        Ok(ReportPage { items, next: next.map(|next| next.encode()) })
    }

    pub(crate) async fn close(&self, _: Caller, closing: ReportClosing) -> Result<Report> {
        let closed = self.base.ledger.close_report(ReportId(closing.id), closing.action, now()).await?;
        closed.ok_or(FeedError::NotFound("no such report"))
    }
}

impl ReportDraft {
    fn target(self) -> Result<ReportTarget> {
        match (self.user, self.post, self.comment) {
            (Some(user), None, None) => Ok(ReportTarget::User(user)),
            (None, Some(post), None) => Ok(ReportTarget::Post(post)),
            (None, None, Some(comment)) => Ok(ReportTarget::Comment(comment)),
            _ => Err(FeedError::invalid("user", "a report names one user, one post or one comment")),
        }
    }
}
