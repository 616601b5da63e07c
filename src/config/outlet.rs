//! `[outlet]`: what happened, for consumers outside of Feedline.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use ipnet::IpNet;

use super::layers::SectionReader;
use super::namespaces::Namespace;
use super::parse::{self, ParseResult};
use super::push::networks;
use super::secret::Secret;
use super::suggest::nearest;
use super::value::{ConfigValue, Table, ValueKind};

/// The types of events.
const EVENT_TYPES: [&str; 10] = [
    "notification",
    "post.created",
    "post.edited",
    "post.deleted",
    "follow.created",
    "follow.deleted",
    "user.connected",
    "user.away",
    "channel.subscribed",
    "channel.vacated",
];

/// The keys of a webhook.
const WEBHOOK_KEYS: [&str; 4] = ["name", "url", "secrets", "types"];

/// `[outlet]`. URLs are checked when the webhooks are built.
#[derive(Clone, Debug, PartialEq)]
pub struct OutletConfig {
    /// The consumers that poll over HTTP.
    pub consumers: Vec<String>,
    /// How long events are kept.
    pub retention: Duration,
    /// How long a webhook may refuse an event before it is set aside.
    pub give_up: Duration,
    /// Whether connections of users cause events.
    pub activity: bool,
    /// The time without a connection after which a user is away.
    pub away_after: Duration,
    /// Whether events are copied to a Stream of Redis.
    pub stream: bool,
    /// The number of events that the Stream keeps.
    pub stream_length: u64,
    /// The time for a request to a webhook.
    pub timeout: Duration,
    /// The maximum number of concurrent requests to each webhook.
    pub concurrency: usize,
    /// Private networks that webhooks may be in.
    pub allow_networks: Vec<IpNet>,
    /// The webhooks.
    pub webhooks: Vec<OutletWebhook>,
}

/// A webhook: `[[outlet.webhooks]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutletWebhook {
    /// Its name: 1 to 64 of `a-z 0-9 _ -`.
    pub name: String,
    /// Where events are sent.
    pub url: String,
    /// The secrets that sign them.
    pub secrets: Vec<Secret>,
    /// The types of events that it receives; empty: all.
    pub types: Vec<String>,
}

impl OutletConfig {
    pub(super) fn read(mut section: SectionReader<'_>, namespaces: &[Namespace]) -> Self {
        let outlet = Self {
            consumers: section.read("consumers", consumer_names),
            retention: section.read("retention", parse::duration("5s"..="30d")),
            give_up: section.read("give_up", parse::duration("1s"..="14d")),
            activity: section.read("activity", parse::boolean),
            away_after: section.read("away_after", parse::duration("0s"..="1h")),
            stream: section.read("stream", parse::boolean),
            stream_length: section.read("stream_length", parse::integer(1..=100_000_000)),
            timeout: section.read("timeout", parse::duration("100ms"..="30s")),
            concurrency: section.read("concurrency", parse::integer(1..=1_000)),
            allow_networks: section.read("allow_networks", networks),
            webhooks: section.read("webhooks", webhooks),
        };
        if outlet.retention <= outlet.give_up {
            section.problem(&["retention", "give_up"], "must be longer than outlet.give_up");
        }
        outlet.check_types(&mut section, namespaces);
        outlet
    }

    /// Reports types of events that never happen.
    fn check_types(&self, section: &mut SectionReader<'_>, namespaces: &[Namespace]) {
        let has_channel_events = namespaces.iter().any(|namespace| namespace.events);
        for webhook in &self.webhooks {
            for kind in &webhook.types {
                let needed = match kind.as_str() {
                    "user.connected" | "user.away" if !self.activity => "outlet.activity = true",
                    "channel.subscribed" | "channel.vacated" if !has_channel_events => "a namespace with events = true",
                    _ => continue,
                };
                let message =
                    format!("the webhook {:?} never gets the type {kind:?}, which needs {needed}", webhook.name);
                section.problem(&["webhooks"], &message);
            }
        }
    }

