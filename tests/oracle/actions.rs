//! User actions. To add an operation, add a variant here with its request, its expected status, and its effect on the
//! model.

use serde_json::{Value, json};

use crate::filters::{self, Filter, FilterChange};
use crate::lists::{List, Member};
use crate::model::{Comment, Edge, Mark, Model, Post, User, Visibility};
use crate::notifications::AppNotification;
use crate::threads::thread;

/// A user action.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Publish(Post),
    Edit {
        by: User,
        id: u64,
        text: String,
        visibility: Option<Visibility>,
    },
    Delete {
        by: User,
        id: u64,
    },
    Set {
        edge: Edge,
        from: User,
        to: User,
        on: bool,
    },
    Comment(Comment),
    /// Deletes a comment; `post` is the post with the comment.
    Uncomment {
        by: User,
        id: u64,
        post: u64,
    },
    /// `post`: the post itself, or the post with the comment.
    Mark {
        mark: Mark,
        by: User,
        id: u64,
        post: u64,
        on: bool,
    },
    /// Locks an account, or unlocks it.
    Lock {
        user: User,
        on: bool,
    },
    /// Answers a request of `from`.
    Answer {
        by: User,
        from: User,
        accepts: bool,
    },
    /// Removes a follower.
    RemoveFollower {
        by: User,
        from: User,
    },
    /// The backend suspends a user, or ends that.
    Suspend {
        user: User,
        on: bool,
    },
    /// The backend limits a user.
    Limit {
        user: User,
    },
    /// The backend removes a post, or restores it.
    Remove {
        id: u64,
        on: bool,
    },
    /// Reposts a post, or ends that.
    Repost {
        by: User,
        id: u64,
        on: bool,
        /// Whether only the followers of the user see the repost.
        is_narrow: bool,
    },
    /// The author of a quoted post detaches the quote.
    Detach {
        by: User,
        id: u64,
    },
    CreateFilter(Filter),
    ChangeFilter {
        by: User,
        id: u64,
        change: FilterChange,
    },
    DeleteFilter {
        by: User,
        id: u64,
    },
    CreateList(List),
    /// Makes a list exclusive, or not.
    SetExclusive {
        by: User,
        id: u64,
        on: bool,
    },
    /// Adds a member to a list, or removes it.
    SetMember {
        by: User,
        id: u64,
        member: Member,
        on: bool,
    },
    DeleteList {
        by: User,
        id: u64,
    },
    /// Follows a topic, or ends that.
    FollowTopic {
        by: User,
        topic: &'static str,
        on: bool,
    },
    /// The backend notifies users.
    Notify(AppNotification),
}

/// The HTTP request of an action.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) user: User,
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) body: Value,
    /// The idempotency key, for writes that may be retried.
    pub(crate) key: Option<String>,
}

impl Act {
    pub(crate) fn call(&self, key: Option<String>) -> Call {
        let (method, path, body) = self.request();
        Call { user: self.by(), method, path, body, key }
    }

