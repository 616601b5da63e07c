//! Jobs: their leases, and the order of the jobs of one author.

use std::sync::Arc;
use std::time::Duration;

use feedline::ledger::{Backlog, Finished, Job, Ledger, MAX_JOBS_OF_AUTHOR};

use crate::support::{LEASE, NOW, conformance, id, lease, post, publish, users};

conformance! {
    jobs_have_one_holder_until_the_lease_expires
    leases_are_renewed_and_released_together
    expired_leases_are_lost
    jobs_of_an_author_run_in_order
    jobs_without_a_lease_wait_for_a_claim
    one_node_at_a_time_holds_the_jobs_of_an_author
    prolific_authors_do_not_delay_others
}

type Any = Arc<dyn Ledger>;

/// Waits until a lease of this many milliseconds that begins now has expired.
async fn run_out(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis + 20)).await;
}

fn numbers(jobs: &[Job]) -> Vec<(i64, u64)> {
    jobs.iter().map(|job| (job.id, job.generation)).collect()
}

async fn jobs_have_one_holder_until_the_lease_expires(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    assert_eq!(ledger.backlog().await.unwrap(), Backlog::default());
    let mut first = publish(&*ledger, 1, "ann").await;
    let mut second = publish(&*ledger, 2, "ann").await;
    assert_eq!((first.generation, second.generation), (1, 1), "the maker holds them");
    assert_eq!(ledger.backlog().await.unwrap(), Backlog { jobs: 2, oldest: Some(NOW + 1) });
    let claim = async |holder: &str, millis, limit| ledger.claim_jobs(&lease(holder, millis), limit).await.unwrap();
    assert_eq!(claim("w2", LEASE, 9).await, []);
    let waits = async || ledger.has_waiting_jobs().await.unwrap();
    assert!(!waits().await);

    // Leases expire by the ledger's own clock: no call passes the current time.
    assert!(ledger.advance_job(first.id, 1, "fan-500", &lease("w1", 100)).await.unwrap());
    assert!(!ledger.advance_job(first.id, 2, "fan-900", &lease("w2", LEASE)).await.unwrap(), "not its generation");
    assert_eq!(claim("w2", LEASE, 9).await, []);
    run_out(100).await;
    assert!(waits().await);
    (first.cursor, first.generation) = ("fan-500".into(), 2);
    assert_eq!(claim("w1", 100, 9).await, [first.clone()], "the same holder, in another generation");
    assert!(!waits().await);
    assert!(!ledger.advance_job(first.id, 1, "fan-600", &lease("w1", LEASE)).await.unwrap(), "the first one is over");
    assert_eq!(ledger.finish_job(first.id, 1).await.unwrap(), Finished { was_held: false, more: false });
    assert_eq!(ledger.renew_jobs(&[(second.id, 1)], &lease("w1", 0)).await.unwrap(), [second.id]);
    assert!(waits().await, "a released job");
    assert_eq!(ledger.backlog().await.unwrap().jobs, 2);

    run_out(100).await;
    assert_eq!(claim("w4", 100, 1).await, [Job { generation: 3, ..first.clone() }], "oldest first, no more than asked");
    assert!(ledger.advance_job(first.id, 3, "fan-700", &lease("w4", 100)).await.unwrap());
    run_out(100).await;
    (first.generation, second.generation, first.cursor) = (4, 2, "fan-700".into());
    assert_eq!(claim("w5", LEASE, 9).await, [first.clone(), second.clone()]);
    let carries = async |author: &str, before| ledger.carries_posts(&id(author), before).await.unwrap();
    assert!(carries("ann", second.id).await && !carries("bo", second.id).await && !carries("ann", first.id).await);
    let done = Finished { was_held: true, more: false };
    assert_eq!(ledger.finish_job(first.id, 4).await.unwrap(), done);
    assert!(!carries("ann", second.id).await, "the older one is done");
    assert_eq!(ledger.finish_job(second.id, 2).await.unwrap(), done);
    assert_eq!(ledger.backlog().await.unwrap(), Backlog::default());
    assert!(!ledger.advance_job(first.id, 4, "x", &lease("w5", LEASE)).await.unwrap());
    let third = publish(&*ledger, 3, "ann").await;
    assert!(third.id > second.id, "ids are not given out twice");
}

