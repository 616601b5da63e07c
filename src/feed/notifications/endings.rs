//! Causes of notifications that end: a like is taken back, a comment or post is deleted, an edit takes a mention out, a
//! post or person may no longer be seen.
//!
//! Lists and pushes check the causes themselves (`feed/rendering/notification_rendering.rs`). Here the groups lose
//! their people, the sockets of the owner learn of it, and the devices that were sent a push get a clear. All of this
//! may be repeated: a person who has left a group stays in the store, so a repeated call returns the same groups.

use std::collections::{HashMap, HashSet};

use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::Notifications;
use crate::broker::Invalidation;
use crate::feed::error::Result;
use crate::feed::event_queue::PendingEvent;
use crate::feed::invalidation::Invalidated as _;
use crate::feed::pushes::ending_plan;
use crate::feed::visibility::ViewContext;
use crate::ledger::EndedNotification;
use crate::model::{
    CommentId, ContentId, DomainEvent, Entry, NewLikes, NotificationId, NotificationKind, PostId, UserId,
};

/// The groups about comments under a post that are looked at when the post may no longer be seen by all.
const MAX_GROUPS_UNDER_POST: usize = 2_000;

/// The groups of a user that are looked at when a person may no longer be seen.
const MAX_GROUPS_WITH_PERSON: usize = 100;

/// The causes that a call ends. Together with the groups of each it is a write of bounded length.
const MAX_ENDED: usize = 200;

/// Owners whose groups are read concurrently: a post may have comments of thousands.
const MAX_CONCURRENT_OWNERS: usize = 8;

/// The groups of one owner.
type Group = (UserId, NotificationId);

/// What ended in a batch.
#[derive(Default)]
struct Endings {
    /// People who leave their groups.
    ended: Vec<EndedNotification>,
    /// Kinds of groups that may not be visible any more.
    hidden: Vec<EndedNotification>,
    /// Posts whose comments may not be visible any more.
    posts: HashSet<PostId>,
    /// Pairs of an owner and a person that may not be visible any more.
    people: HashSet<(UserId, UserId)>,
}

impl Notifications {
    /// Ends what the events of a batch end, after its new notifications were recorded. What has begun again meanwhile
    /// stays.
    ///
    /// # Errors
    /// If the ledger cannot be reached: the batch is repeated.
    pub(super) async fn end(&self, batch: &[PendingEvent]) -> Result<()> {
        let mut endings = Endings::default();
        batch.iter().for_each(|pending| endings.add(&pending.event));
        self.add_comments(batch, &mut endings).await?;
        self.add_likes(batch, &mut endings).await?;
        self.add_reposts(batch, &mut endings).await?;
        self.omit_renewed(&mut endings.ended).await?;
        for ended in endings.ended.chunks(MAX_ENDED) {
            let groups = self.base.ledger.end_notifications(ended).await?;
            self.publish_endings(groups).await?;
        }
        let mut groups: HashSet<Group> = HashSet::new();
        for hidden in endings.hidden.chunks(MAX_ENDED) {
            groups.extend(self.base.ledger.end_notifications(hidden).await?);
        }
        for post in endings.posts {
            groups.extend(self.base.ledger.notifications_under(post, MAX_GROUPS_UNDER_POST).await?);
        }
        self.publish_endings(self.invisible(groups).await?).await?;
        let mut groups: HashSet<Group> = HashSet::new();
        for (owner, person) in &endings.people {
            let by = self.base.ledger.notifications_by(owner, person, MAX_GROUPS_WITH_PERSON).await?;
            groups.extend(by.into_iter().map(|id| (owner.clone(), id)));
        }
        // Sockets are not informed: these may be as many groups as their log keeps.
        self.clear(&self.invisible(groups).await?).await?;
        self.clear_alerts(endings.people).await
    }

    /// Announces groups that have changed to the sockets of their owners, and to devices that were sent a push of them.
    ///
    /// # Errors
    /// If the ledger cannot be reached.
    pub(crate) async fn publish_endings(&self, groups: impl IntoIterator<Item = Group> + Send) -> Result<()> {
        let groups: Vec<Group> = groups.into_iter().collect();
        if groups.is_empty() {
            return Ok(());
        }
        self.clear(&groups).await?;
        let pushes = groups.into_iter().map(|(owner, id)| self.push_change(owner, id));
        stream::iter(pushes).buffer_unordered(MAX_CONCURRENT_OWNERS).collect::<()>().await;
        Ok(())
    }

