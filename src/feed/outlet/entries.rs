//! From domain events to the entries of the log.

use std::collections::{HashMap, HashSet};

use futures::{StreamExt, TryStreamExt, stream};

use super::event::{OutletEvent, OutletNotification, OutletObject};
use crate::feed::error::Result;
use crate::feed::event_queue::PendingEvent;
use crate::ledger::{Ledger, NewOutletEntry, NotificationGroup};
use crate::model::{ContentId, DomainEvent, EventOwner, Millis, NotificationId, UserId};

/// The users whose notifications are read concurrently.
const MAX_CONCURRENT_USERS: usize = 8;

/// The notifications of a batch, by user.
type Groups = HashMap<(UserId, NotificationId), NotificationGroup>;

/// The entries of events. An event that has become meaningless, like the notification of a group that was removed, has
/// none.
pub(super) async fn entries(ledger: &dyn Ledger, events: &[PendingEvent]) -> Result<Vec<NewOutletEntry>> {
    let mut events = events.to_vec();
    let mut groups = load_groups(ledger, &events).await?;
    respell(ledger, &mut events, &mut groups).await?;
    let entry = |PendingEvent { seq, at, event }: &PendingEvent| {
        let body = serde_json::to_string(&public_form(event, *at, &groups)?).ok()?;
        // The first member of the JSON is the type.
        let kind = body.split('"').nth(3)?.to_owned();
        Some(NewOutletEntry { event: *seq, at: *at, kind, owner: owner_of(event)?, body })
    };
    Ok(events.iter().filter_map(entry).collect())
}

/// Replaces all ids of users by those that they first wrote: events have them as others wrote them.
async fn respell(ledger: &dyn Ledger, events: &mut [PendingEvent], groups: &mut Groups) -> Result<()> {
    let of_events = events.iter_mut().flat_map(|pending| pending.event.users_mut());
    let mut users: Vec<&mut UserId> =
        of_events.chain(groups.values_mut().flat_map(|group| &mut group.people)).collect();
    let ids: HashSet<UserId> = users.iter().map(|id| UserId::clone(id)).collect();
    let known = ledger.users(&ids.into_iter().collect::<Vec<_>>()).await?;
    UserId::respell(users.drain(..), &known.into_iter().map(|user| user.id).collect());
    Ok(())
}

/// Whose events are kept in order; `None`: the event has no public form.
pub(super) fn owner_of(event: &DomainEvent) -> Option<EventOwner> {
    match event {
        DomainEvent::PostCreated { author: user, .. }
        | DomainEvent::PostEdited { author: user, .. }
        | DomainEvent::PostDeleted { author: user, .. }
        | DomainEvent::Followed { follower: user, .. }
        | DomainEvent::Unfollowed { follower: user, .. }
        | DomainEvent::Notified { to: user, .. }
        | DomainEvent::UserConnected { user }
        | DomainEvent::UserAway { user } => Some(user.into()),
        DomainEvent::ChannelSubscribed { channel, .. } | DomainEvent::ChannelVacated { channel } => {
            Some(EventOwner::channel(channel))
        }
        DomainEvent::CommentCreated { .. }
        | DomainEvent::CommentEdited { .. }
        | DomainEvent::CommentDeleted { .. }
        | DomainEvent::Liked { .. }
        | DomainEvent::Unliked { .. }
        | DomainEvent::Restricted { .. } => None,
    }
}

/// The public form of an event that happened at a time; `None`: it has none.
fn public_form<'a>(event: &'a DomainEvent, at: Millis, groups: &'a Groups) -> Option<OutletEvent<'a>> {
    Some(match event {
        DomainEvent::PostCreated { post, author, mentions } => {
            OutletEvent::PostCreated { at, user: author, post: *post, mentions }
        }
        DomainEvent::PostEdited { post, author, mentions, .. } => {
            OutletEvent::PostEdited { at, user: author, post: *post, mentions }
        }
        DomainEvent::PostDeleted { post, author, .. } => OutletEvent::PostDeleted { at, user: author, post: *post },
        DomainEvent::Followed { follower, followee } => OutletEvent::FollowCreated { at, user: follower, followee },
        DomainEvent::Unfollowed { follower, followee } => OutletEvent::FollowDeleted { at, user: follower, followee },
        DomainEvent::Notified { to, notification } => {
            let group = groups.get(&(to.clone(), *notification))?;
            OutletEvent::Notification { at, user: to, notification: present_state(group) }
        }
        DomainEvent::UserConnected { user } => OutletEvent::UserConnected { at, user },
        DomainEvent::UserAway { user } => OutletEvent::UserAway { at, user },
        DomainEvent::ChannelSubscribed { channel, user } => {
            OutletEvent::ChannelSubscribed { at, channel, user: user.as_ref() }
        }
        DomainEvent::ChannelVacated { channel } => OutletEvent::ChannelVacated { at, channel },
        DomainEvent::CommentCreated { .. }
        | DomainEvent::CommentEdited { .. }
        | DomainEvent::CommentDeleted { .. }
        | DomainEvent::Liked { .. }
        | DomainEvent::Unliked { .. }
        | DomainEvent::Restricted { .. } => {
            return None;
        }
    })
}

