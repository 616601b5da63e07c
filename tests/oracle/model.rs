//! The rules of the feed, in their simplest form.

use std::collections::{BTreeMap, BTreeSet};

use crate::comment_policy::CommentPolicy;
use crate::filters::{Filter, FilterContext};
use crate::lists::List;
use crate::locks::Locks;
pub(crate) use crate::marks::Mark;
use crate::notifications::Recorded;
pub(crate) use crate::posts::{Post, ViewContext, Visibility};
use crate::profiles::Profiles;
use crate::reports::Report;
pub(crate) use crate::threads::Comment;

pub(crate) const USERS: [&str; 6] = ["ann", "bo", "cy", "dee", "eve", "flo"];
pub(crate) const TOPICS: [&str; 3] = ["rust", "music", "food"];

pub(crate) type User = &'static str;

/// A directed relation from one user to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Edge {
    Follow,
    /// The first user hides their posts from the second.
    Hide,
    /// The first user does not see the second user's posts in lists.
    Mute,
    /// Neither sees the other's posts, and neither follows the other.
    Block,
    /// The first user does not see the second user's reposts in their timeline.
    RepostsOff,
}

/// The expected state of the feed.
#[derive(Default)]
pub(crate) struct Model {
    /// The number of the change that made each edge: lists are sorted latest first.
    edges: BTreeMap<(Edge, User, User), usize>,
    pub(crate) changes: usize,
    /// The existing posts, by id. Ids increase with time.
    pub(crate) posts: BTreeMap<u64, Post>,
    pub(crate) deleted: Vec<u64>,
    /// The authors of all posts, including deleted ones.
    authors: BTreeMap<u64, User>,
    /// The existing comments by id, including deleted ones that remain because of their replies.
    pub(crate) comments: BTreeMap<u64, Comment>,
    /// The deleted comments that remain, and the removed ones, which are shown as deleted.
    pub(crate) emptied: BTreeSet<u64>,
    /// The comments that the backend removed.
    pub(crate) removed_comments: BTreeSet<u64>,
    /// The users that the backend suspended.
    pub(crate) suspended: BTreeSet<User>,
    /// The users that the backend limited.
    pub(crate) limited: BTreeSet<User>,
    /// The users that were suspended or limited at any time.
    pub(crate) ever_suspended: BTreeSet<User>,
    pub(crate) locks: Locks,
    /// The filters of all users, by id. Ids increase with time.
    pub(crate) filters: BTreeMap<u64, Filter>,
    /// The lists of all users, by id. Ids increase with time.
    pub(crate) lists: BTreeMap<u64, List>,
    /// The topics that users follow.
    pub(crate) topic_follows: BTreeSet<(User, &'static str)>,
    pub(crate) recorded: Recorded,
    /// The reports, by id. Ids increase with time.
    pub(crate) reports: BTreeMap<u64, Report>,
    /// The number of the change that made each mark.
    pub(crate) marks: BTreeMap<(Mark, User, u64), usize>,
    /// The favourites that others do not see.
    pub(crate) private_favourites: BTreeSet<(User, u64)>,
    pub(crate) profiles: Profiles,
    /// The posts that a timeline must show by now: they were present at a quiet point, or a response guaranteed them.
    pub(crate) arrived: BTreeSet<(User, u64)>,
}

impl Model {
    pub(crate) fn has(&self, edge: Edge, from: User, to: User) -> bool {
        self.edges.contains_key(&(edge, from, to))
    }

    /// The users to whom `from` has such an edge, latest first.
    pub(crate) fn those(&self, edge: Edge, from: User) -> Vec<User> {
        let mut found: Vec<_> = self.edges.iter().filter(|((kind, a, _), _)| (*kind, *a) == (edge, from)).collect();
        found.sort_unstable_by_key(|(_, since)| std::cmp::Reverse(**since));
        found.into_iter().map(|((_, _, to), _)| *to).collect()
    }

