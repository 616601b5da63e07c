//! Who follows whom, and what that does to timelines.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use super::audience::{Eye, Surface};
use super::fanout::Carried;
use super::input::{Done, OneUser, UserList, UserPage};
use super::{Caller, Feed, FeedError, Result, now};
use crate::broker::Invalidation;
use crate::ledger::{EventConsumer, Job, Listed};
use crate::model::{Entry, GoneReason, PostId, Profile, Relation, User, UserId, Visibility};

pub(super) const NO_USER: FeedError = FeedError::NotFound("no such user");

/// The cursor of a job that takes posts out, once it has done so and is to do it again.
const TAKEN_OUT: &str = "taken out";

impl Feed {
    pub(super) async fn get_user(&self, caller: Caller, user: OneUser) -> Result<Profile> {
        let viewer = match &caller {
            Caller::User(viewer) => {
                self.welcome(viewer).await?;
                Some(viewer)
            }
            Caller::Anonymous => None,
        };
        if !self.may_read_user(viewer, &user.id).await? {
            return Err(NO_USER);
        }
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
        let relation = self.relations.one(reader, &user.id).await?;
        if relation.blocked {
            return Err(NO_USER);
        }
        if relation.blocks {
            return Err(FeedError::Conflict { field: "id", message: "you block them" });
        }
        let most = self.options.limits.follows;
        if self.ledger.following_count(reader).await? >= most {
            return Err(FeedError::LimitExceeded { field: "id", what: "people one follows", most });
        }
        let now = now();
        let job = self.ledger.follow(reader, &user.id, now, &self.fanout.lease()).await?;
        let is_new = job.is_some();
        let done = self.related(reader, &user.id, Change::Opens, job).await?;
        if is_new {
            self.events.wake(EventConsumer::Notifications);
        }
        Ok(done)
    }

    pub(super) async fn unfollow(&self, caller: Caller, user: OneUser) -> Result<Done> {
        let reader = caller.user()?;
        let now = now();
        let job = self.ledger.unfollow(reader, &user.id, now, &self.fanout.lease()).await?;
        self.related(reader, &user.id, Change::Closes, job).await
    }

    /// Something changed between two people, or was so already: no node goes by what was before, and the timelines that
    /// it concerns have it, before the answer goes out.
    pub(super) async fn related(
        &self,
        one: &UserId,
        other: &UserId,
        change: Change,
        jobs: impl IntoIterator<Item = Job> + Send,
    ) -> Result<Done> {
        let jobs: Vec<Job> = jobs.into_iter().collect();
        match (self.announce(&[Invalidation::Relation(one.clone(), other.clone())]).await, change) {
            (Ok(confirmation), Change::Closes) => self.confirm(confirmation).await,
            (Ok(_), Change::Opens) => {}
            (Err(error), Change::Opens) => {
                tracing::warn!(%error, "something between two people changed, other nodes will notice it later");
            }
            // Other nodes may show what is not to be seen any more. Whoever asks again has them told again, and so does
            // the job.
            (Err(error), Change::Closes) => {
                jobs.into_iter().for_each(|job| self.fanout.offer_again(job));
                return Err(error);
            }
        }
        for job in jobs {
            self.carry_at_once(job).await;
        }
        Ok(Done {})
    }

    /// Does a job before the answer goes out, so that who asked sees what they asked for. If it cannot be done now, the
    /// job stands in the ledger and a worker does it.
    pub(super) async fn carry_at_once(&self, job: Job) {
        let id = job.id;
        match self.carry_edge(&job).await {
            Ok(Carried::ForNow) => {}
            Ok(Carried::ForGood) => {
                if let Err(error) = self.ledger.finish_job(id, job.generation).await {
                    tracing::warn!(%error, job = id, "a finished job could not be marked so, it will be repeated");
                }
            }
            Err(error) => {
                tracing::warn!(%error, job = id, "an edge is stored, its timeline will follow");
                self.fanout.offer_again(job);
            }
        }
    }

