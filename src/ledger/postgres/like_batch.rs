//! A batch of likes as `feedline_apply_like_batch` takes it, and the result of that function.

use std::collections::BTreeMap;

use tokio_postgres::Row;

use super::columns::{at, integer, json_text, user_ids};
use crate::ledger::{LedgerError, LikeBatch, Result, RevertReason, Reverted, SettledLikes};
use crate::model::{CommentId, ContentId, DomainEvent, LikeChange, PostId, Tally, UserId};

/// Changes of objects in the order of these, posts first, and of each object in the order of the queue.
#[derive(Default)]
pub(super) struct ChangeArrays<'a> {
    pub(super) objects: Vec<i64>,
    pub(super) users: Vec<&'a str>,
    pub(super) times: Vec<i64>,
    /// The changes of posts.
    pub(super) of_posts: i32,
    changes: Vec<&'a LikeChange>,
}

impl<'a> ChangeArrays<'a> {
    fn new(changes: impl Iterator<Item = &'a LikeChange>) -> Self {
        let mut changes: Vec<&LikeChange> = changes.collect();
        changes.sort_by_key(|change| change.object);
        let of_posts = changes.partition_point(|change| matches!(change.object, ContentId::Post(_)));
        Self {
            objects: changes.iter().map(|change| integer(change.object.number())).collect(),
            users: changes.iter().map(|change| change.user.as_str()).collect(),
            times: changes.iter().map(|change| integer(change.at)).collect(),
            of_posts: i32::try_from(of_posts).unwrap_or(i32::MAX),
            changes,
        }
    }

    /// The changes as pairs of a user and an object.
    fn likes(&self) -> Vec<(UserId, ContentId)> {
        self.changes.iter().map(|change| (change.user.clone(), change.object)).collect()
    }
}

/// A batch as arrays.
pub(super) struct BatchArrays<'a> {
    /// The posts in ascending order, each once.
    pub(super) posts: Vec<i64>,
    /// By how much the likes of each post grow if every change has an effect.
    pub(super) steps: Vec<i64>,
    /// The comments in ascending order, each once.
    pub(super) comments: Vec<i64>,
    pub(super) liked: ChangeArrays<'a>,
    pub(super) unliked: ChangeArrays<'a>,
    /// The users who like, in ascending order, each once.
    pub(super) likers: Vec<&'a str>,
    /// For each like, the id of its user as written; `None`: in lower case.
    pub(super) handles: Vec<Option<&'a str>>,
    pub(super) unseen: ChangeArrays<'a>,
    /// Whether each unseen change is one of a post.
    pub(super) unseen_of_post: Vec<bool>,
}

impl<'a> BatchArrays<'a> {
    pub(super) fn new(batch: &'a LikeBatch) -> Self {
        let mut posts = BTreeMap::new();
        let mut comments = BTreeMap::new();
        for change in &batch.changes {
            let steps = if matches!(change.object, ContentId::Post(_)) { &mut posts } else { &mut comments };
            *steps.entry(integer(change.object.number())).or_insert(0) += if change.liked { 1 } else { -1 };
        }
        let liked = ChangeArrays::new(batch.changes.iter().filter(|change| change.liked));
        let mut likers = liked.users.clone();
        likers.sort_unstable();
        likers.dedup();
        let handles = liked.changes.iter().map(|change| change.user.handle()).collect();
        let unseen = ChangeArrays::new(batch.unseen.iter());
        let of_post = |change: &&LikeChange| matches!(change.object, ContentId::Post(_));
        let (posts, steps) = posts.into_iter().unzip();
        Self {
            posts,
            steps,
            comments: comments.into_keys().collect(),
            unliked: ChangeArrays::new(batch.changes.iter().filter(|change| !change.liked)),
            likers,
            handles,
            unseen_of_post: unseen.changes.iter().map(of_post).collect(),
            liked,
            unseen,
        }
    }

    /// The events of the batch if all of its likes are new, of each object at most `of_each` likes.
    pub(super) fn events(&self, of_each: usize) -> Result<Vec<String>> {
        DomainEvent::liked(&self.liked.likes(), of_each).iter().map(json_text).collect()
    }

    /// The events of the likes that the batch takes back.
    pub(super) fn unliked_events(&self) -> Result<Vec<String>> {
        DomainEvent::unliked(&self.unliked.likes()).iter().map(json_text).collect()
    }

    /// Reads the result; `None`: the batch was not applied.
    pub(super) fn result(&self, row: &Row) -> Result<Option<SettledLikes>> {
        if !at::<bool>(row, 0)? {
            return Ok(None);
        }
        let strange = |what: &str| LedgerError::Failed(format!("settled likes with strange {what}"));
        let mut settled = SettledLikes::default();
        for place in at::<Vec<i32>>(row, 1)? {
            let place = usize::try_from(place - 1).ok();
            let change = place.and_then(|place| self.liked.changes.get(place)).ok_or_else(|| strange("places"))?;
            settled.added.push((change.user.clone(), change.object));
        }
        let of_post: Vec<bool> = at(row, 2)?;
        let numbers: [Vec<i64>; 4] = [at(row, 3)?, at(row, 4)?, at(row, 5)?, at(row, 6)?];
        for (index, of_post) in of_post.into_iter().enumerate() {
            let natural = |column: usize| {
                let number = numbers.get(column).and_then(|column| column.get(index)).copied();
                number.and_then(|number| u64::try_from(number).ok()).ok_or_else(|| strange("counts"))
            };
            let number = natural(0)?;
            let object = if of_post { ContentId::Post(PostId(number)) } else { ContentId::Comment(CommentId(number)) };
            settled.tallies.push((object, Tally { likes: natural(1)?, comments: natural(2)?, version: natural(3)? }));
        }
        if let Some(ids) = at::<Option<Vec<i64>>>(row, 7)? {
            let objects: Vec<&str> = at(row, 9)?;
            let reasons: Vec<&str> = at(row, 10)?;
            let users = user_ids(at(row, 8)?)?;
            for (((id, user), object), reason) in ids.into_iter().zip(users).zip(objects).zip(reasons) {
                settled.reverted.push(reverted(id, user, object, reason)?);
            }
        }
        Ok(Some(settled))
    }
}

/// A revert, from its columns.
pub(super) fn reverted(id: i64, user: UserId, object: &str, reason: &str) -> Result<Reverted> {
    let strange = || LedgerError::Failed(format!("a like of {object:?} reverted because {reason:?}"));
    let (object, reason) = ContentId::parse(object).zip(RevertReason::parse(reason)).ok_or_else(strange)?;
    Ok(Reverted { id, user, object, reason })
}
