//! What users do. A new operation is a variant here: what is asked for, what must be answered, what it does to the model.

use serde_json::{Value, json};

use crate::dice::Dice;
use crate::model::{Comment, Edge, Mark, Model, Post, TOPICS, USERS, User, Visibility};

/// Something that a user does.
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
    /// Takes a comment away; `post`: the post that it is, or was, under.
    Uncomment {
        by: User,
        id: u64,
        post: u64,
    },
    Mark {
        mark: Mark,
        by: User,
        id: u64,
        on: bool,
    },
}

/// How an act is asked for over HTTP.
pub(crate) struct Call {
    pub(crate) user: User,
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) body: Value,
}

impl Act {
    pub(crate) fn call(&self) -> Call {
        match self {
            Self::Publish(post) => {
                let mut body = json!({ "text": post.text });
                if let Some(topic) = post.topic {
                    body["topics"] = json!([topic]);
                }
                if post.visibility != Visibility::Public {
                    body["visibility"] = as_json(&post.visibility);
                }
                Call { user: post.author, method: "POST", path: "/posts".into(), body }
            }
            Self::Edit { by, id, text, visibility } => {
                let mut body = json!({ "text": text });
                if let Some(visibility) = visibility {
                    body["visibility"] = as_json(visibility);
                }
                Call { user: by, method: "PATCH", path: format!("/posts/{id}"), body }
            }
            Self::Delete { by, id } => {
                Call { user: by, method: "DELETE", path: format!("/posts/{id}"), body: Value::Null }
            }
            Self::Set { edge, from, to, on } => {
                let what = match edge {
                    Edge::Follow => "follow",
                    Edge::Hide => "hide",
                    Edge::Mute => "mute",
                    Edge::Block => "block",
                };
                Call { user: from, method: set_or_end(*on), path: format!("/users/{to}/{what}"), body: Value::Null }
            }
            Self::Comment(comment) => {
                let (path, body) = (format!("/posts/{}/comments", comment.post), json!({ "text": comment.text }));
                Call { user: comment.author, method: "POST", path, body }
            }
            Self::Uncomment { by, id, .. } => {
                Call { user: by, method: "DELETE", path: format!("/comments/{id}"), body: Value::Null }
            }
            Self::Mark { mark, by, id, on } => {
                let path = match mark {
                    Mark::Like => format!("/posts/{id}/like"),
                    Mark::Favourite => format!("/favourites/post/{id}"),
                };
                Call { user: by, method: set_or_end(*on), path, body: Value::Null }
            }
        }
    }

    /// What must be answered if nothing fails.
    pub(crate) fn expected(&self, model: &Model) -> u16 {
        match self {
            Self::Publish(_) => 201,
            // Who is blocked is not told so; who blocks is.
            Self::Set { edge: Edge::Follow, from, to, on: true } if model.has(Edge::Block, to, from) => 404,
            Self::Set { edge: Edge::Follow, from, to, on: true } if model.has(Edge::Block, from, to) => 409,
            Self::Set { .. } => 200,
            Self::Edit { by, id, .. } | Self::Delete { by, id } => match model.posts.get(id) {
                Some(post) if post.author == *by => 200,
                // That there is something is not told to whom it is not shown.
                Some(post) if model.may_see(by, post, crate::model::Surface::Direct) => 403,
                _ => 404,
            },
            Self::Comment(comment) => {
                if model.finds(comment.author, comment.post) {
                    201
                } else {
                    404
                }
            }
            Self::Uncomment { by, id, post } => match model.comments.get(id) {
                Some(comment) if comment.author == *by => 200,
                Some(_) if !model.finds(by, *post) => 404,
                Some(_) if model.posts.get(post).is_some_and(|post| post.author == *by) => 200,
                Some(comment) if model.meets(by, comment.author) => 403,
                _ => 404,
            },
            // What one keeps one can always let go.
            Self::Mark { mark: Mark::Favourite, on: false, .. } => 200,
            Self::Mark { by, id, .. } => {
                if model.finds(by, *id) {
                    200
                } else {
                    404
                }
            }
        }
    }

    /// What it does. `answer` is the body of the answer, or what was found in its stead; `told` whether it was answered.
    pub(crate) fn apply(&self, model: &mut Model, answer: &Value, told: bool) {
        match self {
            Self::Publish(post) => model.publish(answer["id"].as_u64().expect("an id"), post.clone()),
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
            Self::Set { edge, from, to, on } => {
                let was = model.has(*edge, from, to);
                if was != *on {
                    model.set(*edge, from, to, *on);
                    if told && *edge == Edge::Follow && *on {
                        model.brought_in(from, to);
                    }
                }
            }
            Self::Comment(comment) => model.comment(answer["id"].as_u64().expect("an id"), comment.clone()),
            Self::Uncomment { id, .. } => drop(model.comments.remove(id)),
            Self::Mark { mark, by, id, on } => model.mark(*mark, by, *id, *on),
        }
    }

    /// The post that it is about, if it was there before.
    pub(crate) fn post(&self) -> Option<u64> {
        match self {
            Self::Edit { id, .. } | Self::Delete { id, .. } | Self::Mark { id, .. } => Some(*id),
            Self::Comment(Comment { post, .. }) | Self::Uncomment { post, .. } => Some(*post),
            Self::Publish(_) | Self::Set { .. } => None,
        }
    }

