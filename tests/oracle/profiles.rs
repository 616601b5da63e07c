//! The rules of what users decide in their profiles: who may quote them, and which posts are shown first.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::check::{Verdict, same};
use crate::model::{Edge, Model, User};

/// The maximal number of posts that a profile shows first.
pub(crate) const MAX_PINNED: usize = 5;

/// The users who may quote the posts of a user, besides the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quotable {
    Everyone,
    /// The followers of the user.
    Followers,
    Nobody,
}

impl Quotable {
    /// The setting as the API has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Everyone => "everyone",
            Self::Followers => "followers",
            Self::Nobody => "nobody",
        }
    }
}

/// The decisions of all users.
#[derive(Default)]
pub(crate) struct Profiles {
    quotable: BTreeMap<User, Quotable>,
    /// The posts that are shown first. Posts that were deleted since stay here.
    pinned: BTreeMap<User, Vec<u64>>,
}

impl Profiles {
    /// Who may quote a user: everyone, unless the user decided otherwise.
    pub(crate) fn quotable(&self, user: User) -> Quotable {
        self.quotable.get(user).copied().unwrap_or(Quotable::Everyone)
    }

    pub(crate) fn set_quotable(&mut self, user: User, quotable: Quotable) {
        self.quotable.insert(user, quotable);
    }

    /// Replaces the posts that the profile of a user shows first.
    pub(crate) fn pin(&mut self, user: User, posts: &[u64]) {
        self.pinned.insert(user, posts.to_vec());
    }
}

impl Model {
    /// Whether an author lets a user quote posts that this user can see.
    pub(crate) fn may_quote(&self, user: User, author: User) -> bool {
        let is_admitted = match self.profiles.quotable(author) {
            Quotable::Everyone => true,
            Quotable::Followers => self.has(Edge::Follow, user, author),
            Quotable::Nobody => false,
        };
        user == author || is_admitted
    }

    /// Whether these are existing posts of a user, each once.
    pub(crate) fn may_pin(&self, user: User, posts: &[u64]) -> bool {
        let is_own = |id: &u64| self.posts.get(id).is_some_and(|post| post.author == user);
        let is_repeated = (1..posts.len()).any(|at| posts[..at].contains(&posts[at]));
        posts.iter().all(is_own) && !is_repeated
    }

    /// The posts that the profile of a user shows a reader first, in their order.
    fn pinned(&self, reader: User, user: User) -> Vec<u64> {
        let all = self.profiles.pinned.get(user).into_iter().flatten();
        all.copied().filter(|id| self.finds(reader, *id)).collect()
    }
}

/// Compares what a user decided with the profile as a reader sees it.
pub(crate) fn decided(model: &Model, reader: User, user: User, profile: &Value) -> Verdict {
    let quotable = json!(model.profiles.quotable(user).name());
    same(&format!("who may quote {user}"), &profile["quotable"], &quotable)?;
    // Absent if there are none.
    let pinned = Some(model.pinned(reader, user)).filter(|pinned| !pinned.is_empty());
    same(&format!("the first posts of {user} for {reader}"), &profile["pinned"], &json!(pinned))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Post, Visibility};

    #[test]
    fn users_decide_who_quotes_them() {
        let mut model = Model::default();
        model.set(Edge::Follow, "bo", "ann", true);
        let admitted = |model: &Model| ["ann", "bo", "cy"].map(|user| model.may_quote(user, "ann"));
        assert_eq!(admitted(&model), [true, true, true]);
        model.profiles.set_quotable("ann", Quotable::Followers);
        assert_eq!(admitted(&model), [true, true, false]);
        model.profiles.set_quotable("ann", Quotable::Nobody);
        assert_eq!(admitted(&model), [true, false, false]);
    }

    #[test]
    fn profiles_show_the_chosen_posts_that_the_reader_may_see() {
        let mut model = Model::default();
        for (id, visibility) in [(1, Visibility::Public), (2, Visibility::Followers), (3, Visibility::Public)] {
            model.publish(id, Post::new("ann", String::new(), visibility));
        }
        model.publish(4, Post::new("bo", String::new(), Visibility::Public));
        for (posts, may) in [(&[2, 1][..], true), (&[], true), (&[1, 1], false), (&[4], false), (&[5], false)] {
            assert_eq!(model.may_pin("ann", posts), may, "{posts:?}");
        }
        model.profiles.pin("ann", &[3, 2, 1]);
        model.delete(3);
        assert_eq!((model.pinned("ann", "ann"), model.pinned("bo", "ann")), (vec![2, 1], vec![1]));
    }
}
