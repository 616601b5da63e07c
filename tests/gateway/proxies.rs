//! Clients behind proxies: which client address counts.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Error;

use crate::client::Client;
use crate::server::{PATIENCE, Server, token};

/// A connection from an address of this machine.
async fn connection_from(address: [u8; 4], server: &Server) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::from(address), 0).into()).unwrap();
    socket.connect(([127, 0, 0, 1], server.port()).into()).await.unwrap()
}

const PROXY: [u8; 4] = [127, 0, 0, 2];

/// Tries to sign in as an unknown user; returns the status.
async fn sign_in(server: &Server, name: &str, headers: &[(&str, &str)]) -> u16 {
    let body = json!({ "user": name, "password": "not the right one" }).to_string();
    server.http("POST", "/api/v1/sessions", headers, &body).await.status.as_u16()
}

/// Fails to sign in until the server refuses further attempts.
async fn lock_out(server: &Server, headers: &[(&str, &str)]) {
    for n in 0..20 {
        match sign_in(server, &format!("nobody{n}"), headers).await {
            429 => return,
            status => assert_eq!(status, 401),
        }
    }
    panic!("no attempt was refused");
}

#[tokio::test]
async fn clients_behind_a_proxy_have_separate_limits() {
    let keys = [
        ("server.trusted_proxies", "127.0.0.1"),
        ("accounts.enabled", "true"),
        ("rates.sessions", "2"),
        ("server.log_level", "debug"),
    ];
    let server = Server::start_with(&keys).await;
    lock_out(&server, &[("x-forwarded-for", "192.0.2.1")]).await;
    let spoofed = [("x-forwarded-for", "198.51.100.9, 192.0.2.1")];
    assert_eq!(sign_in(&server, "other", &spoofed).await, 429, "addresses sent by the client are ignored");
    assert_eq!(sign_in(&server, "other", &[("x-forwarded-for", "192.0.2.2")]).await, 401);
    assert_eq!(sign_in(&server, "another", &[("forwarded", "for=192.0.2.3;proto=https")]).await, 401);
    lock_out(&server, &[("forwarded", "for=\"[2001:db8::1]:4711\"")]).await;
    assert_eq!(sign_in(&server, "third", &[("x-forwarded-for", "2001:db8::2")]).await, 429, "the same subscriber");
    assert!(server.log().contains("192.0.2.2"), "the client's address is in the log");
}

