//! The visibility policy: the rules of `visibility_rules.rs` applied to posts and users.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::blocked_reposts::blocked_reposts;
use super::followed_topics::FollowedTopics;
use super::relations::{RelationCache, RelationMap};
use super::visibility_rules::{AccessContext, ViewContext};
use crate::feed::content::{CachedPost, NewestReposts, PostCache};
use crate::feed::error::{NO_POST, Result};
use crate::feed::identity::ErasedUsers;
use crate::ledger::{Ledger, PostOwner};
use crate::model::{Post, PostId, Relation, Standing, User, UserId, Visibility};

/// Decides which posts and users a reader may see.
pub(crate) struct VisibilityPolicy {
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) posts: Arc<PostCache>,
    pub(super) newest_reposts: Arc<NewestReposts>,
    pub(super) relations: Arc<RelationCache>,
    pub(super) topics: Arc<FollowedTopics>,
    erased: Arc<ErasedUsers>,
}

impl VisibilityPolicy {
    /// A policy over these caches.
    pub(crate) fn new(
        ledger: Arc<dyn Ledger>,
        posts: Arc<PostCache>,
        newest_reposts: Arc<NewestReposts>,
        relations: Arc<RelationCache>,
        topics: Arc<FollowedTopics>,
        erased: Arc<ErasedUsers>,
    ) -> Self {
        Self { ledger, posts, newest_reposts, relations, topics, erased }
    }

