//! `[push]`: pushes to the devices of users.

use std::collections::BTreeMap;
use std::time::Duration;

use ipnet::IpNet;

use super::key_text::{text_or_file, tidy};
use super::layers::SectionReader;
use super::parse::{self, ParseResult};
use super::secret::Secret;
use super::value::{ConfigValue, Table, ValueKind};

/// Templates by language, kind and part.
pub(crate) type PushTexts = BTreeMap<String, BTreeMap<String, BTreeMap<String, String>>>;

/// `[push]`: the push bridge and its providers. Keys and URLs are checked when the providers are built.
#[derive(Clone, Debug, PartialEq)]
pub struct PushConfig {
    /// Whether notifications are pushed to devices.
    pub enabled: bool,
    /// How long a notification waits for its owner to read it.
    pub grace: Duration,
    /// The time between two pushes of the same group of likes or follows.
    pub digest: Duration,
    /// How long after its notification a push is of use.
    pub ttl: Duration,
    /// How long a device is kept without a registration or a connection of its user.
    pub device_idle: Duration,
    /// The language of devices without one.
    pub locale: String,
    /// The name of the application in texts.
    pub app_name: String,
    /// Templates that replace or extend the built-in ones, by language, kind and part.
    pub texts: PushTexts,
    /// The time for a request to a provider.
    pub timeout: Duration,
    /// The maximum number of concurrent requests to each provider.
    pub concurrency: usize,
    /// Private networks that endpoints of devices may be in.
    pub allow_networks: Vec<IpNet>,
    /// The hosts of endpoints that users register; empty: all.
    pub endpoints_allow: Vec<String>,
    /// Hosts that these endpoints must not have.
    pub endpoints_deny: Vec<String>,
    /// Certificates of private authorities, as PEM; empty: none.
    pub ca_certificates: String,
    /// Whether all providers are replaced by one that sends nothing.
    pub dry_run: bool,
    /// The time that this provider takes.
    pub dry_run_latency: Duration,
    /// The service account of FCM, as JSON; `None`: no pushes to FCM.
    pub fcm_service_account: Option<Secret>,
    /// The address of FCM.
    pub fcm_url: String,
    /// The signing key of APNs, as PEM; `None`: no pushes to APNs.
    pub apns_key: Option<Secret>,
    /// The id of this key.
    pub apns_key_id: String,
    /// The id of the team.
    pub apns_team_id: String,
    /// The bundle id of devices without one.
    pub apns_topic: String,
    /// Whether devices that do not say so have tokens of the sandbox.
    pub apns_sandbox: bool,
    /// The address of APNs.
    pub apns_url: String,
    /// The address of its sandbox.
    pub apns_sandbox_url: String,
    /// The private key of VAPID; `None`: no Web Push.
    pub vapid_private_key: Option<Secret>,
    /// How push services reach the operator.
    pub vapid_subject: String,
    /// The secrets that sign webhooks. Empty: no webhooks.
    pub webhook_secrets: Vec<Secret>,
}

impl PushConfig {
    pub(super) fn read(mut section: SectionReader<'_>) -> Self {
        let push = Self {
            enabled: section.read("enabled", parse::boolean),
            grace: section.read("grace", parse::duration("0s"..="10m")),
            digest: section.read("digest", parse::duration("0s"..="24h")),
            ttl: section.read("ttl", parse::duration("1m"..="28d")),
            device_idle: section.read("device_idle", parse::duration("1s"..="3650d")),
            locale: section.read("locale", parse::nonempty_text),
            app_name: section.read("app_name", parse::nonempty_text),
            texts: section.read("texts", texts),
            timeout: section.read("timeout", parse::duration("100ms"..="15s")),
            concurrency: section.read("concurrency", parse::integer(1..=10_000)),
            allow_networks: section.read("allow_networks", networks),
            endpoints_allow: section.read("endpoints_allow", hosts),
            endpoints_deny: section.read("endpoints_deny", hosts),
            ca_certificates: section.read("ca_certificates", |value| Ok(pem(value)?.unwrap_or_default())),
            dry_run: section.read("dry_run", parse::boolean),
            dry_run_latency: section.read("dry_run_latency", parse::duration("0s"..="10s")),
            fcm_service_account: section.read("fcm_service_account", secret_or_file),
            fcm_url: section.read("fcm_url", parse::nonempty_text),
            apns_key: section.read("apns_key", secret_or_file),
            apns_key_id: section.read("apns_key_id", parse::text),
            apns_team_id: section.read("apns_team_id", parse::text),
            apns_topic: section.read("apns_topic", parse::text),
            apns_sandbox: section.read("apns_sandbox", parse::boolean),
            apns_url: section.read("apns_url", parse::nonempty_text),
            apns_sandbox_url: section.read("apns_sandbox_url", parse::nonempty_text),
            vapid_private_key: section.read("vapid_private_key", vapid_key),
            vapid_subject: section.read("vapid_subject", parse::text),
            webhook_secrets: section.read("webhook_secrets", parse::secret_list),
        };
        if push.ttl <= push.grace {
            section.problem(&["ttl", "grace"], "must be longer than push.grace");
        }
        push
    }
}

