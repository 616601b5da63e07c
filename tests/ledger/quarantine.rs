//! Items that cannot be decoded or always fail are quarantined and do not block later items.

use std::sync::Arc;

use feedline::ledger::{
    ERASURE, EVENT, EventConsumer, FailedWork, Fault, Fence, JOB, JobId, LIKE, Ledger, LikeBatch, MAX_QUARANTINED,
    PUSH, Quarantined, RetryOutcome, RevertReason, Reverted, SettledLikes, Thread, VisibilityChange, Work, like_name,
    quarantine_dropped, unreadable_rows,
};
use feedline::model::{
    Comment, CommentId, ContentId, DomainEvent, Entry, LikeChange, NotificationKind, PostId, Visibility,
};

use crate::support::{self, NOW, conformance, edit, fence_of, id, load_all, own_all, post, publish, users};

conformance! {
    quarantined_jobs_wait_for_release
    released_visibility_changes_use_the_current_visibility
    quarantine_entries_are_unique_and_bounded
    skipped_likes_are_reverted_and_the_partition_continues
    quarantined_events_return_to_their_consumer
    quarantined_erasures_wait_for_a_retry
    likes_are_retried_on_request
    items_are_listed_page_by_page_and_dropped
    the_oldest_items_are_dropped_and_counted
}

type Any = Arc<dyn Ledger>;

async fn quarantined(ledger: &dyn Ledger) -> Vec<(String, String)> {
    let all = ledger.quarantined(None, 0, 99).await.expect("a list");
    assert_eq!(ledger.quarantine_size().await.expect("a number"), all.len() as u64);
    all.into_iter().map(|entry| (entry.kind, entry.name)).collect()
}

async fn quarantined_jobs_wait_for_release(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    let former = own_all(&*ledger, "w1").await;
    let job = publish(&*ledger, 1, "ann").await;
    ledger.end_work_lease("w1").await.unwrap();
    let owned = own_all(&*ledger, "w2").await;
    let set_aside = async |owned: &[Fence], why: &str, at| {
        ledger
            .set_aside(FailedWork::Job(job.id, fence_of(owned, &job)), &Fault { reason: why.into(), attempts: 5, at })
            .await
            .unwrap()
    };
    assert!(!set_aside(&former, "why", NOW).await, "not its owner");
    assert!(set_aside(&owned, "why", NOW).await);
    assert!(!set_aside(&owned, "why", NOW).await, "it is not a job any more");
    let entry = ledger.quarantined(None, 0, 9).await.unwrap().pop().expect("an entry");
    let expected = (JOB, job.id.to_string(), "why", NOW);
    assert_eq!((entry.kind.as_str(), entry.name, entry.reason.as_str(), entry.at), expected);
    assert_eq!(load_all(&*ledger, &owned).await, []);

    assert_eq!(retry(&*ledger, JOB, &job.id.to_string()).await, RetryOutcome::Returned);
    assert_eq!(retry(&*ledger, JOB, &job.id.to_string()).await, RetryOutcome::Absent, "once");
    assert_eq!(quarantined(&*ledger).await, []);
    let back = load_all(&*ledger, &owned).await.pop().expect("the job").job;
    assert_eq!(back, Ok(job.clone()));
    // A released job may be quarantined again.
    assert!(set_aside(&owned, "again", NOW + 1).await);
    assert_eq!(ledger.quarantined(Some(JOB), 0, 9).await.unwrap()[0].reason, "again");
}

async fn released_visibility_changes_use_the_current_visibility(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    let owned = own_all(&*ledger, "w1").await;
    publish(&*ledger, 1, "ann").await;
    let narrowed = post(1, "ann", &[]);
    let narrowed = feedline::model::Post { visibility: Visibility::Followers, edited_at: Some(NOW + 5), ..narrowed };
    let jobs = edit(&*ledger, &narrowed).await;
    let change = VisibilityChange { before: Visibility::Public, after: Visibility::Followers };
    let narrow = |change| Work::RevokeVisibility { post: PostId(1), author: id("ann"), change };
    let job = jobs.iter().find(|job| job.work == narrow(Some(change.clone()))).expect("a job");
    assert!(ledger.set_aside(FailedWork::Job(job.id, fence_of(&owned, job)), &fault()).await.unwrap());
    assert_eq!(retry(&*ledger, JOB, &job.id.to_string()).await, RetryOutcome::Returned);
    let back = load_all(&*ledger, &owned).await.into_iter().find(|loaded| loaded.id == job.id).expect("the job");
    assert_eq!(back.job.map(|job| job.work), Ok(narrow(None)));
}

