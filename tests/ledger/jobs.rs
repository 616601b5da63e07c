//! Jobs, and the owners of their partitions.

use std::sync::Arc;
use std::time::Duration;

use feedline::ledger::{Backlog, FailedWork, Fault, Fence, JobId, JobRequest, Ledger, LoadedJob, WorkView};

use crate::support::{NOW, backlog, conformance, fence_of, id, load_all, own_all, post, publish, users, work_lease};

conformance! {
    partitions_have_one_owner_until_the_lease_expires
    a_lost_ownership_changes_nothing
    partitions_are_given_back
    partitions_are_counted_for_processes_with_a_lease
    jobs_name_the_job_before_them
    jobs_are_loaded_in_order_without_skipped_authors
}

type Any = Arc<dyn Ledger>;

/// Waits until a lease of this many milliseconds that begins now has expired.
async fn run_out(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis + 20)).await;
}

fn fence(name: &str, generation: u64) -> Fence {
    Fence { partition: name.into(), generation }
}

fn owners(view: &WorkView) -> Vec<(&str, Option<&str>, u64)> {
    let mut rows: Vec<_> =
        view.partitions.iter().map(|row| (row.name.as_str(), row.owner.as_deref(), row.generation)).collect();
    rows.sort_unstable();
    rows
}

fn numbers(jobs: &[LoadedJob]) -> Vec<JobId> {
    jobs.iter().map(|job| job.id).collect()
}

async fn partitions_have_one_owner_until_the_lease_expires(ledger: Any) {
    let renew = async |holder: &str, millis| ledger.renew_work_lease(&work_lease(holder, millis)).await.unwrap();
    let take =
        async |holder: &str, name: &str, last| ledger.take_partitions(holder, &[fence(name, last)]).await.unwrap();
    assert_eq!(take("w1", "a", 0).await, [], "it has no lease");
    let view = renew("w1", 60_000).await;
    assert_eq!((view.nodes, view.partitions), (vec![vec!["fanout".to_owned()]], Vec::new()));
    assert_eq!(take("w1", "a", 0).await, [fence("a", 1)]);
    assert_eq!(take("w1", "a", 1).await, [], "somebody owns it");
    let view = renew("w2", 2_000).await;
    assert_eq!((view.nodes.len(), owners(&view)), (2, vec![("a", Some("w1"), 1)]));
    assert_eq!(take("w2", "a", 1).await, []);
    assert_eq!(take("w2", "b", 0).await, [fence("b", 1)]);
    run_out(2_000).await;
    let view = renew("w1", 60_000).await;
    assert_eq!(owners(&view), [("a", Some("w1"), 1), ("b", None, 1)]);
    assert_eq!(take("w1", "b", 0).await, [], "it was owned since");
    // A lease that has expired is a new one, even if nobody took the partition.
    let view = renew("w2", 60_000).await;
    assert_eq!(owners(&view), [("a", Some("w1"), 1), ("b", None, 1)]);
    assert_eq!(take("w2", "b", 1).await, [fence("b", 2)]);
    assert_eq!(owners(&renew("w2", 60_000).await), [("a", Some("w1"), 1), ("b", Some("w2"), 2)]);
}

async fn a_lost_ownership_changes_nothing(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let former = own_all(&*ledger, "w1").await;
    let job = publish(&*ledger, 1, "ann").await;
    let edge = ledger.follow(&id("bo"), &id("ann"), NOW, 9).await.unwrap().job().expect("an edge").job;
    assert!(ledger.holds_job(job.id, fence_of(&former, &job)).await.unwrap());
    ledger.end_work_lease("w1").await.unwrap();
    let owned = own_all(&*ledger, "w2").await;
    let old = fence_of(&former, &job);
    assert!(!ledger.holds_job(job.id, old).await.unwrap());
    assert_eq!(ledger.finish_jobs(&[(job.id, old.clone())]).await.unwrap(), []);
    assert!(!ledger.set_aside(FailedWork::Job(job.id, old), &Fault::now("why", 1)).await.unwrap());
    assert_eq!(load_all(&*ledger, &former).await, []);
    let loaded = load_all(&*ledger, &owned).await;
    assert_eq!(numbers(&loaded), [job.id, edge.id]);
    assert_eq!(backlog(&*ledger).await, Backlog { jobs: 2, oldest: Some(NOW) });
    let mine = fence_of(&owned, &job);
    let all = [(job.id, old.clone()), (edge.id, mine.clone()), (JobId(9_999), mine.clone())];
    assert_eq!(ledger.finish_jobs(&all).await.unwrap(), [edge.id]);
    ledger.remove_job(job.id, &[]).await.unwrap();
    assert!(!ledger.holds_job(job.id, mine).await.unwrap(), "it is finished");
    assert_eq!(backlog(&*ledger).await, Backlog::default());
    assert!(publish(&*ledger, 3, "ann").await.id > edge.id, "numbers are not given out twice");
}