    /// Whether there is any consumer.
    pub fn is_enabled(&self) -> bool {
        self.stream || !self.consumers.is_empty() || !self.webhooks.is_empty()
    }
}

/// The name of a consumer or webhook.
fn name(text: String) -> ParseResult<String> {
    let is_plain = text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b));
    match is_plain && (1..=64).contains(&text.len()) {
        true => Ok(text),
        false => Err(format!("expected names of 1 to 64 of a-z 0-9 _ -, not {text:?}")),
    }
}

fn consumer_names(value: &ConfigValue) -> ParseResult<Vec<String>> {
    let names = parse::text_list(value)?.into_iter().map(name).collect::<ParseResult<Vec<_>>>()?;
    let mut seen = HashSet::new();
    match names.iter().find(|name| !seen.insert(*name)) {
        Some(twice) => Err(format!("there is another consumer {twice:?}")),
        None => Ok(names),
    }
}

/// A list of tables, in the environment as JSON.
fn webhooks(value: &ConfigValue) -> ParseResult<Vec<OutletWebhook>> {
    let items = match &value.kind {
        ValueKind::List(items) => items.clone(),
        ValueKind::Env(text) if text.trim().is_empty() => Vec::new(),
        ValueKind::Env(text) => {
            let items: Vec<serde_json::Value> =
                serde_json::from_str(text).map_err(|_| "expected a JSON array of objects".to_owned())?;
            items.into_iter().map(|item| ConfigValue::from_json(item, &value.source)).collect()
        }
        _ => return Err("expected a list of tables: [[outlet.webhooks]]".into()),
    };
    let mut names = HashSet::new();
    let mut webhooks = Vec::new();
    for (n, item) in items.iter().enumerate() {
        let ValueKind::Table(table) = &item.kind else {
            return Err(format!("expected a list of tables, not of {}", item.kind.name()));
        };
        let webhook = webhook(table).map_err(|problem| format!("webhook {n}: {problem}"))?;
        if !names.insert(webhook.name.clone()) {
            return Err(format!("webhook {n}: there is another webhook {:?}", webhook.name));
        }
        webhooks.push(webhook);
    }
    Ok(webhooks)
}

fn webhook(table: &Table) -> ParseResult<OutletWebhook> {
    if let Some(key) = table.keys().find(|key| !WEBHOOK_KEYS.contains(&key.as_str())) {
        let hint = nearest(key, WEBHOOK_KEYS.into_iter()).map(|nearest| format!("; did you mean {nearest}?"));
        return Err(format!("there is no key {key:?}{}", hint.unwrap_or_default()));
    }
    let required = |key: &str| table.get(key).ok_or_else(|| format!("{key} is missing"));
    let in_key = |key: &'static str| move |problem: String| format!("{key}: {problem}");
    let name = name(parse::nonempty_text(required("name")?).map_err(in_key("name"))?).map_err(in_key("name"))?;
    let url = parse::nonempty_text(required("url")?).map_err(in_key("url"))?;
    let secrets = parse::secret_list(required("secrets")?).map_err(in_key("secrets"))?;
    if secrets.is_empty() || secrets.iter().any(Secret::is_short) {
        return Err("secrets: expected at least one secret of 32 characters or more".into());
    }
    let types = table.get("types").map(parse::text_list).transpose().map_err(in_key("types"))?.unwrap_or_default();
    if let Some(unknown) = types.iter().find(|kind| !EVENT_TYPES.contains(&kind.as_str())) {
        let known: BTreeSet<&str> = EVENT_TYPES.into_iter().collect();
        let hint = nearest(unknown, known.into_iter()).map(|nearest| format!("; did you mean {nearest:?}?"));
        return Err(format!("types: there is no type {unknown:?}{}", hint.unwrap_or_default()));
    }
    Ok(OutletWebhook { name, url, secrets, types })
}
