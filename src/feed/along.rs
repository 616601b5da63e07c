//! What posts bring along if they are asked to: who likes them, what is said under them, and who all of these are.
//!
//! A client that shows a page of posts would have to ask for likers and comments of each. This is what it would get, the
//! beginnings of those lists, for the whole page at once: one call of the ledger for what is under the posts, and as much as
//! is not cached of who of these people may meet the reader, however many posts there are.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Body, Feed, FeedError, Result};
use crate::ledger::{Most, Newest};
use crate::model::{Comment, Person, PostId, Relation, ShownPost, UserId};

/// How many of those who like a post are told, at most.
const LIKERS: usize = 8;

/// How many comments on a post are told, at most.
const COMMENTS: usize = 3;

/// How many times as many are looked at, for not all of them may be for the reader. Where fewer of these are, fewer are told:
/// reading on would cost more calls for one reader than for another.
const SLACK: usize = 4;

/// How many of those whom a post or a comment names are told, the first.
const NAMED: usize = 10;

/// Something that posts bring along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Part {
    /// Who likes each post: the latest 8.
    Likers,
    /// What is said under each post: the newest 3 comments.
    Comments,
    /// Who all of these are, and those whom posts and comments name.
    People,
}

/// What posts are to bring along.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct With(Vec<Part>);

impl With {
    /// Reads a list, as JSON or as text with commas; nothing is none.
    ///
    /// # Errors
    /// If something in it is no part.
    pub(super) fn read(asked: Option<&Value>) -> Result<Self> {
        let part = |name: &str| Part::deserialize(Value::from(name.trim())).ok();
        let parts: Option<Vec<Part>> = match asked {
            None | Some(Value::Null) => Some(Vec::new()),
            Some(Value::String(text)) if text.is_empty() => Some(Vec::new()),
            Some(Value::String(text)) => text.split(',').map(part).collect(),
            Some(Value::Array(names)) => names.iter().map(|name| part(name.as_str()?)).collect(),
            Some(_) => None,
        };
        let wrong = || FeedError::invalid("with", "with is a list of likers, comments and people, or of some of them");
        parts.map(Self).ok_or_else(wrong)
    }

    pub(super) fn has(&self, part: Part) -> bool {
        self.0.contains(&part)
    }
}

/// What is under a post, as far as it was asked for.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(super) struct Beneath {
    /// Who likes it, latest first, 8 at most; if `likers` were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    likers: Option<Vec<UserId>>,
    /// The newest comments on the post itself, newest first, 3 at most; if `comments` were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    newest_comments: Option<Vec<Comment>>,
}

/// A post as pages show it, and what it brings along.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes JSON that is put together as text")]
pub(super) struct PageItem {
    #[serde(flatten)]
    post: ShownPost,
    #[serde(flatten)]
    beneath: Beneath,
}

/// A post by itself, and what it brings along.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes JSON that is put together as text")]
pub(super) struct LonePost {
    #[serde(flatten)]
    item: PageItem,
    /// Who its author, its likers and commenters and those named are, by id; if `people` were asked for.
    people: Option<BTreeMap<String, Person>>,
}

/// What the posts of a page bring along.
#[derive(Default)]
pub(super) struct Along {
    beneath: HashMap<PostId, Beneath>,
    /// Those who are to be told by name, besides the authors.
    pub(super) people: HashSet<UserId>,
}

impl Along {
    /// What is under one of the posts.
    pub(super) fn beneath(&self, post: PostId) -> Option<&Beneath> {
        self.beneath.get(&post)
    }

