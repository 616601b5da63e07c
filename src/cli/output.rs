//! The output of commands. A reader that goes away or stalls does not disturb their work.

use std::io::{self, ErrorKind, Write};
use std::sync::mpsc;
use std::time::Duration;

/// How long a message waits for its reader.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// Output that is dropped once its reader has gone, as in `feedline quarantine list | head -1`. Other errors are
/// reported.
pub(crate) struct Output<W>(W);

/// Standard output.
pub(crate) fn stdout() -> Output<io::Stdout> {
    Output(io::stdout())
}

/// Standard error.
pub(crate) fn stderr() -> Output<io::Stderr> {
    Output(io::stderr())
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self.0.write(buf) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(buf.len()),
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.flush() {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            flushed => flushed,
        }
    }
}

/// Writes a message, if its reader takes it within a second.
pub(crate) fn write_in_time(mut target: impl Write + Send + 'static, message: String) {
    let (written, finished) = mpsc::channel();
    let writing = std::thread::Builder::new().spawn(move || {
        // There is nobody to report an error to.
        let _ = target.write_all(message.as_bytes()).and_then(|()| target.flush());
        drop(written);
    });
    if writing.is_ok() {
        let _ = finished.recv_timeout(WRITE_TIMEOUT) as Result<(), _>;
    }
}
