//! Exports: all data of one user, as JSON, in pages of bounded size.
//!
//! A page is limited by rows and by bytes, and read from the ledger in small steps. An author with 100,000 posts needs
//! no more memory and no longer calls than any other user. Rows of other users are not exported: for posts and comments
//! that the user liked, and for other users, an export has only the ids.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::Semaphore;

use super::call::Caller;
use super::error::{FeedError, NO_USER, Result};
use super::export_rows::ExportedRows;
use super::paging::{PageCursor, decode_cursor, decode_texts, encode_texts};
use crate::feed::base::Base;
use crate::feed::runtime::now;
use crate::ledger::PersonalData;
use crate::model::{Post, PostId, Profile, UserDetails, UserId};

/// Exports that one node processes concurrently; further ones wait.
const MAX_CONCURRENT_EXPORTS: usize = 2;

/// How long a request waits for its turn.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// A page ends after this many rows, or with the row that reaches this many bytes.
const MAX_PAGE_ROWS: usize = 1_000;
const MAX_PAGE_BYTES: usize = 256 << 10;

/// Rows that one ledger call reads.
const ROWS_PER_READ: usize = 100;

/// The sections of an export: the member name and the source of the rows. Pages follow this order.
const SECTIONS: [(&str, Option<PersonalData>); 21] = [
    ("posts", Some(PersonalData::Posts)),
    ("comments", Some(PersonalData::Comments)),
    ("comments", Some(PersonalData::RemovedComments)),
    ("likes", Some(PersonalData::PostLikes)),
    ("comment_likes", Some(PersonalData::CommentLikes)),
    ("favourites", Some(PersonalData::Favourites)),
    ("following", Some(PersonalData::Following)),
    ("followers", Some(PersonalData::Followers)),
    ("restrictions", Some(PersonalData::Restrictions)),
    ("post_alerts", Some(PersonalData::PostAlerts)),
    ("reports", Some(PersonalData::Reports)),
    ("idempotency_keys", Some(PersonalData::IdempotencyKeys)),
    ("notifications", None),
    ("muted_conversations", Some(PersonalData::MutedConversations)),
    ("devices", Some(PersonalData::Devices)),
    ("push_preferences", Some(PersonalData::PushPreferences)),
    ("follow_requests", Some(PersonalData::FollowRequests)),
    ("requests_to_follow", Some(PersonalData::RequestsToFollow)),
    ("filters", Some(PersonalData::Filters)),
    ("lists", Some(PersonalData::Lists)),
    ("followed_topics", Some(PersonalData::FollowedTopics)),
];

/// Selects a page of an export.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExportRequest {
    /// The `next` of the previous page; absent for the first page.
    #[serde(default)]
    cursor: Option<String>,
}

/// A page of a user's data.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "UserExport")]
pub(crate) struct Export {
    /// The profile of the user; on the first page.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<UserDetails>,
    /// Whether the user has an account with a password on this server; on the first page.
    #[serde(skip_serializing_if = "Option::is_none")]
    has_password: Option<bool>,
    /// The read marker: the newest post of the timeline that the user has read; on the first page.
    #[serde(skip_serializing_if = "Option::is_none")]
    read: Option<PostId>,
    /// The rows, by kind.
    #[serde(flatten)]
    #[schemars(with = "ExportedRows")]
    rows: BTreeMap<&'static str, Vec<Box<RawValue>>>,
    /// The `cursor` of the next page; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// The last row of a page: its section, and its key there.
struct ExportCursor {
    section: usize,
    key: String,
}

impl PageCursor for ExportCursor {
    fn decode(text: &str) -> Option<Self> {
        let (section, key) = decode_texts('x', text)?;
        let section = section.parse().ok().filter(|section| *section < SECTIONS.len())?;
        Some(Self { section, key })
    }

    fn encode(&self) -> String {
        encode_texts('x', &self.section.to_string(), &self.key)
    }
}

impl Export {
    /// Adds a row. `false` once the page is full: the caller must not add more.
    fn add(&mut self, section: &'static str, json: String, budget: &mut PageBudget) -> Result<bool> {
        budget.rows = budget.rows.saturating_sub(1);
        budget.bytes = budget.bytes.saturating_sub(json.len());
        let row = RawValue::from_string(json).map_err(|error| {
            tracing::error!(%error, section, "a row of an export is not JSON");
            FeedError::Internal
        })?;
        self.rows.entry(section).or_default().push(row);
        Ok(budget.rows > 0 && budget.bytes > 0)
    }
}

/// The remaining budget of a page.
struct PageBudget {
    rows: usize,
    bytes: usize,
}

/// Exports the data of users.
pub(crate) struct Exports {
    base: Arc<Base>,
    /// Exports under way on this node.
    running: Semaphore,
}

impl Exports {
    /// Exports from this ledger.
    pub(crate) fn new(base: Arc<Base>) -> Self {
        Self { base, running: Semaphore::new(MAX_CONCURRENT_EXPORTS) }
    }

