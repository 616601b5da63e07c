//! Log entries as publications, and their recipients.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use foldhash::fast::RandomState;

use super::audience::{Audience, post_kind};
use super::comment_rendering::EncodedComments;
use super::named_rendering::{EncodedPush, NamedContent};
use super::notification_rendering::RenderedNotification;
use crate::feed::content::{CachedPost, PostEventKind, PostMap};
use crate::feed::visibility::{AccessContext, RelationMap, ViewContext};
use crate::model::{
    DeliveredNotification, Entry, Event, GoneReason, NotificationId, PostId, PostRemoved, Relation, Standing, UserId,
    Visibility,
};

/// The data for rendering some entries.
#[derive(Debug)]
pub struct RenderContext {
    pub(super) posts: PostMap<Arc<CachedPost>>,
    /// The members of publications that show a post, encoded once for all recipients.
    pub(super) pushes: Encoded,
    /// As `pushes`, for the author's own timeline, if that differs.
    pub(super) pushes_to_author: Encoded,
    /// What the posts name.
    pub(super) named: NamedContent,
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
    /// If it shows a quoted post: who may see that post, and the members for all others.
    without_quote: Option<(Condition<'a>, Bytes)>,
    /// Whether every subscriber may receive it.
    pub is_public: bool,
    /// The conditions that a recipient must all meet.
    conditions: Vec<Condition<'a>>,
}

/// A user or post that a recipient must, or must not, be able to see.
#[derive(Clone, Copy, Debug)]
struct Condition<'a> {
    author: &'a UserId,
    /// The context in which the recipient sees it.
    view: ViewContext,
    /// The visibility of a post of the author; `None`: only the author must be visible.
    visibility: Option<&'a Visibility>,
    must_see: bool,
}

impl<'a> Condition<'a> {
    fn sees(cached: &'a CachedPost, view: ViewContext) -> Self {
        Self { author: &cached.post.author, view, visibility: Some(&cached.post.visibility), must_see: true }
    }

    /// A post that another one names is not requested by the reader.
    fn sees_named(cached: &'a CachedPost) -> Self {
        Self::sees(cached, ViewContext::Unrequested)
    }
}

/// What a reader receives of an event.
#[derive(Clone, Copy)]
enum Form {
    Nothing,
    Whole,
    /// The post without the post that it quotes.
    WithoutQuote,
}

impl RenderedEvent<'_> {
    /// The users whose relations to a reader decide about the delivery.
    pub fn authors(&self) -> impl Iterator<Item = &UserId> {
        let quoted = self.without_quote.iter().map(|(condition, _)| condition.author);
        self.conditions.iter().map(|condition| condition.author).chain(quoted)
    }
}

impl RenderContext {
    /// Renders an entry; `None` if it has no recipients.
    pub fn render<'a>(&'a self, audience: &Audience, entry: &'a Entry) -> Option<RenderedEvent<'a>> {
        let members = self.members(audience, entry)?;
        if audience.is_unconditional() {
            return Some(RenderedEvent { members, without_quote: None, is_public: true, conditions: Vec::new() });
        }
        let conditions = self.conditions(audience, entry)?;
        let quote = self.push(audience, entry).and_then(|push| push.without_quote.as_ref());
        let without_quote = quote.and_then(|(quoted, members)| {
            Some((Condition::sees_named(self.posts.get(quoted)?), Bytes::clone(members)))
        });
        let quoted = without_quote.iter().map(|(condition, _)| condition);
        let is_public = conditions.iter().chain(quoted).all(|condition| self.is_met_by_all(condition));
        Some(RenderedEvent { members, without_quote, is_public, conditions })
    }

