//! Notifications in the public form of events: groups in their present state.

use std::borrow::Cow;
use std::collections::HashMap;

use futures::{StreamExt, TryStreamExt, stream};
use schemars::JsonSchema;
use serde::Serialize;

use crate::feed::error::Result;
use crate::feed::event_queue::PendingEvent;
use crate::ledger::{Ledger, NotificationGroup};
use crate::model::{ContentId, DomainEvent, Millis, NotificationId, UserId, with_kinds};

/// The users whose notifications are read concurrently.
const MAX_CONCURRENT_USERS: usize = 8;

/// The notifications of a batch, by user.
pub(super) type Groups = HashMap<(UserId, NotificationId), NotificationGroup>;

/// A group of notifications in its present state.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OutletNotification")]
pub(crate) struct OutletNotification<'a> {
    /// Its id; it stays while more people do the same.
    pub(super) id: NotificationId,
    /// The kind of action; `app.` and a name for what the application notified of.
    #[schemars(transform = with_kinds)]
    pub(super) kind: Cow<'a, str>,
    /// The object of the action; absent for `follow`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) object: Option<OutletObject>,
    /// The users that caused it, the newest first, at most 16.
    pub(super) by: Vec<&'a UserId>,
    /// The number of all users that caused it.
    pub(super) count: u64,
    /// When the last action happened, in Unix milliseconds.
    pub(super) updated_at: Millis,
}

/// The object of a notification.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OutletObject {
    /// Whether it is a post or a comment.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["post", "comment"]))]
    pub(super) kind: &'static str,
    /// Its id.
    pub(super) id: u64,
}

/// The present state of a group of a user.
pub(super) fn present_state<'a>(to: &UserId, group: &'a NotificationGroup) -> OutletNotification<'a> {
    let object = group.kind.object().map(|object| match object {
        ContentId::Post(post) => OutletObject { kind: "post", id: post.0 },
        ContentId::Comment(comment) => OutletObject { kind: "comment", id: comment.0 },
    });
    // The application's own notifications are by their recipient.
    let by: Vec<&UserId> = group.people.iter().filter(|person| *person != to).collect();
    OutletNotification {
        id: group.id,
        kind: group.content.as_ref().map_or(Cow::Borrowed(group.kind.name()), |content| Cow::Borrowed(&content.kind)),
        object,
        count: group.count.saturating_sub((group.people.len() - by.len()) as u64),
        by,
        updated_at: group.updated_at,
    }
}

/// Loads the groups of notifications of a batch: one call for each user.
pub(super) async fn load_groups(ledger: &dyn Ledger, events: &[PendingEvent]) -> Result<Groups> {
    let mut by_user: HashMap<&UserId, Vec<NotificationId>> = HashMap::new();
    for PendingEvent { event, .. } in events {
        if let DomainEvent::Notified { to, notification } = event {
            by_user.entry(to).or_default().push(*notification);
        }
    }
    let loads: Vec<_> = by_user
        .into_iter()
        .map(|(user, ids)| async move {
            let groups = ledger.notifications_by_id(user, &ids).await?;
            Result::Ok(groups.into_iter().map(|group| ((user.clone(), group.id), group)).collect::<Vec<_>>())
        })
        .collect();
    let loaded: Vec<Vec<_>> = stream::iter(loads).buffer_unordered(MAX_CONCURRENT_USERS).try_collect().await?;
    Ok(loaded.into_iter().flatten().collect())
}
