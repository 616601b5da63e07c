//! Lists: users and topics that a user gathers, to read their posts together. Only their owner sees them; members are
//! not informed, and need not be followed.
//!
//! An exclusive list is also a restriction ([`Restriction::Listed`](crate::model::Restriction::Listed)) of its owner
//! against each of its users: posts leave and enter the timeline as for a mute.

mod input;

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use schemars::JsonSchema;
use serde::Serialize;

pub(crate) use input::{ListDraft, ListMemberInput, ListMembers, ListPosition, ListPosts, ListUpdate, OneList};

use super::base::Base;
use super::call::{Call, Caller, Origin};
use super::error::{FeedError, Result};
use super::input::{Done, NoInput, OneUser};
use super::paging::{PageBuilder, PageCursor as _, PostPageBuilder, TimedUser};
use super::runtime::now;
use super::timelines::{
    EdgeChange, EdgeJobs, Inboxes, Source, TimelinePage, UpdatesPage, UpdatesReader, merge_member, purge_unlisted,
};
use super::visibility::{ListSource, PostGathering, TimelinePolicy, check_profile};
use crate::broker::Invalidation;
use crate::ledger::{ListChange, ListOutcome};
use crate::model::{FilterContext, InboxId, List, ListId, ListMember, OwnedList, User, UserId};

/// The maximal number of lists of a user.
const MAX_LISTS: usize = 50;

/// The maximal number of reads for one page if the reader may not see enough of the posts. After that the page is
/// short, and its cursor continues. A read takes rows of each member.
const MAX_READS: usize = 5;

/// The number of users of a list whose posts leave or enter the timeline concurrently.
const MAX_CONCURRENT_USERS: usize = 8;

/// The units of `rates.reads` for each user of a list that becomes exclusive, or is exclusive no more: by default, as
/// many of them a minute as follows.
const UNITS_PER_USER: u32 = 5;

/// The error of a list that the caller does not have.
const NO_LIST: FeedError = FeedError::NotFound("there is no such list");

/// The last user of a page of members.
type AfterMember = TimedUser<'m'>;

/// Lists of the caller.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Lists")]
pub(crate) struct ListIndex {
    /// The lists, oldest first.
    items: Vec<List>,
}

/// The members of a list, as a page.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ListMemberPage {
    /// The users, the one that was added last first.
    items: Vec<User>,
    /// The names of the topics; on the first page.
    #[serde(skip_serializing_if = "Option::is_none")]
    topics: Option<Vec<String>>,
    /// The `cursor` of the next page; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Manages and reads the lists of users.
pub(crate) struct Lists {
    base: Arc<Base>,
    edges: Arc<EdgeJobs>,
    inboxes: Arc<Inboxes>,
    updates: Arc<UpdatesReader>,
}

impl Lists {
    /// Manages the lists in this ledger. `edges` changes the timelines; `inboxes` has the logs of lists.
    pub(crate) fn new(
        base: Arc<Base>,
        edges: Arc<EdgeJobs>,
        inboxes: Arc<Inboxes>,
        updates: Arc<UpdatesReader>,
    ) -> Self {
        Self { base, edges, inboxes, updates }
    }

    pub(crate) async fn create(&self, call: Call, draft: ListDraft) -> Result<List> {
        let owner = call.caller.user()?;
        let name = draft.name()?;
        let ledger = &self.base.ledger;
        let created = ledger.create_list(owner, name, draft.exclusive, now(), MAX_LISTS, call.reserved).await?;
        created.ok_or(FeedError::LimitExceeded { field: "name", what: "lists of a user", most: MAX_LISTS as u64 })
    }

    pub(crate) async fn list(&self, caller: Caller, _: NoInput) -> Result<ListIndex> {
        Ok(ListIndex { items: self.base.ledger.lists(caller.user()?).await? })
    }

    pub(crate) async fn get(&self, caller: Caller, list: OneList) -> Result<List> {
        self.own(caller.user()?, list.id()).await
    }

    pub(crate) async fn update(&self, call: Call, update: ListUpdate) -> Result<List> {
        let owner = call.caller.user()?;
        let change = update.check()?;
        let id = update.id();
        // Also if it was so before: an earlier attempt may have ended half way.
        let users = if change.exclusive.is_some() { self.charged_users_of(&call, id).await? } else { Vec::new() };
        let updated = self.base.ledger.update_list(owner, id, &change).await?.ok_or(NO_LIST)?;
        self.sync_exclusions(owner, users).await?;
        Ok(updated)
    }

