//! Posts in replies: the author's part, encoded once, with counts and flags appended.
//!
//! A reply contains the current counts of the ledger and, for a signed-in reader, the reader's own flags (liked,
//! favourited). Pushes are encoded once for all recipients: their counts may be 2 seconds old, and they have no flags.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

use super::expansions::Expansion;
use super::people::by_id;
use crate::feed::content::{CachedPost, append_members};
use crate::feed::error::Result;
use crate::feed::expand::{Expand, PostPreview};
use crate::feed::input::PostPage;
use crate::feed::paging::PageCursor as _;
use crate::feed::visibility::VisibilityPolicy;
use crate::ledger::{Hydration, Ledger};
use crate::model::{Person, PostCounts, PostFlags, PostId, UserId};

/// The members that are appended to the author's part.
#[derive(Serialize)]
struct Appended<'a> {
    #[serde(flatten)]
    counts: PostCounts,
    #[serde(flatten)]
    flags: Option<PostFlags>,
    #[serde(flatten)]
    preview: Option<&'a PostPreview>,
}

/// Renders posts.
pub(crate) struct PostRenderer {
    ledger: Arc<dyn Ledger>,
    visibility: Arc<VisibilityPolicy>,
}

impl PostRenderer {
    /// A renderer that reads counts, flags and people from this ledger.
    pub(crate) fn new(ledger: Arc<dyn Ledger>, visibility: Arc<VisibilityPolicy>) -> Self {
        Self { ledger, visibility }
    }

    /// Posts with their counts and, for a signed-in reader, flags: one ledger call for all of them.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn render(
        &self,
        reader: Option<&UserId>,
        posts: &[Arc<CachedPost>],
    ) -> Result<Vec<Box<RawValue>>> {
        Ok(self.hydrate(reader, posts, &[], &Expansion::default()).await?.0)
    }

    /// A page of posts with their people: one ledger call, and a few more for expansions. The number of calls does not
    /// depend on the number of posts.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn render_page(
        &self,
        reader: Option<&UserId>,
        posts: &[Arc<CachedPost>],
        next: Option<PostId>,
        expand: &Expand,
    ) -> Result<PostPage> {
        let expansion = Expansion::load(&*self.ledger, &self.visibility, reader, posts, *expand).await?;
        let authors = posts.iter().map(|cached| &cached.post.author);
        let people: HashSet<&UserId> = authors.chain(expansion.people.iter()).collect();
        let people: Vec<UserId> = people.into_iter().cloned().collect();
        let (items, people) = self.hydrate(reader, posts, &people, &expansion).await?;
        Ok(PostPage { items, people, next: next.map(|id| id.encode()) })
    }

    async fn hydrate(
        &self,
        reader: Option<&UserId>,
        posts: &[Arc<CachedPost>],
        people: &[UserId],
        expansion: &Expansion,
    ) -> Result<(Vec<Box<RawValue>>, BTreeMap<UserId, Person>)> {
        if posts.is_empty() {
            return Ok(Default::default());
        }
        let ids: Vec<PostId> = posts.iter().map(|cached| cached.post.id).collect();
        let Hydration { counts, flags, people } = self.ledger.hydrate(reader, &ids, people).await?;
        let counts: HashMap<PostId, PostCounts> = counts.into_iter().collect();
        let flags: HashMap<PostId, PostFlags> = flags.into_iter().collect();
        let closed = match reader {
            Some(reader) => self.visibility.closed_to_comments(reader, posts.iter().map(|cached| &**cached)).await?,
            None => HashSet::new(),
        };
        let render = |cached: &Arc<CachedPost>| {
            let id = &cached.post.id;
            let flags = reader.map(|_| {
                let flags = flags.get(id).copied().unwrap_or_default();
                PostFlags { can_comment: !closed.contains(id), ..flags }
            });
            let counts = counts.get(id).copied().unwrap_or_default();
            append_members(cached.json_for(reader), &Appended { counts, flags, preview: expansion.preview(*id) })
        };
        Ok((posts.iter().map(render).collect::<Result<_>>()?, by_id(people)))
    }
}
