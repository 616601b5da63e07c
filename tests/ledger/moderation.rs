//! Conformance tests of standings, removed posts and comments, and reports. Each case takes an empty ledger.

use std::sync::Arc;

use feedline::ledger::{
    EventConsumer, Ledger, PersonalData, PostOwner, StandingChange, StandingOutcome, Thread, UserStanding, Work,
};
use feedline::model::{
    Comment, CommentId, DomainEvent, PostId, Removal, Report, ReportAction, ReportId, ReportReason, ReportTarget,
    Standing, UserId,
};

use crate::support::{
    NOW, POST, comment, conformance, delete, edit, follow, id, outlet_conformance, post, publish, store, users,
};

mod off {
    use super::*;

    conformance! {
        standings_are_a_log_of_one_entry_a_user
        suspended_authors_with_posts_have_a_job
        posts_are_removed_against_concurrent_edits
        a_removed_post_is_in_no_list_of_others
        comments_move_out_and_back
        a_comment_under_a_removed_one_keeps_it
        reports_are_listed_and_closed
        erasures_remove_standings_and_reports
    }
}

mod on {
    use super::*;

    outlet_conformance! {
        events_of_moderation_are_for_the_outlet
    }
}

type Any = Arc<dyn Ledger>;

fn change(user: &str, standing: Standing, until: Option<u64>) -> StandingChange {
    StandingChange { user: id(user), standing, reason: None, until, at: NOW }
}

async fn set(ledger: &dyn Ledger, change: &StandingChange) -> StandingOutcome {
    ledger.set_standing(change).await.expect("an answer")
}

async fn standings(ledger: &dyn Ledger, after: u64) -> Vec<(u64, UserId, Standing, Option<u64>)> {
    let entries = ledger.standings_after(after, 9).await.expect("entries");
    entries.into_iter().map(|UserStanding { seq, user, standing, until }| (seq, user, standing, until)).collect()
}

async fn standings_are_a_log_of_one_entry_a_user(ledger: Any) {
    use Standing::{Active, Limited, Suspended};
    users(&*ledger, &["ann", "bo"]).await;
    assert_eq!(set(&*ledger, &change("cy", Limited, None)).await, StandingOutcome::NoUser);
    assert_eq!(set(&*ledger, &change("ann", Active, None)).await, StandingOutcome::Unchanged);
    let ann = change("ann", Limited, Some(NOW + 5));
    assert_eq!(set(&*ledger, &ann).await, StandingOutcome::Changed(None));
    assert_eq!(set(&*ledger, &ann).await, StandingOutcome::Unchanged);
    assert_eq!(set(&*ledger, &change("bo", Suspended, None)).await, StandingOutcome::Changed(None), "without posts");
    let all = standings(&*ledger, 0).await;
    assert_eq!(all.iter().map(|it| it.1.as_str()).collect::<Vec<_>>(), ["ann", "bo"]);
    assert_eq!((all[0].2, all[0].3, all[1].2, all[1].3), (Limited, Some(NOW + 5), Suspended, None));
    let reason = StandingChange { reason: Some("a\0b".into()), ..ann };
    assert_eq!(set(&*ledger, &reason).await, StandingOutcome::Changed(None), "another reason");
    assert_eq!(set(&*ledger, &change("ann", Active, None)).await, StandingOutcome::Changed(None));
    let later = standings(&*ledger, all[1].0).await;
    assert_eq!(later.len(), 1, "it moves to the end: {later:?}");
    assert_eq!((later[0].1.as_str(), later[0].2, later[0].3), ("ann", Active, None));
    assert_eq!(standings(&*ledger, 0).await.len(), 2, "one for each user");
}

async fn suspended_authors_with_posts_have_a_job(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    publish(&*ledger, 7, "ann").await;
    publish(&*ledger, 8, "ann").await;
    delete(&*ledger, 8, "ann").await;
    let suspended = set(&*ledger, &change("ann", Standing::Suspended, None)).await;
    let StandingOutcome::Changed(Some(job)) = suspended else { panic!("{suspended:?}") };
    assert_eq!(job.job.work, Work::HideAuthor { post: PostId(7), author: id("ann") });
    assert!(job.previous.is_some(), "after the jobs of the posts");
    assert_eq!(set(&*ledger, &change("ann", Standing::Limited, None)).await, StandingOutcome::Changed(None));
}

async fn posts_are_removed_against_concurrent_edits(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    let before = post(7, "ann", &["t"]);
    store(&*ledger, before.clone()).await.expect("a post");
    let removed = before.removed(Some("spam".into()), NOW);
    assert!(!edit(&*ledger, &removed).await.is_empty());
    assert_eq!(ledger.posts(&[PostId(7)]).await.expect("posts"), std::slice::from_ref(&removed));
    let mut by_author = before.clone();
    by_author.text = "something else".into();
    by_author.edited_at = Some(NOW + 1);
    let conflict = ledger.edit_post(&before, &by_author, None, NOW).await.expect("an answer");
    assert_eq!(conflict, feedline::ledger::EditOutcome::Conflict, "it was read before the removal");
    edit(&*ledger, &removed.restored().expect("it is removed")).await;
    assert_eq!(ledger.posts(&[PostId(7)]).await.expect("posts"), [before]);
}

