//! Requests to follow locked accounts: lists, answers, and the removal of followers.

use std::sync::Arc;

use crate::feed::base::Base;
use crate::feed::call::Caller;
use crate::feed::error::{FeedError, Result};
use crate::feed::input::{Done, OneUser, OwnList, UserPage};
use crate::feed::paging::UserPageBuilder;
use crate::feed::runtime::now;
use crate::feed::timelines::{EdgeChange, EdgeJobs};
use crate::ledger::EventConsumer;
use crate::model::{Standing, UserId};

const NO_REQUEST: FeedError = FeedError::NotFound("no such request");

/// The requests to follow a user, and by a user.
#[derive(Clone, Copy)]
enum RequestList {
    ToMe,
    ByMe,
}

/// Answers requests to follow.
pub(crate) struct FollowRequests {
    base: Arc<Base>,
    edges: Arc<EdgeJobs>,
}

impl FollowRequests {
    /// Answers the requests in this ledger. `edges` changes the timelines.
    pub(crate) fn new(base: Arc<Base>, edges: Arc<EdgeJobs>) -> Self {
        Self { base, edges }
    }

    pub(crate) async fn incoming(&self, caller: Caller, list: OwnList) -> Result<UserPage> {
        self.list(caller.user()?, &list, RequestList::ToMe).await
    }

    pub(crate) async fn outgoing(&self, caller: Caller, list: OwnList) -> Result<UserPage> {
        self.list(caller.user()?, &list, RequestList::ByMe).await
    }

    /// Idempotent: succeeds if the user follows the caller already.
    pub(crate) async fn accept(&self, caller: Caller, user: OneUser) -> Result<Done> {
        let me = caller.user()?;
        let at = now();
        if self.base.relations.standing(&user.id).await? == Standing::Suspended {
            return Err(NO_REQUEST);
        }
        match self.base.ledger.accept_request(&user.id, me, at, Some(at)).await? {
            Some(job) => {
                self.edges.apply(&user.id, me, EdgeChange::Opens, Some(job)).await?;
                self.base.events.wake(EventConsumer::Notifications);
            }
            None if self.follows(&user.id, me).await? => {}
            None => return Err(NO_REQUEST),
        }
        Ok(Done {})
    }

    pub(crate) async fn reject(&self, caller: Caller, user: OneUser) -> Result<Done> {
        if self.base.ledger.reject_request(&user.id, caller.user()?, now()).await? {
            self.base.events.wake(EventConsumer::Notifications);
        }
        Ok(Done {})
    }

    /// The same as an unfollow by the other user. There is no notification.
    pub(crate) async fn remove_follower(&self, caller: Caller, user: OneUser) -> Result<Done> {
        let me = caller.user()?;
        let job = self.base.ledger.unfollow(&user.id, me, now()).await?;
        self.base.events.wake(EventConsumer::Notifications);
        self.edges.apply(&user.id, me, EdgeChange::Closes, job).await?;
        Ok(Done {})
    }

    async fn follows(&self, follower: &UserId, user: &UserId) -> Result<bool> {
        let pair = [(follower.clone(), user.clone())];
        Ok(self.base.ledger.relations(&pair).await?.first().is_some_and(|relation| relation.follows))
    }

    /// A page of users, without those who may not be seen. Reads until the page is full.
    async fn list(&self, me: &UserId, list: &OwnList, requests: RequestList) -> Result<UserPage> {
        let (limit, cursor) = list.page.decode()?;
        let mut page = UserPageBuilder::new(cursor, limit);
        while let Some((before, count)) = page.wants_users() {
            let listed = match requests {
                RequestList::ToMe => self.base.ledger.requests_to(me, now(), before, count).await?,
                RequestList::ByMe => self.base.ledger.requests_by(me, before, count).await?,
            };
            page.take_users(self.base.visibility.without_blocked(Some(me), listed.items).await?, listed.next);
        }
        Ok(page.finish().into())
    }
}
