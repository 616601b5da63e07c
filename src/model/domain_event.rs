//! Domain events: changes in the feed that other parts react to: notifications, and the consumers of the outlet.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{
    AppNotification, CommentId, ContentId, Millis, NotificationId, PostId, ReportId, ReportReason, ReportTarget,
    RevertReason, Standing, UserId,
};

/// The maximal number of users that one text notifies by mentioning them. Texts with more mentions are not addressed to
/// each of these users.
pub const MAX_MENTIONED: usize = 50;

/// The maximal number of likes in one event.
pub const MAX_LIKES: usize = 256;

/// A domain event. Stores keep it as JSON: variants and members may be added, but never changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DomainEvent {
    /// A post was written. Without the outlet, only posts that mention other users, and reposts and quotes, have this
    /// event.
    PostCreated {
        /// The post.
        post: PostId,
        /// Its author.
        author: UserId,
        /// The other users that it mentions, at most [`MAX_MENTIONED`].
        mentions: Vec<UserId>,
        /// The post that it reposts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        repost: Option<PostId>,
        /// The post that it quotes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        quote: Option<PostId>,
    },
    /// A post was edited. Without the outlet, only edits that add mentions of other users have this event.
    PostEdited {
        /// The post.
        post: PostId,
        /// Its author.
        author: UserId,
        /// The newly mentioned users, at most [`MAX_MENTIONED`].
        mentions: Vec<UserId>,
        /// The users that the edit does not mention any more.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unmentioned: Vec<UserId>,
        /// If the visibility changed, so that some may see the post who could not, or no longer may: the users that it
        /// mentioned before and still does, at most [`MAX_MENTIONED`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        still_mentioned: Option<Vec<UserId>>,
    },
    /// A comment was written.
    CommentCreated {
        /// The comment.
        comment: CommentId,
        /// The post of the comment.
        post: PostId,
        /// The comment that it replies to; `None`: it replies to the post.
        reply_to: Option<CommentId>,
        /// Its author.
        author: UserId,
        /// The other users that it mentions, at most [`MAX_MENTIONED`].
        mentions: Vec<UserId>,
    },
    /// An edit added mentions of other users to a comment, or took some out.
    CommentEdited {
        /// The comment.
        comment: CommentId,
        /// Its author.
        author: UserId,
        /// The newly mentioned users, at most [`MAX_MENTIONED`].
        mentions: Vec<UserId>,
        /// The users that the edit does not mention any more.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unmentioned: Vec<UserId>,
    },
    /// A comment was deleted.
    CommentDeleted {
        /// The comment.
        comment: CommentId,
        /// The post of the comment.
        post: PostId,
        /// The comment that it replied to.
        reply_to: Option<CommentId>,
        /// Its author.
        author: UserId,
        /// The other users that it mentioned, at most [`MAX_MENTIONED`].
        mentions: Vec<UserId>,
    },
    /// A user followed another user.
    Followed {
        /// The follower.
        follower: UserId,
        /// The followee.
        followee: UserId,
    },
    /// A user requested to follow a locked account.
    FollowRequested {
        /// The user who sent the request.
        follower: UserId,
        /// The user who received it.
        followee: UserId,
    },
    /// A request to follow was withdrawn, rejected, or made superfluous.
    FollowRequestEnded {
        /// The user who sent it.
        follower: UserId,
        /// The user who received it.
        followee: UserId,
    },
    /// A request to follow was accepted: the user follows the other one.
    FollowAccepted {
        /// The follower.
        follower: UserId,
        /// The followee, who accepted.
        followee: UserId,
    },
    /// New likes were settled, at most [`MAX_LIKES`].
    Liked {
        /// The new likes, grouped by object.
        likes: Vec<NewLikes>,
    },
    /// Likes were taken back, at most [`MAX_LIKES`].
    Unliked {
        /// The likes, grouped by object.
        likes: Vec<NewLikes>,
    },
    /// A like that was acknowledged could not be settled.
    LikeReverted {
        /// The user who liked.
        user: UserId,
        /// The liked object.
        object: ContentId,
        /// Why it is undone.
        reason: RevertReason,
    },
    /// A user hides from, mutes or blocks another one.
    Restricted {
        /// The user.
        maker: UserId,
        /// The other one.
        target: UserId,
    },
    /// A post was deleted.
    PostDeleted {
        /// The post.
        post: PostId,
        /// Its author.
        author: UserId,
        /// The other users that it mentioned, at most [`MAX_MENTIONED`].
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        mentions: Vec<UserId>,
        /// The post that it reposted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        repost: Option<PostId>,
        /// The post that it quoted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        quote: Option<PostId>,
    },
    /// A post was removed by the application's backend.
    PostRemoved {
        /// The post.
        post: PostId,
        /// Its author.
        author: UserId,
        /// The other users that it mentions, at most [`MAX_MENTIONED`].
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        mentions: Vec<UserId>,
    },
    /// A comment was removed by the application's backend.
    CommentRemoved {
        /// The comment.
        comment: CommentId,
        /// The post of the comment.
        post: PostId,
        /// The comment that it replies to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply_to: Option<CommentId>,
        /// Its author.
        author: UserId,
        /// The other users that it mentions, at most [`MAX_MENTIONED`].
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        mentions: Vec<UserId>,
    },
    /// The standing of a user became limited or suspended.
    UserSuspended {
        /// The user.
        user: UserId,
        /// The new standing.
        level: Standing,
        /// When it ends, in Unix milliseconds; `None`: never.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Millis>,
    },
    /// A user reported something.
    ReportCreated {
        /// The user who reported.
        reporter: UserId,
        /// The report.
        report: ReportId,
        /// The reported object.
        target: ReportTarget,
        /// Why.
        reason: ReportReason,
    },
    /// A user no longer follows another user.
    Unfollowed {
        /// The former follower.
        follower: UserId,
        /// The former followee.
        followee: UserId,
    },
    /// The application's backend notifies users.
    AppNotified {
        /// The recipients.
        to: Vec<UserId>,
        /// What they are notified of.
        notification: Box<AppNotification>,
    },
    /// A group of notifications was begun or has grown. For the outlet only, like all that follow.
    Notified {
        /// The user that is notified.
        to: UserId,
        /// The group.
        notification: NotificationId,
    },
    /// A user has a connection.
    UserConnected {
        /// The user.
        user: UserId,
    },
    /// A user has had no connection for a while.
    UserAway {
        /// The user.
        user: UserId,
    },
    /// A client has subscribed to a channel of the application.
    ChannelSubscribed {
        /// The channel.
        channel: String,
        /// The client's user; `None` of an anonymous client.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<UserId>,
    },
    /// A channel of the application has had no subscriber for a while.
    ChannelVacated {
        /// The channel.
        channel: String,
    },
}

