//! The schema of the database. Each startup updates it: first the migrations, then the functions.

mod functions;
mod migrations;
#[cfg(test)]
mod tests;

pub(super) use self::migrations::{check, migrate};
