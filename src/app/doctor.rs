//! `feedline doctor`: what a start would need, looked at from outside.

use std::fmt;
use std::io::{self, Write as _};
use std::path::Path;

use jiff::Timestamp;

use super::stores::{check_configured_stores, redis_options};
use super::{outlet_targets, push_providers};
use crate::broker::{InboxOptions, redis_rights};
use crate::config::{BrokerUrl, Config, LedgerUrl};
use crate::feed::now;
use crate::gateway::accept::bound_listener::BoundListener;
use crate::gateway::accept::tls::{self, ServerCertificate};
use crate::ledger::{PostgresOptions, postgres_rights};
use crate::net::ListenAddress;

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It is as it should be.
    Fine(String),
    /// It works, and could be better.
    Advice(String),
    /// A start fails, or a part of the service.
    Missing(String),
}

impl Finding {
    /// Whether it keeps the server from its work.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing(_))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fine(what) => write!(f, "ok       {what}"),
            Self::Advice(what) => write!(f, "advice   {what}"),
            Self::Missing(what) => write!(f, "missing  {what}"),
        }
    }
}

/// The number of open files below which a server is short of them.
const FILES: u64 = 4_096;

/// The difference of the clock of this machine from that of Redis at which it is worth a word, in milliseconds.
const MAX_CLOCK_SKEW: i64 = 1_000;

/// The size of the file by which a full disk is noticed, in bytes.
const PROBE_BYTES: usize = 256 * 1024;

/// A certificate that expires earlier is to be renewed, in days.
const RENEWAL_DAYS: u64 = 21;

/// Looks at everything that a configuration names: stores, rights, ports, files, certificates, credentials. Nothing
/// stays behind: a temporary file in folders that exist, and ports, are opened for a moment.
pub async fn examine(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    broker(config, &mut findings).await;
    ledger(config, &mut findings).await;
    if !findings.iter().any(Finding::is_missing) {
        match check_configured_stores(config).await {
            Ok(true) => findings.push(Finding::Fine("the broker and the ledger belong together".to_owned())),
            // The first start makes them belong together.
            Ok(false) => {}
            Err(error) => findings.push(Finding::Missing(format!("{error:#}"))),
        }
    }
    addresses(config, &mut findings).await;
    files(config, &mut findings);
    let credentials = push_providers(&config.push).map(drop).map_err(|error| format!("{error:#} (push)"));
    findings.push(found(credentials, "the credentials of pushes can be read"));
    let webhooks = outlet_targets(config).map(drop).map_err(|error| format!("{error:#} (outlet)"));
    findings.push(found(webhooks, "the webhooks of the outlet are valid"));
    findings
}

fn found(result: Result<(), String>, fine: &str) -> Finding {
    match result {
        Ok(()) => Finding::Fine(fine.to_owned()),
        Err(why) => Finding::Missing(why),
    }
}

async fn broker(config: &Config, findings: &mut Vec<Finding>) {
    let BrokerUrl::Redis(url) = &config.broker.url else {
        let text = "broker.url is memory: for a single process; timelines are rebuilt after each restart";
        return findings.push(Finding::Fine(text.to_owned()));
    };
    let name = config.broker.url.to_string();
    let inbox = InboxOptions { length: 1, idle: config.timeline.idle() };
    let found = match redis_rights(&redis_options(config, url, inbox)).await {
        Ok(found) => found,
        Err(error) => return findings.push(Finding::Missing(format!("{name} (broker.url): {error}"))),
    };
    let is_old =
        found.version.split('.').next().and_then(|major| major.parse().ok()).is_none_or(|major: u32| major < 7);
    findings.push(match is_old {
        true => Finding::Missing(format!("{name}: Redis 7 or later, this is {:?}", found.version)),
        false => Finding::Fine(format!("{name} is Redis {}", found.version)),
    });
    let is_empty = found.refused.is_empty();
    findings.extend(found.refused.into_iter().map(|why| Finding::Missing(format!("{name}: a right: {why}"))));
    if is_empty {
        findings.push(Finding::Fine(format!("{name}: the user has all rights")));
    }
    findings.extend(found.clock_ahead.map(|ahead| match ahead.abs() {
        ..=MAX_CLOCK_SKEW => Finding::Fine(format!("{name}: its clock and that of this machine agree")),
        _ => Finding::Advice(format!("{name}: the clock of this machine is {ahead} ms ahead of the server's")),
    }));
    match found.eviction_policy.as_deref() {
        Some("noeviction") => findings.push(Finding::Fine(format!("{name}: maxmemory-policy is noeviction"))),
        Some(policy) => findings.push(Finding::Advice(format!(
            "{name}: maxmemory-policy is {policy}: when its memory is full, Redis drops logs and acknowledged likes; \
             set noeviction"
        ))),
        None => findings.push(Finding::Advice(format!("{name} does not report its maxmemory-policy"))),
    }
}

