//! How much chaos there is: a little by default, a lot where the environment asks for it (`make chaos`).

/// Whether the long forms run.
pub(crate) fn is_asked_for() -> bool {
    std::env::var("FEEDLINE_CHAOS").is_ok_and(|value| value == "1")
}

/// How many rounds a test takes.
pub(crate) fn rounds(short: usize, long: usize) -> usize {
    if is_asked_for() { long } else { short }
}
