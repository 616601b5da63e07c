//! Reposts that repeat what a timeline or a list has already: within 24 hours, it shows a post once.
//!
//! A repost is a repeat for a reader if, in the 24 hours before it, the timeline has the post itself or an earlier
//! repost of it. This depends on the ids, on the newest reposts of the post and on whom the reader follows, so it is
//! the same on pages, in pushes and after a recovery. In a list, its members are what followees are in a timeline.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::sync::OnceCell;

use super::blocked_reposts::blocked_reposts;
use super::followed_topics::TopicSet;
use super::followees::UserIdSet;
use super::policy::VisibilityPolicy;
use super::visibility_rules::{AccessContext, ViewContext};
use crate::feed::content::CachedPost;
use crate::feed::error::Result;
use crate::ledger::Ledger;
use crate::model::{FilterContext, List, ListId, Millis, Post, PostId, RepostedBy, UserId};

/// How long a post that a timeline has is not repeated.
const WINDOW: Millis = 24 * 3600 * 1000;

/// The users that [`RepostedBy`] names.
const MAX_NAMED: usize = 3;

/// What can bring posts into a timeline, by post: each post itself and its newest reposts, oldest first.
#[derive(Debug, Default)]
pub(crate) struct PostSources(HashMap<PostId, Vec<Arc<CachedPost>>>);

impl PostSources {
    /// The sources that a repost of a post may repeat.
    pub(crate) fn before(&self, repost: PostId, post: PostId) -> impl Iterator<Item = &Arc<CachedPost>> {
        self.0.get(&post).into_iter().flatten().filter(move |cached| is_within(cached.post.id, repost))
    }

    /// Whether a repost repeats what a timeline has. `has`: whether the timeline has a source.
    pub(crate) fn is_repeat(&self, repost: PostId, post: PostId, has: impl Fn(&CachedPost) -> bool) -> bool {
        self.before(repost, post).any(|cached| has(cached))
    }

    /// The authors of the repeats of `shown`, oldest first: later reposts that repeat it, or repeat one of its repeats.
    fn repeats_of(&self, shown: PostId, post: PostId, has: impl Fn(&CachedPost) -> bool) -> Vec<&UserId> {
        let mut last = shown;
        let mut authors = Vec::new();
        for cached in self.0.get(&post).into_iter().flatten() {
            let id = cached.post.id;
            if id <= shown || !has(cached) {
                continue;
            }
            if !is_within(last, id) {
                break;
            }
            last = id;
            authors.push(&cached.post.author);
        }
        authors
    }
}

/// Whether a repost repeats an earlier source.
fn is_within(source: PostId, repost: PostId) -> bool {
    source < repost && repost.time().saturating_sub(source.time()) < WINDOW
}

/// What gathers posts: the timeline of a reader, or a list.
#[derive(Clone, Copy)]
pub(crate) enum PostGathering<'a> {
    /// The reader's posts, and what the reader follows: the posts of users, and the public ones of topics.
    Timeline,
    /// The posts of the users of a list of the reader, and the public posts of its topics.
    List(&'a ListSource),
}

/// A list, and its members once they are needed.
pub(crate) struct ListSource {
    id: ListId,
    members: OnceCell<ListMemberSet>,
}

/// The members of a list.
#[derive(Debug)]
pub(crate) struct ListMemberSet {
    users: HashSet<UserId>,
    topics: TopicSet,
}

impl ListMemberSet {
    /// Reads the members of a list.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn load(ledger: &dyn Ledger, list: ListId) -> Result<Self> {
        let users = ledger.list_users(list, None, List::MAX_USERS);
        let (users, topics) = tokio::try_join!(users, ledger.list_topics(list))?;
        Ok(Self { users: users.into_iter().map(|(_, user)| user.id).collect(), topics: topics.into_iter().collect() })
    }

    /// Whether a user is a member.
    pub(crate) fn has_user(&self, user: &UserId) -> bool {
        self.users.contains(user)
    }

    /// Whether a post is by a member, or has a topic of the list, as far as the post decides.
    pub(crate) fn match_post(&self, post: &Post) -> bool {
        self.has_user(&post.author) || self.topics.matching(post).is_some()
    }
}

