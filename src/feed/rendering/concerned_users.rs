//! The users whose relations decide who receives some entries.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::audience::Audience;
use super::render_context::{people_above, referenced_posts};
use crate::feed::content::{CachedPost, PostMap};
use crate::model::{Entry, UserId};

/// The users whose relations decide who receives some entries: most of the relations that change while a delivery is
/// prepared are those of others.
pub(super) enum ConcernedUsers<'a> {
    /// The entries show notifications, or posts that name other posts, which depend on further users.
    All,
    Some {
        /// The authors of what is shown on channels with many readers.
        open: HashSet<UserId>,
        /// The authors of what is shown in timelines and lists.
        authors: HashSet<&'a UserId, RandomState>,
        /// The owners of these timelines and lists.
        readers: HashSet<&'a UserId, RandomState>,
    },
}

impl<'a> ConcernedUsers<'a> {
    /// `posts`: all that the entries show, and those that they name.
    pub(super) fn of(entries: &[(&'a Audience, &'a Entry)], posts: &'a PostMap<Arc<CachedPost>>) -> Self {
        let notifies = entries.iter().any(|(audience, _)| matches!(audience, Audience::Notifications(_)));
        if notifies || posts.values().any(|cached| cached.post.named().is_some()) {
            return Self::All;
        }
        let (open, readers_by_author) = people_of(entries, posts);
        let authors = readers_by_author.keys().copied().collect();
        let readers = readers_by_author.into_values().flatten().collect();
        Self::Some { open, authors, readers }
    }

    /// Whether a relation of two users is one of those.
    pub(super) fn are_concerned(&self, one: &UserId, other: &UserId) -> bool {
        let Self::Some { open, authors, readers } = self else { return true };
        let is_read = |author: &UserId, by: &UserId| authors.contains(author) && readers.contains(by);
        open.contains(one) || open.contains(other) || is_read(one, other) || is_read(other, one)
    }
}

/// The authors whose restrictions are needed to render these entries; and for each author of a timeline entry the
/// readers of the timeline.
pub(super) fn people_of<'a>(
    entries: &[(&'a Audience, &'a Entry)],
    posts: &'a PostMap<Arc<CachedPost>>,
) -> (HashSet<UserId>, HashMap<&'a UserId, Vec<&'a UserId>, RandomState>) {
    let mut authors = HashSet::new();
    let mut readers_by_author: HashMap<_, Vec<_>, RandomState> = HashMap::default();
    for (audience, entry) in entries {
        let theirs = referenced_posts(audience, entry).filter_map(|id| posts.get(&id)).map(|it| &it.post.author);
        match audience {
            Audience::Plain | Audience::Notifications(_) => {}
            Audience::Timeline(_) | Audience::List(_) => {
                let Some(reader) = audience.owner() else { continue };
                for author in theirs.filter(|author| *author != reader) {
                    readers_by_author.entry(author).or_default().push(reader);
                }
            }
            Audience::Profile | Audience::Topic(_) | Audience::Post(_) => {
                authors.extend(theirs.cloned());
                authors.extend(people_above(entry).iter().cloned());
                if let Entry::PostRemoved(left) = entry {
                    authors.insert(left.author.clone());
                }
            }
        }
    }
    (authors, readers_by_author)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CommentChanged, CommentId, Post, PostId};

    const POST: PostId = PostId(7);

    fn id(text: &str) -> UserId {
        UserId::parse(text).expect("an id")
    }

    /// Whether a delivery of an entry about a post by ann depends on the relation of two users.
    fn concerns(audience: &Audience, entry: &Entry, quoted: Option<PostId>, [one, other]: [&str; 2]) -> bool {
        let post = Post { quote: quoted, ..Post::blank(POST, id("ann")) };
        let cached = CachedPost::new(post, false).expect("a post");
        let posts = std::iter::once((POST, cached)).collect();
        ConcernedUsers::of(&[(audience, entry)], &posts).are_concerned(&id(one), &id(other))
    }

    #[test]
    fn relations_of_others_concern_no_delivery() {
        let timeline = Audience::Timeline(id("fan"));
        let topic = Audience::Topic("rust".into());
        let post = Entry::Post(POST);
        for (audience, pair, expected) in [
            (&timeline, ["fan", "ann"], true),
            (&timeline, ["ann", "fan"], true),
            (&timeline, ["fan", "bo"], false),
            (&timeline, ["bo", "ann"], false),
            (&topic, ["bo", "ann"], true),
            (&topic, ["ann", "bo"], true),
            (&topic, ["bo", "cy"], false),
        ] {
            assert_eq!(concerns(audience, &post, None, pair), expected, "{audience:?}, {pair:?}");
        }
        // What else a quoted post depends on is not known.
        assert!(concerns(&timeline, &post, Some(PostId(1)), ["bo", "cy"]));
        assert!(concerns(&Audience::Notifications(id("fan")), &post, None, ["bo", "cy"]));
        let comment = CommentChanged { comment: CommentId(1), is_edit: false, people: vec![id("dee"), id("eve")] };
        let comment = Entry::Comment(Box::new(comment));
        let thread = Audience::Post(POST);
        for (pair, expected) in
            [(["bo", "dee"], true), (["eve", "bo"], true), (["bo", "ann"], true), (["bo", "cy"], false)]
        {
            assert_eq!(concerns(&thread, &comment, None, pair), expected, "{pair:?}");
        }
    }
}