fn present_state(group: &NotificationGroup) -> OutletNotification<'_> {
    let object = group.kind.object().map(|object| match object {
        ContentId::Post(post) => OutletObject { kind: "post", id: post.0 },
        ContentId::Comment(comment) => OutletObject { kind: "comment", id: comment.0 },
    });
    OutletNotification {
        id: group.id,
        kind: group.kind.name(),
        object,
        by: &group.people,
        count: group.count,
        updated_at: group.updated_at,
    }
}

/// Loads the groups of notifications of a batch: one call for each user.
async fn load_groups(ledger: &dyn Ledger, events: &[PendingEvent]) -> Result<Groups> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{NotificationKind, NotificationPosition, PostId};

    fn id(text: &str) -> UserId {
        UserId::parse(text).expect("an id")
    }

    fn body(event: &DomainEvent, groups: &Groups) -> String {
        let text = serde_json::to_string(&public_form(event, 5, groups).expect("an event")).expect("JSON");
        let owner = owner_of(event).expect("an owner");
        let owner = match owner.as_str().strip_prefix('#') {
            None => format!(r#","at":5,"user":"{owner}""#),
            Some(channel) => format!(r#","at":5,"channel":"{channel}""#),
        };
        assert!(text.starts_with(r#"{"type":""#) && text.contains(&owner), "{text}");
        text
    }

    #[test]
    fn events_have_their_documented_form() {
        let ann = id("ann");
        let bo = id("bo");
        let group = NotificationGroup {
            id: NotificationId(7),
            kind: NotificationKind::Like(ContentId::Post(PostId(17))),
            seq: 1,
            position: NotificationPosition(1),
            people: vec![bo.clone()],
            comments: HashMap::new(),
            count: 1,
            created_at: 3,
            updated_at: 4,
            read: false,
            seen: false,
        };
        let groups = Groups::from([((ann.clone(), group.id), group)]);
        let created = DomainEvent::PostCreated { post: PostId(17), author: ann.clone(), mentions: vec![bo.clone()] };
        let expected = r#"{"type":"post.created","at":5,"user":"ann","post":17,"mentions":["bo"]}"#;
        assert_eq!(body(&created, &groups), expected);
        let followed = DomainEvent::Followed { follower: bo.clone(), followee: ann.clone() };
        let expected = r#"{"type":"follow.created","at":5,"user":"bo","followee":"ann"}"#;
        assert_eq!(body(&followed, &groups), expected);
        let notified = DomainEvent::Notified { to: ann.clone(), notification: NotificationId(7) };
        let expected = r#"{"type":"notification","at":5,"user":"ann","notification":{"id":7,"kind":"like","#.to_owned()
            + r#""object":{"type":"post","id":17},"by":["bo"],"count":1,"updated_at":4}}"#;
        assert_eq!(body(&notified, &groups), expected);
        let away = DomainEvent::UserAway { user: ann.clone() };
        assert_eq!(body(&away, &groups), r#"{"type":"user.away","at":5,"user":"ann"}"#);
        let subscribed = DomainEvent::ChannelSubscribed { channel: "chat:1".into(), user: Some(ann.clone()) };
        let expected = r#"{"type":"channel.subscribed","at":5,"channel":"chat:1","user":"ann"}"#;
        assert_eq!(body(&subscribed, &groups), expected);
        let vacated = DomainEvent::ChannelVacated { channel: "chat:1".into() };
        assert_eq!(body(&vacated, &groups), r#"{"type":"channel.vacated","at":5,"channel":"chat:1"}"#);
        let removed = DomainEvent::Notified { to: ann, notification: NotificationId(8) };
        assert!(public_form(&removed, 5, &groups).is_none(), "the group is gone");
    }
}
