//! Log entries as publications, and their recipients.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use foldhash::fast::RandomState;

use super::audience::{Audience, post_kind};
use super::comment_rendering::EncodedComments;
use super::named_posts::quoted;
use super::named_rendering::{EncodedPush, NamedContent};
use super::notification_rendering::RenderedNotification;
use super::rendered_event::{Condition, FilteredContent, Form, RenderedEvent, WithoutQuote};
use crate::feed::content::{CachedPost, PostEventKind, PostMap, with_marks, with_topic};
use crate::feed::filters::{FilterOutcome, FiltersByReader};
use crate::feed::visibility::{AccessContext, RelationMap, TopicsByReader, ViewContext};
use crate::model::{
    ClientEvent, DeliveredNotification, Entry, FilterContext, GoneReason, NotificationId, PostId, PostRemoved,
    Relation, Standing, UserId, Visibility,
};

/// The data for rendering some entries.
#[derive(Debug)]
pub struct RenderContext {
    pub(super) posts: PostMap<Arc<CachedPost>>,
    /// The members of publications that show a post, encoded once for all recipients, and for authors if that differs.
    pub(super) pushes: Encoded,
    /// What the posts name.
    pub(super) named: NamedContent,
    /// The comments that entries show.
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
    /// Whether any user of the deployment has filters.
    pub(super) filters_in_use: bool,
    /// The filters of the readers who have any.
    pub(super) filters: FiltersByReader,
    /// The topics that readers of timelines follow, of those who follow any.
    pub(super) topics: TopicsByReader,
    /// The relations of anonymous readers to closed authors.
    pub(super) strangers: HashMap<UserId, Relation>,
    /// Erased users among the authors of the entries.
    pub(super) erased: HashSet<UserId>,
    /// The number of invalidations that this node had applied when the context was prepared; see
    /// `EventRenderer::is_current`.
    pub(super) invalidations: u64,
    pub(super) since: Instant,
}

impl RenderContext {
    /// Renders an entry; `None` if it has no recipients.
    pub fn render<'a>(&'a self, audience: &Audience, entry: &'a Entry) -> Option<RenderedEvent<'a>> {
        let members = self.members(audience, entry)?;
        if audience.is_unconditional() {
            let conditions = Vec::new();
            return Some(RenderedEvent { members, without_quote: None, is_public: true, conditions, filtered: None });
        }
        let mut conditions = self.conditions(audience, entry)?;
        conditions.retain(|condition| !self.is_met_by_all(condition));
        let quote = self.push(audience, entry).and_then(|push| push.without_quote.as_ref());
        let without_quote = quote.and_then(|(quoted, members)| {
            let quoted = self.posts.get(quoted)?;
            let condition = Condition::sees_named(quoted);
            let is_met_by_all = self.is_met_by_all(&condition);
            Some(WithoutQuote { condition, is_met_by_all, quoted, members: Bytes::clone(members) })
        });
        let filtered = if self.filters.is_empty() { None } else { self.filtered_content(audience, entry) };
        let is_public = conditions.is_empty()
            && filtered.is_none()
            && without_quote.as_ref().is_none_or(|without_quote| without_quote.is_met_by_all);
        Some(RenderedEvent { members, without_quote, is_public, conditions, filtered })
    }

    /// Whether filters of the readers of a shared channel may concern an entry.
    pub(crate) fn may_filter(&self, audience: &Audience, entry: &Entry) -> bool {
        self.filters_in_use && self.filtered_content(audience, entry).is_some()
    }

