//! `cargo fuzz run session`, with a nightly compiler; any other builds it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| feedline_fuzz::drive(data));
