//! The lists of users: members, and the posts of their members.

use std::collections::HashSet;

use async_trait::async_trait;

use super::{NewJob, Result};
use crate::model::{List, ListId, ListMember, Millis, PostId, User, UserId};

/// A change of a list. `None`: the member stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListChange {
    /// The name.
    pub name: Option<String>,
    /// Whether posts of its users are left out of the timeline.
    pub exclusive: Option<bool>,
}

/// The result of adding a member to a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListOutcome {
    /// It was added.
    Added,
    /// The list had it already.
    Unchanged,
    /// The list has as many members of this kind as it may have.
    Full,
    /// The owner has no such list.
    NoList,
}

/// The number of posts that fill the log of a list.
pub const MAX_LIST_POSTS: usize = 400;

/// Sources of inboxes, besides follows of users, that posts of an author with some topics match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourcesInUse {
    /// Whether a list has the author.
    pub is_listed: bool,
    /// The topics among those of the posts that a user follows or a list has.
    pub topics: Vec<String>,
}

/// The lists of users. All methods with an `owner` concern lists of that user alone.
#[async_trait]
pub trait ListStore: Send + Sync {
    /// Stores a list of an existing user, with a new number. Returns the list; `None` and changes nothing if the user
    /// has `most` lists or more, also with concurrent calls. A repeat with the same `reserved` id returns the list of
    /// the first call.
    async fn create_list(
        &self,
        owner: &UserId,
        name: &str,
        exclusive: bool,
        now: Millis,
        most: usize,
        reserved: Option<PostId>,
    ) -> Result<Option<List>>;

    /// The lists of a user, in ascending order of their numbers.
    async fn lists(&self, owner: &UserId) -> Result<Vec<List>>;

    /// A list of a user; `None`: the user has no such list.
    async fn list(&self, owner: &UserId, id: ListId) -> Result<Option<List>>;

    /// Changes a list in one statement. Returns the list; `None`: the user has no such list.
    async fn update_list(&self, owner: &UserId, id: ListId, change: &ListChange) -> Result<Option<List>>;

    /// Deletes a list and its members. Returns whether the user had it.
    async fn delete_list(&self, owner: &UserId, id: ListId) -> Result<bool>;

    /// Adds a member to a list, which has at most `most` members of this kind, also with concurrent calls. The caller
    /// has checked that a user exists.
    async fn add_to_list(
        &self,
        owner: &UserId,
        id: ListId,
        member: &ListMember,
        now: Millis,
        most: usize,
    ) -> Result<ListOutcome>;

    /// Removes a member from a list. Returns whether the list had it; `None`: the user has no such list.
    async fn remove_from_list(&self, owner: &UserId, id: ListId, member: &ListMember) -> Result<Option<bool>>;

    /// The users of a list, each with the time when it was added: latest first, equal times in descending order of id.
    /// Begins after the time and id `after`. The cost depends on `limit`, not on the length of the list.
    async fn list_users(
        &self,
        id: ListId,
        after: Option<(Millis, &UserId)>,
        limit: usize,
    ) -> Result<Vec<(Millis, User)>>;

    /// The names of the topics of a list, in ascending order, byte by byte.
    async fn list_topics(&self, id: ListId) -> Result<Vec<String>>;

    /// The lists of a user that have another user, in ascending order of their numbers.
    async fn lists_with(&self, owner: &UserId, user: &UserId) -> Result<Vec<List>>;

    /// The newest posts below `before` of the users of a list, and public ones with its topics: each once, newest
    /// first, whoever may see them. Posts that were deleted are omitted. Reads at most `limit` rows for each member.
    async fn list_posts(&self, id: ListId, before: PostId, limit: usize) -> Result<Vec<PostId>>;

    /// The posts among these that are by users of a list, or public ones with its topics.
    async fn listed_among(&self, id: ListId, posts: &[PostId]) -> Result<HashSet<PostId>>;

    /// The lists among these that have an author, or one of these topics.
    async fn lists_among(&self, lists: &[ListId], author: &UserId, topics: &[String]) -> Result<HashSet<ListId>>;

    /// Whether any user has a list. The cost does not depend on their number.
    async fn has_lists(&self) -> Result<bool>;

    /// The sources of inboxes, besides follows of users, that posts of an author with these topics match.
    async fn sources_in_use(&self, author: &UserId, topics: &[String]) -> Result<SourcesInUse>;

    /// Creates or ends [`Restriction::Listed`](crate::model::Restriction::Listed) of an owner against a user: it exists
    /// exactly if an exclusive list of the owner has the user, also with concurrent changes of the lists. In one
    /// transaction, which also creates the jobs of [`restrict`](super::RestrictionStore::restrict) or
    /// [`unrestrict`](super::RestrictionStore::unrestrict). Returns whether it exists now, and the jobs; `None`:
    /// nothing changed.
    async fn sync_exclusion(&self, owner: &UserId, user: &UserId, now: Millis) -> Result<Option<(bool, Vec<NewJob>)>>;
}