    async fn push_change(&self, owner: UserId, id: NotificationId) {
        if let Err(error) = self.push(&owner, &Entry::NotificationChanged(id)).await {
            tracing::warn!(%error, user = %owner, "a notification has changed, the user's sockets do not know");
        }
    }

    /// Clears the pushes of groups.
    async fn clear(&self, groups: &[Group]) -> Result<()> {
        if self.pushes().is_none() {
            return Ok(());
        }
        for groups in groups.chunks(MAX_ENDED) {
            let items: Vec<(UserId, u64)> = groups.iter().map(|(owner, id)| (owner.clone(), id.0)).collect();
            self.base.ledger.clear_pushes(&items, &ending_plan()).await?;
        }
        Ok(())
    }

    /// Drops what this node keeps of the objects of an event: another one may have made the change, and this one may
    /// not have been informed of it yet.
    pub(super) fn drop_cached(&self, event: &DomainEvent) {
        let relation = |one: &UserId, other: &UserId| {
            self.base.relations.apply(&Invalidation::Relation(one.clone(), other.clone()));
        };
        match event {
            DomainEvent::PostEdited { post, .. } | DomainEvent::PostDeleted { post, .. } => {
                self.base.posts.invalidate(*post);
            }
            DomainEvent::CommentDeleted { comment, .. } => self.base.contexts.invalidate(*comment),
            DomainEvent::Followed { follower, followee }
            | DomainEvent::FollowAccepted { follower, followee }
            | DomainEvent::Unfollowed { follower, followee } => {
                relation(follower, followee);
            }
            DomainEvent::Restricted { maker, target } => relation(maker, target),
            _ => {}
        }
    }

    /// The ends of comments: their authors leave the groups of the post's author and of the user that they replied to.
    async fn add_comments(&self, batch: &[PendingEvent], endings: &mut Endings) -> Result<()> {
        let deleted = batch.iter().filter_map(|pending| match &pending.event {
            DomainEvent::CommentDeleted { comment, post, reply_to, author, .. } => {
                Some((*comment, *post, *reply_to, author))
            }
            _ => None,
        });
        let deleted: Vec<(CommentId, PostId, Option<CommentId>, &UserId)> = deleted.collect();
        if deleted.is_empty() {
            return Ok(());
        }
        let parents: Vec<CommentId> = deleted.iter().filter_map(|(_, _, reply_to, _)| *reply_to).collect();
        let parents = self.base.contexts.get(parents.into_iter()).await?;
        let posts: Vec<PostId> = deleted.iter().map(|(_, post, ..)| *post).collect();
        let posts = self.base.posts.get(posts).await?;
        for (comment, post, reply_to, author) in deleted {
            let parent = reply_to.and_then(|id| Some((&parents.get(&id)?.author, NotificationKind::Reply(id))));
            let commented = posts.get(&post).map(|cached| (&cached.post.author, NotificationKind::Comment(post)));
            for (to, kind) in parent.into_iter().chain(commented) {
                endings.ended.push(EndedNotification { comment: Some(comment), ..ended(to, kind, author) });
            }
        }
        Ok(())
    }

    /// The ends of likes: the people leave the groups of the authors.
    async fn add_likes(&self, batch: &[PendingEvent], endings: &mut Endings) -> Result<()> {
        let likes: Vec<&NewLikes> = batch.iter().flat_map(|pending| unliked(&pending.event)).collect();
        if likes.is_empty() {
            return Ok(());
        }
        let comments = likes.iter().filter_map(|likes| match likes.object {
            ContentId::Comment(id) => Some(id),
            ContentId::Post(_) => None,
        });
        let comments = self.base.contexts.get(comments.collect::<Vec<_>>().into_iter()).await?;
        let posts = likes.iter().filter_map(|likes| match likes.object {
            ContentId::Post(id) => Some(id),
            ContentId::Comment(_) => None,
        });
        let posts = self.base.posts.get(posts.collect::<Vec<_>>()).await?;
        for NewLikes { object, by } in likes {
            let author = match object {
                ContentId::Post(id) => posts.get(id).map(|cached| &cached.post.author),
                ContentId::Comment(id) => comments.get(id).map(|context| &context.author),
            };
            let kind = NotificationKind::Like(*object);
            let others = author.map(|author| by.iter().filter(move |by| *by != author));
            endings.ended.extend(others.into_iter().flatten().filter_map(|by| Some(ended(author?, kind, by))));
        }
        Ok(())
    }

