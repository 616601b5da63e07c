//! `[outlet]`: what happened, for consumers outside of Feedline.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use ipnet::IpNet;

use crate::settings::parse::{self, ParseResult};
use crate::settings::{ConfigValue, Secret, SectionReader, Table, ValueKind, nearest, section};

/// The types of events.
pub(super) const EVENT_TYPES: [&str; 14] = [
    "notification",
    "post.created",
    "post.edited",
    "post.deleted",
    "post.removed",
    "comment.removed",
    "user.suspended",
    "report.created",
    "follow.created",
    "follow.deleted",
    "user.connected",
    "user.away",
    "channel.subscribed",
    "channel.vacated",
];

/// The keys of a webhook.
const WEBHOOK_KEYS: [&str; 4] = ["name", "url", "secrets", "types"];

section! {
    /// `[outlet]`. URLs are checked when the webhooks are built.
    pub struct OutletConfig {
        /// The consumers that poll over HTTP.
        pub consumers: Vec<String> = consumer_names,
        /// How long events are kept.
        pub retention: Duration = parse::duration("5s"..="30d"),
        /// How long a webhook may refuse an event before it is set aside.
        pub give_up: Duration = parse::duration("1s"..="14d"),
        /// Whether connections of users cause events.
        pub activity: bool = parse::boolean,
        /// The time without a connection after which a user is away, and without a subscriber after which a channel is
        /// vacated.
        pub away_after: Duration = parse::duration("0s"..="1h"),
        /// Whether events are copied to a Stream of Redis.
        pub stream: bool = parse::boolean,
        /// The number of events that the Stream keeps.
        pub stream_length: u64 = parse::integer(1..=100_000_000),
        /// The time for a request to a webhook.
        pub timeout: Duration = parse::duration("100ms"..="30s"),
        /// The maximum number of concurrent requests to each webhook.
        pub concurrency: usize = parse::integer(1..=1_000),
        /// Private networks that webhooks may be in.
        pub allow_networks: Vec<IpNet> = parse::networks,
        /// The webhooks.
        pub webhooks: Vec<OutletWebhook> = webhooks,
    }
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
    /// Reads the section. `channel_events`: whether subscriptions to channels of the application cause events.
    pub(crate) fn read(mut section: SectionReader<'_>, channel_events: bool) -> Self {
        let outlet = Self::read_keys(&mut section);
        if outlet.retention <= outlet.give_up {
            section.problem(&["retention", "give_up"], "must be longer than outlet.give_up");
        }
        outlet.check_types(&mut section, channel_events);
        outlet
    }

    /// Reports types of events that never happen.
    fn check_types(&self, section: &mut SectionReader<'_>, channel_events: bool) {
        for webhook in &self.webhooks {
            for kind in &webhook.types {
                let needed = match kind.as_str() {
                    "user.connected" | "user.away" if !self.activity => "outlet.activity = true",
                    "channel.subscribed" | "channel.vacated" if !channel_events => "a namespace with events = true",
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

    /// All consumers with a cursor in the ledger: those that poll, and webhooks.
    pub(super) fn registered(&self) -> Vec<String> {
        let webhooks = self.webhooks.iter().map(|webhook| webhook_consumer(&webhook.name));
        self.consumers.iter().cloned().chain(webhooks).collect()
    }
}

/// The name under which the ledger knows a webhook. Consumers that poll have names without a colon.
pub fn webhook_consumer(name: &str) -> String {
    format!("webhook:{name}")
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::outlet::event::OutletEvent;

    #[test]
    fn webhooks_and_metrics_know_the_types_of_all_events() {
        let schema = schemars::schema_for!(OutletEvent<'_>).to_value();
        let variants = schema["oneOf"].as_array().expect("variants").iter();
        let types: BTreeSet<&str> =
            variants.map(|it| it["properties"]["type"]["const"].as_str().expect("a type")).collect();
        assert_eq!(types, BTreeSet::from(EVENT_TYPES));
    }
}