async fn a_removed_post_is_in_no_list_of_others(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    follow(&*ledger, &id("bo"), &id("ann")).await;
    let before = post(7, "ann", &["t"]);
    store(&*ledger, before.clone()).await.expect("a post");
    let lists = async || {
        let seen = ledger.visible_posts(&id("ann"), Some(&id("bo")), PostId::MAX, 9).await.expect("posts").posts;
        let public = ledger.public_posts(PostId::MAX, 9).await.expect("posts");
        let own = ledger.visible_posts(&id("ann"), Some(&id("ann")), PostId::MAX, 9).await.expect("posts").posts;
        let profile = ledger.profile(&id("ann"), Some(&id("bo")), 0).await.expect("an answer").expect("a profile");
        let topics = ledger.topics(None, 9).await.expect("topics").len();
        (seen, public, own, profile.posts, topics)
    };
    let id_of = vec![PostId(7)];
    let shown = (id_of.clone(), id_of.clone(), id_of.clone(), 1, 1);
    assert_eq!(lists().await, shown);
    edit(&*ledger, &before.removed(None, NOW)).await;
    assert_eq!(lists().await, (vec![], vec![], id_of.clone(), 0, 0));
    let owners = ledger.post_owners(&id_of).await.expect("owners");
    assert_eq!(owners, [PostOwner { post: PostId(7), author: id("ann"), public: false }]);
    edit(&*ledger, &before).await;
    assert_eq!(lists().await, shown);
}

async fn count_of(ledger: &dyn Ledger) -> u64 {
    ledger.counts(&[POST]).await.expect("counts").first().map_or(0, |(_, counts)| counts.comments)
}

async fn comments_move_out_and_back(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    publish(&*ledger, POST.0, "ann").await;
    let mut before = comment(5, "bo", None);
    before.mentions = vec![id("ann")];
    ledger.create_comment(&before).await.expect("a comment");
    let before = ledger.comments(&[before.id]).await.expect("comments");
    let event = DomainEvent::comment_removed(&before[0]);
    let remove = async || ledger.remove_comment(CommentId(5), Some("rude"), event.as_ref(), NOW).await.expect("it");
    let tally = remove().await.expect("it is removed");
    assert_eq!((tally.comments, count_of(&*ledger).await), (0, 0));
    assert_eq!(remove().await, None, "it is removed already");
    assert_eq!(ledger.delete_comment(CommentId(5), None, NOW).await.expect("an answer"), None);
    let thread = Thread { post: POST, reply_to: None };
    let placeholder = Comment { author: None, text: None, mentions: vec![], ..before[0].clone() };
    assert_eq!(ledger.comments_in(thread, CommentId::MAX, 9).await.expect("comments"), [placeholder]);
    assert_eq!(ledger.comments_by(&id("bo"), CommentId::MAX, 9).await.expect("comments"), []);
    let removed = ledger.removed_comments(&[CommentId(5), CommentId(6)]).await.expect("removed");
    let mut expected = before[0].clone();
    expected.removed = Some(Removal { reason: Some("rude".into()), former: None });
    assert_eq!((removed.len(), &removed[0].comment, &removed[0].author), (1, &expected, &id("bo")));
    let rows = ledger.personal_rows(&id("bo"), PersonalData::RemovedComments, "", 9).await.expect("rows");
    assert!(rows.len() == 1 && rows[0].key == "5" && rows[0].json.contains("rude"), "{rows:?}");
    let tally = ledger.restore_comment(CommentId(5)).await.expect("an answer").expect("it was removed");
    assert_eq!((tally.comments, count_of(&*ledger).await), (1, 1));
    assert_eq!(ledger.restore_comment(CommentId(5)).await.expect("an answer"), None);
    assert_eq!(ledger.comments(&[CommentId(5)]).await.expect("comments"), before);
    assert!(ledger.removed_comments(&[CommentId(5)]).await.expect("removed").is_empty());
}

async fn a_comment_under_a_removed_one_keeps_it(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    publish(&*ledger, POST.0, "ann").await;
    for (number, parent) in [(5, None), (6, Some(5))] {
        ledger.create_comment(&comment(number, "bo", parent)).await.expect("a comment");
    }
    ledger.remove_comment(CommentId(5), None, None, NOW).await.expect("an answer").expect("a tally");
    let gone = ledger.delete_comment(CommentId(6), None, NOW).await.expect("an answer").expect("it is deleted");
    assert_eq!(gone.along, [], "the removed comment may be restored");
    ledger.restore_comment(CommentId(5)).await.expect("an answer").expect("a tally");
    let back = ledger.comments(&[CommentId(5)]).await.expect("comments");
    assert_eq!((back[0].author.as_ref(), back[0].replies), (Some(&id("bo")), 0));
}