/// New likes of one post or comment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewLikes {
    /// The liked object.
    pub object: ContentId,
    /// The users that like it now, in order.
    pub by: Vec<UserId>,
}

impl DomainEvent {
    /// All users that it names.
    pub fn users_mut(&mut self) -> Vec<&mut UserId> {
        match self {
            Self::PostCreated { author, mentions, .. }
            | Self::PostDeleted { author, mentions, .. }
            | Self::PostRemoved { author, mentions, .. }
            | Self::CommentRemoved { author, mentions, .. }
            | Self::CommentCreated { author, mentions, .. }
            | Self::CommentDeleted { author, mentions, .. } => std::iter::once(author).chain(mentions).collect(),
            Self::PostEdited { author, mentions, unmentioned, still_mentioned, .. } => {
                let others = mentions.iter_mut().chain(unmentioned).chain(still_mentioned.iter_mut().flatten());
                std::iter::once(author).chain(others).collect()
            }
            Self::CommentEdited { author, mentions, unmentioned, .. } => {
                std::iter::once(author).chain(mentions).chain(unmentioned).collect()
            }
            Self::Followed { follower, followee }
            | Self::Unfollowed { follower, followee }
            | Self::FollowRequested { follower, followee }
            | Self::FollowRequestEnded { follower, followee }
            | Self::FollowAccepted { follower, followee } => vec![follower, followee],
            Self::Restricted { maker, target } => vec![maker, target],
            Self::Liked { likes } | Self::Unliked { likes } => {
                likes.iter_mut().flat_map(|likes| &mut likes.by).collect()
            }
            Self::ReportCreated { reporter, target: ReportTarget::User(user), .. } => vec![reporter, user],
            Self::Notified { to: user, .. }
            | Self::UserSuspended { user, .. }
            | Self::ReportCreated { reporter: user, .. }
            | Self::LikeReverted { user, .. }
            | Self::UserConnected { user }
            | Self::UserAway { user } => vec![user],
            Self::ChannelSubscribed { user, .. } => user.iter_mut().collect(),
            Self::AppNotified { to, notification } => to.iter_mut().chain(&mut notification.from).collect(),
            Self::ChannelVacated { .. } => Vec::new(),
        }
    }

