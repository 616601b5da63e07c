//! Notifications as they are visible to their owner.
//!
//! The visibility of posts and users is checked when a notification is read or pushed: a notification is omitted if its
//! post is no longer visible, or if its user was muted.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};

use super::people::load_people;
use crate::feed::error::Result;
use crate::feed::visibility::{CommentContexts, ViewContext, VisibilityPolicy};
use crate::ledger::{Ledger, NotificationGroup};
use crate::model::{
    Comment, CommentId, ContentId, Event, Millis, Notification, NotificationId, NotificationSubject, Person, PostId,
    UserId,
};

/// The maximal number of users of a group that are shown.
const MAX_SHOWN_PEOPLE: usize = 8;

/// The number of users whose notifications are rendered concurrently. It is low because notifications use the same
/// stores as posts and likes, and have the lowest priority.
const MAX_CONCURRENT_USERS: usize = 4;

/// A group, reduced to the people visible to its owner.
pub(crate) struct VisibleGroup {
    pub(crate) group: NotificationGroup,
    subject: Option<NotificationSubject>,
}

/// A notification as it is published.
#[derive(Debug)]
pub(crate) struct RenderedNotification {
    /// The members of the publication.
    pub(super) members: Bytes,
    /// When it last grew, in Unix milliseconds.
    pub(super) updated_at: Millis,
}

/// Renders notifications.
#[derive(Clone)]
pub(crate) struct NotificationRenderer {
    ledger: Arc<dyn Ledger>,
    visibility: Arc<VisibilityPolicy>,
    comments: Arc<CommentContexts>,
}

impl NotificationRenderer {
    /// A renderer that applies this visibility policy.
    pub(crate) fn new(
        ledger: Arc<dyn Ledger>,
        visibility: Arc<VisibilityPolicy>,
        comments: Arc<CommentContexts>,
    ) -> Self {
        Self { ledger, visibility, comments }
    }

    /// For each notification, the publication of its current state. Omits notifications without visible content.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn render_updates(
        &self,
        by_owner: HashMap<UserId, HashSet<NotificationId>>,
    ) -> Result<HashMap<NotificationId, RenderedNotification>> {
        let rendered = stream::iter(by_owner).map(|(user, ids)| async move {
            let ids: Vec<NotificationId> = ids.into_iter().collect();
            let groups = self.ledger.notifications_by_id(&user, &ids).await?;
            let encode = |notification: &Notification| {
                let members = Event::Notification { notification }.encode();
                (notification.id, RenderedNotification { members, updated_at: notification.updated_at })
            };
            let rendered = self.render(&user, groups).await?;
            Result::Ok(rendered.iter().map(encode).collect::<Vec<_>>())
        });
        let rendered: Vec<Vec<_>> = rendered.buffer_unordered(MAX_CONCURRENT_USERS).try_collect().await?;
        Ok(rendered.into_iter().flatten().collect())
    }

    /// Groups of a user, reduced to the content visible to the user.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn render(&self, user: &UserId, groups: Vec<NotificationGroup>) -> Result<Vec<Notification>> {
        let visible = self.visible(user, groups).await?;
        self.with_people(visible).await
    }

    /// The groups of a user with visible content, without the people that the user may not see or has muted. The number
    /// of ledger calls does not depend on the number of groups.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn visible(&self, user: &UserId, groups: Vec<NotificationGroup>) -> Result<Vec<VisibleGroup>> {
        if groups.is_empty() {
            return Ok(Vec::new());
        }
        let subjects = self.subjects(user, groups.iter().filter_map(|group| group.kind.object())).await?;
        let people: HashSet<UserId> = groups.iter().flat_map(|group| group.people.iter().cloned()).collect();
        let people = self.visibility.visible_users(Some(user), ViewContext::Unrequested, people).await?;
        let visible = |mut group: NotificationGroup| {
            let subject = match group.kind.object() {
                Some(object) => Some(*subjects.get(&object)?),
                None => None,
            };
            let all = group.people.len();
            group.people.retain(|person| people.contains(person));
            let hidden = all - group.people.len();
            group.count = group.count.saturating_sub(hidden as u64);
            group.people.truncate(MAX_SHOWN_PEOPLE);
            (!group.people.is_empty()).then_some(VisibleGroup { group, subject })
        };
        Ok(groups.into_iter().filter_map(visible).collect())
    }

    /// Groups with the names of their people.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn with_people(&self, visible: Vec<VisibleGroup>) -> Result<Vec<Notification>> {
        let people = visible.iter().flat_map(|visible| &visible.group.people);
        let people = load_people(&*self.ledger, people).await?;
        Ok(visible.into_iter().map(|visible| visible.with_people(&people)).collect())
    }

    /// The `objects` that exist and that the user may see; for a comment, also all of its ancestors. Mutes do not
    /// apply: they concern the acting user, not the object.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn subjects(
        &self,
        user: &UserId,
        objects: impl Iterator<Item = ContentId> + Send,
    ) -> Result<HashMap<ContentId, NotificationSubject>> {
        let objects: HashSet<ContentId> = objects.collect();
        let ids: Vec<CommentId> = objects.iter().filter_map(|object| comment(*object)).collect();
        let comments = if ids.is_empty() { Vec::new() } else { self.ledger.comments(&ids).await? };
        let threads = self.comments.authors_in_threads(comments.iter().map(|comment| comment.reply_to)).await?;
        let above: HashSet<UserId> = threads.values().flatten().cloned().collect();
        let seen = self.visibility.visible_users(Some(user), ViewContext::Direct, above).await?;
        let thread = |comment: &Comment| comment.reply_to.and_then(|parent| threads.get(&parent)).into_iter().flatten();
        let is_seen = |comment: &Comment| thread(comment).all(|author| seen.contains(author));
        let existing = comments.iter().filter(|comment| comment.author.is_some() && is_seen(comment));
        let post_of: HashMap<CommentId, PostId> = existing.map(|comment| (comment.id, comment.post)).collect();
        let subject = |object: ContentId| match object {
            ContentId::Post(id) => Some(NotificationSubject::Post { id }),
            ContentId::Comment(id) => post_of.get(&id).map(|post| NotificationSubject::Comment { id, post: *post }),
        };
        let subjects: HashMap<ContentId, NotificationSubject> =
            objects.into_iter().filter_map(|object| Some((object, subject(object)?))).collect();
        let posts: HashSet<PostId> = subjects.values().map(|subject| subject.post()).collect();
        let posts = self.visibility.visible_posts(Some(user), ViewContext::Direct, posts).await?;
        Ok(subjects.into_iter().filter(|(_, subject)| posts.contains_key(&subject.post())).collect())
    }
}

fn comment(object: ContentId) -> Option<CommentId> {
    match object {
        ContentId::Comment(id) => Some(id),
        ContentId::Post(_) => None,
    }
}

impl VisibleGroup {
    fn with_people(self, people: &BTreeMap<UserId, Person>) -> Notification {
        let Self { group, subject } = self;
        Notification {
            id: group.id,
            position: group.position,
            kind: group.kind.name(),
            object: subject,
            people: group.people.iter().filter_map(|person| people.get(person.as_str()).cloned()).collect(),
            count: group.count,
            created_at: group.created_at,
            updated_at: group.updated_at,
            read: group.read,
            seen: group.seen,
        }
    }
}
