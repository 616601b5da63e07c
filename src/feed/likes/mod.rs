//! Likes: acknowledged at once, settled later, never wrong.
//!
//! | file | what is in it |
//! |---|---|
//! | `mod.rs` | the operations: what is checked, what is answered |
//! | `looks` | whether an object is there to be liked, from memory if that can tell |
//! | `entry` | a like as the queue keeps it |
//! | `asks` | which clients asked, and are told when it is settled |
//! | `intake` | gathers likes that come at the same time into one append |
//! | `provisional` | counts that contain what is acknowledged and not settled yet |
//! | `settler` | takes batches off a partition of the queue into the ledger |
//! | `quarantine` | entries of the queue that cannot be settled |
//! | `settled` | what a settler tells every node |
//! | `hearing` | what every node makes of it |
//! | `notices` | who is notified of a like |
//! | `teller` | counts on `post:<id>`, a few a second |
//!
//! A like passes through three hands. **Intake**: what memory can tell is checked, then the like is appended to the
//! durable queue, then it is acknowledged. **Settling**: the partition's settler reads a batch, keeps the last state of
//! each user and object, and writes rows, counts and how far it came in one transaction of the ledger. Whatever dies,
//! the next settler goes on where the ledger says; what was read twice is refused by it. **Telling**: absolute counts with
//! versions. The queue is trimmed only up to what was told, so that whoever takes over tells the rest.

mod asks;
mod entry;
mod hearing;
mod intake;
mod looks;
mod notices;
mod provisional;
mod quarantine;
mod settled;
mod settler;
mod teller;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio_util::task::TaskTracker;

use super::caching::GenerationalCache;
use super::error::NO_POST;
use super::input::{OneComment, PostList, UserPage};
use super::visibility::ViewContext;
use super::{Call, Caller, Feed, Result, now};
use crate::broker::{Keep, Queue};
use crate::ledger::Listed;
use crate::model::{CommentId, LikeChange, Millis, Object, PostId, User, UserId};

pub use asks::Whisper;

use asks::Asks;
use intake::Asked;
use provisional::Counts;
pub(super) use settler::SETTLED;

/// How likes are taken and told.
#[derive(Clone, Copy, Debug)]
pub struct LikesOptions {
    /// How many may wait to be settled.
    pub queue_length: u64,
    /// How many times a second the counts of one object are told at most.
    pub counts_per_second: u32,
    /// How much of the logs of `notifications:` is kept.
    pub notifications: Keep,
}

/// How many last acknowledged states are remembered here, and for how long.
const STATES: usize = 200_000;
const STATES_FOR: Duration = Duration::from_secs(600);

/// How long a like waits for what its node does not know. Past that, and for a while afterwards, likes are acknowledged on
/// trust: settling looks again, and takes back what is not to be.
const LOOK: Duration = Duration::from_millis(500);
const ON_TRUST: Duration = Duration::from_secs(2);

/// How often the length of the queue is looked at.
const MEASURE_EVERY: Duration = Duration::from_secs(1);

/// What the likes of this process share.
pub(super) struct Likes {
    options: LikesOptions,
    queue: Arc<dyn Queue>,
    intake: mpsc::Sender<Asked>,
    /// The other end; the intake takes it when it starts.
    asked: Mutex<Option<mpsc::Receiver<Asked>>>,
    /// The last state that was acknowledged here: who likes twice is counted once.
    states: GenerationalCache<(UserId, Object), bool>,
    counts: Counts,
    asks: Asks,
    /// What settlers said, here and at other nodes.
    heard: mpsc::Sender<Bytes>,
    /// The other end; held by whoever listens.
    to_hear: tokio::sync::Mutex<mpsc::Receiver<Bytes>>,
    /// Wakes the settler of each partition, if it is here.
    woken: Vec<Notify>,
    /// Held while a batch is taken and written to the ledger.
    settling: Semaphore,
    /// The settlers of this node.
    settlers: TaskTracker,
    /// When the oldest like was acknowledged that each settler has in hand; 0 where it has none.
    in_hand: Vec<AtomicU64>,
    /// Until when likes are taken on trust, in Unix milliseconds.
    on_trust: AtomicU64,
}