    /// The existing posts among `ids` that `reader` (`None`: an anonymous client) may see in this context. A reader may
    /// see a repost only together with the reposted post.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn visible_posts(
        &self,
        reader: Option<&UserId>,
        view: ViewContext,
        ids: impl IntoIterator<Item = PostId> + Send,
    ) -> Result<HashMap<PostId, Arc<CachedPost>>> {
        let mut posts = self.visible_by_author(reader, view, ids).await?;
        let reposted: Vec<PostId> = posts.values().filter_map(|cached| cached.post.repost).collect();
        match view {
            _ if reposted.is_empty() => {}
            ViewContext::Discovery => posts.retain(|_, cached| cached.post.repost.is_none()),
            // A standing of the author may end: the inbox keeps the repost, and each delivery decides.
            ViewContext::Inbox => {}
            ViewContext::Direct | ViewContext::Unrequested | ViewContext::List | ViewContext::Timeline => {
                let seen = self.visible_by_author(reader, ViewContext::Unrequested, reposted).await?;
                posts.retain(|_, cached| cached.post.repost.is_none_or(|post| seen.contains_key(&post)));
                let blocked = blocked_reposts(&self.relations, posts.values(), &seen).await?;
                posts.retain(|id, _| !blocked.contains(id));
            }
        }
        Ok(posts)
    }

    /// The existing posts among `ids` that a reader may see by the rules of their authors, without checks of reposted
    /// posts.
    pub(super) async fn visible_by_author(
        &self,
        reader: Option<&UserId>,
        view: ViewContext,
        ids: impl IntoIterator<Item = PostId> + Send,
    ) -> Result<HashMap<PostId, Arc<CachedPost>>> {
        let mut posts = self.posts.get(ids).await?;
        if posts.is_empty() {
            // Nor are the reader's followees loaded, and kept: most users who connect have nothing to check.
            return Ok(posts);
        }
        let closed = self.relation_dependent(reader, view, posts.values()).await?;
        if closed.is_empty() {
            return Ok(posts);
        }
        let authors: HashSet<UserId> =
            closed.iter().filter_map(|id| Some(posts.get(id)?.post.author.clone())).collect();
        let strangers =
            if reader.is_none() { self.relations.of_strangers(authors.clone()).await? } else { HashMap::new() };
        let mut relations = self.relations_to(reader, authors).await?;
        let topics = match reader.filter(|_| view.is_timeline()) {
            Some(reader) => self.topics.of(reader).await?,
            None => None,
        };
        let sees = |relations: &RelationMap, cached: &CachedPost| {
            let author = &cached.post.author;
            let stranger = strangers.get(author).copied();
            let relation = stranger.unwrap_or_else(|| self.relation(relations, reader, author));
            let access = AccessContext { reader, relation, view };
            !closed.contains(&cached.post.id) || access.can_see_in_timeline(&cached.post, topics.as_deref())
        };
        if let Some(reader) = reader {
            let hidden = posts.values().filter(|cached| !sees(&relations, cached));
            let hidden: HashSet<_> = hidden.map(|cached| (reader.clone(), cached.post.author.clone())).collect();
            if !hidden.is_empty() {
                relations.extend(self.relations.reload(hidden).await?);
            }
        }
        posts.retain(|_, cached| sees(&relations, cached));
        Ok(posts)
    }

    /// The existing posts among `ids` that are offered to all readers and that `reader` may see.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn posts_for_all(
        &self,
        reader: Option<&UserId>,
        ids: impl IntoIterator<Item = PostId> + Send,
    ) -> Result<HashMap<PostId, Arc<CachedPost>>> {
        let mut posts = self.visible_posts(reader, ViewContext::Discovery, ids).await?;
        let authors: HashSet<UserId> = posts.values().map(|cached| cached.post.author.clone()).collect();
        // Their public posts are for followers.
        let locked = self.relations.locked_among(authors).await?;
        posts.retain(|_, cached| !locked.contains(&cached.post.author));
        Ok(posts)
    }

    /// The number of posts among `ids` that a reader may see when requesting them by id. Public posts are counted
    /// without being loaded.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn count_visible(&self, reader: &UserId, ids: &[PostId]) -> Result<u64> {
        let owners = self.ledger.post_owners(ids).await?;
        let authors: HashSet<UserId> = owners.iter().map(|owner| owner.author.clone()).collect();
        let restricted = self.relations.restricted_authors(authors).await?;
        let is_open =
            |owner: &PostOwner| owner.author == *reader || (owner.public && !restricted.contains(&owner.author));
        let (open, closed): (Vec<PostOwner>, Vec<PostOwner>) = owners.into_iter().partition(is_open);
        let closed = closed.into_iter().map(|owner| owner.post);
        let seen = self.visible_posts(Some(reader), ViewContext::Direct, closed).await?;
        Ok((open.len() + seen.len()) as u64)
    }

    /// The posts whose visibility depends on the relation between reader and author. Most posts do not need it: the
    /// restrictions of their authors and the followees of the reader are enough.
    async fn relation_dependent<'a>(
        &self,
        reader: Option<&UserId>,
        view: ViewContext,
        posts: impl Iterator<Item = &'a Arc<CachedPost>> + Clone + Send,
    ) -> Result<HashSet<PostId>> {
        let authors: HashSet<UserId> = posts.clone().map(|cached| cached.post.author.clone()).collect();
        let restricted = if view.is_timeline() {
            self.relations.users_with_restrictions(authors).await?
        } else {
            self.relations.restricted_authors(authors).await?
        };
        let followees = match (reader, view) {
            (Some(reader), ViewContext::Timeline | ViewContext::Inbox) => self.relations.followees(reader).await?,
            _ => None,
        };
        let is_followed = |author: &UserId| followees.as_ref().is_some_and(|followees| followees.contains(author));
        let is_open = |cached: &CachedPost| {
            let Post { author, visibility, .. } = &cached.post;
            let is_for_all = *visibility == Visibility::Public && !restricted.contains(author);
            reader == Some(author) || (is_for_all && (!view.is_timeline() || is_followed(author)))
        };
        Ok(posts.filter(|cached| !is_open(cached)).map(|cached| cached.post.id).collect())
    }

    /// The users among `people` whose comments, likes and notifications `reader` may see in this context.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn visible_users(
        &self,
        reader: Option<&UserId>,
        view: ViewContext,
        people: impl IntoIterator<Item = UserId> + Send,
    ) -> Result<HashSet<UserId>> {
        let mut people: HashSet<UserId> = people.into_iter().filter(|person| !self.erased.contains(person)).collect();
        let relations = self.relations_to(reader, people.iter().cloned()).await?;
        people.retain(|person| {
            AccessContext { reader, relation: self.relation(&relations, reader, person), view }.can_see_user(person)
        });
        Ok(people)
    }

    /// The users among `people` who follow a user.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn followers_among(&self, user: &UserId, mut people: HashSet<UserId>) -> Result<HashSet<UserId>> {
        let relations = self.relations_to(Some(user), people.iter().cloned()).await?;
        people.retain(|person| self.relation(&relations, Some(user), person).followed);
        Ok(people)
    }

    /// The users among `people` that a user follows.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn followees_among(&self, user: &UserId, mut people: HashSet<UserId>) -> Result<HashSet<UserId>> {
        let relations = self.relations_to(Some(user), people.iter().cloned()).await?;
        people.retain(|person| self.relation(&relations, Some(user), person).follows);
        Ok(people)
    }

    /// The users among `people` whose relation to the reader passes a test; the reader always passes, suspended users
    /// never. Relations are loaded only for users with restrictions. The list of these users is cached for all readers.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn filter_users(
        &self,
        reader: Option<&UserId>,
        mut people: HashSet<UserId>,
        passes: impl Fn(Relation) -> bool + Send,
    ) -> Result<HashSet<UserId>> {
        self.relations.catch_up_standings().await?;
        people.retain(|person| !self.is_hidden(reader, person));
        if reader.is_some() {
            let restricted = self.relations.users_with_restrictions(people.iter().cloned()).await?;
            let relations = self.relations_to(reader, restricted).await?;
            people.retain(|person| passes(self.relation(&relations, reader, person)));
        }
        Ok(people)
    }

    /// For each reader and post, whether the post exists and the reader may see it by id. Public posts of authors
    /// without restrictions need no relation.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn can_see_posts(&self, pairs: &[(UserId, PostId)]) -> Result<Vec<bool>> {
        let mut seen = self.seen_by_author(pairs, ViewContext::Direct).await?;
        let posts = self.posts.get(pairs.iter().map(|(_, post)| *post)).await?;
        let reposted = |post: &PostId| posts.get(post).and_then(|cached| cached.post.repost);
        let reposts = pairs.iter().enumerate().filter_map(|(place, (reader, post))| {
            let post = reposted(post).filter(|_| seen[place])?;
            Some((place, (reader.clone(), post)))
        });
        let (places, reposted): (Vec<usize>, Vec<(UserId, PostId)>) = reposts.unzip();
        if !places.is_empty() {
            let also = self.seen_by_author(&reposted, ViewContext::Unrequested).await?;
            let named = self.posts.get(reposted.iter().map(|(_, post)| *post)).await?;
            let blocked = blocked_reposts(&self.relations, posts.values(), &named).await?;
            for (place, sees) in places.into_iter().zip(also) {
                seen[place] = sees && !blocked.contains(&pairs[place].1);
            }
        }
        Ok(seen)
    }

    /// The same, by the rules of the authors of the posts alone.
    async fn seen_by_author(&self, pairs: &[(UserId, PostId)], view: ViewContext) -> Result<Vec<bool>> {
        let posts = self.posts.get(pairs.iter().map(|(_, post)| *post)).await?;
        let authors: HashSet<UserId> = posts.values().map(|cached| cached.post.author.clone()).collect();
        let restricted = self.relations.restricted_authors(authors).await?;
        let is_open = |cached: &CachedPost| {
            cached.post.visibility == Visibility::Public && !restricted.contains(&cached.post.author)
        };
        let closed = pairs.iter().filter_map(|(reader, post)| {
            let cached = posts.get(post).filter(|cached| !is_open(cached) && cached.post.author != *reader)?;
            Some((reader.clone(), cached.post.author.clone()))
        });
        let relations = self.relations.get(closed.collect::<Vec<_>>()).await?;
        let sees = |(reader, post): &(UserId, PostId)| {
            posts.get(post).filter(|_| !self.erased.contains(reader)).is_some_and(|cached| {
                let author = &cached.post.author;
                let relation = self.relation(&relations, Some(reader), author);
                is_open(cached)
                    || AccessContext { reader: Some(reader), relation, view }.can_see(author, &cached.post.visibility)
            })
        };
        Ok(pairs.iter().map(sees).collect())
    }

    /// Whether a reader may see a post, as far as the caches know; `None` if they do not.
    pub(crate) fn can_see_from_cache(&self, reader: &UserId, post: PostId) -> Option<bool> {
        let cached = self.posts.peek(post)?;
        let Some(Post { author, visibility, repost, .. }) = cached.as_ref().map(|cached| &cached.post) else {
            return Some(false);
        };
        if repost.is_some() {
            return None;
        }
        if self.erased.contains(reader) {
            return Some(false);
        }
        if author == reader {
            return Some(true);
        }
        (*visibility == Visibility::Public && !self.relations.has_restrictions(author)?).then_some(true)
    }

    /// For each pair of a reader and a user, whether the reader may see the user's content.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn can_see_users(&self, pairs: &[(UserId, UserId)]) -> Result<Vec<bool>> {
        // Most users have no restrictions.
        let people = pairs.iter().map(|(_, person)| person.clone());
        let restricted = self.relations.users_with_restrictions(people).await?;
        let asked = pairs.iter().filter(|(reader, person)| reader != person && restricted.contains(person));
        let relations = self.relations.get(asked.cloned().collect::<Vec<_>>()).await?;
        let sees = |(reader, person): &(UserId, UserId)| {
            let relation = self.relation(&relations, Some(reader), person);
            !self.erased.contains(person)
                && AccessContext { reader: Some(reader), relation, view: ViewContext::Direct }.can_see_user(person)
        };
        Ok(pairs.iter().map(sees).collect())
    }

    /// Whether a reader may see all of these users.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn can_see_all(
        &self,
        reader: Option<&UserId>,
        people: impl Iterator<Item = &UserId> + Send,
    ) -> Result<bool> {
        let people: HashSet<UserId> = people.cloned().collect();
        let many = people.len();
        Ok(self.visible_users(reader, ViewContext::Direct, people).await?.len() == many)
    }

    /// Whether a reader may see a post by id.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn can_see_post(&self, reader: Option<&UserId>, id: PostId) -> Result<bool> {
        Ok(!self.visible_posts(reader, ViewContext::Direct, [id]).await?.is_empty())
    }

    /// A post that a reader may see by id.
    ///
    /// # Errors
    /// [`FeedError::NotFound`] if there is no such post or the reader may not see it; or the ledger cannot be read.
    pub(crate) async fn post(&self, reader: Option<&UserId>, id: PostId) -> Result<Arc<CachedPost>> {
        self.visible_posts(reader, ViewContext::Direct, [id]).await?.remove(&id).ok_or(NO_POST)
    }

    /// Whether a reader may see the profile of a user: erased and suspended users have none, and a user's profile is
    /// not visible to users that the user blocks.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn can_see_profile(&self, reader: Option<&UserId>, user: &UserId) -> Result<bool> {
        self.relations.catch_up_standings().await?;
        Ok(match reader {
            _ if self.is_hidden(reader, user) => false,
            Some(reader) if reader != user => !self.relations.between(reader, user).await?.blocked,
            _ => true,
        })
    }

    /// Whether a reader may read what a user wrote, likes and follows: the account is open, or the reader follows it.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn is_open_to(&self, reader: Option<&UserId>, user: &UserId) -> Result<bool> {
        if reader == Some(user) || !self.relations.is_locked(user).await? {
            return Ok(true);
        }
        let Some(reader) = reader else { return Ok(false) };
        let relation = self.relations.between(reader, user).await?;
        if relation.follows || !relation.locked {
            return Ok(true);
        }
        // A cached relation may be from before the follow.
        let pair = (reader.clone(), user.clone());
        let relations = self.relations.reload(HashSet::from([pair])).await?;
        Ok(relations.get(reader, user).is_some_and(|relation| relation.follows || !relation.locked))
    }

    /// Omits erased and suspended users, and users that block the reader or that the reader blocks. Users that hide
    /// from the reader are included: an omission would reveal the hide.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn without_blocked(&self, reader: Option<&UserId>, mut people: Vec<User>) -> Result<Vec<User>> {
        self.relations.catch_up_standings().await?;
        people.retain(|user| !self.is_hidden(reader, &user.id));
        let Some(reader) = reader else { return Ok(people) };
        let relations = self.relations.get(people.iter().map(|user| (reader.clone(), user.id.clone()))).await?;
        people.retain(|user| {
            let relation = relations.get(reader, &user.id).unwrap_or_default();
            !relation.has_block()
        });
        Ok(people)
    }

    /// Omits limited users, except the reader: they are not found by a search.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn without_limited(&self, reader: Option<&UserId>, mut people: Vec<User>) -> Result<Vec<User>> {
        self.relations.catch_up_standings().await?;
        people.retain(|user| {
            reader == Some(&user.id) || self.relations.of_stranger(&user.id).standing != Standing::Limited
        });
        Ok(people)
    }

    /// The users of a list of the reader's own restrictions. Erased users are omitted. Users that block the reader
    /// and suspended users stay, so that the reader can lift the restriction, but without their name and picture.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn restricted_users(&self, reader: &UserId, mut people: Vec<User>) -> Result<Vec<User>> {
        people.retain(|user| !self.erased.contains(&user.id));
        let relations = self.relations.get(people.iter().map(|user| (reader.clone(), user.id.clone()))).await?;
        for user in &mut people {
            let relation = relations.get(reader, &user.id).unwrap_or_default();
            if relation.blocked || relation.standing == Standing::Suspended {
                user.name = user.id.shown().to_owned();
                user.avatar = None;
            }
        }
        Ok(people)
    }

    pub(super) async fn relations_to(
        &self,
        reader: Option<&UserId>,
        authors: impl IntoIterator<Item = UserId>,
    ) -> Result<RelationMap> {
        let Some(reader) = reader else {
            self.relations.catch_up_standings().await?;
            return Ok(RelationMap::default());
        };
        let others = authors.into_iter().filter(|author| author != reader);
        self.relations.get(others.map(|author| (reader.clone(), author))).await
    }

    /// The relation that was loaded; without one, that of a stranger.
    pub(super) fn relation(&self, relations: &RelationMap, reader: Option<&UserId>, author: &UserId) -> Relation {
        let loaded = reader.and_then(|reader| relations.get(reader, author));
        loaded.unwrap_or_else(|| self.relations.of_stranger(author))
    }

    /// Whether a user is hidden from every other user, and from this reader: erased or suspended.
    fn is_hidden(&self, reader: Option<&UserId>, user: &UserId) -> bool {
        let is_suspended = || self.relations.of_stranger(user).standing == Standing::Suspended;
        self.erased.contains(user) || (reader != Some(user) && is_suspended())
    }
}
