//! Notifications as they are visible to their owner.
//!
//! Causes may end: a like is taken back, a comment is deleted, an edit takes a mention out; a post may no longer be
//! visible, and a user may be muted. All of this is checked when a notification is read or pushed. The groups lose
//! their people later (`feed/notifications/endings.rs`).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};

use super::people::load_people;
use crate::feed::error::Result;
use crate::feed::filters::{AppliedFilters, ContentFilter, FilterOutcome};
use crate::feed::runtime::now;
use crate::feed::visibility::{CommentContexts, ViewContext, VisibilityPolicy, visible_named_posts};
use crate::ledger::{Ledger, NotificationGroup};
use crate::model::{
    AppContent, AppNotification, ClientEvent, Comment, CommentId, ContentId, FilterContext, FilterId, Millis,
    Notification, NotificationId, NotificationKind, NotificationSubject, Person, PostId, UserId,
};

/// The maximal number of users of a group that are shown.
const MAX_SHOWN_PEOPLE: usize = 8;

/// The number of users whose notifications are rendered concurrently. It is low because notifications use the same
/// stores as posts and likes, and have the lowest priority.
const MAX_CONCURRENT_USERS: usize = 4;

/// A group, reduced to the people visible to its owner.
pub(crate) struct VisibleGroup {
    pub(crate) group: NotificationGroup,
    /// In a group of comments or replies, the newest visible one of the person who is named first.
    pub(crate) comment: Option<CommentId>,
    /// The newest visible one of all people. It is another one after the first person's newest was deleted.
    newest_comment: Option<CommentId>,
    /// How many of its people were removed.
    pub(crate) hidden: usize,
    /// The filters of its owner that mark it.
    filtered: BTreeSet<FilterId>,
    subject: Option<NotificationSubject>,
}

/// The objects of notifications that their owner may see.
pub(crate) struct VisibleSubjects {
    subjects: HashMap<ContentId, NotificationSubject>,
    /// The ones that mention the owner.
    mentioning: HashSet<ContentId>,
    /// Those that filters of the owner mark.
    marks: HashMap<ContentId, Vec<FilterId>>,
}

impl VisibleSubjects {
    /// Whether a notification of this kind still has its object.
    pub(crate) fn has(&self, kind: NotificationKind) -> bool {
        let object = |object| self.subjects.contains_key(&object);
        match kind {
            NotificationKind::Mention(by) => object(by) && self.mentioning.contains(&by),
            _ => kind.object().is_none_or(object),
        }
    }

    /// Removes what the filters of the owner hide, and marks what they mark. `outcome`: what the owner sees of it.
    fn filter(&mut self, outcome: impl Fn(ContentId) -> FilterOutcome) {
        let marks = &mut self.marks;
        self.subjects.retain(|object, _| match outcome(*object) {
            FilterOutcome::Shown => true,
            FilterOutcome::Marked(filters) => {
                marks.insert(*object, filters);
                true
            }
            FilterOutcome::Hidden => false,
        });
    }

    /// The filters that mark one of these objects, each once, in ascending order.
    fn marks_of(&self, objects: impl Iterator<Item = ContentId>) -> BTreeSet<FilterId> {
        objects.filter_map(|object| self.marks.get(&object)).flatten().copied().collect()
    }
}

/// A notification as it is published.
#[derive(Debug)]
pub(crate) struct RenderedNotification {
    /// The members of the publication.
    pub(super) members: Bytes,
    /// When it last grew, in Unix milliseconds.
    pub(super) updated_at: Millis,
}

/// Renders notifications. `wiring/mod.rs` sets the fields.
pub(crate) struct NotificationRenderer {
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) visibility: Arc<VisibilityPolicy>,
    pub(crate) comments: Arc<CommentContexts>,
    pub(crate) filter: Arc<ContentFilter>,
}