async fn partitions_are_given_back(ledger: Any) {
    let owned = own_all(&*ledger, "w1").await;
    let (given, kept) = (owned[0].clone(), owned[1].clone());
    let stale = Fence { generation: 7, ..kept.clone() };
    ledger.release_partitions("w2", std::slice::from_ref(&kept)).await.unwrap();
    ledger.release_partitions("w1", &[given.clone(), stale]).await.unwrap();
    ledger.renew_work_lease(&work_lease("w2", 60_000)).await.unwrap();
    let taken = ledger.take_partitions("w2", &[given.clone(), kept]).await.unwrap();
    assert_eq!(taken, [Fence { generation: 2, ..given }]);
    ledger.end_work_lease("w1").await.unwrap();
    ledger.end_work_lease("nobody").await.unwrap();
    ledger.renew_work_lease(&work_lease("w3", 60_000)).await.unwrap();
    ledger.end_other_work_leases("w2").await.unwrap();
    let view = ledger.renew_work_lease(&work_lease("w2", 60_000)).await.unwrap();
    assert_eq!(view.nodes.len(), 1);
    assert_eq!(view.partitions.iter().filter(|row| row.owner.is_some()).count(), 1);
}

async fn partitions_are_counted_for_processes_with_a_lease(ledger: Any) {
    let owned = async || ledger.owned_partitions().await.expect("an answer").into_iter().collect::<Vec<_>>();
    assert_eq!(owned().await, []);
    ledger.renew_work_lease(&work_lease("w1", 60_000)).await.unwrap();
    ledger.renew_work_lease(&work_lease("w2", 1_000)).await.unwrap();
    ledger.renew_work_lease(&work_lease("w3", 60_000)).await.unwrap();
    assert_eq!(ledger.take_partitions("w1", &[fence("a", 0), fence("b", 0)]).await.unwrap().len(), 2);
    assert_eq!(ledger.take_partitions("w2", &[fence("c", 0)]).await.unwrap().len(), 1);
    assert_eq!(owned().await, [("w1".to_owned(), 2), ("w2".to_owned(), 1)]);
    run_out(1_000).await;
    assert_eq!(owned().await, [("w1".to_owned(), 2)], "a lease has expired");
}

async fn jobs_name_the_job_before_them(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let new = async |number, author: &str| ledger.create_post(&post(number, author, &[]), None).await.unwrap().unwrap();
    let first = new(1, "ann").await;
    let other = new(2, "bo").await;
    let second = new(3, "ann").await;
    assert_eq!((first.previous, other.previous, second.previous), (None, None, Some(first.job.id)));
    let edge = ledger.follow(&id("bo"), &id("ann"), NOW, 9).await.unwrap().job().expect("an edge");
    assert_eq!(edge.previous, Some(second.job.id), "jobs for one timeline are of the author, too");
    for job in [&first, &second, &edge] {
        ledger.remove_job(job.job.id, &[]).await.unwrap();
    }
    assert_eq!(new(4, "ann").await.previous, None);
    assert_eq!(new(5, "bo").await.previous, Some(other.job.id));
}

async fn jobs_are_loaded_in_order_without_skipped_authors(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let owned = own_all(&*ledger, "w1").await;
    let mut of_ann = Vec::new();
    for number in 1..=5 {
        of_ann.push(publish(&*ledger, number, "ann").await);
    }
    let of_bo = publish(&*ledger, 6, "bo").await;
    let request = |job: &feedline::ledger::Job, limit| JobRequest {
        partition: job.partition(),
        fence: fence_of(&owned, job).clone(),
        limit,
    };
    let three = ledger.load_jobs(&[request(&of_ann[0], 3)], &[]).await.unwrap();
    assert_eq!(numbers(&three), of_ann[..3].iter().map(|job| job.id).collect::<Vec<_>>());
    assert_eq!(three[0].job.as_ref(), Ok(&of_ann[0]));
    let requests = [request(&of_ann[0], 9), request(&of_bo, 9)];
    assert_eq!(numbers(&ledger.load_jobs(&requests, &[id("ann")]).await.unwrap()), [of_bo.id]);
    let some = &[of_ann[0].partition()];
    let expected = Backlog { jobs: 5, oldest: Some(NOW + 1) };
    assert_eq!(ledger.backlog(some).await.unwrap(), expected);
}