fn report(reporter: &str, target: ReportTarget, about: &str) -> Report {
    Report {
        id: ReportId(0),
        reporter: id(reporter),
        target,
        about: id(about),
        reason: ReportReason::Spam,
        text: Some("a \0 text".into()),
        created_at: NOW,
        closed_at: None,
        action: None,
    }
}

async fn reports_are_listed_and_closed(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy"]).await;
    let create = async |report: Report| ledger.create_report(&report).await.expect("a report");
    let first = create(report("ann", ReportTarget::User(id("cy")), "cy")).await;
    assert_eq!((&first.reporter, &first.about, first.created_at, first.closed_at), (&id("ann"), &id("cy"), NOW, None));
    let again =
        create(Report { reason: ReportReason::Other, ..report("ann", ReportTarget::User(id("cy")), "cy") }).await;
    assert_eq!(again, first, "the open report stays");
    let second = create(report("bo", ReportTarget::User(id("cy")), "cy")).await;
    let third = create(report("ann", ReportTarget::Post(PostId(7)), "cy")).await;
    assert!(first.id < second.id && second.id < third.id);
    let list = async |open, before, limit| ledger.reports(open, before, limit).await.expect("reports");
    let max = ReportId(u64::MAX);
    assert_eq!(list(true, max, 9).await, [third.clone(), second.clone(), first.clone()]);
    assert_eq!(list(true, third.id, 1).await, std::slice::from_ref(&second));
    let closed = ledger.close_report(second.id, ReportAction::None, NOW + 1).await.expect("an answer");
    let closed = closed.expect("a report");
    assert_eq!((closed.closed_at, closed.action), (Some(NOW + 1), Some(ReportAction::None)));
    let closed = ledger.close_report(second.id, ReportAction::Removed, NOW + 2).await.expect("an answer");
    let closed = closed.expect("a report");
    assert_eq!((closed.closed_at, closed.action), (Some(NOW + 1), Some(ReportAction::Removed)), "the first time stays");
    assert_eq!(list(true, max, 9).await, [third, first.clone()]);
    assert_eq!(list(false, max, 9).await, [closed]);
    let fourth = create(report("bo", ReportTarget::User(id("cy")), "cy")).await;
    assert_ne!(fourth.id, second.id, "a closed one does not count");
    assert_eq!(ledger.close_report(ReportId(99), ReportAction::None, NOW).await.expect("an answer"), None);
    let rows = ledger.personal_rows(&id("ann"), PersonalData::Reports, "", 9).await.expect("rows");
    assert_eq!(rows.len(), 2, "{rows:?}");
    let row: serde_json::Value = serde_json::from_str(&rows[1].json).expect("JSON");
    assert_eq!((&row["kind"], &row["object"], &row["reason"]), (&"post".into(), &"7".into(), &"spam".into()));
    let rest = ledger.personal_rows(&id("ann"), PersonalData::Reports, &rows[0].key, 9).await.expect("rows");
    assert_eq!(rest, rows[1..]);
}

async fn erasures_remove_standings_and_reports(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy"]).await;
    publish(&*ledger, POST.0, "cy").await;
    ledger.create_comment(&comment(5, "ann", None)).await.expect("a comment");
    ledger.remove_comment(CommentId(5), None, None, NOW).await.expect("an answer");
    set(&*ledger, &change("ann", Standing::Suspended, None)).await;
    for (by, about) in [("ann", "bo"), ("bo", "ann"), ("bo", "cy")] {
        ledger.create_report(&report(by, ReportTarget::User(id(about)), about)).await.expect("a report");
    }
    assert!(ledger.begin_erasure(&id("ann"), NOW).await.expect("an answer"));
    assert_eq!(set(&*ledger, &change("ann", Standing::Limited, None)).await, StandingOutcome::NoUser);
    while ledger.erase_rest(&id("ann"), 1).await.expect("an answer") > 0 {}
    let left = ledger.reports(true, ReportId(u64::MAX), 9).await.expect("reports");
    assert_eq!(left.iter().map(|it| it.about.as_str()).collect::<Vec<_>>(), ["cy"]);
    assert_eq!(standings(&*ledger, 0).await, []);
    assert!(ledger.removed_comments(&[CommentId(5)]).await.expect("removed").is_empty());
}

async fn events_of_moderation_are_for_the_outlet(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let until = Some(NOW + 9);
    set(&*ledger, &change("ann", Standing::Suspended, until)).await;
    set(&*ledger, &change("ann", Standing::Active, None)).await;
    let report = ledger.create_report(&report("bo", ReportTarget::User(id("ann")), "ann")).await.expect("a report");
    let events = ledger.pending_events(EventConsumer::Outlet, 9).await.expect("events");
    let events: Vec<DomainEvent> = events.into_iter().map(|queued| queued.event.expect("it is decoded")).collect();
    let reported = DomainEvent::ReportCreated {
        reporter: id("bo"),
        report: report.id,
        target: ReportTarget::User(id("ann")),
        reason: ReportReason::Spam,
    };
    let suspended = DomainEvent::UserSuspended { user: id("ann"), level: Standing::Suspended, until };
    assert_eq!(events, [suspended, reported]);
}
