//! The public form of events, and its schema; from domain events to the entries of the log.

use std::collections::HashSet;

use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::{Value, json};

use super::notification::{Groups, OutletNotification, load_groups, present_state};
use crate::feed::error::Result;
use crate::feed::event_queue::PendingEvent;
use crate::ledger::{Ledger, NewOutletEntry};
use crate::model::{
    CommentId, DomainEvent, EventOwner, Millis, PostId, ReportId, ReportReason, ReportTarget, Standing, UserId,
};

/// An event of the outlet. Events of one `user` are delivered in order, and those of channels by `channel`. `at` is the
/// time in Unix milliseconds.
///
/// The log keeps events in this form; the `id` is their position in the log.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type")]
#[schemars(rename = "OutletEvent", transform = add_id)]
pub(crate) enum OutletEvent<'a> {
    /// A group of notifications was begun, or has grown.
    #[serde(rename = "notification")]
    Notification {
        /// When it happened, in Unix milliseconds.
        at: Millis,
        /// The recipient.
        user: &'a UserId,
        /// The group in its state at that time, or a later one.
        notification: OutletNotification<'a>,
    },
    /// A post was written.
    #[serde(rename = "post.created")]
    PostCreated {
        /// When it happened, in Unix milliseconds.
        at: Millis,
        /// The author.
        user: &'a UserId,
        /// The post.
        post: PostId,
        /// The other users that it mentions. They may not exist.
        mentions: &'a [UserId],
        /// The post that it reposts; absent: none.
        #[serde(skip_serializing_if = "Option::is_none")]
        repost: Option<PostId>,
        /// The post that it quotes; absent: none.
        #[serde(skip_serializing_if = "Option::is_none")]
        quote: Option<PostId>,
    },
    /// A post was edited.
    #[serde(rename = "post.edited")]
    PostEdited {
        /// When it happened, in Unix milliseconds.
        at: Millis,
        /// The author.
        user: &'a UserId,
        /// The post.
        post: PostId,
        /// The other users whose mentions the edit added. They may not exist.
        mentions: &'a [UserId],
    },
    /// A post was deleted, also by the erasure of its author.
    #[serde(rename = "post.deleted")]
    PostDeleted {
        /// When it happened, in Unix milliseconds.
        at: Millis,
        /// The author.
        user: &'a UserId,
        /// The post.
        post: PostId,
    },
    /// A post was removed by the application's backend: only its author sees it now.
    #[serde(rename = "post.removed")]
    PostRemoved {
        /// When it happened, in Unix milliseconds.
        at: Millis,
        /// The author.
        user: &'a UserId,
        /// The post.
        post: PostId,
    },
    /// A comment was removed by the application's backend: only its author sees it now.
    #[serde(rename = "comment.removed")]
    CommentRemoved {
        /// When it happened, in Unix milliseconds.
        at: Millis,
        /// The author.
        user: &'a UserId,
        /// The post of the comment.
        post: PostId,
        /// The comment.
        comment: CommentId,
    },
    /// A user was limited or suspended.
    #[serde(rename = "user.suspended")]
    UserSuspended {
        /// When it happened, in Unix milliseconds.
        at: Millis,
        /// The user.
        user: &'a UserId,
        /// `limited` or `suspended`.
        level: Standing,
        /// When it ends, in Unix milliseconds; absent: never.
        #[serde(skip_serializing_if = "Option::is_none")]
        until: Option<Millis>,
    },
    /// A user reported a user, a post or a comment.
    #[serde(rename = "report.created")]
    ReportCreated {
        /// When it happened, in Unix milliseconds.
        at: Millis,
        /// The user who reported.
        user: &'a UserId,
        /// The report.
        report: ReportId,
        /// The reported object.
        target: &'a ReportTarget,
        /// Why.
        reason: ReportReason,
    },
    /// A user followed another user.
    #[serde(rename = "follow.created")]
    FollowCreated {
        /// When it happened, in Unix milliseconds.
        at: Millis,
        /// The follower.
        user: &'a UserId,
        /// The followed user.
        followee: &'a UserId,
    },
    /// A follow ended, also because one of the two blocked the other.
    #[serde(rename = "follow.deleted")]
    FollowDeleted {
        /// When it happened, in Unix milliseconds.
        at: Millis,
        /// The former follower.
        user: &'a UserId,
        /// The formerly followed user.
        followee: &'a UserId,
    },
    /// A user has a connection to a node, and had none. Best effort.
    #[serde(rename = "user.connected")]
    UserConnected {
        /// When it happened, in Unix milliseconds.
        at: Millis,
        /// The user.
        user: &'a UserId,
    },
    /// A user has had no connection to a node for a while. Best effort.
    #[serde(rename = "user.away")]
    UserAway {
        /// When it happened, in Unix milliseconds.
        at: Millis,
        /// The user.
        user: &'a UserId,
    },
    /// A client has subscribed to a channel of the application, of a namespace with `events = true`. Best effort.
    #[serde(rename = "channel.subscribed")]
    ChannelSubscribed {
        /// When it happened, in Unix milliseconds.
        at: Millis,
        /// The channel.
        channel: &'a str,
        /// The client's user; absent of an anonymous client.
        #[serde(skip_serializing_if = "Option::is_none")]
        user: Option<&'a UserId>,
    },
    /// Such a channel has had no subscriber on a node for a while. Best effort.
    #[serde(rename = "channel.vacated")]
    ChannelVacated {
        /// When it happened, in Unix milliseconds.
        at: Millis,
        /// The channel.
        channel: &'a str,
    },
}

