//! Where the server listens: several addresses, sockets, and TLS.

use std::fs;
use std::io::{BufRead, BufReader, IoSlice, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use feedline::net::ClientStream;
use futures::{SinkExt as _, StreamExt as _};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio_tungstenite::tungstenite::Message;

use super::{err, feedline, run};

const PATIENCE: Duration = Duration::from_secs(20);
const API_KEY: &str = "an-api-key-of-thirty-two-characters";

/// A server that runs until it is dropped, and the lines that it printed at its start.
struct Running {
    child: Child,
    greeting: Vec<String>,
}

impl Running {
    fn start(dir: &TempDir, keys: &[(&str, &str)]) -> Self {
        let mut command = feedline(dir, &["serve"]);
        for (key, value) in keys {
            command.env(format!("FEEDLINE__{}", key.replace('.', "__").to_uppercase()), value);
        }
        command.env("FEEDLINE__SERVER__DRAIN", "0s").env("FEEDLINE__AUTH__API_KEYS", API_KEY);
        let log = fs::File::create(dir.path().join("log")).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut greeting = Vec::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap) {
            let is_last = line.starts_with("  secrets") || line.starts_with("  ledger");
            greeting.push(line);
            if is_last {
                break;
            }
        }
        let log = fs::read_to_string(dir.path().join("log")).unwrap();
        assert!(greeting.len() > 2, "the server does not start:\n{log}");
        Self { child, greeting }
    }

    /// The port in the line with this number.
    fn port(&self, line: usize) -> u16 {
        let digits = self.greeting[line].rsplit(':').next().unwrap();
        digits.parse().unwrap_or_else(|_| panic!("{:?}", self.greeting))
    }

    fn signal(&self, which: &str) {
        assert!(Command::new("kill").args([which, &self.child.id().to_string()]).status().unwrap().success());
    }

    fn stop(mut self) {
        self.signal("-TERM");
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request over a new connection and returns the whole answer.
fn ask(mut stream: impl Read + Write, path: &str) -> String {
    // At once: a peer that refuses the first byte may close before a second write.
    let request = format!("GET {path} HTTP/1.1\r\nhost: feed.example\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    // A peer may end TLS without its farewell.
    let _ = stream.read_to_string(&mut answer);
    answer
}

fn tcp(port: u16) -> std::net::TcpStream {
    let stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

#[test]
fn a_server_listens_on_ports_names_and_sockets() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("feedline.sock");
    // As a killed server would leave it.
    drop(UnixListener::bind(&socket).unwrap());
    let listen = format!("127.0.0.1:0, localhost:0, unix:{}", socket.display());
    let server = Running::start(&dir, &[("server.listen", &listen)]);
    let ports: Vec<usize> = (0..server.greeting.len()).filter(|n| server.greeting[*n].contains("http://")).collect();
    assert!(ports.len() >= 2, "{:?}", server.greeting);
    assert!(ask(tcp(server.port(ports[0])), "/health").starts_with("HTTP/1.1 200"));
    assert!(server.greeting.iter().any(|line| line.ends_with(&format!(" and unix:{}", socket.display()))));
    assert!(ask(UnixStream::connect(&socket).unwrap(), "/health").starts_with("HTTP/1.1 200"));

    let other = tempfile::tempdir().unwrap();
    let second = run_serve(&other, &[("server.listen", &format!("unix:{}", socket.display()))]);
    assert!(second.contains("cannot listen on unix:") && second.contains("(server.listen)"), "{second}");
    assert!(ask(UnixStream::connect(&socket).unwrap(), "/health").starts_with("HTTP/1.1 200"), "it is still served");
    server.stop();
    assert!(!socket.exists(), "it is removed at a stop");
}

#[test]
fn one_port_is_listened_on_for_both_families() {
    let Ok(free) = std::net::TcpListener::bind("[::1]:0") else { return };
    let port = free.local_addr().unwrap().port();
    drop(free);
    let dir = tempfile::tempdir().unwrap();
    let server = Running::start(&dir, &[("server.listen", &format!("0.0.0.0:{port},[::]:{port}"))]);
    assert!(ask(tcp(port), "/health").starts_with("HTTP/1.1 200"));
    let six = std::net::TcpStream::connect(("::1", port)).unwrap();
    assert!(ask(six, "/health").starts_with("HTTP/1.1 200"));
    server.stop();
}

/// The errors of a server that cannot start.
fn run_serve(dir: &TempDir, keys: &[(&str, &str)]) -> String {
    let mut command = feedline(dir, &["serve"]);
    for (key, value) in keys {
        command.env(format!("FEEDLINE__{}", key.replace('.', "__").to_uppercase()), value);
    }
    let ended = command.output().unwrap();
    assert!(!ended.status.success(), "{ended:?}");
    err(&ended).to_owned()
}

/// Makes a certificate for `feed.example` with this serial number, and its key.
pub(crate) fn certify(dir: &Path, serial: &str) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
        .args(["-days", "2", "-subj", "/CN=feed.example", "-addext", "subjectAltName=DNS:feed.example"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-set_serial", serial])
        .args(["-keyout", "tls.key", "-out", "tls.crt"])
        .current_dir(dir)
        .output()
        .expect("openssl is installed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// A client that trusts the certificate in the folder alone.
fn trusting(dir: &Path) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(dir.join("tls.crt")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    Arc::new(config.with_root_certificates(roots).with_no_client_auth())
}

fn encrypted(config: &Arc<ClientConfig>, port: u16) -> StreamOwned<ClientConnection, std::net::TcpStream> {
    let name = ServerName::try_from("feed.example").unwrap();
    StreamOwned::new(ClientConnection::new(Arc::clone(config), name).unwrap(), tcp(port))
}

#[test]
fn https_is_served_redirected_to_and_its_certificate_replaced() {
    let dir = tempfile::tempdir().unwrap();
    certify(dir.path(), "1");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let keys = [
        ("server.listen", "127.0.0.1:0"),
        ("server.tls_certificate", "tls.crt"),
        ("server.tls_key", "tls.key"),
        ("server.hsts", "365d"),
        ("server.redirect_listen", &free),
    ];
    let server = Running::start(&dir, &keys);
    assert!(server.greeting[0].contains(" is at https://127.0.0.1:"), "{:?}", server.greeting);
    let port = server.port(0);
    let first = trusting(dir.path());
    let answer = ask(encrypted(&first, port), "/health");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("strict-transport-security: max-age=31536000\r\n"), "{answer}");
    let plain = ask(tcp(port), "/health");
    assert!(!plain.contains("HTTP/1.1 200"), "{plain}");

    let redirected = ask(tcp(free.rsplit(':').next().unwrap().parse().unwrap()), "/post/1?a=b");
    assert!(redirected.starts_with("HTTP/1.1 308"), "{redirected}");
    assert!(redirected.contains(&format!("location: https://feed.example:{port}/post/1?a=b\r\n")), "{redirected}");
    assert!(!redirected.contains("strict-transport-security"), "{redirected}");

    // A key that does not fit is refused, and the earlier certificate stays.
    let key = fs::read(dir.path().join("tls.key")).unwrap();
    certify(dir.path(), "2");
    let second_key = fs::read(dir.path().join("tls.key")).unwrap();
    fs::write(dir.path().join("tls.key"), key).unwrap();
    server.signal("-HUP");
    logged(&dir, "the configuration was not reloaded");
    assert!(ask(encrypted(&first, port), "/health").starts_with("HTTP/1.1 200"));
    fs::write(dir.path().join("tls.key"), second_key).unwrap();
    server.signal("-HUP");
    logged(&dir, "reloaded the configuration");
    assert!(ask(encrypted(&trusting(dir.path()), port), "/health").starts_with("HTTP/1.1 200"));
    server.stop();
}

/// Waits for a text in the server's log.
fn logged(dir: &TempDir, text: &str) {
    let begun = Instant::now();
    loop {
        let log = fs::read_to_string(dir.path().join("log")).unwrap();
        if log.contains(text) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{text} is not in\n{log}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_certificate_needs_its_key_and_a_file() {
    let dir = tempfile::tempdir().unwrap();
    for (keys, expected) in [
        (vec![("server.tls_certificate", "tls.crt")], "server.tls_key: is missing"),
        (vec![("server.tls_key", "tls.key")], "server.tls_certificate: is missing"),
        (vec![("server.hsts", "1d")], "HSTS"),
        (vec![("server.redirect_listen", "127.0.0.1:0")], "REDIRECT_LISTEN"),
        (vec![("server.tls_certificate", "no.crt"), ("server.tls_key", "no.key")], "no.crt (server.tls_certificate)"),
    ] {
        let said = run_serve(&dir, &[&keys[..], &[("server.listen", "127.0.0.1:0")]].concat());
        assert!(said.contains(expected), "{keys:?}: {said}");
    }
    assert!(run(&dir, &["check-config"]).status.success());
}

#[tokio::test]
async fn a_websocket_over_tls_loses_nothing_of_what_its_client_reads_late() {
    let dir = tempfile::tempdir().unwrap();
    certify(dir.path(), "1");
    let keys = [
        ("server.listen", "127.0.0.1:0"),
        ("server.tls_certificate", "tls.crt"),
        ("server.tls_key", "tls.key"),
        ("server.admin_listen", "127.0.0.1:0"),
        ("client.queue_bytes", "100000000"),
        // On a slow machine, the messages take longer than a client may accept nothing by default.
        ("client.write_timeout", "1m"),
        ("client.insecure", "true"),
        ("namespaces", r#"[{"name":"news"}]"#),
    ];
    let server = Running::start(&dir, &keys);
    let port = server.port(0);
    let connect = || async {
        let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let name = ServerName::try_from("feed.example").unwrap();
        let stream = tokio_rustls::TlsConnector::from(trusting(dir.path())).connect(name, stream).await.unwrap();
        let url = "wss://feed.example/connection/websocket";
        tokio_tungstenite::client_async(url, stream).await.unwrap().0
    };
    let (mut reader, mut writer) = (connect().await, connect().await);
    for socket in [&mut reader, &mut writer] {
        socket.send(Message::text(json!({ "id": 1, "connect": {} }).to_string())).await.unwrap();
        socket.next().await.unwrap().unwrap();
    }
    let subscribe = json!({ "id": 2, "subscribe": { "channel": "news:today" } });
    reader.send(Message::text(subscribe.to_string())).await.unwrap();
    reader.next().await.unwrap().unwrap();
    // More than the buffers of both kernels hold.
    let long = "x".repeat(50_000);
    for n in 0..400 {
        let publish = json!({ "id": 3 + n, "publish": { "channel": "news:today", "data": { "n": n, "text": long } } });
        writer.send(Message::text(publish.to_string())).await.unwrap();
        writer.next().await.unwrap().unwrap();
    }
    let mut seen = 0;
    while seen < 400 {
        let message = tokio::time::timeout(PATIENCE, reader.next()).await.unwrap().unwrap().unwrap();
        for line in message.to_text().unwrap().lines() {
            let value: Value = serde_json::from_str(line).unwrap();
            if value["push"]["pub"].is_object() {
                assert_eq!(value["push"]["pub"]["data"]["n"], seen);
                assert_eq!(value["push"]["pub"]["data"]["text"].as_str().unwrap().len(), long.len());
                seen += 1;
            }
        }
    }
    server.stop();
}

#[tokio::test]
async fn what_counts_as_written_over_tls_was_sent() {
    let dir = tempfile::tempdir().unwrap();
    certify(dir.path(), "1");
    let certificate = CertificateDer::from_pem_file(dir.path().join("tls.crt")).unwrap();
    let key = PrivateKeyDer::from_pem_file(dir.path().join("tls.key")).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (far, _) = listener.accept().await.unwrap();
    let name = ServerName::try_from("feed.example").unwrap();
    let connector = tokio_rustls::TlsConnector::from(trusting(dir.path()));
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let (near, far) = tokio::join!(connector.connect(name, near), acceptor.accept(far));
    let (mut near, mut far) = (near.unwrap(), ClientStream::from(far.unwrap()));
    // Nobody reads until the kernel takes no more.
    let mut written = 0;
    loop {
        match far.try_write(&[IoSlice::new(&[7; 10_000])]) {
            Ok(bytes) => written += bytes,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(far.has_unsent() && written > 0);
    let mut read = vec![0; written];
    tokio::time::timeout(PATIENCE, near.read_exact(&mut read)).await.expect("all of it is sent").unwrap();
}