impl ListSource {
    /// The list with this number. Its members are read from the ledger once.
    pub(crate) fn new(id: ListId) -> Self {
        Self { id, members: OnceCell::new() }
    }

    async fn members(&self, ledger: &dyn Ledger) -> Result<&ListMemberSet> {
        self.members.get_or_try_init(|| ListMemberSet::load(ledger, self.id)).await
    }
}

impl PostGathering<'_> {
    /// How the reader sees the posts.
    fn view(self) -> ViewContext {
        match self {
            Self::Timeline => ViewContext::Timeline,
            Self::List(_) => ViewContext::List,
        }
    }

    /// Where filters of the reader apply to them.
    pub(crate) fn filter_context(self) -> FilterContext {
        match self {
            Self::Timeline => FilterContext::Home,
            Self::List(_) => FilterContext::Lists,
        }
    }
}

/// Who and what brings posts.
enum Gatherers<'a> {
    /// The reader, and what the reader follows: these users (`None`: too many to know them all at once) and topics.
    Followed(Option<Arc<UserIdSet>>, Option<Arc<TopicSet>>),
    /// The users and topics of a list.
    Members(&'a ListMemberSet),
}

impl Gatherers<'_> {
    /// Whether posts of an author may be here because of the author.
    fn has_author(&self, reader: &UserId, author: &UserId) -> bool {
        match self {
            Self::Followed(followees, _) => {
                author == reader || followees.as_ref().is_none_or(|all| all.contains(author))
            }
            Self::Members(members) => members.users.contains(author),
        }
    }

    /// The topics.
    fn topics(&self) -> Option<&TopicSet> {
        match self {
            Self::Followed(_, topics) => topics.as_deref(),
            Self::Members(members) => Some(&members.topics),
        }
    }

    /// Whether a post may be here because of its topics, as far as the post decides.
    fn has_topic_of(&self, post: &Post) -> bool {
        self.topics().is_some_and(|topics| topics.matching(post).is_some())
    }
}

/// Decides which posts a timeline or a list shows, out of those that its reader may see.
pub(crate) struct TimelinePolicy<'p>(&'p VisibilityPolicy);

impl<'p> TimelinePolicy<'p> {
    /// That of a deployment with this visibility policy.
    pub(crate) fn of(visibility: &'p VisibilityPolicy) -> Self {
        Self(visibility)
    }