    /// The events of likes that were taken back, in order.
    pub fn unliked(removed: &[(UserId, ContentId)]) -> Vec<Self> {
        grouped(removed, usize::MAX).into_iter().map(|likes| Self::Unliked { likes }).collect()
    }

    /// The events of settled likes, in order. Only the first `of_each` likes of each object are included.
    pub fn liked(added: &[(UserId, ContentId)], of_each: usize) -> Vec<Self> {
        grouped(added, of_each).into_iter().map(|likes| Self::Liked { likes }).collect()
    }

    /// The parts of the JSON of a [`Liked`](Self::Liked) event, for databases that assemble it from rows: the prefixes
    /// of posts and of comments; the beginning; the texts after an object, after a user and after the users of an
    /// object; the end. They are cut out of an encoded event, so the format of events is defined in one place.
    pub fn liked_json_parts() -> Option<[String; 7]> {
        // Stands for each user and each number.
        const CUT: &str = "123456789";
        let user = UserId::parse(CUT)?;
        let number = CUT.parse().ok()?;
        let [post, comment] = [ContentId::Post(PostId(number)), ContentId::Comment(CommentId(number))];
        let likes = vec![
            NewLikes { object: post, by: vec![user.clone(), user.clone()] },
            NewLikes { object: comment, by: vec![user] },
        ];
        let text = serde_json::to_string(&Self::Liked { likes }).ok()?;
        let [post, comment] = [post, comment].map(|object| object.to_text().replace(CUT, ""));
        let [begin, by, next_user, next_object, _, end] = text.split(CUT).collect::<Vec<_>>()[..] else { return None };
        let begin = begin.strip_suffix(&*post)?;
        let next_object = next_object.strip_suffix(&*comment)?;
        let parts = [begin, by, next_user, next_object, end].map(str::to_owned);
        let [begin, by, next_user, next_object, end] = parts;
        Some([post, comment, begin, by, next_user, next_object, end])
    }

    /// The maximal number of notifications that the event causes or changes, unless it concerns all that was written
    /// under a post.
    pub fn recipients(&self) -> usize {
        match self {
            Self::PostEdited { mentions, unmentioned, still_mentioned, .. } => {
                mentions.len() + unmentioned.len() + still_mentioned.as_ref().map_or(0, Vec::len)
            }
            Self::CommentEdited { mentions, unmentioned, .. } => mentions.len() + unmentioned.len(),
            Self::PostCreated { mentions, .. } | Self::PostDeleted { mentions, .. } => mentions.len() + 1,
            Self::PostRemoved { mentions, .. } => mentions.len(),
            Self::CommentCreated { mentions, .. }
            | Self::CommentDeleted { mentions, .. }
            | Self::CommentRemoved { mentions, .. } => mentions.len() + 2,
            Self::Followed { .. }
            | Self::Unfollowed { .. }
            | Self::FollowRequested { .. }
            | Self::FollowRequestEnded { .. }
            | Self::LikeReverted { .. } => 1,
            Self::Restricted { .. } | Self::FollowAccepted { .. } => 2,
            Self::Liked { likes } | Self::Unliked { likes } => likes.iter().map(|likes| likes.by.len()).sum(),
            Self::AppNotified { to, .. } => to.len(),
            Self::Notified { .. }
            | Self::UserSuspended { .. }
            | Self::ReportCreated { .. }
            | Self::UserConnected { .. }
            | Self::UserAway { .. }
            | Self::ChannelSubscribed { .. }
            | Self::ChannelVacated { .. } => 0,
        }
    }
}

