//! Posts by id, encoded for readers. This module does not check visibility.

mod post_cache;
mod post_encoding;
mod push_counts;

pub(crate) use post_cache::{CachedPost, PostCache, PostMap};
pub(crate) use post_encoding::{PostEventKind, append_members, with_counts};
