//! The transports HTTP stream and SSE as a socket of messages: the first message opens the stream, later ones are
//! requests to `/emulation`. A `disconnect` push is reported as a close frame.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, BytesMut};
use futures::Stream;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_util::task::AbortOnDropHandle;

use crate::protobuf::{emulation_body, messages};
use crate::server::Server;
use crate::unidirectional::{as_reply, parameters};

/// The kind of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// `/connection/http_stream` with JSON.
    Json,
    /// `/connection/http_stream` with Protobuf.
    Protobuf,
    /// `/connection/sse`.
    Events,
    /// `/connection/uni_http_stream`, which only receives.
    UniJson,
    /// `/connection/uni_sse`, which only receives.
    UniEvents,
}

impl StreamKind {
    /// Whether the client only receives.
    pub fn is_unidirectional(self) -> bool {
        matches!(self, Self::UniJson | Self::UniEvents)
    }
}

/// A socket of messages over a stream.
pub struct StreamSocket {
    outgoing: UnboundedSender<Message>,
    incoming: UnboundedReceiver<Message>,
    _driver: AbortOnDropHandle<()>,
}

impl StreamSocket {
    /// A socket that opens its stream at the first of these ports, and sends commands to the others in turn.
    pub fn new(ports: Vec<u16>, kind: StreamKind) -> Self {
        let (outgoing, commands) = unbounded_channel();
        let (messages, incoming) = unbounded_channel();
        let driver = StreamDriver { ports, kind, name: None, sent: 0, commands, messages };
        let driver = AbortOnDropHandle::new(tokio::spawn(async move {
            let messages = driver.messages.clone();
            let why = driver.drive().await.err().unwrap_or_default();
            let _ = messages.send(Message::Close(Some(CloseFrame { code: 1006.into(), reason: why.into() })));
        }));
        Self { outgoing, incoming, _driver: driver }
    }

    /// Sends commands.
    pub fn send(&self, message: Message) {
        // The next read reports that the stream has ended.
        let _ = self.outgoing.send(message);
    }
}

impl Stream for StreamSocket {
    type Item = Result<Message, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.incoming.poll_recv(cx).map(|message| message.map(Ok))
    }
}

struct StreamDriver {
    ports: Vec<u16>,
    kind: StreamKind,
    /// The session and the node, once they are known.
    name: Option<(String, String)>,
    /// Batches of commands.
    sent: usize,
    commands: UnboundedReceiver<Message>,
    messages: UnboundedSender<Message>,
}

impl StreamDriver {
    /// Runs until the stream ends. Fails with the reason.
    async fn drive(mut self) -> Result<(), String> {
        let Some(first) = self.commands.recv().await else { return Ok(()) };
        let stream = TcpStream::connect(("127.0.0.1", self.ports[0])).await.map_err(|error| error.to_string())?;
        let (mut reading, mut writing) = stream.into_split();
        writing.write_all(&request(self.kind, first)).await.map_err(|error| error.to_string())?;
        let mut buffer = BytesMut::new();
        read_head(&mut reading, &mut buffer).await?;
        loop {
            while let Some(message) = take_message(self.kind, &mut buffer) {
                let message = if self.kind.is_unidirectional() { as_reply(&message) } else { message };
                self.note_name(&message);
                let message = disconnect_of(&message).map_or(message, |frame| Message::Close(Some(frame)));
                let _ = self.messages.send(message);
            }
            tokio::select! {
                read = reading.read_buf(&mut buffer) => match read {
                    Ok(0) => return Err("the end of the stream".into()),
                    Ok(_) => {}
                    Err(error) => return Err(error.to_string()),
                },
                command = self.commands.recv(), if self.name.is_some() => {
                    let Some(command) = command else { return Ok(()) };
                    self.emulate(command).await?;
                }
            }
        }
    }

    fn note_name(&mut self, message: &Message) {
        for value in values(message) {
            let connect = &value["connect"];
            if let (Some(session), Some(node)) = (connect["session"].as_str(), connect["node"].as_str()) {
                self.name = Some((session.to_owned(), node.to_owned()));
            }
        }
    }