/// Likes by object, in groups of at most [`MAX_LIKES`], in order. Only the first `of_each` likes of each object.
fn grouped(pairs: &[(UserId, ContentId)], of_each: usize) -> Vec<Vec<NewLikes>> {
    let mut of: HashMap<ContentId, usize> = HashMap::new();
    let mut all: Vec<NewLikes> = Vec::new();
    for (user, object) in pairs {
        let place = *of.entry(*object).or_insert_with(|| {
            all.push(NewLikes { object: *object, by: Vec::new() });
            all.len() - 1
        });
        if all[place].by.len() < of_each {
            all[place].by.push(user.clone());
        }
    }
    let mut groups = Vec::new();
    let mut likes = Vec::new();
    let mut many = 0;
    for NewLikes { object, by } in all {
        let mut rest = &by[..];
        while !rest.is_empty() {
            let (taken, left) = rest.split_at(rest.len().min(MAX_LIKES - many));
            (rest, many) = (left, many + taken.len());
            likes.push(NewLikes { object, by: taken.to_vec() });
            if many == MAX_LIKES {
                groups.push(std::mem::take(&mut likes));
                many = 0;
            }
        }
    }
    if !likes.is_empty() {
        groups.push(likes);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_events_are_made_of_their_json_parts() {
        let parts = DomainEvent::liked_json_parts().expect("parts");
        let [post, comment, begin, by, next_user, next_object, end] = &parts;
        let text = format!("{begin}{post}7{by}ann{next_user}bo{next_object}{comment}8{by}cy{end}");
        let id = |text: &str| UserId::parse(text).expect("an id");
        let likes = [
            (id("ann"), ContentId::Post(PostId(7))),
            (id("bo"), ContentId::Post(PostId(7))),
            (id("cy"), ContentId::Comment(CommentId(8))),
        ];
        let [event] = &DomainEvent::liked(&likes, 9)[..] else { panic!("one event") };
        assert_eq!(text, serde_json::to_string(event).expect("JSON"));
    }

    #[test]
    fn like_events_are_bounded_for_each_object() {
        let like = |n: usize, post| (UserId::parse(&format!("u{n}")).expect("an id"), ContentId::Post(PostId(post)));
        let hot = (0..700).map(|n| like(n, 1));
        let others = (0..100).map(|n| like(n, 2 + n as u64));
        let events = DomainEvent::liked(&hot.chain(others).collect::<Vec<_>>(), 300);
        assert_eq!(events.iter().map(DomainEvent::recipients).collect::<Vec<_>>(), [256, 144]);
        let objects = |event: &DomainEvent| match event {
            DomainEvent::Liked { likes } => {
                likes.iter().map(|likes| (likes.object, likes.by.len())).collect::<Vec<_>>()
            }
            _ => Vec::new(),
        };
        assert_eq!(objects(&events[0]), [(ContentId::Post(PostId(1)), 256)]);
        assert_eq!(objects(&events[1])[..2], [(ContentId::Post(PostId(1)), 44), (ContentId::Post(PostId(2)), 1)]);
        assert_eq!(objects(&events[1]).len(), 101);
        assert_eq!(DomainEvent::liked(&[like(1, 1)], 0), []);
        let text = serde_json::to_string(&DomainEvent::liked(&[like(1, 7)], 9)).expect("JSON");
        assert_eq!(text, r#"[{"liked":{"likes":[{"object":"p7","by":["u1"]}]}}]"#);
        assert_eq!(
            serde_json::from_str::<Vec<DomainEvent>>(&text).expect("events"),
            DomainEvent::liked(&[like(1, 7)], 9)
        );
    }
}