impl Likes {
    pub(super) fn new(queue: Arc<dyn Queue>, options: LikesOptions) -> Self {
        let (intake, asked) = mpsc::channel(intake::WAITING);
        let (heard, to_hear) = mpsc::channel(hearing::WAITING);
        let queue_partitions = queue.partitions();
        let partitions = usize::from(queue_partitions);
        Self {
            options,
            queue,
            intake,
            asked: Mutex::new(Some(asked)),
            states: GenerationalCache::new(STATES, STATES_FOR),
            counts: Counts::new(),
            asks: Asks::new(queue_partitions),
            heard,
            to_hear: tokio::sync::Mutex::new(to_hear),
            woken: std::iter::repeat_with(Notify::new).take(partitions).collect(),
            settling: Semaphore::new(settler::AT_ONCE),
            settlers: TaskTracker::new(),
            in_hand: std::iter::repeat_with(AtomicU64::default).take(partitions).collect(),
            on_trust: AtomicU64::new(0),
        }
    }

    /// The partition of an object: any number does, as long as every node finds the same one.
    fn partition(&self, object: Object) -> u16 {
        // Ids made in different milliseconds often share their low bits: Fibonacci hashing uses all of them.
        let mixed = object.number().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        u16::try_from(mixed % u64::from(self.queue.partitions())).unwrap_or_default()
    }

    /// Whether likes are taken on trust, because the ledger did not answer lately.
    fn on_trust(&self) -> bool {
        now() < self.on_trust.load(Ordering::Relaxed)
    }

    /// The ledger was replaced by another state of it: states and counts of before mean nothing.
    pub(super) fn on_new_incarnation(&self) {
        self.states.clear();
        self.on_resync();
    }

    /// Any of the counts may have changed without this node hearing of it.
    pub(super) fn on_resync(&self) {
        self.counts.forget_all();
        self.asks.forget_all();
    }
}

/// How long work on likes that are acknowledged already is done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// With pauses: whoever waits for an acknowledgement goes first.
    Steady,
    /// Without, because there is more of it than could be done so.
    Hurried,
}

impl Pace {
    /// `hurry`: whether so much waits that it would grow.
    fn hurried_if(hurry: bool) -> Self {
        if hurry { Self::Hurried } else { Self::Steady }
    }

    /// Between two steps. A yield lets other tasks of this thread go first, not other threads, nor the clients, who are to have
    /// a core too: whoever waits for an acknowledgement would wait for all of the work.
    async fn pause(self) {
        match self {
            Self::Steady => tokio::time::sleep(Duration::from_millis(1)).await,
            Self::Hurried => tokio::task::yield_now().await,
        }
    }
}

fn notifications(user: &UserId) -> String {
    format!("notifications:{user}")
}

/// What is answered at once.
#[derive(Serialize, JsonSchema)]
pub(super) struct Accepted {
    /// It is kept safe, and settled in a moment.
    state: State,
    /// Whether the user likes it now.
    liked: bool,
    /// How many like it now, as far as it is known here; absent where neither store could be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    likes: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum State {
    Accepted,
}

/// What is liked. Over HTTP the path says so.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Target {
    /// Its id.
    id: PostId,
    /// What it is.
    #[serde(default)]
    object: Kind,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Kind {
    #[default]
    Post,
    Comment,
}

impl From<Target> for Object {
    fn from(Target { id, object }: Target) -> Self {
        match object {
            Kind::Post => Self::Post(id),
            Kind::Comment => Self::Comment(CommentId(id.0)),
        }
    }
}

impl Feed {
    pub(super) async fn like(&self, call: Call, target: Target) -> Result<Accepted> {
        self.set_like(call, target.into(), true).await
    }

    pub(super) async fn unlike(&self, call: Call, target: Target) -> Result<Accepted> {
        self.set_like(call, target.into(), false).await
    }

    pub(super) async fn like_comment(&self, call: Call, comment: OneComment) -> Result<Accepted> {
        self.set_like(call, Object::Comment(comment.id), true).await
    }

    pub(super) async fn unlike_comment(&self, call: Call, comment: OneComment) -> Result<Accepted> {
        self.set_like(call, Object::Comment(comment.id), false).await
    }

    pub(super) async fn post_likers(&self, caller: Caller, list: PostList) -> Result<UserPage> {
        let (limit, cursor) = (list.limit()?, list.cursor()?);
        let reader = caller.reader();
        if !self.visibility.can_see_post(reader, list.id).await? {
            return Err(NO_POST);
        }
        Ok(self.likers_seen_by(reader, list.id, cursor, limit).await?.into())
    }

