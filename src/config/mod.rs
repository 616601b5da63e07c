//! The configuration: reads and validates the operator's file and the environment.
//!
//! `config.toml` in the root of the repository documents every key and contains its default; it is embedded in the
//! program. The operator's file overrides the defaults, and the environment overrides both.
//!
//! Each section belongs to the part of the server that uses it (`settings` reads its keys): `feed/config.rs`,
//! `auth/config.rs`, `push/config.rs` and the like. This module composes them. Here are the sections of the server
//! itself and of its stores:
//!
//! | file | contents |
//! |---|---|
//! | `server.rs`, `stores.rs`, `urls.rs` | `[server]`, `[broker]`, `[ledger]`, and the addresses of the stores |
//! | `secrets.rs` | the file of the secrets that the first start generates |
//! | `reload.rs` | what a running server takes from a changed configuration |
//!
//! Every invalid value is an error that names its place. No invalid value is replaced by a default.

mod reload;
mod secrets;
mod server;
mod stores;
mod urls;

use std::io;
use std::path::Path;

use crate::gateway::channels::namespaces;
use crate::settings::{ConfigFile, Layers};

pub use crate::auth::{AccountsConfig, AuthConfig, IssuerConfig, Secrets};
pub use crate::feed::{
    FanoutConfig, LikesConfig, LimitsConfig, NotificationsConfig, OutletConfig, OutletWebhook, RatesConfig,
    TimelineConfig,
};
pub use crate::gateway::channels::{ChannelRegex, Namespace, NamespaceAccess, RecoveryMode};
pub use crate::gateway::session::ClientConfig;
pub use crate::hooks::HooksConfig;
pub use crate::http::TransportsConfig;
pub use crate::ledger::Durability;
pub use crate::net::AllowedOrigins;
pub use crate::push::PushConfig;
pub use crate::settings::parse::parse_duration;
pub use crate::settings::{ConfigError, Secret};
pub use crate::telemetry::TelemetryConfig;
pub use reload::ChangedKeys;
pub use secrets::SecretsError;
pub use server::{LogFormat, ServerConfig};
pub use stores::{BrokerConfig, LedgerConfig};
pub use urls::{BrokerUrl, LedgerUrl};

/// The file in the working directory that is read if no path is given.
const DEFAULT_FILE: &str = "config.toml";

/// A valid configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The socket that Feedline listens on, its files and its logs.
    pub server: ServerConfig,
    /// The limits of one client connection.
    pub client: ClientConfig,
    /// How clients may connect.
    pub transports: TransportsConfig,
    /// The store of live state.
    pub broker: BrokerConfig,
    /// The durable store.
    pub ledger: LedgerConfig,
    /// The accepted tokens and API keys.
    pub auth: AuthConfig,
    /// Built-in accounts.
    pub accounts: AccountsConfig,
    /// The inboxes of users.
    pub timeline: TimelineConfig,
    /// The jobs that write posts to inboxes.
    pub fanout: FanoutConfig,
    /// The write-behind queue of likes.
    pub likes: LikesConfig,
    /// The lists of notifications.
    pub notifications: NotificationsConfig,
    /// Pushes to the devices of users.
    pub push: PushConfig,
    /// What happened, for consumers outside of Feedline.
    pub outlet: OutletConfig,
    /// Questions to the application's backend.
    pub hooks: HooksConfig,
    /// Maximum sizes and numbers.
    pub limits: LimitsConfig,
    /// Rate limits per user and per address.
    pub rates: RatesConfig,
    /// Traces for a collector.
    pub telemetry: TelemetryConfig,
    /// Channels for the application's own data.
    pub namespaces: Vec<Namespace>,
}

impl Config {
    /// Loads the file and the environment of the process. Without a path, `config.toml` in the working directory is
    /// read if it exists.
    ///
    /// # Errors
    /// Every problem of the file and the environment, each with its place.
    pub fn load(path: Option<&Path>) -> Result<Self, ConfigError> {
        let name = path.map_or_else(|| DEFAULT_FILE.to_owned(), |path| path.display().to_string());
        let text = match std::fs::read_to_string(path.unwrap_or(Path::new(DEFAULT_FILE))) {
            Err(error) if path.is_none() && error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(ConfigError::one(name, format!("cannot be read: {error}"))),
            Ok(text) => text,
        };
        let mut env = Vec::new();
        for (key, value) in std::env::vars_os() {
            match (key.into_string(), value.into_string()) {
                (Ok(key), Ok(value)) => env.push((key, value)),
                (Ok(key), Err(_)) if key.starts_with("FEEDLINE__") => {
                    return Err(ConfigError::one(key, "is not UTF-8".into()));
                }
                // Not a variable of Feedline: the names of those are ASCII.
                _ => {}
            }
        }
        Self::build(ConfigFile { name: &name, text: &text }, env.into_iter())
    }

    /// Parses a text as the content of `config.toml`, with the given environment.
    ///
    /// # Errors
    /// Every problem of the text and the environment, each with its place.
    pub fn parse(text: &str, env: impl Iterator<Item = (String, String)>) -> Result<Self, ConfigError> {
        Self::build(ConfigFile { name: DEFAULT_FILE, text }, env)
    }

    /// Whether built-in accounts are enabled. By default they are, unless a key for the application's tokens is
    /// configured.
    pub fn accounts_enabled(&self) -> bool {
        self.accounts.enabled.unwrap_or(!self.auth.has_token_key())
    }

    fn build(file: ConfigFile<'_>, env: impl Iterator<Item = (String, String)>) -> Result<Self, ConfigError> {
        let mut layers = Layers::new(file, env);
        let server = ServerConfig::read(layers.section("server"));
        let namespaces = namespaces::read(&mut layers);
        let names: Vec<&str> = namespaces.iter().map(|namespace| namespace.name.as_str()).collect();
        let channel_events = namespaces.iter().any(|namespace| namespace.events);
        let config = Self {
            client: ClientConfig::read(layers.section("client"), &server.listen, &namespaces),
            transports: TransportsConfig::read_keys(&mut layers.section("transports")),
            broker: BrokerConfig::read_keys(&mut layers.section("broker")),
            ledger: LedgerConfig::read(layers.section("ledger"), &server.data_dir),
            auth: AuthConfig::read(layers.section("auth")),
            accounts: AccountsConfig::read_keys(&mut layers.section("accounts")),
            timeline: TimelineConfig::read_keys(&mut layers.section("timeline")),
            fanout: FanoutConfig::read_keys(&mut layers.section("fanout")),
            likes: LikesConfig::read_keys(&mut layers.section("likes")),
            notifications: NotificationsConfig::read_keys(&mut layers.section("notifications")),
            push: PushConfig::read(layers.section("push")),
            outlet: OutletConfig::read(layers.section("outlet"), channel_events),
            hooks: HooksConfig::read(layers.section("hooks"), &server.origins, &names),
            limits: LimitsConfig::read_keys(&mut layers.section("limits")),
            rates: RatesConfig::read_keys(&mut layers.section("rates")),
            telemetry: TelemetryConfig::read_keys(&mut layers.section("telemetry")),
            namespaces,
            server,
        };
        layers.finish().map(|()| config)
    }
}
