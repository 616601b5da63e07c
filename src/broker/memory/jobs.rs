//! The progress of fan-out jobs: the last attempt at each, and the pages that were written.

use std::collections::HashMap;
use std::sync::Arc;

use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use parking_lot::Mutex;

use crate::broker::fan_out::JOB_TTL;
use crate::broker::{FanOut, JobAttempt, JobProgress};
use crate::ledger::JobId;

/// The maximum number of jobs that are kept.
const MAX_JOBS: u64 = 200_000;

/// The jobs of a broker, by run and id. Running jobs are used continuously, so they are not evicted.
pub(super) struct JobRegistry(Cache<(Arc<str>, JobId), Arc<Mutex<JobPages>>>);

/// The progress of a job. Pages are stored as in Redis: a field and a value each.
#[derive(Default)]
pub(super) struct JobPages {
    token: u64,
    pages: HashMap<String, String>,
}

impl JobPages {
    /// Records a page. `false` if a later attempt has begun.
    pub(super) fn note(&mut self, page: &FanOut<'_>) -> bool {
        let token = page.attempt.token();
        if self.token > token {
            return false;
        }
        self.token = token;
        self.pages.insert(page.page.field(token), page.page.value(page.users));
        true
    }
}

impl JobRegistry {
    pub(super) fn new() -> Self {
        let jobs = Cache::builder().max_capacity(MAX_JOBS).eviction_policy(EvictionPolicy::lru());
        Self(jobs.time_to_live(JOB_TTL).build())
    }

    pub(super) fn get(&self, attempt: &JobAttempt) -> Arc<Mutex<JobPages>> {
        self.0.get_with((Arc::clone(&attempt.run), attempt.job), Arc::default)
    }

    pub(super) fn begin(&self, attempt: &JobAttempt) -> Option<JobProgress> {
        let job = self.get(attempt);
        let mut job = job.lock();
        if job.token > attempt.token() {
            return None;
        }
        job.token = attempt.token();
        let mut progress = JobProgress::default();
        job.pages.iter().for_each(|(field, value)| progress.add(field, value));
        Some(progress)
    }

    /// Removes the pages. The token is kept, so that earlier attempts are refused.
    pub(super) fn retire(&self, attempt: &JobAttempt) {
        self.get(attempt).lock().pages = HashMap::new();
    }

    pub(super) fn forget_all(&self) {
        self.0.invalidate_all();
    }
}