    pub(crate) async fn delete(&self, call: Call, list: OneList) -> Result<Done> {
        let owner = call.caller.user()?;
        let done = self.delete_own(&call, owner, list).await;
        self.base.invalidator.repeated_deletion(&call, done, Invalidation::Lists(owner.clone())).await
    }

    async fn delete_own(&self, call: &Call, owner: &UserId, list: OneList) -> Result<Done> {
        let own = self.own(owner, list.id()).await?;
        // Before the users of the list are forgotten. Also if the list is not exclusive any more: an earlier attempt
        // may have ended half way.
        let excluded = self.excluded_users_of(owner, own.id).await?;
        self.charge(call, &excluded)?;
        if own.exclusive {
            let open = ListChange { exclusive: Some(false), ..ListChange::default() };
            self.base.ledger.update_list(owner, own.id, &open).await?;
        }
        self.sync_exclusions(owner, excluded).await?;
        if !self.base.ledger.delete_list(owner, own.id).await? {
            return Err(NO_LIST);
        }
        // Its subscriptions end. A log that an attempt leaves expires.
        self.put_in_force(owner).await?;
        self.base.broker.drop_logs(&[InboxId::List(own.id).to_string()]).await?;
        Ok(Done {})
    }

    /// Idempotent.
    pub(crate) async fn add(&self, caller: Caller, input: ListMemberInput) -> Result<Done> {
        let owner = caller.user()?;
        let member = input.member()?;
        let most = match &member {
            ListMember::User(user) => {
                check_profile(&*self.base.ledger, &self.base.visibility, Some(owner), user).await?;
                List::MAX_USERS
            }
            ListMember::Topic(_) => List::MAX_TOPICS,
        };
        match self.base.ledger.add_to_list(owner, input.id(), &member, now(), most).await? {
            ListOutcome::NoList => Err(NO_LIST),
            ListOutcome::Full => Err(full(&member, most)),
            // Also if it was there before: an earlier attempt may have ended half way.
            ListOutcome::Added | ListOutcome::Unchanged => {
                self.put_in_force(owner).await?;
                merge_member(&self.base, &OwnedList { owner: owner.clone(), id: input.id() }, &member).await?;
                self.sync_member(owner, member).await
            }
        }
    }

    /// Idempotent.
    pub(crate) async fn remove(&self, caller: Caller, input: ListMemberInput) -> Result<Done> {
        let owner = caller.user()?;
        let member = input.member()?;
        self.base.ledger.remove_from_list(owner, input.id(), &member).await?.ok_or(NO_LIST)?;
        purge_unlisted(&self.base, &OwnedList { owner: owner.clone(), id: input.id() }).await?;
        self.sync_member(owner, member).await
    }

    pub(crate) async fn members(&self, caller: Caller, list: ListMembers) -> Result<ListMemberPage> {
        let owner = caller.user()?;
        let (limit, cursor) = list.page.decode::<AfterMember>()?;
        let own = self.own(owner, list.id()).await?;
        let topics = if cursor.is_none() { Some(self.base.ledger.list_topics(own.id).await?) } else { None };
        let mut page = PageBuilder::new(cursor, limit);
        while let Some((after, count)) = page.wants() {
            let after = after.as_ref().map(|after| (after.at, &after.user));
            let listed = self.base.ledger.list_users(own.id, after, count).await?;
            let keys: Vec<_> = listed.iter().map(|(at, user)| AfterMember { at: *at, user: user.id.clone() }).collect();
            let users = listed.into_iter().map(|(_, user)| user).collect();
            // As for restrictions: the owner can remove all of them.
            let shown = self.base.visibility.restricted_users(owner, users).await?;
            page.take_visible(keys, shown, |user, key| user.id == key.user);
        }
        let (items, next) = page.finish();
        Ok(ListMemberPage { items, topics, next: next.map(|after| after.encode()) })
    }

    /// The caller's lists that have a user.
    pub(crate) async fn with_user(&self, caller: Caller, user: OneUser) -> Result<ListIndex> {
        Ok(ListIndex { items: self.base.ledger.lists_with(caller.user()?, &user.id).await? })
    }

