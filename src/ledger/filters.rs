//! The filters of users: words that they do not want to read.

use std::collections::HashSet;

use async_trait::async_trait;

use super::Result;
use crate::model::{Filter, FilterAction, FilterContext, FilterId, Millis, PostId, UserId};

/// A change of a filter. `None`: the member stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterChange {
    /// The words.
    pub words: Option<Vec<String>>,
    /// What happens to content with one of them.
    pub action: Option<FilterAction>,
    /// Where it applies.
    pub contexts: Option<Vec<FilterContext>>,
    /// Whether words match as a whole only.
    pub whole_word: Option<bool>,
    /// The end, in Unix milliseconds; `Some(None)`: it does not end by itself.
    pub until: Option<Option<Millis>>,
}

/// The filters of users.
#[async_trait]
pub trait FilterStore: Send + Sync {
    /// Stores a filter of an existing user, with a new number: ignores the id of the input. Returns the filter; `None`
    /// and changes nothing if the user has `most` filters or more, also with concurrent calls. A repeat with the same
    /// `reserved` id returns the filter of the first call.
    async fn create_filter(
        &self,
        owner: &UserId,
        filter: &Filter,
        most: usize,
        reserved: Option<PostId>,
    ) -> Result<Option<Filter>>;

    /// Changes a filter of a user in one statement, so that concurrent changes of other members stay. Returns the
    /// filter; `None`: the user has no such filter.
    async fn update_filter(&self, owner: &UserId, id: FilterId, change: &FilterChange) -> Result<Option<Filter>>;

    /// Deletes a filter of a user. Returns whether the user had it.
    async fn delete_filter(&self, owner: &UserId, id: FilterId) -> Result<bool>;

    /// The filters of these users, also those that have ended: each with its owner, as the owner is named in `owners`;
    /// those of one owner in ascending order of id. Accepts any number of users in one round trip.
    async fn filters_of(&self, owners: &[UserId]) -> Result<Vec<(UserId, Filter)>>;

    /// Whether any user has a filter. The cost does not depend on their number.
    async fn has_filters(&self) -> Result<bool>;
}

/// The users, each once.
pub(super) fn distinct(users: &[UserId]) -> Vec<UserId> {
    let mut seen = HashSet::new();
    users.iter().filter(|user| seen.insert(*user)).cloned().collect()
}
