//! What each kind of job does.

use super::channel_updates::removed;
use super::walk::Walk;
use super::{Held, Outcome};
use crate::broker::{FannedOut, Invalidation, Page};
use crate::feed::timelines::EdgeOutcome;
use crate::feed::visibility::Recipients;
use crate::feed::{Feed, FeedError, Result, now, pull_log};
use crate::ledger::{JOBS, Job, VisibilityChange, Work};
use crate::model::{Entry, GoneReason};

impl Feed {
    pub(super) async fn attempt(&self, job: &Job, held: &mut Held) -> Result<Outcome> {
        self.lineage.note_number(JOBS, u64::try_from(job.id).unwrap_or_default()).await?;
        if !self.still_holds(held).await? {
            return Ok(Outcome::Lost);
        }
        if job.work.is_ordered() && !self.begin(held).await? {
            return Ok(Outcome::Lost);
        }
        match &job.work {
            Work::Post { post, author } => {
                if !held.is_fresh() {
                    // It may have been deleted at another node while this one could not hear of it.
                    self.post_cache.invalidate(*post);
                }
                // A post deleted meanwhile is not carried any further.
                let Some(body) = self.post_cache.get([*post]).await?.remove(post) else { return Ok(Outcome::Done) };
                let entry = Entry::Post(*post);
                if held.is_fresh() {
                    self.channel_updates.publish(job.id, author, &body.post.topics, &entry).await?;
                }
                let recipients = Recipients::Viewers;
                self.spread(&Walk { author, entry: &entry, recipients, created_at: job.created_at }, held).await
            }
            Work::Delete { post, author, topics, visibility } => {
                self.invalidator.invalidate(&[Invalidation::Post(*post)]).await?;
                let entry = Entry::Gone(*post, GoneReason::Deleted);
                if held.is_fresh() {
                    let left = Entry::Left(Box::new(removed(*post, author, visibility, GoneReason::Deleted)));
                    self.channel_updates.publish(job.id, author, topics, &left).await?;
                    self.channel_updates.publish_to_post(job.id, *post, &left).await?;
                }
                let recipients = Recipients::Holders { before: visibility };
                let outcome =
                    self.spread(&Walk { author, entry: &entry, recipients, created_at: job.created_at }, held).await?;
                self.favourites.remove_deleted_post(*post).await?;
                Ok(outcome)
            }
            Work::Edit { .. } | Work::Narrow { .. } | Work::Widen { .. } => self.carry_edit(job, held).await,
            Work::Follow { .. } | Work::Unfollow { .. } | Work::Part { .. } => Ok(match self.edges.run(job).await? {
                EdgeOutcome::Done => Outcome::Done,
                EdgeOutcome::Repeat => Outcome::Later,
            }),
        }
    }

    /// Brings an entry to the author's followers: by writing to each of them, or, where they are too many, by way of the
    /// pulled log. Each entry is carried in one way or the other, whatever was done with the author's others.
    async fn spread(&self, walk: &Walk<'_>, held: &mut Held) -> Result<Outcome> {
        // What an earlier attempt began in one way is not to be done in the other.
        if held.progress.own {
            return self.hand_over(walk, held).await;
        }
        if !held.is_fresh() {
            return self.walk(walk, held).await;
        }
        let carriage = self.ledger.carriage(walk.author).await?;
        let most = self.fanout.options.push_limit;
        // An author whose number goes up and down around the limit stays what they were, so that two posts in a row
        // rarely take different ways: one could overtake the other.
        let some_fewer = most - most / 5;
        if carriage.followers > most || (carriage.pulled && carriage.followers > some_fewer) {
            return self.hand_over(walk, held).await;
        }
        self.walk(walk, held).await
    }

    /// Puts an entry into the pulled log and tells every node. A node that does not hear it looks by itself.
    async fn hand_over(&self, walk: &Walk<'_>, held: &Held) -> Result<Outcome> {
        if !held.progress.own {
            let own = vec![walk.author.clone()];
            match self
                .write_page(walk, &held.attempt, Page::Own, own)
                .await?
                .await
                .map_err(|_| FeedError::Internal)??
            {
                FannedOut::Written(receipts) => self.metrics.fanned_out(&receipts),
                FannedOut::Fenced => return Ok(Outcome::Fenced),
            }
        }
        if !self.fanout.held.may_write(held.attempt.job, held.attempt.generation, self.fanout.options.lease) {
            return Ok(Outcome::Fenced);
        }
        // Nodes read entries without their recipients, so some entries are for those inboxes only that hold the post.
        let look = walk.recipients.needs_look();
        self.ledger.pull(held.attempt.job, walk.author, walk.entry, look, now()).await?;
        if let Err(error) = self.broker.signal(pull_log::GROWN.into()).await {
            tracing::debug!(%error, job = held.attempt.job, "the nodes were not told of a pulled post, and will look");
        }
        Ok(Outcome::Done)
    }

    /// Carries what an edit changed.
    async fn carry_edit(&self, job: &Job, held: &mut Held) -> Result<Outcome> {
        // Of a job of an older version it is not known who gains sight of the post: inboxes are searched for it.
        let mut created_at = job.created_at;
        let (entry, author, recipients) = match &job.work {
            Work::Edit { post, author, topics, visibility } => {
                // What is said of the edit shows the post: no node shows it as it was before. Whoever edited it waits for that
                // too, but may have gone, with their node.
                self.invalidator.invalidate(&[Invalidation::Post(*post)]).await?;
                if held.is_fresh() {
                    let before = removed(*post, author, visibility, GoneReason::Hidden);
                    self.channel_updates.publish_edit(job.id, before, topics).await?;
                }
                (Entry::Edited(*post), author, Recipients::RemainingViewers { before: visibility })
            }
            Work::Narrow { post, author, change } => {
                // Another node may have edited the post, and died before this one heard of it.
                self.post_cache.invalidate(*post);
                let recipients = match change {
                    Some(VisibilityChange { before, after }) => Recipients::FormerViewers { before, after },
                    None => Recipients::NonViewers,
                };
                (Entry::Gone(*post, GoneReason::Hidden), author, recipients)
            }
            Work::Widen { post, author, change } => {
                self.post_cache.invalidate(*post);
                let recipients = match change {
                    Some(VisibilityChange { before, after }) => Recipients::NewViewers { before, after },
                    None => {
                        created_at = 0;
                        Recipients::Viewers
                    }
                };
                (Entry::Post(*post), author, recipients)
            }
            _ => return Ok(Outcome::Done),
        };
        self.spread(&Walk { author, entry: &entry, recipients, created_at }, held).await
    }
}
