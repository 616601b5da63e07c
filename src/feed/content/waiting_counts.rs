//! Posts whose counts are to be pushed soon: each is pushed once for all changes until then.

use std::collections::HashSet;

use parking_lot::Mutex;

use crate::model::PostId;

/// These posts.
#[derive(Default)]
pub(crate) struct WaitingCounts(Mutex<HashSet<PostId>>);

impl WaitingCounts {
    /// Adds a post. `false` if it waits already.
    pub(crate) fn add(&self, post: PostId) -> bool {
        self.0.lock().insert(post)
    }

    /// Removes a post whose counts are read now. A later change adds it again.
    pub(crate) fn remove(&self, post: PostId) {
        self.0.lock().remove(&post);
    }
}
