//! Filters: muted words. They are applied when content is read or delivered, so a change of them changes no log.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs`, `input.rs` | the operations, and their input |
//! | `word_search.rs` | the compiled filters of a reader, and the search for their words |
//! | `filter_cache.rs` | the compiled filters of readers, cached |
//! | `applied_filters.rs` | filters applied to posts and comments |
//!
//! The text that is searched, with its normal form, is `text/filter_text.rs`. A post in the cache keeps its own, and a
//! search of it takes microseconds: results are not kept.

mod applied_filters;
mod filter_cache;
mod input;
mod word_search;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

pub(crate) use applied_filters::{AppliedFilters, ContentFilter, FiltersByReader};
pub(crate) use filter_cache::FilterCache;
pub(crate) use input::{FilterDraft, FilterUpdate, OneFilter};
pub(crate) use word_search::FilterOutcome;
use word_search::MAX_FILTERS;

use super::base::Base;
use super::call::{Call, Caller};
use super::error::{FeedError, Result};
use super::input::{Done, NoInput};
use super::runtime::now;
use crate::broker::{Append, Attempt, Invalidation};
use crate::model::{Channel, ClientEvent, Entry, Filter, UserId};

/// The error of a filter that the caller does not have.
const NO_FILTER: FeedError = FeedError::NotFound("there is no such filter");

/// The filters of the caller.
#[derive(Serialize, JsonSchema)]
pub(crate) struct FilterPage {
    /// All filters, also those that have ended, oldest first.
    items: Vec<Filter>,
}

/// Manages the filters of users.
pub(crate) struct Filters {
    base: Arc<Base>,
}

impl Filters {
    /// Manages the filters in this ledger.
    pub(crate) fn new(base: Arc<Base>) -> Self {
        Self { base }
    }

    pub(crate) async fn create(&self, call: Call, draft: FilterDraft) -> Result<Filter> {
        let owner = call.caller.user()?;
        let filter = draft.check(now())?;
        let created = self.base.ledger.create_filter(owner, &filter, MAX_FILTERS, call.reserved).await?;
        let what = "filters of a user";
        let created = created.ok_or(FeedError::LimitExceeded { field: "words", what, most: MAX_FILTERS as u64 })?;
        self.put_in_force(owner).await?;
        Ok(created)
    }

    pub(crate) async fn list(&self, caller: Caller, _: NoInput) -> Result<FilterPage> {
        let owner = caller.user()?;
        let filters = self.base.ledger.filters_of(std::slice::from_ref(owner)).await?;
        Ok(FilterPage { items: filters.into_iter().map(|(_, filter)| filter).collect() })
    }

    pub(crate) async fn update(&self, caller: Caller, update: FilterUpdate) -> Result<Filter> {
        let owner = caller.user()?;
        let change = update.check(now())?;
        let updated = self.base.ledger.update_filter(owner, update.id(), &change).await?.ok_or(NO_FILTER)?;
        self.put_in_force(owner).await?;
        Ok(updated)
    }

    pub(crate) async fn delete(&self, call: Call, filter: OneFilter) -> Result<Done> {
        let owner = call.caller.user()?;
        let deleted = self.base.ledger.delete_filter(owner, filter.id()).await?;
        // Also if there is none: an earlier attempt may have ended after it was deleted.
        self.put_in_force(owner).await?;
        if deleted || call.attempt == Attempt::Repeated { Ok(Done {}) } else { Err(NO_FILTER) }
    }

    /// Puts a change in force on every node, then informs the owner's connections: what they show may have changed.
    async fn put_in_force(&self, owner: &UserId) -> Result<()> {
        self.base.invalidator.invalidate(&[Invalidation::Filters(owner.clone())]).await?;
        let channel = Channel::Notifications(owner.clone()).to_string();
        let entry = Entry::Data(ClientEvent::FiltersChanged {}.encode());
        let retention = self.base.options.timeline.notification_log();
        let append = Append { channel: &channel, entry: &entry, retention, idempotency_key: None, version: None };
        if let Err(error) = self.base.broker.append(append).await {
            tracing::warn!(%error, user = %owner, "filters are in force, the user's sockets do not know");
        }
        Ok(())
    }
}
