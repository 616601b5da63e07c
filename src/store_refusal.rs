//! Why a store refuses to work: the same reasons for the broker and the ledger.
//!
//! A refusal concerns all calls alike, so it says nothing about the item of a call. The store works again once an
//! operator has repaired it, or by itself. The classifications are in `broker/redis/errors.rs`,
//! `ledger/postgres/errors.rs` and `ledger/sqlite/errors.rs`.

use std::fmt;

/// The reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The user of the store lacks a right, or the password is wrong.
    NoPermission,
    /// The store accepts no writes, for example a replica.
    ReadOnly,
    /// The disk, or a quota of it, is full, or it cannot be read or written.
    Disk,
    /// The store has reached its limit of memory.
    OutOfMemory,
    /// The store has reached its limit of connections.
    TooManyConnections,
    /// The store is starting, failing over, or runs something that blocks all calls.
    NotReady,
    /// Something that the schema needs is missing: a table, a column, a function, a command.
    SchemaDamaged,
}

impl Refusal {
    /// Every reason.
    pub const ALL: [Self; 7] = [
        Self::NoPermission,
        Self::ReadOnly,
        Self::Disk,
        Self::OutOfMemory,
        Self::TooManyConnections,
        Self::NotReady,
        Self::SchemaDamaged,
    ];

    /// The reason in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoPermission => "no permission",
            Self::ReadOnly => "read only",
            Self::Disk => "disk full or broken",
            Self::OutOfMemory => "out of memory",
            Self::TooManyConnections => "too many connections",
            Self::NotReady => "not ready",
            Self::SchemaDamaged => "schema damaged",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