    /// The ends of reposts and quotes: their authors leave the groups of the authors of the posts. Of those that the
    /// backend removed, and may restore, and of those with another audience, the groups are checked again.
    async fn add_reposts(&self, batch: &[PendingEvent], endings: &mut Endings) -> Result<()> {
        let deleted = batch.iter().filter_map(|pending| match &pending.event {
            DomainEvent::PostDeleted { author, repost: Some(repost), .. } => {
                Some((*repost, NotificationKind::Repost(*repost), author))
            }
            DomainEvent::PostDeleted { post, author, quote: Some(quote), .. } => {
                Some((*quote, NotificationKind::Quote(*post), author))
            }
            _ => None,
        });
        let deleted: Vec<(PostId, NotificationKind, &UserId)> = deleted.collect();
        let changed = batch.iter().filter_map(|pending| match &pending.event {
            DomainEvent::PostRemoved { post, .. } | DomainEvent::PostEdited { post, still_mentioned: Some(_), .. } => {
                Some(*post)
            }
            _ => None,
        });
        let naming = self.base.posts.get(changed.collect::<Vec<_>>()).await?;
        let checked = naming.values().filter_map(|cached| {
            let repost = cached.post.repost.map(|post| (post, NotificationKind::Repost(post)));
            repost.or_else(|| Some((cached.post.quote?, NotificationKind::Quote(cached.post.id))))
        });
        let checked: Vec<(PostId, NotificationKind)> = checked.collect();
        let named = deleted.iter().map(|(post, ..)| *post).chain(checked.iter().map(|(post, _)| *post));
        let posts = self.base.posts.get(named.collect::<Vec<_>>()).await?;
        let author_of = |post: PostId| posts.get(&post).map(|cached| &cached.post.author);
        let ends = deleted.into_iter().filter_map(|(post, kind, by)| Some(ended(author_of(post)?, kind, by)));
        endings.ended.extend(ends);
        endings.hidden.extend(checked.into_iter().filter_map(|(post, kind)| {
            Some(EndedNotification { to: author_of(post)?.clone(), kind, by: None, comment: None })
        }));
        Ok(())
    }

    /// Omits likes and follows that exist again, and mentions that an edit put in again.
    async fn omit_renewed(&self, ended: &mut Vec<EndedNotification>) -> Result<()> {
        let mut by_owner: HashMap<UserId, HashSet<(NotificationKind, UserId)>> = HashMap::new();
        for cause in ended.iter() {
            if let Some(by) = &cause.by {
                by_owner.entry(cause.to.clone()).or_default().insert((cause.kind, by.clone()));
            }
        }
        let mut again: HashSet<(UserId, NotificationKind, UserId)> = HashSet::new();
        for (owner, actions) in by_owner {
            let gone = self.base.notification_renderer.taken_back(&owner, actions.clone()).await?;
            let mentions = actions.iter().filter(|(kind, _)| matches!(kind, NotificationKind::Mention(_)));
            let objects: Vec<ContentId> = mentions.filter_map(|(kind, _)| kind.object()).collect();
            let subjects = self.base.notification_renderer.subjects(&owner, objects.into_iter(), None).await?;
            again.extend(actions.into_iter().filter_map(|(kind, by)| {
                let exists = match kind {
                    NotificationKind::Like(_)
                    | NotificationKind::Follow
                    | NotificationKind::Request
                    | NotificationKind::Accepted
                    | NotificationKind::Repost(_) => !gone.contains(&(kind, by.clone())),
                    NotificationKind::Mention(_) => subjects.has(kind),
                    NotificationKind::Comment(_)
                    | NotificationKind::Reply(_)
                    | NotificationKind::Quote(_)
                    | NotificationKind::App(_) => false,
                };
                exists.then(|| (owner.clone(), kind, by))
            }));
        }
        ended.retain(|cause| {
            let by = cause.by.clone();
            by.is_none_or(|by| !again.contains(&(cause.to.clone(), cause.kind, by)))
        });
        Ok(())
    }

    /// The groups among these that their owners may not see any more, or not all of their people.
    async fn invisible(&self, groups: HashSet<Group>) -> Result<Vec<Group>> {
        let mut by_owner: HashMap<UserId, Vec<NotificationId>> = HashMap::new();
        for (owner, id) in groups {
            by_owner.entry(owner).or_default().push(id);
        }
        let of_owners = by_owner.into_iter().map(|(owner, ids)| self.invisible_of(owner, ids));
        let of_owners = stream::iter(of_owners).buffer_unordered(MAX_CONCURRENT_OWNERS);
        Ok(of_owners.try_collect::<Vec<_>>().await?.into_iter().flatten().collect())
    }

