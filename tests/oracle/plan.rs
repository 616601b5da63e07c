//! What a round does, step by step: a function of its seed and of nothing else.
//!
//! It is planned on a model of its own, in which posts and comments are numbered as they are made. That works because
//! whatever goes wrong on the way, each act is done in the end: once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::acts::Act;
use crate::dice::Dice;
use crate::model::{Comment, Edge, Mark, Model, Post, TOPICS, USERS, User, Visibility};
use crate::world::{Bounds, Stores};

/// How many followers an author may have whose posts are written to each of them: more than there are, as many as some
/// have from time to time, none.
const PUSH_LIMITS: [&str; 3] = ["10000", "2", "0"];

/// What happens next.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Do(Deed),
    /// A named write is asked for again, at this node. It is the so-manieth.
    Repeat {
        write: usize,
        node: usize,
    },
    /// The name of a write is given to another one by its user.
    Misuse {
        write: usize,
        text: String,
    },
    /// Somebody's socket goes to a node, or away.
    Go {
        user: User,
        node: Option<usize>,
        lets_inbox_go: bool,
    },
    /// Somebody reads on in their timeline.
    Read,
    /// Redis forgets everything: by a restart, or else nodes are told by the loss of their lines, or find out.
    LoseRedis {
        restart: bool,
        told: bool,
    },
    /// Nothing is done until all has arrived; then this node is asked.
    Quiet {
        home: usize,
    },
    Wait(Duration),
}

/// An act, and how it is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Deed {
    pub(crate) act: Act,
    /// Its name among its user's writes.
    pub(crate) key: Option<String>,
    pub(crate) how: How,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    Once,
    /// At the same time at this node too; it has a name.
    AlsoAt(usize),
    /// The node is killed so long after.
    Killed(Duration),
}

/// A round as it is planned.
pub(crate) struct Plan {
    pub(crate) bounds: Bounds,
    /// How many followers an author may have whose posts are written to each of them.
    pub(crate) push_limit: &'static str,
    dice: Dice,
    model: Model,
    nodes: usize,
    is_long: bool,
    /// How many posts and comments were made.
    made: u64,
    /// How many acts were chosen.
    chosen: usize,
    /// How many writes have a name, and how many of each user's.
    named: usize,
    named_by: BTreeMap<User, usize>,
    /// Whose sockets are there.
    there: BTreeSet<User>,
}

impl Plan {
    /// `is_long`: whether there is time for what nodes find out by themselves.
    pub(crate) fn new(seed: u64, stores: Stores, is_long: bool) -> Self {
        let mut dice = Dice::new(seed);
        Self {
            bounds: if seed.is_multiple_of(2) { Bounds::Wide } else { Bounds::Narrow },
            push_limit: *dice.pick(&PUSH_LIMITS),
            dice,
            model: Model::default(),
            nodes: stores.nodes(),
            is_long,
            made: 0,
            chosen: 0,
            named: 0,
            named_by: BTreeMap::new(),
            there: BTreeSet::new(),
        }
    }

    /// What was done before anything is compared: more than a narrow inbox keeps.
    pub(crate) fn past(&mut self) -> Vec<Step> {
        let many = if self.bounds == Bounds::Narrow { 260 } else { 20 };
        (0..many).map(|_| self.act()).collect()
    }

    /// The next step, and the choices of what is looked at after it.
    pub(crate) fn next(&mut self) -> (Step, Dice) {
        let step = match self.dice.below(100) {
            0..56 => self.act(),
            56..60 => self.again(),
            60..68 => self.come_or_go(),
            68..86 => Step::Read,
            86..90 => {
                let after = Duration::from_micros(self.dice.below(6_000) as u64);
                self.deed(How::Killed(after))
            }
            90..94 => {
                let (restart, told) = (self.dice.below(3) == 0, self.dice.below(2) == 0);
                Step::LoseRedis { restart, told: told || !self.is_long }
            }
            94..97 => Step::Quiet { home: self.dice.below(self.nodes) },
            _ => Step::Wait(Duration::from_millis(self.dice.below(100) as u64)),
        };
        let looks = Dice::new(self.dice.below(usize::MAX) as u64);
        (step, looks)
    }