    fn filtered_content(&self, audience: &Audience, entry: &Entry) -> Option<FilteredContent<'_>> {
        match (audience, entry) {
            (Audience::Topic(_), Entry::Post(id) | Entry::Edited(id)) => {
                self.posts.get(id).map(|cached| FilteredContent::Post(cached))
            }
            (Audience::Post(_), Entry::Comment(changed)) => {
                let comment = self.comments.get(&(changed.comment, changed.is_edit))?;
                comment.shown.as_ref().map(FilteredContent::Comment)
            }
            _ => None,
        }
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
            Entry::Comment(changed) => {
                self.comments.get(&(changed.comment, changed.is_edit)).map(|comment| comment.members.clone())
            }
            Entry::NotificationChanged(id) => Some(match self.notifications.get(id) {
                Some(rendered) => rendered.members.clone(),
                None => ClientEvent::NotificationGone { id: *id }.encode(),
            }),
            Entry::Gone(id, reason) => Some(gone(*id, *reason)),
            Entry::PostRemoved(left) => Some(gone(left.post, left.reason)),
            Entry::AuthorGone(id) if let Some(author) = self.suspended_author(audience, *id) => {
                Some(ClientEvent::AuthorGone { author, reason: GoneReason::Hidden }.encode())
            }
            // If the author is not suspended any more, the entry changes nothing: it shows a post that is there.
            Entry::Post(id) | Entry::Edited(id) | Entry::AuthorGone(id) => match (self.posts.get(id), audience.owner())
            {
                (Some(cached), Some(reader)) => self.timeline_members(audience, entry, cached, reader),
                (Some(_), None) => Some(self.push(audience, entry)?.members.clone()),
                (None, Some(_)) => Some(gone(*id, GoneReason::Deleted)),
                (None, None) => None,
            },
        }
    }

    /// The publication of an entry that shows a post in a timeline or a list of a reader.
    fn timeline_members(
        &self,
        audience: &Audience,
        entry: &Entry,
        cached: &CachedPost,
        reader: &UserId,
    ) -> Option<Bytes> {
        let id = cached.post.id;
        let context = audience.filter_context();
        if !self.is_visible_in_timeline(audience, cached, reader) {
            // The client keeps reposts and quotes of a post that the reader may see elsewhere.
            let is_elsewhere = matches!(audience, Audience::Timeline(_))
                && cached.post.repost.is_none()
                && self.sees_named(id, reader);
            return Some(gone(id, if is_elsewhere { GoneReason::Unfollowed } else { GoneReason::Hidden }));
        }
        let filters = self.filters.get(reader);
        let named = |post| self.posts.get(&post).filter(|_| self.sees_named(post, reader)).map(|cached| &**cached);
        let outcome = filters.map(|filters| filters.post(cached, named, context));
        if outcome == Some(FilterOutcome::Hidden) {
            return Some(gone(id, GoneReason::Filtered));
        }
        if let Some(repeat) = self.named.repeats.get(&id).filter(|_| self.is_repeat(audience, cached, reader)) {
            return Some(repeat.clone());
        }
        let push = self.push(audience, entry)?;
        let hides = |quoted: &CachedPost| filters.is_some_and(|filters| filters.hides_quoted(quoted, Some(context)));
        let members = match &push.without_quote {
            Some((quoted, members)) if named(*quoted).is_none_or(hides) => members,
            _ => &push.members,
        };
        let members = match self.followed_topic(audience, cached, reader) {
            Some(topic) => with_topic(members, topic),
            None => members.clone(),
        };
        Some(match outcome {
            Some(FilterOutcome::Marked(filters)) => with_marks(&members, &filters),
            _ => members,
        })
    }

    /// The publication of an entry that shows a post.
    fn push(&self, audience: &Audience, entry: &Entry) -> Option<&EncodedPush> {
        let cached = self.posts.get(&entry.post()?)?;
        let author = shown_author(audience, cached, &self.posts);
        self.pushes.get(&(cached.post.id, post_kind(entry)?, author.cloned()))
    }

    /// Whether a repost repeats what a timeline or a list of a reader has.
    ///
    /// The authors of its sources may not be among those whose entries are delivered to this reader. Relations decide
    /// whether the timeline has a source.
    fn is_repeat(&self, audience: &Audience, cached: &CachedPost, reader: &UserId) -> bool {
        let has = |source: &CachedPost| {
            let may_have = match audience.list() {
                Some(list) => self.named.is_listed(list, &source.post),
                None => true,
            };
            may_have && self.has_by_relation(audience, source, reader)
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
        let own = Some(cached).filter(|cached| !self.has_in_timeline(audience, cached, reader));
        let quoted = self.push(audience, entry).and_then(|push| Some(push.without_quote.as_ref()?.0));
        let named = [cached.post.repost, quoted].into_iter().flatten().filter(|post| !self.sees_named(*post, reader));
        let hidden = own.into_iter().chain(named.filter_map(|post| self.posts.get(&post)));
        hidden.map(|cached| (reader.clone(), cached.post.author.clone())).collect()
    }

    fn is_visible_in_timeline(&self, audience: &Audience, cached: &CachedPost, reader: &UserId) -> bool {
        self.has_in_timeline(audience, cached, reader)
            && cached.post.repost.is_none_or(|post| self.sees_named(post, reader))
            && !self.is_blocked_repost(cached)
    }

    /// Whether there is a block between the author of a repost and the author of the reposted post: nobody sees it.
    fn is_blocked_repost(&self, cached: &CachedPost) -> bool {
        let reposted = cached.post.repost.and_then(|post| self.posts.get(&post));
        let relation = reposted.and_then(|reposted| self.relations.get(&cached.post.author, &reposted.post.author));
        relation.is_some_and(Relation::has_block)
    }

    /// The same, by the rules of the author of the post alone, not those of a reposted post.
    fn has_in_timeline(&self, audience: &Audience, cached: &CachedPost, reader: &UserId) -> bool {
        let author = &cached.post.author;
        if self.seen_by_readers.contains(author) && cached.post.visibility == Visibility::Public {
            return true;
        }
        self.has_by_relation(audience, cached, reader)
    }

    /// The same, where the relation of the reader and the author decides.
    fn has_by_relation(&self, audience: &Audience, cached: &CachedPost, reader: &UserId) -> bool {
        let topics = self.topics.get(reader).map(|topics| &**topics);
        self.access(audience, cached, reader).can_see_in_timeline(&cached.post, topics)
    }

    /// The followed topic for which a timeline has a post; `None`: it has the post because of its author.
    fn followed_topic<'a>(&self, audience: &Audience, cached: &'a CachedPost, reader: &UserId) -> Option<&'a str> {
        let topics = self.topics.get(reader)?;
        let author = &cached.post.author;
        if author == reader || self.seen_by_readers.contains(author) {
            return None;
        }
        let access = self.access(audience, cached, reader);
        if access.can_see_post(&cached.post) { None } else { access.followed_topic(&cached.post, Some(&**topics)) }
    }

    fn access<'a>(&self, audience: &Audience, cached: &CachedPost, reader: &'a UserId) -> AccessContext<'a> {
        let relation = self.relations.get(reader, &cached.post.author).unwrap_or_default();
        AccessContext { reader: Some(reader), relation, view: audience.view() }
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
                if self.is_blocked_repost(cached) {
                    return None;
                }
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
        let mut quoted = match &rendered.without_quote {
            Some(form) if !form.is_met_by_all && !self.is_met(&form.condition, reader)? => None,
            Some(form) => Some(form.quoted),
            None => None,
        };
        let filters = reader.and_then(|reader| self.filters.get(reader));
        let outcome = match (filters, &rendered.filtered) {
            (Some(filters), Some(FilteredContent::Post(cached))) => {
                let find = |post| quoted.filter(|quoted| quoted.post.id == post);
                let outcome = filters.post(cached, find, FilterContext::Topics);
                quoted = quoted.filter(|quoted| !filters.hides_quoted(quoted, Some(FilterContext::Topics)));
                outcome
            }
            (Some(filters), Some(FilteredContent::Comment(shown))) => {
                filters.comment(&shown.comment, FilterContext::Comments)
            }
            _ => FilterOutcome::Shown,
        };
        let is_whole = rendered.without_quote.is_none() || quoted.is_some();
        Some(match outcome {
            FilterOutcome::Hidden => Form::Nothing,
            FilterOutcome::Marked(filters) => Form::Marked { quoted: is_whole, filters },
            FilterOutcome::Shown if is_whole => Form::Whole,
            FilterOutcome::Shown => Form::WithoutQuote,
        })
    }

    /// The members of the publication for a reader; `None`: the reader receives nothing.
    pub(super) fn members_for(&self, rendered: &RenderedEvent<'_>, reader: Option<&UserId>) -> Option<Bytes> {
        rendered.members_of(self.form_for(rendered, reader)?)
    }

    /// The keys of the readers who receive an event that is not public, by what they receive. `None` if it cannot be
    /// decided for one of them.
    pub fn recipients<'a>(
        &self,
        rendered: &RenderedEvent<'_>,
        readers: impl Iterator<Item = (usize, Option<&'a UserId>)>,
    ) -> Option<Vec<(Bytes, Vec<usize>)>> {
        let mut keys_by_form: HashMap<Form, Vec<usize>, RandomState> = HashMap::default();
        for (key, reader) in readers {
            keys_by_form.entry(self.form_for(rendered, reader)?).or_default().push(key);
        }
        let members = |(form, keys)| Some((rendered.members_of(form)?, keys));
        Some(keys_by_form.into_iter().filter_map(members).collect())
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

/// Publications by post, kind and, if it is for one reader, that of [`shown_author`].
pub(super) type Encoded = HashMap<(PostId, PostEventKind, Option<UserId>), EncodedPush, RandomState>;

/// The members of the publication that removes a post from a client.
fn gone(id: PostId, reason: GoneReason) -> Bytes {
    ClientEvent::PostGone { id, reason }.encode()
}

/// The reader of a channel who gets a post encoded separately: the author of a post that is shown otherwise to others,
/// in a timeline or a list of this author. Only their authors receive removed posts, on any channel.
pub(super) fn shown_author<'a>(
    audience: &'a Audience,
    cached: &'a CachedPost,
    posts: &PostMap<Arc<CachedPost>>,
) -> Option<&'a UserId> {
    if cached.post.removed.is_some() {
        return Some(&cached.post.author);
    }
    let owner = audience.owner()?;
    let differs = |cached: &CachedPost| cached.differs_for_author() && cached.post.author == *owner;
    let find = |id: PostId| posts.get(&id).map(|cached| &**cached);
    let named = || [cached.post.repost, quoted(cached, find)].into_iter().flatten().filter_map(find);
    (differs(cached) || named().any(differs)).then_some(owner)
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
