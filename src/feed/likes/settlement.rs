//! Settlements: what a settler publishes to all nodes after each batch.

use std::collections::HashMap;
use std::fmt::Write;

use crate::broker::Place;
use crate::model::{Object, Tally, UserId};

/// The prefix of signals with a settlement.
pub(crate) const SETTLED: &str = "likes ";

/// A settled batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SettlementEvent {
    /// Its partition.
    pub(super) partition: u16,
    /// Everything up to here is settled.
    pub(super) through: Place,
    /// The tally of each object of the batch.
    pub(super) tallies: HashMap<Object, Tally>,
    /// Users and objects of likes that were reverted.
    pub(super) reverted: Vec<(UserId, Object)>,
}

impl SettlementEvent {
    /// `3 1767225600000-0 p17:5:0:9 !ann:p18`: tallies, then reverted likes.
    pub(super) fn encode(&self) -> String {
        let mut message = format!("{} {}", self.partition, self.through);
        for (object, tally) in &self.tallies {
            // Writing to a string cannot fail.
            let _ = write!(message, " {}:{}:{}:{}", object.to_text(), tally.likes, tally.comments, tally.version);
        }
        for (user, object) in &self.reverted {
            let _ = write!(message, " !{user}:{}", object.to_text());
        }
        message
    }

    /// Reads what [`encode`](Self::encode) wrote. `None` if it is something else.
    pub(super) fn parse(message: &str) -> Option<Self> {
        let mut words = message.split(' ');
        let partition = words.next()?.parse().ok()?;
        let mut settled = Self { partition, through: Place::parse(words.next()?)?, ..Self::default() };
        for word in words {
            if let Some(reverted) = word.strip_prefix('!') {
                let (user, object) = reverted.split_once(':')?;
                settled.reverted.push((UserId::parse(user)?, Object::parse(object)?));
                continue;
            }
            let mut parts = word.split(':');
            let object = Object::parse(parts.next()?)?;
            let mut number = || parts.next()?.parse().ok();
            let tally = Tally { likes: number()?, comments: number()?, version: number()? };
            settled.tallies.insert(object, tally);
        }
        Some(settled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CommentId, PostId};

    #[test]
    fn what_is_settled_survives_the_signal() {
        let settled = SettlementEvent {
            partition: 3,
            through: Place { major: 7, minor: 9 },
            tallies: HashMap::from([
                (Object::Post(PostId(17)), Tally { likes: 5, comments: 0, version: 9 }),
                (Object::Comment(CommentId(18)), Tally { likes: 1, comments: 2, version: 3 }),
            ]),
            reverted: vec![(UserId::parse("ann.b-c_d").unwrap(), Object::Post(PostId(19)))],
        };
        assert_eq!(SettlementEvent::parse(&settled.encode()), Some(settled));
        for nothing in ["", "0 x", "0 1-1 p1:2", "0 1-1 !ann", "0 1-1 x"] {
            assert_eq!(SettlementEvent::parse(nothing), None, "{nothing}");
        }
    }
}