    pub(crate) async fn own(&self, caller: Caller, request: ExportRequest) -> Result<Export> {
        self.page(caller.user()?, request.cursor.as_deref()).await
    }

    /// Returns a page of a user's data: the first page, or the one that begins at `cursor`.
    ///
    /// # Errors
    /// [`FeedError::NotFound`] if the user does not exist, [`FeedError::Invalid`] if the cursor is not that of an
    /// export, [`FeedError::TooMany`] if too many exports are in progress.
    pub(crate) async fn page(&self, user: &UserId, cursor: Option<&str>) -> Result<Export> {
        if self.base.identity.is_erased(user) {
            return Err(NO_USER);
        }
        let reached: Option<ExportCursor> = decode_cursor(cursor)?;
        let turn = tokio::time::timeout(MAX_WAIT, self.running.acquire()).await;
        let _turn =
            turn.ok().and_then(std::result::Result::ok).ok_or(FeedError::TooMany("too many exports, try again"))?;
        let mut export = Export { user: None, has_password: None, read: None, rows: BTreeMap::new(), next: None };
        let is_first = reached.is_none();
        if is_first {
            let profile = self.base.ledger.profile(user, Some(user), now()).await?.ok_or(NO_USER)?;
            let Profile { user: own, about, locked, .. } = profile;
            export.user = Some(UserDetails { user: own, about, locked });
            export.has_password = Some(self.base.ledger.account(user).await?.is_some());
            export.read = Some(self.base.ledger.read_marker(user).await?);
        }
        let mut reached = reached.unwrap_or(ExportCursor { section: 0, key: String::new() });
        let mut budget = PageBudget { rows: MAX_PAGE_ROWS, bytes: MAX_PAGE_BYTES };
        while let Some((name, data)) = SECTIONS.get(reached.section) {
            if is_first {
                export.rows.entry(name).or_default();
            }
            let ended = match data {
                Some(data) => self.export_rows(user, (name, *data), &mut reached, &mut export, &mut budget).await?,
                None => self.export_notifications(user, name, &mut reached, &mut export, &mut budget).await?,
            };
            if !ended {
                export.next = Some(reached.encode());
                return Ok(export);
            }
            reached = ExportCursor { section: reached.section + 1, key: String::new() };
        }
        Ok(export)
    }

    /// Adds rows of a section, starting at the current position of the export. `false` if the page was full before the
    /// section ended.
    async fn export_rows(
        &self,
        user: &UserId,
        (name, data): (&'static str, PersonalData),
        reached: &mut ExportCursor,
        export: &mut Export,
        budget: &mut PageBudget,
    ) -> Result<bool> {
        loop {
            let rows = self.base.ledger.personal_rows(user, data, &reached.key, ROWS_PER_READ).await?;
            if rows.is_empty() {
                return Ok(true);
            }
            for row in rows {
                reached.key = row.key;
                if row.other.is_some_and(|other| self.base.identity.is_erased(&other)) {
                    continue;
                }
                let json = if data == PersonalData::Posts { exported_post(row.json) } else { row.json };
                if !export.add(name, json, budget)? {
                    return Ok(false);
                }
            }
        }
    }

    /// Adds rows of notifications, limited to those that the user may see: notifications name other people.
    async fn export_notifications(
        &self,
        user: &UserId,
        name: &'static str,
        reached: &mut ExportCursor,
        export: &mut Export,
        budget: &mut PageBudget,
    ) -> Result<bool> {
        loop {
            let before = reached.key.parse().ok();
            let groups = self.base.ledger.notifications(user, before, ROWS_PER_READ).await?;
            let Some(last) = groups.last().map(|group| group.place) else { return Ok(true) };
            let mut has_room = true;
            for notification in self.base.notification_renderer.render(user, groups).await? {
                let json = serde_json::to_string(&notification).map_err(|_| FeedError::Internal)?;
                has_room = export.add(name, json, budget)?;
            }
            reached.key = last.to_string();
            if !has_room {
                return Ok(false);
            }
        }
    }
}

/// A stored post as its author sees it. Only a removed post differs.
fn exported_post(json: String) -> String {
    if !json.contains(r#""removed":"#) {
        return json;
    }
    let shown = serde_json::from_str::<Post>(&json).ok().and_then(|post| post.shown_to_author());
    shown.and_then(|post| serde_json::to_string(&post).ok()).unwrap_or(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_round_trip() {
        let text = ExportCursor { section: 4, key: "post 12 é".into() }.encode();
        let read = ExportCursor::decode(&text).expect("a cursor");
        assert_eq!((read.section, &*read.key), (4, "post 12 é"));
        for wrong in ["", "x", "p12", "x!", &ExportCursor { section: SECTIONS.len(), key: String::new() }.encode()] {
            assert!(ExportCursor::decode(wrong).is_none(), "{wrong:?}");
        }
    }
}