    /// Takes what the ledger found, as far as the reader may meet those who did it.
    fn take(&mut self, newest: Newest, met: &HashSet<UserId>) {
        for (post, liker) in newest.likers {
            let likers = self.beneath.get_mut(&post).and_then(|beneath| beneath.likers.as_mut());
            if let Some(likers) = likers.filter(|likers| likers.len() < LIKERS && met.contains(&liker)) {
                likers.push(liker);
            }
        }
        for comment in newest.comments {
            let comments = self.beneath.get_mut(&comment.post).and_then(|beneath| beneath.newest_comments.as_mut());
            let is_met = comment.author.as_ref().is_none_or(|author| met.contains(author));
            if let Some(comments) = comments.filter(|comments| comments.len() < COMMENTS && is_met) {
                comments.push(comment);
            }
        }
    }

    /// Those who do something under the posts.
    fn doers(&self) -> impl Iterator<Item = &UserId> {
        let likers = self.beneath.values().flat_map(|beneath| beneath.likers.iter().flatten());
        likers.chain(self.comments().filter_map(|comment| comment.author.as_ref()))
    }

    fn comments(&self) -> impl Iterator<Item = &Comment> {
        self.beneath.values().flat_map(|beneath| beneath.newest_comments.iter().flatten())
    }
}

impl Feed {
    /// What these posts, which the reader may see, bring along. At most one call of the ledger for what is under them; who may
    /// be met is cached, and otherwise asked for all of them together.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn along(&self, reader: Option<&UserId>, bodies: &[Arc<Body>], with: &With) -> Result<Along> {
        let mut along = Along::default();
        let (likers, comments) = (with.has(Part::Likers), with.has(Part::Comments));
        if (likers || comments) && !bodies.is_empty() {
            let ids: Vec<PostId> = bodies.iter().map(|body| body.post.id).collect();
            let wanted = |is_wanted: bool, most: usize| if is_wanted { most * SLACK } else { 0 };
            let most = Most { likers: wanted(likers, LIKERS), comments: wanted(comments, COMMENTS) };
            let newest = self.ledger.newest_under(&ids, most).await?;
            let authors = newest.comments.iter().filter_map(|comment| comment.author.as_ref());
            let doers = newest.likers.iter().map(|(_, liker)| liker).chain(authors).cloned().collect();
            // As in the lists themselves, a mute does not matter: one looks under a post.
            let met = self.people_among(reader, doers, |relation| !relation.is_barred()).await?;
            let nothing = Beneath { likers: likers.then(Vec::new), newest_comments: comments.then(Vec::new) };
            along.beneath = ids.into_iter().map(|id| (id, nothing.clone())).collect();
            along.take(newest, &met);
        }
        if with.has(Part::People) {
            let in_posts = bodies.iter().flat_map(|body| body.post.mentions.iter().take(NAMED));
            let in_comments = along.comments().flat_map(|comment| comment.mentions.iter().take(NAMED));
            let named: HashSet<UserId> = in_posts.chain(in_comments).cloned().collect();
            // As on a profile: nobody learns by not finding somebody that they are hidden from.
            let is_blocked = |relation: Relation| relation.blocks || relation.blocked;
            let mut people = self.people_among(reader, named, |relation| !is_blocked(relation)).await?;
            people.extend(along.doers().cloned());
            along.people = people;
        }
        Ok(along)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_asked_for_is_a_list_or_text_with_commas() {
        let all = [Part::Likers, Part::Comments, Part::People];
        for (asked, parts) in [
            (json!("likers,comments,people"), &all[..]),
            (json!(["likers", "comments", "people"]), &all),
            (json!("people, people"), &[Part::People, Part::People]),
            (json!(""), &[]),
            (json!([]), &[]),
            (Value::Null, &[]),
        ] {
            assert_eq!(With::read(Some(&asked)).unwrap(), With(parts.to_vec()), "{asked}");
        }
        assert_eq!(With::read(None).unwrap(), With::default());
        for wrong in [json!("friends"), json!("likers,"), json!("Likers"), json!(["likers", 3]), json!(7), json!({})] {
            let error = With::read(Some(&wrong)).expect_err("nothing of ours");
            assert!(matches!(error, FeedError::Invalid { field: Some(field), .. } if field == "with"), "{wrong}");
        }
    }
}
