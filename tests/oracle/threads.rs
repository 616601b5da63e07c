//! The rules of comments: which comments a thread shows, and what remains of a deleted one.

use crate::filters::{FilterContext, Outcome};
use crate::model::{Model, USERS, User};

/// The reason that the backend gives for the removal of a post or comment, for its author.
pub(crate) const REMOVAL_REASON: &str = "off topic";

/// A comment under a post.
#[derive(Clone, Debug)]
pub(crate) struct Comment {
    pub(crate) author: User,
    pub(crate) post: u64,
    /// The parent comment.
    pub(crate) reply_to: Option<u64>,
    pub(crate) text: String,
}

impl Model {
    /// Whether a reader can reply to a comment and like it.
    pub(crate) fn finds_comment(&self, reader: User, id: u64) -> bool {
        !self.emptied.contains(&id) && self.finds_thread(reader, id)
    }

    /// Whether a reader can open the replies to a comment, which may be deleted. Replies below a comment whose author
    /// the reader cannot see are hidden.
    pub(crate) fn finds_thread(&self, reader: User, id: u64) -> bool {
        self.comments.get(&id).is_some_and(|comment| {
            self.finds(reader, comment.post)
                && (self.emptied.contains(&id) || self.meets(reader, comment.author))
                && comment.reply_to.is_none_or(|above| self.finds_thread(reader, above))
        })
    }

    /// Returns a user who can see the comment, and whose lists show it.
    pub(crate) fn onlooker(&self, id: u64) -> Option<User> {
        USERS.into_iter().find(|user| self.finds_comment(user, id) && self.lists_comment(user, id))
    }

    /// The comments of a thread that a reader can see, newest first.
    pub(crate) fn thread(&self, reader: User, post: u64, under: Option<u64>) -> Vec<u64> {
        let all = self.comments.iter().rev().filter(|(_, comment)| (comment.post, comment.reply_to) == (post, under));
        let shown = all.filter(|(id, comment)| self.emptied.contains(id) || self.meets(reader, comment.author));
        shown.map(|(id, _)| *id).filter(|id| self.lists_comment(reader, *id)).collect()
    }

    /// Whether lists of comments show a comment that a reader may see.
    fn lists_comment(&self, reader: User, id: u64) -> bool {
        self.outcome_of_comment(reader, id, FilterContext::Comments) != Outcome::Hidden
    }

    /// The number of replies to a comment, including deleted ones that remain.
    pub(crate) fn replies(&self, id: u64) -> usize {
        self.comments.values().filter(|comment| comment.reply_to == Some(id)).count()
    }

    pub(crate) fn comment(&mut self, id: u64, comment: Comment) {
        self.comments.insert(id, comment);
    }

    /// Whether the backend removed a comment, and a reader is its author, who still sees it.
    pub(crate) fn is_removed_own(&self, reader: User, id: u64) -> bool {
        self.removed_comments.contains(&id) && self.comments[&id].author == reader
    }

    /// Removes a comment for the backend, or restores it. A removed comment is shown as a deleted one.
    pub(crate) fn remove_comment(&mut self, id: u64, on: bool) {
        if on && self.emptied.insert(id) {
            self.removed_comments.insert(id);
        } else if !on && self.removed_comments.remove(&id) {
            self.emptied.remove(&id);
        }
    }

    /// Deletes a comment. A comment with replies remains without its text, until the last reply is deleted. A removed
    /// comment remains without replies, too: it may be restored.
    pub(crate) fn uncomment(&mut self, id: u64) {
        self.emptied.insert(id);
        let ends = |model: &Self, id: u64| {
            model.emptied.contains(&id) && !model.removed_comments.contains(&id) && model.replies(id) == 0
        };
        let mut next = Some(id);
        while let Some(id) = next.filter(|id| ends(self, *id)) {
            next = self.comments.remove(&id).and_then(|comment| comment.reply_to);
        }
        self.forget_marks();
    }
}

