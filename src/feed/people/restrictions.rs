//! Restrictions: hide, mute and block, and their effect on timelines.

use std::sync::Arc;

use crate::feed::call::Caller;
use crate::feed::error::{FeedError, NO_USER, Result};
use crate::feed::identity::IdentityService;
use crate::feed::input::{Done, OneUser};
use crate::feed::runtime::now;
use crate::feed::timelines::{EdgeChange, EdgeJobs};
use crate::ledger::Ledger;
use crate::model::{Restriction, UserId};

/// Manages restrictions between users.
pub(crate) struct Restrictions {
    ledger: Arc<dyn Ledger>,
    identity: Arc<IdentityService>,
    edges: Arc<EdgeJobs>,
}

impl Restrictions {
    /// Manages the restrictions in this ledger. `edges` changes the timelines.
    pub(crate) fn new(ledger: Arc<dyn Ledger>, identity: Arc<IdentityService>, edges: Arc<EdgeJobs>) -> Self {
        Self { ledger, identity, edges }
    }

    pub(crate) async fn hide(&self, caller: Caller, user: OneUser) -> Result<Done> {
        self.restrict(caller.user()?, Restriction::Hide, &user.id).await
    }

    pub(crate) async fn unhide(&self, caller: Caller, user: OneUser) -> Result<Done> {
        self.lift(caller.user()?, Restriction::Hide, &user.id).await
    }

    pub(crate) async fn mute(&self, caller: Caller, user: OneUser) -> Result<Done> {
        self.restrict(caller.user()?, Restriction::Mute, &user.id).await
    }

    pub(crate) async fn unmute(&self, caller: Caller, user: OneUser) -> Result<Done> {
        self.lift(caller.user()?, Restriction::Mute, &user.id).await
    }

    pub(crate) async fn block(&self, caller: Caller, user: OneUser) -> Result<Done> {
        self.restrict(caller.user()?, Restriction::Block, &user.id).await
    }

    pub(crate) async fn unblock(&self, caller: Caller, user: OneUser) -> Result<Done> {
        self.lift(caller.user()?, Restriction::Block, &user.id).await
    }

    async fn restrict(&self, user: &UserId, restriction: Restriction, other: &UserId) -> Result<Done> {
        if user == other {
            return Err(FeedError::invalid("id", "nobody does that to themselves"));
        }
        self.identity.ensure_user(user).await?;
        if self.ledger.users(std::slice::from_ref(other)).await?.is_empty() {
            return Err(NO_USER);
        }
        let jobs = self.ledger.restrict(restriction, user, other, now(), &self.edges.lease()).await?;
        self.edges.apply(user, other, EdgeChange::Closes, jobs.unwrap_or_default()).await?;
        Ok(Done {})
    }

    async fn lift(&self, user: &UserId, restriction: Restriction, other: &UserId) -> Result<Done> {
        let jobs = self.ledger.unrestrict(restriction, user, other, now(), &self.edges.lease()).await?;
        self.edges.apply(user, other, EdgeChange::Opens, jobs.unwrap_or_default()).await?;
        Ok(Done {})
    }
}
