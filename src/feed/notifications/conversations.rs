//! Muted conversations: users who want no notifications of what happens under a post.

use std::sync::Arc;

use crate::feed::base::Base;
use crate::feed::call::Caller;
use crate::feed::error::{NO_POST, Result};
use crate::feed::input::{Done, OnePost};
use crate::feed::runtime::now;
use crate::model::{PostId, UserId};

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
        let user = caller.user()?;
        let cached = self.base.visibility.post(Some(user), post.id).await?;
        // What happens under a repost happens under its post.
        let post = cached.post.repost.unwrap_or(post.id);
        self.base.ledger.mute_conversation(user, post, now()).await?;
        Ok(Done {})
    }

    /// Needs no right to see the post if the user had muted it.
    pub(crate) async fn unmute(&self, caller: Caller, post: OnePost) -> Result<Done> {
        let user = caller.user()?;
        let named = self.base.posts.get([post.id]).await?.remove(&post.id);
        let under = named.and_then(|cached| cached.post.repost).unwrap_or(post.id);
        if !self.base.ledger.unmute_conversation(user, under).await? {
            self.check_visible(user, post.id).await?;
        }
        Ok(Done {})
    }

    async fn check_visible(&self, user: &UserId, post: PostId) -> Result<()> {
        if self.base.visibility.can_see_post(Some(user), post).await? { Ok(()) } else { Err(NO_POST) }
    }
}
