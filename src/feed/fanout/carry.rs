//! What each kind of job does.

use std::time::Duration;

use super::walk::Walk;
use super::{Held, Outcome};
use crate::broker::{Append, FannedOut, Invalidation, Keep, Page};
use crate::feed::edits::left;
use crate::feed::recipients::Recipients;
use crate::feed::{Feed, FeedError, Result, now, pulled};
use crate::ledger::{JOBS, Job, VisibilityChange, Work};
use crate::model::{Entry, GoneReason, PostId, UserId};

/// How much of the logs of `user:` and `topic:` is kept, for readers that come back.
pub(in crate::feed) const LIVE: Keep = Keep { size: 100, ttl: Duration::from_secs(3600) };

impl Feed {
    pub(super) async fn attempt(&self, job: &Job, held: &mut Held) -> Result<Outcome> {
        self.note_number(JOBS, u64::try_from(job.id).unwrap_or_default()).await?;
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
                    self.bodies.forget(*post);
                }
                // A post deleted meanwhile is not carried any further.
                let Some(body) = self.bodies.get([*post]).await?.remove(post) else { return Ok(Outcome::Done) };
                let entry = Entry::Post(*post);
                if held.is_fresh() {
                    self.tell_channels(job.id, author, &body.post.topics, &entry).await?;
                }
                let recipients = Recipients::Viewers;
                self.spread(&Walk { author, entry: &entry, recipients, created_at: job.created_at }, held).await
            }
            Work::Delete { post, author, topics, visibility } => {
                self.invalidate(&[Invalidation::Post(*post)]).await?;
                let entry = Entry::Gone(*post, GoneReason::Deleted);
                if held.is_fresh() {
                    let left = Entry::Left(Box::new(left(*post, author, visibility, GoneReason::Deleted)));
                    self.tell_channels(job.id, author, topics, &left).await?;
                    self.tell_post(job.id, *post, &left).await?;
                }
                let recipients = Recipients::Holders { before: visibility };
                let outcome =
                    self.spread(&Walk { author, entry: &entry, recipients, created_at: job.created_at }, held).await?;
                self.forget_favourites_of(*post).await?;
                Ok(outcome)
            }
            Work::Edit { .. } | Work::Narrow { .. } | Work::Widen { .. } => self.carry_edit(job, held).await,
            Work::Follow { .. } | Work::Unfollow { .. } | Work::Part { .. } => Ok(match self.carry_edge(job).await? {
                Carried::ForGood => Outcome::Done,
                Carried::ForNow => Outcome::Later,
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
        if let Err(error) = self.broker.signal(pulled::GROWN.into()).await {
            tracing::debug!(%error, job = held.attempt.job, "the nodes were not told of a pulled post, and will look");
        }
        Ok(Outcome::Done)
    }

    /// Does a job that concerns one timeline.
    pub(in crate::feed) async fn carry_edge(&self, job: &Job) -> Result<Carried> {
        match &job.work {
            Work::Follow { reader, author } => {
                self.bring_in(reader, author).await?;
                self.befriend(author, reader).await?;
                Ok(Carried::ForGood)
            }
            Work::Unfollow { reader, author } => {
                let carried = self.take_out(job, reader, author, GoneReason::Unfollowed).await?;
                self.befriend(author, reader).await?;
                Ok(carried)
            }
            Work::Part { reader, author } => self.take_out(job, reader, author, GoneReason::Hidden).await,
            Work::Post { .. } | Work::Delete { .. } | Work::Edit { .. } | Work::Narrow { .. } | Work::Widen { .. } => {
                Ok(Carried::ForGood)
            }
        }
    }

    /// Carries what an edit changed.
    async fn carry_edit(&self, job: &Job, held: &mut Held) -> Result<Outcome> {
        // Of a job of an older version it is not known who gains sight of the post: inboxes are searched for it.
        let mut created_at = job.created_at;
        let (entry, author, recipients) = match &job.work {
            Work::Edit { post, author, topics, visibility } => {
                // What is said of the edit shows the post: no node shows it as it was before. Whoever edited it waits for that
                // too, but may have gone, with their node.
                self.invalidate(&[Invalidation::Post(*post)]).await?;
                if held.is_fresh() {
                    let before = left(*post, author, visibility, GoneReason::Hidden);
                    self.tell_edit(job.id, before, topics).await?;
                }
                (Entry::Edited(*post), author, Recipients::RemainingViewers { before: visibility })
            }
            Work::Narrow { post, author, change } => {
                // Another node may have edited the post, and died before this one heard of it.
                self.bodies.forget(*post);
                let recipients = match change {
                    Some(VisibilityChange { before, after }) => Recipients::FormerViewers { before, after },
                    None => Recipients::NonViewers,
                };
                (Entry::Gone(*post, GoneReason::Hidden), author, recipients)
            }
            Work::Widen { post, author, change } => {
                self.bodies.forget(*post);
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

    /// Tells those who look at the author's profile or at a topic.
    async fn tell_channels(&self, job: i64, author: &UserId, topics: &[String], entry: &Entry) -> Result<()> {
        let key = format!("job {job}");
        let channels = topics.iter().map(|topic| format!("topic:{topic}"));
        for channel in std::iter::once(format!("user:{author}")).chain(channels) {
            let append = Append { channel: &channel, entry, keep: LIVE, idempotency_key: Some(&key), version: None };
            self.broker.append(append).await?;
        }
        Ok(())
    }

    /// Tells those who look at the post.
    async fn tell_post(&self, job: i64, post: PostId, entry: &Entry) -> Result<()> {
        let (channel, key) = (format!("post:{post}"), format!("job {job}"));
        let append = Append { channel: &channel, entry, keep: LIVE, idempotency_key: Some(&key), version: None };
        self.broker.append(append).await?;
        Ok(())
    }
}

/// What became of a job that concerns one timeline.
pub(in crate::feed) enum Carried {
    /// It is done.
    ForGood,
    /// It is done as far as can be now, and to be done once more.
    ForNow,
}
