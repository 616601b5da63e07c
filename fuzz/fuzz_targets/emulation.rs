//! `cargo fuzz run --features targets emulation`, with a nightly compiler, or with `RUSTC_BOOTSTRAP=1` and
//! `--sanitizer none`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| feedline_fuzz::drive_emulation(data));