    async fn emulate(&mut self, command: Message) -> Result<(), String> {
        let Some((session, node)) = &self.name else { return Ok(()) };
        if self.kind.is_unidirectional() {
            return Err("a unidirectional client sends no commands".into());
        }
        let (kind, body) = match &command {
            Message::Text(text) => {
                let body = json!({ "session": session, "node": node, "data": text.as_str() }).to_string();
                ("application/json", body.into_bytes())
            }
            binary => ("application/octet-stream", emulation_body(session, node, binary.clone().into_data())),
        };
        let others = if self.ports.len() > 1 { &self.ports[1..] } else { &self.ports };
        let port = others[self.sent % others.len()];
        self.sent += 1;
        let answer = Server::request_at(port, "POST", "/emulation", &[("content-type", kind)], body).await;
        match answer.map(|answer| answer.status.as_u16()) {
            Some(204) => Ok(()),
            other => Err(format!("/emulation was answered with {other:?}")),
        }
    }
}

fn request(kind: StreamKind, first: Message) -> Vec<u8> {
    let body = if kind.is_unidirectional() { parameters(&first).into() } else { first.into_data() };
    let path = match kind {
        StreamKind::Json | StreamKind::Protobuf => "/connection/http_stream",
        StreamKind::Events => "/connection/sse",
        StreamKind::UniJson => "/connection/uni_http_stream",
        StreamKind::UniEvents => "/connection/uni_sse",
    };
    if matches!(kind, StreamKind::Events | StreamKind::UniEvents) {
        let encoded: String = body.iter().map(|byte| format!("%{byte:02x}")).collect();
        return format!("GET {path}?cf_connect={encoded} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").into_bytes();
    }
    let content = if kind == StreamKind::Protobuf { "application/octet-stream" } else { "application/json" };
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {content}\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), &body].concat()
}

/// Reads the head of the response. Fails with the status if it is not 200.
async fn read_head(reading: &mut OwnedReadHalf, buffer: &mut BytesMut) -> Result<(), String> {
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = buffer.split_to(end + 4);
            return if head.starts_with(b"HTTP/1.1 200 ") {
                Ok(())
            } else {
                Err(String::from_utf8_lossy(&head[9..12]).into_owned())
            };
        }
        match reading.read_buf(buffer).await {
            Ok(0) => return Err("the end of the stream before its head".into()),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Takes the next complete message out of the buffer.
fn take_message(kind: StreamKind, buffer: &mut BytesMut) -> Option<Message> {
    match kind {
        StreamKind::Json | StreamKind::UniJson => {
            let end = buffer.iter().position(|byte| *byte == b'\n')?;
            let line = buffer.split_to(end);
            buffer.advance(1);
            Some(Message::text(String::from_utf8(line.to_vec()).expect("UTF-8")))
        }
        StreamKind::Events | StreamKind::UniEvents => {
            while buffer.starts_with(b"\n") {
                buffer.advance(1);
            }
            let end = buffer.windows(2).position(|window| window == b"\n\n")?;
            let event = buffer.split_to(end);
            buffer.advance(2);
            let data = event.strip_prefix(b"data: ").expect("one line of data");
            Some(Message::text(String::from_utf8(data.to_vec()).expect("UTF-8")))
        }
        StreamKind::Protobuf => {
            let mut length = 0;
            for (index, byte) in buffer.iter().take(5).enumerate() {
                length |= usize::from(byte & 0x7f) << (7 * index);
                if byte & 0x80 == 0 {
                    let total = index + 1 + length;
                    return (buffer.len() >= total).then(|| Message::binary(buffer.split_to(total).freeze()));
                }
            }
            None
        }
    }
}

fn values(message: &Message) -> Vec<Value> {
    match message {
        Message::Text(text) => text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect(),
        binary => messages(binary.clone().into_data()),
    }
}

fn disconnect_of(message: &Message) -> Option<CloseFrame> {
    let value = values(message).into_iter().next()?;
    let disconnect = value["push"].get("disconnect")?;
    let code = disconnect["code"].as_u64().and_then(|code| u16::try_from(code).ok()).expect("a code");
    Some(CloseFrame { code: code.into(), reason: disconnect["reason"].as_str().expect("a reason").into() })
}
