//! Posts by id, as they are encoded for readers, without a decision who may see them.

mod post_cache;
mod post_encoding;
mod push_counts;

pub(crate) use post_cache::{CachedPost, PostCache};
pub(crate) use post_encoding::{PostEventKind, append_members, with_counts};