impl NotificationRenderer {
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
                let members = ClientEvent::Notification { notification }.encode();
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
        let comments = groups.iter().flat_map(|group| group.comments.values().flatten());
        let objects = groups.iter().filter_map(|group| group.kind.object());
        let filters = self.filter.of(Some(user)).await?;
        let objects = objects.chain(comments.map(|id| ContentId::Comment(*id)));
        let subjects = self.subjects(user, objects, filters.as_ref()).await?;
        let people: HashSet<UserId> = groups.iter().flat_map(|group| group.people.iter().cloned()).collect();
        let people = self.visibility.visible_users(Some(user), ViewContext::Unrequested, people).await?;
        let acts = groups.iter().flat_map(|group| group.people.iter().map(|person| (group.kind, person.clone())));
        let ended = self.taken_back(user, acts.collect()).await?;
        let visible = |mut group: NotificationGroup| {
            if !subjects.has(group.kind) {
                return None;
            }
            let subject = group.kind.object().and_then(|object| subjects.subjects.get(&object).copied());
            let comment_of = |person: &UserId| {
                let is_visible = |id: &&CommentId| subjects.subjects.contains_key(&ContentId::Comment(**id));
                group.comments.get(person).map(|comments| comments.iter().find(is_visible).copied())
            };
            // What a hidden user's notification says is hidden with the user.
            let says = |content: &AppNotification| content.from.as_ref().is_none_or(|from| people.contains(from));
            if matches!(group.kind, NotificationKind::App(_)) && !group.content.as_ref().is_some_and(says) {
                return None;
            }
            let outcome = filters.as_ref().zip(group.content.as_ref());
            let outcome = outcome.map(|(filters, content)| filters.app_notification(content));
            if outcome == Some(FilterOutcome::Hidden) {
                return None;
            }
            let all = group.people.len();
            let mut shown = std::mem::take(&mut group.people);
            shown.retain(|person| {
                let has_comment = comment_of(person).is_none_or(|comment| comment.is_some());
                people.contains(person) && has_comment && !ended.contains(&(group.kind, person.clone()))
            });
            let hidden = all - shown.len();
            let comment = shown.first().and_then(comment_of).flatten();
            let newest_comment = shown.iter().filter_map(comment_of).flatten().max();
            group.count = group.count.saturating_sub(hidden as u64);
            if shown.is_empty() {
                return None;
            }
            let comments = shown.iter().filter_map(comment_of).flatten().map(ContentId::Comment);
            let mut filtered = subjects.marks_of(comments.chain(group.kind.object()));
            if let Some(FilterOutcome::Marked(filters)) = outcome {
                filtered.extend(filters);
            }
            // What the application notifies of itself is by its recipient, who is not named.
            let named = shown.len();
            shown.retain(|person| person != user);
            group.count = group.count.saturating_sub((named - shown.len()) as u64);
            shown.truncate(MAX_SHOWN_PEOPLE);
            group.people = shown;
            Some(VisibleGroup { group, comment, newest_comment, hidden, filtered, subject })
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
    /// apply: they concern the acting user, not the object. `filters`: those of the user that apply.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn subjects(
        &self,
        user: &UserId,
        objects: impl Iterator<Item = ContentId> + Send,
        filters: Option<&AppliedFilters>,
    ) -> Result<VisibleSubjects> {
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
        let mut subjects: HashMap<ContentId, NotificationSubject> =
            objects.into_iter().filter_map(|object| Some((object, subject(object)?))).collect();
        let posts: HashSet<PostId> = subjects.values().map(|subject| subject.post()).collect();
        let posts = self.visibility.visible_posts(Some(user), ViewContext::Direct, posts).await?;
        subjects.retain(|_, subject| posts.contains_key(&subject.post()));
        let in_posts = posts.values().filter(|cached| cached.post.mentions.contains(user));
        let in_comments = comments.iter().filter(|comment| comment.mentions.contains(user));
        let mentioning = in_posts.map(|cached| ContentId::Post(cached.post.id));
        let mentioning = mentioning.chain(in_comments.map(|comment| ContentId::Comment(comment.id))).collect();
        let mut visible = VisibleSubjects { subjects, mentioning, marks: HashMap::new() };
        if let Some(filters) = filters {
            let named = visible_named_posts(&self.visibility, Some(user), posts.values()).await?;
            let find = |post| named.get(&post).map(|cached| &**cached);
            let comments: HashMap<CommentId, &Comment> = comments.iter().map(|it| (it.id, it)).collect();
            visible.filter(|object| {
                let outcome = match object {
                    ContentId::Post(id) => {
                        posts.get(&id).map(|cached| filters.post(cached, find, FilterContext::Notifications))
                    }
                    ContentId::Comment(id) => {
                        comments.get(&id).map(|comment| filters.comment(comment, FilterContext::Notifications))
                    }
                };
                outcome.unwrap_or(FilterOutcome::Shown)
            });
        }
        Ok(visible)
    }