async fn forwarded_socket(server: &Server, client: &str) -> Result<Client, u16> {
    let stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    match Client::upgrade(server, stream, &[("x-forwarded-for", client)]).await {
        Ok(mut socket) => {
            socket.done(json!({ "connect": { "token": token("ann") } })).await;
            Ok(socket)
        }
        Err(Error::Http(answer)) => Err(answer.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn sockets_of_a_client_behind_a_proxy_are_limited() {
    let keys = [("server.trusted_proxies", "127.0.0.1,10.0.0.0/8"), ("server.connections_per_address", "2")];
    let server = Server::start_with(&keys).await;
    let first = forwarded_socket(&server, "192.0.2.1").await.unwrap();
    let _second = forwarded_socket(&server, "198.51.100.9, 192.0.2.1, 10.0.0.7").await.unwrap();
    assert_eq!(forwarded_socket(&server, "192.0.2.1").await.err(), Some(503));
    let _other = forwarded_socket(&server, "192.0.2.2").await.unwrap();
    let _six = forwarded_socket(&server, "2001:db8:1:2::1").await.unwrap();
    let _seven = forwarded_socket(&server, "2001:db8:1:2::2").await.unwrap();
    assert_eq!(forwarded_socket(&server, "2001:db8:1:2:ffff::3").await.err(), Some(503), "one subscriber has a /64");
    let refusals = "feedline_connections_refused_total{reason=\"connections_per_address\"}";
    assert_eq!(server.metric(refusals).await, Some(2.0));
    // The proxy itself may open any number of connections for other requests.
    let mut more = Vec::new();
    for _ in 0..5 {
        more.push(forwarded_socket(&server, "10.0.0.7").await.unwrap());
    }
    drop(first);
    let until = Instant::now() + PATIENCE;
    while forwarded_socket(&server, "192.0.2.1").await.is_err() {
        assert!(Instant::now() < until, "the slot was not freed");
    }
}

/// Writes bytes from the proxy's address; returns the complete response.
async fn answer_to(server: &Server, bytes: &[u8]) -> String {
    let mut stream = connection_from(PROXY, server).await;
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the server closes the connection");
    String::from_utf8_lossy(&answer).into_owned()
}

fn version_2(client: [u8; 4]) -> Vec<u8> {
    let addresses = [&client[..], &[127, 0, 0, 1], &[0x10, 0, 0x1f, 0x40]].concat();
    [b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c", &addresses[..]].concat()
}

#[tokio::test]
async fn proxy_protocol_header_gives_the_client_address() {
    let keys = [
        ("server.trusted_proxies", "127.0.0.2"),
        ("server.proxy_protocol", "true"),
        ("server.connections_per_address", "2"),
        ("server.header_timeout", "500ms"),
        ("server.log_level", "debug"),
    ];
    let server = Server::start_with(&keys).await;
    let health = b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let with = |header: &[u8]| [header, health].concat();
    for header in [
        b"PROXY TCP4 192.0.2.1 127.0.0.1 4711 8000\r\n".to_vec(),
        b"PROXY UNKNOWN\r\n".to_vec(),
        version_2([192, 0, 2, 1]),
    ] {
        let answer = answer_to(&server, &with(&header)).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{:?}: {answer}", String::from_utf8_lossy(&header));
    }
    assert!(server.log().contains("192.0.2.1"), "the client's address is in the log");
    for malformed in [
        with(b""),
        with(b"PROXY TCP4 192.0.2.1\r\n"),
        with(&[b"PROXY ", &[b'x'; 200][..]].concat()),
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff".to_vec(),
        b"\r\n\r\n\0\r\nQUIT\n\x21".to_vec(),
        b"".to_vec(),
    ] {
        let begin = Instant::now();
        let answer = answer_to(&server, &malformed).await;
        assert_eq!(answer, "", "{:?}", String::from_utf8_lossy(&malformed));
        assert!(begin.elapsed() < Duration::from_secs(5));
    }
    // Sockets of one client, and of another client behind the same proxy.
    let connect = async |client: [u8; 4]| {
        let mut stream = connection_from(PROXY, &server).await;
        stream.write_all(&version_2(client)).await.unwrap();
        Client::upgrade(&server, stream, &[]).await
    };
    let mut first = connect([192, 0, 2, 1]).await.unwrap();
    first.done(json!({ "connect": { "token": token("ann") } })).await;
    let _second = connect([192, 0, 2, 1]).await.unwrap();
    assert!(connect([192, 0, 2, 1]).await.is_err());
    let _other = connect([192, 0, 2, 2]).await.unwrap();
    // Other addresses are clients: they send no header, and the server ignores one if they do.
    assert_eq!(server.http("GET", "/health", &[], "").await.status, 200);
    let mut stranger = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    stranger.write_all(&with(b"PROXY TCP4 192.0.2.1 127.0.0.1 4711 8000\r\n")).await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, stranger.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
}

#[tokio::test]
async fn forwarded_headers_of_untrusted_proxies_are_ignored() {
    let keys = [
        ("server.trusted_proxies", "127.0.0.2"),
        ("server.proxy_protocol", "true"),
        ("accounts.enabled", "true"),
        ("rates.accounts", "1"),
    ];
    let server = Server::start_with(&keys).await;
    let mut statuses = Vec::new();
    for nth in 1..=3 {
        let body = format!(r#"{{"user":"user-{nth}","password":"a long password"}}"#);
        let request = format!(
            "PROXY UNKNOWN\r\nPOST /api/v1/accounts HTTP/1.1\r\nhost: x\r\nx-forwarded-for: 192.0.2.{nth}\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        let answer = answer_to(&server, request.as_bytes()).await;
        statuses.push(answer.split(' ').nth(1).unwrap_or_default().to_owned());
    }
    assert_eq!(statuses, ["201", "201", "429"], "the client cannot choose its address");
}
