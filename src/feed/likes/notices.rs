//! Who is notified of a like: whoever wrote what is liked.
//!
//! Settling does not wait for it. Where more likes are settled than can be noted, notifications are given up: they are the
//! least of what a like is.

use std::collections::HashMap;

use tokio::sync::mpsc;

use super::super::{Feed, Result};
use crate::model::{Object, PostId, UserId, What};

/// Who likes what from now on.
pub(super) type Batch = Vec<(UserId, Object)>;

impl Feed {
    /// Lets the authors know of likes that were settled, soon.
    pub(super) fn offer_likes(&self, added: Batch) {
        let many = added.len();
        if many > 0 && self.likes.added.try_send(added).is_err() {
            tracing::warn!(likes = many, "too many likes come for all of them to be notified of");
        }
    }

    /// Notifies until the process stops.
    pub(super) async fn notify_of_likes(&self, mut added: mpsc::Receiver<Batch>) {
        loop {
            let batch = tokio::select! {
                batch = added.recv() => batch,
                () = self.fanout.stopped() => None,
            };
            let Some(batch) = batch else { return };
            if let Err(error) = self.notify_authors(&batch).await {
                tracing::warn!(%error, likes = batch.len(), "likes are settled, their notifications are given up");
            }
        }
    }

    async fn notify_authors(&self, added: &[(UserId, Object)]) -> Result<()> {
        let under = self.under(added.iter().map(|(_, object)| *object)).await?;
        let posts = added.iter().filter_map(|(_, object)| match object {
            Object::Post(post) => Some(*post),
            Object::Comment(_) => None,
        });
        let bodies = self.bodies.get(posts.collect::<Vec<PostId>>()).await?;
        let mut authors: HashMap<Object, UserId> = HashMap::new();
        authors.extend(bodies.values().map(|body| (Object::Post(body.post.id), body.post.author.clone())));
        authors.extend(under.into_iter().map(|(comment, under)| (Object::Comment(comment), under.author)));
        let mut given_up = 0;
        for (by, object) in added {
            // What was deleted meanwhile has nobody to hear of it.
            if let Some(author) = authors.get(object) {
                given_up += usize::from(!self.try_notify(author, What::Like(*object), by).await);
            }
        }
        if given_up > 0 {
            tracing::warn!(given_up, likes = added.len(), "likes come too fast for all of them to be notified of");
        }
        Ok(())
    }
}
