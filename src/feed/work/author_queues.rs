//! The jobs of one partition that wait or run in this process: a queue for each author.
//!
//! Jobs of an author run one after the other, in the order of their numbers. A job that a write hands over in memory
//! names the unfinished job before it; if that one is not here, jobs of the author are missing, and the partition is
//! loaded from the ledger instead. A job stays *known* until the ledger has removed it, so that a load does not run it
//! again.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::ledger::{Fence, Job, JobId, NewJob};
use crate::model::UserId;

/// The greatest number of jobs of one author in memory. Further ones wait in the ledger, so that an author with very
/// many does not keep others from being loaded.
pub(super) const MAX_JOBS_OF_AUTHOR: usize = 32;

/// A job in memory.
#[derive(Debug)]
pub(crate) struct QueuedJob<S> {
    pub(crate) job: Job,
    /// The ownership of the partition.
    pub(crate) fence: Fence,
    /// Whether an earlier owner may have run a part of it: it was loaded from the ledger.
    pub(crate) is_loaded: bool,
    /// Whether this process has run it before, and it asked to be repeated.
    pub(crate) is_repeated: bool,
    /// Freed when the job ends.
    pub(crate) slot: Option<S>,
}

/// The jobs of one author.
#[derive(Debug)]
struct AuthorQueue<S> {
    waiting: VecDeque<QueuedJob<S>>,
    /// Jobs that are waiting, running, or done but still in the ledger.
    known: HashSet<JobId>,
    /// Whether a job is running, or the author is among the ready ones.
    is_scheduled: bool,
    /// Whether more jobs wait in the ledger.
    has_more: bool,
}

impl<S> Default for AuthorQueue<S> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), known: HashSet::new(), is_scheduled: false, has_more: false }
    }
}

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddOutcome {
    /// It waits, and its author is to be scheduled.
    Ready,
    /// It waits behind another job of its author.
    Queued,
    /// It is known already.
    Known,
    /// It waits in the ledger: the partition is to be loaded, now or when there is room.
    Refused,
}

/// The jobs of a partition.
#[derive(Debug)]
pub(super) struct AuthorQueues<S> {
    /// `None`: this process does not own the partition.
    fence: Option<Fence>,
    authors: HashMap<UserId, AuthorQueue<S>>,
    /// The greatest number that was loaded. A job up to here that a write hands over may have been run already.
    loaded_through: JobId,
    /// Jobs that are known.
    count: usize,
    /// Jobs that are running.
    running: usize,
}

impl<S> Default for AuthorQueues<S> {
    fn default() -> Self {
        Self { fence: None, authors: HashMap::new(), loaded_through: JobId(0), count: 0, running: 0 }
    }
}

impl<S> AuthorQueues<S> {
    /// Begins an ownership.
    pub(super) fn begin(&mut self, fence: Fence) {
        *self = Self { fence: Some(fence), running: self.running, ..Self::default() };
    }

    /// Ends the ownership. Running jobs go on until they notice.
    pub(super) fn end(&mut self) {
        *self = Self { running: self.running, ..Self::default() };
    }

    pub(super) fn fence(&self) -> Option<&Fence> {
        self.fence.as_ref()
    }

    /// The number of jobs that are known.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The number of jobs that are running.
    pub(super) fn running(&self) -> usize {
        self.running
    }

    /// Authors whose further jobs stay in the ledger until half of those in memory are done.
    pub(super) fn saturated(&self) -> impl Iterator<Item = &UserId> {
        self.authors.iter().filter(|(_, it)| it.is_saturated()).map(|(author, _)| author)
    }

    /// Whether an author is among the [saturated](Self::saturated) ones.
    pub(super) fn is_saturated(&self, author: &UserId) -> bool {
        self.authors.get(author).is_some_and(AuthorQueue::is_saturated)
    }

    /// Adds a job that a write has created while this process owned the partition by `fence`.
    pub(super) fn hand_over(&mut self, new: NewJob, fence: &Fence, slot: Option<S>) -> AddOutcome {
        let NewJob { job, previous } = new;
        if self.fence.as_ref() != Some(fence) || job.id <= self.loaded_through {
            return AddOutcome::Refused;
        }
        let author = self.authors.entry(job.work.author().clone()).or_default();
        let is_next = previous.is_none_or(|previous| author.known.contains(&previous));
        if !is_next || author.has_more {
            author.has_more = true;
            return AddOutcome::Refused;
        }
        let queued = QueuedJob { job, fence: fence.clone(), is_loaded: false, is_repeated: false, slot };
        let added = author.add(queued);
        self.count += usize::from(matches!(added, AddOutcome::Ready | AddOutcome::Queued));
        added
    }

