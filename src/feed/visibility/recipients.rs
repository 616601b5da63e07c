//! The recipients of a fan-out: the followers to whose inboxes an entry is written.
//!
//! Edits and removals are written without a search of the inbox. The recipients of an edit, a removal or a change of
//! visibility are therefore the users that could see the post *before* it: no other user may learn of a post that was
//! never visible to them.

use super::policy::VisibilityPolicy;
use super::visibility_rules::{AccessContext, ViewContext};
use crate::feed::error::Result;
use crate::model::{Entry, GoneReason, PostId, Relation, UserId, Visibility};

/// The followers that receive an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Recipients<'a> {
    /// Users that may see the post now.
    Viewers,
    /// Users that may not see the post now.
    NonViewers,
    /// Users that could see the post under its former visibility and still may: the recipients of an edit.
    RemainingViewers { before: &'a Visibility },
    /// Users that could see the post under its former visibility, and may not under its new one.
    FormerViewers { before: &'a Visibility, after: &'a Visibility },
    /// Users that could not see the post under its former visibility, and may under its new one.
    NewViewers { before: &'a Visibility, after: &'a Visibility },
    /// Users that could see the post under its former visibility: the recipients of a deletion.
    Holders { before: &'a Visibility },
    /// Of a repost: users that may see it by the rules of its author, and may not see the reposted post.
    LosersOfRepost,
}

impl Recipients<'_> {
    /// The recipients of an entry, derived from the entry alone.
    pub(crate) fn of(entry: &Entry) -> Self {
        match entry {
            Entry::Gone(_, GoneReason::Hidden) => Self::NonViewers,
            // All followers may hold posts of the author.
            Entry::Gone(..) | Entry::AuthorGone(_) => Self::Holders { before: &Visibility::Public },
            _ => Self::Viewers,
        }
    }

    /// Whether [`Recipients::of`] the entry selects users that may not know the post. Then the entry is written only to
    /// inboxes that contain the post.
    pub(crate) fn needs_look(&self) -> bool {
        match self {
            Self::Viewers | Self::LosersOfRepost => false,
            Self::RemainingViewers { before } | Self::Holders { before } => {
                !matches!(before, Visibility::Public | Visibility::Followers)
            }
            Self::NonViewers | Self::FormerViewers { .. } | Self::NewViewers { .. } => true,
        }
    }

    /// The visibilities that decide, each with whether a recipient must be able to see the post under it. `now` is the
    /// current visibility.
    fn conditions<'b>(&'b self, now: &'b Visibility) -> Vec<(&'b Visibility, bool)> {
        match self {
            Self::Viewers | Self::LosersOfRepost => vec![(now, true)],
            Self::NonViewers => vec![(now, false)],
            Self::RemainingViewers { before } => vec![(before, true), (now, true)],
            Self::FormerViewers { before, after } => vec![(before, true), (after, false)],
            Self::NewViewers { before, after } => vec![(before, false), (after, true)],
            Self::Holders { before } => vec![(before, true)],
        }
    }

    /// Whether the current visibility of the post decides.
    fn depends_on_now(&self) -> bool {
        !matches!(self, Self::FormerViewers { .. } | Self::NewViewers { .. } | Self::Holders { .. })
    }
}

impl Recipients<'_> {
    /// Selects the recipients of an entry about this post among the given followers of its author and the author.
    /// Returns none if the current visibility decides and the post is deleted: the deletion has its own entry.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn select(
        self,
        policy: &VisibilityPolicy,
        post: PostId,
        author: &UserId,
        mut users: Vec<UserId>,
    ) -> Result<Vec<UserId>> {
        if matches!(self, Self::LosersOfRepost) {
            return losers_of_repost(policy, post, users).await;
        }
        let cached = if self.depends_on_now() { policy.posts.get([post]).await?.remove(&post) } else { None };
        if cached.is_none() && self.depends_on_now() {
            return Ok(Vec::new());
        }
        let now = cached.as_ref().map_or(&Visibility::Public, |cached| &cached.post.visibility);
        let conditions = self.conditions(now);
        let all_public = conditions.iter().all(|(visibility, _)| **visibility == Visibility::Public);
        if all_public && policy.relations.users_with_restrictions([author.clone()]).await?.is_empty() {
            users.retain(|_| conditions.iter().all(|(_, must_see)| *must_see));
            return Ok(users);
        }
        let relations = policy.relations.load_uncached(&users, author).await?;
        let is_repost = cached.as_ref().is_some_and(|cached| cached.post.repost.is_some());
        let receives = |reader: &UserId, relation: Relation| {
            if is_repost && relation.reposts_off {
                return false;
            }
            let access = AccessContext { reader: Some(reader), relation, view: ViewContext::Timeline };
            conditions.iter().all(|(visibility, must_see)| access.can_see(author, visibility) == *must_see)
        };
        let mut relations = relations.into_iter();
        users.retain(|reader| relations.next().is_some_and(|relation| receives(reader, relation)));
        Ok(users)
    }
}