    fn is_met_by_all(&self, condition: &Condition<'_>) -> bool {
        condition.must_see
            && match condition.visibility {
                Some(visibility) => *visibility == Visibility::Public && !self.closed.contains(condition.author),
                None => !self.restricted.contains(condition.author),
            }
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
                (Some(cached), Audience::Timeline(reader)) => {
                    let push = self.push(audience, entry)?;
                    let repeat = self.named.repeats.get(id).filter(|_| self.is_repeat(cached, reader));
                    let hidden_quote =
                        push.without_quote.as_ref().filter(|(quoted, _)| !self.sees_named(*quoted, reader));
                    Some(match (repeat, hidden_quote) {
                        (Some(repeat), _) => repeat.clone(),
                        (None, Some((_, members))) => members.clone(),
                        (None, None) => push.members.clone(),
                    })
                }
                (Some(_), _) => Some(self.push(audience, entry)?.members.clone()),
            },
        }
    }

    /// The publication of an entry that shows a post.
    fn push(&self, audience: &Audience, entry: &Entry) -> Option<&EncodedPush> {
        let id = entry.post()?;
        let key = (id, post_kind(entry)?);
        let cached = self.posts.get(&id)?;
        let own = self.pushes_to_author.get(&key).filter(|_| is_for_author(audience, cached));
        own.or_else(|| self.pushes.get(&key))
    }

    /// Whether a repost repeats what the timeline of a reader has.
    ///
    /// The authors of its sources may not be among those whose entries are delivered to this reader. Relations decide
    /// whether the timeline has a source.
    fn is_repeat(&self, cached: &CachedPost, reader: &UserId) -> bool {
        let has = |source: &CachedPost| {
            let relation = self.relations.get(reader, &source.post.author).unwrap_or_default();
            AccessContext { reader: Some(reader), relation, view: ViewContext::Timeline }.can_see_post(&source.post)
        };
        cached.post.repost.is_some_and(|post| self.named.sources.is_repeat(cached.post.id, post, has))
    }

    /// Whether the reader of a timeline may see a post that another one names.
    fn sees_named(&self, post: PostId, reader: &UserId) -> bool {
        let Some(cached) = self.posts.get(&post) else { return false };
        let condition = Condition::sees_named(cached);
        self.is_met_by_all(&condition) || self.is_met(&condition, Some(reader)) == Some(true)
    }

    /// The author of a post, if the author is suspended and another user's timeline has the post.
    fn suspended_author(&self, audience: &Audience, post: PostId) -> Option<&UserId> {
        let reader = audience.owner()?;
        let author = &self.posts.get(&post)?.post.author;
        let standing = self.relations.get(reader, author)?.standing;
        (author != reader && standing == Standing::Suspended).then_some(author)
    }

    /// The reader and the authors of posts, if an entry concerns posts that its reader may not see.
    pub(super) fn hidden(&self, audience: &Audience, entry: &Entry) -> Vec<(UserId, UserId)> {
        let post = entry.post().filter(|_| post_kind(entry).is_some()).and_then(|id| self.posts.get(&id));
        let (Some(reader), Some(cached)) = (audience.owner(), post) else { return Vec::new() };
        let own = Some(cached).filter(|cached| !self.has_in_timeline(cached, reader));
        let quoted = self.push(audience, entry).and_then(|push| Some(push.without_quote.as_ref()?.0));
        let named = [cached.post.repost, quoted].into_iter().flatten().filter(|post| !self.sees_named(*post, reader));
        let hidden = own.into_iter().chain(named.filter_map(|post| self.posts.get(&post)));
        hidden.map(|cached| (reader.clone(), cached.post.author.clone())).collect()
    }

    fn is_visible_in_timeline(&self, cached: &CachedPost, reader: &UserId) -> bool {
        self.has_in_timeline(cached, reader) && cached.post.repost.is_none_or(|post| self.sees_named(post, reader))
    }

    /// The same, by the rules of the author of the post alone, not those of a reposted post.
    fn has_in_timeline(&self, cached: &CachedPost, reader: &UserId) -> bool {
        let author = &cached.post.author;
        if self.seen_by_readers.contains(author) && cached.post.visibility == Visibility::Public {
            return true;
        }
        let relation = self.relations.get(reader, author).unwrap_or_default();
        AccessContext { reader: Some(reader), relation, view: ViewContext::Timeline }.can_see_post(&cached.post)
    }

    /// The conditions for the recipients of an entry on a shared channel.
    fn conditions<'a>(&'a self, audience: &Audience, entry: &'a Entry) -> Option<Vec<Condition<'a>>> {
        let view = if matches!(audience, Audience::Topic(_)) { ViewContext::Discovery } else { ViewContext::Direct };
        let mut conditions = Vec::new();
        // Only readers that may see the post receive its events.
        if let (Audience::Post(id), Entry::Data(_) | Entry::Comment(_) | Entry::Restricted(..)) = (audience, entry) {
            conditions.push(Condition::sees(self.posts.get(id)?, view));
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
                conditions.extend(restricted.map(|author| Condition {
                    author,
                    view,
                    visibility: None,
                    must_see: true,
                }));
            }
            Entry::Post(id) | Entry::Edited(id) => {
                let cached = self.posts.get(id)?;
                conditions.push(Condition::sees(cached, view));
                if let Some(reposted) = cached.post.repost {
                    conditions.push(Condition::sees_named(self.posts.get(&reposted)?));
                }
            }
            Entry::PostRemoved(left) => {
                let PostRemoved { author, visibility, .. } = &**left;
                conditions.push(Condition { author, view, visibility: Some(visibility), must_see: true });
                // Readers that may still see the post keep it, unless it left the topic.
                let stays = |cached: &&Arc<CachedPost>| match audience {
                    Audience::Topic(name) => cached.post.topics.iter().any(|topic| **topic == **name),
                    _ => true,
                };
                if let Some(cached) = self.posts.get(&left.post).filter(stays) {
                    conditions.push(Condition { must_see: false, ..Condition::sees(cached, view) });
                }
            }
        }
        Some(conditions)
    }

    /// What a reader (`None`: an anonymous client) receives. `None` if the reader's relations were not loaded.
    fn form_for(&self, rendered: &RenderedEvent<'_>, reader: Option<&UserId>) -> Option<Form> {
        for condition in &rendered.conditions {
            if !self.is_met(condition, reader)? {
                return Some(Form::Nothing);
            }
        }
        match &rendered.without_quote {
            Some((condition, _)) if !self.is_met(condition, reader)? => Some(Form::WithoutQuote),
            _ => Some(Form::Whole),
        }
    }

    /// The members of the publication for a reader; `None`: the reader receives nothing.
    pub(super) fn members_for(&self, rendered: &RenderedEvent<'_>, reader: Option<&UserId>) -> Option<Bytes> {
        match self.form_for(rendered, reader)? {
            Form::Nothing => None,
            Form::Whole => Some(rendered.members.clone()),
            Form::WithoutQuote => rendered.without_quote.as_ref().map(|(_, members)| members.clone()),
        }
    }

    /// The keys of the readers who receive an event that is not public, by what they receive. `None` if it cannot be
    /// decided for one of them.
    pub fn recipients<'a>(
        &self,
        rendered: &RenderedEvent<'_>,
        readers: impl Iterator<Item = (usize, Option<&'a UserId>)>,
    ) -> Option<Vec<(Bytes, Vec<usize>)>> {
        let mut whole = Vec::new();
        let mut reduced = Vec::new();
        for (key, reader) in readers {
            match self.form_for(rendered, reader)? {
                Form::Nothing => {}
                Form::Whole => whole.push(key),
                Form::WithoutQuote => reduced.push(key),
            }
        }
        let quote = rendered.without_quote.as_ref().map(|(_, members)| (members.clone(), reduced));
        let forms = std::iter::once((rendered.members.clone(), whole)).chain(quote);
        Some(forms.filter(|(_, keys)| !keys.is_empty()).collect())
    }

    /// `None` if the reader's relation was not loaded.
    fn is_met(&self, condition: &Condition<'_>, reader: Option<&UserId>) -> Option<bool> {
        let Condition { author, view, visibility, must_see } = *condition;
        let relation = match reader {
            Some(reader) if reader != author => self.relations.get(reader, author)?,
            _ => self.strangers.get(author).copied().unwrap_or_default(),
        };
        let access = AccessContext { reader, relation, view };
        let sees =
            visibility.map_or_else(|| access.can_see_user(author), |visibility| access.can_see(author, visibility));
        Some(sees == must_see)
    }
}

/// Publications by post and kind.
pub(super) type Encoded = HashMap<(PostId, PostEventKind), EncodedPush, RandomState>;

/// The members of the publication that removes a post from a client.
fn gone(id: PostId, reason: GoneReason) -> Bytes {
    Event::PostGone { id, reason }.encode()
}

/// Whether only the author of a post receives it on a channel: the timeline is the author's own, or the post is
/// removed.
pub(super) fn is_for_author(audience: &Audience, cached: &CachedPost) -> bool {
    audience.owner() == Some(&cached.post.author) || cached.post.removed.is_some()
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
