//! The command line, with one file per command.

mod adopt;
mod backup;
mod check_config;
mod config_source;
mod demo;
mod doctor;
mod erasures;
mod notify;
mod outlet_refill;
mod output;
mod process;
mod push;
mod quarantine;
mod run;
mod seed_demo;
mod serve;
mod status;
mod token;
mod transfer;

pub use run::main;
