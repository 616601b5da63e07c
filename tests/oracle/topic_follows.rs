//! The rules of followed topics, and their comparison with the real ones.

use serde_json::{Value, json};

use crate::check::{Verdict, get, same};
use crate::filters::FilterContext;
use crate::model::{Edge, Model, Post, User, ViewContext, Visibility};
use crate::server::Server;

impl Model {
    /// Whether a reader follows a topic.
    pub(crate) fn follows_topic(&self, reader: User, topic: &str) -> bool {
        self.topic_follows.iter().any(|(user, name)| (*user, *name) == (reader, topic))
    }

    /// Follows a topic, or ends that. `received`: whether there was an answer, after which its posts are there.
    pub(crate) fn follow_topic(&mut self, reader: User, topic: &'static str, on: bool, received: bool) {
        if on {
            self.topic_follows.insert((reader, topic));
        } else {
            self.topic_follows.remove(&(reader, topic));
        }
        let theirs = self.posts.iter().filter(|(_, post)| post.topic == Some(topic) && post.author != reader);
        let theirs: Vec<u64> = theirs.map(|(id, _)| *id).collect();
        for id in theirs {
            let is_brought = self.brings(reader, &self.posts[&id]).is_some();
            if on && received && is_brought {
                self.arrived.insert((reader, id));
            } else if !on && !self.has(Edge::Follow, reader, self.posts[&id].author) {
                self.arrived.remove(&(reader, id));
            }
        }
    }

    /// What topics bring of an author leaves timelines, or returns to them, after the answer.
    pub(crate) fn topics_may_return(&mut self, author: User) {
        let readers: Vec<(User, u64)> = self.arrived.iter().copied().collect();
        for (reader, id) in readers {
            let is_theirs = self.posts.get(&id).is_some_and(|post| post.author == author);
            if is_theirs && reader != author && !self.has(Edge::Follow, reader, author) {
                self.arrived.remove(&(reader, id));
            }
        }
    }

    /// The topic that brings a post into a reader's timeline, unless its author does.
    pub(crate) fn brings(&self, reader: User, post: &Post) -> Option<&'static str> {
        let author = post.author;
        let topic = post.topic.filter(|topic| self.follows_topic(reader, topic))?;
        let is_offered = post.visibility == Visibility::Public && post.repost.is_none() && !post.is_removed;
        let is_open = ![&self.locks.locked, &self.limited].iter().any(|users| users.contains(author));
        let is_seen = self.may_see_own(reader, post, ViewContext::Listed);
        (reader != author && is_offered && is_open && !self.is_excluded(reader, author) && is_seen).then_some(topic)
    }

    /// The topic that a post of a timeline names as what brought it.
    pub(crate) fn via(&self, reader: User, post: &Post) -> Option<&'static str> {
        self.brings(reader, post).filter(|_| !self.has(Edge::Follow, reader, post.author))
    }
}

/// Compares what brought a post into the timeline of a reader. `context`: where it is read.
pub(crate) fn brought(model: &Model, reader: User, item: &Value, context: Option<FilterContext>) -> Verdict {
    let post = &model.posts[&item["id"].as_u64().expect("an id")];
    let via = model.via(reader, post).filter(|_| context == Some(FilterContext::Home));
    let expected = via.map_or(Value::Null, |topic| json!({ "topic": topic }));
    same(&format!("what brought {} to {reader}", item["id"]), &item["via"], &expected)
}

/// Compares the topics that a reader follows.
pub(crate) async fn followed(node: &Server, model: &Model, reader: User) -> Verdict {
    let (_, page) = get(node, reader, "/topics/followed").await;
    let items = page["items"].as_array().ok_or_else(|| format!("the topics of {reader}: {page}"))?;
    let real: Vec<&Value> = items.iter().map(|item| &item["name"]).collect();
    let expected = model.topic_follows.iter().filter(|(user, _)| *user == reader);
    let expected: Vec<Value> = expected.map(|(_, topic)| json!(topic)).collect();
    same(&format!("the followed topics of {reader}"), &real, &expected.iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_bring_public_posts_of_open_accounts() {
        let mut model = Model::default();
        let tagged = |visibility| Post { topic: Some("rust"), ..Post::new("bo", "one".to_owned(), visibility) };
        model.publish(1, tagged(Visibility::Public));
        model.publish(2, tagged(Visibility::Followers));
        model.follow_topic("ann", "rust", true, true);
        assert_eq!((model.timeline("ann"), model.arrived("ann").len()), (vec![1], 1));
        model.lock("bo", true);
        assert!(model.timeline("ann").is_empty());
        model.lock("bo", false);
        model.set(Edge::Mute, "ann", "bo", true);
        assert!(model.timeline("ann").is_empty());
        model.set(Edge::Mute, "ann", "bo", false);
        model.set(Edge::Follow, "ann", "bo", true);
        model.follow_topic("ann", "rust", false, true);
        assert_eq!((model.timeline("ann"), model.via("ann", &model.posts[&1])), (vec![2, 1], None));
    }
}
