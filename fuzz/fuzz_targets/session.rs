//! Run with `cargo fuzz run session` and a nightly compiler. A stable compiler can only build it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| feedline_fuzz::drive(data));
