//! Hooks: questions to a backend, which is an HTTP server of the test.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::client::{Client, Encoding};
use crate::server::{PATIENCE, Server, token, unix};

const NAMESPACES: &str = r#"[
    {"name":"chat","history_size":10,"history_ttl":"60s","presence":true,"subscribe":"nobody","publish":"nobody"},
    {"name":"free"}
]"#;

/// How the backend answers a hook, or `hook/user` or `hook/cookie` before that.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// With this body.
    Json(Value),
    /// With this status and text.
    Raw(u16, String),
    /// Not at all.
    Never,
}

/// The name of a hook, the question, and the headers of the request.
pub(crate) type Asked = (String, Value, HashMap<String, String>);

/// A backend. It records the questions, and answers each hook as the test has set it.
pub(crate) struct Backend {
    port: u16,
    answers: Arc<Mutex<HashMap<String, Answer>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Backend {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let backend = Self { port, answers: Arc::default(), asked: Arc::default() };
        let (answers, asked) = (Arc::clone(&backend.answers), Arc::clone(&backend.asked));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answers, asked) = (Arc::clone(&answers), Arc::clone(&asked));
                let service = service_fn(move |request: Request<Incoming>| {
                    let (answers, asked) = (Arc::clone(&answers), Arc::clone(&asked));
                    async move {
                        let hook = request.uri().path().trim_start_matches('/').to_owned();
                        let text = |value: &hyper::header::HeaderValue| value.to_str().unwrap_or_default().to_owned();
                        let headers = request.headers().iter().map(|(name, value)| (name.to_string(), text(value)));
                        let headers: HashMap<String, String> = headers.collect();
                        let body = request.into_body().collect().await.expect("a body").to_bytes();
                        let question: Value = serde_json::from_slice(&body).expect("JSON");
                        let who = question["user"].as_str().or(headers.get("cookie").map(String::as_str));
                        let own = format!("{hook}/{}", who.unwrap_or_default());
                        asked.lock().push((hook.clone(), question, headers));
                        let answer = [&own, &hook].into_iter().find_map(|key| answers.lock().get(key).cloned());
                        let answer = answer.unwrap_or(Answer::Raw(404, String::new()));
                        let (status, body) = match answer {
                            Answer::Json(body) => (200, body.to_string()),
                            Answer::Raw(status, body) => (status, body),
                            Answer::Never => std::future::pending().await,
                        };
                        let response = Response::builder().status(status).body(Full::new(Bytes::from(body)));
                        Ok::<_, Infallible>(response.expect("a response"))
                    }
                });
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        backend
    }

    pub(crate) fn answer(&self, hook: &str, answer: Answer) {
        self.answers.lock().insert(hook.to_owned(), answer);
    }

    pub(crate) fn result(&self, hook: &str, result: Value) {
        self.answer(hook, Answer::Json(Value::from_iter([("result", result)])));
    }

    /// The questions of a hook so far.
    pub(crate) fn asked(&self, hook: &str) -> Vec<Value> {
        self.asked.lock().iter().filter(|(name, ..)| name == hook).map(|(_, question, _)| question.clone()).collect()
    }

    pub(crate) async fn asked_times(&self, hook: &str, times: usize) {
        let until = Instant::now() + PATIENCE;
        while self.asked(hook).len() < times {
            assert!(Instant::now() < until, "{hook} is not asked: {:?}", self.asked.lock());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// A server that asks these hooks.
    pub(crate) async fn server(&self, hooks: &[&str], more: &[(&str, &str)]) -> Server {
        let keys = hooks.iter().map(|hook| (format!("hooks.{hook}"), format!("http://127.0.0.1:{}/{hook}", self.port)));
        let keys: Vec<(String, String)> = keys.collect();
        let keys = keys.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let common = [("namespaces", NAMESPACES), ("hooks.timeout", "500ms")];
        let keys: Vec<(&str, &str)> = common.into_iter().chain(keys).chain(more.iter().copied()).collect();
        Server::start_with(&keys).await
    }
}

/// Connects without a token. Returns the reply.
async fn connect(server: &Server, request: Value) -> (Client, Value) {
    let mut client = Client::open(server).await;
    let reply = client.call(json!({ "connect": request })).await;
    (client, reply)
}

/// Cookies say who a client is, and browsers send them along when another page links to a stream or posts to it.
#[tokio::test]
async fn with_cookies_streams_open_for_allowed_pages_only() {
    let backend = Backend::start().await;
    let more = [
        ("hooks.headers", "cookie"),
        ("server.origins", "https://app.example.org"),
        ("transports.uni_sse", "true"),
        ("transports.uni_http_stream", "true"),
    ];
    let server = backend.server(&["connect"], &more).await;
    backend.result("connect", json!({ "user": "ann" }));
    let script = [("sec-fetch-site", "same-origin"), ("sec-fetch-dest", "empty")];
    let own = format!("http://127.0.0.1:{}", server.port());
    let cases: [(&[(&str, &str)], bool); 10] = [
        (&[], false),
        (&[("origin", "https://evil.example")], false),
        (&[("origin", "null")], false),
        (&[("sec-fetch-site", "same-origin"), ("sec-fetch-dest", "image")], false),
        (&[("sec-fetch-site", "same-origin"), ("sec-fetch-dest", "document")], false),
        (&[("sec-fetch-site", "same-site"), ("sec-fetch-dest", "empty")], false),
        (&[("sec-fetch-site", "none"), ("sec-fetch-dest", "document")], false),
        (&script, true),
        (&[("origin", "https://app.example.org")], true),
        (&[("origin", &own)], true),
    ];
    for (headers, may_open) in cases {
        for path in ["/connection/sse", "/connection/http_stream", "/connection/uni_sse", "/connection/uni_http_stream"]
        {
            let is_unidirectional = path.contains("uni_");
            let connect = if is_unidirectional { "{}" } else { r#"{"id":1,"connect":{}}"# };
            let encoded: String = connect.bytes().map(|byte| format!("%{byte:02x}")).collect();
            let head: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let head = format!("host: 127.0.0.1:{}\r\ncookie: session=1\r\n{head}", server.port());
            let get = format!("GET {path}?cf_connect={encoded} HTTP/1.1\r\n{head}\r\n");
            let length = connect.len();
            let post = format!("POST {path} HTTP/1.1\r\n{head}content-length: {length}\r\n\r\n{connect}");
            for request in [get, post] {
                if path == "/connection/http_stream" && request.starts_with("GET") {
                    continue;
                }
                let status = first_line(&server, &request).await;
                let expected = if may_open { "HTTP/1.1 200" } else { "HTTP/1.1 403" };
                assert!(status.starts_with(expected), "{request}: {status}");
            }
        }
    }
    // A WebSocket without an origin is no browser's.
    let stream = TcpStream::connect(("127.0.0.1", server.port())).await.expect("to connect");
    Client::upgrade(&server, stream, &[("cookie", "session=1")]).await.expect("a handshake");
}

/// The application vouches for who a client is, and not for what a backend may do.
#[tokio::test]
async fn clients_that_a_hook_names_have_the_rights_of_users() {
    let backend = Backend::start().await;
    backend.result("connect", json!({ "user": "ann" }));
    let by_hook = backend.server(&["connect"], &[]).await;
    let webhook = json!({ "id": "hook", "platform": "webhook", "endpoint": "https://hooks.example/1" });
    let (mut ann, _) = connect(&by_hook, json!({})).await;
    let reply = ann.call(json!({ "rpc": { "method": "devices.register", "data": webhook } })).await;
    assert_eq!(reply["error"]["code"], 403, "{reply}");
    assert_eq!(ann.rpc("devices.list", &json!({})).await["items"], json!([]));
}

/// The first line of the answer to a request.
async fn first_line(server: &Server, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).await.expect("to connect");
    stream.write_all(request.as_bytes()).await.expect("to send");
    let mut line = String::new();
    let mut reader = BufReader::new(&mut stream);
    timeout(Duration::from_secs(10), reader.read_line(&mut line)).await.expect("an answer").expect("a line");
    line
}

#[tokio::test]
async fn the_backend_says_who_a_client_is() {
    let backend = Backend::start().await;
    let server = backend.server(&["connect"], &[("hooks.headers", "cookie,x-device")]).await;
    let subs = json!({ "chat:2": { "info": { "role": "host" }, "b64data": "eyJuIjoxfQ==" } });
    let granted = json!({
        "user": "ann", "info": { "name": "Ann" }, "data": { "hello": [1] }, "channels": ["chat:1"], "subs": subs,
        "meta": { "plan": "pro" },
    });
    backend.result("connect", granted);
    let stream = TcpStream::connect(("127.0.0.1", server.port())).await.expect("to connect");
    let headers = [("cookie", "session=1"), ("x-other", "secret"), ("authorization", "secret")];
    let mut ann = Client::upgrade(&server, stream, &headers).await.expect("a handshake");
    let request = json!({ "data": { "d": 1 }, "name": "js", "version": "5", 
        "headers": { "X-Device": "phone", "Cookie": "session=2" } });
    let connected = ann.done(json!({ "connect": request })).await;
    assert_eq!(connected["connect"]["data"], json!({ "hello": [1] }));
    let subs = connected["connect"]["subs"].as_object().expect("subscriptions");
    assert_eq!(subs.keys().collect::<Vec<_>>(), ["chat:1", "chat:2", "notifications:ann", "timeline:ann"]);
    assert_eq!(subs["chat:2"]["data"], json!({ "n": 1 }));
    let presence = ann.done(json!({ "presence": { "channel": "chat:2" } })).await;
    let client = connected["connect"]["client"].as_str().expect("an id");
    let info = &presence["presence"]["presence"][client];
    assert_eq!((&info["conn_info"]["name"], &info["chan_info"]["role"]), (&json!("Ann"), &json!("host")));
    // The user may use the feed.
    assert_eq!(ann.rpc("posts.create", &json!({ "text": "hello" })).await["author"], "ann");

    let (_, question, headers) = backend.asked.lock()[0].clone();
    let expected = json!({
        "client": client, "transport": "websocket", "protocol": "json", "encoding": "json",
        "name": "js", "version": "5", "data": { "d": 1 },
    });
    assert_eq!(question, expected);
    // A proxy may have set headers of the handshake: the client cannot replace them.
    assert_eq!((headers["cookie"].as_str(), headers["x-device"].as_str()), ("session=1", "phone"));
    assert!(!headers.contains_key("x-other") && !headers.contains_key("authorization"), "{headers:?}");

    // A token needs no question.
    let _bo = Client::connect(&server, "bo").await;
    assert_eq!(backend.asked("connect").len(), 1);
    let refreshed = ann.call(json!({ "rpc": { "method": "no.such" } })).await;
    assert_eq!(refreshed["error"]["code"], 108, "there is no rpc hook");
}

#[tokio::test]
async fn a_refusal_of_the_backend_reaches_the_client() {
    let backend = Backend::start().await;
    let server = backend.server(&["connect"], &[]).await;
    backend.answer("connect", Answer::Json(json!({ "error": { "code": 1000, "message": "no", "temporary": true } })));
    let (mut client, reply) = connect(&server, json!({})).await;
    assert_eq!(reply["error"], json!({ "code": 1000, "message": "no", "temporary": true }));
    client.command(json!({ "connect": {} })).await;
    assert_eq!(client.closed().await.0, 3501, "a second connect");
    backend.answer("connect", Answer::Json(json!({ "disconnect": { "code": 4500, "reason": "go away" } })));
    let mut client = Client::open(&server).await;
    client.command(json!({ "connect": {} })).await;
    assert_eq!(client.closed().await, (4500, "go away".to_owned()));
    // Not what an answer may say: a temporary error.
    for malformed in [
        Answer::Json(json!({})),
        Answer::Json(json!({ "result": { "user": "not a user" } })),
        Answer::Json(json!({ "result": { "user": "ann", "b64info": "%" } })),
        Answer::Json(json!({ "error": { "code": 3 } })),
        Answer::Raw(200, "<html>".into()),
    ] {
        backend.answer("connect", malformed.clone());
        let (_, reply) = connect(&server, json!({})).await;
        assert_eq!(
            (&reply["error"]["code"], &reply["error"]["temporary"]),
            (&json!(100), &json!(true)),
            "{malformed:?}"
        );
    }
}

#[tokio::test]
async fn unknown_methods_are_the_backends_and_operations_are_not() {
    let backend = Backend::start().await;
    let server = backend.server(&["rpc"], &[]).await;
    for encoding in [Encoding::Json, Encoding::Protobuf] {
        let mut ann = Client::connect_as(&server, "ann", encoding).await;
        backend.result("rpc", json!({ "b64data": "WzEsIDJd" }));
        assert_eq!(ann.rpc("app.sum", &json!([1])).await, json!([1, 2]));
        // One limit of depth on every way in, and on every way out.
        let deep = (0..33).fold(json!(1), |inner, _| json!([inner]));
        backend.result("rpc", json!({ "data": deep }));
        assert_eq!(ann.refused(json!({ "rpc": { "method": "app.sum" } })).await, 100);
        assert_eq!(ann.refused(json!({ "rpc": { "method": "app.sum", "data": deep } })).await, 107);
        backend.result("rpc", json!({}));
        assert_eq!(ann.rpc("app.nothing", &json!({})).await, Value::Null);
        backend.answer("rpc", Answer::Json(json!({ "error": { "code": 401, "message": "first pay" } })));
        let refused = ann.call(json!({ "rpc": { "method": "app.sum" } })).await;
        assert_eq!(refused["error"], json!({ "code": 401, "message": "first pay" }));
        let before = backend.asked("rpc").len();
        ann.rpc("users.get", &json!({ "id": "ann" })).await;
        assert_eq!(backend.asked("rpc").len(), before, "a hook stands before an operation");
        backend.answer("rpc", Answer::Json(json!({ "disconnect": { "code": 4000, "reason": "again" } })));
        ann.command(json!({ "rpc": { "method": "app.sum" } })).await;
        assert_eq!(ann.closed().await, (4000, "again".to_owned()));
    }
    let protocols: Vec<Value> = backend.asked("rpc").iter().map(|question| question["protocol"].clone()).collect();
    assert!(protocols.contains(&json!("json")) && protocols.contains(&json!("protobuf")));
}

#[tokio::test]
async fn the_backend_decides_on_subscriptions_and_publications() {
    let backend = Backend::start().await;
    let hooks = ["connect", "subscribe", "publish"];
    let server = backend.server(&hooks, &[("hooks.namespaces", "chat")]).await;
    backend.result("connect", json!({ "user": "ann", "meta": { "plan": "pro" } }));
    let (mut ann, _) = connect(&server, json!({})).await;
    backend.result("subscribe", json!({ "info": { "role": "host" }, "data": { "topic": "x" } }));
    let subscribe = json!({ "subscribe": { "channel": "chat:1", "data": { "why": 1 } } });
    let subscribed = ann.done(subscribe).await["subscribe"].clone();
    assert_eq!((&subscribed["data"], &subscribed["recoverable"]), (&json!({ "topic": "x" }), &json!(true)));
    let question = backend.asked("subscribe").pop().expect("a question");
    assert_eq!((&question["user"], &question["channel"]), (&json!("ann"), &json!("chat:1")));
    assert_eq!((&question["meta"], &question["data"]), (&json!({ "plan": "pro" }), &json!({ "why": 1 })));

    backend.result("publish", json!({ "data": { "checked": true } }));
    ann.done(json!({ "publish": { "channel": "chat:1", "data": { "raw": true } } })).await;
    let publication = ann.publication("chat:1").await;
    assert_eq!((&publication["data"], &publication["info"]["user"]), (&json!({ "checked": true }), &json!("ann")));
    assert_eq!(backend.asked("publish")[0]["data"], json!({ "raw": true }));
    backend.result("publish", json!({ "skip_history": true }));
    ann.done(json!({ "publish": { "channel": "chat:1", "data": 2 } })).await;
    let publication = ann.publication("chat:1").await;
    assert_eq!((&publication["data"], publication.get("offset")), (&json!(2), None));

    for hook in ["subscribe", "publish"] {
        backend.answer(hook, Answer::Json(json!({ "error": { "code": 403, "message": "no" } })));
    }
    assert_eq!(ann.refused(json!({ "subscribe": { "channel": "chat:2" } })).await, 403);
    assert_eq!(ann.refused(json!({ "publish": { "channel": "chat:1", "data": 1 } })).await, 403);
    // Other namespaces, the feed's channels, and the limits in a channel's name are not the backend's.
    let before = backend.asked.lock().len();
    ann.subscribe("free:1").await;
    ann.subscribe("topic:x").await;
    for (channel, code) in [("chat:#bo", 103), ("$chat:1", 103), ("timeline:bo", 103), ("none:1", 102)] {
        assert_eq!(ann.refused(json!({ "subscribe": { "channel": channel } })).await, code, "{channel}");
    }
    assert_eq!(ann.refused(json!({ "publish": { "channel": "topic:x", "data": 1 } })).await, 103);
    assert_eq!(backend.asked.lock().len(), before);

    // Without an answer, nothing is granted.
    for hook in ["subscribe", "publish"] {
        backend.answer(hook, Answer::Raw(500, String::new()));
    }
    assert_eq!(ann.refused(json!({ "subscribe": { "channel": "chat:2" } })).await, 100);
    assert_eq!(ann.refused(json!({ "publish": { "channel": "chat:1", "data": 1 } })).await, 100);
    backend.answer("subscribe", Answer::Json(json!({ "disconnect": { "code": 4501, "reason": "out" } })));
    ann.command(json!({ "subscribe": { "channel": "chat:3" } })).await;
    assert_eq!(ann.closed().await, (4501, "out".to_owned()));
}

#[tokio::test]
async fn the_backend_is_asked_again_when_a_grant_expires() {
    let backend = Backend::start().await;
    let server = backend.server(&["connect", "refresh", "subscribe", "sub_refresh"], &[]).await;
    backend.result("connect", json!({ "user": "ann", "expire_at": unix() + 2, "meta": 7 }));
    backend.result("subscribe", json!({ "expire_at": unix() + 2 }));
    backend.result("refresh", json!({ "expire_at": unix() + 4 }));
    backend.result("sub_refresh", json!({ "expire_at": unix() + 4 }));
    let (mut ann, connected) = connect(&server, json!({})).await;
    assert!(connected["connect"].get("expires").is_none(), "the client refreshes nothing: {connected}");
    ann.subscribe("chat:1").await;
    backend.asked_times("refresh", 1).await;
    backend.asked_times("sub_refresh", 1).await;
    assert_eq!(backend.asked("refresh")[0]["meta"], 7);
    assert_eq!(backend.asked("sub_refresh")[0]["channel"], "chat:1");
    // The second time, the subscription ends, and the connection stays a while without an answer.
    backend.result("sub_refresh", json!({ "expired": true }));
    backend.answer("refresh", Answer::Raw(500, String::new()));
    assert_eq!(ann.push_of("chat:1", "unsubscribe").await["code"], 2501);
    backend.asked_times("refresh", 2).await;
    ann.rpc("users.get", &json!({ "id": "ann" })).await;
    // A connection that the backend ends.
    backend.result("connect", json!({ "user": "bo", "expire_at": unix() + 2 }));
    backend.result("refresh", json!({ "expired": true }));
    let (mut bo, _) = connect(&server, json!({})).await;
    assert_eq!(bo.closed().await.0, 3005);
    // One that has expired when it is granted.
    backend.result("connect", json!({ "user": "bo", "expire_at": 1 }));
    let mut late = Client::open(&server).await;
    late.command(json!({ "connect": {} })).await;
    assert_eq!(late.closed().await.0, 3005);
    // Users of a token refresh with a token.
    let mut cy = Client::connect(&server, "cy").await;
    cy.done(json!({ "refresh": { "token": token("cy") } })).await;
    ann.command(json!({ "refresh": { "token": token("ann") } })).await;
    assert_eq!(ann.closed().await.0, 3501, "the backend refreshes this connection");
}

#[tokio::test]
async fn blocked_users_stay_out_whatever_the_backend_says() {
    let backend = Backend::start().await;
    let server = backend.server(&["connect"], &[]).await;
    backend.result("connect", json!({ "user": "ann" }));
    let (mut ann, _) = connect(&server, json!({})).await;
    server.backend("block_user", &json!({ "user": "ann" })).await;
    assert_eq!(ann.closed().await.0, 3507);
    let mut again = Client::open(&server).await;
    again.command(json!({ "connect": {} })).await;
    assert_eq!(again.closed().await.0, 3507);
}
