//! Generic caches that the services share.

mod coherent_cache;
mod generational_cache;
mod request_coalescer;
mod sparse_cache;

pub(crate) use coherent_cache::{CacheReader, CoherentCache, FillTicket};
pub(crate) use generational_cache::GenerationalCache;
pub(crate) use request_coalescer::{MAX_BATCH, RequestCoalescer};
pub(crate) use sparse_cache::{SparseCache, UsageFlag};
