//! Conformance tests of the pull log. Each case takes an empty ledger.

use std::sync::Arc;

use feedline::ledger::{DueEntries, JobId, Ledger, LedgerError, PullLogEntry};
use feedline::model::{Entry, GoneReason, PostId};

use crate::support::{NOW, conformance, follow, id, ids, names, publish, unfollow, users};

conformance! {
    log_positions_grow_and_are_unique_for_a_job
    due_entries_are_those_of_followees_since_the_cursor
    followers_are_filtered_from_candidates
    old_entries_are_removed_and_positions_continue
}

type Any = Arc<dyn Ledger>;

fn post(number: u64) -> Entry {
    Entry::Post(PostId(number))
}

async fn pull(ledger: &dyn Ledger, job: u64, author: &str, entry: &Entry) -> u64 {
    ledger.pull(JobId(job), &id(author), entry, false, NOW).await.expect("a mark")
}

async fn due(ledger: &dyn Ledger, reader: &str, mark: u64, limit: usize) -> DueEntries {
    ledger.pulled_for(&id(reader), mark, limit).await.expect("what is due")
}

async fn log_positions_grow_and_are_unique_for_a_job(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    assert_eq!(ledger.pulled_top().await.unwrap(), 0);
    let first = pull(&*ledger, 7, "ann", &post(10)).await;
    let second = pull(&*ledger, 5, "bo", &Entry::Edited(PostId(9))).await;
    assert!(0 < first && first < second);
    let again = ledger.pull(JobId(7), &id("ann"), &post(10), true, NOW + 5).await.unwrap();
    assert_eq!(again, first, "the same job once more");
    let gone = Entry::Gone(PostId(10), GoneReason::Deleted);
    let third = ledger.pull(JobId(8), &id("ann"), &gone, true, NOW + 9).await.unwrap();
    assert_eq!(ledger.pulled_top().await.unwrap(), third);
    let entry = |mark, author, entry, repeated, at| PullLogEntry {
        mark,
        author: id(author),
        topics: None,
        entry,
        repeated,
        at,
    };
    let all = [
        entry(first, "ann", post(10), false, NOW),
        entry(second, "bo", Entry::Edited(PostId(9)), false, NOW),
        entry(third, "ann", gone, true, NOW + 9),
    ];
    assert_eq!(ledger.pulled_after(0, 9).await.unwrap(), all);
    assert_eq!(ledger.pulled_after(first, 1).await.unwrap(), all[1..2]);
    assert_eq!(ledger.pulled_after(third, 9).await.unwrap(), []);
    let data = Entry::Data(bytes::Bytes::from_static(b"\"data\":1"));
    assert!(matches!(ledger.pull(JobId(9), &id("ann"), &data, false, NOW).await, Err(LedgerError::Failed(_))));
}

async fn due_entries_are_those_of_followees_since_the_cursor(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy", "dee"]).await;
    for author in ["bo", "cy"] {
        follow(&*ledger, &id("ann"), &id(author)).await;
    }
    let nothing = DueEntries { entries: vec![], mark: 0, more: false };
    assert_eq!(due(&*ledger, "ann", 0, 5).await, nothing);
    let mut marks = Vec::new();
    for (job, author) in (1_u64..).zip(["bo", "dee", "cy", "bo", "dee", "ann"]) {
        marks.push(pull(&*ledger, job, author, &post(job)).await);
    }
    let top = marks[5];
    let all = DueEntries { entries: vec![post(1), post(3), post(4)], mark: top, more: false };
    assert_eq!(due(&*ledger, "ann", 0, 5).await, all);
    assert_eq!(due(&*ledger, "ann", marks[0], 5).await.entries, [post(3), post(4)]);
    assert_eq!(due(&*ledger, "ann", top, 5).await, DueEntries { entries: vec![], mark: top, more: false });
    assert_eq!(due(&*ledger, "ann", top + 9, 5).await.mark, top + 9, "never back");
    // In parts: each part returns the mark up to which it is complete.
    assert_eq!(
        due(&*ledger, "ann", 0, 2).await,
        DueEntries { entries: vec![post(1), post(3)], mark: marks[2], more: true }
    );
    assert_eq!(due(&*ledger, "ann", marks[2], 2).await, DueEntries { entries: vec![post(4)], mark: top, more: false });
    // A user who follows none of the authors has no due entries and is up to date.
    assert_eq!(due(&*ledger, "cy", 0, 5).await, DueEntries { entries: vec![], mark: top, more: false });
    unfollow(&*ledger, &id("ann"), &id("bo")).await;
    assert_eq!(due(&*ledger, "ann", 0, 5).await.entries, [post(3)]);
}

async fn followers_are_filtered_from_candidates(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy", "dee"]).await;
    assert_eq!(ledger.fanout_mode(&id("nobody")).await.unwrap().followers, 0);
    for follower in ["bo", "dee"] {
        follow(&*ledger, &id(follower), &id("ann")).await;
    }
    follow(&*ledger, &id("ann"), &id("cy")).await;
    let among = async |users: &[&str]| {
        let mut found = ledger.followers_among(&id("ann"), &ids(users)).await.unwrap();
        found.sort_unstable();
        names(&found).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(among(&["ann", "bo", "cy", "dee", "nobody"]).await, ["bo", "dee"]);
    assert_eq!(among(&["cy"]).await, [""; 0]);
    assert_eq!(among(&[]).await, [""; 0]);
    let many: Vec<String> = (0..6_000).map(|n| format!("u{n}")).chain(["dee".to_owned()]).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(among(&many).await, ["dee"]);
    // The fan-out mode of an author: pulled once the log contains an entry of the author.
    let mode = ledger.fanout_mode(&id("ann")).await.unwrap();
    assert_eq!((mode.followers, mode.pulled), (2, false));
    publish(&*ledger, 1, "ann").await;
    pull(&*ledger, 1, "ann", &post(1)).await;
    unfollow(&*ledger, &id("bo"), &id("ann")).await;
    let mode = ledger.fanout_mode(&id("ann")).await.unwrap();
    assert_eq!((mode.followers, mode.pulled), (1, true));
}

async fn old_entries_are_removed_and_positions_continue(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    let mut marks = Vec::new();
    for job in 1..=5_u64 {
        let at = NOW + job;
        marks.push(ledger.pull(JobId(job), &id("ann"), &post(job), false, at).await.unwrap());
    }
    assert_eq!(ledger.forget_pulled(NOW + 4, 2).await.unwrap(), 2);
    assert_eq!(ledger.forget_pulled(NOW + 4, 9).await.unwrap(), 1);
    assert_eq!(ledger.forget_pulled(NOW + 4, 9).await.unwrap(), 0);
    let left: Vec<u64> = ledger.pulled_after(0, 9).await.unwrap().iter().map(|pulled| pulled.mark).collect();
    assert_eq!(left, marks[3..]);
    assert_eq!(ledger.forget_pulled(NOW + 99, 9).await.unwrap(), 2);
    assert!(pull(&*ledger, 6, "ann", &post(6)).await > marks[4], "a mark is never given out twice");
}