    pub(crate) async fn read(&self, caller: Caller, list: ListPosts) -> Result<TimelinePage> {
        let owner = caller.user()?;
        let (limit, cursor) = list.page.decode()?;
        let expand = list.expand.decode()?;
        let own = self.own(owner, list.id()).await?;
        // Before the ledger: everything after the position is pushed.
        let position = self.inboxes.open(&Source::list(owner, own.id)).await?;
        let members = ListSource::new(own.id);
        let gathering = PostGathering::List(&members);
        let policy = TimelinePolicy::of(&self.base.visibility);
        let mut page = PostPageBuilder::with_max_reads(cursor, limit, MAX_READS);
        while let Some((before, count)) = page.wants_posts() {
            let ids = self.base.ledger.list_posts(own.id, before, count).await?;
            let mut visible = policy.posts(owner, gathering, ids.iter().copied()).await?;
            self.base.content_filter.remove_hidden(Some(owner), FilterContext::Lists, &mut visible).await?;
            page.take_posts(&ids, &visible);
        }
        let (items, next) = page.finish();
        let page = self.base.post_renderer.render_gathered(owner, gathering, &items, next, &expand).await?;
        Ok(TimelinePage { page, position, read: None })
    }

    pub(crate) async fn updates(&self, caller: Caller, since: ListPosition) -> Result<UpdatesPage> {
        let owner = caller.user()?;
        let own = self.own(owner, since.id()).await?;
        self.updates.since(&Source::list(owner, own.id), since.position()).await
    }

    /// Puts a change of an owner's lists in force on every node: jobs write to the logs of lists from then on, and
    /// subscriptions are checked.
    async fn put_in_force(&self, owner: &UserId) -> Result<()> {
        self.base.invalidator.invalidate(&[Invalidation::Lists(owner.clone())]).await
    }

    /// A list of a user.
    async fn own(&self, owner: &UserId, id: ListId) -> Result<List> {
        self.base.ledger.list(owner, id).await?.ok_or(NO_LIST)
    }

    /// The users of a list whose posts leave or enter the timeline.
    async fn charged_users_of(&self, call: &Call, list: ListId) -> Result<Vec<UserId>> {
        self.own(call.caller.user()?, list).await?;
        let users = self.users_of(list).await?;
        self.charge(call, &users)?;
        Ok(users)
    }

    /// Counts users whose posts leave or enter the timeline. Each counts as much as a follow.
    fn charge(&self, call: &Call, users: &[UserId]) -> Result<()> {
        if call.origin == Origin::Backend {
            return Ok(());
        }
        let units = u32::try_from(users.len()).unwrap_or(u32::MAX).saturating_mul(UNITS_PER_USER);
        self.base.rates.take_user_reads(call.caller.user()?, units)
    }

    /// The users of a list whose posts an exclusive list keeps out of the timeline.
    async fn excluded_users_of(&self, owner: &UserId, list: ListId) -> Result<Vec<UserId>> {
        let pairs = self.users_of(list).await?.into_iter().map(|user| (owner.clone(), user));
        let pairs: Vec<(UserId, UserId)> = pairs.collect();
        let relations = self.base.ledger.relations(&pairs).await?;
        let excluded = pairs.into_iter().zip(relations).filter(|(_, relation)| relation.listed);
        Ok(excluded.map(|((_, user), _)| user).collect())
    }

    async fn users_of(&self, list: ListId) -> Result<Vec<UserId>> {
        let listed = self.base.ledger.list_users(list, None, List::MAX_USERS).await?;
        Ok(listed.into_iter().map(|(_, user)| user.id).collect())
    }

    async fn sync_member(&self, owner: &UserId, member: ListMember) -> Result<Done> {
        if let ListMember::User(user) = member {
            self.sync_exclusions(owner, vec![user]).await?;
        }
        Ok(Done {})
    }

    /// Brings the timeline of an owner in line with the exclusive lists, for these users, before the reply.
    async fn sync_exclusions(&self, owner: &UserId, users: Vec<UserId>) -> Result<()> {
        let sync = |user: UserId| async move {
            let Some(synced) = self.base.ledger.sync_exclusion(owner, &user, now()).await? else { return Ok(()) };
            let change = if synced.0 { EdgeChange::Closes } else { EdgeChange::Opens };
            self.edges.apply(owner, &user, change, synced.1).await
        };
        let others = users.into_iter().filter(|user| user != owner);
        stream::iter(others).map(sync).buffer_unordered(MAX_CONCURRENT_USERS).try_collect().await
    }
}

fn full(member: &ListMember, most: usize) -> FeedError {
    let most = most as u64;
    match member {
        ListMember::User(_) => FeedError::LimitExceeded { field: "user", what: "users of a list", most },
        ListMember::Topic(_) => FeedError::LimitExceeded { field: "topic", what: "topics of a list", most },
    }
}
