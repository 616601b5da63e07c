//! The posts that others name, as far as their reader may see them.

use std::collections::HashMap;
use std::sync::Arc;

use super::policy::VisibilityPolicy;
use super::visibility_rules::ViewContext;
use crate::feed::content::CachedPost;
use crate::feed::error::Result;
use crate::model::{PostId, UserId};

/// The posts that these posts name, which the reader may see, and those that reposted ones quote.
///
/// # Errors
/// If the ledger cannot be read.
pub(crate) async fn visible_named_posts(
    visibility: &VisibilityPolicy,
    reader: Option<&UserId>,
    posts: impl Iterator<Item = &Arc<CachedPost>> + Clone + Send,
) -> Result<HashMap<PostId, Arc<CachedPost>>> {
    let named: Vec<PostId> = posts.clone().filter_map(|cached| cached.post.named()).collect();
    if named.is_empty() {
        return Ok(HashMap::new());
    }
    let mut found = visibility.visible_posts(reader, ViewContext::Unrequested, named).await?;
    let reposted = posts.filter_map(|cached| found.get(&cached.post.repost?)?.post.quote);
    let quoted: Vec<PostId> = reposted.collect();
    if !quoted.is_empty() {
        found.extend(visibility.visible_posts(reader, ViewContext::Unrequested, quoted).await?);
    }
    Ok(found)
}
