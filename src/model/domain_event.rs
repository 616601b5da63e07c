//! What happened in the feed that others outside the write are to hear of: notifications now, pushes and webhooks
//! later.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{Comment, CommentId, Object, Post, PostId, UserId};

/// How many of the users whom one text mentions are notified: more names than that are not meant for each of them.
pub const MAX_MENTIONED: usize = 50;

/// How many likes one event holds.
pub const MAX_LIKES: usize = 256;

/// Something that happened. Stores keep it as JSON: variants and members are added, never changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DomainEvent {
    /// A post was written that mentions others.
    PostCreated {
        /// The post.
        post: PostId,
        /// Its author.
        author: UserId,
        /// Other users whom it mentions, at most [`MAX_MENTIONED`].
        mentions: Vec<UserId>,
    },
    /// A post was edited and mentions others whom it did not mention before.
    PostEdited {
        /// The post.
        post: PostId,
        /// Its author.
        author: UserId,
        /// Those others, at most [`MAX_MENTIONED`].
        mentions: Vec<UserId>,
    },
    /// A comment was written.
    CommentCreated {
        /// The comment.
        comment: CommentId,
        /// The post that it is under.
        post: PostId,
        /// The comment that it replies to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<CommentId>,
        /// Its author.
        author: UserId,
        /// Other users whom it mentions, at most [`MAX_MENTIONED`].
        mentions: Vec<UserId>,
    },
    /// Somebody follows somebody new.
    Followed {
        /// Who follows.
        follower: UserId,
        /// Whom.
        followee: UserId,
    },
    /// Likes were settled that are new, at most [`MAX_LIKES`].
    Liked {
        /// Them, by what is liked.
        likes: Vec<NewLikes>,
    },
}

/// New likes of one post or comment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewLikes {
    /// What is liked.
    pub object: Object,
    /// Who likes it from now on, in order.
    pub by: Vec<UserId>,
}

impl DomainEvent {
    /// The event of a new post; `None` if nobody is to hear of it.
    pub fn post_created(post: &Post) -> Option<Self> {
        let mentions = others(&post.mentions, &post.author);
        (!mentions.is_empty()).then(|| Self::PostCreated { post: post.id, author: post.author.clone(), mentions })
    }

    /// The event of an edit; `None` if it mentions nobody new.
    pub fn post_edited(before: &Post, after: &Post) -> Option<Self> {
        let new: Vec<UserId> = after.mentions.iter().filter(|user| !before.mentions.contains(user)).cloned().collect();
        let mentions = others(&new, &after.author);
        (!mentions.is_empty()).then(|| Self::PostEdited { post: after.id, author: after.author.clone(), mentions })
    }

    /// The event of a new comment; `None` of one that is deleted.
    pub fn comment_created(comment: &Comment) -> Option<Self> {
        let author = comment.author.clone()?;
        let mentions = others(&comment.mentions, &author);
        Some(Self::CommentCreated { comment: comment.id, post: comment.post, parent: comment.parent, author, mentions })
    }

    /// The events of settled likes: who likes what from now on. Of one object the first `of_each` count.
    pub fn liked(added: &[(UserId, Object)], of_each: usize) -> Vec<Self> {
        let mut of: HashMap<Object, usize> = HashMap::new();
        let mut all: Vec<NewLikes> = Vec::new();
        for (user, object) in added {
            let place = *of.entry(*object).or_insert_with(|| {
                all.push(NewLikes { object: *object, by: Vec::new() });
                all.len() - 1
            });
            if all[place].by.len() < of_each {
                all[place].by.push(user.clone());
            }
        }
        let (mut events, mut likes, mut many) = (Vec::new(), Vec::new(), 0);
        for NewLikes { object, by } in all {
            let mut rest = &by[..];
            while !rest.is_empty() {
                let (taken, left) = rest.split_at(rest.len().min(MAX_LIKES - many));
                (rest, many) = (left, many + taken.len());
                likes.push(NewLikes { object, by: taken.to_vec() });
                if many == MAX_LIKES {
                    events.push(Self::Liked { likes: std::mem::take(&mut likes) });
                    many = 0;
                }
            }
        }
        if !likes.is_empty() {
            events.push(Self::Liked { likes });
        }
        events
    }

    /// How many notifications may come of it.
    pub fn recipients(&self) -> usize {
        match self {
            Self::PostCreated { mentions, .. } | Self::PostEdited { mentions, .. } => mentions.len(),
            Self::CommentCreated { mentions, .. } => mentions.len() + 2,
            Self::Followed { .. } => 1,
            Self::Liked { likes } => likes.iter().map(|likes| likes.by.len()).sum(),
        }
    }
}

/// Those of the mentioned users who count: without the author, at most [`MAX_MENTIONED`].
pub fn others(mentions: &[UserId], author: &UserId) -> Vec<UserId> {
    mentions.iter().filter(|user| *user != author).take(MAX_MENTIONED).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_events_are_bounded_for_each_object() {
        let like = |n: usize, post| (UserId::parse(&format!("u{n}")).expect("an id"), Object::Post(PostId(post)));
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
        assert_eq!(objects(&events[0]), [(Object::Post(PostId(1)), 256)]);
        assert_eq!(objects(&events[1])[..2], [(Object::Post(PostId(1)), 44), (Object::Post(PostId(2)), 1)]);
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
