//! Notifications as their owner may see them.
//!
//! The visibility of posts and users is checked when a notification is read or pushed: a post that cannot be seen any more, or a
//! user who was muted, removes it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use schemars::JsonSchema;
use serde::Serialize;

use super::people::load_people;
use crate::feed::error::{FeedError, Result};
use crate::feed::visibility::{CommentContexts, ViewContext, VisibilityPolicy};
use crate::ledger::{Ledger, NotificationGroup};
use crate::model::{Comment, CommentId, Millis, NotificationId, Object, Person, PostId, UserId};

/// Users of a group that are shown.
const MAX_SHOWN_PEOPLE: usize = 8;

/// Users whose notifications are rendered concurrently. Few: they use the same stores as posts and likes, and are the least urgent.
const MAX_CONCURRENT_USERS: usize = 4;

/// A notification.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Notification {
    /// Its id; it stays while more people do the same.
    id: NotificationId,
    /// What they did: `like`, `comment`, `reply`, `follow` or `mention`.
    kind: &'static str,
    /// What they did it with; absent of `follow`. Of `comment` the post, of `reply` the comment that was replied to.
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<Subject>,
    /// Who did it: the newest, at most 8.
    people: Vec<Person>,
    /// How many did it.
    count: u64,
    /// When the first did it, in Unix milliseconds.
    created_at: Millis,
    /// When the last did it, in Unix milliseconds.
    updated_at: Millis,
    /// Whether it was read.
    read: bool,
    /// Whether it was seen.
    seen: bool,
}

/// The object of a notification.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
#[schemars(rename = "About")]
pub(crate) enum Subject {
    /// A post.
    Post {
        /// Its id.
        id: PostId,
    },
    /// A comment.
    Comment {
        /// Its id.
        id: CommentId,
        /// The post that it is under.
        post: PostId,
    },
}

/// A group with the people that its owner may see.
pub(crate) struct VisibleGroup {
    pub(crate) group: NotificationGroup,
    subject: Option<Subject>,
}

/// Renders notifications.
#[derive(Clone)]
pub(crate) struct NotificationRenderer {
    ledger: Arc<dyn Ledger>,
    visibility: Arc<VisibilityPolicy>,
    comments: Arc<CommentContexts>,
}

impl NotificationRenderer {
    /// A renderer that shows what this policy allows.
    pub(crate) fn new(
        ledger: Arc<dyn Ledger>,
        visibility: Arc<VisibilityPolicy>,
        comments: Arc<CommentContexts>,
    ) -> Self {
        Self { ledger, visibility, comments }
    }

    /// By notification, the members of the publication that pushes it as it is now. Notifications that have nothing to show any
    /// more are left out.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn render_updates(
        &self,
        by_owner: HashMap<UserId, HashSet<NotificationId>>,
    ) -> Result<HashMap<NotificationId, Bytes>> {
        #[derive(Serialize)]
        struct Update<'a> {
            r#type: &'static str,
            notification: &'a Notification,
        }
        let rendered = stream::iter(by_owner).map(|(user, ids)| async move {
            let ids: Vec<NotificationId> = ids.into_iter().collect();
            let groups = self.ledger.notifications_by_id(&user, &ids).await?;
            let members = |notification: &Notification| {
                Ok((notification.id, encode_data(&Update { r#type: "notification", notification })?))
            };
            self.render(&user, groups).await?.iter().map(members).collect::<Result<Vec<_>>>()
        });
        let rendered: Vec<Vec<_>> = rendered.buffer_unordered(MAX_CONCURRENT_USERS).try_collect().await?;
        Ok(rendered.into_iter().flatten().collect())
    }

    /// Groups of a user as the user may see them.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn render(&self, user: &UserId, groups: Vec<NotificationGroup>) -> Result<Vec<Notification>> {
        let visible = self.visible(user, groups).await?;
        self.with_people(visible).await
    }

    /// Those of a user's groups that still have something to show, without the people that the user may not see or has muted. The
    /// number of ledger calls does not depend on the number of groups.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn visible(&self, user: &UserId, groups: Vec<NotificationGroup>) -> Result<Vec<VisibleGroup>> {
        if groups.is_empty() {
            return Ok(Vec::new());
        }
        let subjects = self.subjects(user, groups.iter().filter_map(|group| group.what.object())).await?;
        let people: HashSet<UserId> = groups.iter().flat_map(|group| group.people.iter().cloned()).collect();
        let people = self.visibility.visible_users(Some(user), ViewContext::Unrequested, people).await?;
        let visible = |mut group: NotificationGroup| {
            let subject = match group.what.object() {
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

    /// Those of `objects` that exist and that the user may see, of comments with all their ancestors. Mutes do not apply: they are
    /// about who did something, not where.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn subjects(
        &self,
        user: &UserId,
        objects: impl Iterator<Item = Object> + Send,
    ) -> Result<HashMap<Object, Subject>> {
        let objects: HashSet<Object> = objects.collect();
        let ids: Vec<CommentId> = objects.iter().filter_map(|object| comment(*object)).collect();
        let comments = if ids.is_empty() { Vec::new() } else { self.ledger.comments(&ids).await? };
        let threads = self.comments.authors_in_threads(comments.iter().map(|comment| comment.parent)).await?;
        let above: HashSet<UserId> = threads.values().flatten().cloned().collect();
        let seen = self.visibility.visible_users(Some(user), ViewContext::Direct, above).await?;
        let thread = |comment: &Comment| comment.parent.and_then(|parent| threads.get(&parent)).into_iter().flatten();
        let is_seen = |comment: &Comment| thread(comment).all(|author| seen.contains(author));
        let existing = comments.iter().filter(|comment| comment.author.is_some() && is_seen(comment));
        let post_of: HashMap<CommentId, PostId> = existing.map(|comment| (comment.id, comment.post)).collect();
        let subject = |object: Object| match object {
            Object::Post(id) => Some(Subject::Post { id }),
            Object::Comment(id) => post_of.get(&id).map(|post| Subject::Comment { id, post: *post }),
        };
        let subjects: HashMap<Object, Subject> =
            objects.into_iter().filter_map(|object| Some((object, subject(object)?))).collect();
        let posts: HashSet<PostId> = subjects.values().map(|subject| subject.post()).collect();
        let posts = self.visibility.visible_posts(Some(user), ViewContext::Direct, posts).await?;
        Ok(subjects.into_iter().filter(|(_, subject)| posts.contains_key(&subject.post())).collect())
    }
}

/// The members of a publication with this `data`.
///
/// # Errors
/// [`FeedError::Internal`] if it cannot be encoded.
pub(crate) fn encode_data<T: Serialize>(data: &T) -> Result<Bytes> {
    let data = serde_json::to_string(data).map_err(|error| {
        tracing::error!(%error, "a notification could not be encoded");
        FeedError::Internal
    })?;
    Ok(format!(r#""data":{data}"#).into())
}

/// The members of the publication that removes a notification from a client.
pub(super) fn notification_removal(id: NotificationId) -> Bytes {
    format!(r#""data":{{"type":"notification.gone","id":{id}}}"#).into()
}

fn comment(object: Object) -> Option<CommentId> {
    match object {
        Object::Comment(id) => Some(id),
        Object::Post(_) => None,
    }
}

impl Subject {
    fn post(self) -> PostId {
        match self {
            Self::Post { id } => id,
            Self::Comment { post, .. } => post,
        }
    }
}

impl VisibleGroup {
    fn with_people(self, people: &BTreeMap<String, Person>) -> Notification {
        let Self { group, subject } = self;
        Notification {
            id: group.id,
            kind: group.what.kind(),
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