    /// A page of who likes a post, without those whom the reader may not see. It is filled up with the next ones.
    async fn likers_seen_by(
        &self,
        reader: Option<&UserId>,
        post: PostId,
        mut before: Option<i64>,
        limit: usize,
    ) -> Result<Listed<User>> {
        let mut items = Vec::with_capacity(limit);
        loop {
            let Listed { items: found, next } = self.ledger.likers(post, before, limit - items.len()).await?;
            let people = found.iter().map(|user| user.id.clone()).collect::<Vec<_>>();
            let seen = self.visibility.visible_users(reader, ViewContext::Direct, people).await?;
            items.extend(found.into_iter().filter(|user| seen.contains(&user.id)));
            if next.is_none() || items.len() >= limit {
                return Ok(Listed { items, next });
            }
            before = next;
        }
    }

    async fn set_like(&self, call: Call, object: Object, liked: bool) -> Result<Accepted> {
        let user = call.caller.user()?;
        self.may_like(user, object).await?;
        // Looked up before the like is on its way: what is settled meanwhile is told with its place.
        let known = match self.likes.counts.get(object) {
            Some(known) => Some(known),
            None => Box::pin(self.known_count(object)).await,
        };
        let partition = self.likes.partition(object);
        let change = LikeChange { user: user.clone(), object, liked, at: now() };
        let place = self.enqueue_like(partition, &change, call.client).await?;
        let key = (change.user, object);
        let before = self.likes.states.insert(key, liked);
        let difference = match (before == Some(liked), liked) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => -1,
        };
        let likes = known.map(|known| known.accept(partition, place, difference));
        Ok(Accepted { state: State::Accepted, liked, likes })
    }

    /// The count of an object that this node does not know; asks the broker, then the ledger. `None` if it cannot be had now.
    async fn known_count(&self, object: Object) -> Option<provisional::Known> {
        let counts = &self.likes.counts;
        let told = tokio::time::timeout(LOOK, self.broker.tallies(&[object])).await.ok()?.ok()?;
        if let Some(tally) = told.into_iter().flatten().next() {
            return Some(counts.insert(object, tally));
        }
        if self.likes.on_trust() {
            return None;
        }
        // Whoever waited has all the time that it takes; else those who waited longest would give up one after the other.
        if let Ok(_turn) = tokio::time::timeout(LOOK, counts.gather.turn(&[object])).await
            && counts.get(object).is_none()
        {
            let objects = counts.gather.take(&[object], |object| counts.get(*object).is_some());
            // What came of it is looked at below.
            let _given_up = tokio::time::timeout(LOOK, self.fetch_counts(&objects)).await;
        }
        counts.get(object)
    }

    async fn fetch_counts(&self, objects: &[Object]) -> Result<()> {
        let tallies = self.ledger.like_tallies(objects).await?;
        // Should a settler have written a newer one meanwhile, that one stays.
        self.broker.set_tallies(&tallies).await?;
        tallies.into_iter().for_each(|(object, tally)| _ = self.likes.counts.insert(object, tally));
        Ok(())
    }

    /// Starts taking, settling and telling likes.
    pub(super) fn start_likes(self: &Arc<Self>) {
        let asked = self.likes.asked.lock().take();
        if let Some(asked) = asked {
            let feed = Arc::clone(self);
            self.runtime.spawn(async move { feed.take_likes(asked).await });
        }
        for partition in 0..self.likes.queue.partitions() {
            let feed = Arc::clone(self);
            let settling = async move { feed.settle_partition(partition).await };
            self.runtime.spawn(self.likes.settlers.track_future(settling));
        }
        self.likes.settlers.close();
        let feed = Arc::clone(self);
        self.runtime.spawn(async move {
            while feed.runtime.sleep(MEASURE_EVERY).await {
                feed.measure_likes().await;
            }
        });
    }

    async fn measure_likes(&self) {
        let oldest = self.likes.in_hand.iter().map(|at| at.load(Ordering::Relaxed)).filter(|at| *at > 0).min();
        let age: Millis = oldest.map_or(0, |at| now().saturating_sub(at));
        match self.likes.queue.length().await {
            Ok(length) => self.metrics.likes_waiting(length, age),
            Err(error) => tracing::debug!(%error, "the queue of likes could not be measured"),
        }
    }
}