    /// Adds a job that was loaded. Jobs are loaded in the order of their numbers.
    pub(super) fn add_loaded(&mut self, job: Job) -> AddOutcome {
        let Some(fence) = self.fence.clone() else { return AddOutcome::Refused };
        self.loaded_through = self.loaded_through.max(job.id);
        let author = self.authors.entry(job.work.author().clone()).or_default();
        let added = author.add(QueuedJob { job, fence, is_loaded: true, is_repeated: false, slot: None });
        self.count += usize::from(matches!(added, AddOutcome::Ready | AddOutcome::Queued));
        added
    }

    /// A load begins: it shows which authors have more.
    pub(super) fn begin_load(&mut self) {
        for author in self.authors.values_mut().filter(|author| !author.is_saturated()) {
            author.has_more = false;
        }
    }

    /// The next job of a scheduled author. `None`: there is none, and the author is not scheduled any more.
    pub(super) fn next(&mut self, author: &UserId) -> Option<QueuedJob<S>> {
        let queue = self.authors.get_mut(author)?;
        let next = queue.waiting.pop_front();
        queue.is_scheduled = next.is_some();
        self.running += usize::from(next.is_some());
        next
    }

    /// A running job has stopped. Returns whether its author stays scheduled.
    pub(super) fn stopped(&mut self, author: &UserId, fence: &Fence) -> bool {
        self.running -= 1;
        if self.fence.as_ref() != Some(fence) {
            return false;
        }
        let Some(queue) = self.authors.get_mut(author) else { return false };
        queue.is_scheduled = !queue.waiting.is_empty();
        let is_scheduled = queue.is_scheduled;
        if queue.known.is_empty() && !is_scheduled {
            self.authors.remove(author);
        }
        is_scheduled
    }

    /// Queues a job again, behind those that wait. Returns whether its author is to be scheduled.
    pub(super) fn repeat(&mut self, queued: QueuedJob<S>) -> bool {
        let is_known = self.fence.as_ref() == Some(&queued.fence);
        let Some(author) = self.authors.get_mut(queued.job.work.author()).filter(|_| is_known) else { return false };
        author.waiting.push_back(queued);
        !std::mem::replace(&mut author.is_scheduled, true)
    }

    /// The ledger has removed a job of this ownership. Returns whether more jobs should be loaded.
    pub(super) fn removed(&mut self, id: JobId, author: &UserId, fence: &Fence) -> bool {
        if self.fence.as_ref() != Some(fence) {
            return false;
        }
        let Some(queue) = self.authors.get_mut(author) else { return false };
        self.count -= usize::from(queue.known.remove(&id));
        let wants_more = queue.has_more && !queue.is_saturated();
        if queue.known.is_empty() && !queue.is_scheduled {
            self.authors.remove(author);
        }
        wants_more
    }
}

impl<S> AuthorQueue<S> {
    fn is_saturated(&self) -> bool {
        self.known.len() > MAX_JOBS_OF_AUTHOR / 2
    }