/// The path of the comments on a post, or of the replies to one of them.
pub(crate) fn thread(post: u64, parent: Option<u64>) -> String {
    let under = parent.map(|id| format!("?reply_to={id}")).unwrap_or_default();
    format!("/posts/{post}/comments{under}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Edge, Mark, Post, Visibility};

    fn with_post() -> Model {
        let mut model = Model::default();
        let (text, visibility) = (String::new(), Visibility::Public);
        let post = Post::new("ann", text, visibility);
        model.publish(1, post);
        model
    }

    fn say(model: &mut Model, id: u64, author: User, reply_to: Option<u64>) {
        model.comment(id, Comment { author, post: 1, reply_to, text: String::new() });
    }

    #[test]
    fn content_of_a_post_is_deleted_and_counted_with_it() {
        let mut model = with_post();
        say(&mut model, 2, "bo", None);
        for user in ["bo", "cy", "bo"] {
            model.mark(Mark::Like, user, 1, true);
        }
        model.mark(Mark::Favourite, "cy", 1, true);
        model.mark(Mark::CommentLike, "dee", 2, true);
        model.set(Edge::Hide, "bo", "cy", true);
        assert_eq!(model.counts(1), [2, 1, 1]);
        assert_eq!((model.thread("cy", 1, None), model.thread("dee", 1, None)), (vec![], vec![2]));
        assert_eq!(model.markers_of("cy", Mark::Like, 1), ["cy"]);
        assert_eq!(model.markers_of("ann", Mark::Like, 1), ["cy", "bo"]);
        model.set(Edge::Block, "ann", "cy", true);
        assert_eq!((model.favourites("cy"), model.counts(1)), (vec![], [2, 1, 1]));
        model.delete(1);
        assert_eq!((model.counts(1), model.comments.len(), model.how_many(Mark::CommentLike, 2)), ([0, 0, 0], 0, 0));
    }

    #[test]
    fn deleted_comments_stay_until_their_last_reply_is_deleted() {
        let mut model = with_post();
        say(&mut model, 2, "bo", None);
        say(&mut model, 3, "cy", Some(2));
        say(&mut model, 4, "dee", Some(3));
        model.mark(Mark::CommentLike, "dee", 2, true);
        model.set(Edge::Hide, "bo", "eve", true);
        for id in [2, 3, 4] {
            assert!(!model.finds_thread("eve", id) && model.finds_comment("ann", id), "{id}");
        }
        model.uncomment(2);
        model.uncomment(3);
        assert_eq!((model.counts(1), model.replies(2), model.how_many(Mark::CommentLike, 2)), ([0, 1, 0], 1, 1));
        assert_eq!((model.thread("eve", 1, None), model.thread("eve", 1, Some(2))), (vec![2], vec![3]));
        assert!(model.finds_thread("eve", 2) && !model.finds_comment("ann", 2));
        assert!(model.finds_comment("eve", 4), "what was deleted keeps nobody away");
        model.uncomment(4);
        assert_eq!((model.comments.len(), model.emptied.len(), model.how_many(Mark::CommentLike, 2)), (0, 0, 0));
    }

    #[test]
    fn removed_comments_stay_without_replies_and_come_back() {
        let mut model = with_post();
        say(&mut model, 2, "bo", None);
        say(&mut model, 3, "cy", Some(2));
        model.mark(Mark::CommentLike, "dee", 2, true);
        model.set(Edge::Hide, "bo", "eve", true);
        model.remove_comment(2, true);
        model.remove_comment(2, true);
        assert_eq!((model.counts(1), model.how_many(Mark::CommentLike, 2)), ([0, 1, 0], 1));
        assert!(model.finds_comment("eve", 3) && !model.finds_comment("ann", 2));
        assert!(model.is_removed_own("bo", 2) && !model.is_removed_own("ann", 2));
        model.uncomment(3);
        assert_eq!((model.thread("eve", 1, None), model.replies(2)), (vec![2], 0));
        model.remove_comment(2, false);
        assert_eq!((model.thread("eve", 1, None), model.thread("ann", 1, None)), (vec![], vec![2]));
        assert_eq!((model.counts(1), model.how_many(Mark::CommentLike, 2)), ([0, 1, 0], 1));
        model.remove_comment(2, false);
        model.uncomment(2);
        assert_eq!((model.comments.len(), model.removed_comments.len()), (0, 0));
    }
}