/// Adds the member that events get from the log to each type of event.
fn add_id(schema: &mut Schema) {
    let Some(variants) = schema.get_mut("oneOf").and_then(Value::as_array_mut) else { return };
    for variant in variants {
        variant["properties"]["id"] = json!({
            "type": "string",
            "pattern": "^[0-9]+$",
            "description": "Its position in the log: digits of a number that grows, not always by one.",
        });
        if let Some(required) = variant["required"].as_array_mut() {
            required.push("id".into());
        }
    }
}

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
        | DomainEvent::PostRemoved { author: user, .. }
        | DomainEvent::CommentRemoved { author: user, .. }
        | DomainEvent::UserSuspended { user, .. }
        | DomainEvent::ReportCreated { reporter: user, .. }
        | DomainEvent::Followed { follower: user, .. }
        | DomainEvent::FollowAccepted { follower: user, .. }
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
        | DomainEvent::LikeReverted { .. }
        | DomainEvent::FollowRequested { .. }
        | DomainEvent::FollowRequestEnded { .. }
        | DomainEvent::AppNotified { .. }
        | DomainEvent::Restricted { .. } => None,
    }
}

/// The public form of an event that happened at a time; `None`: it has none.
fn public_form<'a>(event: &'a DomainEvent, at: Millis, groups: &'a Groups) -> Option<OutletEvent<'a>> {
    Some(match event {
        DomainEvent::PostCreated { post, author, mentions, repost, quote } => {
            OutletEvent::PostCreated { at, user: author, post: *post, mentions, repost: *repost, quote: *quote }
        }
        DomainEvent::PostEdited { post, author, mentions, .. } => {
            OutletEvent::PostEdited { at, user: author, post: *post, mentions }
        }
        DomainEvent::PostDeleted { post, author, .. } => OutletEvent::PostDeleted { at, user: author, post: *post },
        DomainEvent::PostRemoved { post, author, .. } => OutletEvent::PostRemoved { at, user: author, post: *post },
        DomainEvent::CommentRemoved { comment, post, author, .. } => {
            OutletEvent::CommentRemoved { at, user: author, post: *post, comment: *comment }
        }
        DomainEvent::UserSuspended { user, level, until } => {
            OutletEvent::UserSuspended { at, user, level: *level, until: *until }
        }
        DomainEvent::ReportCreated { reporter, report, target, reason } => {
            OutletEvent::ReportCreated { at, user: reporter, report: *report, target, reason: *reason }
        }
        DomainEvent::Followed { follower, followee } | DomainEvent::FollowAccepted { follower, followee } => {
            OutletEvent::FollowCreated { at, user: follower, followee }
        }
        DomainEvent::Unfollowed { follower, followee } => OutletEvent::FollowDeleted { at, user: follower, followee },
        DomainEvent::Notified { to, notification } => {
            let group = groups.get(&(to.clone(), *notification))?;
            OutletEvent::Notification { at, user: to, notification: present_state(to, group) }
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
        | DomainEvent::LikeReverted { .. }
        | DomainEvent::FollowRequested { .. }
        | DomainEvent::FollowRequestEnded { .. }
        | DomainEvent::AppNotified { .. }
        | DomainEvent::Restricted { .. } => {
            return None;
        }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::ledger::NotificationGroup;
    use crate::model::{ContentId, NotificationId, NotificationKind, NotificationPosition, Post, PostId, Visibility};

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
            place: 1,
            position: NotificationPosition(1),
            people: vec![bo.clone()],
            comments: HashMap::new(),
            count: 1,
            created_at: 3,
            updated_at: 4,
            read: false,
            seen: false,
            content: None,
        };
        let groups = Groups::from([((ann.clone(), group.id), group)]);
        let repost = Post::repost(PostId(17), &ann, PostId(16), Visibility::Public);
        let created = body(&DomainEvent::post_created(&repost, true).expect("an event"), &groups);
        assert_eq!(created, r#"{"type":"post.created","at":5,"user":"ann","post":17,"mentions":[],"repost":16}"#);
        let followed = body(&DomainEvent::Followed { follower: bo.clone(), followee: ann.clone() }, &groups);
        assert_eq!(followed, r#"{"type":"follow.created","at":5,"user":"bo","followee":"ann"}"#);
        let notified = DomainEvent::Notified { to: ann.clone(), notification: NotificationId(7) };
        let group = r#"{"id":7,"kind":"like","object":{"type":"post","id":17},"by":["bo"],"count":1,"updated_at":4}"#;
        let expected = format!(r#"{{"type":"notification","at":5,"user":"ann","notification":{group}}}"#);
        assert_eq!(body(&notified, &groups), expected);
        let removed = DomainEvent::CommentRemoved {
            comment: CommentId(9),
            post: PostId(17),
            reply_to: None,
            author: ann.clone(),
            mentions: vec![bo.clone()],
        };
        let expected = r#"{"type":"comment.removed","at":5,"user":"ann","post":17,"comment":9}"#;
        assert_eq!(body(&removed, &groups), expected);
        let suspended = DomainEvent::UserSuspended { user: ann.clone(), level: Standing::Suspended, until: Some(9) };
        let expected = r#"{"type":"user.suspended","at":5,"user":"ann","level":"suspended","until":9}"#;
        assert_eq!(body(&suspended, &groups), expected);
        let (report, reason) = (ReportId(3), ReportReason::Spam);
        let target = ReportTarget::User(bo.clone());
        let reported = DomainEvent::ReportCreated { reporter: ann.clone(), report, target, reason };
        let target = r#""target":{"user":"bo"}"#;
        let expected =
            format!(r#"{{"type":"report.created","at":5,"user":"ann","report":3,{target},"reason":"spam"}}"#);
        assert_eq!(body(&reported, &groups), expected);
        let away = body(&DomainEvent::UserAway { user: ann.clone() }, &groups);
        assert_eq!(away, r#"{"type":"user.away","at":5,"user":"ann"}"#);
        let subscribed = DomainEvent::ChannelSubscribed { channel: "chat:1".into(), user: Some(ann.clone()) };
        let subscribed = body(&subscribed, &groups);
        assert_eq!(subscribed, r#"{"type":"channel.subscribed","at":5,"channel":"chat:1","user":"ann"}"#);
        let vacated = body(&DomainEvent::ChannelVacated { channel: "chat:1".into() }, &groups);
        assert_eq!(vacated, r#"{"type":"channel.vacated","at":5,"channel":"chat:1"}"#);
        let removed = DomainEvent::Notified { to: ann, notification: NotificationId(8) };
        assert!(public_form(&removed, 5, &groups).is_none(), "the group is gone");
    }
}