async fn quarantine_entries_are_unique_and_bounded(ledger: Any) {
    let entry =
        |number: usize| Quarantined::new(LIKE, format!("0/a/{number}-0"), "\0 nonsense".into(), Fault::now("why", 1));
    for _ in 0..2 {
        ledger.quarantine(&[entry(0)]).await.unwrap();
    }
    ledger.quarantine(&[Quarantined::new(PUSH, "7".into(), String::new(), Fault::now("why", 5))]).await.unwrap();
    let kept = ledger.quarantined(None, 0, 9).await.unwrap();
    assert_eq!(kept.iter().map(|entry| entry.kind.as_str()).collect::<Vec<_>>(), [LIKE, PUSH]);
    assert!(kept[0].content.ends_with(" nonsense"), "{kept:?}");
    assert_eq!(retry(&*ledger, JOB, "7").await, RetryOutcome::Absent, "it is no job");
    assert_eq!((kept[1].attempts, kept[1].is_retried), (5, false));
}

async fn skipped_likes_are_reverted_and_the_partition_continues(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    publish(&*ledger, 1, "ann").await;
    let like = LikeChange { user: id("bo"), object: ContentId::Post(PostId(1)), liked: true, at: NOW };
    let item = |place: &str| Quarantined::new(LIKE, like_name(3, place), "+ p1 1 bo".into(), fault());
    let mut skipped = LikeBatch {
        partition: 3,
        to: "life 7-0".into(),
        failed: Some(like),
        quarantined: vec![item("life 7-0")],
        now: NOW,
        ..LikeBatch::default()
    };
    let reverted = ledger.settle_likes(skipped.clone()).await.unwrap().expect("it stood there").reverted;
    let user = id("bo");
    let expected = Reverted { user: user.clone(), object: ContentId::Post(PostId(1)), reason: RevertReason::Failed };
    assert_eq!(reverted, std::slice::from_ref(&expected));
    let event = DomainEvent::LikeReverted { user, object: expected.object, reason: expected.reason };
    let waiting = async || ledger.pending_events(EventConsumer::Notifications, 9).await.unwrap();
    assert_eq!(waiting().await.into_iter().map(|waiting| waiting.event).collect::<Vec<_>>(), [Ok(event)]);
    assert_eq!(ledger.like_position(3).await.unwrap(), "life 7-0");
    assert_eq!(quarantined(&*ledger).await, [(LIKE.into(), "3/life/7-0".into())]);
    assert_eq!(ledger.settle_likes(skipped.clone()).await.unwrap(), None, "once");
    skipped = LikeBatch { from: "life 7-0".into(), to: "life 8-0".into(), failed: None, ..skipped };
    skipped.quarantined = vec![item("life 8-0")];
    let settled = ledger.settle_likes(skipped).await.unwrap();
    assert_eq!(settled, Some(SettledLikes::default()), "it was none");
    assert_eq!(ledger.like_position(3).await.unwrap(), "life 8-0");
    assert_eq!((waiting().await.len(), ledger.quarantine_size().await.unwrap()), (1, 2));
}

async fn retry(ledger: &dyn Ledger, kind: &str, name: &str) -> RetryOutcome {
    ledger.retry_quarantined(kind, name, NOW).await.expect("an answer")
}

fn fault() -> Fault {
    Fault { reason: "why \0".into(), attempts: 5, at: NOW }
}