    /// The users who have such an edge to `to`, latest first.
    pub(crate) fn those_to(&self, edge: Edge, to: User) -> Vec<User> {
        let mut found: Vec<_> = self.edges.iter().filter(|((kind, _, b), _)| (*kind, *b) == (edge, to)).collect();
        found.sort_unstable_by_key(|(_, since)| std::cmp::Reverse(**since));
        found.into_iter().map(|((_, from, _), _)| *from).collect()
    }

    /// Whether either user blocks the other.
    pub(crate) fn blocked(&self, one: User, other: User) -> bool {
        self.has(Edge::Block, one, other) || self.has(Edge::Block, other, one)
    }

    /// Whether a reader may know that a user exists.
    pub(crate) fn may_read_user(&self, reader: User, user: User) -> bool {
        !self.has(Edge::Block, user, reader) && !self.is_suspended_for(reader, user)
    }

    /// Whether a user is suspended, and the reader is somebody else.
    fn is_suspended_for(&self, reader: User, user: User) -> bool {
        reader != user && self.suspended.contains(user)
    }

    /// Whether a user is limited, and not followed by the reader.
    pub(crate) fn is_limited_for(&self, reader: User, user: User) -> bool {
        reader != user && self.limited.contains(user) && !self.has(Edge::Follow, reader, user)
    }

    /// Whether a reader may see a post that exists. For a repost, they must be able to see the reposted post.
    pub(crate) fn may_see(&self, reader: User, post: &Post, surface: ViewContext) -> bool {
        let sees =
            |id: u64| self.posts.get(&id).is_some_and(|post| self.may_see_own(reader, post, ViewContext::Listed));
        post.repost.is_none_or(sees) && self.may_see_own(reader, post, surface) && !self.is_blocked_repost(post)
    }

    /// Whether there is a block between the author of a repost and the author of the reposted post.
    pub(crate) fn is_blocked_repost(&self, post: &Post) -> bool {
        let reposted = post.repost.and_then(|id| self.posts.get(&id));
        reposted.is_some_and(|reposted| self.blocked(post.author, reposted.author))
    }

    /// The same, by the rules of the author of the post.
    pub(crate) fn may_see_own(&self, reader: User, post: &Post, surface: ViewContext) -> bool {
        let author = post.author;
        if reader == author {
            return true;
        }
        if post.is_removed || self.suspended.contains(author) {
            return false;
        }
        let follows = self.has(Edge::Follow, reader, author);
        let is_open = !self.is_locked_for(reader, author);
        let meant = match &post.visibility {
            Visibility::Public => is_open,
            Visibility::Followers => follows,
            Visibility::Friends => follows && self.has(Edge::Follow, author, reader),
            Visibility::OnlyTo(those) => follows && those.contains(&reader),
            Visibility::NotTo(those) => is_open && !those.contains(&reader),
        };
        let muted = surface != ViewContext::Direct && self.has(Edge::Mute, reader, author);
        let is_withheld = match surface {
            ViewContext::Direct => false,
            ViewContext::Listed => self.is_limited_for(reader, author),
            ViewContext::Offered => self.limited.contains(author),
        };
        meant && !muted && !is_withheld && !self.has(Edge::Hide, author, reader) && !self.blocked(reader, author)
    }

    /// Whether a reader's timeline has a post by the rules of its author.
    fn has_in_timeline(&self, reader: User, post: &Post) -> bool {
        let author = post.author;
        let is_wanted = post.repost.is_none() || !self.has(Edge::RepostsOff, reader, author);
        let is_followed = self.has(Edge::Follow, reader, author) && !self.is_excluded(reader, author);
        let is_near = author == reader || (is_wanted && is_followed);
        (is_near && self.may_see_own(reader, post, ViewContext::Listed)) || self.brings(reader, post).is_some()
    }

    /// Whether a reader's timeline shows a post.
    pub(crate) fn shows(&self, reader: User, id: u64) -> bool {
        self.belongs(reader, id) && !self.is_filtered(reader, &self.posts[&id], FilterContext::Home)
    }