    fn request(&self) -> (&'static str, String, Value) {
        match self {
            Self::Publish(post) => {
                let mut body = json!({ "text": post.text });
                if let Some(topic) = post.topic {
                    body["topics"] = json!([topic]);
                }
                if post.visibility != Visibility::Public {
                    body["visibility"] = post.visibility.as_json();
                }
                if let Some(quoted) = post.quote {
                    body["quote"] = json!(quoted);
                }
                ("POST", "/posts".into(), body)
            }
            Self::Edit { id, text, visibility, .. } => {
                let mut body = json!({ "text": text });
                if let Some(visibility) = visibility {
                    body["visibility"] = visibility.as_json();
                }
                ("PATCH", format!("/posts/{id}"), body)
            }
            Self::Delete { id, .. } => ("DELETE", format!("/posts/{id}"), Value::Null),
            Self::Set { edge, to, on, .. } => {
                let what = match edge {
                    Edge::Follow => "follow",
                    Edge::Hide => "hide",
                    Edge::Mute => "mute",
                    Edge::Block => "block",
                    Edge::RepostsOff => "reposts/mute",
                };
                (set_or_end(*on), format!("/users/{to}/{what}"), Value::Null)
            }
            Self::Comment(comment) => {
                let mut body = json!({ "text": comment.text });
                if let Some(parent) = comment.reply_to {
                    body["reply_to"] = json!(parent);
                }
                ("POST", format!("/posts/{}/comments", comment.post), body)
            }
            Self::Uncomment { id, .. } => ("DELETE", format!("/comments/{id}"), Value::Null),
            Self::Mark { mark, id, on, .. } => {
                let path = match mark {
                    Mark::Like => format!("/posts/{id}/like"),
                    Mark::Favourite => format!("/favourites/post/{id}"),
                    Mark::CommentLike => format!("/comments/{id}/like"),
                };
                (set_or_end(*on), path, Value::Null)
            }
            Self::Lock { on, .. } => ("PATCH", "/users/me".into(), json!({ "locked": on })),
            Self::Answer { from, accepts, .. } => {
                (set_or_end(*accepts), format!("/users/me/requests/{from}"), Value::Null)
            }
            Self::RemoveFollower { from, .. } => ("DELETE", format!("/users/me/followers/{from}"), Value::Null),
            Self::Suspend { user, on } => {
                let body = if *on { json!({ "level": "suspended" }) } else { Value::Null };
                (set_or_end(*on), format!("/users/{user}/suspend"), body)
            }
            Self::Limit { user } => ("PUT", format!("/users/{user}/suspend"), json!({ "level": "limited" })),
            Self::Remove { id, on } => (set_or_end(*on), format!("/posts/{id}/removal"), Value::Null),
            Self::Repost { id, on, is_narrow, .. } => {
                let body = if *is_narrow { json!({ "visibility": "followers" }) } else { Value::Null };
                (set_or_end(*on), format!("/posts/{id}/repost"), body)
            }
            Self::Detach { id, .. } => ("DELETE", format!("/posts/{id}/quote"), Value::Null),
            Self::CreateFilter(filter) => {
                let Filter { words, hides, contexts, .. } = filter;
                let body = json!({ "words": words, "action": filters::action(*hides), "in": filters::names(contexts) });
                ("POST", "/filters".into(), body)
            }
            Self::ChangeFilter { id, change, .. } => {
                let body = match change {
                    FilterChange::Words(words) => json!({ "words": words }),
                    FilterChange::Hides(hides) => json!({ "action": filters::action(*hides) }),
                    FilterChange::Contexts(contexts) => json!({ "in": filters::names(contexts) }),
                };
                ("PATCH", format!("/filters/{id}"), body)
            }
            Self::DeleteFilter { id, .. } => ("DELETE", format!("/filters/{id}"), Value::Null),
            Self::CreateList(list) => {
                ("POST", "/lists".into(), json!({ "name": list.name, "exclusive": list.is_exclusive }))
            }
            Self::SetExclusive { id, on, .. } => ("PATCH", format!("/lists/{id}"), json!({ "exclusive": on })),
            Self::SetMember { id, member, on, .. } => {
                (set_or_end(*on), format!("/lists/{id}/{}", member.path()), Value::Null)
            }
            Self::DeleteList { id, .. } => ("DELETE", format!("/lists/{id}"), Value::Null),
            Self::FollowTopic { topic, on, .. } => (set_or_end(*on), format!("/topics/{topic}/follow"), Value::Null),
            Self::Notify(sent) => ("POST", "/notifications".into(), sent.as_json()),
        }
    }