    /// The posts of someone newly followed come into a timeline: what is newer than the inbox's floor, up to a number.
    /// Where there is more, the floor rises, and the ledger tells what lies below it.
    pub(super) async fn bring_in(&self, reader: &UserId, author: &UserId) -> Result<()> {
        let mut brought: Option<Vec<PostId>> = None;
        loop {
            // A later unfollow, mute or block has its own job, which may have run already: then these posts are not wanted.
            // It may run between this look and the merge, too: what lay there then would be no news once it is wanted.
            let relation = self.relation_now(reader, author).await?;
            brought = match (brought, is_shown(relation)) {
                (None, true) => Some(self.merge(reader, author, relation).await?),
                (Some(posts), false) => {
                    self.broker.purge_inbox(reader, &posts, GoneReason::Hidden).await?;
                    None
                }
                (Some(_), true) | (None, false) => return Ok(()),
            };
        }
    }

    /// Puts an author's newest posts into an inbox, as far as they are for the reader; which.
    async fn merge(&self, reader: &UserId, author: &UserId, relation: Relation) -> Result<Vec<PostId>> {
        let most = self.options.follow_merge;
        let mut posts = self.ledger.author_posts(author, PostId::MAX, most + 1).await?;
        let floor = if posts.len() > most { posts.pop().unwrap_or(PostId::ZERO) } else { PostId::ZERO };
        posts.reverse();
        let bodies = self.bodies.get(posts.iter().copied()).await?;
        let eye = Eye { reader: Some(reader), relation, surface: Surface::Timeline };
        posts.retain(|id| bodies.get(id).is_some_and(|body| eye.sees(author, &body.post.visibility)));
        self.broker.merge_inbox(reader, &posts, floor).await?;
        Ok(posts)
    }

    /// The author began or ended to follow the reader, so that the two became friends, or are so no more: what is for
    /// friends comes into the reader's timeline, or leaves it.
    pub(super) async fn befriend(&self, reader: &UserId, author: &UserId) -> Result<()> {
        let relation = self.relation_now(reader, author).await?;
        if !is_shown(relation) {
            return Ok(());
        }
        if relation.followed {
            return self.bring_in(reader, author).await;
        }
        let Some(inbox) = self.broker.read_inbox(reader).await? else { return Ok(()) };
        let held: BTreeSet<PostId> = inbox.entries.iter().filter_map(|(_, entry)| arrived(entry)).collect();
        let bodies = self.bodies.get(held.iter().copied()).await?;
        let for_friends = |id: &PostId| {
            bodies
                .get(id)
                .is_some_and(|body| body.post.author == *author && body.post.visibility == Visibility::Friends)
        };
        let lost: Vec<PostId> = held.iter().copied().filter(for_friends).collect();
        self.broker.purge_inbox(reader, &lost, GoneReason::Hidden).await?;
        // The fan-out of a deletion selects users who may see the post, and the reader may be none of them from now on.
        let deleted: Vec<PostId> = held.into_iter().filter(|id| !bodies.contains_key(id)).collect();
        self.broker.purge_inbox(reader, &deleted, GoneReason::Deleted).await?;
        Ok(())
    }

    /// What is between two people now, whatever the cache says.
    async fn relation_now(&self, reader: &UserId, author: &UserId) -> Result<Relation> {
        let relations = self.ledger.relations(&[(reader.clone(), author.clone())]).await?;
        Ok(relations.first().copied().unwrap_or_default())
    }

