//! Inboxes: opening, filling, fan-out, merging and purging.

use std::time::Duration;

use feedline::broker::{
    Attempt, BrokerError, FanOut, FannedOut, InboxOptions, InboxState, JobAttempt, PageRecipients, Receipt,
};
use feedline::model::{Entry, GoneReason, InboxId, ListId, Position, PostId, UserId};

use crate::engine::{Engine, Heard, LENGTH, PATIENCE, data, ids, inbox_options, post, posts, timeline, to, user};

fn gone(id: u64, reason: GoneReason) -> Entry {
    Entry::Gone(PostId(id), reason)
}

fn edited(id: u64) -> Entry {
    Entry::Edited(PostId(id))
}

pub(crate) async fn absent_inboxes_take_no_entries(engine: Engine) {
    let ann = user("ann");
    assert_eq!(engine.fan(&ann, post(1)).await, Receipt::Absent);
    assert_eq!(engine.broker.merge_inbox(&timeline(&ann), &ids(&[1]), PostId::ZERO).await.unwrap(), 0);
    assert_eq!(engine.broker.purge_inbox(&timeline(&ann), &ids(&[1]), GoneReason::Hidden).await.unwrap(), 0);
    assert_eq!(engine.fill(&ann, &"other".into(), &[1], 0).await, None);
    assert_eq!(engine.broker.read_inbox(&timeline(&ann)).await.unwrap(), None);
}

pub(crate) async fn inboxes_are_filled_once(engine: Engine) {
    let ann = user("ann");
    let epoch = engine.open_unfilled(&ann).await;
    assert_eq!(engine.open_unfilled(&ann).await, epoch, "reopening keeps the epoch");
    assert_eq!(engine.broker.read_inbox(&timeline(&ann)).await.unwrap(), None);
    assert_eq!(engine.broker.position("timeline:ann").await.unwrap(), None);
    assert_eq!(engine.fill(&ann, &"other".into(), &[1], 0).await, None);

    let filled = engine.fill(&ann, &epoch, &[3, 5, 8], 2).await.unwrap();
    assert_eq!(filled, Position { offset: 3, epoch: epoch.clone() });
    assert_eq!(engine.fill(&ann, &epoch, &[1, 2, 9], 0).await.unwrap(), filled);
    assert_eq!(engine.broker.open_inbox(&timeline(&ann)).await.unwrap(), InboxState::Ready(filled.clone(), 0));
    let inbox = engine.broker.read_inbox(&timeline(&ann)).await.unwrap().unwrap();
    assert_eq!((inbox.top, inbox.floor), (filled.clone(), PostId(2)));
    assert_eq!(inbox.entries, [(1, post(3)), (2, post(5)), (3, post(8))]);
    assert_eq!(engine.broker.positions(&["timeline:ann".into()]).await.unwrap(), [Some(filled)]);

    // A backfill without posts: the inbox exists and can be read.
    let bo = user("bo");
    let empty = engine.open(&bo).await;
    assert_eq!(empty.offset, 0);
    let inbox = engine.broker.read_inbox(&timeline(&bo)).await.unwrap().unwrap();
    assert_eq!((inbox.top, inbox.floor, inbox.entries), (empty.clone(), PostId(0), vec![]));
    assert_eq!(engine.broker.open_inbox(&timeline(&bo)).await.unwrap(), InboxState::Ready(empty, 0));
}

