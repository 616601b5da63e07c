//! What a round does, step by step: a function of its seed and of nothing else.
//!
//! It is planned on a model of its own, in which posts and comments are numbered as they are made. That works because
//! whatever goes wrong on the way, each act is done in the end: once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::actions::Act;
use crate::choices::choose;
use crate::model::{Edge, Model, Post, USERS, User, Visibility};
use crate::random::SeededRandom;
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
    /// Redis forgets everything: by a restart, nodes learn of it by lost connections or by their checks.
    LoseRedis {
        restart: bool,
        received: bool,
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
    /// The node is killed so long after it was asked, or after it answered.
    Killed(Moment, Duration),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Moment {
    Asked,
    Answered,
}

/// A round as it is planned.
pub(crate) struct Plan {
    pub(crate) bounds: Bounds,
    /// How many followers an author may have whose posts are written to each of them.
    pub(crate) push_limit: &'static str,
    random: SeededRandom,
    model: Model,
    nodes: usize,
    is_long: bool,
    /// How many posts and comments were made.
    made: u64,
    /// How many actions were chosen.
    chosen: usize,
    /// How many writes have a name, and how many of each user's.
    named: usize,
    named_by: BTreeMap<User, usize>,
    /// Whose sockets are there.
    there: BTreeSet<User>,
    /// What comes next in any case.
    ahead: VecDeque<Step>,
}

impl Plan {
    /// `is_long`: whether there is time for what nodes find out by themselves.
    pub(crate) fn new(seed: u64, stores: Stores, is_long: bool) -> Self {
        let mut random = SeededRandom::new(seed);
        Self {
            bounds: if seed.is_multiple_of(2) { Bounds::Wide } else { Bounds::Narrow },
            push_limit: *random.pick(&PUSH_LIMITS),
            random,
            model: Model::default(),
            nodes: stores.nodes(),
            is_long,
            made: 0,
            chosen: 0,
            named: 0,
            named_by: BTreeMap::new(),
            there: BTreeSet::new(),
            ahead: VecDeque::new(),
        }
    }

    /// What was done before anything is compared: more than a narrow inbox keeps.
    pub(crate) fn past(&mut self) -> Vec<Step> {
        let many = if self.bounds == Bounds::Narrow { 260 } else { 20 };
        (0..many).map(|_| self.act()).collect()
    }

    /// The next step, and the choices of what is looked at after it.
    pub(crate) fn next(&mut self) -> (Step, SeededRandom) {
        let step = self.ahead.pop_front().unwrap_or_else(|| self.choose());
        let looks = SeededRandom::new(self.random.below(usize::MAX) as u64);
        (step, looks)
    }

    fn choose(&mut self) -> Step {
        match self.random.below(100) {
            0..52 => self.act(),
            52..56 => self.miss(),
            56..60 => self.again(),
            60..68 => self.come_or_go(),
            68..86 => Step::Read,
            86..90 => {
                // Before it is done, or while what comes of it is carried.
                let (moment, longest) =
                    *self.random.pick(&[(Moment::Asked, 6_000), (Moment::Asked, 20_000), (Moment::Answered, 2_000)]);
                let after = Duration::from_micros(self.random.below(longest) as u64);
                self.deed(How::Killed(moment, after))
            }
            90..94 => {
                let (restart, received) = (self.random.below(3) == 0, self.random.below(2) == 0);
                Step::LoseRedis { restart, received: received || !self.is_long }
            }
            94..97 => Step::Quiet { home: self.random.below(self.nodes) },
            _ => Step::Wait(Duration::from_millis(self.random.below(100) as u64)),
        }
    }

    fn act(&mut self) -> Step {
        self.deed(How::Once)
    }

    /// Chooses an act.
    fn deed(&mut self, how: How) -> Step {
        self.chosen += 1;
        let is_killed = matches!(how, How::Killed(..));
        let mut act = choose(&mut self.random, &self.model, self.chosen);
        // What makes something can be done twice by mistake, above all when a node is killed.
        for _ in 0..if is_killed { 3 } else { 0 } {
            if act.makes().is_none() {
                act = choose(&mut self.random, &self.model, self.chosen);
            }
        }
        self.plan(act, how)
    }

    /// Plans an act: in the plan it is done at once.
    fn plan(&mut self, act: Act, mut how: How) -> Step {
        let is_killed = matches!(how, How::Killed(..));
        let is_named = self.random.below(if is_killed { 2 } else { 4 }) == 0;
        let key = is_named.then(|| {
            self.named += 1;
            let count = self.named_by.entry(act.by()).or_default();
            *count += 1;
            // Names are a user's own: others have the same.
            format!("write {count}")
        });
        if is_named && matches!(how, How::Once) && self.random.below(4) == 0 {
            how = How::AlsoAt(self.random.below(self.nodes));
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
        let oldest = if self.random.below(3) == 0 { 0 } else { self.named.saturating_sub(10) };
        let write = oldest + self.random.below(self.named - oldest);
        if self.random.below(6) == 0 {
            return Step::Misuse { write, text: format!("misuse of write {write}") };
        }
        Step::Repeat { write, node: self.random.below(self.nodes) }
    }

    /// While somebody is away a post comes for them, and then it is not for them any more.
    fn miss(&mut self) -> Step {
        let reader = *self.random.pick(&USERS);
        let authors = self.model.those(Edge::Follow, reader);
        if authors.is_empty() {
            return self.act();
        }
        let author = *self.random.pick(&authors);
        self.chosen += 1;
        let text = format!("post {} of {author}, missed", self.chosen);
        let post = Post { author, text: text.clone(), topic: None, visibility: Visibility::Public };
        let published = self.plan(Act::Publish(post), How::Once);
        let id = self.made;
        let set = |edge, from, to, on| Act::Set { edge, from, to, on };
        let lost = match self.random.below(6) {
            0 => set(Edge::Hide, author, reader, true),
            1 => set(Edge::Mute, reader, author, true),
            2 => set(Edge::Block, author, reader, true),
            3 => set(Edge::Follow, reader, author, false),
            4 => Act::Edit { by: author, id, text, visibility: Some(Visibility::NotTo(vec![reader])) },
            _ => Act::Delete { by: author, id },
        };
        let lost = self.plan(lost, How::Once);
        let back = Step::Go { user: reader, node: Some(self.random.below(self.nodes)), lets_inbox_go: false };
        self.there.insert(reader);
        self.ahead.extend([published, lost, back]);
        Step::Go { user: reader, node: None, lets_inbox_go: false }
    }

    fn come_or_go(&mut self) -> Step {
        let user = *self.random.pick(&USERS);
        let node = self.random.below(self.nodes);
        if self.there.contains(user) && self.random.below(3) == 0 {
            self.there.remove(user);
            // Away for long, the inbox is let go.
            return Step::Go { user, node: None, lets_inbox_go: self.random.below(2) == 0 };
        }
        self.there.insert(user);
        Step::Go { user, node: Some(node), lets_inbox_go: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(seed: u64) -> Vec<String> {
        let mut plan = Plan::new(seed, Stores::RedisAndPostgres, false);
        let past = plan.past().into_iter().map(|step| format!("{step:?}")).collect::<Vec<_>>();
        let steps = (0..1_000).map(|_| {
            let (step, mut looks) = plan.next();
            format!("{step:?}, {}", looks.below(1_000))
        });
        past.into_iter().chain(steps).collect()
    }

    #[test]
    fn a_seed_determines_the_whole_round() {
        for seed in [0, 1, 7] {
            assert_eq!(received(seed), received(seed));
            assert_ne!(received(seed), received(seed + 2));
        }
    }
}
