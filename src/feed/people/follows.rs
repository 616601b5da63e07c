//! Follows: the edges between users, and the lists of both sides.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::feed::base::Base;
use crate::feed::call::Caller;
use crate::feed::error::{FeedError, NO_USER, Result};
use crate::feed::input::{Done, OneUser, OwnList, UserList, UserPage};
use crate::feed::paging::UserPageBuilder;
use crate::feed::runtime::now;
use crate::feed::timelines::{EdgeChange, EdgeJobs};
use crate::ledger::{EventConsumer, FollowOutcome, MAX_REQUESTS_BY, MAX_REQUESTS_TO};
use crate::model::{Standing, UserId};

/// What a follow became.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum FollowState {
    /// The caller follows the user.
    Following,
    /// The account is locked, and the caller has an open request.
    Requested,
}

/// The reply to a follow.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Follow")]
pub(crate) struct FollowReply {
    /// `following`, or `requested` if the account is locked.
    state: FollowState,
}

/// The follows of a user that are listed.
#[derive(Clone, Copy)]
enum FollowList<'a> {
    Followers,
    Following,
    /// The followers that this user follows.
    FollowedBy(&'a UserId),
}

/// The edges between users.
pub(crate) struct Follows {
    base: Arc<Base>,
    edges: Arc<EdgeJobs>,
}

impl Follows {
    /// Manages the follows in this ledger. `edges` changes the timelines; `events` causes the notifications.
    pub(crate) fn new(base: Arc<Base>, edges: Arc<EdgeJobs>) -> Self {
        Self { base, edges }
    }

    pub(crate) async fn follow(&self, caller: Caller, user: OneUser) -> Result<FollowReply> {
        let reader = caller.user()?;
        if *reader == user.id {
            return Err(FeedError::invalid("id", "nobody follows themselves"));
        }
        if self.base.relations.standing(&user.id).await? == Standing::Suspended {
            return Err(NO_USER);
        }
        let most = self.base.options.limits.follows;
        let full = |what, most| Err(FeedError::LimitExceeded { field: "id", what, most });
        let job = match self.base.ledger.follow(reader, &user.id, now(), most).await? {
            FollowOutcome::New(job) => Some(job),
            FollowOutcome::Unchanged => None,
            FollowOutcome::Requested => {
                self.base.events.wake(EventConsumer::Notifications);
                return Ok(FollowReply { state: FollowState::Requested });
            }
            FollowOutcome::NoUser | FollowOutcome::Blocked => return Err(NO_USER),
            FollowOutcome::Blocks => return Err(FeedError::Conflict { field: "id", message: "you block them" }),
            FollowOutcome::Full => return full("people one follows", most),
            FollowOutcome::TooManyRequests => return full("open requests of a user", MAX_REQUESTS_BY),
            FollowOutcome::AskedTooOften => return full("open requests to a user", MAX_REQUESTS_TO),
        };
        let is_new = job.is_some();
        self.edges.apply(reader, &user.id, EdgeChange::Opens, job).await?;
        if is_new {
            self.base.events.wake(EventConsumer::Notifications);
        }
        Ok(FollowReply { state: FollowState::Following })
    }

    pub(crate) async fn unfollow(&self, caller: Caller, user: OneUser) -> Result<Done> {
        let reader = caller.user()?;
        let job = self.base.ledger.unfollow(reader, &user.id, now()).await?;
        self.base.events.wake(EventConsumer::Notifications);
        self.edges.apply(reader, &user.id, EdgeChange::Closes, job).await?;
        Ok(Done {})
    }

    pub(crate) async fn followers(&self, caller: Caller, list: UserList) -> Result<UserPage> {
        self.list(&caller, &list, FollowList::Followers).await
    }

    pub(crate) async fn following(&self, caller: Caller, list: UserList) -> Result<UserPage> {
        self.list(&caller, &list, FollowList::Following).await
    }

    pub(crate) async fn friends(&self, caller: Caller, list: OwnList) -> Result<UserPage> {
        let me = caller.user()?;
        let list = UserList { id: me.clone(), page: list.page };
        self.list(&caller, &list, FollowList::FollowedBy(me)).await
    }

    pub(crate) async fn shared(&self, caller: Caller, list: UserList) -> Result<UserPage> {
        self.list(&caller, &list, FollowList::FollowedBy(caller.user()?)).await
    }

    /// A page of users, without users that block the caller or that the caller blocks. Reads until the page is full.
    async fn list(&self, caller: &Caller, list: &UserList, follows: FollowList<'_>) -> Result<UserPage> {
        let (limit, cursor) = list.page.decode()?;
        if !self.base.visibility.can_see_profile(caller.reader(), &list.id).await? {
            return Err(NO_USER);
        }
        if !self.base.visibility.is_open_to(caller.reader(), &list.id).await? {
            return Err(FeedError::Locked);
        }
        let mut page = UserPageBuilder::new(cursor, limit);
        while let Some((before, count)) = page.wants_users() {
            let listed = match follows {
                FollowList::Followers => self.base.ledger.followers(&list.id, before, count).await?,
                FollowList::Following => self.base.ledger.following(&list.id, before, count).await?,
                FollowList::FollowedBy(user) => {
                    self.base.ledger.shared_followers(user, &list.id, before, count).await?
                }
            };
            // If the list is empty, its user may not exist.
            if listed.items.is_empty() && self.base.ledger.users(std::slice::from_ref(&list.id)).await?.is_empty() {
                return Err(NO_USER);
            }
            page.take_users(self.base.visibility.without_blocked(caller.reader(), listed.items).await?, listed.next);
        }
        Ok(page.finish().into())
    }
}
