//! The rules of likes and favourites, and the comparison of a user's favourites.

use std::cmp::Reverse;

use serde_json::{Value, json};

use crate::check::{Verdict, as_listed, get, names, pages, same};
use crate::model::{Model, User};
use crate::server::Server;

/// A user's mark on a post or, for the last variant, on a comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mark {
    Like,
    Favourite,
    CommentLike,
}

impl Model {
    pub(crate) fn marked(&self, mark: Mark, user: User, id: u64) -> bool {
        self.marks.contains_key(&(mark, user, id))
    }

    /// The objects that a user marked.
    pub(crate) fn marked_by(&self, mark: Mark, user: User) -> Vec<u64> {
        let theirs = self.marks.keys().filter(|(kind, by, _)| (*kind, *by) == (mark, user));
        theirs.map(|(.., id)| *id).collect()
    }

    /// The marks on a post or a comment that others see, each with the number of the change that made it.
    fn public_marks(&self, mark: Mark, id: u64) -> impl Iterator<Item = (User, usize)> + '_ {
        let found = self.marks.iter().filter(move |((kind, _, of), _)| (*kind, *of) == (mark, id));
        let found = found.map(|((_, user, _), since)| (*user, *since));
        found.filter(move |(user, _)| mark != Mark::Favourite || !self.private_favourites.contains(&(*user, id)))
    }

    /// The total number of marks on a post or a comment, regardless of the reader. Private favourites do not count.
    pub(crate) fn how_many(&self, mark: Mark, id: u64) -> usize {
        self.public_marks(mark, id).count()
    }

    /// The users who like a post or have it as a favourite, limited to those the reader can see, latest first. Users
    /// with private favourites are not among them, not even for themselves.
    pub(crate) fn markers_of(&self, reader: User, mark: Mark, id: u64) -> Vec<User> {
        let mut found: Vec<(User, usize)> = self.public_marks(mark, id).collect();
        found.sort_unstable_by_key(|(_, since)| Reverse(*since));
        found.into_iter().map(|(user, _)| user).filter(|user| self.meets(reader, user)).collect()
    }

    /// A user's visible favourites, latest first.
    pub(crate) fn favourites(&self, user: User) -> Vec<u64> {
        let mut found: Vec<_> =
            self.marks.iter().filter(|((kind, by, _), _)| (*kind, *by) == (Mark::Favourite, user)).collect();
        found.sort_unstable_by_key(|(_, since)| Reverse(**since));
        found.into_iter().map(|((.., id), _)| *id).filter(|id| self.finds(user, *id)).collect()
    }

    /// Sets or removes a mark. An existing mark keeps its time.
    pub(crate) fn mark(&mut self, mark: Mark, user: User, id: u64, on: bool) {
        self.changes += 1;
        if on {
            self.marks.entry((mark, user, id)).or_insert(self.changes);
        } else {
            self.marks.remove(&(mark, user, id));
        }
    }

    /// Makes a favourite private, or public.
    pub(crate) fn set_private(&mut self, user: User, id: u64, is_private: bool) {
        if is_private {
            self.private_favourites.insert((user, id));
        } else {
            self.private_favourites.remove(&(user, id));
        }
    }

    /// Removes the marks of deleted objects.
    pub(crate) fn forget_marks(&mut self) {
        let (posts, comments) = (&self.posts, &self.comments);
        self.marks.retain(|(_, _, id), _| posts.contains_key(id) || comments.contains_key(id));
        self.private_favourites.retain(|(_, id)| posts.contains_key(id));
        self.emptied.retain(|id| comments.contains_key(id));
        self.removed_comments.retain(|id| comments.contains_key(id));
    }
}

/// Compares the favourites of a user, as this user sees them.
pub(crate) async fn favourites(node: &Server, model: &Model, user: User, limit: usize) -> Verdict {
    let expected = model.favourites(user);
    let items = pages(node, user, "/favourites/post", limit).await?;
    let named: Vec<String> = expected.iter().map(u64::to_string).collect();
    same(&format!("the favourites of {user}"), &names(&items), &named.iter().map(String::as_str).collect())?;
    for (item, id) in items.iter().zip(&expected) {
        as_listed(model, user, &item["post"], None)?;
        // Absent if it is public.
        let is_private = model.private_favourites.contains(&(user, *id));
        let expected = if is_private { json!(true) } else { Value::Null };
        same(&format!("whether {user} keeps the favourite {id} private"), &item["private"], &expected)?;
    }
    let (_, count) = get(node, user, "/favourites/post/count").await;
    same(&format!("the number of favourites of {user}"), &count["count"], &json!(expected.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Post, Visibility};

    #[test]
    fn private_favourites_are_for_their_user_alone() {
        let mut model = Model::default();
        for id in [1, 2] {
            model.publish(id, Post::new("ann", String::new(), Visibility::Public));
            model.mark(Mark::Favourite, "bo", id, true);
        }
        model.mark(Mark::Like, "bo", 1, true);
        model.set_private("bo", 1, true);
        assert_eq!((model.counts(1), model.counts(2)), ([1, 0, 0], [0, 0, 1]));
        assert_eq!((model.markers_of("bo", Mark::Favourite, 1), model.favourites("bo")), (vec![], vec![2, 1]));
        assert!(model.marked(Mark::Favourite, "bo", 1));
        model.set_private("bo", 1, false);
        assert_eq!(model.markers_of("cy", Mark::Favourite, 1), ["bo"]);
        model.set_private("bo", 2, true);
        model.delete(2);
        assert!(model.private_favourites.is_empty());
    }
}
