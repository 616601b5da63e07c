//! The posts that a post names, reposted or quoted, as members of its JSON.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::feed::content::{CachedPost, EncodedQuote, NamedPosts, append_members};
use crate::feed::error::Result;
use crate::model::{PostCounts, PostFlags, PostId, QuoteState, UserId};

/// Where the posts that others name come from, and how they are shown.
pub(super) trait NamedPostSource {
    /// The reader that they are encoded for; `None`: anybody but their authors.
    fn reader(&self) -> Option<&UserId>;

    /// A post that is named, if it exists.
    fn find(&self, post: PostId) -> Option<&CachedPost>;

    /// Its counts, and the flags of the reader.
    fn members(&self, post: PostId) -> (PostCounts, Option<PostFlags>);

    /// Whether the reader may see a quoted post.
    fn shows(&self, quoted: &CachedPost) -> bool;
}

/// The encoded posts that one post names.
#[derive(Default)]
pub(super) struct EncodedNamed {
    repost: Option<Box<RawValue>>,
    quote: Option<OwnedQuote>,
}

/// A quoted post, encoded.
struct OwnedQuote {
    id: PostId,
    state: QuoteState,
    /// The post, if it is shown.
    post: Option<Box<RawValue>>,
}

impl EncodedNamed {
    /// Encodes the posts that a post names. A reposted post is shown with the post that it quotes.
    pub(super) fn encode(cached: &CachedPost, source: &impl NamedPostSource) -> Result<Self> {
        let Some(reposted) = cached.post.repost else {
            return Ok(Self { repost: None, quote: quote(cached, source)? });
        };
        let Some(reposted) = source.find(reposted) else { return Ok(Self::default()) };
        let inner = Self { repost: None, quote: quote(reposted, source)? };
        let repost = encode_post(reposted, source, inner.members())?;
        Ok(Self { repost: Some(repost), quote: None })
    }

    /// The members of the post that names them.
    pub(super) fn members(&self) -> NamedPosts<'_> {
        let quote = self.quote.as_ref();
        NamedPosts {
            repost: self.repost.as_deref(),
            quote: quote.map(|it| EncodedQuote { id: it.id, state: it.state, post: it.post.as_deref() }),
        }
    }
}

/// The quoted post that a post shows to some readers: its own, or that of the reposted post.
pub(super) fn quoted<'a>(cached: &'a CachedPost, find: impl Fn(PostId) -> Option<&'a CachedPost>) -> Option<PostId> {
    let quoting = match cached.post.repost {
        Some(reposted) => find(reposted)?,
        None => cached,
    };
    quoting.post.quote.filter(|_| !quoting.is_detached)
}

/// The quote of a post: one level, without the post that the quoted one quotes.
fn quote(cached: &CachedPost, source: &impl NamedPostSource) -> Result<Option<OwnedQuote>> {
    let Some(id) = cached.post.quote else { return Ok(None) };
    if cached.is_detached {
        return Ok(Some(OwnedQuote { id, state: QuoteState::Detached, post: None }));
    }
    let Some(quoted) = source.find(id).filter(|quoted| source.shows(quoted)) else {
        return Ok(Some(OwnedQuote { id, state: QuoteState::Unavailable, post: None }));
    };
    let post = encode_post(quoted, source, NamedPosts::default())?;
    Ok(Some(OwnedQuote { id, state: QuoteState::Shown, post: Some(post) }))
}

fn encode_post(cached: &CachedPost, source: &impl NamedPostSource, named: NamedPosts<'_>) -> Result<Box<RawValue>> {
    #[derive(Serialize)]
    struct NamedPostMembers<'a> {
        #[serde(flatten)]
        counts: PostCounts,
        #[serde(flatten)]
        flags: Option<PostFlags>,
        #[serde(flatten)]
        named: NamedPosts<'a>,
    }
    let (counts, flags) = source.members(cached.post.id);
    append_members(cached.json_for(source.reader()), &NamedPostMembers { counts, flags, named })
}