async fn leases_are_renewed_and_released_together(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let (first, second, lost) =
        (publish(&*ledger, 1, "ann").await, publish(&*ledger, 2, "ann").await, publish(&*ledger, 3, "bo").await);
    let renew = async |jobs: &[(i64, u64)], millis| {
        let mut held = ledger.renew_jobs(jobs, &lease("w1", millis)).await.unwrap();
        held.sort_unstable();
        held
    };
    let all = [(first.id, 1), (second.id, 1), (lost.id, 2), (i64::MAX, 1)];
    assert_eq!(
        renew(&all, LEASE).await,
        [first.id, second.id],
        "those of another generation, and finished ones, are lost"
    );
    assert_eq!(renew(&[], LEASE).await, [0; 0]);
    assert_eq!(ledger.claim_jobs(&lease("w2", LEASE), 9).await.unwrap(), []);
    assert_eq!(renew(&all[..2], 0).await, [first.id, second.id]);
    let claimed = ledger.claim_jobs(&lease("w2", LEASE), 9).await.unwrap();
    assert_eq!(numbers(&claimed), [(first.id, 2), (second.id, 2)]);
}

async fn expired_leases_are_lost(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let job = ledger.create_post(&post(1, "ann", &[]), &lease("w1", 50)).await.unwrap().expect("a new post");
    let edge = ledger.follow(&id("bo"), &id("ann"), NOW, &lease("w1", 50)).await.unwrap().expect("an edge");
    run_out(50).await;
    assert!(!ledger.advance_job(job.id, 1, "fan-1", &lease("w1", LEASE)).await.unwrap(), "nobody claimed it, yet");
    assert!(!ledger.advance_job(edge.id, 1, "x", &lease("w1", LEASE)).await.unwrap());
    assert_eq!(ledger.renew_jobs(&[(job.id, 1), (edge.id, 1)], &lease("w1", LEASE)).await.unwrap(), [0; 0]);
    let claimed = ledger.claim_jobs(&lease("w1", LEASE), 9).await.unwrap();
    assert_eq!(numbers(&claimed), [(job.id, 2), (edge.id, 2)]);
    assert_eq!(claimed[0].cursor, "");
    // Finishing a job requires the current generation only.
    assert!(ledger.finish_job(edge.id, 2).await.unwrap().was_held);
}

async fn jobs_of_an_author_run_in_order(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let first = ledger.create_post(&post(1, "ann", &[]), &lease("w1", 200)).await.unwrap().expect("a new post");
    let edge = ledger.follow(&id("bo"), &id("ann"), NOW, &lease("w1", LEASE)).await.unwrap().expect("an edge");
    let (second, third) = (publish(&*ledger, 2, "ann").await, publish(&*ledger, 3, "ann").await);
    let other = publish(&*ledger, 4, "bo").await;
    assert!(second.is_held() && third.is_held() && other.is_held());
    let advance = async |job: &Job, generation, holder: &str| {
        ledger.advance_job(job.id, generation, "", &lease(holder, LEASE)).await.unwrap()
    };
    assert!(!advance(&second, 1, "w1").await, "the first is not done");
    assert!(advance(&edge, 1, "w1").await && advance(&other, 1, "w1").await, "these have no order");
    // Only the lease of the first job expires, but the holder loses all of ann's ordered jobs.
    run_out(200).await;
    assert_eq!(ledger.claim_jobs(&lease("w2", LEASE), 9).await.unwrap(), [], "w1 holds some of ann's");
    let all = [(first.id, 1), (edge.id, 1), (second.id, 1), (third.id, 1), (other.id, 1)];
    let mut renewed = ledger.renew_jobs(&all, &lease("w1", LEASE)).await.unwrap();
    renewed.sort_unstable();
    assert_eq!(renewed, [edge.id, other.id]);
    assert!(!advance(&second, 1, "w1").await);
    assert_eq!(ledger.renew_jobs(&all[2..3], &lease("w1", 0)).await.unwrap(), [second.id], "released all the same");
    assert_eq!(ledger.renew_jobs(&all[3..4], &lease("w1", 0)).await.unwrap(), [third.id]);
    // Another node claims some of the jobs, one after the other. The former holder cannot renew the rest.
    let claim = async |limit| numbers(&ledger.claim_jobs(&lease("w2", LEASE), limit).await.unwrap());
    assert_eq!(claim(1).await, [(first.id, 2)]);
    assert_eq!(ledger.renew_jobs(&all[2..4], &lease("w1", LEASE)).await.unwrap(), [0; 0]);
    assert_eq!(claim(1).await, [(second.id, 2)]);
    assert!(advance(&first, 2, "w2").await && !advance(&second, 2, "w2").await);
    assert!(ledger.finish_job(first.id, 2).await.unwrap().was_held);
    assert!(advance(&second, 2, "w2").await && !advance(&third, 1, "w1").await);
}