/// Selects the recipients of an entry of the pull log among followers of its topics. Omits followers of the author who
/// get the entry by the author's fan-out.
///
/// # Errors
/// If the ledger cannot be read.
pub(crate) async fn recipients_by_topic(
    policy: &VisibilityPolicy,
    entry: &Entry,
    author: &UserId,
    mut users: Vec<UserId>,
) -> Result<Vec<UserId>> {
    users.retain(|user| user != author);
    let post = match entry {
        // All of them may hold it.
        Entry::Gone(_, GoneReason::Deleted) => return Ok(users),
        _ => entry.post().unwrap_or(PostId::ZERO),
    };
    let Some(cached) = policy.posts.get([post]).await?.remove(&post) else { return Ok(Vec::new()) };
    let relations = policy.relations.load_uncached(&users, author).await?;
    let topics = policy.topics.of_all(&users).await?;
    let mut relations = relations.into_iter();
    users.retain(|reader| {
        let relation = relations.next().unwrap_or_default();
        let access = AccessContext { reader: Some(reader), relation, view: ViewContext::Inbox };
        let topics = topics.get(reader).map(|topics| &**topics);
        match entry {
            Entry::Gone(..) => !access.can_see_in_timeline(&cached.post, topics),
            Entry::AuthorGone(_) => !relation.follows,
            _ => !access.can_see_post(&cached.post) && access.followed_topic(&cached.post, topics).is_some(),
        }
    });
    Ok(users)
}

/// Whether the list of an owner receives an entry of the pull log about a post of a member, or with a topic of the
/// list.
///
/// # Errors
/// If the ledger cannot be read.
pub(crate) async fn list_receives(policy: &VisibilityPolicy, entry: &Entry, owner: &UserId) -> Result<bool> {
    let Some(post) = entry.post() else { return Ok(false) };
    if matches!(entry, Entry::Gone(_, GoneReason::Deleted)) {
        return Ok(true);
    }
    let is_seen = !policy.visible_posts(Some(owner), ViewContext::List, [post]).await?.is_empty();
    Ok(is_seen == matches!(entry, Entry::Post(_) | Entry::Edited(_)))
}

/// See [`Recipients::LosersOfRepost`].
async fn losers_of_repost(policy: &VisibilityPolicy, repost: PostId, mut users: Vec<UserId>) -> Result<Vec<UserId>> {
    let Some(cached) = policy.posts.get([repost]).await?.remove(&repost) else { return Ok(Vec::new()) };
    let relations = policy.relations.load_uncached(&users, &cached.post.author).await?;
    let mut relations = relations.into_iter();
    users.retain(|reader| {
        let relation = relations.next().unwrap_or_default();
        AccessContext { reader: Some(reader), relation, view: ViewContext::Timeline }.can_see_post(&cached.post)
    });
    let Some(reposted) = cached.post.repost else { return Ok(Vec::new()) };
    let Some(reposted) = policy.posts.get([reposted]).await?.remove(&reposted) else { return Ok(users) };
    let author = &reposted.post.author;
    let standing = policy.relations.standing(author).await?;
    let relations = policy.relations.load_uncached(&users, author).await?;
    let mut relations = relations.into_iter();
    users.retain(|reader| {
        let relation = Relation { standing, ..relations.next().unwrap_or_default() };
        let access = AccessContext { reader: Some(reader), relation, view: ViewContext::Unrequested };
        !access.can_see_post(&reposted.post)
    });
    Ok(users)
}