    /// Applies the action to the model. `made`: the id of the created object. `received`: whether the first attempt got
    /// an answer.
    pub(crate) fn apply(&self, model: &mut Model, made: Option<u64>, received: bool) {
        match self {
            Self::Publish(post) => {
                let quote = post.quote.map(|id| model.meant_by(id));
                let made = made.expect("an id");
                model.publish(made, Post { quote, ..post.clone() });
                model.notify_of_quote(made);
            }
            Self::Repost { by, id, on: true, is_narrow } => {
                let meant = model.meant_by(*id);
                if let Some(made) = made {
                    let post = &model.posts[&meant];
                    // One's own post is never shown to more than it was.
                    let visibility = match &post.visibility {
                        narrower if post.author == *by && *narrower != Visibility::Public => narrower.clone(),
                        _ if *is_narrow => Visibility::Followers,
                        _ => Visibility::Public,
                    };
                    let repost = Post { repost: Some(meant), ..Post::new(by, String::new(), visibility) };
                    model.publish(made, repost);
                }
            }
            Self::Detach { id, .. } => model.detach(*id),
            Self::Repost { by, id, on: false, .. } => {
                if let Some(repost) = model.repost_by(by, model.meant_by(*id)) {
                    model.delete(repost);
                }
            }
            Self::Edit { by, id, text, visibility } => {
                if model.posts.get(id).is_some_and(|post| post.author == *by) {
                    model.edit(*id, text, visibility.as_ref());
                }
            }
            Self::Delete { by, id } => {
                if model.posts.get(id).is_some_and(|post| post.author == *by) {
                    model.delete(*id);
                }
            }
            Self::Set { edge: Edge::Follow, from, to, on: true } if model.is_locked_for(from, to) => {
                model.follow(from, to);
            }
            Self::Set { edge: Edge::Follow, from, to, on: false } if model.locks.is_open(from, to) => {
                model.locks.end(from, to);
            }
            Self::Lock { user, on } => model.lock(user, *on),
            Self::Answer { by, from, accepts: true } => {
                if model.locks.is_shown(from, by) {
                    model.accept(from, by);
                    if received {
                        model.brought_in(from, by);
                    }
                }
            }
            Self::Answer { by, from, accepts: false } => model.reject(from, by),
            Self::RemoveFollower { by, from } => {
                model.locks.end(from, by);
                if model.has(Edge::Follow, from, by) {
                    model.set(Edge::Follow, from, by, false);
                }
            }
            Self::Set { edge, from, to, on } => {
                let was = model.has(*edge, from, to);
                if was != *on {
                    model.set(*edge, from, to, *on);
                    if received && *edge == Edge::Follow && *on {
                        model.brought_in(from, to);
                    }
                }
            }
            Self::Comment(comment) => model.comment(made.expect("an id"), comment.clone()),
            Self::Uncomment { id, .. } => model.uncomment(*id),
            Self::Mark { mark, by, id, on, .. } => model.mark(*mark, by, *id, *on),
            Self::Suspend { user, on } => model.suspend(user, *on),
            Self::Limit { user } => model.limit(user),
            Self::Remove { id, on } => model.remove(*id, *on),
            Self::CreateFilter(filter) => drop(model.filters.insert(made.expect("an id"), filter.clone())),
            Self::ChangeFilter { id, change, .. } => model.filters.get_mut(id).expect("a filter").change(change),
            Self::DeleteFilter { id, .. } => drop(model.filters.remove(id)),
            Self::CreateList(list) => drop(model.lists.insert(made.expect("an id"), list.clone())),
            Self::SetExclusive { id, on, .. } => model.set_exclusive(*id, *on),
            Self::SetMember { id, member, on, .. } => model.set_member(*id, *member, *on),
            Self::DeleteList { id, .. } => model.delete_list(*id),
            Self::FollowTopic { by, topic, on } => model.follow_topic(by, topic, *on, received),
            Self::Notify(sent) => model.notify(sent),
        }
    }

    /// The existing post that the action refers to.
    pub(crate) fn post(&self) -> Option<u64> {
        match self {
            Self::Edit { id, .. }
            | Self::Delete { id, .. }
            | Self::Remove { id, .. }
            | Self::Repost { id, .. }
            | Self::Detach { id, .. } => Some(*id),
            Self::Comment(Comment { post, .. }) | Self::Uncomment { post, .. } | Self::Mark { post, .. } => Some(*post),
            _ => None,
        }
    }

    /// The existing comment that the action refers to.
    pub(crate) fn comment(&self) -> Option<u64> {
        match self {
            Self::Comment(comment) => comment.reply_to,
            Self::Uncomment { id, .. } | Self::Mark { mark: Mark::CommentLike, id, .. } => Some(*id),
            _ => None,
        }
    }

    /// The user who performs the action; empty: the backend.
    pub(crate) fn by(&self) -> User {
        match self {
            Self::Publish(Post { author: by, .. }) | Self::Comment(Comment { author: by, .. }) => by,
            Self::Set { from: by, .. }
            | Self::Lock { user: by, .. }
            | Self::Answer { by, .. }
            | Self::RemoveFollower { by, .. } => by,
            Self::Suspend { .. } | Self::Limit { .. } | Self::Remove { .. } | Self::Notify(_) => "",
            Self::CreateFilter(Filter { owner: by, .. })
            | Self::ChangeFilter { by, .. }
            | Self::DeleteFilter { by, .. }
            | Self::CreateList(List { owner: by, .. })
            | Self::SetExclusive { by, .. }
            | Self::SetMember { by, .. }
            | Self::FollowTopic { by, .. }
            | Self::DeleteList { by, .. } => by,
            Self::Edit { by, .. }
            | Self::Delete { by, .. }
            | Self::Uncomment { by, .. }
            | Self::Mark { by, .. }
            | Self::Detach { by, .. }
            | Self::Repost { by, .. } => by,
        }
    }

