//! Muted conversations: users who want no notifications of what happens under a post.

use std::sync::Arc;

use crate::feed::base::Base;
use crate::feed::call::Caller;
use crate::feed::error::{NO_POST, Result};
use crate::feed::input::{Done, OnePost};
use crate::feed::runtime::now;
use crate::model::UserId;

/// Mutes conversations, and ends it. Notifications that exist already stay.
pub(crate) struct Conversations {
    base: Arc<Base>,
}

impl Conversations {
    /// Muted conversations in this ledger.
    pub(crate) fn new(base: Arc<Base>) -> Self {
        Self { base }
    }

    pub(crate) async fn mute(&self, caller: Caller, post: OnePost) -> Result<Done> {
        let user = self.reader(&caller, &post).await?;
        self.base.ledger.mute_conversation(user, post.id, now()).await?;
        Ok(Done {})
    }

    pub(crate) async fn unmute(&self, caller: Caller, post: OnePost) -> Result<Done> {
        let user = self.reader(&caller, &post).await?;
        self.base.ledger.unmute_conversation(user, post.id).await?;
        Ok(Done {})
    }

    /// The caller, who may see the post.
    async fn reader<'a>(&self, caller: &'a Caller, post: &OnePost) -> Result<&'a UserId> {
        let user = caller.user()?;
        if self.base.visibility.can_see_post(Some(user), post.id).await? { Ok(user) } else { Err(NO_POST) }
    }
}
