//! Log entries as publications, and their recipients.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use foldhash::fast::RandomState;

use super::comment_rendering::EncodedComments;
use super::notification_rendering::RenderedNotification;
use crate::feed::content::{CachedPost, PostEventKind, PostMap};
use crate::feed::visibility::{AccessContext, RelationMap, ViewContext};
use crate::model::{
    DeliveredNotification, Entry, Event, GoneReason, NotificationId, PostId, PostRemoved, Relation, Standing, UserId,
    Visibility,
};

/// The audience of a channel. It determines the recipients of each entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Only this user: the channel is the user's timeline.
    Timeline(UserId),
    /// The subscribers of an author's profile.
    Profile,
    /// The subscribers of a topic.
    Topic(Arc<str>),
    /// The subscribers of a post: comments and counts.
    Post(PostId),
    /// Only this user: the channel has the user's notifications.
    Notifications(UserId),
    /// Application data: every subscriber receives every entry.
    Plain,
}

impl Audience {
    /// Whether every subscriber receives every entry: the channel has one reader, or no rules.
    pub fn is_unconditional(&self) -> bool {
        matches!(self, Self::Plain | Self::Timeline(_) | Self::Notifications(_))
    }

    /// The owner of a timeline.
    pub(super) fn owner(&self) -> Option<&UserId> {
        match self {
            Self::Timeline(owner) => Some(owner),
            _ => None,
        }
    }
}

/// The reader of a log.
#[derive(Clone, Copy, Debug)]
pub enum Viewer<'a> {
    /// The application's backend, which receives everything.
    Backend,
    /// The user of a client; `None`: an anonymous client.
    Client(Option<&'a UserId>),
}

/// The data for rendering some entries.
#[derive(Debug)]
pub struct RenderContext {
    pub(super) posts: PostMap<Arc<CachedPost>>,
    /// The members of publications that show a post, encoded once for all recipients.
    pub(super) pushes: Encoded,
    /// As `pushes`, for the author's own timeline, if that differs.
    pub(super) pushes_to_author: Encoded,
    /// The members of publications that show a comment.
    pub(super) comments: EncodedComments,
    /// Notifications with visible content.
    pub(super) notifications: HashMap<NotificationId, RenderedNotification>,
    /// Authors whose public posts are not visible to all readers.
    pub(super) closed: HashSet<UserId>,
    /// The ones among them with restrictions: other content of theirs is not visible to all readers, either.
    pub(super) restricted: HashSet<UserId>,
    pub(super) relations: RelationMap,
    /// Authors whose posts are all public and visible to all readers of the timeline entries: their relations are not
    /// loaded.
    pub(super) seen_by_readers: HashSet<UserId, RandomState>,
    /// The relations of anonymous readers to closed authors.
    pub(super) strangers: HashMap<UserId, Relation>,
    /// Erased users among the authors of the entries.
    pub(super) erased: HashSet<UserId>,
    /// The number of invalidations that this node had applied when the context was prepared; see
    /// `EventRenderer::is_current`.
    pub(super) invalidations: u64,
    pub(super) since: Instant,
}

/// A rendered entry, and the conditions for its recipients.
#[derive(Debug)]
pub struct RenderedEvent<'a> {
    /// The members of the publication, as JSON text.
    pub members: Bytes,
    /// Whether every subscriber may receive it.
    pub is_public: bool,
    view: ViewContext,
    /// The conditions that a recipient must all meet.
    conditions: Vec<Condition<'a>>,
}

/// A user or post that a recipient must, or must not, be able to see.
#[derive(Clone, Copy, Debug)]
struct Condition<'a> {
    author: &'a UserId,
    /// The visibility of a post of the author; `None`: only the author must be visible.
    visibility: Option<&'a Visibility>,
    must_see: bool,
}

impl<'a> Condition<'a> {
    fn sees(cached: &'a CachedPost) -> Self {
        Self { author: &cached.post.author, visibility: Some(&cached.post.visibility), must_see: true }
    }
}

impl RenderedEvent<'_> {
    /// The users whose relations to a reader decide about the delivery.
    pub fn authors(&self) -> impl Iterator<Item = &UserId> {
        self.conditions.iter().map(|condition| condition.author)
    }
}

