//! The rules of who may comment on a post, of those who can see it.

use serde_json::{Value, json};

use crate::check::{Verdict, same};
use crate::model::{Edge, Model, Post, User};

/// The users who may comment on a post, besides its author.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommentPolicy {
    Everyone,
    /// The followers of the author.
    Followers,
    /// The users whom the text of the post mentions.
    Mentioned,
    Nobody,
}

impl CommentPolicy {
    pub(crate) const ALL: [Self; 4] = [Self::Everyone, Self::Followers, Self::Mentioned, Self::Nobody];

    /// The policy as the API has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Everyone => "everyone",
            Self::Followers => "followers",
            Self::Mentioned => "mentioned",
            Self::Nobody => "nobody",
        }
    }
}

impl Model {
    /// Whether a user who can see a post may comment on it. Nobody comments on reposts and on removed posts.
    pub(crate) fn may_comment(&self, user: User, post: &Post) -> bool {
        let takes_comments = post.repost.is_none() && !post.is_removed;
        let is_admitted = match post.comment_policy {
            CommentPolicy::Everyone => true,
            CommentPolicy::Followers => self.has(Edge::Follow, user, post.author),
            CommentPolicy::Mentioned => mentions(&post.text, user),
            CommentPolicy::Nobody => false,
        };
        takes_comments && (user == post.author || is_admitted)
    }
}

/// Whether a text mentions a user. Mentions are words of their own in the texts of a round.
fn mentions(text: &str, user: User) -> bool {
    text.split_whitespace().any(|word| word.strip_prefix('@') == Some(user))
}

/// Compares the policy of a post, and whether the reader may comment on it. Caches decide the latter: a new follower
/// may be told the contrary for a moment, while a comment is accepted.
pub(crate) fn policy(model: &Model, reader: User, item: &Value, post: &Post) -> Verdict {
    // The default is absent.
    let expected = match post.comment_policy {
        CommentPolicy::Everyone => Value::Null,
        limited => json!(limited.name()),
    };
    same(&format!("who may comment on {}", item["id"]), &item["comment_policy"], &expected)?;
    let may_comment = model.may_comment(reader, post);
    if may_comment && reader != post.author && post.comment_policy == CommentPolicy::Followers {
        return same(&format!("the right to comment on {}", item["id"]), &item["can_comment"].is_boolean(), &true);
    }
    same(&format!("whether {reader} may comment on {}", item["id"]), &item["can_comment"], &json!(may_comment))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Visibility;

    #[test]
    fn policies_admit_the_author_and_some_others() {
        let mut model = Model::default();
        model.set(Edge::Follow, "bo", "ann", true);
        let text = "for @cy and @deen".to_owned();
        let post = Post::new("ann", text, Visibility::Public);
        for (comment_policy, admitted) in [
            (CommentPolicy::Everyone, &["ann", "bo", "cy", "dee"][..]),
            (CommentPolicy::Followers, &["ann", "bo"]),
            (CommentPolicy::Mentioned, &["ann", "cy"]),
            (CommentPolicy::Nobody, &["ann"]),
        ] {
            let limited = Post { comment_policy, ..post.clone() };
            let may: Vec<User> =
                ["ann", "bo", "cy", "dee"].into_iter().filter(|user| model.may_comment(user, &limited)).collect();
            assert_eq!(may, admitted, "{comment_policy:?}");
            let removed = Post { is_removed: true, ..limited };
            assert!(!model.may_comment("ann", &removed), "{comment_policy:?}");
        }
    }
}
