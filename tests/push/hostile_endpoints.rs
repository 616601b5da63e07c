//! Endpoints that aim the server at private services.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use feedline::config::Secret;
use feedline::push::providers::endpoint::{EndpointPolicy, EndpointUrl};
use feedline::push::providers::settings::WebhookSettings;
use feedline::push::providers::{Lookup, Outcome, Providers, ProvidersConfig, Target};
use tokio::net::TcpListener;

use crate::server::{Reply, Server};
use crate::{alert, config, summary};

/// Answers with the addresses of a table, one list after the other for each name.
#[derive(Default)]
struct Table {
    answers: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    asked: AtomicUsize,
}

impl Table {
    fn with(self, name: &str, answers: &[&[&str]]) -> Self {
        let parse = |list: &&[&str]| list.iter().map(|address| address.parse().unwrap()).collect();
        self.answers.lock().unwrap().insert(name.to_owned(), answers.iter().map(parse).collect());
        self
    }
}

#[async_trait]
impl Lookup for Table {
    async fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.answers.lock().unwrap();
        let lists = answers.get_mut(name).ok_or_else(|| io::Error::other("no such name"))?;
        Ok(if lists.len() > 1 { lists.remove(0) } else { lists[0].clone() })
    }
}

fn webhooks(config: ProvidersConfig) -> Providers {
    let secrets = vec![Secret::new("x".repeat(32))];
    let mut config = ProvidersConfig { webhook: Some(WebhookSettings { secrets, concurrency: 10 }), ..config };
    config.breaker.failures = 1000;
    config.breaker.min_open = Duration::ZERO;
    Providers::new(&config).unwrap()
}

async fn send(webhooks: &Providers, url: &str) -> Outcome {
    let Ok(url) = EndpointUrl::parse(url) else { return Outcome::rejected("endpoint_forbidden") };
    webhooks.send(&alert(Target::Webhook { url, secret: None })).await
}

/// A listener that nothing may connect to.
async fn canary(address: &str) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(address).await.unwrap();
    let (port, connections) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        loop {
            listener.accept().await.unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    (port, connections)
}

const HOSTILE: [&str; 58] = [
    // Literal addresses, in all forms that the URL standard reads as IPv4.
    "https://127.0.0.1:PORT/",
    "https://127.1:PORT/",
    "https://2130706433:PORT/",
    "https://0x7f000001:PORT/",
    "https://0x7f.0.0.1:PORT/",
    "https://0177.0.0.1:PORT/",
    "https://017700000001:PORT/",
    "https://127.0.0.1.:PORT/",
    "https://１２７.０.０.１:PORT/",
    "https://%31%32%37.0.0.1:PORT/",
    "https://0.0.0.0:PORT/",
    "https://0:PORT/",
    "https://127.255.255.254:PORT/",
    "https://10.0.0.1:PORT/",
    "https://172.16.0.1:PORT/",
    "https://192.168.0.1:PORT/",
    "https://100.64.0.1:PORT/",
    "https://100.100.100.200/latest/meta-data/",
    "https://169.254.169.254/latest/meta-data/",
    "https://168.63.129.16/machine",
    "https://192.0.0.192/opc/v1/",
    "https://192.0.2.1/",
    "https://198.18.0.1/",
    "https://198.51.100.1/",
    "https://203.0.113.1/",
    "https://224.0.0.1/",
    "https://255.255.255.255/",
    "https://[::1]:PORT/",
    "https://[::]:PORT/",
    "https://[::ffff:127.0.0.1]:PORT/",
    "https://[::ffff:7f00:1]:PORT/",
    "https://[::127.0.0.1]:PORT/",
    "https://[64:ff9b::127.0.0.1]:PORT/",
    "https://[2002:7f00:1::]:PORT/",
    "https://[2001:0:7f00:1::]:PORT/",
    "https://[fd00:ec2::254]/latest/meta-data/",
    "https://[fe80::1]:PORT/",
    "https://[ff02::1]:PORT/",
    "https://[2001:db8::1]/",
    // Names of the machine and of local networks.
    "https://localhost:PORT/",
    "https://LOCALHOST.:PORT/",
    "https://a.localhost:PORT/",
    "https://metadata.google.internal/computeMetadata/v1/",
    "https://printer.local/",
    "https://intranet/",
    // Names with private addresses.
    "https://loopback.example:PORT/",
    "https://private.example:PORT/",
    "https://mapped.example:PORT/",
    "https://metadata.example/",
    "https://ula.example:PORT/",
    "https://all-private.example:PORT/",
    // Other schemes, credentials, ports of other protocols.
    "http://push.example/",
    "http://127.0.0.1:PORT/",
    "ftp://push.example/",
    "file:///etc/passwd",
    "https://user:password@push.example/",
    "https://push.example:6379/",
    "https://push.example:25/",
];

fn hostile_names() -> Table {
    Table::default()
        .with("loopback.example", &[&["127.0.0.1"]])
        .with("private.example", &[&["10.0.0.1"]])
        .with("mapped.example", &[&["::ffff:127.0.0.1"]])
        .with("metadata.example", &[&["169.254.169.254"]])
        .with("ula.example", &[&["fd00::1"]])
        .with("all-private.example", &[&["127.0.0.1", "192.168.1.1", "::1"]])
        .with("localhost", &[&["127.0.0.1"]])
        .with("a.localhost", &[&["127.0.0.1"]])
}