async fn jobs_without_a_lease_wait_for_a_claim(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let waits = ledger.create_post(&post(1, "ann", &[]), &lease("w1", 0)).await.unwrap().expect("a new post");
    assert!(!waits.is_held() && waits.id > 0);
    // Later jobs of the author wait as well; otherwise they would run first.
    let next = publish(&*ledger, 2, "ann").await;
    let other = publish(&*ledger, 3, "bo").await;
    assert!(!next.is_held() && other.is_held());
    assert!(!ledger.advance_job(next.id, 1, "", &lease("w1", LEASE)).await.unwrap());
    let claimed = ledger.claim_jobs(&lease("w2", LEASE), 1).await.unwrap();
    assert_eq!(claimed, [Job { generation: 1, ..waits.clone() }], "its first lease");
    let claimed = ledger.claim_jobs(&lease("w2", LEASE), 9).await.unwrap();
    assert_eq!(numbers(&claimed), [(next.id, 1)]);
    assert_eq!(ledger.finish_job(waits.id, 1).await.unwrap(), Finished { was_held: true, more: false });
}

async fn one_node_at_a_time_holds_the_jobs_of_an_author(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let first = publish(&*ledger, 1, "ann").await;
    let create = async |number, author: &str, holder: &str| {
        let made = ledger.create_post(&post(number, author, &[]), &lease(holder, LEASE)).await.unwrap();
        made.expect("a new post")
    };
    let second = create(2, "ann", "w2").await;
    assert!(!second.is_held(), "another node holds the first");
    assert!(create(3, "bo", "w2").await.is_held());
    assert!(!publish(&*ledger, 4, "ann").await.is_held(), "it comes after one that waits");
    // A follow job compares the inbox with the ledger when it runs, so its order does not matter.
    let edge = ledger.follow(&id("bo"), &id("ann"), NOW, &lease("w2", LEASE)).await.unwrap().expect("an edge");
    assert!(edge.is_held());
    assert_eq!(ledger.claim_jobs(&lease("w2", LEASE), 9).await.unwrap(), [], "the first is not done");
    assert_eq!(ledger.finish_job(first.id, 1).await.unwrap(), Finished { was_held: true, more: true });
    let claimed = ledger.claim_jobs(&lease("w3", LEASE), 1).await.unwrap();
    assert_eq!(numbers(&claimed), [(second.id, 1)]);
    assert_eq!(ledger.claim_jobs(&lease("w2", LEASE), 9).await.unwrap(), [], "w3 holds an earlier one");
    assert_eq!(ledger.claim_jobs(&lease("w3", LEASE), 9).await.unwrap().len(), 1);
    assert!(create(5, "ann", "w3").await.is_held(), "all of ann's are with w3");
}

async fn prolific_authors_do_not_delay_others(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy"]).await;
    let waits = async |number: u64, author: &str| {
        let created = ledger.create_post(&post(number, author, &[]), &lease("w0", 0)).await.unwrap();
        created.expect("a new post").id
    };
    let mut of_ann = Vec::new();
    for number in 1..=20 {
        of_ann.push(waits(number, "ann").await);
    }
    let (of_bo, of_cy) = (waits(21, "bo").await, waits(22, "cy").await);
    let claim = async |holder: &str, limit| {
        let jobs = ledger.claim_jobs(&lease(holder, LEASE), limit).await.unwrap();
        jobs.iter().map(|job| (job.id, job.generation)).collect::<Vec<_>>()
    };
    let ids = |jobs: &[(i64, u64)]| jobs.iter().map(|job| job.0).collect::<Vec<_>>();
    let first = claim("w1", 9).await;
    assert_eq!(ids(&first), [&of_ann[..MAX_JOBS_OF_AUTHOR], &[of_bo]].concat());
    assert_eq!(ids(&claim("w1", 9).await), [of_cy], "no more of ann's while so many are held");
    assert_eq!(claim("w2", 9).await, [], "nor by another node");
    let (old, unknown) = ((first[0].0, first[0].1 + 1), (of_cy + 1, 1));
    let finished = ledger.finish_jobs(&[old, first[0], first[1], first[8], unknown, first[2]]).await.unwrap();
    let outcomes: Vec<_> = finished.iter().map(|finished| (finished.was_held, finished.more)).collect();
    let (gone, last, none) = ((true, true), (true, false), (false, false));
    assert_eq!(outcomes, [none, gone, gone, last, none, gone], "more of ann's wait, none of bo's");
    assert_eq!(ledger.finish_jobs(&[]).await.unwrap(), []);
    assert_eq!(ids(&claim("w1", 9).await), of_ann[MAX_JOBS_OF_AUTHOR..MAX_JOBS_OF_AUTHOR + 3], "as many as were done");
}
