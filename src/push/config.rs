//! `[push]`: pushes to the devices of users.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::time::Duration;

use ipnet::IpNet;
use reqwest::Url;

use crate::net::parse_network;
use crate::settings::parse::{self, ParseResult};
use crate::settings::{ConfigValue, Secret, SectionReader, Table, ValueKind, section, text_or_file, tidy};

/// Templates by language, kind and part.
pub(crate) type PushTexts = BTreeMap<String, BTreeMap<String, BTreeMap<String, String>>>;

section! {
    /// `[push]`: the push bridge and its providers. Keys and URLs are checked when the providers are built.
    pub struct PushConfig {
        /// Whether notifications are pushed to devices.
        pub enabled: bool = parse::boolean,
        /// How long a notification waits for its owner to read it.
        pub grace: Duration = parse::duration("0s"..="10m"),
        /// The time between two pushes of the same group of likes or follows.
        pub digest: Duration = parse::duration("0s"..="24h"),
        /// How long after its notification a push is of use.
        pub ttl: Duration = parse::duration("1m"..="28d"),
        /// How long a device is kept without a registration or a connection of its user; `None`: for ever.
        pub device_idle: Option<Duration> = parse::duration_limit("1s"..="3650d"),
        /// The language of devices without one.
        pub locale: String = parse::nonempty_text,
        /// The name of the application in texts.
        pub app_name: String = parse::nonempty_text,
        /// Templates that replace or extend the built-in ones, by language, kind and part.
        pub texts: PushTexts = texts,
        /// The time for a request to a provider.
        pub timeout: Duration = parse::duration("100ms"..="15s"),
        /// The maximum number of concurrent requests to each provider.
        pub concurrency: usize = parse::integer(1..=10_000),
        /// Private networks that endpoints of devices may be in.
        pub allow_networks: Vec<IpNet> = parse::networks,
        /// The hosts of endpoints that users register; empty: all.
        pub endpoints_allow: Vec<String> = hosts,
        /// Hosts that these endpoints must not have.
        pub endpoints_deny: Vec<String> = hosts,
        /// Certificates of private authorities, as PEM; empty: none.
        pub ca_certificates: String = |value| Ok(pem(value)?.unwrap_or_default()),
        /// Whether all providers are replaced by one that sends nothing.
        pub dry_run: bool = parse::boolean,
        /// The time that this provider takes.
        pub dry_run_latency: Duration = parse::duration("0s"..="10s"),
        /// The service account of FCM, as JSON; `None`: no pushes to FCM.
        pub fcm_service_account: Option<Secret> = secret_or_file,
        /// The address of FCM.
        pub fcm_url: String = parse::nonempty_text,
        /// The signing key of APNs, as PEM; `None`: no pushes to APNs.
        pub apns_key: Option<Secret> = secret_or_file,
        /// The id of this key.
        pub apns_key_id: String = parse::text,
        /// The id of the team.
        pub apns_team_id: String = parse::text,
        /// The bundle id of devices without one.
        pub apns_topic: String = parse::text,
        /// Whether devices that do not say so have tokens of the sandbox.
        pub apns_sandbox: bool = parse::boolean,
        /// The address of APNs.
        pub apns_url: String = parse::nonempty_text,
        /// The address of its sandbox.
        pub apns_sandbox_url: String = parse::nonempty_text,
        /// The private key of VAPID; `None`: no Web Push.
        pub vapid_private_key: Option<Secret> = vapid_key,
        /// How push services reach the operator.
        pub vapid_subject: String = parse::text,
        /// The secrets that sign webhooks. Empty: no webhooks.
        pub webhook_secrets: Vec<Secret> = parse::secret_list,
    }
}

impl PushConfig {
    pub(crate) fn read(mut section: SectionReader<'_>) -> Self {
        let push = Self::read_keys(&mut section);
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
