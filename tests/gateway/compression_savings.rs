//! What permessage-deflate would save and cost, on frames of a running server. docs/decisions.md has
//! the decision: `cargo test --release --test gateway -- compression_savings --nocapture` prints them.

use std::time::{Duration, Instant};

use flate2::{Compress, Compression, FlushCompress};
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::server::{Server, token};

/// How often each sequence of frames is compressed, for the time.
const ROUNDS: u32 = if cfg!(debug_assertions) { 2 } else { 200 };

/// The frames that a client receives in a session: the reply to `connect`, a page of the timeline, and pushes.
struct Session {
    server: Server,
    socket: WebSocketStream<TcpStream>,
}

impl Session {
    async fn open() -> Self {
        use futures::SinkExt;
        let server = Server::start().await;
        server.follow("ann", "bo").await;
        for n in 0..40 {
            server.post("bo", &text(n)).await;
        }
        let stream = TcpStream::connect(("127.0.0.1", server.port())).await.expect("to connect");
        let url = format!("ws://127.0.0.1:{}/connection/websocket", server.port());
        let (mut socket, _) = client_async(url, stream).await.expect("a handshake");
        let connect = json!({ "id": 1, "connect": { "token": token("ann") } });
        let page = json!({ "limit": 20, "with": ["likers", "comments"] });
        let read = json!({ "id": 2, "rpc": { "method": "timeline.read", "data": page } });
        socket.send(Message::text(format!("{connect}\n{read}"))).await.expect("to send");
        Self { server, socket }
    }

    async fn next(&mut self) -> Vec<u8> {
        let message = timeout(Duration::from_secs(10), self.socket.next()).await.expect("in time");
        message.expect("a message").expect("a frame").into_data().to_vec()
    }
}

fn text(n: usize) -> String {
    let words = ["the", "day", "begins", "with", "rain", "and", "ends", "under", "a", "clear", "sky", "of", "stars"];
    let words: Vec<&str> = (0..14).map(|word| words[(word * 5 + n * 7) % words.len()]).collect();
    format!("{} {n} #topic{}", words.join(" "), n % 5)
}

/// The compressed size of the frames, and the time of a frame. `takeover`: each frame is compressed in the context of
/// those before it, for which the server keeps a compressor of some 300 KB for each connection.
fn compress(frames: &[Vec<u8>], takeover: bool) -> (usize, Duration) {
    let (mut bytes, mut out) = (0, Vec::with_capacity(1 << 20));
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        bytes = 0;
        let mut compressor = Compress::new(Compression::fast(), false);
        for frame in frames {
            if !takeover {
                compressor.reset();
            }
            out.clear();
            compressor.compress_vec(frame, &mut out, FlushCompress::Sync).expect("to compress");
            // The last four bytes of a flush are not sent.
            bytes += out.len().saturating_sub(4);
        }
    }
    (bytes, begun.elapsed() / ROUNDS / u32::try_from(frames.len()).expect("few frames"))
}

#[tokio::test]
async fn compression_of_frames_is_measured() {
    let mut session = Session::open().await;
    let mut greeting = Vec::new();
    while !greeting.iter().any(|frame: &Vec<u8>| String::from_utf8_lossy(frame).contains("\"rpc\"")) {
        greeting.push(session.next().await);
    }
    let mut pushes = Vec::new();
    for n in 0..100 {
        let created = session.server.call("bo", "POST", "/posts", &json!({ "text": text(n) })).await;
        assert_ne!(created.body, Value::Null);
        pushes.push(session.next().await);
    }
    for (name, frames) in [("connect and page", &greeting), ("pushes", &pushes)] {
        let plain: usize = frames.iter().map(Vec::len).sum();
        for takeover in [false, true] {
            let (bytes, time) = compress(frames, takeover);
            let saved = 100.0 * (1.0 - bytes as f64 / plain as f64);
            println!(
                "{name}, takeover {takeover}: {} frames, {plain} bytes, {bytes} compressed: {saved:.0} % saved, \
                 {time:?} a frame",
                frames.len()
            );
        }
    }
}
