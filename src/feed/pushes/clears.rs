//! Silent messages: what is still unread, for devices that show notifications which were read elsewhere, or whose
//! causes have ended.

use crate::feed::call::Credential;
use crate::feed::runtime::now;
use crate::ledger::ClearPlan;
use crate::model::{Millis, NotificationId, PostId};

/// How long a silent message waits for more to be read, in milliseconds.
const DELAY: Millis = 2_000;

/// The content of a silent message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClearContent {
    /// The notifications that are neither read nor seen. The device withdraws others behind `after`, up to `upto`.
    pub(crate) unread: Vec<NotificationId>,
    /// Up to this id, notifications that are unread may be absent from `unread`, because there are too many.
    pub(crate) after: NotificationId,
    /// The newest notification at the time of the decision. The message may be delivered after newer ones.
    pub(crate) upto: NotificationId,
    /// The number of unread notifications of the user; 100 means 100 or more.
    pub(crate) badge: u32,
    /// The newest post that the user has seen. The device withdraws alerts up to it.
    pub(crate) seen_post: PostId,
    /// Newer posts that the user may not see any more. The device withdraws alerts about them.
    pub(crate) gone_posts: Vec<PostId>,
}

/// The plan of a call that marks as read: silent messages to the user's other devices, after a delay.
pub(crate) fn clear_plan(credential: &Credential) -> ClearPlan {
    let now = now();
    let session = credential.token().and_then(|token| token.id.as_deref().map(str::to_owned));
    ClearPlan { session, now, due_at: now.saturating_add(DELAY) }
}

/// The plan of silent messages about causes that have ended: to all devices of the user, after a delay.
pub(crate) fn ending_plan() -> ClearPlan {
    let now = now();
    ClearPlan { session: None, now, due_at: now.saturating_add(DELAY) }
}
