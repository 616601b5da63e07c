//! The schema of the database, brought up to date at each start: migrations, then the functions.

mod concurrent_index;
mod functions;
mod migrations;
#[cfg(test)]
mod tests;

pub(super) use self::migrations::migrate;
