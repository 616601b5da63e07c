//! A TCP proxy between a node and Redis, whose connections can fall silent without closing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// The proxy.
pub(crate) struct Proxy {
    address: SocketAddr,
    lines: Lines,
    holding: watch::Sender<bool>,
    _task: AbortOnDropHandle<()>,
}

/// The connections that subscribe to channels, each with a flag that silences it.
type Lines = Arc<Mutex<Vec<Arc<AtomicBool>>>>;

impl Proxy {
    /// Starts a proxy to the server at this port.
    pub(crate) async fn start(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let lines = Lines::default();
        let of = Arc::clone(&lines);
        let holding = watch::Sender::new(false);
        let held = holding.subscribe();
        let task = tokio::spawn(async move {
            while let Ok((node, _)) = listener.accept().await {
                let Ok(redis) = TcpStream::connect(("127.0.0.1", port)).await else { continue };
                tokio::spawn(carry(node, redis, Arc::clone(&of), held.clone()));
            }
        });
        Self { address, lines, holding, _task: AbortOnDropHandle::new(task) }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// While `holds` is true, delays all data from nodes to Redis. No data is lost.
    pub(crate) fn hold(&self, holds: bool) {
        self.holding.send_replace(holds);
    }

    /// Silences all current subscriber connections, which stay open. New connections work. Returns the number of
    /// silenced connections.
    pub(crate) fn silence(&self) -> usize {
        let lines = self.lines.lock();
        lines.iter().filter(|line| !line.swap(true, Ordering::SeqCst)).count()
    }
}

async fn carry(node: TcpStream, redis: TcpStream, lines: Lines, mut held: watch::Receiver<bool>) {
    let silent = Arc::new(AtomicBool::new(false));
    let (mut from_node, mut to_node) = node.into_split();
    let (mut from_redis, mut to_redis) = redis.into_split();
    let is_silent = Arc::clone(&silent);
    let up = async move {
        let (mut buffer, mut hears) = (vec![0; 64 << 10], false);
        while let Ok(read @ 1..) = from_node.read(&mut buffer).await {
            if !hears && buffer[..read].windows(9).any(|word| word.eq_ignore_ascii_case(b"SUBSCRIBE")) {
                hears = true;
                lines.lock().push(Arc::clone(&silent));
            }
            if held.wait_for(|held| !held).await.is_err() || to_redis.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    };
    let down = async move {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(read @ 1..) = from_redis.read(&mut buffer).await {
            if !is_silent.load(Ordering::SeqCst) && to_node.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = up => {}
        () = down => {}
    }
}
