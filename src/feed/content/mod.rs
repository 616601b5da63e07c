//! Posts by id, encoded for readers. This module does not check visibility.

mod newest_reposts;
mod post_cache;
mod post_encoding;
mod push_counts;
mod waiting_counts;

pub(crate) use newest_reposts::NewestReposts;
pub(crate) use post_cache::{CachedPost, PostCache, PostMap};
pub(crate) use post_encoding::{
    EncodedQuote, NamedPosts, PostEventKind, append_members, with_counts, with_marks, with_topic,
};
pub(crate) use waiting_counts::WaitingCounts;