pub(crate) async fn posts_fanned_out_during_a_fill_appear_once(engine: Engine) {
    let ann = user("ann");
    let epoch = engine.open_unfilled(&ann).await;
    for id in [6, 7] {
        assert!(matches!(engine.fan(&ann, post(id)).await, Receipt::Written(_)));
        assert_eq!(engine.fan(&ann, post(id)).await, Receipt::Unchanged);
    }
    // 6 was in the ledger when the backfill was read, 7 was not; 8 is fanned out only later.
    let top = engine.fill(&ann, &epoch, &[4, 5, 6, 8], 0).await.unwrap();
    assert_eq!(engine.fan(&ann, post(8)).await, Receipt::Unchanged);
    assert_eq!(engine.fan(&ann, post(4)).await, Receipt::Unchanged);
    assert_eq!(engine.fan(&ann, post(9)).await, Receipt::Written(0));
    // Created before 8 and stored after the backfill was read.
    assert_eq!(engine.fan(&ann, post(3)).await, Receipt::Written(0));
    let inbox = engine.broker.read_inbox(&timeline(&ann)).await.unwrap().unwrap();
    let entries: Vec<_> = inbox.entries.iter().map(|(_, entry)| entry.clone()).collect();
    assert_eq!(entries, posts(&[4, 5, 8, 6, 7, 9, 3]));
    // Offsets 1 and 2 were already assigned during the fill.
    let offsets: Vec<_> = inbox.entries.iter().map(|(offset, _)| *offset).collect();
    assert_eq!(offsets, (3..=9).collect::<Vec<_>>());
    assert_eq!((top.offset, inbox.top.offset), (7, 9));
}

pub(crate) async fn posts_removed_during_a_fill_stay_removed(engine: Engine) {
    let ann = user("ann");
    let epoch = engine.open_unfilled(&ann).await;
    assert_eq!(engine.fan(&ann, gone(4, GoneReason::Deleted)).await, Receipt::Written(0));
    assert_eq!(engine.broker.purge_inbox(&timeline(&ann), &ids(&[5]), GoneReason::Unfollowed).await.unwrap(), 1);
    assert_eq!(engine.fan(&ann, edited(6)).await, Receipt::Unchanged);
    engine.fill(&ann, &epoch, &[4, 5, 6], 0).await.unwrap();
    let expected = [post(6), gone(4, GoneReason::Deleted), gone(5, GoneReason::Unfollowed)];
    assert_eq!(engine.entries(&ann).await, expected);
    assert_eq!(engine.fan(&ann, post(4)).await, Receipt::Unchanged);
    assert_eq!(engine.broker.merge_inbox(&timeline(&ann), &ids(&[4, 5]), PostId::ZERO).await.unwrap(), 1);
}

pub(crate) async fn posts_reach_an_inbox_once(engine: Engine) {
    let ann = user("ann");
    engine.open_with(&ann, &[10, 20, 30]).await;
    for id in [10, 20, 30] {
        assert_eq!(engine.fan(&ann, post(id)).await, Receipt::Unchanged);
    }
    assert_eq!(engine.fan(&ann, post(25)).await, Receipt::Written(0));
    assert_eq!(engine.broker.merge_inbox(&timeline(&ann), &ids(&[15, 40]), PostId::ZERO).await.unwrap(), 2);
    for id in [15, 25, 40] {
        assert_eq!(engine.fan(&ann, post(id)).await, Receipt::Unchanged, "{id}");
    }
    assert_eq!(engine.fan(&ann, post(35)).await, Receipt::Written(0));
    assert_eq!(engine.fan(&ann, post(50)).await, Receipt::Written(0));
    assert_eq!(engine.broker.merge_inbox(&timeline(&ann), &ids(&[35, 50]), PostId::ZERO).await.unwrap(), 0);
    assert_eq!(engine.entries(&ann).await, posts(&[10, 20, 30, 25, 15, 40, 35, 50]));
}

pub(crate) async fn posts_return_unless_deleted(engine: Engine) {
    let ann = user("ann");
    engine.open_with(&ann, &[1, 2, 3]).await;
    let reasons = [GoneReason::Deleted, GoneReason::Unfollowed, GoneReason::Hidden];
    for (id, reason) in [1, 2, 3].into_iter().zip(reasons) {
        assert_eq!(engine.fan(&ann, gone(id, reason)).await, Receipt::Written(0));
    }
    assert_eq!(engine.fan(&ann, post(1)).await, Receipt::Unchanged);
    assert_eq!(engine.fan(&ann, post(2)).await, Receipt::Written(0));
    assert_eq!(engine.broker.merge_inbox(&timeline(&ann), &ids(&[1, 2, 3]), PostId::ZERO).await.unwrap(), 1);
    assert_eq!(engine.entries(&ann).await[6..], posts(&[2, 3]));
}

