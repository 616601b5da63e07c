//! The queue of pushes. Notifications are queued for the devices of their owners in the transaction that writes them.

use std::sync::Arc;

use async_trait::async_trait;

use super::{DeviceSession, Result};
use crate::model::{Device, DeviceId, Millis, PushPreferences, UserId};

/// How notifications are queued. Part of the calls that write notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushPlan {
    /// The time until a notification is pushed, in milliseconds: its owner may read it meanwhile.
    pub grace: Millis,
    /// The time between two pushes of the same group of likes or follows, in milliseconds.
    pub digest: Millis,
}

impl PushPlan {
    /// The time between two pushes of a group of this kind.
    pub(super) fn pause(self, kind: &str) -> Millis {
        if matches!(kind, "like" | "follow") { self.digest } else { 0 }
    }
}

/// How the devices of a user learn that something was read elsewhere. Part of the calls that mark as read: a silent
/// message to each device that was sent a push of it in the last 24 hours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClearPlan {
    /// The token of the session that reads. Its own device is omitted.
    pub session: Option<String>,
    /// The time of the call, in Unix milliseconds.
    pub now: Millis,
    /// When the message is sent, in Unix milliseconds. Further ones up to then are the same message.
    pub due_at: Millis,
}

/// The kind of pushes that tell a device what was read elsewhere, and their only item.
pub const CLEAR_KIND: &str = "clear";
/// See [`CLEAR_KIND`].
pub const CLEAR_ITEM: u64 = 0;

/// The kind of pushes about posts of authors with alerts. The item is the post.
pub const POST_KIND: &str = "post";

/// The pauses between messages of [`CLEAR_KIND`] to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClearPace {
    /// The pause after the first one, in milliseconds. It grows by that with each message of a day.
    pub(super) step: Millis,
    /// The longest pause, in milliseconds.
    pub(super) max: Millis,
}

impl ClearPace {
    /// FCM gives a device a new silent message every three minutes, after some at once. Others have no limit.
    pub(super) const USUAL: Self = Self { step: 10_000, max: 180_000 };

    /// APNs delivers two or three background messages in an hour.
    pub(super) const APNS: Self = Self { step: 300_000, max: 1_200_000 };

    /// The pause after this number of silent messages, in milliseconds.
    pub(super) fn pause(self, sends: u64) -> Millis {
        self.step.saturating_mul(sends).min(self.max)
    }
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
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PushKey {
    /// The user.
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

/// What becomes of a push.
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledPush {
    /// Its item and device.
    pub key: PushKey,
    /// The state of the group that was pushed.
    pub seq: i64,
    /// What becomes of it.
    pub result: PushResult,
}

/// The pushes that are due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PushBacklog {
    /// Their number, at most [`MAX_COUNTED_PUSHES`].
    pub pushes: u64,
    /// Since when the first one is due, in Unix milliseconds.
    pub oldest: Option<Millis>,
}

/// The number of pushes that a backlog counts.
pub const MAX_COUNTED_PUSHES: u64 = 100_000;

/// How long an accepted push is remembered, in milliseconds: the item is not pushed again meanwhile, and it counts
/// towards the daily cap.
pub const ACCEPTED_KEPT: Millis = 24 * 3_600 * 1_000;

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

    /// Removes up to `limit` accepted pushes, and finished jobs of alerts, that were kept for long enough. Returns the
    /// number of pushes.
    async fn forget_pushes(&self, now: Millis, limit: usize) -> Result<usize>;

    /// The pushes that are due at `now`.
    async fn push_backlog(&self, now: Millis) -> Result<PushBacklog>;

    /// When the next push is due, in Unix milliseconds; `None` if the queue is empty.
    async fn next_push(&self) -> Result<Option<Millis>>;
}
