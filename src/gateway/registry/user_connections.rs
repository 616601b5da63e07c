//! How many connections each user has on this node, and the cap on them.

use std::sync::Arc;

use dashmap::DashMap;

use crate::model::UserId;

/// The connections of the users of this node.
#[derive(Debug, Default)]
pub(crate) struct UserConnections {
    /// How many one user may have; `None`: any number, and nothing is counted.
    limit: Option<u32>,
    counts: DashMap<UserId, u32>,
}

/// The user has as many connections as one may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LimitReached;

impl UserConnections {
    pub(crate) fn new(limit: Option<u32>) -> Arc<Self> {
        Arc::new(Self { limit, counts: DashMap::new() })
    }

    /// Counts a connection for as long as the guard lives. `None` where nothing is counted: there is no limit, or the
    /// client is anonymous.
    pub(crate) fn open(self: &Arc<Self>, user: Option<&UserId>) -> Result<Option<Box<UserConnection>>, LimitReached> {
        let (Some(limit), Some(user)) = (self.limit, user) else { return Ok(None) };
        let mut count = self.counts.entry(user.clone()).or_default();
        if *count >= limit {
            return Err(LimitReached);
        }
        *count += 1;
        drop(count);
        Ok(Some(Box::new(UserConnection { owner: Arc::clone(self), user: user.clone() })))
    }
}

/// A counted connection of a user.
#[derive(Debug)]
pub(crate) struct UserConnection {
    owner: Arc<UserConnections>,
    user: UserId,
}

impl Drop for UserConnection {
    fn drop(&mut self) {
        self.owner.counts.remove_if_mut(&self.user, |_, count| {
            *count -= 1;
            *count == 0
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_limited_and_anonymous_clients_are_not() {
        let users = UserConnections::new(Some(2));
        let ann = UserId::parse("ann").expect("an id");
        let bo = UserId::parse("bo").expect("an id");
        let first = users.open(Some(&ann)).expect("room");
        let second = users.open(Some(&ann)).expect("room");
        assert_eq!(users.open(Some(&ann)).err(), Some(LimitReached));
        assert!(users.open(Some(&bo)).is_ok());
        assert!((0..9).all(|_| users.open(None).is_ok()));
        drop(first);
        let third = users.open(Some(&ann)).expect("room again");
        drop((second, third));
        assert!(users.counts.is_empty(), "nothing is kept of those that went");
        let unlimited = UserConnections::new(None);
        assert!((0..9).all(|_| unlimited.open(Some(&ann)).is_ok_and(|counted| counted.is_none())));
    }
}
