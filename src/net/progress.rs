//! Deadlines on transfers without progress: a request body that does not arrive, or a response that the client does not
//! read.
//!
//! No deadline applies to a transfer as a whole, so large transfers and transfers of several hours succeed. A transfer
//! fails once it has waited for the peer for the whole timeout, or is slower than `MIN_BYTES_PER_SECOND`, so that
//! sending an occasional byte does not keep it alive.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Bytes;
use axum::{BoxError, Error};
use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::head_timer::HeadTimer;
use super::takeover::Takeover;

/// The minimum rate that counts as progress. A second-generation phone network is twice as fast.
const MIN_BYTES_PER_SECOND: u32 = 2_000;

/// The remaining time that a transfer may wait for the peer.
#[derive(Debug)]
struct Patience {
    timeout: Duration,
    /// When the wait times out; `None`: the transfer is not waiting.
    deadline: Option<Instant>,
    /// Created when a transfer first has to wait; most transfers never wait.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Patience {
    fn new(timeout: Duration) -> Self {
        Self { timeout, deadline: None, timer: None }
    }

    /// Ready once the wait has timed out. The timeout starts at the first call.
    fn poll_exhausted(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + self.timeout);
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        timer.as_mut().poll(cx)
    }

    /// Extends the deadline in proportion to the bytes transferred, up to the whole timeout.
    fn progress(&mut self, bytes: usize) {
        if let Some(deadline) = &mut self.deadline {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            *deadline =
                (*deadline + Duration::from_secs(1) * bytes / MIN_BYTES_PER_SECOND).min(Instant::now() + self.timeout);
        }
    }

    /// Ends the wait.
    fn finish(&mut self) {
        self.deadline = None;
    }
}

fn stalled() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the other end makes no progress")
}

/// A stream whose writes fail if the peer stops reading. Reads have no deadline here: HTTP may wait for the next
/// request, or for a handler; [`HeadTimer`] bounds heads.
#[derive(Debug)]
pub struct ProgressStream<S> {
    /// `None` once it was taken over.
    stream: Option<S>,
    writing: Patience,
    /// Learns what is read and written.
    heads: HeadTimer,
    takeover: Takeover<S>,
}

fn taken_over() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the connection continues as a stream")
}

impl<S> ProgressStream<S> {
    /// Sets the timeout for the writes of a stream.
    pub fn new(stream: S, timeout: Duration, heads: HeadTimer) -> Self {
        Self { stream: Some(stream), writing: Patience::new(timeout), heads, takeover: Takeover::default() }
    }

    /// Returns the stream without the deadline; `None` if it was taken over.
    pub fn into_inner(self) -> Option<S> {
        self.stream
    }

    /// The way to take the stream over.
    pub fn takeover(&self) -> Takeover<S> {
        self.takeover.clone()
    }

    fn stream(&mut self) -> io::Result<&mut S> {
        self.stream.as_mut().ok_or_else(taken_over)
    }

    /// Hands the stream over, if this was requested.
    fn hand_over(&mut self) -> io::Result<()> {
        let Some(receiver) = self.takeover.receiver() else { return Ok(()) };
        if let Some(stream) = self.stream.take() {
            // Without a receiver, the stream is closed.
            let _ = receiver.send(stream);
        }
        Err(taken_over())
    }

    fn bounded(&mut self, written: Poll<io::Result<usize>>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(bytes)) => {
                self.heads.bytes_written();
                self.writing.progress(bytes);
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending => {
                ready!(self.writing.poll_exhausted(cx));
                return Poll::Ready(Err(stalled()));
            }
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ProgressStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(self.stream()?).poll_read(cx, into))?;
        if into.filled().len() > before {
            self.heads.bytes_read();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ProgressStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(self.stream()?).poll_write(cx, from);
        self.bounded(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(self.stream()?).poll_write_vectored(cx, from);
        self.bounded(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }

    /// hyper flushes after it has written all pending data, and at the end of each of its turns.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.hand_over()?;
        ready!(Pin::new(self.stream()?).poll_flush(cx))?;
        self.writing.finish();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.stream()?).poll_shutdown(cx)
    }
}

/// Whether the body of a request stalled. The HTTP server checks it after the handler has returned.
#[derive(Clone, Debug, Default)]
pub struct StallFlag(Arc<AtomicBool>);

