//! Hiding, muting and blocking: what people put between themselves and others, and what that does at once.

use super::graph::{Change, NO_USER};
use super::input::{Done, OneUser};
use super::{Caller, Feed, FeedError, Result, now};
use crate::model::{Barrier, UserId};

impl Feed {
    pub(super) async fn hide(&self, caller: Caller, user: OneUser) -> Result<Done> {
        self.bar(caller.user()?, Barrier::Hide, &user.id).await
    }

    pub(super) async fn unhide(&self, caller: Caller, user: OneUser) -> Result<Done> {
        self.unbar(caller.user()?, Barrier::Hide, &user.id).await
    }

    pub(super) async fn mute(&self, caller: Caller, user: OneUser) -> Result<Done> {
        self.bar(caller.user()?, Barrier::Mute, &user.id).await
    }

    pub(super) async fn unmute(&self, caller: Caller, user: OneUser) -> Result<Done> {
        self.unbar(caller.user()?, Barrier::Mute, &user.id).await
    }

    pub(super) async fn block(&self, caller: Caller, user: OneUser) -> Result<Done> {
        self.bar(caller.user()?, Barrier::Block, &user.id).await
    }

    pub(super) async fn unblock(&self, caller: Caller, user: OneUser) -> Result<Done> {
        self.unbar(caller.user()?, Barrier::Block, &user.id).await
    }

    async fn bar(&self, maker: &UserId, barrier: Barrier, whom: &UserId) -> Result<Done> {
        if maker == whom {
            return Err(FeedError::invalid("id", "nobody does that to themselves"));
        }
        self.welcome(maker).await?;
        if self.ledger.users(std::slice::from_ref(whom)).await?.is_empty() {
            return Err(NO_USER);
        }
        let now = now();
        let jobs = self.ledger.bar(barrier, maker, whom, now, &self.fanout.lease()).await?;
        self.related(maker, whom, Change::Closes, jobs.unwrap_or_default()).await
    }

    async fn unbar(&self, maker: &UserId, barrier: Barrier, whom: &UserId) -> Result<Done> {
        let now = now();
        let jobs = self.ledger.unbar(barrier, maker, whom, now, &self.fanout.lease()).await?;
        self.related(maker, whom, Change::Opens, jobs.unwrap_or_default()).await
    }
}
