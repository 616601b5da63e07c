//! The traces of posts that are being delivered.
//!
//! A hint names a post and has no room for more: earlier versions would refuse a longer one. So the node that begins
//! the fan-out of a recorded post signals its trace to all nodes first. Redis delivers the signal to a node before the
//! hints that were published after it. A node that misses the signal delivers the post without a span; an earlier
//! version ignores it.

use std::time::Duration;

use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use crate::model::{PostId, TraceContext};

/// Posts whose traces a node knows. Further ones replace those that were not looked up for the longest time.
const MAX_POSTS: u64 = 1_024;

/// How long deliveries of a post continue its trace.
const KEPT: Duration = Duration::from_secs(60);

/// The trace of each post that is being delivered.
#[derive(Debug)]
pub(super) struct PostTraces(Cache<PostId, TraceContext>);

impl PostTraces {
    pub(super) fn new() -> Self {
        let posts = Cache::builder().max_capacity(MAX_POSTS).eviction_policy(EvictionPolicy::lru());
        Self(posts.time_to_live(KEPT).build())
    }

    /// Deliveries of a post continue this trace from now on.
    pub(super) fn note(&self, post: PostId, context: TraceContext) {
        self.0.insert(post, context);
    }

    pub(super) fn get(&self, post: PostId) -> Option<TraceContext> {
        self.0.get(&post)
    }
}
