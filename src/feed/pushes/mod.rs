//! Pushes that are due: whether they may still be sent, and their content.
//!
//! A notification is queued for the devices of its owner when it is written (`ledger/pushes.rs`). Everything that may
//! have changed since is checked here, right before it is sent: sign-outs and blocks, read state, visibility, muted
//! users and conversations, deleted and edited objects, and the preferences of the owner.

mod clears;
mod delivery_receipts;
mod live_sockets;
mod post_alerts;
mod quiet_hours;
mod quoted_texts;
mod send_tally;

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use futures::{StreamExt, stream};
use tokio::time::Instant;

pub(crate) use self::clears::{ClearContent, clear_plan, ending_plan};
pub(crate) use self::delivery_receipts::DeliveryReceipts;
pub use self::live_sockets::SocketProbe;
pub(crate) use self::live_sockets::{LiveDeliveries, LiveSockets};
use self::post_alerts::PostAlertReview;
use self::quiet_hours::quiet_until;
use self::quoted_texts::{load_texts, text_of};
pub(crate) use self::send_tally::SendReservation;
use self::send_tally::SendTally;
use super::error::Result;
use super::identity::RevocationService;
use super::runtime::now;
use crate::auth::{TokenIdentity, TokenKind};
use crate::feed::base::Base;
use crate::feed::visibility::ViewContext;
use crate::ledger::{APP_KIND, CLEAR_ITEM, CLEAR_KIND, DeviceSession, MAX_NOTIFICATION_GROUPS, POST_KIND, QueuedPush};
use crate::model::{CommentId, ContentId, Millis, Notification, NotificationId, NotificationSubject, PostId, UserId};

/// The number of unread notifications that are read for a user: the greatest badge.
const MAX_UNREAD: usize = 100;

/// The number of unread notifications that are read for a silent message if there are more: all that a user has.
const MAX_GROUPS: usize = MAX_NOTIFICATION_GROUPS as usize;

/// The number of alerts about posts that a silent message is made of: a device gets no more in a day by default.
const MAX_ALERTS: usize = 100;

/// The time over which pushes are spread that quiet hours held back, in milliseconds.
const QUIET_END_SPREAD: Millis = 30_000;

/// The number of users whose notifications are read concurrently.
const MAX_CONCURRENT_USERS: usize = 16;

/// What is to become of a push.
#[derive(Debug)]
pub(crate) enum PushDecision {
    /// It is sent, with this content, after a [reservation](PushReview::reserve).
    Send(Box<PushContent>),
    /// It is a silent message, and is sent with this content.
    Clear(Box<ClearContent>),
    /// It is not sent, for this reason.
    Drop(&'static str),
    /// It is sent later, at this time in Unix milliseconds.
    Defer(Millis),
}

/// The content of a push.
#[derive(Clone, Debug)]
pub(crate) struct PushContent {
    /// The notification, as its owner may see it; for an alert about a post, one with its id.
    pub(crate) notification: Notification,
    /// The text of its post or comment, if the push contains it: see [`text_of`].
    pub(crate) text: String,
    /// The number of unread notifications of the user; 100 means 100 or more.
    pub(crate) unread: u32,
}

/// Decides about pushes that are due.
pub(crate) struct PushReview {
    base: Arc<Base>,
    revocations: Arc<RevocationService>,
    post_alerts: PostAlertReview,
    tally: Arc<SendTally>,
    /// How long after its notification a push is of use, in milliseconds.
    time_to_live: Millis,
}

/// The notifications of a user that are due, as the user may see them, and the number of unread ones.
struct UserState {
    due: HashMap<u64, Notification>,
    /// The newest comments of those of comments and replies.
    comments: HashMap<u64, CommentId>,
    unread: u32,
    /// The unread notifications that are not seen either.
    unseen: Vec<NotificationId>,
    /// For silent messages: the greatest id of an unread notification beyond those, and of any notification.
    unlisted: NotificationId,
    newest: NotificationId,
    /// The newest post that the user has seen, and newer ones with an alert that are gone, for silent messages.
    seen_post: PostId,
    gone_posts: Vec<PostId>,
}

impl UserState {
    /// The object whose text the push of an item quotes.
    fn quoted(&self, item: u64) -> Option<ContentId> {
        let comment = self.comments.get(&item).map(|comment| ContentId::Comment(*comment));
        comment.or_else(|| text_of(self.due.get(&item)?))
    }
}

impl PushReview {
    /// Reviews pushes with this ledger and these rules of visibility.
    pub(crate) fn new(base: Arc<Base>, revocations: Arc<RevocationService>) -> Self {
        let post_alerts = PostAlertReview::new(base.clone());
        let tally = Arc::default();
        let time_to_live = u64::try_from(base.options.pushes.time_to_live.as_millis()).unwrap_or(u64::MAX);
        Self { base, revocations, post_alerts, tally, time_to_live }
    }