async fn quarantined_events_return_to_their_consumer(ledger: Any) {
    const CONSUMER: EventConsumer = EventConsumer::Notifications;
    users(&*ledger, &["ann", "bo", "cy"]).await;
    support::follow(&*ledger, &id("bo"), &id("ann")).await;
    support::follow(&*ledger, &id("cy"), &id("ann")).await;
    let waiting = ledger.pending_events(CONSUMER, 9).await.unwrap();
    let name = format!("notifications/{}", waiting[0].seq);
    let set_aside = async |consumer, place: usize| {
        ledger.set_aside(FailedWork::Event(consumer, waiting[place].seq), &fault()).await.unwrap()
    };
    assert!(set_aside(CONSUMER, 0).await && !set_aside(CONSUMER, 0).await);
    assert!(!set_aside(EventConsumer::Likes, 1).await);
    assert_eq!(ledger.pending_events(CONSUMER, 9).await.unwrap(), waiting[1..]);
    assert_eq!(quarantined(&*ledger).await, [(EVENT.into(), name.clone())], "the other consumer did not want it");
    let item = ledger.quarantined_item(EVENT, &name).await.unwrap().expect("an item");
    assert!(item.reason.starts_with("why") && (item.attempts, item.at) == (5, NOW), "{item:?}");
    assert!(item.content.contains("Bo"), "{item:?}");
    assert_eq!(retry(&*ledger, EVENT, &name).await, RetryOutcome::Returned);
    assert_eq!(ledger.pending_events(CONSUMER, 9).await.unwrap(), waiting, "with its number and its time");
    assert_eq!(quarantined(&*ledger).await, []);
}

async fn quarantined_erasures_wait_for_a_retry(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let owned = own_all(&*ledger, "w1").await.remove(0);
    let former = Fence { generation: 0, ..owned.clone() };
    assert!(ledger.begin_erasure(&id("ann"), NOW).await.unwrap());
    assert!(ledger.begin_erasure(&id("bo"), NOW).await.unwrap());
    let later = NOW + 1_000_000_000_000;
    for left in [1, 0] {
        let erasure = ledger.due_erasures(NOW, 9).await.unwrap().remove(0);
        let set_aside =
            async |fence: &Fence| ledger.set_aside(FailedWork::Erasure(&erasure.user, fence), &fault()).await.unwrap();
        assert!(!set_aside(&former).await);
        assert_eq!(ledger.due_erasures(later, 9).await.unwrap().len(), left + 1, "not its owner");
        assert!(set_aside(&owned).await && !set_aside(&owned).await);
        assert_eq!(ledger.due_erasures(later, 9).await.unwrap().len(), left);
    }
    assert_eq!(ledger.quarantined(Some(ERASURE), 0, 9).await.unwrap().len(), 2);
    assert!(ledger.users(&[id("ann")]).await.unwrap().is_empty(), "the user stays erased");
    assert_eq!(retry(&*ledger, ERASURE, "ann").await, RetryOutcome::Returned);
    assert!(ledger.drop_quarantined(ERASURE, "bo").await.unwrap());
    let due = ledger.due_erasures(later, 9).await.unwrap();
    assert_eq!(due.into_iter().map(|erasure| erasure.user).collect::<Vec<_>>(), [id("ann")]);
    assert_eq!(quarantined(&*ledger).await, []);
}