impl StallFlag {
    /// Whether the body stalled.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A request body that fails if it stalls.
#[derive(Debug)]
pub struct ProgressBody<B> {
    body: B,
    reading: Patience,
    flag: StallFlag,
}

impl<B> ProgressBody<B> {
    /// Sets the timeout for the reads of a body. `flag` is set if the body stalls.
    pub fn new(body: B, timeout: Duration, flag: StallFlag) -> Self {
        Self { body, reading: Patience::new(timeout), flag }
    }
}

impl<B> Body for ProgressBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(frame) => {
                if let Some(data) = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()) {
                    let bytes = data.len();
                    self.reading.progress(bytes);
                }
                Poll::Ready(frame.map(|frame| frame.map_err(Error::new)))
            }
            Poll::Pending => {
                ready!(self.reading.poll_exhausted(cx));
                self.flag.0.store(true, Ordering::Relaxed);
                Poll::Ready(Some(Err(Error::new(stalled()))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, StreamBody};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::{sleep, timeout};

    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(400);
    const SHORTLY: Duration = Duration::from_millis(20);

    /// Writes a response of 20,000 bytes to a reader that takes this many bytes at a time. Returns the duration, or the
    /// error.
    async fn written(bytes: usize, every: Duration) -> Result<Duration, io::ErrorKind> {
        let (near, mut far) = tokio::io::duplex(1_000);
        let mut near = ProgressStream::new(near, TIMEOUT, HeadTimer::new(TIMEOUT));
        let reader = tokio::spawn(async move {
            let mut taken = vec![0; bytes];
            while far.read_exact(&mut taken).await.is_ok() {
                sleep(every).await;
            }
        });
        let begin = Instant::now();
        let write = async {
            near.write_all(&[7; 20_000]).await?;
            near.flush().await
        };
        let outcome = timeout(Duration::from_secs(20), write).await.expect("it ends");
        reader.abort();
        outcome.map(|()| begin.elapsed()).map_err(|error| error.kind())
    }

    #[tokio::test]
    async fn responses_are_written_while_they_progress() {
        assert!(written(500, SHORTLY).await.unwrap() > TIMEOUT, "slow, and steady");
        assert!(written(5_000, TIMEOUT / 2).await.unwrap() > TIMEOUT, "in bursts");
        assert_eq!(written(1_000, TIMEOUT * 2).await, Err(io::ErrorKind::TimedOut), "with long pauses");
        assert_eq!(written(1, SHORTLY).await, Err(io::ErrorKind::TimedOut), "byte by byte");
    }

    #[tokio::test]
    async fn streams_may_pause_between_writes() {
        let (near, mut far) = tokio::io::duplex(1_000);
        let mut near = ProgressStream::new(near, TIMEOUT, HeadTimer::new(TIMEOUT));
        for _ in 0..2 {
            near.write_all(&[7; 900]).await.unwrap();
            near.flush().await.unwrap();
            far.read_exact(&mut [0; 900]).await.unwrap();
            sleep(TIMEOUT * 2).await;
        }
    }

    #[tokio::test]
    async fn a_stream_is_taken_over_at_a_flush() {
        let (near, mut far) = tokio::io::duplex(1_000);
        let mut near = ProgressStream::new(near, TIMEOUT, HeadTimer::new(TIMEOUT));
        let takeover = near.takeover();
        near.write_all(b"one").await.unwrap();
        near.flush().await.unwrap();
        let taken = takeover.request();
        near.write_all(b"two").await.unwrap();
        assert!(near.flush().await.is_err() && near.write_all(b"x").await.is_err());
        taken.await.unwrap().write_all(b"three").await.unwrap();
        drop(near);
        let mut all = String::new();
        far.read_to_string(&mut all).await.unwrap();
        assert_eq!(all, "onetwothree");
    }

    /// Reads a body of this many parts. Returns whether it stalled, and the number of bytes received.
    async fn read(parts: usize, bytes: usize, every: Duration) -> (bool, usize) {
        let part = move |n| async move {
            if n >= parts {
                return None;
            }
            sleep(every).await;
            Some((Ok::<_, io::Error>(Frame::data(Bytes::from(vec![7; bytes]))), n + 1))
        };
        let flag = StallFlag::default();
        let body = StreamBody::new(Box::pin(futures::stream::unfold(0, part)));
        let read = ProgressBody::new(body, TIMEOUT, flag.clone()).collect().await;
        assert_eq!(read.is_err(), flag.is_set());
        (flag.is_set(), read.map_or(0, |read| read.to_bytes().len()))
    }

    #[tokio::test]
    async fn bodies_are_read_while_they_progress() {
        assert_eq!(read(0, 0, TIMEOUT).await, (false, 0));
        assert_eq!(read(1, 10, TIMEOUT / 4).await, (false, 10));
        assert_eq!(read(6, 5_000, TIMEOUT / 2).await, (false, 30_000));
        assert_eq!(read(1, 10, TIMEOUT * 2).await, (true, 0));
        assert_eq!(read(1_000, 1, SHORTLY).await, (true, 0), "drop by drop");
    }
}