/// The tables `[push.texts.<language>.<kind>]`, or the same as JSON. The templates are checked with the providers.
fn texts(value: &ConfigValue) -> ParseResult<PushTexts> {
    let json;
    let value = match &value.kind {
        ValueKind::Env(text) => {
            let parsed = serde_json::from_str(text).map_err(|error| format!("expected a JSON object: {error}"))?;
            json = ConfigValue::from_json(parsed, &value.source);
            &json
        }
        _ => value,
    };
    let mut texts = PushTexts::new();
    for (language, kinds) in table(value, "texts")? {
        let path = format!("texts.{language}");
        for (kind, parts) in table(kinds, &path)? {
            let path = format!("{path}.{kind}");
            for (part, template) in table(parts, &path)? {
                let ValueKind::Text(template) = &template.kind else {
                    return Err(format!("{path}.{part} is {}, not text", template.kind.name()));
                };
                let kinds = texts.entry(language.clone()).or_default();
                kinds.entry(kind.clone()).or_default().insert(part.clone(), template.clone());
            }
        }
    }
    Ok(texts)
}

fn table<'a>(value: &'a ConfigValue, path: &str) -> ParseResult<&'a Table> {
    match &value.kind {
        ValueKind::Table(table) => Ok(table),
        other => Err(format!("{path} is {}, not a table: write [push.texts.en.like]", other.name())),
    }
}

pub(super) fn networks(value: &ConfigValue) -> ParseResult<Vec<IpNet>> {
    let network = |text: String| {
        let address = text.parse::<std::net::IpAddr>().map(IpNet::from);
        text.parse::<IpNet>().or(address).map_err(|_| format!("expected a network such as 10.0.0.0/8, not {text:?}"))
    };
    parse::text_list(value)?.into_iter().map(network).collect()
}

/// Hosts, each possibly as `*.` and a domain.
fn hosts(value: &ConfigValue) -> ParseResult<Vec<String>> {
    let host = |text: String| {
        let name = text.strip_prefix("*.").unwrap_or(&text);
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-.:[]".contains(&b);
        let is_dotted = name.starts_with('.') || name.ends_with('.');
        let is_host = !name.is_empty() && !is_dotted && name.bytes().all(is_plain);
        if is_host { Ok(text) } else { Err(format!("expected a host such as push.example.org, not {text:?}")) }
    };
    parse::text_list(value)?.into_iter().map(host).collect()
}

/// PEM text, or the path of a PEM file.
fn pem(value: &ConfigValue) -> ParseResult<Option<String>> {
    text_or_file(value, "certificates in PEM", |_| false)
}

/// A secret in PEM or JSON, or the path of a file with it.
fn secret_or_file(value: &ConfigValue) -> ParseResult<Option<Secret>> {
    let text = text_or_file(value, "a key in PEM or JSON", |text| text.starts_with('{'))?;
    Ok(text.map(Secret::new))
}

/// A private key of VAPID, in base64url or PEM.
fn vapid_key(value: &ConfigValue) -> ParseResult<Option<Secret>> {
    let text = tidy(&parse::text(value)?);
    Ok(Some(text).filter(|text| !text.is_empty()).map(Secret::new))
}