    /// Whether a post belongs in a reader's timeline, which shows it unless a filter hides it. A round is shorter than
    /// a day, so a repost does not if the timeline has its post, or an earlier repost of it.
    pub(crate) fn belongs(&self, reader: User, id: u64) -> bool {
        let Some(post) = self.posts.get(&id) else { return false };
        let is_source = |(other, it): (&u64, &Post)| {
            let is_of_same = Some(*other) == post.repost || (it.repost.is_some() && it.repost == post.repost);
            is_of_same && self.has_in_timeline(reader, it) && !self.is_blocked_repost(it)
        };
        let is_repeat = post.repost.is_some() && self.posts.range(..id).any(is_source);
        self.has_in_timeline(reader, post) && self.may_see(reader, post, ViewContext::Listed) && !is_repeat
    }

    /// The repost of a post by a user.
    pub(crate) fn repost_by(&self, user: User, post: u64) -> Option<u64> {
        let theirs = self.posts.iter().find(|(_, it)| it.author == user && it.repost == Some(post));
        theirs.map(|(id, _)| *id)
    }

    /// The reposted post of a repost; of other posts, the post itself.
    pub(crate) fn meant_by(&self, id: u64) -> u64 {
        self.posts.get(&id).and_then(|post| post.repost).unwrap_or(id)
    }

    /// The numbers of reposts and quotes of a post, whoever sees them.
    pub(crate) fn named_counts(&self, id: u64) -> [usize; 2] {
        let count = |of: fn(&Post) -> Option<u64>| self.posts.values().filter(|post| of(post) == Some(id)).count();
        [count(|post| post.repost), count(Post::attached)]
    }

    /// The reposts that a reader's timeline has, and that do not belong in it.
    pub(crate) fn hidden_reposts(&self, reader: User) -> impl Iterator<Item = u64> + '_ {
        let has = move |(_, post): &(&u64, &Post)| post.repost.is_some() && self.has_in_timeline(reader, post);
        self.posts.iter().filter(has).map(|(id, _)| *id).filter(move |id| !self.belongs(reader, *id))
    }

    /// A timeline, newest first.
    pub(crate) fn timeline(&self, reader: User) -> Vec<u64> {
        self.posts.keys().rev().copied().filter(|id| self.shows(reader, *id)).collect()
    }

    /// The posts that a timeline must show already, although others may still be on their way.
    pub(crate) fn arrived(&self, reader: User) -> BTreeSet<u64> {
        let here = self.arrived.iter().filter(|(user, id)| *user == reader && self.shows(reader, *id));
        here.map(|(_, id)| *id).collect()
    }

    /// An author's posts that a reader can see, newest first.
    pub(crate) fn profile(&self, reader: User, author: User) -> Vec<u64> {
        self.listed(reader, ViewContext::Direct, |post| post.author == author)
    }

    /// The number of an author's posts on the profile. Reposts count, also those of posts that the reader may not see.
    pub(crate) fn written(&self, reader: User, author: User) -> usize {
        let theirs = self.posts.values().filter(|post| post.author == author);
        theirs.filter(|post| self.may_see_own(reader, post, ViewContext::Direct)).count()
    }

    pub(crate) fn topic(&self, reader: User, topic: &str) -> Vec<u64> {
        self.discovery(reader, |post| post.topic == Some(topic))
    }

    /// The public posts of all users, as far as they are for a reader, newest first.
    pub(crate) fn explore(&self, reader: User) -> Vec<u64> {
        let is_open = |post: &Post| post.visibility == Visibility::Public && !self.locks.locked.contains(post.author);
        self.discovery(reader, |post| is_open(post) && post.repost.is_none() && !post.is_removed)
    }

    /// Posts that are offered to all readers.
    fn discovery(&self, reader: User, belongs: impl Fn(&Post) -> bool) -> Vec<u64> {
        let is_shown = |post: &Post| belongs(post) && !self.is_filtered(reader, post, FilterContext::Topics);
        self.listed(reader, ViewContext::Offered, is_shown)
    }

    fn listed(&self, reader: User, surface: ViewContext, belongs: impl Fn(&Post) -> bool) -> Vec<u64> {
        let newest_first = self.posts.iter().rev();
        let shown = newest_first.filter(|(_, post)| belongs(post) && self.may_see(reader, post, surface));
        shown.map(|(id, _)| *id).collect()
    }

