//! The jobs of one partition that wait or run in this process: a queue for each author.
//!
//! Jobs of an author run one after the other, in the order of their numbers. The ledger is the queue: if a job of an
//! author is here, so are all earlier ones. A load skips the authors that have jobs here, and gets the first jobs of
//! the others. A job that a write hands over in memory names the unfinished job before it. If that one is not here, the
//! partition is loaded instead; if it is here and not the last, once the jobs of the author have ended.

use std::collections::{HashMap, VecDeque};

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::ledger::{Fence, Job, JobId, NewJob};
use crate::model::UserId;

/// The greatest number of jobs of one author that wait in memory.
const MAX_JOBS_OF_AUTHOR: usize = 32;

/// A slot in flight.
pub(crate) type Slot = OwnedSemaphorePermit;

/// A job in memory.
#[derive(Debug)]
pub(crate) struct QueuedJob {
    pub(crate) job: Job,
    /// The ownership of the partition.
    pub(crate) fence: Fence,
    /// Whether an earlier owner may have run a part of it: it was loaded from the ledger.
    pub(crate) is_loaded: bool,
    /// Whether this process has run it before, and it asked to be repeated.
    pub(crate) is_repeated: bool,
    /// Freed when the job ends.
    pub(crate) slot: Option<Slot>,
}

/// What becomes of a job that has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobEnd {
    /// It is done, and stays in the ledger for a moment.
    Done,
    /// It runs again from this time on. Other jobs of its author do not wait for it.
    Repeat(Instant),
    /// It is not in the ledger any more, or is loaded again.
    Lost,
}

/// An author with a job that waits or runs.
#[derive(Debug)]
struct AuthorQueue {
    waiting: VecDeque<QueuedJob>,
    /// The last job that was added.
    last: JobId,
    /// Whether the ledger has, or may have, jobs of the author that are not here.
    has_more: bool,
}

/// What becomes of a job that a write has created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandOver {
    /// It is in memory; `is_first`: its author is to be scheduled.
    Added { is_first: bool },
    /// It is loaded after the jobs of its author that are in memory.
    Follows,
    /// The partition is to be loaded, here or where it is owned.
    Load,
}

/// The jobs of a partition.
#[derive(Debug, Default)]
pub(super) struct AuthorQueues {
    /// `None`: this process does not own the partition.
    fence: Option<Fence>,
    /// Whether the partition is to be loaded.
    pub(super) is_wanted: bool,
    /// Whether other processes, or commands, have signalled jobs of any author since the last load.
    is_signalled: bool,
    authors: HashMap<UserId, AuthorQueue>,
    /// Jobs that have run and are still in the ledger; those to be repeated with their times.
    held: HashMap<JobId, Option<Instant>>,
    /// The greatest number that was loaded. A job up to here that a write hands over may have been run already.
    loaded_through: JobId,
    /// Jobs that wait.
    waiting: usize,
    /// Jobs that are running, also those of a former ownership.
    running: usize,
}

impl AuthorQueues {
    /// Begins an ownership (`None`: ends it). Jobs of the former one that are running go on until they notice.
    pub(super) fn reset(&mut self, fence: Option<Fence>) {
        *self = Self { fence, running: self.running, ..Self::default() };
    }

    pub(super) fn fence(&self) -> Option<&Fence> {
        self.fence.as_ref()
    }

    /// The number of jobs that wait or have run.
    pub(super) fn len(&self) -> usize {
        self.waiting + self.held.len()
    }

    /// The number of jobs that are running.
    pub(super) fn running(&self) -> usize {
        self.running
    }

