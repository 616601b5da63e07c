//! `[push]`: pushes to the devices of users.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::time::Duration;

use ipnet::IpNet;
use reqwest::Url;

use super::key_text::{text_or_file, tidy};
use super::layers::SectionReader;
use super::parse::{self, ParseResult};
use super::secret::Secret;
use super::value::{ConfigValue, Table, ValueKind};
use crate::net::parse_network;

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
        if let Some(denied) = push.endpoints_allow.iter().find(|host| is_covered(host, &push.endpoints_deny)) {
            let message = format!("{denied:?} allows nothing: push.endpoints_deny has it");
            section.problem(&["endpoints_allow"], &message);
        }
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
        parse_network(&text).ok_or_else(|| format!("expected a network such as 10.0.0.0/8, not {text:?}"))
    };
    parse::text_list(value)?.into_iter().map(network).collect()
}

/// Hosts, each possibly as `*.` and a domain, in the form that URLs have after parsing: in lower case and punycode.
fn hosts(value: &ConfigValue) -> ParseResult<Vec<String>> {
    parse::text_list(value)?.iter().map(|text| host(text)).collect()
}

fn host(text: &str) -> ParseResult<String> {
    let (below, name) = text.strip_prefix("*.").map_or(("", text), |name| ("*.", name));
    let expected = || format!("expected a host such as push.example.org, or *.example.org, not {text:?}");
    // An address of IPv6 has brackets in URLs.
    let is_bare = name.parse::<Ipv6Addr>().is_ok();
    let bracketed = if is_bare { format!("[{name}]") } else { name.to_owned() };
    let is_host = !bracketed.is_empty() && !bracketed.contains(['/', '\\', '?', '#', '@', '*', '%']);
    let parsed = Url::parse(&format!("https://{bracketed}/")).ok().filter(|url| is_host && url.port().is_none());
    // The port of https is left out by the parser.
    let has_port = bracketed.rsplit(']').next().unwrap_or_default().contains(':');
    let known = parsed.and_then(|url| url.host_str().map(str::to_owned)).filter(|_| !has_port);
    let is_plain = |host: &str| host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:[]".contains(&b));
    if let Some(known) = known.filter(|known| is_plain(known) && !known.starts_with('.') && !known.ends_with('.')) {
        return Ok(format!("{below}{known}"));
    }
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let rest = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let url = Url::parse(&format!("https://{}", rest.trim_start_matches("*.").trim_matches('.'))).ok();
    let meant = url.and_then(|url| url.host_str().filter(|host| !host.contains('*')).map(str::to_owned));
    let below = if rest.starts_with("*.") { "*." } else { "" };
    let hint = meant
        .filter(|_| !rest.is_empty() && parse_network(text).is_none())
        .map(|meant| format!("; did you mean \"{below}{meant}\"?"));
    Err(format!("{}{}", expected(), hint.unwrap_or_default()))
}

/// Whether a host or pattern is in a list, or below a domain in it.
fn is_covered(host: &str, list: &[String]) -> bool {
    let name = host.strip_prefix("*.").unwrap_or(host);
    list.iter().any(|other| match other.strip_prefix("*.") {
        Some(domain) => name
            .strip_suffix(domain)
            .is_some_and(|rest| rest.ends_with('.') || (rest.is_empty() && host.starts_with("*."))),
        None => other == host,
    })
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