impl RenderContext {
    /// Renders an entry; `None` if it has no recipients.
    pub fn render<'a>(&'a self, audience: &Audience, entry: &'a Entry) -> Option<RenderedEvent<'a>> {
        let members = self.members(audience, entry)?;
        let view = if matches!(audience, Audience::Topic(_)) { ViewContext::Discovery } else { ViewContext::Direct };
        let conditions = if audience.is_unconditional() { Vec::new() } else { self.conditions(audience, entry)? };
        let is_public = conditions.iter().all(|it| {
            it.must_see
                && match it.visibility {
                    Some(visibility) => *visibility == Visibility::Public && !self.closed.contains(it.author),
                    None => !self.restricted.contains(it.author),
                }
        });
        Some(RenderedEvent { members, is_public, view, conditions })
    }

    /// The state of a notification that an entry delivers to its owner.
    pub(crate) fn delivered_notification(&self, audience: &Audience, entry: &Entry) -> Option<DeliveredNotification> {
        let (Audience::Notifications(user), Entry::NotificationChanged(id)) = (audience, entry) else { return None };
        let updated_at = self.notifications.get(id)?.updated_at;
        Some(DeliveredNotification { user: user.clone(), id: *id, updated_at })
    }

    fn members(&self, audience: &Audience, entry: &Entry) -> Option<Bytes> {
        match entry {
            Entry::Data(members) | Entry::Restricted(_, members) => Some(members.clone()),
            Entry::Comment(changed) => self.comments.get(&(changed.comment, changed.is_edit)).cloned(),
            Entry::NotificationChanged(id) => Some(match self.notifications.get(id) {
                Some(rendered) => rendered.members.clone(),
                None => Event::NotificationGone { id: *id }.encode(),
            }),
            Entry::Gone(id, reason) => Some(gone(*id, *reason)),
            Entry::PostRemoved(left) => Some(gone(left.post, left.reason)),
            Entry::AuthorGone(id) if let Some(author) = self.suspended_author(audience, *id) => {
                Some(Event::AuthorGone { author, reason: GoneReason::Hidden }.encode())
            }
            // If the author is not suspended any more, the entry changes nothing: it shows a post that is there.
            Entry::Post(id) | Entry::Edited(id) | Entry::AuthorGone(id) => match (self.posts.get(id), audience) {
                (None, Audience::Timeline(_)) => Some(gone(*id, GoneReason::Deleted)),
                (None, _) => None,
                (Some(cached), Audience::Timeline(reader)) if !self.is_visible_in_timeline(cached, reader) => {
                    Some(gone(*id, GoneReason::Hidden))
                }
                (Some(cached), _) => {
                    let key = (*id, post_kind(entry)?);
                    let own = self.pushes_to_author.get(&key).filter(|_| is_for_author(audience, cached));
                    own.or_else(|| self.pushes.get(&key)).cloned()
                }
            },
        }
    }

    /// The author of a post, if the author is suspended and another user's timeline has the post.
    fn suspended_author(&self, audience: &Audience, post: PostId) -> Option<&UserId> {
        let reader = audience.owner()?;
        let author = &self.posts.get(&post)?.post.author;
        let standing = self.relations.get(reader, author)?.standing;
        (author != reader && standing == Standing::Suspended).then_some(author)
    }

    /// The reader and the author, if an entry concerns a post that its reader may not see.
    pub(super) fn hidden(&self, audience: &Audience, entry: &Entry) -> Option<(UserId, UserId)> {
        let reader = audience.owner()?;
        post_kind(entry)?;
        let cached = self.posts.get(&entry.post()?).filter(|cached| !self.is_visible_in_timeline(cached, reader))?;
        Some((reader.clone(), cached.post.author.clone()))
    }

    fn is_visible_in_timeline(&self, cached: &CachedPost, reader: &UserId) -> bool {
        let author = &cached.post.author;
        if self.seen_by_readers.contains(author) {
            return true;
        }
        let relation = self.relations.get(reader, author).unwrap_or_default();
        AccessContext { reader: Some(reader), relation, view: ViewContext::Timeline }
            .can_see(author, &cached.post.visibility)
    }