    /// The sources of these posts: the posts themselves, and those of their newest reposts whose authors somebody
    /// `follows`. Reposts that nobody sees because of a block are omitted.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn sources(
        &self,
        posts: impl IntoIterator<Item = PostId> + Send,
        follows: impl Fn(&UserId) -> bool + Send,
    ) -> Result<PostSources> {
        let posts: HashSet<PostId> = posts.into_iter().collect();
        if posts.is_empty() {
            return Ok(PostSources::default());
        }
        let newest = self.0.newest_reposts.get(posts.iter().copied()).await?;
        let of_post = |post: PostId| {
            let reposts = newest.get(&post).into_iter().flat_map(|reposts| reposts.iter().rev());
            let followed = reposts.filter(|it| follows(&it.author)).map(|it| it.repost);
            std::iter::once(post).chain(followed).collect::<Vec<PostId>>()
        };
        let by_post: HashMap<PostId, Vec<PostId>> = posts.into_iter().map(|post| (post, of_post(post))).collect();
        let mut loaded = self.0.posts.get(by_post.values().flatten().copied().collect::<Vec<_>>()).await?;
        let blocked = blocked_reposts(&self.0.relations, loaded.values(), &loaded).await?;
        loaded.retain(|id, _| !blocked.contains(id));
        let sources = by_post
            .into_iter()
            .map(|(post, ids)| (post, ids.into_iter().filter_map(|id| loaded.get(&id).cloned()).collect()));
        Ok(PostSources(sources.collect()))
    }

    /// Who and what brings posts into a timeline or a list.
    async fn gatherers<'g>(&self, reader: &UserId, gathering: PostGathering<'g>) -> Result<Gatherers<'g>> {
        Ok(match gathering {
            PostGathering::Timeline => {
                let followees = self.0.relations.followees(reader).await?;
                Gatherers::Followed(followees, self.0.topics.of(reader).await?)
            }
            PostGathering::List(list) => Gatherers::Members(list.members(&*self.0.ledger).await?),
        })
    }

    /// The sources of posts that a timeline or a list has, and the ids of those that are there by the rules of their
    /// authors.
    async fn sources_of(
        &self,
        reader: &UserId,
        gathering: PostGathering<'_>,
        posts: impl IntoIterator<Item = PostId> + Send,
    ) -> Result<(PostSources, HashSet<PostId>)> {
        let gatherers = self.gatherers(reader, gathering).await?;
        let has_author = |author: &UserId| gatherers.has_author(reader, author);
        let sources = self.sources(posts, has_author).await?;
        let is_gathered = |post: &Post| has_author(&post.author) || gatherers.has_topic_of(post);
        let all = || sources.0.values().flatten().filter(|cached| is_gathered(&cached.post));
        let authors: HashSet<UserId> = all().map(|cached| cached.post.author.clone()).collect();
        // Topics have no posts of locked accounts.
        let locked = match gathering {
            PostGathering::Timeline => HashSet::new(),
            PostGathering::List(_) => self.0.relations.locked_among(authors.clone()).await?,
        };
        let relations = self.0.relations_to(Some(reader), authors).await?;
        let has = |cached: &CachedPost| {
            let author = &cached.post.author;
            let relation = self.0.relation(&relations, Some(reader), author);
            let is_offered = has_author(author) || !locked.contains(author);
            let access = AccessContext { reader: Some(reader), relation, view: gathering.view() };
            is_offered && access.can_see_in_timeline(&cached.post, gatherers.topics())
        };
        let here = all().filter(|cached| has(cached)).map(|cached| cached.post.id).collect();
        Ok((sources, here))
    }

    /// The existing posts among `ids` that a reader's timeline shows: those that the reader may see there, without
    /// reposts that repeat others.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn timeline_posts(
        &self,
        reader: &UserId,
        ids: impl IntoIterator<Item = PostId> + Send,
    ) -> Result<HashMap<PostId, Arc<CachedPost>>> {
        self.posts(reader, PostGathering::Timeline, ids).await
    }

    /// The existing posts among `ids` that a timeline or a list shows: those that the reader may see there, without
    /// reposts that repeat others.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn posts(
        &self,
        reader: &UserId,
        gathering: PostGathering<'_>,
        ids: impl IntoIterator<Item = PostId> + Send,
    ) -> Result<HashMap<PostId, Arc<CachedPost>>> {
        let mut posts = self.0.visible_posts(Some(reader), gathering.view(), ids).await?;
        self.remove_repeats(reader, gathering, &mut posts).await?;
        Ok(posts)
    }

    /// The followed topics for which a timeline has posts, by post. Posts of followees and of the reader are omitted.
    /// `shown`: posts that the timeline shows.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn followed_topics_of(
        &self,
        reader: &UserId,
        shown: &[Arc<CachedPost>],
    ) -> Result<HashMap<PostId, String>> {
        let Some(topics) = self.0.topics.of(reader).await? else { return Ok(HashMap::new()) };
        let tagged = shown.iter().filter(|cached| topics.matching(&cached.post).is_some());
        let authors: HashSet<UserId> = tagged.clone().map(|cached| cached.post.author.clone()).collect();
        let relations = self.0.relations_to(Some(reader), authors).await?;
        let topic = |cached: &Arc<CachedPost>| {
            let relation = self.0.relation(&relations, Some(reader), &cached.post.author);
            let access = AccessContext { reader: Some(reader), relation, view: ViewContext::Timeline };
            if access.can_see_post(&cached.post) {
                return None;
            }
            Some((cached.post.id, access.followed_topic(&cached.post, Some(&*topics))?.to_owned()))
        };
        Ok(tagged.filter_map(topic).collect())
    }

    /// Removes reposts that repeat what a timeline or a list has, from posts that the reader may see there.
    async fn remove_repeats(
        &self,
        reader: &UserId,
        gathering: PostGathering<'_>,
        posts: &mut HashMap<PostId, Arc<CachedPost>>,
    ) -> Result<()> {
        let reposted: Vec<PostId> = posts.values().filter_map(|cached| cached.post.repost).collect();
        if reposted.is_empty() {
            return Ok(());
        }
        let (sources, here) = self.sources_of(reader, gathering, reposted).await?;
        posts.retain(|id, cached| {
            let is_repeat = |post| sources.is_repeat(*id, post, |source| here.contains(&source.post.id));
            !cached.post.repost.is_some_and(is_repeat)
        });
        Ok(())
    }

    /// Who else reposted the posts that a page of a timeline or a list shows, among those whose reposts it has; by the
    /// id of the shown post or repost. `reposted`: the posts, out of those shown, that were reposted.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn reposted_by(
        &self,
        reader: &UserId,
        gathering: PostGathering<'_>,
        shown: &[Arc<CachedPost>],
        reposted: &HashSet<PostId>,
    ) -> Result<HashMap<PostId, RepostedBy>> {
        let post_of = |cached: &CachedPost| cached.post.repost.unwrap_or(cached.post.id);
        let shown: Vec<(PostId, PostId)> =
            shown.iter().map(|it| (it.post.id, post_of(it))).filter(|(_, post)| reposted.contains(post)).collect();
        let (sources, here) = self.sources_of(reader, gathering, shown.iter().map(|(_, post)| *post)).await?;
        let repeats = shown.into_iter().filter_map(|(id, post)| {
            let mut authors = sources.repeats_of(id, post, |source| here.contains(&source.post.id));
            authors.retain(|author| *author != reader);
            let people: Vec<UserId> = authors.iter().take(MAX_NAMED).map(|author| UserId::clone(author)).collect();
            (!people.is_empty()).then_some((id, RepostedBy { people, count: authors.len() as u64 }))
        });
        Ok(repeats.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Visibility;

    const HOUR: Millis = 3600 * 1000;

    fn at(hours: u64) -> PostId {
        PostId::from_parts(PostId::TIME_ZERO + 1 + hours * HOUR, 1, 0)
    }

    fn by(author: &str, id: PostId) -> Arc<CachedPost> {
        let author = UserId::parse(author).expect("an id");
        CachedPost::new(Post::repost(id, &author, at(0), Visibility::Public), false).expect("a post")
    }

    /// The post at 0 by ann, and reposts by the others.
    fn sources() -> PostSources {
        let reposts = [("bo", 1), ("cy", 20), ("di", 30), ("ed", 50), ("fay", 80)];
        let reposts = reposts.map(|(author, hours)| by(author, at(hours)));
        PostSources(HashMap::from([(at(0), std::iter::once(by("ann", at(0))).chain(reposts).collect())]))
    }

    fn repeats(followed: &[&str]) -> String {
        let sources = sources();
        let has = |cached: &CachedPost| followed.contains(&cached.post.author.as_str());
        let marks = [("bo", 1), ("cy", 20), ("di", 30), ("ed", 50), ("fay", 80)];
        let marks = marks.into_iter().filter(|(author, _)| followed.contains(author));
        marks.map(|(_, hours)| if sources.is_repeat(at(hours), at(0), has) { 'r' } else { 's' }).collect()
    }

    #[test]
    fn a_timeline_shows_a_post_once_in_24_hours() {
        let rows: [(&[&str], &str); 6] = [
            (&["bo"], "s"),
            (&["ann", "bo", "di"], "rs"),
            (&["ann", "bo", "cy", "di", "ed", "fay"], "rrrrs"),
            (&["bo", "di"], "ss"),
            (&["cy", "di", "ed"], "srr"),
            (&["ed", "fay"], "ss"),
        ];
        for (followed, expected) in rows {
            assert_eq!(repeats(followed), expected, "{followed:?}");
        }
    }

    #[test]
    fn the_shown_one_stands_for_its_repeats() {
        let sources = sources();
        let of = |shown, followed: &[&str]| {
            let has = |cached: &CachedPost| followed.contains(&cached.post.author.as_str());
            sources.repeats_of(shown, at(0), has).into_iter().map(UserId::as_str).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of(at(0), &["ann", "bo", "cy", "di", "ed", "fay"]), "bo cy di ed");
        assert_eq!(of(at(0), &["ann", "di"]), "");
        assert_eq!(of(at(20), &["cy", "di", "ed", "fay"]), "di ed");
        assert_eq!(of(at(80), &["fay"]), "");
    }
}