    /// Decides about a batch, in its order. `live` is what was taken live. The number of ledger calls depends on the
    /// number of users.
    ///
    /// # Errors
    /// If the ledger cannot be read: nothing may be sent then.
    pub(crate) async fn decide(&self, batch: &[&QueuedPush], live: &LiveDeliveries) -> Result<Vec<PushDecision>> {
        // Revocations up to now, on any node.
        self.revocations.follow().await?;
        let now = now();
        let early: Vec<Option<PushDecision>> = batch.iter().map(|push| self.refusal(push, now)).collect();
        let open = || batch.iter().zip(&early).filter(|(_, early)| early.is_none()).map(|(push, _)| *push);
        let mut states = self.states(open()).await?;
        let alerts = self.post_alerts.review(open(), live).await?;
        for (user, alert) in alerts.due {
            states.entry(user).and_modify(|state| drop(state.due.insert(alert.id.0, alert)));
        }
        let muted = self.muted(open(), &states).await?;
        let shown = open().filter(|push| !push.preferences.private);
        let quoted = |push: &QueuedPush| states.get(&push.key.user)?.quoted(push.key.item);
        let texts = load_texts(&*self.base.ledger, &self.base.posts, shown.filter_map(quoted)).await?;
        let decide = |push: &QueuedPush| {
            let Some(state) = states.get(&push.key.user) else { return PushDecision::Drop("read") };
            if push.kind == CLEAR_KIND {
                return PushDecision::Clear(Box::new(ClearContent {
                    unread: state.unseen.clone(),
                    after: state.unlisted,
                    upto: state.newest,
                    badge: state.unread,
                    seen_post: state.seen_post,
                    gone_posts: state.gone_posts.clone(),
                }));
            }
            if let Some(reason) = alerts.refused.get(&(push.key.user.clone(), push.key.item)) {
                return PushDecision::Drop(reason);
            }
            let Some(notification) = state.due.get(&push.key.item) else { return PushDecision::Drop("read") };
            if under(notification).is_some_and(|post| muted.contains(&(push.key.user.clone(), post))) {
                return PushDecision::Drop("muted");
            }
            if let Some(content) = &notification.content
                && !(content.push && push.preferences.kinds.wants(&notification.kind))
            {
                return PushDecision::Drop("unwanted");
            }
            if push.kind != POST_KIND && live.has_notification(&push.key.user, notification) {
                return PushDecision::Drop("live");
            }
            if let Some(until) = quiet_end(push, now) {
                return PushDecision::Defer(until);
            }
            let text = state.quoted(push.key.item).and_then(|object| texts.get(&object).cloned());
            let text = text.filter(|_| !push.preferences.private).unwrap_or_default();
            let unread = state.unread;
            let content = PushContent { notification: notification.clone(), text, unread };
            PushDecision::Send(Box::new(content))
        };
        Ok(batch.iter().zip(early).map(|(push, early)| early.unwrap_or_else(|| decide(push))).collect())
    }

    /// Reserves a message: it counts towards the daily cap of its device until the reservation is dropped. The push was
    /// read from the queue at `read_at`. `None`: the device has reached its cap.
    pub(crate) fn reserve(&self, push: &QueuedPush, read_at: Instant) -> Option<SendReservation> {
        self.tally.reserve(&push.key, push.preferences.daily_cap.into(), (push.accepted, read_at))
    }

    /// Whether the user is blocked or the session of the device has ended, as far as this node knows.
    pub(crate) fn is_signed_out(&self, push: &QueuedPush) -> bool {
        push.device.as_ref().is_some_and(|(_, session)| self.is_revoked(push, session))
    }

