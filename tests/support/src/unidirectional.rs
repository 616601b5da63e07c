//! The unidirectional transports in the form of the bidirectional ones, so that one test runs over both: the first
//! command becomes the parameters of `connect`, bare pushes become replies and pushes.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::{SinkExt, Stream, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error, Message};

/// The parameters in a `connect` command.
///
/// # Panics
/// If the message is another one: these clients send no more.
pub fn parameters(message: &Message) -> String {
    let command: Value = serde_json::from_slice(&message.clone().into_data()).expect("one command");
    assert_eq!(command["id"], 1, "a unidirectional client sends one command: {command}");
    command.get("connect").expect("a connect command").to_string()
}

/// A message as a bidirectional client receives it, after the command with id 1.
pub fn as_reply(message: &Message) -> Message {
    let Message::Text(text) = message else { return message.clone() };
    let lines = text.lines().map(|line| {
        let push: Value = serde_json::from_str(line).expect("JSON");
        match push.get("connect") {
            Some(connect) => json!({ "id": 1, "connect": connect }),
            None if push == json!({}) => push,
            None => json!({ "push": push }),
        }
    });
    Message::text(lines.map(|line| line.to_string()).collect::<Vec<_>>().join("\n"))
}

/// A socket of messages over `/connection/uni_websocket`.
pub struct UniSocket(pub Box<WebSocketStream<TcpStream>>);

impl UniSocket {
    /// Sends the parameters of `connect`.
    pub fn start_send(&mut self, message: &Message) -> Result<(), Error> {
        self.0.start_send_unpin(Message::text(parameters(message)))
    }
}

impl Stream for UniSocket {
    type Item = Result<Message, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let message = ready!(self.0.poll_next_unpin(cx));
        Poll::Ready(message.map(|message| message.map(|message| as_reply(&message))))
    }
}