    fn act(&mut self) -> Step {
        self.deed(How::Once)
    }

    /// Chooses an act. In the plan it is done at once.
    fn deed(&mut self, mut how: How) -> Step {
        self.chosen += 1;
        let act = choose(&mut self.dice, &self.model, self.chosen);
        let is_named = self.dice.below(4) == 0;
        let key = is_named.then(|| {
            self.named += 1;
            let count = self.named_by.entry(act.by()).or_default();
            *count += 1;
            // Names are a user's own: others have the same.
            format!("write {count}")
        });
        if is_named && matches!(how, How::Once) && self.dice.below(4) == 0 {
            how = How::AlsoAt(self.dice.below(self.nodes));
        }
        if act.expected(&self.model) < 300 {
            let made = act.makes().map(|_| {
                self.made += 1;
                self.made
            });
            act.apply(&mut self.model, made, true);
        }
        Step::Do(Deed { act, key, how })
    }

    /// A write that was done is named again: mostly one of the last.
    fn again(&mut self) -> Step {
        if self.named == 0 {
            return self.act();
        }
        let oldest = if self.dice.below(3) == 0 { 0 } else { self.named.saturating_sub(10) };
        let write = oldest + self.dice.below(self.named - oldest);
        if self.dice.below(6) == 0 {
            return Step::Misuse { write, text: format!("misuse of write {write}") };
        }
        Step::Repeat { write, node: self.dice.below(self.nodes) }
    }

    fn come_or_go(&mut self) -> Step {
        let user = *self.dice.pick(&USERS);
        let node = self.dice.below(self.nodes);
        if self.there.contains(user) && self.dice.below(3) == 0 {
            self.there.remove(user);
            // Away for long, the inbox is let go.
            return Step::Go { user, node: None, lets_inbox_go: self.dice.below(2) == 0 };
        }
        self.there.insert(user);
        Step::Go { user, node: Some(node), lets_inbox_go: false }
    }
}

/// Chooses what somebody does next.
fn choose(dice: &mut Dice, model: &Model, number: usize) -> Act {
    let by = *dice.pick(&USERS);
    let chosen = match dice.below(36) {
        0..2 => one_of_whom(dice, model, by).map(|id| Act::Delete { by, id }),
        2 => one_of_whom(dice, model, by).map(|id| {
            let visibility = (dice.below(2) == 0).then(|| some_visibility(dice));
            Act::Edit { by, id, text: format!("edit {number}"), visibility }
        }),
        3..8 => {
            // Often back: much hangs on who are friends.
            let followers = model.those_to(Edge::Follow, by);
            let to = if followers.is_empty() || dice.below(2) == 0 { other(dice, by) } else { *dice.pick(&followers) };
            // Now and then what is so already.
            let on = model.has(Edge::Follow, by, to) == (dice.below(10) == 0);
            Some(Act::Set { edge: Edge::Follow, from: by, to, on })
        }
        8..11 => {
            let (to, edge) = (other(dice, by), *dice.pick(&[Edge::Hide, Edge::Mute, Edge::Block]));
            // They end sooner than they are made, or soon nobody would see anybody.
            let on = !model.has(edge, by, to) && dice.below(3) > 0;
            Some(Act::Set { edge, from: by, to, on })
        }
        20..25 => comment(dice, model, by, number),
        25..27 => uncomment(dice, model, by),
        27..33 => {
            let mark = *dice.pick(&[Mark::Like, Mark::Favourite]);
            any_post(dice, model).map(|id| mark_or_not(dice, model, mark, by, (id, id)))
        }
        33..36 => any_comment(dice, model)
            .map(|(id, comment)| mark_or_not(dice, model, Mark::CommentLike, by, (id, comment.post))),
        _ => None,
    };
    chosen.unwrap_or_else(|| {
        let visibility = some_visibility(dice);
        let topic = (dice.below(3) == 0).then(|| *dice.pick(&TOPICS));
        Act::Publish(Post { author: by, text: format!("post {number} of {by}"), topic, visibility })
    })
}

