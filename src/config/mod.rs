//! What the user wrote, made into what is valid.
//!
//! `config.toml` at the root documents every key and holds its default; it is embedded. The user's file is laid over
//! it, then the environment (`layers`). A key's type and check are in the struct of its section (`sections`),
//! nowhere else. Whatever is wrong is an error that names the place; nothing falls back to a default in silence.
//!
//! `secrets` makes what a first start needs and nobody configured.

mod layers;
mod namespaces;
mod secrets;
mod sections;
mod suggest;
mod urls;
mod value;

use std::fmt;
use std::io;
use std::path::Path;

use layers::{File, Layers};

pub use crate::ledger::Durability;
pub use namespaces::{Access, Namespace};
pub use secrets::{Secret, Secrets, SecretsError};
pub use sections::{
    Accounts, Auth, Broker, Client, Fanout, Ledger, Likes, Limits, LogFormat, Origins, Rates, Server, Timeline,
};
pub use urls::{BrokerUrl, LedgerUrl};
pub use value::parse_duration;

/// The file that is read when none is named, if it is there.
const USUAL_FILE: &str = "config.toml";

/// A valid configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The socket Feedline listens on, its files and its logs.
    pub server: Server,
    /// The bounds of one client's connection.
    pub client: Client,
    /// Where the live state is.
    pub broker: Broker,
    /// Where the durable truth is.
    pub ledger: Ledger,
    /// Who may come in.
    pub auth: Auth,
    /// Built-in accounts.
    pub accounts: Accounts,
    /// The inbox of a timeline.
    pub timeline: Timeline,
    /// How posts get to their readers.
    pub fanout: Fanout,
    /// How likes are taken and told.
    pub likes: Likes,
    /// What one post or user may have.
    pub limits: Limits,
    /// How often one user, or one address, may do things.
    pub rates: Rates,
    /// Channels for the application's own data.
    pub namespaces: Vec<Namespace>,
}

impl Config {
    /// Reads the file, or without one `config.toml` in the working directory if it is there, and the environment of
    /// the process.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the file and the environment, each with its place.
    pub fn load(path: Option<&Path>) -> Result<Self, ConfigError> {
        let name = path.map_or_else(|| USUAL_FILE.to_owned(), |path| path.display().to_string());
        let text = match std::fs::read_to_string(path.unwrap_or(Path::new(USUAL_FILE))) {
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
                // Somebody else's: no name of ours needs more than ASCII.
                _ => {}
            }
        }
        Self::build(File { name: &name, text: &text }, env.into_iter())
    }

    /// Reads a text as if it were the file `config.toml`, and this environment.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the two, each with its place.
    pub fn parse(text: &str, env: impl Iterator<Item = (String, String)>) -> Result<Self, ConfigError> {
        Self::build(File { name: USUAL_FILE, text }, env)
    }

    /// Whether people can sign up and sign in here: as configured, or else unless a key for an application's tokens is.
    pub fn accounts_enabled(&self) -> bool {
        self.accounts.enabled.unwrap_or(!self.auth.has_token_key())
    }

    fn build(file: File<'_>, env: impl Iterator<Item = (String, String)>) -> Result<Self, ConfigError> {
        let mut layers = Layers::new(file, env);
        let server = Server::read(layers.section("server"));
        let config = Self {
            client: Client::read(layers.section("client")),
            broker: Broker::read(layers.section("broker")),
            ledger: Ledger::read(layers.section("ledger"), &server.data_dir),
            auth: Auth::read(layers.section("auth")),
            accounts: Accounts::read(layers.section("accounts")),
            timeline: Timeline::read(layers.section("timeline")),
            fanout: Fanout::read(layers.section("fanout")),
            likes: Likes::read(layers.section("likes")),
            limits: Limits::read(layers.section("limits")),
            rates: Rates::read(layers.section("rates")),
            namespaces: namespaces::read(&mut layers),
            server,
        };
        layers.finish().map(|()| config)
    }
}

/// What is wrong with a configuration. Displayed as one line a problem: `place: what`.
#[derive(Debug)]
pub struct ConfigError {
    problems: Vec<Problem>,
}

impl ConfigError {
    fn one(place: String, message: String) -> Self {
        Self { problems: vec![Problem::new(place, message)] }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Problem { place, message }) in self.problems.iter().enumerate() {
            let separator = if i == 0 { "" } else { "\n" };
            write!(f, "{separator}{place}: {message}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// One thing that is wrong, and where.
#[derive(Debug)]
struct Problem {
    place: String,
    message: String,
}

impl Problem {
    fn new(place: String, message: String) -> Self {
        Self { place, message }
    }
}