    fn is_revoked(&self, push: &QueuedPush, session: &DeviceSession) -> bool {
        self.revocations.check(Some(&push.key.user), identity(session).as_ref()).is_err()
    }

    /// Decides what does not depend on the notification: the device, its session, and the preferences.
    fn refusal(&self, push: &QueuedPush, now: Millis) -> Option<PushDecision> {
        let Some((_, session)) = &push.device else { return Some(PushDecision::Drop("no_device")) };
        if self.is_revoked(push, session) {
            return Some(PushDecision::Drop("signed_out"));
        }
        if push.queued_at.saturating_add(self.time_to_live) <= now {
            return Some(PushDecision::Drop("expired"));
        }
        if push.kind == CLEAR_KIND {
            // It shows nothing.
            return None;
        }
        // Of a notification of the application, the queue does not have the name of its kind.
        if push.kind != APP_KIND && !push.preferences.kinds.wants(&push.kind) {
            return Some(PushDecision::Drop("unwanted"));
        }
        (push.accepted >= push.preferences.daily_cap.into()).then_some(PushDecision::Drop("daily_cap"))
    }

    /// The notifications of each user that are unread, not seen, and visible.
    async fn states(&self, pushes: impl Iterator<Item = &QueuedPush> + Send) -> Result<HashMap<UserId, UserState>> {
        let mut items: HashMap<UserId, HashSet<u64>> = HashMap::new();
        for push in pushes {
            items.entry(push.key.user.clone()).or_default().insert(push.key.item);
        }
        let states = stream::iter(items)
            .map(|(user, items)| async move { self.state(&user, &items).await.map(|state| (user, state)) })
            .buffer_unordered(MAX_CONCURRENT_USERS);
        let states: Vec<Result<(UserId, UserState)>> = states.collect().await;
        states.into_iter().collect()
    }

    async fn state(&self, user: &UserId, items: &HashSet<u64>) -> Result<UserState> {
        let is_clear = items.contains(&CLEAR_ITEM);
        // Before the unread ones: none up to it is missing among them.
        let newest = if is_clear { self.base.ledger.newest_notification(user).await? } else { None };
        let mut groups = self.base.ledger.unread_notifications(user, MAX_UNREAD).await?;
        let mut unlisted = NotificationId(0);
        if groups.len() == MAX_UNREAD {
            if is_clear {
                let all = self.base.ledger.unread_notifications(user, MAX_GROUPS).await?;
                let others = all.iter().map(|group| group.id).filter(|id| !groups.iter().any(|group| group.id == *id));
                unlisted = others.max().unwrap_or(unlisted);
            }
            // Older ones may be due, too.
            let found: HashSet<u64> = groups.iter().map(|group| group.id.0).collect();
            let others: Vec<NotificationId> = items.difference(&found).copied().map(NotificationId).collect();
            if !others.is_empty() {
                let others = self.base.ledger.notifications_by_id(user, &others).await?;
                groups.extend(others.into_iter().filter(|group| !group.read));
            }
        }
        let mut visible = self.base.notification_renderer.visible(user, groups).await?;
        let unread = u32::try_from(visible.len().min(MAX_UNREAD)).unwrap_or(u32::MAX);
        let unseen = visible.iter().filter(|visible| !visible.group.seen).map(|visible| visible.group.id).collect();
        let (seen_post, gone_posts) = if is_clear { self.seen_posts(user).await? } else { (PostId::ZERO, Vec::new()) };
        visible.retain(|visible| items.contains(&visible.group.id.0) && !visible.group.seen);
        let comments = visible.iter().filter_map(|visible| Some((visible.group.id.0, visible.comment?))).collect();
        let due = self.base.notification_renderer.with_people(visible).await?;
        let due = due.into_iter().map(|notification| (notification.id.0, notification)).collect();
        let newest = newest.unwrap_or(NotificationId(0));
        Ok(UserState { due, comments, unread, unseen, unlisted, newest, seen_post, gone_posts })
    }

