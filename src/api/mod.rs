//! The API: one table of operations for rpc, HTTP and OpenAPI, and everything around a call of one.
//!
//! | file | contents |
//! |---|---|
//! | `operations/` | the table: names, paths, access, effects, costs, schemas |
//! | `request.rs` | a request, from any transport |
//! | `executor.rs` | runs an operation: authorises, admits, and runs writes with an idempotency key once |
//! | `admission.rs` | the rate limit of each operation |
//! | `heavy_reads.rs` | limits the concurrency of expensive reads |
//! | `idempotency.rs` | idempotency keys and their stored replies |
//! | `error_kind.rs` | the codes and statuses of errors |
//! | `errors.rs` | the wire form of errors |

mod admission;
mod error_kind;
mod errors;
mod executor;
mod heavy_reads;
mod idempotency;
pub mod operations;
mod request;

pub use error_kind::ErrorKind;
pub use executor::Executor;
pub use request::{Request, has_input};