    fn add(&mut self, queued: QueuedJob<S>) -> AddOutcome {
        if self.known.contains(&queued.job.id) {
            return AddOutcome::Known;
        }
        if self.known.len() >= MAX_JOBS_OF_AUTHOR {
            self.has_more = true;
            return AddOutcome::Refused;
        }
        self.known.insert(queued.job.id);
        self.waiting.push_back(queued);
        if std::mem::replace(&mut self.is_scheduled, true) { AddOutcome::Queued } else { AddOutcome::Ready }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Work;
    use crate::model::PostId;

    type Queues = AuthorQueues<()>;

    fn id(text: &str) -> UserId {
        UserId::parse(text).expect("an id")
    }

    fn fence(generation: u64) -> Fence {
        Fence { partition: "fanout/0".into(), generation }
    }

    fn job(number: u64, author: &str) -> Job {
        let work = Work::Post { post: PostId::ZERO, author: id(author) };
        Job { id: JobId(number), work, cursor: String::new(), created_at: 0 }
    }

    fn owned() -> Queues {
        let mut queues = Queues::default();
        queues.begin(fence(1));
        queues
    }

    impl Queues {
        fn hand(&mut self, number: u64, author: &str, previous: Option<u64>) -> AddOutcome {
            let new = NewJob { job: job(number, author), previous: previous.map(JobId) };
            self.hand_over(new, &fence(1), None)
        }

        /// Runs the next job of an author to its end.
        fn run(&mut self, author: &str) -> Option<u64> {
            let next = self.next(&id(author))?;
            self.stopped(&id(author), &next.fence);
            Some(next.job.id.0)
        }
    }

    #[test]
    fn jobs_of_an_author_run_one_after_the_other_and_authors_beside_each_other() {
        let mut queues = owned();
        assert_eq!(queues.hand(1, "ann", None), AddOutcome::Ready);
        assert_eq!(queues.hand(2, "ann", Some(1)), AddOutcome::Queued);
        assert_eq!(queues.hand(3, "bo", None), AddOutcome::Ready);
        let first = queues.next(&id("ann")).expect("a job");
        assert_eq!((first.job.id, queues.run("bo"), queues.running()), (JobId(1), Some(3), 1));
        assert!(queues.stopped(&id("ann"), &first.fence), "the second one waits");
        assert_eq!((queues.run("ann"), queues.next(&id("ann")).is_none()), (Some(2), true));
    }

    #[test]
    fn a_job_whose_predecessor_is_missing_is_loaded() {
        let mut queues = owned();
        // The reply of the write of 2 came first.
        assert_eq!(queues.hand(2, "ann", Some(1)), AddOutcome::Refused);
        assert_eq!(queues.hand(1, "ann", None), AddOutcome::Refused, "the load brings both");
        queues.begin_load();
        assert_eq!(queues.add_loaded(job(1, "ann")), AddOutcome::Ready);
        assert_eq!(queues.add_loaded(job(2, "ann")), AddOutcome::Queued);
        assert_eq!((queues.run("ann"), queues.run("ann")), (Some(1), Some(2)));
        assert_eq!(queues.hand(3, "ann", Some(2)), AddOutcome::Ready, "2 is done, but still in the ledger");
    }

    #[test]
    fn a_loaded_job_is_not_run_again_when_its_write_hands_it_over_late() {
        let mut queues = owned();
        queues.add_loaded(job(7, "ann"));
        assert_eq!(queues.hand(7, "ann", None), AddOutcome::Refused);
        queues.run("ann");
        queues.removed(JobId(7), &id("ann"), &fence(1));
        assert_eq!((queues.hand(7, "ann", None), queues.len()), (AddOutcome::Refused, 0));
        assert_eq!(queues.hand(8, "ann", None), AddOutcome::Ready);
        assert_eq!(queues.add_loaded(job(8, "ann")), AddOutcome::Known);
    }

    #[test]
    fn a_former_ownership_adds_and_schedules_nothing() {
        let mut queues = owned();
        queues.hand(1, "ann", None);
        let running = queues.next(&id("ann")).expect("a job");
        queues.hand(2, "ann", Some(1));
        queues.end();
        assert_eq!(queues.hand(3, "bo", None), AddOutcome::Refused);
        queues.begin(fence(2));
        assert_eq!((queues.running(), queues.len()), (1, 0));
        assert_eq!(queues.hand(3, "bo", None), AddOutcome::Refused, "it was written under the former one");
        assert!(!queues.removed(JobId(1), &id("ann"), &fence(1)));
        assert!(!queues.stopped(&id("ann"), &running.fence) && !queues.repeat(running));
        assert_eq!(queues.running(), 0);
    }

    #[test]
    fn an_author_with_very_many_jobs_leaves_most_of_them_in_the_ledger() {
        let mut queues = owned();
        for number in 1..=40 {
            queues.hand(number, "ann", (number > 1).then(|| number - 1));
        }
        assert_eq!((queues.len(), queues.saturated().count()), (MAX_JOBS_OF_AUTHOR, 1));
        let mut wants = Vec::new();
        for number in 1..=20 {
            assert_eq!(queues.run("ann"), Some(number));
            wants.extend(queues.removed(JobId(number), &id("ann"), &fence(1)).then_some(number));
        }
        assert_eq!(wants.first(), Some(&16), "when half of them are left");
        assert_eq!(queues.hand(41, "ann", Some(40)), AddOutcome::Refused, "33 to 40 come first");
        queues.begin_load();
        for number in 21..=40 {
            queues.add_loaded(job(number, "ann"));
        }
        assert_eq!(queues.hand(41, "ann", Some(40)), AddOutcome::Queued);
    }

    #[test]
    fn a_repeated_job_keeps_its_place_in_the_ledger() {
        let mut queues = owned();
        queues.hand(1, "ann", None);
        let job = queues.next(&id("ann")).expect("a job");
        assert!(!queues.stopped(&id("ann"), &job.fence));
        assert_eq!(queues.hand(2, "ann", Some(1)), AddOutcome::Ready, "others do not wait for it");
        assert!(!queues.repeat(job), "scheduled already");
        assert_eq!((queues.run("ann"), queues.run("ann")), (Some(2), Some(1)));
    }
}