    /// The conditions for the recipients of an entry on a shared channel.
    fn conditions<'a>(&'a self, audience: &Audience, entry: &'a Entry) -> Option<Vec<Condition<'a>>> {
        let mut conditions = Vec::new();
        // Only readers that may see the post receive its events.
        if let (Audience::Post(id), Entry::Data(_) | Entry::Comment(_) | Entry::Restricted(..)) = (audience, entry) {
            conditions.push(Condition::sees(self.posts.get(id)?));
        }
        match entry {
            Entry::Data(_) | Entry::Gone(..) | Entry::NotificationChanged(_) => {}
            // Only timelines have it.
            Entry::AuthorGone(_) => return None,
            Entry::Comment(_) | Entry::Restricted(..) => {
                let people = people_above(entry);
                if people.iter().any(|person| self.erased.contains(person)) {
                    return None;
                }
                // Users without restrictions are visible to every reader.
                let restricted = people.iter().filter(|person| self.restricted.contains(*person));
                conditions.extend(restricted.map(|author| Condition { author, visibility: None, must_see: true }));
            }
            Entry::Post(id) | Entry::Edited(id) => conditions.push(Condition::sees(self.posts.get(id)?)),
            Entry::PostRemoved(left) => {
                let PostRemoved { author, visibility, .. } = &**left;
                conditions.push(Condition { author, visibility: Some(visibility), must_see: true });
                // Readers that may still see the post keep it, unless it left the topic.
                let stays = |cached: &&Arc<CachedPost>| match audience {
                    Audience::Topic(name) => cached.post.topics.iter().any(|topic| **topic == **name),
                    _ => true,
                };
                if let Some(cached) = self.posts.get(&left.post).filter(stays) {
                    conditions.push(Condition { must_see: false, ..Condition::sees(cached) });
                }
            }
        }
        Some(conditions)
    }

    /// Whether a reader (`None`: an anonymous client) may receive it. `None` if the reader's relations were not loaded.
    pub fn can_receive(&self, rendered: &RenderedEvent<'_>, reader: Option<&UserId>) -> Option<bool> {
        for condition in &rendered.conditions {
            let Condition { author, visibility, must_see } = *condition;
            let relation = match reader {
                Some(reader) if reader != author => self.relations.get(reader, author)?,
                _ => self.strangers.get(author).copied().unwrap_or_default(),
            };
            let access = AccessContext { reader, relation, view: rendered.view };
            let sees =
                visibility.map_or_else(|| access.can_see_user(author), |visibility| access.can_see(author, visibility));
            if sees != must_see {
                return Some(false);
            }
        }
        Some(true)
    }
}

/// Publication members by post and kind.
pub(super) type Encoded = HashMap<(PostId, PostEventKind), Bytes, RandomState>;

/// The members of the publication that removes a post from a client.
fn gone(id: PostId, reason: GoneReason) -> Bytes {
    Event::PostGone { id, reason }.encode()
}

/// Whether only the author of a post receives it on a channel: the timeline is the author's own, or the post is
/// removed.
pub(super) fn is_for_author(audience: &Audience, cached: &CachedPost) -> bool {
    audience.owner() == Some(&cached.post.author) || cached.post.removed.is_some()
}

/// The kind of event of an entry that shows a post.
pub(super) fn post_kind(entry: &Entry) -> Option<PostEventKind> {
    match entry {
        Entry::Post(_) => Some(PostEventKind::Created),
        Entry::Edited(_) | Entry::AuthorGone(_) => Some(PostEventKind::Edited),
        _ => None,
    }
}

/// The users that a reader must be able to see to receive an entry about a comment: its author and those above it.
pub(super) fn people_above(entry: &Entry) -> &[UserId] {
    match entry {
        Entry::Comment(changed) => &changed.people,
        Entry::Restricted(people, _) => people,
        _ => &[],
    }
}

/// The posts that are needed to render an entry.
pub(super) fn referenced_posts(audience: &Audience, entry: &Entry) -> impl Iterator<Item = PostId> + use<> {
    let about = match entry {
        Entry::Post(id) | Entry::Edited(id) | Entry::AuthorGone(id) => Some(*id),
        Entry::PostRemoved(left) => Some(left.post).filter(|_| left.reason == GoneReason::Hidden),
        Entry::Gone(..)
        | Entry::Data(_)
        | Entry::NotificationChanged(_)
        | Entry::Comment(_)
        | Entry::Restricted(..) => None,
    };
    let under = match audience {
        Audience::Post(id) => Some(*id),
        _ => None,
    };
    about.into_iter().chain(under)
}
