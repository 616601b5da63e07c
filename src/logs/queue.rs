//! The bounded queue of log lines, and the thread that writes them.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use prometheus_client::metrics::counter::Counter;

use super::Repeats;
use crate::supervisor::supervise_thread;

/// The memory that waiting lines may use.
const MAX_BYTES: usize = 1024 * 1024;

/// What a waiting line uses beside its text.
const LINE_OVERHEAD: usize = size_of::<Vec<u8>>() + 16;

/// How often repeated lines are reported.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// How long a line is tried again while its target would block, and the pauses in between.
const RETRY_TIMEOUT: Duration = Duration::from_secs(1);
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// How long the exit waits for lines to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Lines of this process that were not written.
static LOST: LazyLock<Counter> = LazyLock::new(Counter::default);

/// The counter of lost lines, for the metrics.
pub(crate) fn lost_lines() -> Counter {
    LOST.clone()
}

/// Lines that wait for the thread that writes them. Lines that find no place are lost.
#[derive(Debug)]
pub struct LogQueue {
    state: Mutex<LogQueueState>,
    /// Lines wait.
    queued: Condvar,
    /// All lines were written or lost.
    drained: Condvar,
    repeats: Repeats,
    lost: Counter,
}

#[derive(Debug, Default)]
struct LogQueueState {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// The thread is at a line.
    is_writing: bool,
}

impl LogQueue {
    /// Starts the thread that writes to `target`, one line at a time. It also reports `repeats`.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(target: impl Write + Send + 'static, repeats: Repeats) -> io::Result<Arc<Self>> {
        Self::start_counting(target, repeats, lost_lines())
    }

    fn start_counting(
        mut target: impl Write + Send + 'static,
        repeats: Repeats,
        lost: Counter,
    ) -> io::Result<Arc<Self>> {
        let queue =
            Arc::new(Self { state: Mutex::default(), queued: Condvar::new(), drained: Condvar::new(), repeats, lost });
        let serving = Arc::clone(&queue);
        let thread = std::thread::Builder::new().name("log-writer".to_owned());
        thread.spawn(move || supervise_thread("log_writer", || serving.serve(&mut target)))?;
        Ok(queue)
    }

    /// Queues a line. Never waits.
    fn push(&self, line: &[u8]) {
        let mut state = self.state.lock();
        let bytes = line.len() + LINE_OVERHEAD;
        if state.bytes + bytes > MAX_BYTES {
            drop(state);
            self.lost.inc();
            return;
        }
        state.bytes += bytes;
        state.lines.push_back(line.to_vec());
        drop(state);
        self.queued.notify_one();
    }

    /// Reports all repeats, and waits until all lines are written, for a bounded time.
    pub fn flush(&self) {
        self.repeats.report_all();
        let deadline = Instant::now() + FLUSH_TIMEOUT;
        let mut state = self.state.lock();
        while !state.lines.is_empty() || state.is_writing {
            if self.drained.wait_until(&mut state, deadline).timed_out() {
                return;
            }
        }
    }

    fn serve(&self, target: &mut impl Write) {
        let mut is_torn = false;
        let mut reported_at = Instant::now();
        loop {
            if let Some(line) = self.next(reported_at + REPORT_INTERVAL)
                && let Err(written) = write_line(target, &line, is_torn)
            {
                is_torn = written > 0 || is_torn;
                self.lost.inc();
            } else {
                is_torn = false;
            }
            if reported_at.elapsed() >= REPORT_INTERVAL {
                reported_at = Instant::now();
                self.repeats.report();
            }
        }
    }

    /// Waits for the next line until the deadline. The line before is written or lost.
    fn next(&self, deadline: Instant) -> Option<Vec<u8>> {
        let mut state = self.state.lock();
        state.is_writing = false;
        if state.lines.is_empty() {
            self.drained.notify_all();
            self.queued.wait_until(&mut state, deadline);
        }
        let line = state.lines.pop_front()?;
        state.bytes -= line.len() + LINE_OVERHEAD;
        state.is_writing = true;
        Some(line)
    }
}