async fn ledger(config: &Config, findings: &mut Vec<Finding>) {
    let name = config.ledger.url.to_string();
    let url = match &config.ledger.url {
        LedgerUrl::Sqlite(path) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            return findings.push(match writable(folder) {
                Ok(()) => Finding::Fine(format!("{name}: its folder can be written")),
                Err(error) => Finding::Missing(format!("{} (ledger.url): {error}", folder.display())),
            });
        }
        LedgerUrl::Postgres(url) => url,
    };
    let timeout = config.ledger.timeout;
    let connections = config.ledger.connections;
    let options = PostgresOptions { timeout, connections, ..PostgresOptions::new(url.clone()) };
    match postgres_rights(&options, now()).await {
        Ok(found) => {
            findings.push(Finding::Fine(format!("{name} is PostgreSQL {}", found.version)));
            findings.extend(found.missing.into_iter().map(|what| Finding::Missing(format!("{name}: {what}"))));
            findings.extend(found.advice.into_iter().map(|what| Finding::Advice(format!("{name}: {what}"))));
        }
        Err(error) => findings.push(Finding::Missing(format!("{name} (ledger.url): {error}"))),
    }
}

/// A port in use may be that of the server that runs. Sockets are not opened: that would replace one.
async fn addresses(config: &Config, findings: &mut Vec<Finding>) {
    let server = &config.server;
    let admin: Vec<ListenAddress> = server.admin_listen.map(ListenAddress::from).into_iter().collect();
    for (key, addresses) in [
        ("server.listen", &server.listen),
        ("server.admin_listen", &admin),
        ("server.redirect_listen", &server.redirect_listen),
    ] {
        for address in addresses {
            if let ListenAddress::Socket(path) = address {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
                findings.push(match writable(folder) {
                    Ok(()) => Finding::Fine(format!("{address} ({key}): its folder can be written")),
                    Err(error) => Finding::Missing(format!("{address} ({key}): {error}")),
                });
                continue;
            }
            findings.push(match BoundListener::bind(address).await {
                Ok(_) => Finding::Fine(format!("{address} ({key}) is free")),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    Finding::Advice(format!("{address} ({key}) is in use, as by a server that runs"))
                }
                Err(error) => Finding::Missing(format!("cannot listen on {address} ({key}): {error}")),
            });
        }
    }
    if let Some(files) = &config.server.tls {
        findings.push(match ServerCertificate::read(files) {
            Ok(key) => expiry(tls::expires_at(&key), now() / 1_000),
            Err(error) => Finding::Missing(format!("{error:#}")),
        });
    }
}

/// The end of the certificate, if it has expired. One that cannot be read has no end here: a start says why.
pub fn expired_certificate(config: &Config) -> Option<String> {
    let file = &config.server.tls.as_ref()?.certificate;
    let end = tls::file_expires_at(file).filter(|end| *end <= now() / 1_000)?;
    let end = i64::try_from(end).ok().and_then(|end| Timestamp::from_second(end).ok());
    let end = end.map_or_else(|| "long ago".to_owned(), |end| format!("on {end}"));
    Some(format!("{} (server.tls_certificate) expired {end}: clients refuse it", file.display()))
}

/// What the end of a certificate means at this time, both in Unix seconds.
fn expiry(expires_at: Option<u64>, now: u64) -> Finding {
    let fits = "the certificate and its key fit";
    let days = expires_at.map(|end| (end.saturating_sub(now) / (24 * 3600), end > now));
    match days {
        None => Finding::Advice(format!("{fits}; when it expires cannot be read")),
        Some((_, false)) => Finding::Missing("the certificate (server.tls_certificate) has expired".to_owned()),
        Some((days @ ..RENEWAL_DAYS, _)) => {
            Finding::Advice(format!("{fits}, and it expires in {days} days: renew it, and send SIGHUP"))
        }
        Some((days, _)) => Finding::Fine(format!("{fits}, for {days} more days")),
    }
}

fn files(config: &Config, findings: &mut Vec<Finding>) {
    let data = &config.server.data_dir;
    findings.push(match writable(data) {
        Ok(()) => Finding::Fine(format!("{} (server.data_dir) can be written", data.display())),
        Err(error) => Finding::Missing(format!("{} (server.data_dir): {error}", data.display())),
    });
    let limit = rlimit::getrlimit(rlimit::Resource::NOFILE).map_or(0, |(_, hard)| hard);
    findings.push(match limit {
        ..FILES => {
            Finding::Advice(format!("{limit} open files are allowed, one for each connection: raise LimitNOFILE"))
        }
        _ => Finding::Fine(format!("{limit} open files are allowed")),
    });
}

/// Whether files of some size can be made in a folder, or in the nearest one above it that exists.
fn writable(folder: &Path) -> io::Result<()> {
    let existing = folder.ancestors().find(|folder| folder.exists() || folder.as_os_str().is_empty());
    let existing = existing.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".doctor").tempfile_in(existing)?;
    file.write_all(&[0; PROBE_BYTES])?;
    // Some file systems find out here that they are full.
    file.as_file().sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_to_be_renewed_before_they_expire() {
        let (day, now) = (24 * 3600, 1_700_000_000);
        assert!(matches!(expiry(Some(now + 90 * day), now), Finding::Fine(text) if text.contains("for 90 more days")));
        assert!(matches!(expiry(Some(now + 20 * day), now), Finding::Advice(text) if text.contains("in 20 days")));
        assert!(matches!(expiry(None, now), Finding::Advice(_)));
        for end in [now, now - 1, 0] {
            assert!(expiry(Some(end), now).is_missing(), "{end}");
        }
    }
}
