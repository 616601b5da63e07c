//! The queue of pushes. Notifications are queued for the devices of their owners in the transaction that writes them,
//! alerts about posts by the fan-out of the post.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;

use super::{DeviceSession, Result};
use crate::model::{Device, DeviceId, Millis, PostId, PushPreferences, UserId};

/// How notifications are queued. Part of the calls that write notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushPlan {
    /// The time until a notification is pushed, in milliseconds: its owner may read it meanwhile.
    pub grace: Millis,
    /// The time between two pushes of the same group of likes or follows, in milliseconds.
    pub digest: Millis,
}

/// How the devices of a user learn that something was read elsewhere, or has ended. Part of the calls that mark as
/// read: a silent message to each device that was sent a push of it in the last 24 hours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClearPlan {
    /// The token of the session that reads. Its own device is omitted.
    pub session: Option<String>,
    /// The time of the call, in Unix milliseconds.
    pub now: Millis,
    /// When the message is sent, in Unix milliseconds. Further ones up to then are the same message.
    pub due_at: Millis,
}

/// The kind of pushes that clear on a device what was read elsewhere, and their only item.
pub const CLEAR_KIND: &str = "clear";
/// See [`CLEAR_KIND`].
pub const CLEAR_ITEM: u64 = 0;

/// The kind of pushes about posts of authors with alerts. The item is the post.
pub const POST_KIND: &str = "post";

/// The kind of what the application notifies of: users choose by the name that its content has.
pub const APP_KIND: &str = "app";

/// A page of alerts about a post, to be queued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostAlertPage {
    /// The post.
    pub post: PostId,
    /// Its author.
    pub author: UserId,
    /// The last user of the page before; empty: this is the first.
    pub after: String,
    /// The number of users.
    pub users: usize,
    /// When the pushes are due, in Unix milliseconds.
    pub due_at: Millis,
}

/// A user who has alerts for the posts of an author.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlertReader {
    /// When the user asked for them, in Unix milliseconds.
    pub since: Millis,
    /// The newest post that the user has seen, of any author: see [`ReadMarkerStore`](super::ReadMarkerStore).
    pub seen: PostId,
}

/// The right of one process to send a push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushLease {
    /// The name of the process.
    pub holder: Arc<str>,
    /// The end of the lease, in Unix milliseconds. After it, another process may send the push.
    pub until: Millis,
}

/// A push: an item for a device.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct PushKey {
    /// The user.
    #[serde(serialize_with = "UserId::serialize_key")]
    pub user: UserId,
    /// The user's device.
    pub device: DeviceId,
    /// The item: the id of a notification, of a post, or [`CLEAR_ITEM`].
    pub item: u64,
}

/// A push that a process holds.
#[derive(Clone, Debug, PartialEq)]
pub struct QueuedPush {
    /// Its item and device.
    pub key: PushKey,
    /// The kind of notification, [`POST_KIND`] or [`CLEAR_KIND`].
    pub kind: String,
    /// The state of the group that is pushed: see [`NotificationGroup::seq`](super::NotificationGroup::seq).
    pub seq: i64,
    /// The number of attempts, including this one.
    pub attempts: u32,
    /// When the item was queued, in Unix milliseconds.
    pub queued_at: Millis,
    /// When it was first sent without being accepted, in Unix milliseconds. A deferral begins anew.
    pub first_tried_at: Option<Millis>,
    /// The device, and the session that registered it; `None` if it was removed, or registered again later.
    pub device: Option<(Device, DeviceSession)>,
    /// The preferences of the user.
    pub preferences: PushPreferences,
    /// The number of pushes that were accepted for the device, in the last 24 hours.
    pub accepted: u64,
}

impl QueuedPush {
    /// The push with its result.
    pub fn settled(&self, result: PushResult) -> SettledPush {
        SettledPush { key: self.key.clone(), seq: self.seq, result }
    }
}

/// What becomes of a push. The statements that settle pushes receive it as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "result", content = "detail", rename_all = "snake_case")]
pub enum PushResult {
    /// The provider took it over. If the group has grown since, it is pushed again after a pause.
    Accepted,
    /// The same, as part of a digest for which another push counts towards the daily cap.
    AcceptedInDigest,
    /// It is not to be sent. If the group has grown since, it is looked at again.
    Unwanted,
    /// It is sent later, at this time in Unix milliseconds. The attempt does not count.
    Deferred(Millis),
    /// The attempt failed. The next one is at this time, in Unix milliseconds.
    Retry(Millis),
    /// No request was made, for example while a breaker was open. It is tried at this time, in Unix milliseconds. The
    /// attempt counts for the back-off, and not as the first one.
    Postponed(Millis),
    /// It is given up, for this reason, and moves to the quarantine.
    Failed(String),
}

/// A push with its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SettledPush {
    /// Its item and device.
    #[serde(flatten)]
    pub key: PushKey,
    /// The state of the group that was pushed.
    pub seq: i64,
    /// What becomes of it.
    #[serde(flatten)]
    pub result: PushResult,
}

