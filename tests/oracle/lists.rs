//! The rules of lists, and their comparison with the real ones.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::check::{self, Verdict, get, same};
use crate::filters::FilterContext;
use crate::model::{Edge, Model, Post, User, ViewContext, Visibility};
use crate::server::{PATIENCE, Server};

/// A list of users and topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) owner: User,
    pub(crate) name: String,
    /// Whether the posts of its users are left out of the owner's timeline.
    pub(crate) is_exclusive: bool,
    /// The users, the one that was added last first.
    pub(crate) users: Vec<User>,
    pub(crate) topics: BTreeSet<&'static str>,
}

/// A member of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Member {
    User(User),
    Topic(&'static str),
}

impl Member {
    /// The end of the path of the member of a list.
    pub(crate) fn path(self) -> String {
        match self {
            Self::User(user) => format!("users/{user}"),
            Self::Topic(topic) => format!("topics/{topic}"),
        }
    }
}

impl List {
    /// A list without members.
    pub(crate) fn new(owner: User, name: String, is_exclusive: bool) -> Self {
        Self { owner, name, is_exclusive, users: Vec::new(), topics: BTreeSet::new() }
    }

    fn set(&mut self, member: Member, on: bool) {
        match member {
            Member::User(user) => {
                let is_here = self.users.contains(&user);
                if on && !is_here {
                    self.users.insert(0, user);
                } else if !on {
                    self.users.retain(|listed| *listed != user);
                }
            }
            Member::Topic(topic) if on => drop(self.topics.insert(topic)),
            Member::Topic(topic) => drop(self.topics.remove(topic)),
        }
    }
}

impl Model {
    /// The lists of a user, oldest first.
    pub(crate) fn lists_of(&self, owner: User) -> Vec<u64> {
        self.lists.iter().filter(|(_, list)| list.owner == owner).map(|(id, _)| *id).collect()
    }

    /// Whether a list of a user exists.
    pub(crate) fn owns_list(&self, owner: User, id: u64) -> bool {
        self.lists.get(&id).is_some_and(|list| list.owner == owner)
    }

    /// Whether an exclusive list of a reader leaves an author out of the timeline.
    pub(crate) fn is_excluded(&self, reader: User, author: User) -> bool {
        let has = |list: &List| list.owner == reader && list.is_exclusive && list.users.contains(&author);
        reader != author && self.lists.values().any(has)
    }

    /// Adds a member to a list, or removes it.
    pub(crate) fn set_member(&mut self, id: u64, member: Member, on: bool) {
        self.change_list(id, |list| list.set(member, on));
    }

    /// Makes a list exclusive, or not.
    pub(crate) fn set_exclusive(&mut self, id: u64, on: bool) {
        self.change_list(id, |list| list.is_exclusive = on);
    }

    pub(crate) fn rename_list(&mut self, id: u64, name: &str) {
        if let Some(list) = self.lists.get_mut(&id) {
            name.clone_into(&mut list.name);
        }
    }

    /// Deletes a list: it leaves nobody out any more.
    pub(crate) fn delete_list(&mut self, id: u64) {
        self.change_list(id, |list| list.is_exclusive = false);
        self.lists.remove(&id);
    }

    fn change_list(&mut self, id: u64, change: impl FnOnce(&mut List)) {
        let Some(list) = self.lists.get_mut(&id) else { return };
        let owner = list.owner;
        let before = list.users.clone();
        change(list);
        let users: BTreeSet<User> = before.into_iter().chain(list.users.iter().copied()).collect();
        for user in users {
            self.may_return(owner, user);
        }
    }

    /// The posts of a list, newest first. Of its topics, it has the public ones.
    pub(crate) fn posts_of_list(&self, list: &List) -> Vec<u64> {
        let owner = list.owner;
        let is_open = |author: User| !self.locks.locked.contains(author);
        let is_of_user = |post: &Post| {
            let is_wanted = post.repost.is_none() || !self.has(Edge::RepostsOff, owner, post.author);
            list.users.contains(&post.author) && is_wanted
        };
        let has = |post: &Post| {
            let is_public = post.visibility == Visibility::Public && !post.is_removed && is_open(post.author);
            let is_of_topic = is_public && post.topic.is_some_and(|topic| list.topics.contains(topic));
            (is_of_topic || is_of_user(post)) && self.may_see_own(owner, post, ViewContext::Offered)
        };
        // A round is shorter than a day.
        let is_repeat = |id: u64, post: &Post| {
            let is_source = |(other, it): (&u64, &Post)| {
                let is_of_same = Some(*other) == post.repost || (it.repost.is_some() && it.repost == post.repost);
                is_of_same && has(it) && !self.is_blocked_repost(it)
            };
            post.repost.is_some() && self.posts.range(..id).any(is_source)
        };
        let is_shown = |id: u64, post: &Post| {
            let is_hidden = self.is_filtered(owner, post, FilterContext::Lists) || is_repeat(id, post);
            has(post) && self.may_see(owner, post, ViewContext::Listed) && !is_hidden
        };
        let newest_first = self.posts.iter().rev();
        newest_first.filter(|(id, post)| is_shown(**id, post)).map(|(id, _)| *id).collect()
    }
}

