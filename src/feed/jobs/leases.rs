//! The leases of the jobs that this process holds, and whether they can be trusted without a ledger call.
//!
//! The ledger decides which process holds a job. A worker asks the ledger before it begins a job or writes a page in
//! two cases. First, the lease was not renewed recently, for example after a pause of the process. Second, the job may
//! not be the first of its author: a lease of that author was lost here, or an earlier job may be behind it in the lane
//! or in no lane.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::ledger::Job;
use crate::model::UserId;

/// A time by two clocks: the monotonic clock, which adjustments of the wall clock do not affect, and the wall clock,
/// which continues while a virtual machine is suspended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RenewalTime {
    monotonic: Instant,
    wall: SystemTime,
}

impl RenewalTime {
    pub(crate) fn now() -> Self {
        Self { monotonic: Instant::now(), wall: SystemTime::now() }
    }

    /// The elapsed time, by the clock that shows more. Arbitrary if the wall clock was set back.
    fn elapsed(&self) -> Duration {
        self.wall.elapsed().map_or(Duration::MAX, |wall| wall.max(self.monotonic.elapsed()))
    }
}

/// The lease of one job.
struct HeldLease {
    generation: u64,
    author: UserId,
    /// The author with whose jobs this job is ordered.
    lane: Option<UserId>,
    /// The time at which the last successful renewal was requested.
    renewed: RenewalTime,
    /// An earlier job of the author may be behind this one in its lane, or in no lane here.
    in_doubt: bool,
    /// The ledger confirmed that no earlier job of the author is left.
    is_first: bool,
    /// The recipients have the entry; only the ledger still has the job.
    is_done: bool,
}

/// All leases that this process holds, by job.
#[derive(Default)]
pub(crate) struct HeldLeases(Mutex<LeaseTable>);

#[derive(Default)]
struct LeaseTable {
    held: HashMap<i64, HeldLease>,
    /// The authors of ordered jobs whose lease was lost, with the time. Another node may have earlier jobs of these
    /// authors than the jobs held here. Kept until all leases have been renewed after that time.
    lost: HashMap<UserId, Instant>,
}

/// A lease that this process had.
pub(crate) struct LostLease {
    /// The job and the generation of its lease.
    pub(crate) job: (i64, u64),
    /// The author with whose jobs this job is ordered.
    lane: Option<UserId>,
}

impl LeaseTable {
    fn note_losses(&mut self, lost: &[LostLease]) {
        let now = Instant::now();
        self.lost.extend(lost.iter().filter_map(|lease| lease.lane.clone()).map(|author| (author, now)));
    }
}

impl HeldLeases {
    /// Adds the lease of a job. `asked` is a time before the ledger was asked for it. Returns `false` if a newer lease
    /// of the job is held: this one expired before its call returned, and this process claimed the job meanwhile.
    #[must_use]
    pub(crate) fn insert(&self, job: &Job, asked: RenewalTime) -> bool {
        let lane = job.work.is_ordered().then(|| job.work.author().clone());
        let (generation, author) = (job.generation, job.work.author().clone());
        let lease =
            HeldLease { generation, author, lane, renewed: asked, in_doubt: false, is_first: false, is_done: false };
        let mut leases = self.0.lock();
        if leases.held.get(&job.id).is_some_and(|held| held.generation > job.generation) {
            return false;
        }
        leases.held.insert(job.id, lease);
        true
    }

    /// A job enters its lane, behind all earlier ones of the author. `in_doubt`: except those that are in no lane.
    pub(super) fn enter_lane(&self, id: i64, generation: u64, in_doubt: bool) {
        if let Some(lease) = self.0.lock().held.get_mut(&id).filter(|lease| lease.generation == generation) {
            lease.in_doubt = in_doubt;
        }
    }

    /// Marks all jobs that are held as doubtful: earlier jobs of their authors may have been claimed, and are in no
    /// lane.
    pub(super) fn doubt_all(&self) {
        self.0.lock().held.values_mut().filter(|lease| lease.lane.is_some()).for_each(|lease| lease.in_doubt = true);
    }