    /// The newest post that a user has seen, and the newer ones among those with an alert that the user may not see.
    async fn seen_posts(&self, user: &UserId) -> Result<(PostId, Vec<PostId>)> {
        let seen = self.base.ledger.read_marker(user).await?;
        let mut sent = self.base.ledger.sent_alerts(user, seen, MAX_ALERTS).await?;
        let wanted = sent.iter().copied();
        let visible = self.base.visibility.visible_posts(Some(user), ViewContext::Unrequested, wanted).await?;
        sent.retain(|post| !visible.contains_key(post));
        Ok((seen, sent))
    }

    /// The muted conversations of the users, one call for the batch.
    async fn muted(
        &self,
        pushes: impl Iterator<Item = &QueuedPush> + Send,
        states: &HashMap<UserId, UserState>,
    ) -> Result<HashSet<(UserId, PostId)>> {
        let post = |push: &QueuedPush| under(states.get(&push.key.user)?.due.get(&push.key.item)?);
        let pairs: HashSet<(UserId, PostId)> =
            pushes.filter_map(|push| Some((push.key.user.clone(), post(push)?))).collect();
        if pairs.is_empty() {
            return Ok(HashSet::new());
        }
        let pairs: Vec<_> = pairs.into_iter().collect();
        Ok(self.base.ledger.muted_conversations(&pairs).await?.into_iter().collect())
    }
}

/// When a push is sent whose device is in quiet hours: within half a minute of their end. All pushes of a device have
/// the same time, so that they become a digest, and those of many users are spread.
fn quiet_end(push: &QueuedPush, now: Millis) -> Option<Millis> {
    let (device, _) = push.device.as_ref()?;
    let end = quiet_until(push.preferences.quiet_hours.as_ref()?, device.time_zone.as_deref(), now)?;
    let mut hasher = DefaultHasher::new();
    (&push.key.user, &push.key.device).hash(&mut hasher);
    Some(end.saturating_add(hasher.finish() % QUIET_END_SPREAD))
}

/// The post under which a notification happened; `None` for follows, and for mentions in a post itself.
fn under(notification: &Notification) -> Option<PostId> {
    match (&*notification.kind, notification.object?) {
        ("mention", NotificationSubject::Post { .. }) => None,
        (_, object) => Some(object.post()),
    }
}

/// The token that registered a device; `None` if a backend did.
fn identity(session: &DeviceSession) -> Option<TokenIdentity> {
    if session.token.is_none() && session.generation.is_none() {
        return None;
    }
    let kind = match session.generation {
        Some(generation) => TokenKind::Session { generation },
        None => TokenKind::Application,
    };
    let issued_at = Some(session.issued_at).filter(|at| *at > 0);
    Some(TokenIdentity { kind, id: session.token.as_deref().map(Into::into), issued_at, expires_at: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::NotificationPosition;

    #[test]
    fn a_mention_in_a_post_is_not_under_it() {
        let notification = |kind: &str, object| Notification {
            id: NotificationId(1),
            position: NotificationPosition(1),
            kind: kind.to_owned().into(),
            content: None,
            object,
            comment: None,
            people: Vec::new(),
            count: 1,
            filtered: Vec::new(),
            created_at: 0,
            updated_at: 0,
            read: false,
            seen: false,
        };
        let post = Some(NotificationSubject::Post { id: PostId(7) });
        let comment = Some(NotificationSubject::Comment { id: CommentId(8), post: PostId(7) });
        assert_eq!(under(&notification("mention", post)), None);
        assert_eq!(under(&notification("mention", comment)), Some(PostId(7)));
        assert_eq!(under(&notification("like", post)), Some(PostId(7)));
        assert_eq!(under(&notification("follow", None)), None);
    }

    #[test]
    fn devices_of_backends_have_no_token() {
        assert_eq!(identity(&DeviceSession { issued_at: 5, ..DeviceSession::default() }), None);
        let token = identity(&DeviceSession { token: Some("t".into()), generation: None, issued_at: 0 });
        let token = token.expect("a token");
        assert_eq!((token.kind, token.id.as_deref(), token.issued_at), (TokenKind::Application, Some("t"), None));
        let session = identity(&DeviceSession { token: None, generation: Some(2), issued_at: 9 }).expect("a session");
        assert_eq!((session.kind, session.issued_at), (TokenKind::Session { generation: 2 }, Some(9)));
    }
}
