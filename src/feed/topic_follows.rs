//! Followed topics: their public posts come into the timeline of the user who follows them, each with the topic as
//! [`via`](crate::model::PostVia).
//!
//! Only posts of open accounts of good standing come this way, and no reposts. Mutes, blocks, filters and exclusive
//! lists of the reader apply. The posts reach open timelines by the pull log.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::base::Base;
use super::call::Caller;
use super::error::{FeedError, Result};
use super::input::{Done, NoInput, TOPIC_RULE};
use super::runtime::now;
use super::timelines::{merge_topics, purge_topic};
use crate::broker::Invalidation;
use crate::model::{Millis, UserId};
use crate::text::topic_name;

/// The maximal number of topics that a user follows.
const MAX_TOPICS: usize = 100;

/// Selects a topic.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OneTopic {
    /// The topic, without the `#`.
    name: String,
}

impl OneTopic {
    fn name(&self) -> Result<String> {
        topic_name(self.name.trim().trim_start_matches(['#', '＃'])).ok_or(FeedError::invalid("name", TOPIC_RULE))
    }
}

/// A topic that the caller follows.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FollowedTopic")]
struct FollowedTopicItem {
    /// Its name, without the `#`.
    name: String,
    /// When the caller began to follow it, in Unix milliseconds.
    followed_at: Millis,
}

/// The topics that the caller follows.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FollowedTopics")]
pub(crate) struct FollowedTopicPage {
    /// The topics, by name.
    items: Vec<FollowedTopicItem>,
}

/// Follows and unfollows topics.
pub(crate) struct TopicFollows {
    base: Arc<Base>,
}

impl TopicFollows {
    /// Manages the followed topics of this ledger.
    pub(crate) fn new(base: Arc<Base>) -> Self {
        Self { base }
    }

    /// Idempotent: a repeat merges what an earlier attempt did not.
    pub(crate) async fn follow(&self, caller: Caller, topic: OneTopic) -> Result<Done> {
        let user = caller.user()?;
        let name = topic.name()?;
        if !self.base.ledger.follow_topic(user, &name, now(), MAX_TOPICS).await? {
            let most = MAX_TOPICS as u64;
            return Err(FeedError::LimitExceeded { field: "name", what: "followed topics of a user", most });
        }
        self.put_in_force(user).await?;
        merge_topics(&self.base, user, &[name]).await?;
        Ok(Done {})
    }

    /// Idempotent: a repeat removes what an earlier attempt did not.
    pub(crate) async fn unfollow(&self, caller: Caller, topic: OneTopic) -> Result<Done> {
        let user = caller.user()?;
        let name = topic.name()?;
        self.base.ledger.unfollow_topic(user, &name).await?;
        self.put_in_force(user).await?;
        purge_topic(&self.base, user, &name).await?;
        Ok(Done {})
    }

    pub(crate) async fn list(&self, caller: Caller, _: NoInput) -> Result<FollowedTopicPage> {
        let followed = self.base.ledger.followed_topics(caller.user()?).await?.into_iter();
        let items = followed.map(|topic| FollowedTopicItem { name: topic.name, followed_at: topic.at }).collect();
        Ok(FollowedTopicPage { items })
    }

    /// Puts a change in force on every node: deliveries and pages follow it.
    async fn put_in_force(&self, user: &UserId) -> Result<()> {
        self.base.invalidator.invalidate(&[Invalidation::Topics(user.clone())]).await
    }
}