    /// Who does it.
    pub(crate) fn by(&self) -> User {
        match self {
            Self::Publish(Post { author: by, .. }) | Self::Comment(Comment { author: by, .. }) => by,
            Self::Set { from: by, .. } => by,
            Self::Edit { by, .. } | Self::Delete { by, .. } | Self::Uncomment { by, .. } | Self::Mark { by, .. } => by,
        }
    }

    /// A list that what it makes is in, where its maker sees it.
    pub(crate) fn listed(&self) -> Option<(String, &str)> {
        match self {
            Self::Publish(post) => Some((format!("/users/{}/posts", post.author), &post.text)),
            Self::Comment(comment) => Some((format!("/posts/{}/comments", comment.post), &comment.text)),
            _ => None,
        }
    }

    /// Whether it takes something away for good: who asks again may be told that it is not there.
    pub(crate) fn takes_away(&self) -> bool {
        matches!(self, Self::Delete { .. } | Self::Uncomment { .. })
    }
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

/// The operations that this server has: the rest of the acts are not chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Has {
    pub(crate) audience: bool,
    pub(crate) editing: bool,
}

impl Has {
    pub(crate) fn look() -> Self {
        let operations = feedline::feed::operations::Operations::new();
        let has = |name| operations.by_rpc(name).is_some();
        Self { audience: has("users.hide"), editing: has("posts.edit") }
    }
}

/// Chooses what somebody does next.
pub(crate) fn choose(dice: &mut Dice, model: &Model, has: Has, number: usize) -> Act {
    let by = *dice.pick(&USERS);
    let other = |dice: &mut Dice| loop {
        let other = *dice.pick(&USERS);
        if other != by {
            return other;
        }
    };
    let of_whom = |dice: &mut Dice| {
        // Mostly one's own, now and then somebody else's or one that is gone.
        let mine: Vec<u64> = model.posts.iter().filter(|(_, post)| post.author == by).map(|(id, _)| *id).collect();
        let all: Vec<u64> = model.posts.keys().chain(&model.deleted).copied().collect();
        let from = if dice.below(8) > 0 && !mine.is_empty() { mine } else { all };
        (!from.is_empty()).then(|| *dice.pick(&from))
    };
    match dice.below(32) {
        0..2 => {
            if let Some(id) = of_whom(dice) {
                return Act::Delete { by, id };
            }
        }
        2 if has.editing => {
            if let Some(id) = of_whom(dice) {
                let changes = has.audience && dice.below(2) == 0;
                let visibility = changes.then(|| some_visibility(dice));
                return Act::Edit { by, id, text: format!("edit {number}"), visibility };
            }
        }
        3..8 => {
            let to = other(dice);
            // Now and then what is so already.
            let on = model.has(Edge::Follow, by, to) == (dice.below(10) == 0);
            return Act::Set { edge: Edge::Follow, from: by, to, on };
        }
        8..11 if has.audience => {
            let (to, edge) = (other(dice), *dice.pick(&[Edge::Hide, Edge::Mute, Edge::Block]));
            // They end sooner than they are made, or soon nobody would see anybody.
            let on = !model.has(edge, by, to) && dice.below(3) > 0;
            return Act::Set { edge, from: by, to, on };
        }
        20..24 => {
            if let Some(post) = any_post(dice, model) {
                return Act::Comment(Comment { author: by, post, text: format!("comment {number}") });
            }
        }
        24 => {
            let all: Vec<(u64, u64)> = model.comments.iter().map(|(id, comment)| (*id, comment.post)).collect();
            if !all.is_empty() {
                let (id, post) = *dice.pick(&all);
                // Mostly by one of the two who can.
                let two = [model.comments[&id].author, model.posts[&post].author];
                let by = if dice.below(4) == 0 { by } else { *dice.pick(&two) };
                return Act::Uncomment { by, id, post };
            }
        }
        25..32 => {
            if let Some(id) = any_post(dice, model) {
                let mark = *dice.pick(&[Mark::Like, Mark::Favourite]);
                let on = model.marked(mark, by, id) == (dice.below(6) == 0);
                return Act::Mark { mark, by, id, on };
            }
        }
        _ => {}
    }
    let visibility = if has.audience { some_visibility(dice) } else { Visibility::Public };
    let topic = (dice.below(3) == 0).then(|| *dice.pick(&TOPICS));
    Act::Publish(Post { author: by, text: format!("post {number} of {by}"), topic, visibility })
}

/// One of the newest posts, so that much comes to some of them; now and then any, or one that is gone.
fn any_post(dice: &mut Dice, model: &Model) -> Option<u64> {
    let all: Vec<u64> = match dice.below(8) {
        0 => model.posts.keys().chain(&model.deleted).copied().collect(),
        _ => model.posts.keys().rev().take(10).copied().collect(),
    };
    (!all.is_empty()).then(|| *dice.pick(&all))
}

fn some_visibility(dice: &mut Dice) -> Visibility {
    let some = |dice: &mut Dice| {
        let mut those: Vec<User> = USERS.into_iter().filter(|_| dice.below(2) == 0).collect();
        if those.is_empty() {
            those.push(USERS[0]);
        }
        those
    };
    match dice.below(12) {
        0 => Visibility::Followers,
        1 => Visibility::Friends,
        2 => Visibility::OnlyTo(some(dice)),
        3 => Visibility::NotTo(some(dice)),
        _ => Visibility::Public,
    }
}
