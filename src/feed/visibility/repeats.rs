//! Reposts that repeat what a timeline has already: within 24 hours, a timeline shows a post once.
//!
//! A repost is a repeat for a reader if, in the 24 hours before it, the timeline has the post itself or an earlier
//! repost of it. This depends on the ids, on the newest reposts of the post and on whom the reader follows, so it is
//! the same on pages, in pushes and after a recovery.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::access::{AccessContext, ViewContext};
use super::policy::VisibilityPolicy;
use crate::feed::content::CachedPost;
use crate::feed::error::Result;
use crate::model::{Millis, PostId, RepostedBy, UserId};

/// How long a post that a timeline has is not repeated.
const WINDOW: Millis = 24 * 3600 * 1000;

/// The users that [`RepostedBy`] names.
const MAX_NAMED: usize = 3;

/// What can bring posts into a timeline, by post: each post itself and its newest reposts, oldest first.
#[derive(Debug, Default)]
pub(crate) struct PostSources(HashMap<PostId, Vec<Arc<CachedPost>>>);

impl PostSources {
    /// The authors of the sources that a repost of a post may repeat.
    pub(crate) fn authors_before(&self, repost: PostId, post: PostId) -> impl Iterator<Item = &UserId> {
        let before = self.0.get(&post).into_iter().flatten().filter(move |cached| is_within(cached.post.id, repost));
        before.map(|cached| &cached.post.author)
    }

    /// Whether a repost repeats what a timeline has. `has`: whether the timeline has a source.
    pub(crate) fn is_repeat(&self, repost: PostId, post: PostId, has: impl Fn(&CachedPost) -> bool) -> bool {
        let sources = self.0.get(&post).into_iter().flatten();
        sources.filter(|cached| is_within(cached.post.id, repost)).any(|cached| has(cached))
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

/// Decides which posts a timeline shows, out of those that its reader may see.
pub(crate) struct TimelinePolicy<'p>(&'p VisibilityPolicy);

impl<'p> TimelinePolicy<'p> {
    /// That of a deployment with this visibility policy.
    pub(crate) fn of(visibility: &'p VisibilityPolicy) -> Self {
        Self(visibility)
    }

    /// The sources of these posts: the posts themselves, and those of their newest reposts whose authors somebody
    /// `follows`.
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
        let loaded = self.0.posts.get(by_post.values().flatten().copied().collect::<Vec<_>>()).await?;
        let sources = by_post
            .into_iter()
            .map(|(post, ids)| (post, ids.into_iter().filter_map(|id| loaded.get(&id).cloned()).collect()));
        Ok(PostSources(sources.collect()))
    }

    /// The sources of posts that a reader has in the timeline, and the ids of those that are there by the
    /// rules of their authors.
    async fn sources_of(
        &self,
        reader: &UserId,
        posts: impl IntoIterator<Item = PostId> + Send,
    ) -> Result<(PostSources, HashSet<PostId>)> {
        let followees = self.0.relations.followees(reader).await?;
        // A reader may follow too many to know them all at once.
        let follows = |author: &UserId| author == reader || followees.as_ref().is_none_or(|all| all.contains(author));
        let sources = self.sources(posts, follows).await?;
        let all = || sources.0.values().flatten().filter(|cached| follows(&cached.post.author));
        let authors: HashSet<UserId> = all().map(|cached| cached.post.author.clone()).collect();
        let relations = self.0.relations_to(Some(reader), authors).await?;
        let has = |cached: &CachedPost| {
            let relation = self.0.relation(&relations, Some(reader), &cached.post.author);
            AccessContext { reader: Some(reader), relation, view: ViewContext::Timeline }.can_see_post(&cached.post)
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
        let mut posts = self.0.visible_posts(Some(reader), ViewContext::Timeline, ids).await?;
        self.remove_repeats(reader, &mut posts).await?;
        Ok(posts)
    }

    /// Removes reposts that repeat what the timeline of a reader has, from posts that the reader may see there.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    async fn remove_repeats(&self, reader: &UserId, posts: &mut HashMap<PostId, Arc<CachedPost>>) -> Result<()> {
        let reposted: Vec<PostId> = posts.values().filter_map(|cached| cached.post.repost).collect();
        if reposted.is_empty() {
            return Ok(());
        }
        let (sources, here) = self.sources_of(reader, reposted).await?;
        posts.retain(|id, cached| {
            let is_repeat = |post| sources.is_repeat(*id, post, |source| here.contains(&source.post.id));
            !cached.post.repost.is_some_and(is_repeat)
        });
        Ok(())
    }

    /// Who else reposted the posts that a page of a timeline shows, among the users that the reader follows; by the id
    /// of the shown post or repost. `reposted`: the posts, out of those shown, that were reposted.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn reposted_by(
        &self,
        reader: &UserId,
        shown: &[Arc<CachedPost>],
        reposted: &HashSet<PostId>,
    ) -> Result<HashMap<PostId, RepostedBy>> {
        let post_of = |cached: &CachedPost| cached.post.repost.unwrap_or(cached.post.id);
        let shown: Vec<(PostId, PostId)> =
            shown.iter().map(|it| (it.post.id, post_of(it))).filter(|(_, post)| reposted.contains(post)).collect();
        let (sources, here) = self.sources_of(reader, shown.iter().map(|(_, post)| *post)).await?;
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
    use crate::model::{Post, Visibility};

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
