//! Who follows whom, and what that does to timelines.

use std::collections::HashSet;

use super::fanout::Carried;
use super::input::{Done, OneUser, UserList, UserPage};
use super::{Caller, Feed, FeedError, Result, now};
use crate::ledger::Job;
use crate::model::{Entry, GoneReason, PostId, Profile, UserId, What};

const NO_USER: FeedError = FeedError::NotFound("no such user");

impl Feed {
    pub(super) async fn get_user(&self, caller: Caller, user: OneUser) -> Result<Profile> {
        let viewer = match &caller {
            Caller::User(viewer) => {
                self.welcome(viewer).await?;
                Some(viewer)
            }
            Caller::Anonymous => None,
        };
        self.ledger.profile(&user.id, viewer).await?.ok_or(NO_USER)
    }

    pub(super) async fn follow(&self, caller: Caller, user: OneUser) -> Result<Done> {
        let reader = caller.user()?;
        if *reader == user.id {
            return Err(FeedError::invalid("id", "nobody follows themselves"));
        }
        self.welcome(reader).await?;
        if self.ledger.users(std::slice::from_ref(&user.id)).await?.is_empty() {
            return Err(NO_USER);
        }
        let most = self.options.limits.follows;
        if self.ledger.following_count(reader).await? >= most {
            return Err(FeedError::LimitExceeded { field: "id", what: "people one follows", most });
        }
        let now = now();
        if let Some(job) = self.ledger.follow(reader, &user.id, now, &self.fanout.lease(now)).await? {
            self.carry_at_once(job).await;
            self.notify(&user.id, What::Follow, reader).await;
        }
        Ok(Done {})
    }

    pub(super) async fn unfollow(&self, caller: Caller, user: OneUser) -> Result<Done> {
        let reader = caller.user()?;
        let now = now();
        if let Some(job) = self.ledger.unfollow(reader, &user.id, now, &self.fanout.lease(now)).await? {
            self.carry_at_once(job).await;
        }
        Ok(Done {})
    }

    /// Does a job before the answer goes out, so that who asked sees what they asked for. If it cannot be done now, the
    /// job stands in the ledger and a worker does it.
    async fn carry_at_once(&self, job: Job) {
        let id = job.id;
        match self.carry_edge(&job).await {
            Ok(Carried::ForNow) => {}
            Ok(Carried::ForGood) => {
                if let Err(error) = self.ledger.finish_job(id, self.fanout.holder()).await {
                    tracing::warn!(%error, job = id, "a finished job could not be marked so, it will be repeated");
                }
            }
            Err(error) => {
                tracing::warn!(%error, job = id, "an edge is stored, its timeline will follow");
                self.fanout.offer(job);
            }
        }
    }

    /// The posts of someone newly followed come into a timeline: what is newer than the inbox's floor, up to a number.
    /// Where there is more, the floor rises, and the ledger tells what lies below it.
    pub(super) async fn bring_in(&self, reader: &UserId, author: &UserId) -> Result<()> {
        let most = self.options.follow_merge;
        // A later unfollow has its own job, which may have run already: then these posts are not wanted.
        if self.ledger.followed_among(reader, std::slice::from_ref(author)).await?.is_empty() {
            return Ok(());
        }
        let mut posts = self.ledger.author_posts(author, PostId::MAX, most + 1).await?;
        let floor = if posts.len() > most { posts.pop().unwrap_or(PostId::ZERO) } else { PostId::ZERO };
        posts.reverse();
        self.broker.merge_inbox(reader, &posts, floor).await?;
        Ok(())
    }

    /// The posts of someone no longer followed leave a timeline. A post that is being carried by then may reach it
    /// afterwards, for its followers may have been read before: as long as there is one, this is to be done again.
    pub(super) async fn take_out(&self, job: i64, reader: &UserId, author: &UserId) -> Result<Carried> {
        // Looked for first: what is carried by now is there when the inbox is read.
        let more_may_come = self.ledger.carries_posts(author, job).await?;
        let carried = if more_may_come { Carried::ForNow } else { Carried::ForGood };
        if !self.ledger.followed_among(reader, std::slice::from_ref(author)).await?.is_empty() {
            return Ok(Carried::ForGood);
        }
        let Some(inbox) = self.broker.read_inbox(reader).await? else { return Ok(carried) };
        let held: HashSet<PostId> = inbox.entries.iter().filter_map(|(_, entry)| arrived(entry)).collect();
        let mut held: Vec<PostId> = held.into_iter().collect();
        held.sort_unstable();
        let bodies = self.bodies.get(held.iter().copied()).await?;
        let theirs = |id: &PostId| bodies.get(id).is_some_and(|body| body.post.author == *author);
        let theirs: Vec<PostId> = held.iter().copied().filter(theirs).collect();
        self.broker.purge_inbox(reader, &theirs, GoneReason::Unfollowed).await?;
        // Who carries the deletion of one of theirs may look for followers from now on, and not find the reader.
        held.retain(|id| !bodies.contains_key(id));
        self.broker.purge_inbox(reader, &held, GoneReason::Deleted).await?;
        Ok(carried)
    }

    pub(super) async fn followers(&self, _: Caller, list: UserList) -> Result<UserPage> {
        let (limit, cursor) = (list.limit()?, list.cursor()?);
        let listed = self.ledger.followers(&list.id, cursor, limit).await?;
        self.listed_of(&list.id, listed.into()).await
    }

    pub(super) async fn following(&self, _: Caller, list: UserList) -> Result<UserPage> {
        let (limit, cursor) = (list.limit()?, list.cursor()?);
        let listed = self.ledger.following(&list.id, cursor, limit).await?;
        self.listed_of(&list.id, listed.into()).await
    }

    /// An empty list may be that of somebody who does not exist.
    async fn listed_of(&self, user: &UserId, page: UserPage) -> Result<UserPage> {
        let unknown = page.items.is_empty() && self.ledger.users(std::slice::from_ref(user)).await?.is_empty();
        if unknown { Err(NO_USER) } else { Ok(page) }
    }
}

fn arrived(entry: &Entry) -> Option<PostId> {
    match entry {
        Entry::Post(id) => Some(*id),
        _ => None,
    }
}