async fn likes_are_retried_on_request(ledger: Any) {
    let item = |kind: &str, name: &str| Quarantined::new(kind, name.into(), "+ p1 1 bo".into(), fault());
    ledger.quarantine(&[item(LIKE, "0/a/1-0"), item(LIKE, "0/a/2-0"), item(LIKE, "7")]).await.unwrap();
    assert_eq!(ledger.requested_retries(9).await.unwrap(), []);
    assert_eq!(retry(&*ledger, LIKE, "0/a/2-0").await, RetryOutcome::Requested);
    assert_eq!(retry(&*ledger, LIKE, "7").await, RetryOutcome::Requested);
    assert_eq!(retry(&*ledger, LIKE, "8").await, RetryOutcome::Absent);
    let requested = ledger.requested_retries(9).await.unwrap();
    let requested: Vec<_> = requested.iter().map(|item| (item.kind.as_str(), &*item.name, item.is_retried)).collect();
    assert_eq!(requested, [(LIKE, "0/a/2-0", true), (LIKE, "7", true)]);
    assert_eq!(ledger.quarantine_size().await.unwrap(), 3, "it stays until a node has it");
    ledger.refuse_retry(LIKE, "0/a/2-0", "unknown").await.unwrap();
    assert_eq!(ledger.requested_retries(9).await.unwrap().len(), 1);
    assert_eq!(ledger.quarantined_item(LIKE, "0/a/2-0").await.unwrap().expect("it stays").reason, "unknown");
    assert!(ledger.drop_quarantined(LIKE, "7").await.unwrap());
    assert_eq!(ledger.requested_retries(9).await.unwrap(), []);
}

async fn items_are_listed_page_by_page_and_dropped(ledger: Any) {
    let item = |number: usize| {
        let kind = if number.is_multiple_of(2) { LIKE } else { PUSH };
        Quarantined::new(kind, number.to_string(), String::new(), fault())
    };
    ledger.quarantine(&(0..5).map(item).collect::<Vec<_>>()).await.unwrap();
    let (mut names, mut after) = (Vec::new(), 0);
    while let Some(last) = {
        let page = ledger.quarantined(None, after, 2).await.unwrap();
        names.extend(page.iter().map(|item| item.name.clone()));
        page.last().map(|item| item.id)
    } {
        after = last;
    }
    assert_eq!(names, ["0", "1", "2", "3", "4"]);
    let of_kind = ledger.quarantined(Some(PUSH), 0, 9).await.unwrap();
    assert_eq!(of_kind.iter().map(|item| item.name.as_str()).collect::<Vec<_>>(), ["1", "3"]);
    assert!(ledger.drop_quarantined(PUSH, "3").await.unwrap());
    assert!(!ledger.drop_quarantined(PUSH, "3").await.unwrap(), "once");
    assert!(!ledger.drop_quarantined(PUSH, "4").await.unwrap(), "it is a like");
    assert_eq!(ledger.quarantined_item(PUSH, "3").await.unwrap(), None);
    assert_eq!(ledger.quarantine_size().await.unwrap(), 4);
}

async fn the_oldest_items_are_dropped_and_counted(ledger: Any) {
    let most = usize::try_from(MAX_QUARANTINED).unwrap();
    let item = |kind: &str, number: usize| Quarantined::new(kind, number.to_string(), String::new(), fault());
    ledger.quarantine(&[item(PUSH, 0)]).await.unwrap();
    let before = quarantine_dropped();
    ledger.quarantine(&(0..most + 2).map(|number| item(LIKE, number)).collect::<Vec<_>>()).await.unwrap();
    assert_eq!(ledger.quarantine_size().await.unwrap(), MAX_QUARANTINED + 1, "each kind has its own bound");
    assert_eq!(ledger.quarantined(Some(LIKE), 0, 1).await.unwrap()[0].name, "2");
    assert!(quarantine_dropped() >= before + 2);
}

/// Statements that damage rows, with placeholders for the names and values that differ between the databases.
const DAMAGE: [&str; 5] = [
    "UPDATE posts SET body = '{}' WHERE id = 2",
    "UPDATE jobs SET work = '{\"what\":{}}' WHERE id = 2",
    "UPDATE pulled SET kind = '?' WHERE post = 2",
    "UPDATE comments SET mentions = '%MENTIONS%' WHERE id = 12",
    "UPDATE notifications SET kind = '?' WHERE id = 2",
];

