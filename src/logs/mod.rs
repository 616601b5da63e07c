//! The log of the process: lines that cannot be written are lost and counted, and repeated ones are summed up.
//!
//! Whatever happens to the reader of the log, the code that logs goes on: [`LogQueue`] takes lines without waiting, and
//! a thread of its own writes them. [`Repeats`] keeps a store that is away from filling the disk.

mod queue;
mod repeats;

use std::backtrace::{Backtrace, BacktraceStatus};

pub(crate) use queue::lost_lines;
pub use queue::{LogQueue, LogWriter};
pub use repeats::Repeats;

use crate::supervisor::panic_message;

/// Logs panics as all other errors, instead of printing them.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|info| {
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("unnamed");
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let message = panic_message(info.payload());
        let backtrace = Backtrace::capture();
        match backtrace.status() {
            BacktraceStatus::Captured => tracing::error!(thread, place, %backtrace, "panicked: {message}"),
            _ => tracing::error!(thread, place, "panicked: {message}"),
        }
    }));
}
