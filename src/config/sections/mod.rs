//! The sections of the configuration: the type and the valid range of each key. `config.toml` documents the keys for
//! operators.

mod auth;
mod client;
mod feed;
mod limits;
mod server;
mod stores;

pub use auth::{AccountsConfig, AuthConfig};
pub use client::ClientConfig;
pub use feed::{FanoutConfig, LikesConfig, TimelineConfig};
pub use limits::{LimitsConfig, RatesConfig};
pub use server::{LogFormat, ServerConfig};
pub use stores::{BrokerConfig, LedgerConfig};
