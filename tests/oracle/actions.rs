//! User actions. To add an operation, add a variant here with its request, its expected status, and its effect on the
//! model.

use serde_json::{Value, json};

use crate::model::{Comment, Edge, Mark, Model, Post, User, ViewContext, Visibility};

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
    },
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
                    body["visibility"] = as_json(&post.visibility);
                }
                if let Some(quoted) = post.quote {
                    body["quote"] = json!(quoted);
                }
                ("POST", "/posts".into(), body)
            }
            Self::Edit { id, text, visibility, .. } => {
                let mut body = json!({ "text": text });
                if let Some(visibility) = visibility {
                    body["visibility"] = as_json(visibility);
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
            Self::Remove { id, on } => (set_or_end(*on), format!("/posts/{id}/removal"), Value::Null),
            Self::Repost { id, on, .. } => (set_or_end(*on), format!("/posts/{id}/repost"), Value::Null),
        }
    }

    /// Whether a user may name a post: repost it, or quote it.
    fn expected_naming(model: &Model, by: User, id: u64, is_repost: bool) -> u16 {
        let meant = model.meant_by(id);
        if !model.finds(by, id) {
            return 404;
        }
        let post = &model.posts[&meant];
        let is_for_all = matches!(post.visibility, Visibility::Public | Visibility::NotTo(_));
        let is_open = is_for_all && !model.locks.locked.contains(post.author);
        // A user who mutes the author would not see the repost.
        let is_repostable = post.author == by || (is_open && !model.has(Edge::Mute, by, post.author));
        let is_refused = post.is_removed || (is_repost && !is_repostable);
        if is_refused { 403 } else { 200 }
    }

    /// The expected status if no server or store fails.
    pub(crate) fn expected(&self, model: &Model) -> u16 {
        match self {
            _ if model.suspended.contains(self.by()) => 403,
            Self::Suspend { .. } => 200,
            Self::Remove { id, .. } => {
                if model.posts.contains_key(id) {
                    200
                } else {
                    404
                }
            }
            Self::Publish(Post { author, quote: Some(quoted), .. }) => {
                match Self::expected_naming(model, author, *quoted, false) {
                    200 => 201,
                    refused => refused,
                }
            }
            Self::Publish(_) => 201,
            Self::Repost { on: false, .. } => 200,
            Self::Repost { by, id, .. } => Self::expected_naming(model, by, *id, true),
            // A follower blocked by the followee gets 404; a follower who blocks the followee gets 409.
            Self::Set { edge: Edge::Follow, from, to, on: true } if model.has(Edge::Block, to, from) => 404,
            Self::Set { edge: Edge::Follow, to, on: true, .. } if model.suspended.contains(to) => 404,
            Self::Set { edge: Edge::Follow, from, to, on: true } if model.has(Edge::Block, from, to) => 409,
            Self::Answer { by, from, accepts: true } => {
                let is_there = model.locks.is_shown(from, by) || model.has(Edge::Follow, from, by);
                if is_there { 200 } else { 404 }
            }
            Self::Set { .. } | Self::Lock { .. } | Self::Answer { .. } | Self::RemoveFollower { .. } => 200,
            // Applies to the reposted post.
            Self::Edit { by, id, .. }
                if model.posts.get(id).is_some_and(|it| it.author == *by && it.repost.is_some()) =>
            {
                if model.finds(by, *id) { 400 } else { 404 }
            }
            Self::Comment(Comment { author: by, post: id, .. })
            | Self::Mark { mark: Mark::Like, by, id, .. }
            | Self::Mark { mark: Mark::Favourite, by, id, on: true, .. }
                if model.finds(by, *id) && model.meant_by(*id) != *id =>
            {
                400
            }
            Self::Edit { by, id, .. } if model.posts.get(id).is_some_and(|it| it.author == *by && it.is_removed) => 403,
            Self::Edit { by, id, .. } | Self::Delete { by, id } => match model.posts.get(id) {
                Some(post) if post.author == *by => 200,
                // Existence is not revealed to users who cannot see it.
                Some(post) if model.may_see(by, post, ViewContext::Direct) => 403,
                _ => 404,
            },
            Self::Comment(comment) => {
                let Comment { author, post, reply_to, .. } = comment;
                // Only its author finds a removed post, and nobody comments on it.
                if model.finds(author, *post) && model.posts[post].is_removed {
                    403
                } else if model.finds(author, *post)
                    && reply_to.is_none_or(|parent| model.finds_comment(author, parent))
                {
                    201
                } else {
                    404
                }
            }
            Self::Uncomment { by, id, post } => match model.comments.get(id) {
                _ if model.emptied.contains(id) => 404,
                Some(comment) if comment.author == *by => 200,
                Some(_) if !model.finds(by, *post) => 404,
                Some(_) if model.posts.get(post).is_some_and(|post| post.author == *by) => 200,
                Some(_) if model.finds_comment(by, *id) => 403,
                _ => 404,
            },
            // A user can always remove their own favourites.
            Self::Mark { mark: Mark::Favourite, on: false, .. } => 200,
            Self::Mark { mark, by, id, .. } => {
                let finds =
                    if *mark == Mark::CommentLike { model.finds_comment(by, *id) } else { model.finds(by, *id) };
                if finds { 200 } else { 404 }
            }
        }
    }

    /// Applies the action to the model. `made`: the id of the created object. `received`: whether the first attempt got
    /// an answer.
    pub(crate) fn apply(&self, model: &mut Model, made: Option<u64>, received: bool) {
        match self {
            Self::Publish(post) => {
                let quote = post.quote.map(|id| model.meant_by(id));
                model.publish(made.expect("an id"), Post { quote, ..post.clone() });
            }
            Self::Repost { by, id, on: true } => {
                let meant = model.meant_by(*id);
                if let Some(made) = made {
                    let post = &model.posts[&meant];
                    let visibility = if post.author == *by { post.visibility.clone() } else { Visibility::Public };
                    let repost = Post { repost: Some(meant), ..Post::new(by, String::new(), visibility) };
                    model.publish(made, repost);
                }
            }
            Self::Repost { by, id, on: false } => {
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
            Self::Remove { id, on } => model.remove(*id, *on),
        }
    }

    /// The existing post that the action refers to.
    pub(crate) fn post(&self) -> Option<u64> {
        match self {
            Self::Edit { id, .. } | Self::Delete { id, .. } | Self::Remove { id, .. } | Self::Repost { id, .. } => {
                Some(*id)
            }
            Self::Comment(Comment { post, .. }) | Self::Uncomment { post, .. } | Self::Mark { post, .. } => Some(*post),
            Self::Publish(_)
            | Self::Set { .. }
            | Self::Lock { .. }
            | Self::Answer { .. }
            | Self::RemoveFollower { .. }
            | Self::Suspend { .. } => None,
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
            Self::Suspend { .. } | Self::Remove { .. } => "",
            Self::Edit { by, .. }
            | Self::Delete { by, .. }
            | Self::Uncomment { by, .. }
            | Self::Mark { by, .. }
            | Self::Repost { by, .. } => by,
        }
    }

    /// The text of the post or comment that the action creates.
    pub(crate) fn makes(&self) -> Option<&str> {
        match self {
            Self::Publish(Post { text, .. }) | Self::Comment(Comment { text, .. }) => Some(text),
            _ => None,
        }
    }

    /// Whether the action creates an object. A second repost of a post returns the first.
    pub(crate) fn creates(&self, model: &Model) -> bool {
        match self {
            Self::Repost { by, id, on: true } => model.repost_by(by, model.meant_by(*id)).is_none(),
            _ => self.makes().is_some(),
        }
    }

    /// The path of the list that contains the created object.
    pub(crate) fn list(&self) -> Option<String> {
        match self {
            Self::Publish(post) => Some(format!("/users/{}/posts", post.author)),
            Self::Comment(comment) => Some(thread(comment.post, comment.reply_to)),
            _ => None,
        }
    }

    /// Returns the same action with mapped ids.
    pub(crate) fn renamed(mut self, name: impl Fn(u64) -> u64) -> Self {
        match &mut self {
            Self::Edit { id, .. } | Self::Delete { id, .. } | Self::Remove { id, .. } | Self::Repost { id, .. } => {
                *id = name(*id);
            }
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
            | Self::Suspend { .. } => {}
        }
        self
    }

    /// Whether the action deletes an object. A retry may then return `not_found`.
    pub(crate) fn takes_away(&self) -> bool {
        matches!(self, Self::Delete { .. } | Self::Uncomment { .. })
    }
}

/// The path of the comments on a post, or of the replies to one of them.
pub(crate) fn thread(post: u64, parent: Option<u64>) -> String {
    let under = parent.map(|id| format!("?reply_to={id}")).unwrap_or_default();
    format!("/posts/{post}/comments{under}")
}

fn set_or_end(on: bool) -> &'static str {
    if on { "PUT" } else { "DELETE" }
}

fn as_json(of: &Visibility) -> Value {
    match of {
        Visibility::Public => json!("public"),
        Visibility::Followers => json!("followers"),
        Visibility::Friends => json!("friends"),
        Visibility::OnlyTo(those) => json!({ "only_to": those }),
        Visibility::NotTo(those) => json!({ "not_to": those }),
    }
}
