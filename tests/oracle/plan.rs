//! The steps of a round, determined by its seed alone.
//!
//! The plan has its own model, which numbers posts and comments in order of creation. This works because each action is
//! done exactly once in the end, regardless of failures.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::actions::Act;
use crate::choices::choose;
use crate::model::{Edge, Model, Post, USERS, User, Visibility};
use crate::random::SeededRandom;
use crate::world::{Bounds, Stores};

/// Values of `fanout.push_limit`, the follower count up to which posts are written to every follower's inbox: more
/// followers than exist, a count that authors reach at times, and none.
const PUSH_LIMITS: [&str; 3] = ["10000", "2", "0"];

/// A step of a round.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Do(Deed),
    /// Repeats the write with this number, with its idempotency key, at this node.
    Repeat {
        write: usize,
        node: usize,
    },
    /// Sends a different write with the idempotency key of an earlier one.
    Misuse {
        write: usize,
        text: String,
    },
    /// Connects a user's socket to a node, or disconnects it.
    Go {
        user: User,
        node: Option<usize>,
        lets_inbox_go: bool,
    },
    /// Reads the next pages of a timeline.
    Read,
    /// Redis loses all data. Nodes detect it by lost connections (`restart`, `received`) or by their own checks.
    LoseRedis {
        restart: bool,
        received: bool,
    },
    /// Waits until all deliveries are complete, and then makes this node the home node.
    Quiet {
        home: usize,
    },
    Wait(Duration),
}

/// An action and how it is requested.
#[derive(Clone, Debug)]
pub(crate) struct Deed {
    pub(crate) act: Act,
    /// Its idempotency key.
    pub(crate) key: Option<String>,
    pub(crate) how: How,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    Once,
    /// Also sent to this node at the same time, with an idempotency key.
    AlsoAt(usize),
    /// The node is killed this long after the request was sent, or after it was answered.
    Killed(Moment, Duration),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Moment {
    Asked,
    Answered,
}

/// The generator of a round's steps.
pub(crate) struct Plan {
    pub(crate) bounds: Bounds,
    /// The follower count up to which an author's posts are written to every follower's inbox.
    pub(crate) push_limit: &'static str,
    random: SeededRandom,
    model: Model,
    nodes: usize,
    is_long: bool,
    /// The number of created posts and comments.
    made: u64,
    /// The number of chosen actions.
    chosen: usize,
    /// The number of writes with an idempotency key, in total and per user.
    named: usize,
    named_by: BTreeMap<User, usize>,
    /// The users with a connected socket.
    there: BTreeSet<User>,
    /// Steps that must come next.
    ahead: VecDeque<Step>,
}

impl Plan {
    /// `is_long`: whether the round may include failures that nodes detect only by their periodic checks.
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

    /// The steps before the first comparison: more posts than a narrow inbox keeps.
    pub(crate) fn past(&mut self) -> Vec<Step> {
        let many = if self.bounds == Bounds::Narrow { 260 } else { 20 };
        (0..many).map(|_| self.act()).collect()
    }

    /// Returns the next step, and a generator for the comparisons after it.
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
                // The node dies before the write is done, or during its delivery.
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

    /// Chooses an action.
    fn deed(&mut self, how: How) -> Step {
        self.chosen += 1;
        let is_killed = matches!(how, How::Killed(..));
        let mut act = choose(&mut self.random, &self.model, self.chosen);
        // Prefer actions that create objects: a retry could create them twice, above all after a kill.
        for _ in 0..if is_killed { 3 } else { 0 } {
            if act.makes().is_none() && !matches!(act, Act::Notify(_)) {
                act = choose(&mut self.random, &self.model, self.chosen);
            }
        }
        self.plan(act, how)
    }