pub(crate) async fn edits_and_removals_reach_every_inbox_of_the_post(mut engine: Engine) {
    let ann = user("ann");
    let epoch = engine.open_unfilled(&ann).await;
    assert_eq!(engine.fan(&ann, edited(6)).await, Receipt::Unchanged, "the backfill is read after the edit");
    engine.fill(&ann, &epoch, &[3, 4], 2).await.unwrap();
    engine.broker.subscribe("timeline:ann").await.unwrap();
    let removed = GoneReason::Deleted;
    let written = [edited(3), edited(3), edited(7), gone(7, removed), gone(3, removed), edited(2), gone(1, removed)];
    for entry in written.clone() {
        assert_eq!(engine.fan(&ann, entry).await, Receipt::Written(1));
    }
    assert_eq!(engine.entries(&ann).await, [&posts(&[3, 4])[..], &written].concat());
    assert_eq!(engine.all_pushes().await.len(), written.len());
}

/// An edit may reach an inbox before the merge that adds the post.
pub(crate) async fn edits_do_not_reveal_membership(engine: Engine) {
    let ann = user("ann");
    engine.open_with(&ann, &[10]).await;
    for id in [5, 6, 7] {
        assert_eq!(engine.fan(&ann, edited(id)).await, Receipt::Written(0));
    }
    assert_eq!(engine.broker.purge_inbox(&timeline(&ann), &ids(&[5]), GoneReason::Hidden).await.unwrap(), 0);
    assert_eq!(engine.broker.merge_inbox(&timeline(&ann), &ids(&[5]), PostId::ZERO).await.unwrap(), 1);
    assert_eq!(engine.fan(&ann, post(6)).await, Receipt::Written(0));
    let epoch = engine.broker.read_inbox(&timeline(&ann)).await.unwrap().unwrap().top.epoch;
    let caught_up = engine.broker.catch_up_inbox(&timeline(&ann), &epoch, &[edited(7), post(7)], 1).await.unwrap();
    assert_eq!(caught_up.expect("the inbox exists").1, 1);
    assert_eq!(engine.entries(&ann).await[4..], posts(&[5, 6, 7]));
    assert_eq!(engine.broker.merge_inbox(&timeline(&ann), &ids(&[5, 6, 7]), PostId::ZERO).await.unwrap(), 0);
}

/// Edits use up entries, but readers still find all posts above the floor, and the floor says where to continue.
pub(crate) async fn many_edits_keep_the_post(engine: Engine) {
    let ann = user("ann");
    engine.open_with(&ann, &(1..=40).collect::<Vec<_>>()).await;
    for n in 0..4 * LENGTH {
        assert_eq!(engine.fan(&ann, edited(40)).await, Receipt::Written(0), "{n}");
        let inbox = engine.broker.read_inbox(&timeline(&ann)).await.unwrap().unwrap();
        assert!(inbox.entries.len() as u64 <= LENGTH + 200);
        for id in inbox.floor.0 + 1..=40 {
            assert!(inbox.entries.iter().any(|(_, entry)| *entry == post(id)), "{id} is above the floor and not there");
        }
    }
    assert_eq!(engine.fan(&ann, post(41)).await, Receipt::Written(0));
    assert_eq!(engine.fan(&ann, edited(41)).await, Receipt::Written(0));
}