/// The pushes that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PushBacklog {
    /// The number of those that are due, at most [`MAX_COUNTED_PUSHES`].
    pub due: u64,
    /// When the first one is due, in Unix milliseconds; `None` if none waits.
    pub next: Option<Millis>,
}

/// The number of pushes that a backlog counts.
pub const MAX_COUNTED_PUSHES: u64 = 100_000;

/// How long an accepted push is remembered, in milliseconds: the item is not pushed again meanwhile, and it counts
/// towards the daily cap.
pub const ACCEPTED_KEPT: Millis = 24 * 3_600 * 1_000;

/// How the row `q` of a push changes with its result, in the dialect of both stores. `s`: a [`SettledPush`], with
/// `now`, `kept_until` and `digest`. `$clear_pause`: the time until the next silent message.
macro_rules! settle_push {
    ($clear_pause:expr) => {
        concat!(
            "holder = NULL,
            state = CASE WHEN s.result IN ('deferred', 'retry', 'postponed') OR q.seq > s.seq THEN 0 ELSE 1 END,
            due_at = CASE
                WHEN s.result IN ('deferred', 'retry', 'postponed') THEN CAST(s.detail AS bigint)
                WHEN q.seq <= s.seq THEN s.kept_until
                WHEN s.result NOT IN ('accepted', 'accepted_in_digest') THEN s.now
                WHEN q.kind IN ('like', 'follow') THEN s.now + s.digest
                WHEN q.kind = 'clear' THEN s.now + ",
            $clear_pause,
            "   ELSE s.now END,
            queued_at = CASE WHEN s.result IN ('deferred', 'retry', 'postponed') THEN q.queued_at ELSE s.now END,
            attempts = CASE WHEN s.result IN ('retry', 'postponed') THEN q.attempts ELSE 0 END,
            first_tried_at = CASE WHEN s.result NOT IN ('retry', 'postponed') THEN 0
                WHEN s.result = 'retry' AND q.first_tried_at = 0 THEN s.now ELSE q.first_tried_at END,
            sent_at = CASE WHEN s.result IN ('accepted', 'accepted_in_digest') THEN s.now ELSE q.sent_at END,
            sends = q.sends + CASE WHEN s.result = 'accepted' THEN 1 ELSE 0 END"
        )
    };
}
pub(super) use settle_push;

/// The queue of pushes. An item is queued once for each device; a group of notifications that grows stays one item.
#[async_trait]
pub trait PushStore: Send + Sync {
    /// Leases up to `limit` pushes that are due at `now`, those due first first. The lease of a push ends when it is
    /// settled, or at its time.
    async fn lease_pushes(&self, now: Millis, lease: &PushLease, limit: usize) -> Result<Vec<QueuedPush>>;

    /// Reads leased pushes again, with the devices, preferences and counts of `now`. Omits those whose lease is lost.
    async fn reload_pushes(&self, keys: &[PushKey], lease: &PushLease, now: Millis) -> Result<Vec<QueuedPush>>;

    /// Settles pushes whose lease is held. The others are omitted. `digest` is the [pause](PushPlan::digest) of groups
    /// that have grown meanwhile. Returns the number of settled pushes.
    async fn settle_pushes(
        &self,
        settled: &[SettledPush],
        lease: &PushLease,
        now: Millis,
        digest: Millis,
    ) -> Result<usize>;

    /// Makes the pushes that quiet hours of a user may hold due, as if they were queued at `now`: the quiet hours have
    /// changed.
    async fn end_deferrals(&self, user: &UserId, now: Millis, plan: PushPlan) -> Result<()>;

    /// Queues silent messages for the devices that were sent, or are being sent, a push of these items. Accepts any
    /// number of items.
    async fn clear_pushes(&self, items: &[(UserId, u64)], plan: &ClearPlan) -> Result<()>;

    /// The posts above `after` of which a device of the user was sent an alert, newest first.
    async fn sent_alerts(&self, user: &UserId, after: PostId, limit: usize) -> Result<Vec<PostId>>;

    /// Up to `limit` users above `after` for whose devices alerts about a post are queued or remembered, by their ids.
    async fn alerted_users(&self, post: PostId, after: &str, limit: usize) -> Result<Vec<UserId>>;

    /// Queues alerts about a post for the devices of users who asked for them, in the order of ids. A push that is
    /// queued or remembered is not queued again. Returns the last user of the page; `None`: nobody is left.
    async fn queue_post_alerts(&self, page: &PostAlertPage, now: Millis) -> Result<Option<UserId>>;

    /// The pairs of a user and an author for which the user has alerts.
    async fn post_alert_readers(&self, pairs: &[(UserId, UserId)]) -> Result<HashMap<(UserId, UserId), AlertReader>>;

    /// Removes up to `limit` accepted pushes that were kept for long enough. Returns their number.
    async fn forget_pushes(&self, now: Millis, limit: usize) -> Result<usize>;

    /// The pushes that wait at `now`.
    async fn push_backlog(&self, now: Millis) -> Result<PushBacklog>;
}
