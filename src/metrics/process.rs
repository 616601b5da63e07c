//! The metrics of the process, with the names that all exporters use. They come from `/proc`; elsewhere they stay 0.

use std::fs;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// The unit of times in `/proc`, the same on all architectures: 100 a second.
const TICKS_PER_SECOND: f64 = 100.0;

/// The size of a page. `VmRSS` of `/proc/self/status` has kibibytes instead.
const KIB: i64 = 1_024;

/// The time of the boot, in Unix seconds.
static BOOTED: LazyLock<Option<f64>> = LazyLock::new(|| {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
});

/// The metrics of this process.
pub(super) struct ProcessMetrics {
    cpu: Counter<f64, AtomicU64>,
    resident: Gauge,
    open_files: Gauge,
    max_files: Gauge,
    started: Gauge<f64, AtomicU64>,
}

impl ProcessMetrics {
    /// Registers the metrics in a registry of their own: they have no prefix.
    pub(super) fn new() -> (Self, Registry) {
        let metrics = Self {
            cpu: Counter::default(),
            resident: Gauge::default(),
            open_files: Gauge::default(),
            max_files: Gauge::default(),
            started: Gauge::default(),
        };
        let mut r = Registry::with_prefix("process");
        r.register_with_unit("cpu", "CPU time of the process", Unit::Seconds, metrics.cpu.clone());
        r.register_with_unit("resident_memory", "Memory in use", Unit::Bytes, metrics.resident.clone());
        r.register("open_fds", "Open files and sockets", metrics.open_files.clone());
        r.register("max_fds", "The limit of open files", metrics.max_files.clone());
        let started = "When the process started, in Unix time";
        r.register_with_unit("start_time", started, Unit::Seconds, metrics.started.clone());
        (metrics, r)
    }

    /// Reads the current values.
    pub(super) fn read(&self) {
        if let Some((cpu, started)) = times() {
            self.cpu.inner().store(cpu.to_bits(), Ordering::Relaxed);
            self.started.set(BOOTED.unwrap_or_default() + started);
        }
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
        if let Some(kib) = resident.and_then(|kib| kib.parse::<i64>().ok()) {
            self.resident.set(kib * KIB);
        }
        let count = |files: usize| i64::try_from(files).unwrap_or(i64::MAX);
        self.open_files.set(count(open_files()));
        let limit = rlimit::getrlimit(rlimit::Resource::NOFILE).map_or(0, |(soft, _)| soft);
        self.max_files.set(i64::try_from(limit).unwrap_or(i64::MAX));
    }
}

/// The number of open files: the size of the folder, or on kernels before 6.2, where that is 0, its entries.
fn open_files() -> usize {
    const FOLDER: &str = "/proc/self/fd";
    match fs::metadata(FOLDER).map_or(0, |folder| folder.len()) {
        // The folder itself is open while it is read.
        0 => fs::read_dir(FOLDER).map_or(0, |files| files.count().saturating_sub(1)),
        files => usize::try_from(files).unwrap_or(usize::MAX),
    }
}

/// The CPU time of the process, and its start after the boot, in seconds.
fn times() -> Option<(f64, f64)> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field, the name, may contain spaces.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let user: f64 = fields.nth(11)?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    let started: f64 = fields.nth(6)?.parse().ok()?;
    Some(((user + system) / TICKS_PER_SECOND, started / TICKS_PER_SECOND))
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn the_process_has_a_start_memory_and_files() {
        let (metrics, _) = ProcessMetrics::new();
        metrics.read();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs_f64();
        let age = now - metrics.started.get();
        assert!((-2.0..3_600.0).contains(&age), "started {age} s ago");
        assert!(metrics.resident.get() > 1 << 20 && metrics.open_files.get() > 2);
        assert!(metrics.max_files.get() >= metrics.open_files.get());
    }
}