/// The cost of an edit or a removal is that of a post and does not depend on the depth of the post.
#[tokio::test]
async fn edits_and_removals_do_not_scan_inboxes_in_redis() {
    let mut engine = Engine::redis().await;
    let users: Vec<_> = (0..20).map(|n| user(&format!("u{n}"))).collect();
    for user in &users {
        engine.open_with(user, &(1..=LENGTH).collect::<Vec<_>>()).await;
    }
    engine.server().ask("CONFIG RESETSTAT");
    for (n, entry) in [edited(3), gone(3, GoneReason::Deleted), gone(4, GoneReason::Hidden)].into_iter().enumerate() {
        let attempt = engine.attempt(1 + n as u64);
        let page = FanOut {
            attempt: &attempt,
            page: &PageRecipients::Users(0),
            entry: &entry,
            author: &user("author"),
            users: &users,
            created_at: 0,
        };
        let written = FannedOut::Written(vec![Receipt::Written(0); users.len()]);
        assert_eq!(engine.broker.fan_out(page).await.unwrap(), written);
        for user in &users {
            let mark = 1 + n as u64;
            assert_eq!(crate::pulled::pull(&engine, user, mark, &entry, Attempt::First).await, Receipt::Written(0));
        }
    }
    let commands = engine.server().ask_all("INFO commandstats");
    assert!(commands.contains("cmdstat_xadd:calls=120,"), "{commands}");
    assert!(!commands.contains("cmdstat_xrevrange") && !commands.contains("cmdstat_xrange"), "{commands}");
}

fn range(after: &str, to: &str) -> PageRecipients {
    PageRecipients::Range { after: after.to_owned(), to: to.to_owned() }
}

pub(crate) async fn later_attempts_skip_completed_pages(mut engine: Engine) {
    let users = ["ann", "bo", "cy"].map(user);
    engine.open(&users[0]).await;
    engine.open_with(&users[2], &[7]).await;
    engine.broker.subscribe("timeline:ann").await.unwrap();
    let first = engine.attempt(1);
    let fan = async |attempt: &JobAttempt, page: &PageRecipients, users: &[UserId]| {
        let page = FanOut { attempt, page, entry: &post(7), author: &user("author"), users, created_at: 0 };
        engine.broker.fan_out(page).await.unwrap()
    };
    let receipts = vec![Receipt::Written(1), Receipt::Absent, Receipt::Unchanged];
    assert_eq!(fan(&first, &range("", "cy"), &users).await, FannedOut::Written(receipts));
    assert_eq!(fan(&first, &PageRecipients::Users(0), &users[1..2]).await, FannedOut::Written(vec![Receipt::Absent]));
    assert_eq!(fan(&first, &PageRecipients::Users(1), &[]).await, FannedOut::Written(vec![]));

    let second = JobAttempt { generation: 2, ..first.clone() };
    let progress = engine.broker.begin_attempt(&second).await.unwrap().expect("the latest attempt");
    assert_eq!((&progress.ranges[..], progress.own), (&[(String::new(), "cy".to_owned())][..], false));
    assert_eq!(progress.users.iter().collect::<Vec<_>>(), [&users[1]]);
    assert!(users.iter().all(|user| progress.covers(user)) && !progress.covers(&user("cyd")));
    assert!(
        progress.covers_author(&user("zoe")) && progress.advance("") == Some("cy") && progress.advance("cy").is_none()
    );
    // All later pages of the first attempt are refused, and so is a retry of it.
    assert_eq!(fan(&first, &range("cy", "zoe"), &users[..1]).await, FannedOut::Fenced);
    assert_eq!(engine.broker.begin_attempt(&JobAttempt { retry: 7, ..first.clone() }).await.unwrap(), None);
    assert_eq!(fan(&second, &PageRecipients::Own, &users[1..2]).await, FannedOut::Written(vec![Receipt::Absent]));
    // A retry of the same generation starts over after an error: pages still in flight are refused.
    let again = JobAttempt { retry: 1, ..second.clone() };
    let progress = engine.broker.begin_attempt(&again).await.unwrap().expect("the latest attempt");
    assert!(progress.own && progress.users.len() == 1);
    assert_eq!(fan(&second, &range("cy", "zoe"), &users[..1]).await, FannedOut::Fenced);
    // A finished job is remembered for some time, so that pages in flight are refused.
    engine.broker.retire_job(&again).await.unwrap();
    assert_eq!(fan(&second, &range("cy", "zoe"), &users[..1]).await, FannedOut::Fenced);
    assert_eq!(engine.entries(&users[0]).await, posts(&[7]));
    assert_eq!(engine.all_pushes().await.len(), 1);
    // Another job, which the broker does not know.
    assert!(engine.broker.begin_attempt(&engine.attempt(2)).await.unwrap().expect("the latest attempt").is_empty());
}