    /// The users without those who block the reader or are blocked by them, and without suspended ones.
    pub(crate) fn without_blocked(&self, reader: User, people: Vec<User>) -> Vec<User> {
        let hidden = |person: User| self.blocked(reader, person) || self.is_suspended_for(reader, person);
        people.into_iter().filter(|person| !hidden(person)).collect()
    }

    /// Whether a reader can see a user's comments, likes and favourites.
    pub(crate) fn meets(&self, reader: User, person: User) -> bool {
        let is_apart = self.has(Edge::Hide, person, reader) || self.blocked(reader, person);
        reader == person || !(is_apart || self.suspended.contains(person))
    }

    /// Whether a reader can open a post by id.
    pub(crate) fn finds(&self, reader: User, id: u64) -> bool {
        self.posts.get(&id).is_some_and(|post| self.may_see(reader, post, ViewContext::Direct))
    }

    /// The numbers of likes, of comments at any depth, and of favourites of a post, regardless of the reader.
    pub(crate) fn counts(&self, id: u64) -> [usize; 3] {
        let said = self.comments.iter().filter(|(which, comment)| comment.post == id && !self.emptied.contains(which));
        [self.how_many(Mark::Like, id), said.count(), self.how_many(Mark::Favourite, id)]
    }

    /// Whether a post has likes, favourites or comments, including comments that do not count.
    pub(crate) fn has_under(&self, id: u64) -> bool {
        self.counts(id) != [0; 3] || self.comments.values().any(|comment| comment.post == id)
    }

    // --- changes -----------------------------------------------------------------------------------------

    pub(crate) fn publish(&mut self, id: u64, post: Post) {
        self.arrived.insert((post.author, id));
        self.authors.insert(id, post.author);
        self.posts.insert(id, post);
    }

    pub(crate) fn delete(&mut self, id: u64) {
        self.posts.remove(&id);
        self.deleted.push(id);
        self.comments.retain(|_, comment| comment.post != id);
        self.forget_marks();
    }

    /// Changes the text of a post, who sees it, and who may comment on it.
    pub(crate) fn edit(
        &mut self,
        id: u64,
        text: &str,
        visibility: Option<&Visibility>,
        comment_policy: Option<CommentPolicy>,
    ) {
        let Some(post) = self.posts.get_mut(&id) else { return };
        text.clone_into(&mut post.text);
        post.comment_policy = comment_policy.unwrap_or(post.comment_policy);
        if let Some(visibility) = visibility {
            post.visibility.clone_from(visibility);
            let author = post.author;
            self.arrived.retain(|(reader, there)| *there != id || *reader == author);
        }
    }

    /// Removes a post, or restores it.
    pub(crate) fn remove(&mut self, id: u64, on: bool) {
        let Some(post) = self.posts.get_mut(&id) else { return };
        post.is_removed = on;
        let author = post.author;
        self.arrived.retain(|(reader, there)| *there != id || *reader == author);
    }

    /// Suspends a user, or ends any standing. Posts return to all pages at once.
    pub(crate) fn suspend(&mut self, user: User, on: bool) {
        self.limited.remove(user);
        if on {
            self.ever_suspended.insert(user);
            self.suspended.insert(user)
        } else {
            self.suspended.remove(user)
        };
    }

    /// Limits a user, who may have been suspended.
    pub(crate) fn limit(&mut self, user: User) {
        self.suspended.remove(user);
        self.limited.insert(user);
        self.ever_suspended.insert(user);
    }

    /// Detaches a quote from the quoted post.
    pub(crate) fn detach(&mut self, quote: u64) {
        self.posts.get_mut(&quote).expect("a quote").is_detached = true;
    }

    /// Detaches all quotes by a user from the posts of another one, including deleted posts.
    pub(crate) fn detach_all(&mut self, author: User, by: User) {
        let authors = &self.authors;
        for post in self.posts.values_mut().filter(|post| post.author == by) {
            let quoted_author = post.quote.and_then(|quoted| authors.get(&quoted));
            post.is_detached |= quoted_author == Some(&author);
        }
    }

