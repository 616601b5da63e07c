//! A minimal client of the protocol, over any transport. It numbers commands, answers pings, and queues pushes in
//! order.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::contract::{check_event, check_output};
use crate::protobuf::{command_frame, messages};
use crate::server::{PATIENCE, Server, token};
use crate::socket::Socket;
use crate::stream_socket::{StreamKind, StreamSocket};
use crate::unidirectional::UniSocket;

/// A client.
pub struct Client {
    /// The socket, for tests that send frames other than commands.
    pub socket: Socket,
    last_id: u32,
    /// Commands that wait for a reply, by id. Each reply is validated against its command.
    asked: HashMap<u64, Value>,
    /// Received pushes that the test has not read yet (the `push` objects).
    pushes: VecDeque<Value>,
    /// Unprocessed lines of the last frame.
    lines: VecDeque<Value>,
    /// The close code and reason, once received; 1006 if the connection broke without a close frame.
    closed: Option<(u16, String)>,
    reads_after_close: u32,
    /// Whether the client answers pings.
    pub pongs: Pongs,
    /// The encoding of the messages. Tests write and read JSON in both.
    encoding: Encoding,
}

/// The encoding of a client's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// JSON in text frames.
    Json,
    /// Protobuf in binary frames.
    Protobuf,
}

/// The transport and the encoding of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// A WebSocket.
    WebSocket(Encoding),
    /// A WebSocket that only receives.
    UniWebSocket,
    /// An HTTP stream, or SSE.
    Stream(StreamKind),
}

impl Wire {
    /// All streams.
    pub const STREAMS: [Self; 3] =
        [Self::Stream(StreamKind::Json), Self::Stream(StreamKind::Protobuf), Self::Stream(StreamKind::Events)];

    /// All transports on which clients send commands, in each encoding.
    pub const BIDIRECTIONAL: [Self; 5] = [
        Self::WebSocket(Encoding::Json),
        Self::WebSocket(Encoding::Protobuf),
        Self::Stream(StreamKind::Json),
        Self::Stream(StreamKind::Protobuf),
        Self::Stream(StreamKind::Events),
    ];

    /// All transports whose clients only receive. The server serves them if [`UNI_TRANSPORTS`] is in its configuration.
    pub const UNIDIRECTIONAL: [Self; 3] =
        [Self::UniWebSocket, Self::Stream(StreamKind::UniJson), Self::Stream(StreamKind::UniEvents)];

    /// All transports, in each encoding.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::BIDIRECTIONAL.into_iter().chain(Self::UNIDIRECTIONAL)
    }

    /// Whether clients only receive.
    pub fn is_unidirectional(self) -> bool {
        Self::UNIDIRECTIONAL.contains(&self)
    }
}

/// The keys of a server with unidirectional transports.
pub const UNI_TRANSPORTS: [(&str, &str); 3] =
    [("transports.uni_websocket", "true"), ("transports.uni_http_stream", "true"), ("transports.uni_sse", "true")];

/// How a client reacts to pings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pongs {
    /// The client answers pings.
    Answered,
    /// The client ignores pings, like a hung client.
    Withheld,
}

/// The next message from the server.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// A reply.
    Reply(Value),
    /// The inner part of a push: `{"channel":…,"pub":…}`.
    Push(Value),
    /// A ping.
    Ping,
    /// The close code and reason.
    Closed(u16, String),
}

