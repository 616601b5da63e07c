//! Sums up warnings and errors that are repeated.
//!
//! Of each place in the code that logs a warning or an error, ten lines are written in ten seconds. Further ones are
//! counted, and one line reports their number at the end of the interval. The memory is bounded by the number of such
//! places. Lines whose error says only that a store is away belong to its outage (`store_outage.rs`).

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::store_outage::{any_away, repeats_outage};

/// Lines of a place that are written in an interval.
const MAX_WRITTEN: u32 = 10;

/// The interval, from the first line on.
const INTERVAL: Duration = Duration::from_secs(10);

/// The part of a message that a report shows, in characters.
const MAX_CHARS: usize = 200;

/// The intervals of all places that logged. A layer for `tracing`; [`LogQueue`](super::LogQueue) reports the repeats.
#[derive(Clone, Debug, Default)]
pub struct Repeats(Arc<Mutex<HashMap<Identifier, Interval>>>);

#[derive(Debug)]
struct Interval {
    began: Instant,
    written: u32,
    /// The lines that were not written, if there are any.
    omitted: Option<Omitted>,
}

/// Lines of one place that were not written.
#[derive(Debug)]
struct Omitted {
    count: u64,
    metadata: &'static Metadata<'static>,
    /// The message of the first one.
    message: String,
}

impl Repeats {
    /// Reports the repeats whose interval is over.
    pub(super) fn report(&self) {
        self.report_since(Instant::now().checked_sub(INTERVAL));
    }

    /// Reports all repeats.
    pub(super) fn report_all(&self) {
        self.report_since(Some(Instant::now()));
    }

    fn report_since(&self, began_until: Option<Instant>) {
        let Some(began_until) = began_until else { return };
        let mut omitted = Vec::new();
        self.0.lock().retain(|_, interval| {
            let is_over = interval.began <= began_until;
            if is_over {
                omitted.extend(interval.omitted.take());
            }
            !is_over
        });
        for Omitted { count, metadata, message } in omitted {
            let source = metadata.target();
            match *metadata.level() {
                Level::ERROR => tracing::error!(source, "\"{message}\" repeated {count} times"),
                _ => tracing::warn!(source, "\"{message}\" repeated {count} times"),
            }
        }
    }

    /// Whether a line is to be written. If not, it is counted.
    fn admit(&self, event: &Event<'_>, now: Instant) -> bool {
        let metadata = event.metadata();
        // Reports are not counted themselves.
        if *metadata.level() > Level::WARN || metadata.target() == module_path!() {
            return true;
        }
        if any_away() && repeats_outage(&FieldText::of(event, "error")) {
            return false;
        }
        let place = metadata.callsite();
        {
            let mut intervals = self.0.lock();
            let interval =
                intervals.entry(place.clone()).or_insert_with(|| Interval { began: now, written: 0, omitted: None });
            if let Some(omitted) = &mut interval.omitted {
                omitted.count += 1;
                return false;
            }
            if now.duration_since(interval.began) >= INTERVAL {
                *interval = Interval { began: now, written: 0, omitted: None };
            }
            if interval.written < MAX_WRITTEN {
                interval.written += 1;
                return true;
            }
        }
        // Not under the lock: formatting runs code of others.
        let message = FieldText::of(event, "message");
        if let Some(interval) = self.0.lock().get_mut(&place) {
            let first = Omitted { count: 0, metadata, message };
            interval.omitted.get_or_insert(first).count += 1;
        }
        false
    }
}

impl<S: Subscriber> Layer<S> for Repeats {
    fn event_enabled(&self, event: &Event<'_>, _context: Context<'_, S>) -> bool {
        self.admit(event, Instant::now())
    }
}

/// The beginning of a field of an event.
struct FieldText {
    name: &'static str,
    text: String,
}

impl FieldText {
    fn of(event: &Event<'_>, name: &'static str) -> String {
        let mut field = Self { name, text: String::new() };
        event.record(&mut field);
        field.text
    }
}

impl Visit for FieldText {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == self.name {
            self.text = value.chars().take(MAX_CHARS).collect();
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == self.name {
            self.text = format!("{value:?}").chars().take(MAX_CHARS).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Lines {
        fn take(&self) -> Vec<String> {
            let text = std::mem::take(&mut *self.0.lock());
            String::from_utf8(text).unwrap().lines().map(|line| line.trim().to_owned()).collect()
        }
    }

    impl io::Write for Lines {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(buf);
            Ok(buf.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn warn(count: usize) {
        for number in 0..count {
            tracing::warn!(number, "redis is away");
        }
    }

    /// Makes all intervals begin earlier.
    fn wait(repeats: &Repeats) {
        for interval in repeats.0.lock().values_mut() {
            interval.began -= INTERVAL;
        }
    }

    #[test]
    fn repeated_warnings_are_counted_and_reported_in_one_line() {
        let repeats = Repeats::default();
        let lines = Lines::default();
        let writer = lines.clone();
        let format = tracing_subscriber::fmt::layer().with_ansi(false).without_time().with_target(false);
        let logs = format.with_writer(move || writer.clone());
        let subscriber = tracing_subscriber::registry().with(repeats.clone()).with(logs);
        tracing::subscriber::with_default(subscriber, || {
            warn(1_000);
            tracing::warn!("another warning");
            (0..20).for_each(|_| tracing::info!("not a warning"));
            let written = lines.take();
            assert_eq!(written.len(), 10 + 1 + 20, "{written:?}");
            assert_eq!(written[9], "WARN redis is away number=9");
            repeats.report();
            assert_eq!(lines.take(), [""; 0], "the interval is not over");

            wait(&repeats);
            warn(5);
            assert_eq!(lines.take(), [""; 0], "repeats that are not reported yet go on");
            repeats.report();
            let source = module_path!();
            assert_eq!(lines.take(), [format!("WARN \"redis is away\" repeated 995 times source=\"{source}\"")]);
            warn(12);
            assert_eq!(lines.take().len(), 10, "a new interval");
            repeats.report_all();
            assert!(lines.take()[0].contains("repeated 2 times"));

            warn(10);
            wait(&repeats);
            warn(10);
            assert_eq!(lines.take().len(), 20, "ten in each interval");
        });
    }
}