    /// Adds a job that a write has created while this process owned the partition by `fence`.
    pub(super) fn hand_over(&mut self, new: NewJob, fence: &Fence, slot: Option<Slot>) -> HandOver {
        let NewJob { job, previous } = new;
        if self.fence.as_ref() != Some(fence) {
            return HandOver::Load;
        }
        let is_new = job.id > self.loaded_through;
        match self.authors.get_mut(job.work.author()) {
            Some(queue) if is_new && previous == Some(queue.last) && queue.waiting.len() < MAX_JOBS_OF_AUTHOR => {}
            Some(queue) => {
                queue.has_more = true;
                return HandOver::Follows;
            }
            None if is_new && previous.is_none_or(|previous| self.held.contains_key(&previous)) => {}
            None => return HandOver::Load,
        }
        let queued = QueuedJob { job, fence: fence.clone(), is_loaded: false, is_repeated: false, slot };
        HandOver::Added { is_first: self.add(queued) }
    }

    /// Jobs of any author may wait in the ledger.
    pub(super) fn signal(&mut self) {
        self.is_wanted = true;
        self.is_signalled = true;
    }

    /// Returns whether the author is to be scheduled.
    fn add(&mut self, queued: QueuedJob) -> bool {
        let id = queued.job.id;
        let author = queued.job.work.author().clone();
        let is_new = !self.authors.contains_key(&author);
        let empty = || AuthorQueue { waiting: VecDeque::new(), last: id, has_more: false };
        let queue = self.authors.entry(author).or_insert_with(empty);
        queue.last = id;
        queue.waiting.push_back(queued);
        self.waiting += 1;
        is_new
    }

    /// Begins a load of up to `new` more jobs. Returns the limit of the load, and the authors to skip: a job that was
    /// signalled may be theirs. A job whose signal was lost is found by the poll after its author has left memory.
    pub(super) fn begin_load(&mut self, new: usize) -> (usize, impl Iterator<Item = &UserId>) {
        self.is_wanted = false;
        if std::mem::take(&mut self.is_signalled) {
            self.authors.values_mut().for_each(|queue| queue.has_more = true);
        }
        (self.held.len() + new, self.authors.keys())
    }

    /// Adds loaded jobs, in the order of their numbers. Returns the authors to be scheduled.
    pub(super) fn add_loaded(&mut self, jobs: impl IntoIterator<Item = Job>, now: Instant) -> Vec<UserId> {
        let Some(fence) = self.fence.clone() else { return Vec::new() };
        let mut ready: Vec<UserId> = Vec::new();
        for job in jobs {
            let id = job.id;
            let author = job.work.author().clone();
            self.loaded_through = self.loaded_through.max(id);
            if let Some(queue) = self.authors.get_mut(&author).filter(|_| !ready.contains(&author)) {
                // A write has handed over jobs of the author meanwhile.
                queue.has_more = true;
                continue;
            }
            if self.held.get(&id).is_some_and(|repeat_at| repeat_at.is_none_or(|at| now < at)) {
                continue;
            }
            let is_repeated = self.held.remove(&id).is_some();
            if self.add(QueuedJob { job, fence: fence.clone(), is_loaded: true, is_repeated, slot: None }) {
                ready.push(author);
            }
        }
        ready
    }

    /// The next job of a scheduled author.
    pub(super) fn next(&mut self, author: &UserId) -> Option<QueuedJob> {
        let next = self.authors.get_mut(author)?.waiting.pop_front()?;
        self.waiting -= 1;
        self.running += 1;
        Some(next)
    }

    /// A running job has ended. Returns whether its author is to be scheduled again.
    pub(super) fn ended(&mut self, id: JobId, author: &UserId, fence: &Fence, end: JobEnd) -> bool {
        self.running -= 1;
        if self.fence.as_ref() != Some(fence) {
            return false;
        }
        match end {
            JobEnd::Done => _ = self.held.insert(id, None),
            JobEnd::Repeat(at) => _ = self.held.insert(id, Some(at)),
            JobEnd::Lost => {}
        }
        let has_more = self.authors.get(author).is_some_and(|queue| !queue.waiting.is_empty());
        if !has_more {
            self.is_wanted |= self.authors.remove(author).is_some_and(|queue| queue.has_more);
        }
        has_more
    }

