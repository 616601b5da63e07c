//! The number of disruptions: few by default, many if the environment requests it (`make chaos`).

/// Whether the environment requests the long runs.
pub(crate) fn is_asked_for() -> bool {
    std::env::var("FEEDLINE_CHAOS").is_ok_and(|value| value == "1")
}

/// The number of rounds of a test.
pub(crate) fn rounds(short: usize, long: usize) -> usize {
    if is_asked_for() { long } else { short }
}
