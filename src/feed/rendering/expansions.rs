//! Expansions: the likers, comments and people of a page of posts.
//!
//! Without expansions, a client would request likers and comments of each post of a page. An expansion contains the
//! beginnings of these lists for the whole page: one ledger call for the previews, and up to four more calls on cache
//! misses of relations, for any number of posts.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::feed::content::CachedPost;
use crate::feed::error::Result;
use crate::feed::expand::{Expand, PostPreview};
use crate::feed::filters::AppliedFilters;
use crate::feed::visibility::VisibilityPolicy;
use crate::ledger::{Ledger, PreviewLimits, PreviewRows};
use crate::model::{Comment, PostId, UserId};

/// The factor by which more rows are read, because the reader may not see all of them. If too few are visible, the
/// preview is shorter: further reads would make the cost depend on the reader.
const OVERREAD_FACTOR: usize = 4;

/// The number of mentioned users of each post and comment that are included: the first ones.
const MAX_MENTIONED: usize = 10;

/// What expansions are loaded with.
pub(super) struct ExpansionSource<'a> {
    pub(super) ledger: &'a dyn Ledger,
    pub(super) visibility: &'a VisibilityPolicy,
    /// The filters of the reader.
    pub(super) filters: Option<&'a AppliedFilters>,
}

/// The expansion of a page of posts.
#[derive(Default)]
pub(crate) struct Expansion {
    previews: HashMap<PostId, PostPreview>,
    /// The users to include, besides the authors.
    pub(crate) people: HashSet<UserId>,
}

impl Expansion {
    /// The preview of a post.
    pub(crate) fn preview(&self, post: PostId) -> Option<&PostPreview> {
        self.previews.get(&post)
    }

    /// Adds the likes and comments of users that the reader may see, without comments that a filter hides.
    fn add(
        &mut self,
        newest: PreviewRows,
        visible: &HashSet<UserId>,
        filters: Option<&AppliedFilters>,
        expand: Expand,
    ) {
        for (post, liker) in newest.likers {
            let likers = self.previews.get_mut(&post).and_then(|preview| preview.likers.as_mut());
            if let Some(likers) = likers.filter(|likers| likers.len() < expand.likers && visible.contains(&liker)) {
                likers.push(liker);
            }
        }
        for mut comment in newest.comments {
            if !filters.is_none_or(|filters| filters.mark(&mut comment)) {
                continue;
            }
            let comments = self.previews.get_mut(&comment.post).and_then(|preview| preview.newest_comments.as_mut());
            let is_visible = comment.author.as_ref().is_none_or(|author| visible.contains(author));
            if let Some(comments) = comments.filter(|comments| comments.len() < expand.comments && is_visible) {
                comments.push(comment);
            }
        }
    }

    /// The likers and commenters.
    fn actors(&self) -> impl Iterator<Item = &UserId> {
        let likers = self.previews.values().flat_map(|preview| preview.likers.iter().flatten());
        likers.chain(self.comments().filter_map(|comment| comment.author.as_ref()))
    }

    fn comments(&self) -> impl Iterator<Item = &Comment> {
        self.previews.values().flat_map(|preview| preview.newest_comments.iter().flatten())
    }

    /// The expansion of posts that the reader may see. One ledger call for the previews; relations are cached, and
    /// loaded for all users at once.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn load(
        source: ExpansionSource<'_>,
        reader: Option<&UserId>,
        posts: &[Arc<CachedPost>],
        expand: Expand,
    ) -> Result<Self> {
        let ExpansionSource { ledger, visibility, filters } = source;
        let mut expansion = Self::default();
        let Expand { likers, comments, people } = expand;
        if likers + comments > 0 && !posts.is_empty() {
            let ids: Vec<PostId> = posts.iter().map(|cached| cached.post.id).collect();
            let most = PreviewLimits { likers: likers * OVERREAD_FACTOR, comments: comments * OVERREAD_FACTOR };
            let newest = ledger.newest_previews(&ids, most).await?;
            let authors = newest.comments.iter().filter_map(|comment| comment.author.as_ref());
            let actors = newest.likers.iter().map(|(_, liker)| liker).chain(authors).cloned().collect();
            // As in the lists themselves, mutes do not apply.
            let visible = visibility.filter_users(reader, actors, |relation| !relation.is_barred()).await?;
            let empty =
                PostPreview { likers: (likers > 0).then(Vec::new), newest_comments: (comments > 0).then(Vec::new) };
            expansion.previews = ids.into_iter().map(|id| (id, empty.clone())).collect();
            expansion.add(newest, &visible, filters, expand);
        }
        if people {
            let in_posts = posts.iter().flat_map(|cached| cached.post.mentions.iter().take(MAX_MENTIONED));
            let in_comments = expansion.comments().flat_map(|comment| comment.mentions.iter().take(MAX_MENTIONED));
            let mentioned: HashSet<UserId> = in_posts.chain(in_comments).cloned().collect();
            // As on a profile, users that hide from the reader are included: an omission would reveal the hide.
            let mut people = visibility.filter_users(reader, mentioned, |relation| !relation.has_block()).await?;
            people.extend(expansion.actors().cloned());
            expansion.people = people;
        }
        Ok(expansion)
    }
}