/// Writes a line, on a line of its own if the one before was not completed. Returns the bytes that were written if it
/// is lost.
fn write_line(target: &mut impl Write, line: &[u8], is_torn: bool) -> Result<(), usize> {
    let deadline = Instant::now() + RETRY_TIMEOUT;
    let mut written = 0;
    let line = if is_torn { [b"\n", line].concat() } else { line.to_vec() };
    while written < line.len() {
        match target.write(&line[written..]) {
            Ok(0) => return Err(written),
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < deadline => {
                std::thread::sleep(RETRY_PAUSE);
            }
            Err(_) => return Err(written),
        }
    }
    Ok(())
}

/// Passes the lines of `tracing` to the queue.
#[derive(Clone, Debug)]
pub struct LogWriter(pub Arc<LogQueue>);

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, Read, pipe};

    use super::*;

    /// A target that does what the test says, a call at a time, and then writes everything.
    struct ScriptedWriter(VecDeque<io::Result<usize>>, Arc<Mutex<Vec<u8>>>);

    impl Write for ScriptedWriter {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            let count = self.0.pop_front().unwrap_or(Ok(buf.len()))?.min(buf.len());
            self.1.lock().extend_from_slice(&buf[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn queue(target: impl Write + Send + 'static) -> (Arc<LogQueue>, Counter) {
        let lost = Counter::default();
        (LogQueue::start_counting(target, Repeats::default(), lost.clone()).unwrap(), lost)
    }

    fn read(mut reader: PipeReader) -> String {
        let mut bytes = [0; 64];
        let count = reader.read(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    }

    #[test]
    fn lines_are_written_when_the_queue_is_flushed() {
        let (reader, writer) = pipe().unwrap();
        let (queue, lost) = queue(writer);
        queue.push(b"one\n");
        queue.push(b"two\n");
        queue.flush();
        assert_eq!((read(reader), lost.get()), ("one\ntwo\n".to_owned(), 0));
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted_and_later_ones_are_written() {
        let failed = |kind: ErrorKind| Err(io::Error::from(kind));
        let script = [
            failed(ErrorKind::BrokenPipe),
            failed(ErrorKind::Interrupted),
            failed(ErrorKind::WouldBlock),
            Ok(2),
            failed(ErrorKind::StorageFull),
            Ok(0),
        ];
        let text = Arc::new(Mutex::new(Vec::new()));
        let (queue, lost) = queue(ScriptedWriter(script.into(), Arc::clone(&text)));
        for line in ["one\n", "two\n", "three\n", "four\n", "five\n"] {
            queue.push(line.as_bytes());
            queue.flush();
        }
        // The second line was torn, the third was lost entirely.
        assert_eq!(String::from_utf8_lossy(&text.lock()), "tw\nfour\nfive\n");
        assert_eq!(lost.get(), 3);
    }

    #[test]
    fn lines_past_the_bound_are_lost_without_waiting_for_a_stalled_reader() {
        let (_reader, writer) = pipe().unwrap();
        let (queue, lost) = queue(writer);
        let begun = Instant::now();
        let line = [b'x'; 1000];
        for _ in 0..2 * MAX_BYTES / line.len() {
            queue.push(&line);
        }
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        assert!(queue.state.lock().bytes <= MAX_BYTES);
        assert!(lost.get() as usize > MAX_BYTES / 2 / line.len(), "{}", lost.get());
        let begun = Instant::now();
        queue.flush();
        assert!(begun.elapsed() < 2 * FLUSH_TIMEOUT, "the exit does not wait for the reader");
    }

    #[test]
    fn lines_to_a_closed_pipe_are_lost() {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let (queue, lost) = queue(writer);
        queue.push(b"one\n");
        queue.flush();
        assert_eq!(lost.get(), 1);
    }
}