    /// The same for one owner.
    async fn invisible_of(&self, owner: UserId, ids: Vec<NotificationId>) -> Result<Vec<Group>> {
        let all = self.base.ledger.notifications_by_id(&owner, &ids).await?;
        let visible = self.base.notification_renderer.visible(&owner, all).await?;
        let intact = visible.iter().filter(|visible| visible.hidden == 0);
        let intact: HashSet<NotificationId> = intact.map(|visible| visible.group.id).collect();
        Ok(ids.into_iter().filter(|id| !intact.contains(id)).map(|id| (owner.clone(), id)).collect())
    }

    /// Clears alerts about posts of authors that their readers may not see any more.
    async fn clear_alerts(&self, pairs: HashSet<(UserId, UserId)>) -> Result<()> {
        if self.pushes().is_none() {
            return Ok(());
        }
        let mut items = Vec::new();
        for (reader, author) in pairs {
            let sent = self.base.ledger.sent_alerts(&reader, PostId::ZERO, MAX_GROUPS_WITH_PERSON).await?;
            let posts = self.base.posts.get(sent.iter().copied()).await?;
            let visible = self.base.visibility.visible_posts(Some(&reader), ViewContext::Unrequested, sent).await?;
            let hidden = posts.values().map(|cached| &cached.post);
            let hidden = hidden.filter(|post| post.author == author && !visible.contains_key(&post.id));
            items.extend(hidden.map(|post| (reader.clone(), post.id.0)));
        }
        if items.is_empty() { Ok(()) } else { Ok(self.base.ledger.clear_pushes(&items, &ending_plan()).await?) }
    }
}

impl Endings {
    /// Adds what the event itself says.
    fn add(&mut self, event: &DomainEvent) {
        let mut recheck = |to: &UserId, kind| {
            self.hidden.push(EndedNotification { to: to.clone(), kind, by: None, comment: None });
        };
        match event {
            DomainEvent::PostEdited { post, author, unmentioned, still_mentioned, .. } => {
                let kind = NotificationKind::Mention(ContentId::Post(*post));
                if let Some(mentioned) = still_mentioned {
                    mentioned.iter().for_each(|to| recheck(to, kind));
                    self.posts.insert(*post);
                }
                self.unmention(unmentioned, kind, author);
            }
            DomainEvent::CommentEdited { comment, author, unmentioned, .. } => {
                self.unmention(unmentioned, NotificationKind::Mention(ContentId::Comment(*comment)), author);
            }
            DomainEvent::PostDeleted { post, author, mentions, .. }
            | DomainEvent::PostRemoved { post, author, mentions } => {
                let object = ContentId::Post(*post);
                mentions.iter().for_each(|to| recheck(to, NotificationKind::Mention(object)));
                recheck(author, NotificationKind::Like(object));
                recheck(author, NotificationKind::Comment(*post));
                recheck(author, NotificationKind::Repost(*post));
                self.posts.insert(*post);
            }
            DomainEvent::CommentDeleted { comment, author, mentions, .. }
            | DomainEvent::CommentRemoved { comment, author, mentions, .. } => {
                let object = ContentId::Comment(*comment);
                mentions.iter().for_each(|to| recheck(to, NotificationKind::Mention(object)));
                recheck(author, NotificationKind::Like(object));
                recheck(author, NotificationKind::Reply(*comment));
            }
            DomainEvent::Unfollowed { follower, followee } => {
                self.ended.push(ended(followee, NotificationKind::Follow, follower));
                self.ended.push(ended(follower, NotificationKind::Accepted, followee));
                self.people.insert((follower.clone(), followee.clone()));
            }
            DomainEvent::FollowRequestEnded { follower, followee }
            | DomainEvent::FollowAccepted { follower, followee } => {
                self.ended.push(ended(followee, NotificationKind::Request, follower));
            }
            DomainEvent::Restricted { maker, target } => {
                self.people.insert((maker.clone(), target.clone()));
                self.people.insert((target.clone(), maker.clone()));
            }
            _ => {}
        }
    }

    fn unmention(&mut self, unmentioned: &[UserId], kind: NotificationKind, author: &UserId) {
        self.ended.extend(unmentioned.iter().map(|to| ended(to, kind, author)));
    }
}

/// A person did this, and it has ended.
fn ended(to: &UserId, kind: NotificationKind, by: &UserId) -> EndedNotification {
    EndedNotification { to: to.clone(), kind, by: Some(by.clone()), comment: None }
}

fn unliked(event: &DomainEvent) -> &[NewLikes] {
    match event {
        DomainEvent::Unliked { likes } => likes,
        _ => &[],
    }
}
