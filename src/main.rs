//! The command line of Feedline.

use std::fmt::Display;
use std::process::ExitCode;

use clap::Parser as _;
use feedline::cli::{self, Args, Command};

/// Thousands of small, short-lived buffers of many sizes on all threads: what it is made for.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What was asked for is wrong, as opposed to having failed.
const WRONG: u8 = 2;

fn main() -> ExitCode {
    let args = Args::parse();
    // Before anything is started: pinned to a core, it begins anew.
    if let Some(Command::Bench(bench)) = &args.command {
        return match feedline::bench::run(bench) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&format!("{error:#}"), 1),
        };
    }
    let config = match args.load_config() {
        Ok(config) => config,
        Err(error) => return fail(&error, WRONG),
    };
    let done = match &args.command {
        None | Some(Command::Serve | Command::Bench(_)) => cli::serve(&config),
        Some(Command::Token(token)) => cli::token(&config, token),
        Some(Command::Backup(backup)) => cli::backup(&config, backup),
        Some(Command::Restore(restore)) => cli::restore(&config, restore),
        Some(Command::Erasures(command)) => cli::erasures(&config, command),
        Some(Command::CheckConfig) => cli::check_config(args.config.as_deref()).map_err(Into::into),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("{error:#}"), 1),
    }
}

/// Says why to standard error, where logging may not have been started yet.
fn fail(why: &dyn Display, code: u8) -> ExitCode {
    eprintln!("{why}");
    ExitCode::from(code)
}