    /// Adds an action to the plan's model at once, and returns it as a step.
    fn plan(&mut self, act: Act, mut how: How) -> Step {
        let is_killed = matches!(how, How::Killed(..));
        // A suspended user's write is refused before its key is used.
        let sends = matches!(act, Act::Notify(_));
        let is_of_user = !act.by().is_empty() && !self.model.suspended.contains(act.by());
        // A repeated request has another `until`, which the same key would refuse.
        let has_key = (sends || is_of_user) && !act.has_end();
        // Nobody can look up whether a notification was sent.
        let needs_key = sends && is_killed;
        let is_named = (self.random.below(if is_killed { 2 } else { 4 }) == 0 || needs_key) && has_key;
        let key = is_named.then(|| {
            self.named += 1;
            let count = self.named_by.entry(act.by()).or_default();
            *count += 1;
            // Idempotency keys are scoped to a user: different users have the same ones.
            format!("write {count}")
        });
        if is_named && matches!(how, How::Once) && self.random.below(4) == 0 {
            how = How::AlsoAt(self.random.below(self.nodes));
        }
        if act.expected(&self.model) < 300 {
            let made = act.creates(&self.model).then(|| {
                self.made += 1;
                self.made
            });
            act.apply(&mut self.model, made, true);
            act.end(&mut self.model);
            // Their sockets are closed: see `Run::act`.
            let is_closed = |user: &User| matches!(act, Act::SuspendBriefly { user: suspended } if suspended == *user);
            self.there.retain(|user| !self.model.suspended.contains(user) && !is_closed(user));
        }
        Step::Do(Deed { act, key, how })
    }

    /// Repeats a write with its idempotency key, mostly a recent one.
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

    /// While a user is disconnected, a post arrives in their timeline and leaves it again.
    fn miss(&mut self) -> Step {
        let reader = *self.random.pick(&USERS);
        let authors = self.model.those(Edge::Follow, reader);
        if authors.is_empty() {
            return self.act();
        }
        let author = *self.random.pick(&authors);
        if [reader, author].iter().any(|user| self.model.suspended.contains(user)) {
            return self.act();
        }
        self.chosen += 1;
        let text = format!("post {} of {author}, missed", self.chosen);
        let visibility = Visibility::Public;
        let post = Post::new(author, text.clone(), visibility);
        let published = self.plan(Act::Publish(post), How::Once);
        let id = self.made;
        let set = |edge, from, to, on| Act::Set { edge, from, to, on };
        let lost = match self.random.below(6) {
            0 => set(Edge::Hide, author, reader, true),
            1 => set(Edge::Mute, reader, author, true),
            2 => set(Edge::Block, author, reader, true),
            3 => set(Edge::Follow, reader, author, false),
            4 => {
                let visibility = Some(Visibility::NotTo(vec![reader]));
                Act::Edit { by: author, id, text, visibility, comment_policy: None }
            }
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
        if self.model.suspended.contains(user) {
            return self.act();
        }
        if self.there.contains(user) && self.random.below(3) == 0 {
            self.there.remove(user);
            // The server may drop the inbox of a user who is away for long.
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

    /// The name of the variant of an action, or of a part of it.
    fn name(act: &impl std::fmt::Debug) -> String {
        format!("{act:?}").chars().take_while(|character| character.is_alphanumeric()).collect()
    }

    #[test]
    fn rounds_have_every_action() {
        let mut chosen = BTreeSet::new();
        for seed in 0..5 {
            let mut plan = Plan::new(seed, Stores::RedisAndPostgres, false);
            for _ in 0..2_000 {
                if let (Step::Do(Deed { act, .. }), _) = plan.next() {
                    chosen.insert(name(&act));
                    if let Act::ChangeFilter { change, .. } = act {
                        chosen.insert(name(&change));
                    }
                }
            }
        }
        let all = "Publish Edit Delete Set Comment Uncomment RemoveComment Mark Lock SetQuotable Pin Answer \
                   RemoveFollower Suspend Limit Remove Repost Detach DetachAll CreateFilter ChangeFilter \
                   DeleteFilter CreateList SetExclusive RenameList SetMember DeleteList FollowTopic Notify Report \
                   CloseReport MuteBriefly SuspendBriefly Words Hides Contexts Whole End";
        let missing: Vec<&str> = all.split(' ').filter(|name| !chosen.contains(*name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn a_seed_determines_the_whole_round() {
        for seed in [0, 1, 7] {
            assert_eq!(received(seed), received(seed));
            assert_ne!(received(seed), received(seed + 2));
        }
    }
}
