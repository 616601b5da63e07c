//! What this process uses, from Linux. Elsewhere all values are 0.

use std::fs;

/// The unit of CPU times in `/proc`, in milliseconds. Linux has a hundred of them a second on every platform.
const TICK_MILLIS: u64 = 10;

/// What the process uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessUsage {
    /// The CPU time of all threads since the start, in milliseconds.
    pub(crate) cpu_millis: u64,
    /// The resident memory, in bytes.
    pub(crate) memory: u64,
}

impl ProcessUsage {
    /// Reads the usage of this process.
    pub(crate) fn read() -> Self {
        let read = |name| fs::read_to_string(name).unwrap_or_default();
        Self::parse(&read("/proc/self/stat"), &read("/proc/self/status"))
    }

    fn parse(stat: &str, status: &str) -> Self {
        // The second field, the name in parentheses, may contain spaces. The times in user and kernel mode are the
        // fields 14 and 15.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
        let ticks: u64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = resident.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        Self { cpu_millis: ticks * TICK_MILLIS, memory: kibibytes.unwrap_or(0) * 1024 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_memory_are_found() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 9 9 20 0";
        let status = "Name:\tfeedline\nVmHWM:\t 99 kB\nVmRSS:\t   12 kB\n";
        let expected = ProcessUsage { cpu_millis: 2_000, memory: 12 * 1024 };
        assert_eq!(ProcessUsage::parse(stat, status), expected);
        assert_eq!(ProcessUsage::parse("", ""), ProcessUsage::default());
    }
}