async fn damaged_rows_are_omitted(ledger: &dyn Ledger, damage: impl AsyncFn(&str)) {
    users(ledger, &["ann", "bo", "fan"]).await;
    support::follow(ledger, &id("fan"), &id("ann")).await;
    // The follow created a job, too.
    let mut jobs = vec![JobId(0)];
    for number in 1..=4 {
        let job = publish(ledger, number, "ann").await;
        let entry = Entry::Post(PostId(number));
        ledger.pull(job.id, &id("ann"), &entry, false, NOW).await.unwrap();
        jobs.push(job.id);
        let comment = Comment {
            id: CommentId(10 + number),
            post: PostId(1),
            reply_to: None,
            author: Some(id("bo")),
            text: Some("a comment".into()),
            mentions: vec![id("ann")],
            created_at: 0,
            likes: 0,
            replies: 0,
            edited_at: None,
            liked: None,
            filtered: Vec::new(),
            removed: None,
        };
        ledger.create_comment(&comment).await.unwrap();
        let what = NotificationKind::Like(ContentId::Post(PostId(number)));
        let happening =
            feedline::ledger::NotificationEvent { kind: what, by: id("bo"), event: 0, comment: None, content: None };
        ledger.notify(&id("ann"), &[happening], NOW, 1_000).await.unwrap();
    }
    let before = unreadable_rows();
    for sql in DAMAGE {
        damage(&sql.replace(
            "jobs SET work = '{\"what\":{}}' WHERE id = 2",
            &format!("jobs SET work = '{{\"what\":{{}}}}' WHERE id = {}", jobs[2]),
        ))
        .await;
    }
    assert_eq!(ledger.posts(&[1, 2, 3].map(PostId)).await.expect("the others").len(), 2);
    // Pages have the requested length despite omitted rows: callers take a short page for the last one.
    let thread = Thread { post: PostId(1), reply_to: None };
    let comments = ledger.comments_in(thread, CommentId::MAX, 3).await.expect("the others");
    assert_eq!(comments.iter().map(|comment| comment.id.0).collect::<Vec<_>>(), [14, 13, 12]);
    assert_eq!(comments[2].mentions, [], "it can do without them");
    assert_eq!(comments[1].mentions, [id("ann")]);
    let groups = ledger.notifications(&id("ann"), None, 3).await.expect("the others");
    assert_eq!(groups.iter().map(|group| group.id.0).collect::<Vec<_>>(), [4, 3, 1]);

    let log = ledger.pulled_after(0, 3).await.expect("the others");
    let posts = |entries: &[Entry]| entries.iter().filter_map(Entry::post).map(|post| post.0).collect::<Vec<_>>();
    assert_eq!(posts(&log.iter().map(|pulled| pulled.entry.clone()).collect::<Vec<_>>()), [1, 3, 4]);
    let due = ledger.pulled_for(&id("fan"), 0, 2).await.expect("the others");
    assert_eq!((posts(&due.entries), due.mark < log[1].mark, due.more), (vec![1], true, true));
    let due = ledger.pulled_for(&id("fan"), due.mark, 9).await.expect("the others");
    assert_eq!((posts(&due.entries), due.mark, due.more), (vec![3, 4], log[2].mark, false));

    let owned = own_all(ledger, "w1").await;
    let loaded = load_all(ledger, &owned).await;
    let unreadable: Vec<JobId> = loaded.iter().filter(|job| job.job.is_err()).map(|job| job.id).collect();
    assert_eq!((loaded.len(), unreadable), (5, vec![jobs[2]]));
    assert!(unreadable_rows() >= before + 4);
}

#[tokio::test]
async fn undecodable_rows_are_omitted_on_sqlite() {
    let (ledger, folder) = support::sqlite().await;
    let file = rusqlite::Connection::open(folder.path().join("ledger.db")).expect("the file");
    let damage =
        async |sql: &str| file.execute_batch(&sql.replace("%USER%", "user").replace("%MENTIONS%", "{}")).expect(sql);
    damaged_rows_are_omitted(&*ledger, damage).await;
}

#[tokio::test]
async fn undecodable_rows_are_omitted_on_postgres() {
    let (server, database) = support::database().await;
    let ledger = support::open_at(server, &database).await;
    let damage =
        async |sql: &str| server.ask(&database, &sql.replace("%USER%", "owner").replace("%MENTIONS%", "{\"!\"}")).await;
    damaged_rows_are_omitted(&*ledger, damage).await;
    ledger.close().await;
}
