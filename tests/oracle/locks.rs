//! The rules of locked accounts and of requests to follow them.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Edge, Model, User};

/// The locked accounts and the requests.
#[derive(Default)]
pub(crate) struct Locks {
    pub(crate) locked: BTreeSet<User>,
    /// The open requests of a follower to a user, each with the number of the change that made it.
    open: BTreeMap<(User, User), usize>,
    /// The pairs of which the user rejected a request. A round is shorter than the time for which that hides the next.
    rejected: BTreeSet<(User, User)>,
}

impl Locks {
    /// Whether there is a request that its followee has not answered.
    pub(crate) fn is_open(&self, follower: User, user: User) -> bool {
        self.open.contains_key(&(follower, user))
    }

    /// Whether its followee sees it.
    pub(crate) fn is_shown(&self, follower: User, user: User) -> bool {
        self.is_open(follower, user) && !self.rejected.contains(&(follower, user))
    }

    /// The open requests to a user that are shown, latest first.
    pub(crate) fn shown_to(&self, user: User) -> Vec<User> {
        let mut found: Vec<_> =
            self.open.iter().filter(|((by, to), _)| *to == user && self.is_shown(by, user)).collect();
        found.sort_unstable_by_key(|(_, since)| std::cmp::Reverse(**since));
        found.into_iter().map(|((by, _), _)| *by).collect()
    }

    /// The users that a user asks to follow, latest first.
    pub(crate) fn asked_by(&self, user: User) -> Vec<User> {
        let mut found: Vec<_> = self.open.iter().filter(|((by, _), _)| *by == user).collect();
        found.sort_unstable_by_key(|(_, since)| std::cmp::Reverse(**since));
        found.into_iter().map(|((_, to), _)| *to).collect()
    }

    pub(crate) fn end(&mut self, follower: User, user: User) {
        self.open.remove(&(follower, user));
    }
}

impl Model {
    /// Whether an account is locked for a reader: its public posts are for its followers.
    pub(crate) fn is_locked_for(&self, reader: User, user: User) -> bool {
        reader != user && self.locks.locked.contains(user) && !self.has(Edge::Follow, reader, user)
    }

    /// Follows a user, or asks to. An existing request keeps its time.
    pub(crate) fn follow(&mut self, from: User, to: User) {
        if self.is_locked_for(from, to) {
            self.changes += 1;
            self.locks.open.entry((from, to)).or_insert(self.changes);
        } else {
            self.set(Edge::Follow, from, to, true);
        }
    }

    /// Locks an account, or unlocks it, which accepts all requests.
    pub(crate) fn lock(&mut self, user: User, on: bool) {
        self.topics_may_return(user);
        if on {
            self.locks.locked.insert(user);
            return;
        }
        self.locks.locked.remove(user);
        for follower in self.waiting(user) {
            self.accept(follower, user);
        }
    }

    /// The users who ask to follow a user, the first one first.
    pub(crate) fn waiting(&self, user: User) -> Vec<User> {
        let mut found: Vec<_> = self.locks.open.iter().filter(|((_, to), _)| *to == user).collect();
        found.sort_unstable_by_key(|(_, since)| **since);
        found.into_iter().map(|((by, _), _)| *by).collect()
    }

    /// Makes a request a follow.
    pub(crate) fn accept(&mut self, follower: User, user: User) {
        self.locks.end(follower, user);
        self.set(Edge::Follow, follower, user, true);
    }

    /// Rejects a request that is shown.
    pub(crate) fn reject(&mut self, follower: User, user: User) {
        if self.locks.is_shown(follower, user) {
            self.locks.end(follower, user);
            self.locks.rejected.insert((follower, user));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Post, ViewContext, Visibility};

    #[test]
    fn requests_become_follows() {
        let mut model = Model::default();
        model.follow("bo", "ann");
        model.lock("ann", true);
        let post = Post::new("ann", String::new(), Visibility::NotTo(vec!["eve"]));
        for who in ["cy", "dee"] {
            model.follow(who, "ann");
        }
        assert!(model.may_see("bo", &post, ViewContext::Direct) && !model.may_see("cy", &post, ViewContext::Direct));
        assert_eq!((model.locks.shown_to("ann"), model.locks.asked_by("cy")), (vec!["dee", "cy"], vec!["ann"]));
        model.reject("cy", "ann");
        model.follow("cy", "ann");
        assert_eq!((model.locks.shown_to("ann"), model.locks.asked_by("cy")), (vec!["dee"], vec!["ann"]));
        model.lock("ann", false);
        assert_eq!(model.those_to(Edge::Follow, "ann"), ["cy", "dee", "bo"]);
        assert!(model.may_see("cy", &post, ViewContext::Direct) && !model.may_see("eve", &post, ViewContext::Direct));
    }
}