    /// Creates or ends an edge.
    pub(crate) fn set(&mut self, edge: Edge, from: User, to: User, on: bool) {
        self.changes += 1;
        if on {
            self.edges.entry((edge, from, to)).or_insert(self.changes);
        } else {
            self.edges.remove(&(edge, from, to));
        }
        if edge == Edge::Block && on {
            self.edges.remove(&(Edge::Follow, from, to));
            self.edges.remove(&(Edge::Follow, to, from));
            self.locks.end(from, to);
            self.locks.end(to, from);
        }
        self.may_return(from, to);
    }

    /// Posts of one user that may return to the timeline of the other are not guaranteed to be there at once.
    pub(crate) fn may_return(&mut self, from: User, to: User) {
        let posts = &self.posts;
        self.arrived.retain(|(reader, id)| {
            let author = posts.get(id).map(|post| post.author);
            !(author == Some(to) && *reader == from || author == Some(from) && *reader == to)
        });
    }

    /// A follow was acknowledged: the followee's posts are in the timeline.
    pub(crate) fn brought_in(&mut self, reader: User, author: User) {
        let theirs = self.posts.iter().filter(|(_, post)| post.author == author);
        let theirs: Vec<u64> = theirs.map(|(id, _)| *id).collect();
        self.arrived.extend(theirs.into_iter().map(|id| (reader, id)));
    }

    /// All deliveries are complete.
    pub(crate) fn all_arrived(&mut self) {
        let all = USERS.into_iter().flat_map(|reader| self.posts.keys().map(move |id| (reader, *id)));
        self.arrived = all.filter(|(reader, id)| self.belongs(reader, *id)).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(author: User, visibility: Visibility) -> Post {
        Post::new(author, String::new(), visibility)
    }

    #[test]
    fn posts_respect_their_audience() {
        let mut model = Model::default();
        model.set(Edge::Follow, "bo", "ann", true);
        model.set(Edge::Follow, "cy", "ann", true);
        model.set(Edge::Follow, "ann", "cy", true);
        let seen = |model: &Model, visibility: Visibility| -> Vec<User> {
            let post = post("ann", visibility);
            USERS.into_iter().filter(|reader| model.may_see(reader, &post, ViewContext::Listed)).collect()
        };
        assert_eq!(seen(&model, Visibility::Public), USERS);
        assert_eq!(seen(&model, Visibility::Followers), ["ann", "bo", "cy"]);
        assert_eq!(seen(&model, Visibility::Friends), ["ann", "cy"]);
        assert_eq!(seen(&model, Visibility::OnlyTo(vec!["bo", "dee"])), ["ann", "bo"]);
        assert_eq!(seen(&model, Visibility::NotTo(vec!["bo", "dee"])), ["ann", "cy", "eve", "flo"]);
        model.set(Edge::Hide, "ann", "bo", true);
        model.set(Edge::Mute, "dee", "ann", true);
        model.set(Edge::Block, "eve", "ann", true);
        model.set(Edge::Block, "ann", "flo", true);
        assert_eq!(seen(&model, Visibility::Public), ["ann", "cy"]);
        assert!(model.may_see("dee", &post("ann", Visibility::Public), ViewContext::Direct), "a mute is not a wall");
        assert!(!model.may_see("bo", &post("ann", Visibility::Public), ViewContext::Direct));
    }

    #[test]
    fn blocks_end_follows_and_unblocks_do_not_restore_them() {
        let mut model = Model::default();
        model.publish(1, post("ann", Visibility::Public));
        model.set(Edge::Follow, "bo", "ann", true);
        model.set(Edge::Follow, "ann", "bo", true);
        model.brought_in("bo", "ann");
        assert_eq!((model.timeline("bo"), model.arrived("bo").len()), (vec![1], 1));
        model.set(Edge::Block, "ann", "bo", true);
        assert_eq!((model.timeline("bo"), model.profile("bo", "ann")), (vec![], vec![]));
        model.set(Edge::Block, "ann", "bo", false);
        assert_eq!((model.timeline("bo"), model.profile("bo", "ann")), (vec![], vec![1]));
        assert!(model.those(Edge::Follow, "ann").is_empty());
    }
}