    /// The text of the post or comment that the action creates, the first word of the filter, or the name of the list.
    pub(crate) fn makes(&self) -> Option<&str> {
        match self {
            Self::Publish(Post { text, .. }) | Self::Comment(Comment { text, .. }) => Some(text),
            Self::CreateFilter(filter) => filter.words.first().map(String::as_str),
            Self::CreateList(list) => Some(&list.name),
            _ => None,
        }
    }

    /// Whether the action creates an object. A second repost of a post returns the first.
    pub(crate) fn creates(&self, model: &Model) -> bool {
        match self {
            Self::Repost { by, id, on: true, .. } => model.repost_by(by, model.meant_by(*id)).is_none(),
            _ => self.makes().is_some(),
        }
    }

    /// The whole response, if it says more than the model has.
    pub(crate) fn answer(&self) -> Option<Value> {
        let Self::Notify(AppNotification { to, unknown, .. }) = self else { return None };
        Some(json!({ "accepted": to.len(), "unknown": unknown.iter().collect::<Vec<_>>() }))
    }

    /// Whether a filter of the user changes.
    pub(crate) fn is_of_filter(&self) -> bool {
        matches!(self, Self::CreateFilter(_) | Self::ChangeFilter { .. } | Self::DeleteFilter { .. })
    }

    /// Whether a list or the followed topics of the user change.
    pub(crate) fn is_of_list(&self) -> bool {
        matches!(
            self,
            Self::CreateList(_)
                | Self::SetExclusive { .. }
                | Self::SetMember { .. }
                | Self::DeleteList { .. }
                | Self::FollowTopic { .. }
        )
    }

    /// Whether the model records notifications of the action.
    pub(crate) fn notifies(&self) -> bool {
        matches!(self, Self::Notify(_) | Self::Publish(Post { quote: Some(_), .. }))
    }

    /// The path of the list that contains the created object.
    pub(crate) fn list(&self) -> Option<String> {
        match self {
            Self::Publish(post) => Some(format!("/users/{}/posts", post.author)),
            Self::Comment(comment) => Some(thread(comment.post, comment.reply_to)),
            Self::CreateFilter(_) => Some("/filters".into()),
            Self::CreateList(_) => Some("/lists".into()),
            _ => None,
        }
    }

    /// Returns the same action with mapped ids.
    pub(crate) fn renamed(mut self, name: impl Fn(u64) -> u64) -> Self {
        match &mut self {
            Self::Edit { id, .. }
            | Self::Delete { id, .. }
            | Self::Remove { id, .. }
            | Self::Repost { id, .. }
            | Self::Detach { id, .. }
            | Self::ChangeFilter { id, .. }
            | Self::DeleteFilter { id, .. }
            | Self::SetExclusive { id, .. }
            | Self::SetMember { id, .. }
            | Self::DeleteList { id, .. } => *id = name(*id),
            Self::Uncomment { id, post, .. } | Self::Mark { id, post, .. } => (*id, *post) = (name(*id), name(*post)),
            Self::Comment(comment) => {
                comment.post = name(comment.post);
                comment.reply_to = comment.reply_to.map(name);
            }
            Self::Publish(post) => post.quote = post.quote.map(name),
            Self::Set { .. }
            | Self::Lock { .. }
            | Self::Answer { .. }
            | Self::RemoveFollower { .. }
            | Self::Suspend { .. }
            | Self::Limit { .. }
            | Self::CreateFilter(_)
            | Self::CreateList(_)
            | Self::FollowTopic { .. }
            | Self::Notify(_) => {}
        }
        self
    }

    /// Whether the action deletes an object. A retry may then return `not_found`.
    pub(crate) fn takes_away(&self) -> bool {
        matches!(
            self,
            Self::Delete { .. } | Self::Uncomment { .. } | Self::DeleteFilter { .. } | Self::DeleteList { .. }
        )
    }
}

fn set_or_end(on: bool) -> &'static str {
    if on { "PUT" } else { "DELETE" }
}