    /// The posts of someone no longer followed, or not to be seen any more, leave a timeline. A post that is being carried
    /// by then may reach it afterwards, for its followers may have been read before: as long as there is one, this is to
    /// be done again.
    ///
    /// If they are to be seen again by then, and this was not done yet, they leave and come back: pages that were read
    /// meanwhile lack them, and only the log tells those readers.
    pub(super) async fn take_out(
        &self,
        job: &Job,
        reader: &UserId,
        author: &UserId,
        reason: GoneReason,
    ) -> Result<Carried> {
        // It may be that nobody could be told when it happened. Who waits for that has waited already.
        let _ = self.announce(&[Invalidation::Relation(reader.clone(), author.clone())]).await?;
        // Looked for first: what is carried by now is there when the inbox is read.
        let more_may_come = self.ledger.carries_posts(author, job.id).await? || self.may_be_pulled(job, author).await?;
        let is_back = is_shown(self.relation_now(reader, author).await?);
        if is_back && job.cursor == TAKEN_OUT {
            return Ok(Carried::ForGood);
        }
        if let Some(inbox) = self.broker.read_inbox(reader).await? {
            let held: HashSet<PostId> = inbox.entries.iter().filter_map(|(_, entry)| arrived(entry)).collect();
            let mut held: Vec<PostId> = held.into_iter().collect();
            held.sort_unstable();
            let bodies = self.bodies.get(held.iter().copied()).await?;
            let theirs = |id: &PostId| bodies.get(id).is_some_and(|body| body.post.author == *author);
            let theirs: Vec<PostId> = held.iter().copied().filter(theirs).collect();
            self.broker.purge_inbox(reader, &theirs, reason).await?;
            // Who carries the deletion of one of theirs may look for followers from now on, and not find the reader.
            held.retain(|id| !bodies.contains_key(id));
            self.broker.purge_inbox(reader, &held, GoneReason::Deleted).await?;
            // Whoever made them be seen again meanwhile may have brought them in before they were taken out.
            if is_back || is_shown(self.relation_now(reader, author).await?) {
                self.bring_in(reader, author).await?;
                return Ok(Carried::ForGood);
            }
        }
        if more_may_come {
            self.ledger.advance_job(job.id, job.generation, TAKEN_OUT, &self.fanout.lease()).await?;
            return Ok(Carried::ForNow);
        }
        Ok(Carried::ForGood)
    }

    /// Whether a node may still be bringing posts of the author's out of the pulled log to readers whom it looked for
    /// before the job was made. It takes them out itself afterwards, unless it dies before that.
    async fn may_be_pulled(&self, job: &Job, author: &UserId) -> Result<bool> {
        let since = Duration::from_millis(now().saturating_sub(job.created_at));
        Ok(since < self.fanout.patience() && self.ledger.carriage(author).await?.pulled)
    }

    pub(super) async fn followers(&self, caller: Caller, list: UserList) -> Result<UserPage> {
        self.list_people(&caller, &list, Side::Followers).await
    }

    pub(super) async fn following(&self, caller: Caller, list: UserList) -> Result<UserPage> {
        self.list_people(&caller, &list, Side::Following).await
    }

    /// A page of people, without those between whom and the caller a block stands; it is read on until it is full.
    async fn list_people(&self, caller: &Caller, list: &UserList, side: Side) -> Result<UserPage> {
        let (limit, mut cursor) = (list.limit()?, list.cursor()?);
        if !self.may_read_user(caller.reader(), &list.id).await? {
            return Err(NO_USER);
        }
        let mut items: Vec<User> = Vec::with_capacity(limit);
        loop {
            let wanted = limit - items.len();
            let listed = match side {
                Side::Followers => self.ledger.followers(&list.id, cursor, wanted).await?,
                Side::Following => self.ledger.following(&list.id, cursor, wanted).await?,
            };
            // An empty list may be that of somebody who does not exist.
            if listed.items.is_empty() && self.ledger.users(std::slice::from_ref(&list.id)).await?.is_empty() {
                return Err(NO_USER);
            }
            items.extend(self.without_blocked(caller.reader(), listed.items).await?);
            cursor = listed.next;
            if items.len() == limit || cursor.is_none() {
                return Ok(Listed { items, next: cursor }.into());
            }
        }
    }

    pub(super) async fn without_blocked(&self, reader: Option<&UserId>, mut people: Vec<User>) -> Result<Vec<User>> {
        people.retain(|user| !self.is_erased(&user.id));
        let Some(reader) = reader else { return Ok(people) };
        let between = self.relations.get(people.iter().map(|user| (reader.clone(), user.id.clone()))).await?;
        people.retain(|user| {
            let relation = between.get(reader, &user.id).unwrap_or_default();
            !(relation.blocks || relation.blocked)
        });
        Ok(people)
    }
}

/// What a change between two people does to what they see of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// They may see more.
    Opens,
    /// They may see less.
    Closes,
}

/// Which end of an edge is listed.
#[derive(Clone, Copy)]
enum Side {
    Followers,
    Following,
}

/// Whether a timeline shows what the author writes, as far as it is for the reader.
fn is_shown(relation: Relation) -> bool {
    relation.follows && !relation.muted && !relation.is_barred()
}

fn arrived(entry: &Entry) -> Option<PostId> {
    match entry {
        Entry::Post(id) => Some(*id),
        _ => None,
    }
}
