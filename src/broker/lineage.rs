//! What the broker remembers of the ledger.
//!
//! Logs, inboxes and marks are named by numbers of the ledger. If the ledger goes back in time, they are of another life of
//! it, and must not be used. The broker therefore remembers the identity of the ledger and the greatest number of each
//! kind that was used here. The invariant: a number is [noted](LedgerRecord::note_numbers) before anything in the broker is
//! named by it, so a ledger that would give it out again is behind the record.

use async_trait::async_trait;

use super::Result;
use crate::ledger::HighWaterMarks;

/// How a ledger compares with what the broker remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerMatch {
    /// It is the ledger that the broker knows, or the broker knew none; its numbers are remembered now.
    Same,
    /// It is another ledger, or an older state of the same one. What was remembered: identity, and numbers.
    Other(String, HighWaterMarks),
}

/// How the kinds of numbers begin that say how far the queue of likes is settled.
pub(crate) const LIKES: &str = "likes:";

/// What the broker remembers of the ledger. One record, shared by all nodes.
#[async_trait]
pub trait LedgerRecord: Send + Sync {
    /// Compares a ledger with the record. If it is the same and no number is behind the record, the record is brought up to
    /// it; else nothing changes.
    async fn match_ledger(&self, identity: &str, numbers: &HighWaterMarks) -> Result<LedgerMatch>;

    /// Replaces the record of `from` by that of another ledger. `false` if somebody else replaced it before.
    async fn replace_ledger(&self, from: &str, identity: &str, numbers: &HighWaterMarks) -> Result<bool>;

    /// Remembers numbers that are about to be used. `false` if the record is of another ledger than `identity`: they must
    /// not be used then. A broker that lost its record takes this one.
    async fn note_numbers(&self, identity: &str, numbers: &HighWaterMarks) -> Result<bool>;

    /// Says which incarnation of the ledger this node works with. Logs, inboxes and tallies that were written under
    /// another one count as lost from now on.
    fn use_incarnation(&self, incarnation: &str);
}

/// Whether a ledger with these numbers lacks one of those that are remembered.
pub(crate) fn is_behind<'a>(ledger: &HighWaterMarks, mut remembered: impl Iterator<Item = (&'a str, &'a str)>) -> bool {
    remembered.any(|(name, value)| match ledger.iter().find(|(other, _)| other == name) {
        Some((_, number)) => value > number.as_str(),
        // Of a queue of likes that was lost the ledger says nothing any more.
        None => !name.starts_with(LIKES),
    })
}

/// What is remembered, where it is remembered in memory.
#[derive(Clone, Debug, Default)]
pub(super) struct LedgerSnapshot {
    identity: String,
    numbers: std::collections::HashMap<String, String>,
}

impl LedgerSnapshot {
    pub(super) fn compare(&mut self, identity: &str, numbers: &HighWaterMarks) -> LedgerMatch {
        let behind = is_behind(numbers, self.numbers.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        if !self.identity.is_empty() && (self.identity != identity || behind) {
            let numbers = self.numbers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
            return LedgerMatch::Other(self.identity.clone(), numbers);
        }
        self.note(identity, numbers);
        LedgerMatch::Same
    }

    pub(super) fn replace(&mut self, from: &str, identity: &str, numbers: &HighWaterMarks) -> bool {
        let same = self.identity == from;
        if same {
            *self = Self { identity: identity.to_owned(), numbers: numbers.iter().cloned().collect() };
        }
        same
    }

    pub(super) fn note(&mut self, identity: &str, numbers: &HighWaterMarks) -> bool {
        if self.identity.is_empty() {
            identity.clone_into(&mut self.identity);
        }
        if self.identity != identity {
            return false;
        }
        for (name, value) in numbers {
            let known = self.numbers.entry(name.clone()).or_default();
            if *known < *value {
                known.clone_from(value);
            }
        }
        true
    }
}