    /// The ledger has removed a job that is done, or has failed to.
    pub(super) fn removed(&mut self, id: JobId) {
        self.held.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ledger::Work;
    use crate::model::PostId;

    fn id(text: &str) -> UserId {
        UserId::parse(text).expect("an id")
    }

    fn fence(generation: u64) -> Fence {
        Fence { partition: "fanout/0".into(), generation }
    }

    fn job(number: u64, author: &str) -> Job {
        let work = Work::Post { post: PostId::ZERO, author: id(author), trace: None };
        Job { id: JobId(number), work, created_at: 0 }
    }

    fn owned() -> AuthorQueues {
        let mut queues = AuthorQueues::default();
        queues.reset(Some(fence(1)));
        queues
    }

    impl AuthorQueues {
        fn hand(&mut self, number: u64, author: &str, previous: Option<u64>) -> Option<bool> {
            let new = NewJob { job: job(number, author), previous: previous.map(JobId) };
            match self.hand_over(new, &fence(1), None) {
                HandOver::Added { is_first } => Some(is_first),
                HandOver::Follows | HandOver::Load => None,
            }
        }

        fn load(&mut self, jobs: &[(u64, &str)]) -> Vec<UserId> {
            self.add_loaded(jobs.iter().map(|(number, author)| job(*number, author)), Instant::now())
        }

        fn end(&mut self, number: u64, author: &str, end: JobEnd) -> bool {
            self.ended(JobId(number), &id(author), &fence(1), end)
        }

        /// Runs the next job of an author to its end.
        fn run(&mut self, author: &str) -> Option<u64> {
            let next = self.next(&id(author))?.job.id.0;
            self.end(next, author, JobEnd::Done);
            Some(next)
        }
    }

    #[test]
    fn jobs_of_an_author_run_one_after_the_other_and_authors_beside_each_other() {
        let mut queues = owned();
        assert_eq!(queues.hand(1, "ann", None), Some(true));
        assert_eq!(queues.hand(2, "ann", Some(1)), Some(false));
        assert_eq!(queues.hand(3, "bo", None), Some(true));
        let first = queues.next(&id("ann")).expect("a job");
        assert_eq!((first.job.id, queues.run("bo"), queues.running()), (JobId(1), Some(3), 1));
        assert!(queues.end(1, "ann", JobEnd::Done), "the second one waits");
        assert_eq!((queues.run("ann"), queues.next(&id("ann")).is_none()), (Some(2), true));
        assert_eq!(queues.hand(4, "ann", Some(2)), Some(true), "2 is done, but still in the ledger");
    }

    #[test]
    fn a_job_whose_predecessor_is_missing_is_loaded() {
        let mut queues = owned();
        // The reply of the write of 2 came first.
        assert_eq!(queues.hand(2, "ann", Some(1)), None);
        queues.signal();
        assert_eq!(queues.hand(1, "ann", None), Some(true));
        assert_eq!(queues.begin_load(64).1.collect::<Vec<_>>(), [&id("ann")]);
        assert_eq!((queues.run("ann"), queues.is_wanted), (Some(1), true), "the author was skipped");
        assert_eq!(queues.begin_load(64).0, 65, "1 is in the ledger, too");
        assert_eq!(queues.load(&[(1, "ann"), (2, "ann")]), [id("ann")]);
        assert_eq!((queues.run("ann"), queues.run("ann"), queues.is_wanted), (Some(2), None, false));
        queues.removed(JobId(1));
        queues.removed(JobId(2));
        assert_eq!(queues.len(), 0);
    }

    #[test]
    fn a_loaded_job_is_not_run_again_when_its_write_hands_it_over_late() {
        let mut queues = owned();
        queues.load(&[(7, "ann")]);
        assert_eq!(queues.hand(7, "ann", None), None);
        queues.run("ann");
        queues.removed(JobId(7));
        assert_eq!((queues.hand(7, "ann", None), queues.len()), (None, 0));
        assert_eq!(queues.hand(8, "ann", None), Some(true));
        assert_eq!(queues.load(&[(8, "ann"), (9, "ann"), (10, "bo")]), [id("bo")], "it was handed over meanwhile");
        assert_eq!((queues.run("ann"), queues.is_wanted), (Some(8), true), "9 is left");
        assert_eq!(queues.load(&[(8, "ann"), (9, "ann"), (10, "bo")]), [id("ann")]);
        assert_eq!((queues.run("ann"), queues.run("bo"), queues.run("bo")), (Some(9), Some(10), None));
    }

    #[test]
    fn a_former_ownership_adds_and_schedules_nothing() {
        let mut queues = owned();
        queues.hand(1, "ann", None);
        queues.next(&id("ann")).expect("a job");
        queues.hand(2, "ann", Some(1));
        queues.reset(None);
        assert_eq!(queues.hand(3, "bo", None), None);
        queues.reset(Some(fence(2)));
        assert_eq!((queues.running(), queues.len()), (1, 0));
        assert_eq!(queues.hand(3, "bo", None), None, "it was written under the former one");
        assert!(!queues.end(1, "ann", JobEnd::Done));
        assert_eq!((queues.running(), queues.len()), (0, 0));
    }

    /// Otherwise each job that ends would cause a load while other authors have jobs.
    #[test]
    fn the_poll_and_the_end_of_an_author_announce_no_jobs_of_others() {
        let mut queues = owned();
        queues.hand(1, "ann", None);
        queues.hand(2, "bo", None);
        assert_eq!(queues.begin_load(64).1.count(), 2);
        assert_eq!((queues.run("ann"), queues.is_wanted), (Some(1), false));
        queues.hand(3, "ann", Some(1));
        queues.signal();
        assert_eq!(queues.begin_load(64).1.count(), 2);
        assert_eq!((queues.run("ann"), queues.is_wanted), (Some(3), true), "3 may have a successor elsewhere");
        assert_eq!(queues.begin_load(64).1.count(), 1);
        assert_eq!((queues.run("bo"), queues.is_wanted), (Some(2), true), "it was skipped after the signal");
    }

    #[test]
    fn an_author_with_very_many_jobs_leaves_most_of_them_in_the_ledger() {
        let mut queues = owned();
        for number in 1..=40 {
            queues.hand(number, "ann", (number > 1).then(|| number - 1));
        }
        assert_eq!(queues.len(), MAX_JOBS_OF_AUTHOR);
        assert_eq!(queues.begin_load(64).1.count(), 1, "others are loaded");
        let ran: Vec<u64> = std::iter::from_fn(|| queues.run("ann")).collect();
        assert_eq!((ran, queues.is_wanted), ((1..=32).collect(), true));
        assert_eq!(queues.hand(41, "ann", Some(40)), None, "33 to 40 come first");
        queues.load(&(30..=41).map(|number| (number, "ann")).collect::<Vec<_>>());
        assert_eq!(std::iter::from_fn(|| queues.run("ann")).collect::<Vec<_>>(), (33..=41).collect::<Vec<_>>());
    }

    #[test]
    fn others_do_not_wait_for_a_job_that_is_to_be_repeated() {
        let mut queues = owned();
        queues.hand(1, "ann", None);
        queues.next(&id("ann")).expect("a job");
        let later = Instant::now() + Duration::from_secs(60);
        assert!(!queues.end(1, "ann", JobEnd::Repeat(later)));
        assert_eq!(queues.hand(2, "ann", Some(1)), Some(true));
        assert_eq!((queues.run("ann"), queues.load(&[(1, "ann"), (2, "ann")])), (Some(2), vec![]), "it is not due");
        assert_eq!(queues.add_loaded([job(1, "ann"), job(2, "ann")], later), [id("ann")]);
        let again = queues.next(&id("ann")).expect("a job");
        assert!(again.job.id == JobId(1) && again.is_repeated && queues.next(&id("ann")).is_none());
    }
}
