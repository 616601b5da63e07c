//! The program `feedline`.

use std::process::ExitCode;

/// jemalloc, because the server allocates many small, short-lived buffers of different sizes on all threads.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    feedline::cli::main()
}