fn other(dice: &mut Dice, by: User) -> User {
    loop {
        let other = *dice.pick(&USERS);
        if other != by {
            return other;
        }
    }
}

fn one_of(dice: &mut Dice, those: &[u64]) -> Option<u64> {
    (!those.is_empty()).then(|| *dice.pick(those))
}

/// A post, mostly one's own, now and then somebody else's or one that is gone.
fn one_of_whom(dice: &mut Dice, model: &Model, by: User) -> Option<u64> {
    let mine: Vec<u64> = model.posts.iter().filter(|(_, post)| post.author == by).map(|(id, _)| *id).collect();
    let all: Vec<u64> = model.posts.keys().chain(&model.deleted).copied().collect();
    let from = if dice.below(8) > 0 && !mine.is_empty() { mine } else { all };
    one_of(dice, &from)
}

/// One of the newest posts, so that much comes to some of them; now and then any, or one that is gone.
fn any_post(dice: &mut Dice, model: &Model) -> Option<u64> {
    let all: Vec<u64> = match dice.below(8) {
        0 => model.posts.keys().chain(&model.deleted).copied().collect(),
        _ => model.posts.keys().rev().take(10).copied().collect(),
    };
    one_of(dice, &all)
}

/// One of the newest comments, now and then any; some of them are deleted and stay.
fn any_comment<'a>(dice: &mut Dice, model: &'a Model) -> Option<(u64, &'a Comment)> {
    let many = if dice.below(8) == 0 { usize::MAX } else { 10 };
    let all: Vec<u64> = model.comments.keys().rev().take(many).copied().collect();
    one_of(dice, &all).map(|id| (id, &model.comments[&id]))
}

/// Half of what is said is said in reply, so that threads grow.
fn comment(dice: &mut Dice, model: &Model, by: User, number: usize) -> Option<Act> {
    let parent = if dice.below(2) == 0 { any_comment(dice, model) } else { None };
    let (post, reply_to) = match parent {
        Some((id, parent)) => (parent.post, Some(id)),
        None => (any_post(dice, model)?, None),
    };
    Some(Act::Comment(Comment { author: by, post, reply_to, text: format!("comment {number}") }))
}

fn uncomment(dice: &mut Dice, model: &Model, by: User) -> Option<Act> {
    let (id, comment) = any_comment(dice, model)?;
    // Mostly by one of the two who can.
    let two = [comment.author, model.posts[&comment.post].author];
    let by = if dice.below(4) == 0 { by } else { *dice.pick(&two) };
    Some(Act::Uncomment { by, id, post: comment.post })
}

/// Marks what is not marked, or takes a mark away; now and then what is so already. Or, as often, takes another one away.
fn mark_or_not(dice: &mut Dice, model: &Model, mark: Mark, by: User, (id, post): (u64, u64)) -> Act {
    let mine = model.marked_by(mark, by);
    let (id, post) = match one_of(dice, &mine) {
        Some(mine) if dice.below(3) == 0 => (mine, model.comments.get(&mine).map_or(mine, |comment| comment.post)),
        _ => (id, post),
    };
    let finds = mark == Mark::Favourite || model.finds(by, post) && (id == post || model.finds_comment(by, id));
    // A like that cannot be seen any more is not taken back: while the ledger is slow that is done on trust, and stays done.
    let on = !finds || model.marked(mark, by, id) == (dice.below(6) == 0);
    Act::Mark { mark, by, id, post, on }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn told(seed: u64) -> Vec<String> {
        let mut plan = Plan::new(seed, Stores::RedisAndPostgres, false);
        let past = plan.past().into_iter().map(|step| format!("{step:?}")).collect::<Vec<_>>();
        let steps = (0..1_000).map(|_| {
            let (step, mut looks) = plan.next();
            format!("{step:?}, {}", looks.below(1_000))
        });
        past.into_iter().chain(steps).collect()
    }

    #[test]
    fn a_seed_says_all_that_a_round_does() {
        for seed in [0, 1, 7] {
            assert_eq!(told(seed), told(seed));
            assert_ne!(told(seed), told(seed + 2));
        }
    }
}
