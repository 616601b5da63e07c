//! The copy of the outlet in the broker, for consumer groups of other programs.

use async_trait::async_trait;

use super::Result;

/// An event of the outlet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutletRecord {
    /// Its id, greater than all before it.
    pub id: u64,
    /// The public name of its type.
    pub kind: String,
    /// Whose events are in order: a user, or `#` and a channel.
    pub owner: String,
    /// The event as JSON.
    pub event: String,
}

/// The copy of the outlet. It can be dropped and filled again from the ledger.
#[async_trait]
pub trait OutletStream: Send + Sync {
    /// The id of the last record that was appended, also if a consumer deleted it since; `None`: there was none.
    async fn outlet_stream_end(&self) -> Result<Option<u64>>;

    /// Appends records in order, and trims to about `length`. Records up to the last id are not appended again.
    async fn append_to_outlet_stream(&self, records: &[OutletRecord], length: u64) -> Result<()>;

    /// Drops the copy, with its consumer groups.
    async fn drop_outlet_stream(&self) -> Result<()>;
}
