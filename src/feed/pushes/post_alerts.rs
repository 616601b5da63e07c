//! Alerts about posts that are due: whether their reader may still see the post, and wants to hear of it.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::{StreamExt, stream};

use super::live_sockets::LiveDeliveries;
use crate::feed::base::Base;
use crate::feed::content::CachedPost;
use crate::feed::error::Result;
use crate::feed::visibility::ViewContext;
use crate::ledger::{POST_KIND, QueuedPush};
use crate::model::{
    FilterContext, Notification, NotificationId, NotificationPosition, NotificationSubject, Person, PostId, UserId,
};

/// The number of users whose posts are checked concurrently.
const MAX_CONCURRENT_USERS: usize = 16;

/// A user with an item of a push.
pub(super) type Item = (UserId, u64);

/// Reviews alerts about posts.
pub(super) struct PostAlertReview {
    base: Arc<Base>,
}

/// The alerts of a batch.
#[derive(Default)]
pub(super) struct PostAlerts {
    /// Alerts to be sent, in the form of notifications.
    pub(super) due: Vec<(UserId, Notification)>,
    /// Alerts that are not sent, with the reason.
    pub(super) refused: HashMap<Item, &'static str>,
}

impl PostAlertReview {
    /// Reviews alerts with this ledger and these rules of visibility.
    pub(super) fn new(base: Arc<Base>) -> Self {
        Self { base }
    }

    /// Reviews the alerts among these pushes. `live` is what was taken live. Three ledger calls for a
    /// batch, and up to as many for caches as there are users; none without alerts.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn review(
        &self,
        pushes: impl Iterator<Item = &QueuedPush> + Send,
        live: &LiveDeliveries,
    ) -> Result<PostAlerts> {
        let mut wants_mentions: HashMap<UserId, bool> = HashMap::new();
        let mut posts: HashMap<UserId, HashSet<PostId>> = HashMap::new();
        for push in pushes.filter(|push| push.kind == POST_KIND) {
            wants_mentions.insert(push.key.user.clone(), push.preferences.kinds.mention);
            posts.entry(push.key.user.clone()).or_default().insert(PostId(push.key.item));
        }
        let mut alerts = PostAlerts::default();
        if posts.is_empty() {
            return Ok(alerts);
        }
        let visible = self.visible(posts, &mut alerts.refused).await?;
        let pairs: HashSet<(UserId, UserId)> =
            visible.iter().map(|(user, cached)| (user.clone(), cached.post.author.clone())).collect();
        let pairs: Vec<(UserId, UserId)> = pairs.into_iter().collect();
        let readers = self.base.ledger.post_alert_readers(&pairs).await?;
        let has_timeline = |(user, cached): &(UserId, Arc<CachedPost>)| live.has_post(user, cached.post.id);
        let live_pairs: HashSet<(UserId, UserId)> = visible
            .iter()
            .filter(|visible| has_timeline(visible))
            .map(|(user, cached)| (user.clone(), cached.post.author.clone()))
            .collect();
        let follows = self.base.relations.get(live_pairs).await?;
        let authors: HashSet<UserId> = pairs.into_iter().map(|(_, author)| author).collect();
        let authors = self.base.ledger.users(&authors.into_iter().collect::<Vec<_>>()).await?;
        let authors: HashMap<UserId, Person> =
            authors.into_iter().map(|author| (author.id.clone(), Person::from(author))).collect();
        for (user, cached) in visible {
            let post = &cached.post;
            let takes_it_live = || {
                let relation = follows.get(&user, &post.author).unwrap_or_default();
                live.has_post(&user, post.id) && relation.follows
            };
            let pair = (user.clone(), post.author.clone());
            let is_mentioned = || post.mentions.contains(&user) && wants_mentions.get(&user) == Some(&true);
            let refusal = match (readers.get(&pair), authors.get(&post.author)) {
                (None, _) | (_, None) => Some("unwanted"),
                // The fan-out of a post may end after the user asked for the author's next ones.
                (Some(reader), _) if post.created_at < reader.since => Some("unwanted"),
                (Some(reader), _) if reader.seen >= post.id => Some("read"),
                // The timeline of the user's socket has the post.
                _ if takes_it_live() => Some("live"),
                // The notification of the mention is pushed.
                _ if is_mentioned() => Some("mentioned"),
                _ => None,
            };
            match (refusal, authors.get(&post.author)) {
                (None, Some(author)) => alerts.due.push((user, alert(&cached, author))),
                (refusal, _) => {
                    alerts.refused.insert((user, post.id.0), refusal.unwrap_or("unwanted"));
                }
            }
        }
        Ok(alerts)
    }

    /// The posts that their readers may see, without those of muted authors.
    async fn visible(
        &self,
        posts: HashMap<UserId, HashSet<PostId>>,
        refused: &mut HashMap<Item, &'static str>,
    ) -> Result<Vec<(UserId, Arc<CachedPost>)>> {
        let mut checked = stream::iter(posts)
            .map(|(user, ids)| async move {
                let visible = self.visible_to(&user, &ids).await;
                (user, ids, visible)
            })
            .buffer_unordered(MAX_CONCURRENT_USERS);
        let mut found = Vec::new();
        while let Some((user, ids, visible)) = checked.next().await {
            let mut visible = visible?;
            for id in ids {
                match visible.remove(&id) {
                    Some(cached) => found.push((user.clone(), cached)),
                    None => drop(refused.insert((user.clone(), id.0), "read")),
                }
            }
        }
        Ok(found)
    }

    /// The posts among these that a user may see, without those that filters of the timeline or of notifications hide.
    async fn visible_to(&self, user: &UserId, ids: &HashSet<PostId>) -> Result<HashMap<PostId, Arc<CachedPost>>> {
        let ids = ids.iter().copied();
        let mut visible = self.base.visibility.visible_posts(Some(user), ViewContext::Unrequested, ids).await?;
        for context in [FilterContext::Home, FilterContext::Notifications] {
            self.base.content_filter.remove_hidden(Some(user), context, &mut visible).await?;
        }
        Ok(visible)
    }
}

/// An alert, as a notification with the id of the post.
fn alert(cached: &CachedPost, author: &Person) -> Notification {
    let post = &cached.post;
    Notification {
        id: NotificationId(post.id.0),
        position: NotificationPosition::ZERO,
        kind: Cow::Borrowed(POST_KIND),
        content: None,
        object: Some(NotificationSubject::Post { id: post.id }),
        comment: None,
        people: vec![author.clone()],
        count: 1,
        filtered: Vec::new(),
        created_at: post.created_at,
        updated_at: post.created_at,
        read: false,
        seen: false,
    }
}
