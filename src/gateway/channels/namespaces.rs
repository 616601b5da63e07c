//! Namespaces: channels for the application's own data.

use std::collections::HashSet;
use std::time::Duration;

use super::channel_regex::{self, ChannelRegex};
use crate::model::ChannelKind;
use crate::settings::parse::{self, ParseResult};
use crate::settings::{ConfigValue, Layers, TableReader, ValueSource, tables};

/// A configured namespace. Its channels are `<name>:<anything>`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    /// The prefix of its channels: 1 to 64 of `a-z 0-9 _ -`. Empty: channels without a colon.
    pub name: String,
    /// The names, without the namespace, of the channels that clients may use; `None`: all.
    pub channel_regex: Option<ChannelRegex>,
    /// The number of publications that a channel keeps; 0: no history and no recovery.
    pub history_size: u64,
    /// How long publications are kept after the last one. Zero if and only if `history_size` is 0.
    pub history_ttl: Duration,
    /// The clients that may subscribe without a subscription token; never [`NamespaceAccess::Subscriber`].
    pub subscribe: NamespaceAccess,
    /// The clients that may publish.
    pub publish: NamespaceAccess,
    /// The clients that may read the history.
    pub history: NamespaceAccess,
    /// Whether clients may request presence.
    pub presence: bool,
    /// Whether subscribers receive joins and leaves.
    pub join_leave: bool,
    /// Whether every subscription is positioned and recoverable, if the channels have a history; otherwise only those
    /// whose token, hook or backend says so.
    pub force_recovery: bool,
    /// What a client receives that recovers.
    pub recovery_mode: RecoveryMode,
    /// Whether subscribers that ask for it receive publications as patches, if the channels have a history.
    pub delta: bool,
    /// Whether subscriptions to its channels are events of the outlet.
    pub events: bool,
}

/// What a client receives that recovers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecoveryMode {
    /// All publications that it missed.
    #[default]
    Stream,
    /// Only the latest publication.
    Cache,
}

impl RecoveryMode {
    const KEYWORDS: &'static [(&'static str, Self)] = &[("stream", Self::Stream), ("cache", Self::Cache)];
}

/// The clients that have a right in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceAccess {
    /// Every client.
    Anyone,
    /// Clients of a signed-in user.
    User,
    /// Clients that are subscribed to the channel.
    Subscriber,
    /// No client.
    Nobody,
}

impl NamespaceAccess {
    const KEYWORDS: &'static [(&'static str, Self)] =
        &[("anyone", Self::Anyone), ("user", Self::User), ("subscriber", Self::Subscriber), ("nobody", Self::Nobody)];
}

/// Reads `[[namespaces]]`, or the JSON array of the environment variable that replaces them.
pub(crate) fn read(layers: &mut Layers) -> Vec<Namespace> {
    let Some(value) = layers.whole("namespaces") else { return Vec::new() };
    let items = match tables(&value, "namespaces") {
        Ok(items) => items,
        Err(message) => {
            layers.problem(&value.source, "namespaces", &message);
            return Vec::new();
        }
    };
    let mut names = HashSet::new();
    let mut namespaces = Vec::new();
    for (i, (source, table)) in items.into_iter().enumerate() {
        let path = format!("namespaces[{i}]");
        let mut item = TableReader::new(table, path);
        let namespace = Namespace::read(&mut item);
        item.report_unknown();
        // An invalid name is read as empty.
        let named = item.problems.iter().all(|(_, key, _)| !key.ends_with(".name"));
        if named && !names.insert(namespace.name.clone()) {
            item.problem("name", format!("there is another namespace {:?}", namespace.name));
        }
        for (at, key, message) in item.problems {
            // All items of an environment variable have the same place, so the path identifies the item.
            let message = if matches!(source, ValueSource::Env(_)) { format!("{key}: {message}") } else { message };
            layers.problem(at.as_ref().unwrap_or(&source), &key, &message);
        }
        namespaces.push(namespace);
    }
    namespaces
}

impl Namespace {
    fn read(item: &mut TableReader) -> Self {
        let namespace = Self {
            name: item.read("name", name, None),
            channel_regex: item.read("channel_regex", channel_regex::read, Some(None)),
            history_size: item.read("history_size", parse::integer(0..=100_000), Some(0)),
            history_ttl: item.read("history_ttl", parse::duration("0s"..="365d"), Some(Duration::ZERO)),
            subscribe: item.read("subscribe", subscribe, Some(NamespaceAccess::Anyone)),
            publish: item.read("publish", parse::one_of(NamespaceAccess::KEYWORDS), Some(NamespaceAccess::Nobody)),
            history: item.read("history", parse::one_of(NamespaceAccess::KEYWORDS), Some(NamespaceAccess::Subscriber)),
            presence: item.read("presence", parse::boolean, Some(false)),
            join_leave: item.read("join_leave", parse::boolean, Some(false)),
            force_recovery: item.read("force_recovery", parse::boolean, Some(true)),
            recovery_mode: item.read(
                "recovery_mode",
                parse::one_of(RecoveryMode::KEYWORDS),
                Some(RecoveryMode::Stream),
            ),
            delta: item.read("delta", parse::boolean, Some(false)),
            events: item.read("events", parse::boolean, Some(false)),
        };
        let prefix = format!("{}:", namespace.name);
        let expression = namespace.channel_regex.as_ref().map(|regex| regex.as_str().trim_start_matches('^'));
        if !namespace.name.is_empty() && expression.is_some_and(|expression| expression.starts_with(&prefix)) {
            let message = format!("names are matched without the namespace: leave out {prefix:?}");
            item.problem("channel_regex", message);
        }
        if (namespace.history_size == 0) != namespace.history_ttl.is_zero() && item.problems.is_empty() {
            let lone = if namespace.history_size == 0 { "history_ttl" } else { "history_size" };
            item.problem(lone, "history_size and history_ttl need each other: set both, or neither".into());
        }
        namespace
    }
}

fn name(value: &ConfigValue) -> ParseResult<String> {
    let name = parse::text(value)?;
    let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b));
    if !plain || name.len() > 64 {
        return Err(format!("expected up to 64 of a-z 0-9 _ -, not {name:?}"));
    }
    if ChannelKind::ALL.iter().any(|kind| kind.as_str() == name) {
        return Err(format!("{name:?} is one of Feedline's own"));
    }
    Ok(name)
}

fn subscribe(value: &ConfigValue) -> ParseResult<NamespaceAccess> {
    match parse::one_of(NamespaceAccess::KEYWORDS)(value)? {
        NamespaceAccess::Subscriber => {
            Err("only a subscriber could subscribe, so nobody could: say \"anyone\", \"user\" or \"nobody\"".into())
        }
        access => Ok(access),
    }
}

impl Default for NamespaceAccess {
    /// The most restrictive value.
    fn default() -> Self {
        Self::Nobody
    }
}
