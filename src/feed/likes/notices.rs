//! Who is notified of a like: whoever wrote what is liked.
//!
//! Settling does not wait for it, and it does not get in the way of settling, which writes to the same disk: likes gather,
//! so that those of one author are noted together, and of more than can be noted some are given up. Notifications are the
//! least of what a like is.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::super::notifications::Notice;
use super::super::{Feed, Result};
use crate::model::{Object, PostId, UserId, What};

/// Who likes what from now on.
pub(super) type Batch = Vec<(UserId, Object)>;

/// The shortest time between two rounds. The first like after a quiet while is noted at once.
const PAUSE: Duration = Duration::from_millis(500);

/// How many likes of one object are noted in a round, and how many in all.
const OF_ONE: usize = 500;
const IN_ALL: usize = 2_000;

impl Feed {
    /// Lets the authors know of likes that were settled, soon.
    pub(super) fn offer_likes(&self, added: Batch) {
        let many = added.len();
        if many > 0 && self.likes.added.try_send(added).is_err() {
            tracing::warn!(likes = many, "too many likes come for all of them to be notified of");
        }
    }

    /// Notifies until the process stops, of what was settled before.
    pub(super) async fn notify_of_likes(&self, mut added: mpsc::Receiver<Batch>) {
        let mut next = Instant::now();
        loop {
            let batch = tokio::select! {
                biased;
                batch = added.recv() => batch,
                () = self.likes.settlers.wait() => None,
            };
            let Some(mut likes) = batch else { return };
            // Where the process stops it does not wait.
            let _going_on = self.fanout.sleep(next.saturating_duration_since(Instant::now())).await;
            next = Instant::now() + PAUSE;
            while let Ok(more) = added.try_recv() {
                likes.extend(more);
            }
            let many = likes.len();
            let likes = bounded(likes);
            if likes.len() < many {
                let given_up = many - likes.len();
                tracing::warn!(given_up, "likes come too fast for all of them to be notified of");
            }
            let noted = likes.len();
            if let Err(error) = self.notify_authors(likes).await {
                tracing::warn!(%error, likes = noted, "likes are settled, their notifications are given up");
            }
        }
    }

    async fn notify_authors(&self, likes: Batch) -> Result<()> {
        let under = self.under(likes.iter().map(|(_, object)| *object)).await?;
        let posts = likes.iter().filter_map(|(_, object)| match object {
            Object::Post(post) => Some(*post),
            Object::Comment(_) => None,
        });
        let bodies = self.bodies.get(posts.collect::<Vec<PostId>>()).await?;
        let mut authors: HashMap<Object, UserId> = HashMap::new();
        authors.extend(bodies.values().map(|body| (Object::Post(body.post.id), body.post.author.clone())));
        authors.extend(under.into_iter().map(|(comment, under)| (Object::Comment(comment), under.author)));
        let notice = |(by, object): (UserId, Object)| {
            // What was deleted meanwhile has nobody to hear of it, and nobody hears of their own.
            let to = authors.get(&object).filter(|author| **author != by)?;
            Some(Notice::new(to, What::Like(object), &by))
        };
        self.note(likes.into_iter().filter_map(notice).collect()).await
    }
}

/// As many as are noted in a round. One object that many like leaves room for the others.
fn bounded(mut likes: Batch) -> Batch {
    let mut of_each: HashMap<Object, usize> = HashMap::new();
    likes.retain(|(_, object)| {
        let of_this = of_each.entry(*object).or_default();
        *of_this += 1;
        *of_this <= OF_ONE
    });
    likes.truncate(IN_ALL);
    likes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_object_that_many_like_leaves_room_for_the_others() {
        let like = |n: usize, post| (UserId::parse(&format!("u{n}")).unwrap(), Object::Post(PostId(post)));
        let hot = (0..5_000).map(|n| like(n, 1));
        let others = (0..3_000).map(|n| like(n, 2 + n as u64));
        let kept = bounded(hot.chain(others).collect());
        assert_eq!(kept.len(), IN_ALL);
        assert_eq!(kept.iter().filter(|(_, object)| *object == Object::Post(PostId(1))).count(), OF_ONE);
        let few: Batch = (0..10).map(|n| like(n, 1)).collect();
        assert_eq!(bounded(few.clone()), few);
    }
}
