//! Reposts that nobody sees, because of a block between their author and the author of the reposted post.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::relations::RelationCache;
use crate::feed::content::CachedPost;
use crate::feed::error::Result;
use crate::model::{PostId, Relation, UserId};

/// The reposts among these posts between whose author and the author of the reposted post there is a block, in
/// either direction. Nobody sees them. `reposted`: posts by id.
///
/// # Errors
/// If the ledger cannot be read.
pub(super) async fn blocked_reposts<'a>(
    relations: &RelationCache,
    posts: impl Iterator<Item = &'a Arc<CachedPost>> + Send,
    reposted: &HashMap<PostId, Arc<CachedPost>>,
) -> Result<HashSet<PostId>> {
    let authors = |cached: &'a Arc<CachedPost>| {
        let reposted = reposted.get(&cached.post.repost?)?;
        Some((cached.post.id, (cached.post.author.clone(), reposted.post.author.clone())))
    };
    let mut pairs: HashMap<PostId, (UserId, UserId)> = posts.filter_map(authors).collect();
    if pairs.is_empty() {
        return Ok(HashSet::new());
    }
    let restricted = relations.users_with_restrictions(pairs.values().map(|(_, author)| author.clone())).await?;
    pairs.retain(|_, (by, author)| by != author && restricted.contains(author));
    let between = relations.get(pairs.values().cloned()).await?;
    pairs.retain(|_, (by, author)| between.get(by, author).is_some_and(Relation::has_block));
    Ok(pairs.into_keys().collect())
}