    /// Marks later jobs of the same authors as doubtful: they are already in lanes, before the claimed jobs.
    pub(super) fn doubt_later_than<'a>(&self, claimed: impl Iterator<Item = &'a Job>) {
        let mut first: HashMap<&UserId, i64> = HashMap::new();
        for job in claimed.filter(|job| job.work.is_ordered()) {
            first.entry(job.work.author()).and_modify(|id| *id = job.id.min(*id)).or_insert(job.id);
        }
        for (id, lease) in &mut self.0.lock().held {
            let first = lease.lane.as_ref().and_then(|lane| first.get(lane));
            lease.in_doubt |= first.is_some_and(|first| first < id);
        }
    }

    /// Forgets a lease, unless the process holds a newer lease of the job.
    pub(crate) fn remove(&self, id: i64, generation: u64) {
        let mut leases = self.0.lock();
        if leases.held.get(&id).is_some_and(|lease| lease.generation == generation) {
            leases.held.remove(&id);
        }
    }

    /// Notes that a job is done: it does not count any more, and leaves the ledger soon.
    pub(crate) fn note_done(&self, id: i64, generation: u64) {
        if let Some(lease) = self.0.lock().held.get_mut(&id).filter(|lease| lease.generation == generation) {
            lease.is_done = true;
        }
    }

    /// The number of held jobs of an author that are not done.
    pub(super) fn count_of(&self, author: &UserId) -> usize {
        self.0.lock().held.values().filter(|lease| !lease.is_done && lease.author == *author).count()
    }

    /// The time since the last renewal of a job's lease; [`Duration::MAX`] if the ledger must be asked. `None` if the
    /// lease is lost.
    pub(crate) fn age(&self, id: i64, generation: u64) -> Option<Duration> {
        let leases = self.0.lock();
        let lease = leases.held.get(&id).filter(|lease| lease.generation == generation)?;
        let lost = lease.lane.as_ref().and_then(|author| leases.lost.get(author));
        let is_doubtful = lease.in_doubt || lost.is_some_and(|lost| *lost >= lease.renewed.monotonic);
        Some(if is_doubtful && !lease.is_first { Duration::MAX } else { lease.renewed.elapsed() })
    }

    /// Whether a lease of this length may still be in force. A last check before a write, without a ledger call.
    pub(crate) fn may_write(&self, id: i64, generation: u64, length: Duration) -> bool {
        let leases = self.0.lock();
        leases.held.get(&id).is_some_and(|lease| lease.generation == generation && lease.renewed.elapsed() < length)
    }

    /// All jobs held, with their generations.
    pub(crate) fn all(&self) -> Vec<(i64, u64)> {
        self.0.lock().held.iter().map(|(id, lease)| (*id, lease.generation)).collect()
    }

    /// Records which leases were renewed, at a time before the ledger was asked. Returns the other leases, which are
    /// lost.
    #[must_use]
    pub(crate) fn note_renewals(&self, asked: &[(i64, u64)], renewed: &[i64], at: RenewalTime) -> Vec<LostLease> {
        let renewed: HashSet<i64> = renewed.iter().copied().collect();
        let mut leases = self.0.lock();
        let mut lost = Vec::new();
        for (id, generation) in asked {
            let Some(lease) = leases.held.get_mut(id).filter(|lease| lease.generation == *generation) else { continue };
            if renewed.contains(id) {
                lease.renewed = at;
            } else if let Some(HeldLease { lane, .. }) = leases.held.remove(id) {
                lost.push(LostLease { job: (*id, *generation), lane });
            }
        }
        leases.note_losses(&lost);
        let held = std::mem::take(&mut leases.held);
        leases.lost.retain(|_, lost| held.values().any(|lease| lease.renewed.monotonic <= *lost));
        leases.held = held;
        lost
    }

    /// Records that the ledger has released lost leases. Before that, it counted these jobs as held here, so jobs
    /// created in that period may be behind them.
    pub(crate) fn note_released(&self, lost: &[LostLease]) {
        self.0.lock().note_losses(lost);
    }

    /// Records that the ledger renewed the lease of a job and has no earlier job of its author.
    pub(crate) fn note_first(&self, id: i64, generation: u64, asked: RenewalTime) {
        let mut leases = self.0.lock();
        if let Some(lease) = leases.held.get_mut(&id).filter(|lease| lease.generation == generation) {
            (lease.renewed, lease.is_first) = (asked, true);
        }
    }

    /// Records the loss of a job's lease: the ledger reported the job as finished or claimed by another worker.
    pub(crate) fn note_loss(&self, job: &Job) {
        if job.work.is_ordered() {
            self.0.lock().lost.insert(job.work.author().clone(), Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Work;
    use crate::model::PostId;

    const HOUR: Duration = Duration::from_secs(3600);

    fn job(id: i64, author: &str) -> Job {
        let work = Work::Post { post: PostId::ZERO, author: UserId::parse(author).expect("an id") };
        Job { id, work, cursor: String::new(), created_at: 0, generation: 1 }
    }

    fn holding(jobs: &[Job]) -> HeldLeases {
        let leases = HeldLeases::default();
        jobs.iter().for_each(|job| assert!(leases.insert(job, RenewalTime::now())));
        leases
    }

    /// Lets the clocks advance.
    fn tick() {
        std::thread::sleep(Duration::from_millis(2));
    }

    /// Whether a held job needs a ledger call before it runs.
    fn is_doubtful(leases: &HeldLeases, id: i64) -> bool {
        leases.age(id, 1).expect("it is held") > HOUR
    }

    #[test]
    fn a_lease_ages_by_either_clock() {
        let leases = HeldLeases::default();
        let age_at = |moment| {
            assert!(leases.insert(&job(1, "ann"), moment));
            (leases.age(1, 1).expect("it is held"), leases.may_write(1, 1, HOUR))
        };
        let now = RenewalTime::now();
        assert!(age_at(now).0 < HOUR && age_at(now).1);
        // The machine was suspended, and its monotonic clock stopped.
        let (age, may_write) = age_at(RenewalTime { wall: now.wall - HOUR, ..now });
        assert!(age >= HOUR && !may_write);
        // The wall clock was set back.
        assert_eq!(age_at(RenewalTime { wall: now.wall + HOUR, ..now }), (Duration::MAX, false));
        assert_eq!((leases.age(1, 2), leases.age(2, 1)), (None, None));
        // The process was paused.
        let Some(monotonic) = now.monotonic.checked_sub(HOUR) else { return };
        let (age, may_write) = age_at(RenewalTime { monotonic, ..now });
        assert!(age >= HOUR && !may_write);
    }

    #[test]
    fn after_a_loss_the_ledger_is_asked_for_later_jobs_of_the_author() {
        let leases = holding(&[job(1, "ann"), job(2, "ann"), job(3, "bo")]);
        tick();
        let asked = RenewalTime::now();
        let lost = leases.note_renewals(&[(1, 1)], &[], asked);
        assert_eq!(lost.iter().map(|lease| lease.job).collect::<Vec<_>>(), [(1, 1)]);
        assert_eq!(leases.age(1, 1), None);
        assert!(is_doubtful(&leases, 2) && !is_doubtful(&leases, 3));
        // A lease renewed at the same time as another lease was lost is in doubt, too.
        assert!(leases.note_renewals(&[(2, 1), (3, 1)], &[2, 3], asked).is_empty());
        assert!(is_doubtful(&leases, 2));
        leases.note_first(2, 1, asked);
        assert!(!is_doubtful(&leases, 2));
        tick();
        leases.note_loss(&job(9, "bo"));
        assert!(is_doubtful(&leases, 3) && !is_doubtful(&leases, 2));
        tick();
        assert!(leases.note_renewals(&[(2, 1), (3, 1)], &[2, 3], RenewalTime::now()).is_empty());
        assert!(!is_doubtful(&leases, 3));
        assert!(leases.0.lock().lost.is_empty());
    }

    #[test]
    fn a_lease_does_not_replace_a_newer_one() {
        let leases = HeldLeases::default();
        let [first, second] = [1, 2].map(|generation| Job { generation, ..job(1, "ann") });
        assert!(leases.insert(&second, RenewalTime::now()));
        assert!(!leases.insert(&first, RenewalTime::now()));
        assert_eq!((leases.age(1, 1), leases.age(1, 2).is_some()), (None, true));
        leases.remove(1, 2);
        assert!(leases.insert(&first, RenewalTime::now()) && leases.insert(&second, RenewalTime::now()));
        assert_eq!((leases.age(1, 1), leases.age(1, 2).is_some()), (None, true));
    }

    #[test]
    fn an_earlier_job_that_comes_to_a_lane_late_puts_later_ones_in_doubt() {
        let leases = holding(&[job(2, "ann"), job(5, "ann"), job(6, "bo")]);
        leases.doubt_later_than([job(4, "ann"), job(7, "ann"), job(7, "bo")].iter());
        assert!(!is_doubtful(&leases, 2) && is_doubtful(&leases, 5) && !is_doubtful(&leases, 6));
        tick();
        assert!(leases.note_renewals(&[(5, 1)], &[5], RenewalTime::now()).is_empty());
        assert!(is_doubtful(&leases, 5), "a renewal does not change what is before it in the lane");
        leases.note_first(5, 1, RenewalTime::now());
        assert!(!is_doubtful(&leases, 5));
    }
}