#[tokio::test]
async fn hostile_endpoints_are_not_contacted() {
    let (port, connections) = canary("127.0.0.1:0").await;
    let config = || ProvidersConfig { lookup: Arc::new(hostile_names()), ..config() };
    let closed = webhooks(ProvidersConfig { allow_networks: Vec::new(), ..config() });
    // An allowed network opens that network, and nothing else.
    let elsewhere = webhooks(ProvidersConfig { allow_networks: vec!["10.77.0.0/16".parse().unwrap()], ..config() });
    for url in HOSTILE {
        let url = url.replace("PORT", &port.to_string());
        let outcome = send(&closed, &url).await;
        assert_eq!(summary(&outcome), ("rejected", "endpoint_forbidden", None), "{url}: {outcome:?}");
        let outcome = send(&elsewhere, &url).await;
        let refused = matches!(summary(&outcome), ("rejected", "endpoint_forbidden", None) | ("retry", "connect", _));
        assert!(refused, "{url}: {outcome:?}");
    }
    assert_eq!(connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn registrations_are_checked_without_a_request() {
    let closed = EndpointPolicy::default();
    let check = |url: &str| EndpointUrl::parse(url).is_ok_and(|url| closed.check(&url).is_ok());
    let by_name = |url: &&str| url.contains(".example:PORT/") || url.contains("metadata.example");
    for url in HOSTILE.iter().filter(|url| !by_name(url)) {
        assert!(!check(&url.replace("PORT", "8443")), "{url}");
    }
    let services = [
        "https://fcm.googleapis.com/fcm/send/abc",
        "https://updates.push.services.mozilla.com/wpush/v2/abc",
        "https://web.push.apple.com/abc",
        "https://wns2-par02p.notify.windows.com/w/?token=abc",
        "https://ntfy.example.org:8443/upABC?up=1",
        "https://1.1.1.1/x",
        "https://[2606:4700::1111]/x",
    ];
    for url in services {
        assert!(check(url), "{url}");
    }
    assert!(!check(&format!("https://push.example.net/{}", "x".repeat(2048))));
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let (port, connections) = canary("127.0.0.2:0").await;
    let server = Server::start(|_| Reply::new(200)).await;
    let webhooks = webhooks(config());
    for status in [301, 302, 303, 307, 308] {
        let location = format!("https://127.0.0.2:{port}/");
        server.answer(move |_| Reply::new(status).with("location", &location));
        let outcome = send(&webhooks, server.url("/").reveal()).await;
        assert_eq!(summary(&outcome), ("rejected", "redirect", None), "{status}");
    }
    // Not even to an address that may be contacted.
    let other = Server::start(|_| Reply::new(200)).await;
    let location = other.url("/").reveal().to_owned();
    server.answer(move |_| Reply::new(307).with("location", &location));
    assert_eq!(summary(&send(&webhooks, server.url("/").reveal()).await).1, "redirect");
    assert_eq!((connections.load(Ordering::SeqCst), other.connections()), (0, 0));
}

#[tokio::test]
async fn a_name_that_changes_its_address_is_checked_at_each_connection() {
    let server = Server::start_plain(|_| Reply::new(200)).await;
    server.close_connections();
    let port = server.address.port();
    let canary = Server::listen(&format!("127.0.0.2:{port}"), false, |_| Reply::new(200)).await;
    let names = Table::default().with("push.example", &[&["127.0.0.1"], &["127.0.0.2"], &["127.0.0.2", "127.0.0.1"]]);
    let names = Arc::new(names);
    let webhooks = webhooks(ProvidersConfig { lookup: Arc::<Table>::clone(&names), ..config() });
    let url = format!("http://push.example:{port}/");
    assert_eq!(send(&webhooks, &url).await.name(), "accepted");
    assert_eq!(summary(&send(&webhooks, &url).await), ("rejected", "endpoint_forbidden", None));
    assert_eq!(send(&webhooks, &url).await.name(), "accepted", "the permitted address is left");
    assert_eq!((names.asked.load(Ordering::SeqCst), server.connections(), canary.connections()), (3, 2, 0));
}

#[tokio::test]
async fn without_tls_only_allowed_networks_are_reached() {
    let names = Table::default().with("public.example", &[&["198.41.0.4"]]).with("push.example", &[&["127.0.0.1"]]);
    let webhooks = webhooks(ProvidersConfig { lookup: Arc::new(names), ..config() });
    assert_eq!(summary(&send(&webhooks, "http://public.example/").await).1, "endpoint_forbidden");
    assert_eq!(summary(&send(&webhooks, "http://198.41.0.4/").await).1, "endpoint_forbidden");
    let server = Server::start(|_| Reply::new(200)).await;
    let url = format!("https://push.example:{}/", server.address.port());
    assert_eq!(send(&webhooks, &url).await.name(), "accepted", "with TLS, by name");
}

#[tokio::test]
async fn the_resolver_of_the_system_is_filtered() {
    let server = Server::start(|_| Reply::new(200)).await;
    let url = format!("https://localhost:{}/", server.address.port());
    assert_eq!(send(&webhooks(config()), &url).await.name(), "accepted");
    let elsewhere = ProvidersConfig { allow_networks: vec!["10.77.0.0/16".parse().unwrap()], ..config() };
    assert_eq!(summary(&send(&webhooks(elsewhere), &url).await).1, "endpoint_forbidden");
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_certificate_of_another_name_is_refused() {
    let names = Table::default().with("other.example", &[&["127.0.0.1"]]);
    let webhooks = webhooks(ProvidersConfig { lookup: Arc::new(names), ..config() });
    let server = Server::start(|_| Reply::new(200)).await;
    let url = format!("https://other.example:{}/", server.address.port());
    assert_eq!(summary(&send(&webhooks, &url).await).1, "connect");
    assert!(server.requests().is_empty());
}