impl Client {
    /// Opens a socket that has not sent any command.
    pub async fn open(server: &Server) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server.port())).await.expect("to connect");
        Self::over(server, stream).await
    }

    /// Like [`open`](Self::open), over an existing connection.
    pub async fn over(server: &Server, stream: TcpStream) -> Self {
        Self::upgrade(server, stream, &[]).await.expect("a handshake")
    }

    /// Opens a socket with extra headers. Fails with the server's answer if the server refuses the upgrade.
    pub async fn upgrade(server: &Server, stream: TcpStream, headers: &[(&'static str, &str)]) -> Result<Self, Error> {
        Self::negotiate(server, stream, "", headers).await.map(|(client, _)| client)
    }

    /// Opens a socket whose messages are Protobuf.
    pub async fn open_protobuf(server: &Server) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server.port())).await.expect("to connect");
        let subprotocol = [("sec-websocket-protocol", "centrifuge-protobuf")];
        let (client, chosen) = Self::negotiate(server, stream, "", &subprotocol).await.expect("a handshake");
        assert_eq!(chosen.as_deref(), Some("centrifuge-protobuf"));
        client
    }

    /// Opens a socket with a query and extra headers. Also returns the subprotocol that the server chose. Fails with
    /// the server's answer if the server refuses the upgrade.
    pub async fn negotiate(
        server: &Server,
        stream: TcpStream,
        query: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<(Self, Option<String>), Error> {
        let url = format!("ws://127.0.0.1:{}/connection/websocket?{query}", server.port());
        let mut request = url.into_client_request().expect("a request");
        for (name, value) in headers {
            request.headers_mut().insert(*name, HeaderValue::from_str(value).expect("a value"));
        }
        let (socket, response) = timeout(PATIENCE, client_async(request, stream)).await.expect("in time")?;
        let chosen = response.headers().get("sec-websocket-protocol");
        let chosen = chosen.map(|chosen| chosen.to_str().expect("text").to_owned());
        let is_protobuf = query.contains("protobuf") || chosen.as_deref() == Some("centrifuge-protobuf");
        let encoding = if is_protobuf { Encoding::Protobuf } else { Encoding::Json };
        Ok((Self::on(Socket::WebSocket(Box::new(socket)), encoding), chosen))
    }

    fn on(socket: Socket, encoding: Encoding) -> Self {
        Self {
            socket,
            last_id: 0,
            asked: HashMap::new(),
            pushes: VecDeque::new(),
            lines: VecDeque::new(),
            closed: None,
            reads_after_close: 0,
            pongs: Pongs::Answered,
            encoding,
        }
    }

    /// A client of a stream that has not sent any command; the first one opens the stream.
    pub fn stream(server: &Server, kind: StreamKind) -> Self {
        Self::stream_via(vec![server.port()], kind)
    }

    /// The same with several nodes: the stream is at the first, and commands go to the others in turn.
    pub fn stream_via(ports: Vec<u16>, kind: StreamKind) -> Self {
        let encoding = if kind == StreamKind::Protobuf { Encoding::Protobuf } else { Encoding::Json };
        let pongs = if kind.is_unidirectional() { Pongs::Withheld } else { Pongs::Answered };
        Self { pongs, ..Self::on(Socket::Stream(StreamSocket::new(ports, kind)), encoding) }
    }

    /// A client of any transport that has not sent any command.
    pub async fn open_over(server: &Server, wire: Wire) -> Self {
        match wire {
            Wire::WebSocket(encoding) => Self::open_as(server, encoding).await,
            Wire::UniWebSocket => Self::open_unidirectional(server).await,
            Wire::Stream(kind) => Self::stream(server, kind),
        }
    }

    /// Opens a WebSocket that only receives, and has not sent the parameters of `connect`.
    async fn open_unidirectional(server: &Server) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server.port())).await.expect("to connect");
        let url = format!("ws://127.0.0.1:{}/connection/uni_websocket", server.port());
        let (socket, _) = timeout(PATIENCE, client_async(url, stream)).await.expect("in time").expect("a handshake");
        let socket = Socket::UniWebSocket(UniSocket(Box::new(socket)));
        Self { pongs: Pongs::Withheld, ..Self::on(socket, Encoding::Json) }
    }

    /// Connects a client of any transport as a user.
    pub async fn connect_over(server: &Server, user: &str, wire: Wire) -> Self {
        let mut client = Self::open_over(server, wire).await;
        client.done(json!({ "connect": { "token": token(user) } })).await;
        client
    }

    /// Opens a socket of this encoding that has not sent any command.
    pub async fn open_as(server: &Server, encoding: Encoding) -> Self {
        match encoding {
            Encoding::Json => Self::open(server).await,
            Encoding::Protobuf => Self::open_protobuf(server).await,
        }
    }

    /// Connects a client of this encoding as a user.
    pub async fn connect_as(server: &Server, user: &str, encoding: Encoding) -> Self {
        let mut client = Self::open_as(server, encoding).await;
        client.done(json!({ "connect": { "token": token(user) } })).await;
        client
    }

    /// Connects a client as a user.
    pub async fn connect(server: &Server, user: &str) -> Self {
        let mut client = Self::open(server).await;
        client.done(json!({ "connect": { "token": token(user) } })).await;
        client
    }

    /// Connects a user and recovers their timeline from a position. Also returns the reply's part for that channel.
    pub async fn recover(server: &Server, user: &str, position: &Value) -> (Self, Value) {
        let mut client = Self::open(server).await;
        let from = json!({ "recover": true, "offset": position["offset"], "epoch": position["epoch"] });
        let channel = format!("timeline:{user}");
        let connect = json!({ "connect": { "token": token(user), "subs": { channel.clone(): from } } });
        let connected = client.done(connect).await;
        let timeline = connected["connect"]["subs"][&channel].clone();
        (client, timeline)
    }

    /// Sends a frame: unchanged, or its commands as Protobuf.
    pub async fn send(&mut self, frame: impl Into<String>) {
        let frame = frame.into();
        let commands = frame.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let commands: Vec<Value> = commands.collect();
        let message = match self.encoding {
            Encoding::Json => Message::text(frame),
            Encoding::Protobuf => Message::binary(commands.iter().flat_map(command_frame).collect::<Vec<u8>>()),
        };
        self.asked.extend(commands.into_iter().filter_map(|command| Some((command["id"].as_u64()?, command))));
        // If the server has closed the socket, the next read reports it.
        let _ = timeout(PATIENCE, self.socket.send(message)).await.expect("to send in time");
    }

    /// Sends a command under the next id, without waiting for the reply.
    pub async fn command(&mut self, mut command: Value) -> u32 {
        self.last_id += 1;
        command["id"] = self.last_id.into();
        self.send(command.to_string()).await;
        self.last_id
    }

    /// Sends a command and waits for its reply: `{"id":…,"subscribe":…}` or `{"id":…,"error":…}`.
    pub async fn call(&mut self, command: Value) -> Value {
        let id = self.command(command).await;
        self.reply(id).await
    }

    /// Sends a command that must succeed.
    pub async fn done(&mut self, command: Value) -> Value {
        let reply = self.call(command.clone()).await;
        assert!(reply.get("error").is_none(), "{command} was refused: {reply}");
        reply
    }

    /// Sends a command that the server must refuse. Returns the error code.
    pub async fn refused(&mut self, command: Value) -> u64 {
        let reply = self.call(command.clone()).await;
        reply["error"]["code"].as_u64().unwrap_or_else(|| panic!("{command} was not refused: {reply}"))
    }

    /// Subscribes to a channel. Returns the `subscribe` part of the reply.
    pub async fn subscribe(&mut self, channel: &str) -> Value {
        self.done(json!({ "subscribe": { "channel": channel } })).await["subscribe"].clone()
    }

    /// Calls an operation. Returns its output.
    pub async fn rpc(&mut self, method: &str, data: &Value) -> Value {
        self.done(json!({ "rpc": { "method": method, "data": data } })).await["rpc"]["data"].clone()
    }

    /// Waits for the reply to a command.
    pub async fn reply(&mut self, id: u32) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.hear_before(deadline).await {
                Some(Heard::Reply(reply)) if reply["id"] == id => return reply,
                Some(Heard::Reply(reply)) => panic!("a reply to something else than {id}: {reply}"),
                Some(Heard::Push(push)) => self.pushes.push_back(push),
                Some(Heard::Ping) => {}
                other => panic!("{other:?} instead of a reply to {id}"),
            }
        }
    }

    /// Returns the next push on any channel.
    pub async fn push(&mut self) -> Value {
        self.push_that("any push", |_| true).await
    }

    /// Waits for the next publication on a channel: `{"data":…,"offset":…}`. Queues pushes on other channels.
    pub async fn publication(&mut self, channel: &str) -> Value {
        self.push_of(channel, "pub").await
    }

    /// Waits for the next push of a kind on a channel. Queues all other pushes.
    pub async fn push_of(&mut self, channel: &str, kind: &str) -> Value {
        let wanted = |push: &Value| push["channel"] == channel && push.get(kind).is_some();
        self.push_that(&format!("a push of {kind} on {channel}"), wanted).await[kind].take()
    }

    /// Waits for the next push of a kind that is for the connection, not for a channel.
    pub async fn push_of_connection(&mut self, kind: &str) -> Value {
        let wanted = |push: &Value| push.get("channel").is_none() && push.get(kind).is_some();
        self.push_that(&format!("a push of {kind}"), wanted).await[kind].take()
    }

    /// Waits for the next push that is `wanted`. Queues all other pushes.
    async fn push_that(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(push) = self.pushes.iter().position(&wanted).and_then(|at| self.pushes.remove(at)) {
                return push;
            }
            match self.hear_before(deadline).await {
                Some(Heard::Push(push)) => self.pushes.push_back(push),
                Some(Heard::Ping) => {}
                other => panic!("{other:?} instead of {what}; there are {:?}", self.pushes),
            }
        }
    }

    /// Returns all unread pushes. Sends a command and waits for its reply first, so that pushes on their way have
    /// arrived.
    pub async fn pushed(&mut self) -> Vec<Value> {
        self.call(json!({ "unsubscribe": { "channel": "topic:nobody_is_here" } })).await;
        self.pushes.drain(..).collect()
    }

    /// Returns all unread pushes before the next publication on a channel, for clients that cannot send a command.
    pub async fn pushed_before(&mut self, channel: &str) -> Vec<Value> {
        self.publication(channel).await;
        self.pushes.drain(..).collect()
    }

    /// Waits for the close. Returns its code and reason, and drops all messages before it.
    pub async fn closed(&mut self) -> (u16, String) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.hear_before(deadline).await {
                Some(Heard::Closed(code, reason)) => return (code, reason),
                Some(_) => {}
                None => panic!("it is not closed"),
            }
        }
    }

    /// Waits for the next message.
    pub async fn hear(&mut self) -> Heard {
        self.push_within(PATIENCE).await.expect("something from the server in time")
    }

    /// Waits at most `patience` for the next message. Returns `None` on a timeout.
    pub async fn push_within(&mut self, patience: Duration) -> Option<Heard> {
        self.hear_before(Instant::now() + patience).await
    }

    /// Waits for the next message. Returns `None` after the deadline. A test that waits for one of several messages has
    /// one deadline for all of them: the server's pings would extend a limit for each message for ever.
    async fn hear_before(&mut self, deadline: Instant) -> Option<Heard> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Some(self.sort(line).await);
            }
            if let Some((code, reason)) = self.closed.clone() {
                // A loop that waits for something else would never end.
                self.reads_after_close += 1;
                assert!(self.reads_after_close < 100, "closed with {code} {reason}, and still read");
                return Some(Heard::Closed(code, reason));
            }
            match timeout_at(deadline, self.socket.next()).await.ok()? {
                Some(Ok(Message::Binary(frame))) => {
                    assert_eq!(self.encoding, Encoding::Protobuf, "a binary frame");
                    self.lines.extend(messages(frame));
                }
                Some(Ok(Message::Text(text))) => {
                    assert_eq!(self.encoding, Encoding::Json, "a text frame");
                    let parsed = text.lines().map(|line| serde_json::from_str(line).expect("JSON from the server"));
                    self.lines.extend(parsed);
                }
                Some(Ok(Message::Close(Some(frame)))) => {
                    self.closed = Some((frame.code.into(), frame.reason.to_string()));
                }
                Some(Ok(Message::Close(None))) => self.closed = Some((1005, String::new())),
                Some(Ok(_)) => {}
                Some(Err(error)) => self.closed = Some((1006, error.to_string())),
                None => self.closed = Some((1006, "the end of the stream".into())),
            }
        }
    }

    async fn sort(&mut self, mut line: Value) -> Heard {
        if line.as_object().is_some_and(serde_json::Map::is_empty) {
            if self.pongs == Pongs::Answered {
                self.send("{}").await;
            }
            return Heard::Ping;
        }
        match line.get_mut("push").map(Value::take) {
            Some(push) => {
                check_publication(push["channel"].as_str().unwrap_or_default(), &push["pub"]);
                Heard::Push(push)
            }
            None => {
                let command = line["id"].as_u64().and_then(|id| self.asked.remove(&id));
                check_reply(&command.unwrap_or_default(), &line);
                Heard::Reply(line)
            }
        }
    }
}

/// Validates a reply: the output of an operation, or the publications in the reply to another command.
fn check_reply(command: &Value, reply: &Value) {
    if let (Some(method), Some(output)) = (command["rpc"]["method"].as_str(), reply["rpc"].get("data")) {
        check_output(method, output);
    }
    for (channel, subscription) in reply["connect"]["subs"].as_object().into_iter().flatten() {
        check_publications(channel, subscription);
    }
    for kind in ["subscribe", "history"] {
        check_publications(command[kind]["channel"].as_str().unwrap_or_default(), &reply[kind]);
    }
}

fn check_publications(channel: &str, reply: &Value) {
    let publications = reply["publications"].as_array().into_iter().flatten();
    publications.for_each(|publication| check_publication(channel, publication));
}

fn check_publication(channel: &str, publication: &Value) {
    if let Some(data) = publication.get("data") {
        check_event(channel, data);
    }
}