    /// The likes, reposts, follows and requests among these actions that were taken back or answered. Up to two ledger
    /// calls, and one each for reposts and requests.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn taken_back(
        &self,
        user: &UserId,
        mut actions: HashSet<(NotificationKind, UserId)>,
    ) -> Result<HashSet<(NotificationKind, UserId)>> {
        let mut likes = Vec::new();
        let mut reposts = Vec::new();
        let mut followers = HashSet::new();
        let mut accepted_by = HashSet::new();
        let mut requests = HashSet::new();
        for (kind, person) in &actions {
            match kind {
                NotificationKind::Like(object) => likes.push((*object, person.clone())),
                NotificationKind::Follow => drop(followers.insert(person.clone())),
                NotificationKind::Accepted => drop(accepted_by.insert(person.clone())),
                NotificationKind::Request => drop(requests.insert(person.clone())),
                NotificationKind::Repost(post) => reposts.push((*post, person.clone())),
                NotificationKind::Comment(_)
                | NotificationKind::Reply(_)
                | NotificationKind::Mention(_)
                | NotificationKind::Quote(_)
                | NotificationKind::App(_) => {}
            }
        }
        let likes = if likes.is_empty() { likes } else { self.ledger.likes_among(&likes).await? };
        let likes: HashSet<(ContentId, UserId)> = likes.into_iter().collect();
        let mut reposts: HashMap<(PostId, UserId), PostId> = if reposts.is_empty() {
            HashMap::new()
        } else {
            self.ledger.reposted_among(&reposts).await?.into_iter().collect()
        };
        if !reposts.is_empty() {
            // The user may not see all of them any more.
            let ids: Vec<PostId> = reposts.values().copied().collect();
            let visible = self.visibility.visible_posts(Some(user), ViewContext::Direct, ids).await?;
            reposts.retain(|_, repost| visible.contains_key(repost));
        }
        let followers = self.visibility.followers_among(user, followers).await?;
        let accepted_by = self.visibility.followees_among(user, accepted_by).await?;
        let requests: HashSet<UserId> = if requests.is_empty() {
            requests
        } else {
            let asking: Vec<UserId> = requests.into_iter().collect();
            self.ledger.requests_among(user, &asking, now()).await?.into_iter().collect()
        };
        actions.retain(|(kind, person)| match kind {
            NotificationKind::Like(object) => !likes.contains(&(*object, person.clone())),
            NotificationKind::Follow => !followers.contains(person),
            NotificationKind::Accepted => !accepted_by.contains(person),
            NotificationKind::Request => !requests.contains(person),
            NotificationKind::Repost(post) => !reposts.contains_key(&(*post, person.clone())),
            NotificationKind::Comment(_)
            | NotificationKind::Reply(_)
            | NotificationKind::Mention(_)
            | NotificationKind::Quote(_)
            | NotificationKind::App(_) => false,
        });
        Ok(actions)
    }
}

/// The name of the kind as clients receive it.
pub(crate) fn public_kind(group: &NotificationGroup) -> Cow<'static, str> {
    match &group.content {
        Some(content) => Cow::Owned(content.kind.clone()),
        None => Cow::Borrowed(group.kind.name()),
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
        let Self { group, newest_comment, subject, filtered, .. } = self;
        Notification {
            id: group.id,
            position: group.position,
            kind: public_kind(&group),
            content: group.content.map(AppContent::from),
            object: subject,
            comment: newest_comment,
            people: group.people.iter().filter_map(|person| people.get(person.as_str()).cloned()).collect(),
            count: group.count,
            filtered: filtered.into_iter().collect(),
            created_at: group.created_at,
            updated_at: group.updated_at,
            read: group.read,
            seen: group.seen,
        }
    }
}