/// Compares the lists of a user, with their members and posts.
pub(crate) async fn lists(node: &Server, model: &Model, owner: User, limit: usize) -> Verdict {
    let (_, page) = get(node, owner, "/lists").await;
    let real = page["items"].as_array().ok_or_else(|| format!("the lists of {owner}: {page}"))?;
    let real: Vec<[&Value; 5]> =
        real.iter().map(|item| ["id", "name", "exclusive", "users", "topics"].map(|name| &item[name])).collect();
    let expected: Vec<[Value; 5]> =
        model.lists_of(owner).into_iter().map(|id| as_shown(id, &model.lists[&id])).collect();
    same(&format!("the lists of {owner}"), &real, &expected.iter().map(|list| list.each_ref()).collect())?;
    for id in model.lists_of(owner) {
        let list = &model.lists[&id];
        let path = format!("/lists/{id}/members");
        let (_, first) = get(node, owner, &path).await;
        same(&format!("the topics of list {id}"), &first["topics"], &json!(list.topics))?;
        let users = check::pages(node, owner, &path, 2).await?;
        same(&format!("the users of list {id}"), &check::names(&users), &list.users)?;
        let path = format!("/lists/{id}/posts");
        let filtered = Some(FilterContext::Lists);
        let expected = model.posts_of_list(list);
        // Topics lose the posts of an account that is locked after the answer.
        let until = Instant::now() + PATIENCE;
        while let Err(difference) = check::posts(node, model, owner, (&path, filtered), limit, &expected).await {
            if Instant::now() > until {
                return Err(difference);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

/// Compares the folds of the logs of a user's lists, from their beginnings, with the posts of the lists. Reposts are
/// not compared: no event says that a hidden one returned. A log may lack posts of an author who was suspended when it
/// began.
pub(crate) async fn logs(node: &Server, model: &Model, owner: User) -> Verdict {
    for id in model.lists_of(owner) {
        let until = Instant::now() + PATIENCE;
        while let Err(difference) = log(node, model, owner, id).await {
            if Instant::now() > until {
                return Err(difference);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

async fn log(node: &Server, model: &Model, owner: User, id: u64) -> Verdict {
    let (_, page) = get(node, owner, &format!("/lists/{id}/posts?limit=1")).await;
    let Some(epoch) = page["position"]["epoch"].as_str() else { return Err(format!("list {id}: {page}")) };
    let (_, updates) = get(node, owner, &format!("/lists/{id}/updates?offset=0&epoch={epoch}")).await;
    // A long log has lost its beginning.
    let Some(items) = updates["items"].as_array().filter(|_| updates["recovered"] == true) else { return Ok(()) };
    let mut fold = BTreeSet::new();
    for data in items.iter().map(|item| &item["data"]) {
        let post = data["post"]["id"].as_u64().or(data["id"].as_u64());
        match (data["type"].as_str(), post, data["author"].as_str()) {
            (Some("post"), Some(post), _) => drop(fold.insert(post)),
            (Some("gone"), Some(post), _) => drop(fold.remove(&post)),
            (Some("gone"), None, Some(author)) => {
                fold.retain(|id| model.posts.get(id).is_some_and(|post| post.author != author));
            }
            _ => {}
        }
    }
    let expected: BTreeSet<u64> = model.posts_of_list(&model.lists[&id]).into_iter().collect();
    let leaked: Vec<&u64> = fold.difference(&expected).collect();
    let is_compared = |id: &&u64| {
        let post = &model.posts[*id];
        post.repost.is_none() && !model.ever_suspended.contains(post.author)
    };
    let lost: Vec<&u64> = expected.difference(&fold).filter(is_compared).collect();
    same(&format!("what the log of list {id} of {owner} must not have, and lacks"), &(leaked, lost), &(vec![], vec![]))
}

fn as_shown(id: u64, list: &List) -> [Value; 5] {
    [json!(id), json!(list.name), json!(list.is_exclusive), json!(list.users.len()), json!(list.topics.len())]
}

/// Checks that a list is there for its owner alone.
pub(crate) async fn strangers(node: &Server, model: &Model, reader: User) -> Verdict {
    match model.lists.iter().find(|(_, list)| list.owner != reader) {
        Some((id, _)) => check::not_found(node, reader, &format!("/lists/{id}/posts")).await,
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusive_lists_leave_their_users_out_of_the_timeline_alone() {
        let mut model = Model::default();
        model.set(Edge::Follow, "ann", "bo", true);
        model.publish(1, Post::new("bo", "one".to_owned(), Visibility::Public));
        let tagged = Post { topic: Some("rust"), ..Post::new("cy", "two".to_owned(), Visibility::Public) };
        model.publish(2, tagged);
        model.lists.insert(9, List::new("ann", "near".to_owned(), true));
        model.set_member(9, Member::User("bo"), true);
        model.set_member(9, Member::Topic("rust"), true);
        assert_eq!((model.timeline("ann"), model.posts_of_list(&model.lists[&9])), (vec![], vec![2, 1]));
        model.set_exclusive(9, false);
        assert_eq!(model.timeline("ann"), [1]);
        model.set(Edge::Mute, "ann", "bo", true);
        assert_eq!(model.posts_of_list(&model.lists[&9]), [2]);
    }
}
