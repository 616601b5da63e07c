//! The broker's record of the ledger.
//!
//! Logs, inboxes and marks are named by numbers of the ledger. If an older state of the ledger is restored, they belong
//! to another incarnation and must not be used. The broker therefore keeps the identity of the ledger and the greatest
//! number of each kind. Invariant: a number is [recorded](LedgerRecord::note_numbers) before anything in the broker is
//! named by it, so a ledger that would assign it again is behind the record.

use async_trait::async_trait;

use super::Result;
use crate::ledger::HighWaterMarks;

/// The result of comparing a ledger with the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerMatch {
    /// It is the recorded ledger, or there was no record. Its numbers are recorded now.
    Same,
    /// It is another ledger, or an older state of the recorded one: the recorded identity and numbers.
    Other(String, HighWaterMarks),
}

/// The prefix of the kinds of numbers that are offsets of the settled queue of likes.
pub(crate) const LIKES: &str = "likes:";

/// The record of the ledger: one, shared by all nodes.
#[async_trait]
pub trait LedgerRecord: Send + Sync {
    /// Compares a ledger with the record. If it is the same ledger and no number is behind the record, its numbers are
    /// recorded; otherwise nothing changes.
    async fn match_ledger(&self, identity: &str, numbers: &HighWaterMarks) -> Result<LedgerMatch>;

    /// Replaces the record of `from` by that of another ledger. `false` if another node replaced it first.
    async fn replace_ledger(&self, from: &str, identity: &str, numbers: &HighWaterMarks) -> Result<bool>;

    /// Records numbers before they are used. `false` if the record is of another ledger than `identity`: then they must
    /// not be used. A broker that lost its record accepts this one.
    async fn note_numbers(&self, identity: &str, numbers: &HighWaterMarks) -> Result<bool>;

    /// Sets the incarnation of the ledger that this node uses. Logs, inboxes and tallies that were written under
    /// another one count as lost from now on.
    fn use_incarnation(&self, incarnation: &str);
}

/// Whether a ledger with these numbers is behind the recorded ones.
pub(crate) fn is_behind<'a>(ledger: &HighWaterMarks, mut remembered: impl Iterator<Item = (&'a str, &'a str)>) -> bool {
    remembered.any(|(name, value)| match ledger.iter().find(|(other, _)| other == name) {
        Some((_, number)) => value > number.as_str(),
        // The ledger does not know offsets of a queue of likes that was lost.
        None => !name.starts_with(LIKES),
    })
}

/// The record in memory.
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