/// A restored ledger reuses job numbers.
pub(crate) async fn attempts_are_scoped_to_a_ledger_incarnation(engine: Engine) {
    engine.broker.use_incarnation("first");
    let users = [user("ann")];
    let fan = async |attempt: &JobAttempt| {
        let page = FanOut {
            attempt,
            page: &range("", "ann"),
            entry: &post(7),
            author: &user("author"),
            users: &users,
            created_at: 0,
        };
        engine.broker.fan_out(page).await.unwrap()
    };
    let before = JobAttempt { generation: 5, ..engine.attempt(1) };
    assert_eq!(fan(&before).await, FannedOut::Written(vec![Receipt::Absent]));

    engine.broker.use_incarnation("second");
    assert_eq!(fan(&JobAttempt { generation: 6, ..before }).await, FannedOut::Fenced);
    let after = JobAttempt { generation: 2, ..engine.attempt(1) };
    assert!(
        engine
            .broker
            .begin_attempt(&after)
            .await
            .unwrap()
            .expect("the first attempt under this ledger identity")
            .is_empty()
    );
    assert_eq!(fan(&after).await, FannedOut::Written(vec![Receipt::Absent]));
}

/// If only fan-out has written to an inbox since a job was created, the job writes without a search.
pub(crate) async fn inboxes_are_scanned_only_after_other_writes(engine: Engine) {
    let users = ["ann", "bo"].map(user);
    for user in &users {
        engine.open_with(user, &[5, 9]).await;
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
    let fan = async |job: u64, id: u64, created_at: u64| {
        let (attempt, entry) = (engine.attempt(job), post(id));
        let page = FanOut {
            attempt: &attempt,
            page: &PageRecipients::Users(0),
            entry: &entry,
            author: &user("author"),
            users: &users,
            created_at,
        };
        engine.broker.fan_out(page).await.unwrap()
    };
    let both = |receipt| FannedOut::Written(vec![receipt; 2]);
    // The backfill was stored a moment ago; clocks may differ by that much.
    assert_eq!(fan(1, 5, now).await, both(Receipt::Unchanged));
    assert_eq!(fan(2, 6, now).await, both(Receipt::Written(0)));
    // As if the backfill had been stored long ago.
    let later = now + 3_600_000;
    assert_eq!(fan(3, 5, later).await, both(Receipt::Written(0)), "no search is needed");
    for user in &users {
        assert_eq!(engine.entries(user).await, posts(&[5, 9, 6, 5]));
    }
}

pub(crate) async fn merged_posts_are_added_once_and_pushed(mut engine: Engine) {
    let ann = user("ann");
    let epoch = engine.open_unfilled(&ann).await;
    engine.fill(&ann, &epoch, &[20, 30], 10).await.unwrap();
    engine.broker.subscribe("timeline:ann").await.unwrap();
    assert_eq!(engine.broker.merge_inbox(&timeline(&ann), &ids(&[5, 10, 15, 20, 25]), PostId::ZERO).await.unwrap(), 2);
    assert_eq!(engine.broker.merge_inbox(&timeline(&ann), &ids(&[15, 25]), PostId::ZERO).await.unwrap(), 0);
    assert_eq!(engine.broker.merge_inbox(&timeline(&ann), &[], PostId::ZERO).await.unwrap(), 0);
    assert_eq!(engine.entries(&ann).await, posts(&[20, 30, 15, 25]));
    let at = |offset| Some(Position { offset, epoch: epoch.clone() });
    let channel = || "timeline:ann".to_owned();
    let expected = [Heard::Entry(channel(), at(3), post(15)), Heard::Entry(channel(), at(4), post(25))];
    assert_eq!(engine.all_pushes().await, expected);
}

pub(crate) async fn purged_posts_are_removed_and_pushed(mut engine: Engine) {
    let ann = user("ann");
    engine.open_with(&ann, &[1, 2, 3]).await;
    engine.broker.subscribe("timeline:ann").await.unwrap();
    let purged = ids(&[1, 3, 9]);
    assert_eq!(engine.broker.purge_inbox(&timeline(&ann), &purged, GoneReason::Unfollowed).await.unwrap(), 2);
    assert_eq!(engine.broker.purge_inbox(&timeline(&ann), &purged, GoneReason::Hidden).await.unwrap(), 0);
    let expected = [1, 3].map(|id| gone(id, GoneReason::Unfollowed));
    assert_eq!(engine.entries(&ann).await[3..], expected);
    let heard = engine.all_pushes().await.into_iter().map(|heard| match heard {
        Heard::Entry(_, Some(_), entry) => entry,
        other => panic!("{other:?}"),
    });
    assert_eq!(heard.collect::<Vec<_>>(), expected);
}

/// A regression test: one engine trimmed in cases in which the other did nothing. The agreement test found it.
pub(crate) async fn empty_changes_leave_oversized_inboxes_unchanged(engine: Engine) {
    let ann = user("ann");
    engine.open_with(&ann, &[]).await;
    // Up to the length at which trimming is due, but not to an offset at which a write trims anyway.
    for id in 1..=99 {
        engine.fan(&ann, post(id)).await;
    }
    let more: Vec<u64> = (100..=LENGTH + 98).collect();
    engine.broker.merge_inbox(&timeline(&ann), &ids(&more), PostId::ZERO).await.unwrap();
    engine.fan(&ann, post(1_000)).await;
    engine.fan(&ann, post(1_001)).await;
    let before = engine.entries(&ann).await;
    assert_eq!(before.len() as u64, LENGTH + 100);
    assert_eq!(engine.broker.purge_inbox(&timeline(&ann), &[], GoneReason::Hidden).await.unwrap(), 0);
    assert_eq!(engine.broker.merge_inbox(&timeline(&ann), &[], PostId::ZERO).await.unwrap(), 0);
    assert_eq!(engine.entries(&ann).await, before);
}

/// The log contains every post above the floor that was ever inserted, in any order of insertion. The floor is the id
/// of a dropped post.
pub(crate) async fn inboxes_are_bounded_and_report_what_they_drop(engine: Engine) {
    let ann = user("ann");
    engine.open_with(&ann, &(1..=40).map(|id| id * 10).collect::<Vec<_>>()).await;
    let mut put: Vec<u64> = (1..=40).map(|id| id * 10).collect();
    for round in 0..12_u64 {
        let newest = 1_000 * (round + 1);
        for id in (0..30).map(|at| newest + (at * 7) % 30) {
            assert_eq!(engine.fan(&ann, post(id)).await, Receipt::Written(0));
            put.push(id);
        }
        let floor = engine.broker.read_inbox(&timeline(&ann)).await.unwrap().unwrap().floor.0;
        let old: Vec<u64> = (1..=20).map(|at| newest / 2 + at * 3 + 1).filter(|id| !put.contains(id)).collect();
        let merged = engine.broker.merge_inbox(&timeline(&ann), &ids(&old), PostId::ZERO).await.unwrap();
        assert_eq!(merged, old.iter().filter(|id| **id > floor).count() as u64);
        put.extend(old.iter().filter(|id| **id > floor));

        let inbox = engine.broker.read_inbox(&timeline(&ann)).await.unwrap().unwrap();
        let length = engine.length() as usize;
        assert!(inbox.entries.len() < length + 200 && inbox.entries.len() >= length, "{}", inbox.entries.len());
        assert_eq!(inbox.entries.last().unwrap().0, inbox.top.offset);
        let received: Vec<u64> = inbox.entries.iter().filter_map(|(_, entry)| entry.post()).map(|id| id.0).collect();
        for id in put.iter().filter(|id| **id > inbox.floor.0) {
            assert!(received.contains(id), "{id} is above the floor {:?} and not there", inbox.floor);
        }
        assert!(inbox.floor.0 == 0 || (put.contains(&inbox.floor.0) && !received.contains(&inbox.floor.0)));
    }
    let inbox = engine.broker.read_inbox(&timeline(&ann)).await.unwrap().unwrap();
    assert!(inbox.floor.0 > 0, "nothing was ever dropped: the test proves nothing");
    // Posts at or below the floor are not written to the inbox any more.
    assert_eq!(engine.fan(&ann, post(inbox.floor.0)).await, Receipt::Unchanged);
    // A backfill longer than the inbox is trimmed as well.
    let bo = user("bo");
    let past: Vec<u64> = (1..=LENGTH + 150).collect();
    engine.open_with(&bo, &past).await;
    let inbox = engine.broker.read_inbox(&timeline(&bo)).await.unwrap().unwrap();
    assert_eq!((inbox.floor, inbox.entries.len() as u64), (PostId(150), LENGTH));
}

pub(crate) async fn idle_inboxes_expire(engine: Engine) {
    let idle = Duration::from_millis(300);
    let engine = engine.with_inboxes(InboxOptions { idle, ..inbox_options() }).await;
    let (ann, bo) = (user("ann"), user("bo"));
    engine.open_with(&bo, &[1, 2, 3]).await;
    assert_eq!(engine.entries(&bo).await, posts(&[1, 2, 3]));
    let first = engine.open(&ann).await;
    let gone = async {
        while engine.fan(&ann, post(1)).await != Receipt::Absent {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("it expires in spite of regular writes");
    assert_eq!(engine.broker.read_inbox(&timeline(&ann)).await.unwrap(), None);
    assert_ne!(engine.open(&ann).await.epoch, first.epoch);
    // The other log existed first. Entries read from it are not mistaken for part of the log that now has its offsets.
    engine.open_with(&bo, &[4, 5, 6, 7]).await;
    assert_eq!(engine.entries(&bo).await, posts(&[4, 5, 6, 7]));
}

/// Those of lists have no followers, only merges.
pub(crate) async fn idle_inboxes_of_lists_expire(engine: Engine) {
    let idle = Duration::from_millis(300);
    let engine = engine.with_inboxes(InboxOptions { idle, ..inbox_options() }).await;
    let list = InboxId::List(ListId(1));
    let open = async || match engine.broker.open_inbox(&list).await.unwrap() {
        InboxState::Unfilled(epoch) => epoch,
        InboxState::Ready(..) => panic!("the inbox is already filled"),
    };
    let first = open().await;
    engine.broker.fill_inbox(&list, &first, &ids(&[1]), PostId::ZERO, 0).await.unwrap().expect("an inbox");
    let gone = async {
        for post in 2.. {
            if engine.broker.merge_inbox(&list, &ids(&[post]), PostId::ZERO).await.unwrap() == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("it expires in spite of regular writes");
    assert_eq!(engine.broker.read_inbox(&list).await.unwrap(), None);
    assert_ne!(open().await, first);
}

pub(crate) async fn concurrent_opens_create_one_inbox(engine: Engine) {
    let ann = user("ann");
    let opened = futures::future::join_all((0..20).map(async |_| {
        let epoch = match engine.broker.open_inbox(&timeline(&ann)).await.unwrap() {
            InboxState::Unfilled(epoch) => epoch,
            InboxState::Ready(position, _) => return position,
        };
        engine.fill(&ann, &epoch, &[1, 2, 3], 0).await.unwrap()
    }));
    let opened = opened.await;
    assert!(opened.iter().all(|position| *position == opened[0]), "{opened:?}");
    assert_eq!(engine.entries(&ann).await, posts(&[1, 2, 3]));
}

pub(crate) async fn invalid_data_is_rejected(engine: Engine) {
    let ann = user("ann");
    engine.open(&ann).await;
    let entry = data("1");
    let users = std::slice::from_ref(&ann);
    let attempt = engine.attempt(1);
    let page = FanOut {
        attempt: &attempt,
        page: &PageRecipients::Users(0),
        entry: &entry,
        author: &user("author"),
        users,
        created_at: 0,
    };
    assert!(matches!(engine.broker.fan_out(page).await, Err(BrokerError::Failed(_))));
    let append = feedline::broker::Append { channel: "timeline:ann", ..to(&entry) };
    assert!(matches!(engine.broker.append(append).await, Err(BrokerError::Failed(_))));
    assert_eq!(engine.entries(&ann).await, []);
}
