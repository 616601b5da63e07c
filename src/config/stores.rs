//! `[broker]` and `[ledger]`: the two stores.

use std::path::Path;
use std::time::Duration;

use super::urls::{BrokerUrl, LedgerUrl};
use crate::ledger::Durability;
use crate::settings::parse::{self, ParseResult};
use crate::settings::{ConfigValue, SectionReader, section};

section! {
    /// `[broker]`: the store of live state.
    pub struct BrokerConfig {
        /// The address of the broker.
        pub url: BrokerUrl = BrokerUrl::parse,
        /// The time limit of one call.
        pub timeout: Duration = parse::duration("50ms"..="1m"),
        /// The prefix of every key and channel in Redis. Deployments with different prefixes can share one Redis.
        pub prefix: String = prefix,
        /// The interval at which a node checks that pub/sub delivers its own messages.
        pub probe_interval: Duration = parse::duration("100ms"..="1m"),
    }
}

/// Braces are hash tags in Redis Cluster; other special characters are patterns or separators.
fn prefix(value: &ConfigValue) -> ParseResult<String> {
    let prefix = parse::text(value)?;
    let plain = prefix.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
    let fits = plain && (1..=64).contains(&prefix.len());
    fits.then(|| prefix.clone()).ok_or_else(|| format!("expected 1 to 64 of A-Z a-z 0-9 _ - ., not {prefix:?}"))
}

/// `[ledger]`: the durable store.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerConfig {
    /// The address of the ledger.
    pub url: LedgerUrl,
    /// The failures that an acknowledged write survives.
    pub durability: Durability,
    /// The time limit of one call.
    pub timeout: Duration,
    /// The number of connections to PostgreSQL.
    pub connections: usize,
    /// Whether statements are prepared on connections to PostgreSQL; `false` behind a pooler in transaction mode.
    pub prepared_statements: bool,
}

impl LedgerConfig {
    pub(super) fn read(mut section: SectionReader<'_>, data_dir: &Path) -> Self {
        const DURABILITIES: &[(&str, Durability)] = &[("full", Durability::Full), ("normal", Durability::Normal)];
        Self {
            url: section.read("url", |value| LedgerUrl::parse(value, data_dir)),
            durability: section.read("durability", parse::one_of(DURABILITIES)),
            timeout: section.read("timeout", parse::duration("50ms"..="1m")),
            connections: section.read("connections", parse::integer(1..=1_000)),
            prepared_statements: section.read("prepared_statements", parse::boolean),
        }
    }
}
