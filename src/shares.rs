//! Shares: one user, address or server may have a part of a limited resource only, so that it leaves room for others.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The number of sources above which those without a permit are forgotten.
const MAX_IDLE_SOURCES: usize = 1_024;

/// A user, an address or a server, as a digest with a secret of the process: nobody can choose a name that collides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceId(u64);

impl SourceId {
    /// The only source of a resource that is not shared.
    pub const ONLY: Self = Self(0);

    /// The digest of a name. Names of different kinds need different prefixes.
    pub fn of(name: &(impl Hash + ?Sized)) -> Self {
        static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self(HASHER.hash_one(name))
    }
}

/// The same number of permits for each source.
#[derive(Debug)]
pub struct Shares {
    permits: usize,
    sources: Mutex<Sources>,
}

#[derive(Debug)]
struct Sources {
    semaphores: HashMap<SourceId, Arc<Semaphore>>,
    /// The number of semaphores at which idle ones are dropped: twice those in use, so that a sweep is paid for by the
    /// insertions before it.
    sweep_at: usize,
}

impl Shares {
    /// Each source may have a part of these permits, and at least one.
    pub fn part(of: usize, part: usize) -> Self {
        let sources = Sources { semaphores: HashMap::new(), sweep_at: MAX_IDLE_SOURCES };
        Self { permits: of.div_ceil(part).max(1), sources: Mutex::new(sources) }
    }

    /// Waits until the source has fewer permits than its share.
    pub async fn acquire(&self, source: SourceId) -> Option<OwnedSemaphorePermit> {
        // The semaphores are never closed.
        self.semaphore(source).acquire_owned().await.ok()
    }

    fn semaphore(&self, source: SourceId) -> Arc<Semaphore> {
        let mut sources = self.sources.lock();
        if let Some(semaphore) = sources.semaphores.get(&source) {
            return Arc::clone(semaphore);
        }
        if sources.semaphores.len() >= sources.sweep_at {
            sources.semaphores.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
            sources.sweep_at = MAX_IDLE_SOURCES.max(2 * sources.semaphores.len());
        }
        let semaphore = Arc::new(Semaphore::new(self.permits));
        sources.semaphores.insert(source, Arc::clone(&semaphore));
        semaphore
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn a_source_has_its_part_and_leaves_the_rest() {
        let shares = Shares::part(7, 4);
        let [ann, bo] = ["ann", "bo"].map(SourceId::of);
        let take = |source| shares.acquire(source).now_or_never().flatten();
        let held = [take(ann), take(ann)];
        assert!(held.iter().all(Option::is_some), "a quarter of seven, rounded up");
        assert!(take(ann).is_none() && take(bo).is_some());
        drop(held);
        assert!(take(ann).is_some());
        assert!(Shares::part(1, 4).acquire(ann).now_or_never().flatten().is_some(), "at least one");
    }

    #[test]
    fn idle_sources_are_forgotten() {
        let shares = Shares::part(4, 4);
        let held: Vec<_> = (0..100).map(|n| shares.acquire(SourceId::of(&n)).now_or_never()).collect();
        for n in 0..10_000 {
            drop(shares.acquire(SourceId::of(&n)).now_or_never());
        }
        assert!(shares.sources.lock().semaphores.len() <= MAX_IDLE_SOURCES);
        assert!(shares.acquire(SourceId::of(&7)).now_or_never().is_none(), "those in use are kept");
        drop(held);
    }
}
