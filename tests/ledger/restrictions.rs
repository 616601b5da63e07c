//! Hiding, muting, blocking and edits: changes of the visibility of posts.

use std::sync::Arc;

use feedline::ledger::{EdgeWork, EditOutcome, Ledger, NewJob, VisibilityChange, Work};
use feedline::model::{Edges, PostId, Relation, Restriction, UserId, Visibility};

use crate::support::{self, NOW, backlog, conformance, delete, follow, id, ids, post, publish, store, timeline, users};

conformance! {
    restrictions_are_set_and_lifted_once
    restricted_users_are_paged_exactly
    blocks_end_follows_and_reject_new_ones
    lifted_restrictions_restore_followed_posts
    mutes_end_when_they_are_due
    relations_are_returned_in_the_order_of_pairs
    authors_with_restrictions_are_flagged
    merged_timelines_omit_muted_and_hiding_users
    edits_move_posts_between_topics
    edits_compare_and_swap_the_version
    profiles_count_visible_posts
}

type Any = Arc<dyn Ledger>;

async fn restrict(ledger: &dyn Ledger, kind: Restriction, maker: &str, restricted: &str) -> Option<Vec<NewJob>> {
    ledger.restrict(kind, &id(maker), &id(restricted), NOW).await.expect("an answer")
}

async fn unrestrict(ledger: &dyn Ledger, kind: Restriction, maker: &str, restricted: &str) -> Option<Vec<NewJob>> {
    ledger.unrestrict(kind, &id(maker), &id(restricted), NOW).await.expect("an answer")
}

fn work(jobs: Option<Vec<NewJob>>) -> Vec<Work> {
    jobs.expect("jobs").into_iter().map(|new| new.job.work).collect()
}

fn part(reader: &str, author: &str) -> Work {
    Work::Edge { change: EdgeWork::Detach, reader: id(reader), author: id(author) }
}

async fn relation(ledger: &dyn Ledger, reader: &str, author: &str) -> Relation {
    ledger.relations(&[(id(reader), id(author))]).await.expect("relations")[0]
}

async fn restrictions_are_set_and_lifted_once(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let seen = |set: fn(&mut Relation)| {
        let mut relation = Relation::default();
        set(&mut relation);
        relation
    };
    let reposts = Work::Edge { change: EdgeWork::DetachReposts, reader: id("ann"), author: id("bo") };
    let cases: [(Restriction, Vec<Work>, Relation, Relation); 5] = [
        (Restriction::Hide, vec![part("bo", "ann")], Relation::default(), seen(|it| it.hidden = true)),
        (Restriction::Mute, vec![part("ann", "bo")], seen(|it| it.muted = true), Relation::default()),
        (
            Restriction::Block,
            vec![part("ann", "bo"), part("bo", "ann")],
            seen(|it| it.blocks = true),
            seen(|it| it.blocked = true),
        ),
        (Restriction::Reposts, vec![reposts], seen(|it| it.reposts_off = true), Relation::default()),
        (Restriction::Listed, vec![part("ann", "bo")], seen(|it| it.listed = true), Relation::default()),
    ];
    for (barrier, jobs, mine, theirs) in cases {
        assert_eq!(unrestrict(&*ledger, barrier, "ann", "bo").await, None, "{barrier:?} was not there");
        let before = backlog(&*ledger).await.jobs;
        assert_eq!(work(restrict(&*ledger, barrier, "ann", "bo").await), jobs, "{barrier:?}");
        assert_eq!(restrict(&*ledger, barrier, "ann", "bo").await, None, "{barrier:?} was there");
        assert_eq!(backlog(&*ledger).await.jobs, before + jobs.len() as u64, "the jobs are in the ledger");
        assert_eq!(relation(&*ledger, "ann", "bo").await, mine, "{barrier:?}");
        assert_eq!(relation(&*ledger, "bo", "ann").await, theirs, "{barrier:?}");
        let edges = ledger.profile(&id("bo"), Some(&id("ann")), 0).await.unwrap().unwrap().edges;
        let received = [
            (Restriction::Hide, edges.hiding),
            (Restriction::Mute, edges.muting),
            (Restriction::Block, edges.blocking),
            (Restriction::Reposts, edges.reposts_off),
        ];
        assert!(received.iter().all(|(which, is_so)| *is_so == (*which == barrier)), "{barrier:?}: {edges:?}");
        let edges = ledger.profile(&id("ann"), Some(&id("bo")), 0).await.unwrap().unwrap().edges;
        assert_eq!(edges, Edges::default(), "the other does not see {barrier:?}");
        assert!(unrestrict(&*ledger, barrier, "ann", "bo").await.is_some(), "{barrier:?}");
        assert_eq!(relation(&*ledger, "ann", "bo").await, Relation::default());
    }
}

async fn restricted_users_are_paged_exactly(ledger: Any) {
    let others = ["d", "a", "c", "b", "e"];
    users(&*ledger, &["ann", "late"]).await;
    users(&*ledger, &others).await;
    for kind in Restriction::ALL {
        // All but two have the same time.
        for (n, other) in others.iter().enumerate() {
            let at = NOW + u64::from(n == 1) - u64::from(n == 4);
            let made = ledger.restrict(kind, &id("ann"), &id(other), at).await;
            assert!(made.expect("an answer").is_some());
        }
        restrict(&*ledger, kind, "late", "ann").await.expect("it is new");
        let page = async |after: Option<(u64, UserId)>, limit| {
            let after = after.as_ref().map(|(at, user)| (*at, user));
            ledger.restricted(kind, &id("ann"), after, limit).await.expect("a page")
        };
        for limit in [1, 2, 3, 9] {
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let users = page(after.clone(), limit).await;
                assert!(users.len() <= limit);
                let Some(last) = users.last() else { break };
                after = Some((last.at, last.user.id.clone()));
                seen.extend(users.into_iter().map(|listed| listed.user.id.to_string()));
                // A later restriction does not move the others.
                let later = NOW + 9;
                ledger.restrict(kind, &id("ann"), &id("late"), later).await.expect("an answer");
            }
            assert_eq!(seen, ["a", "d", "c", "b", "e"], "{kind:?}, {limit} a page");
            unrestrict(&*ledger, kind, "ann", "late").await.expect("it was there");
        }
        assert!(page(None, 0).await.is_empty());
        unrestrict(&*ledger, kind, "ann", "a").await.expect("it was there");
        assert_eq!(page(None, 1).await[0].user.id, id("d"), "lifted");
    }
}

async fn blocks_end_follows_and_reject_new_ones(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy"]).await;
    for (from, to) in [("ann", "bo"), ("bo", "ann"), ("cy", "ann"), ("ann", "cy")] {
        assert!(follow(&*ledger, &id(from), &id(to)).await);
    }
    restrict(&*ledger, Restriction::Block, "ann", "bo").await.expect("it is new");
    let counts = async |user: &str| {
        let profile = ledger.profile(&id(user), None, 0).await.unwrap().unwrap();
        (profile.followers, profile.following)
    };
    assert_eq!((counts("ann").await, counts("bo").await, counts("cy").await), ((1, 1), (0, 0), (1, 1)));
    assert!(!follow(&*ledger, &id("bo"), &id("ann")).await && !follow(&*ledger, &id("ann"), &id("bo")).await);
    assert_eq!(counts("bo").await, (0, 0), "nothing half done");
    assert_eq!(
        work(unrestrict(&*ledger, Restriction::Block, "ann", "bo").await),
        [],
        "nobody follows: nothing comes back"
    );
    assert!(follow(&*ledger, &id("bo"), &id("ann")).await);
    // Mutes and hides do not prevent follows.
    restrict(&*ledger, Restriction::Hide, "cy", "bo").await.expect("it is new");
    assert!(follow(&*ledger, &id("bo"), &id("cy")).await);
}

async fn mutes_end_when_they_are_due(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy", "di", "ed"]).await;
    assert!(follow(&*ledger, &id("ann"), &id("bo")).await);
    let mute = async |target: &str, until| {
        let jobs = ledger.mute(&id("ann"), &id(target), NOW, until).await.expect("an answer");
        jobs.map(|jobs| work(Some(jobs)))
    };
    let due = async |now, limit| {
        let due = ledger.due_mutes(now, limit).await.expect("a page");
        assert!(due.iter().all(|(maker, _)| *maker == id("ann")));
        due.into_iter().map(|(_, target)| target.to_string()).collect::<Vec<_>>()
    };
    let end = async |target: &str, now| {
        let jobs = ledger.end_due_mute(&id("ann"), &id(target), now).await.expect("an answer");
        jobs.map(|jobs| work(Some(jobs)))
    };
    assert_eq!(mute("bo", Some(NOW + 20)).await, Some(vec![part("ann", "bo")]));
    assert_eq!(mute("cy", Some(NOW + 10)).await, Some(vec![part("ann", "cy")]));
    assert_eq!(mute("di", None).await, Some(vec![part("ann", "di")]));
    restrict(&*ledger, Restriction::Hide, "ann", "ed").await.expect("it is new");
    assert_eq!(due(NOW + 9, 9).await, <[&str; 0]>::default());
    assert_eq!(due(NOW + 10, 9).await, ["cy"]);
    assert_eq!(due(NOW + 99, 9).await, ["cy", "bo"], "the first to end is first; no end is never due");
    assert_eq!(due(NOW + 99, 1).await, ["cy"]);
    // Each mute ends once, and not before its time.
    assert_eq!(end("bo", NOW + 19).await, None);
    assert!(relation(&*ledger, "ann", "bo").await.muted);
    let follows = Work::Edge { change: EdgeWork::Follow, reader: id("ann"), author: id("bo") };
    assert_eq!(end("bo", NOW + 20).await, Some(vec![follows]), "the posts of a followed author come back");
    assert!(!relation(&*ledger, "ann", "bo").await.muted);
    assert_eq!(end("bo", NOW + 20).await, None);
    assert_eq!(end("di", NOW + 99).await, None, "it has no end");
    assert_eq!(end("ed", NOW + 99).await, None, "a hide is not a mute");
    // Muting again replaces the end, and creates no jobs.
    let before = backlog(&*ledger).await.jobs;
    assert_eq!(mute("cy", Some(NOW + 50)).await, None);
    assert_eq!(end("cy", NOW + 49).await, None);
    assert_eq!(due(NOW + 50, 9).await, ["cy"]);
    assert_eq!(mute("cy", None).await, None);
    assert_eq!(due(NOW + 99, 9).await, <[&str; 0]>::default());
    assert_eq!(mute("di", Some(NOW)).await, None);
    assert_eq!(due(NOW, 9).await, ["di"]);
    assert_eq!(backlog(&*ledger).await.jobs, before);
    // A mute without an end is what `restrict` creates, and what it makes of one with an end.
    assert_eq!(restrict(&*ledger, Restriction::Mute, "ann", "di").await, None);
    assert_eq!(due(NOW + 99, 9).await, <[&str; 0]>::default());
    assert!(relation(&*ledger, "ann", "di").await.muted && relation(&*ledger, "ann", "cy").await.muted);
}

async fn lifted_restrictions_restore_followed_posts(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    for follows in [false, true] {
        if follows {
            follow(&*ledger, &id("ann"), &id("bo")).await;
        }
        let back = Work::Edge { change: EdgeWork::Follow, reader: id("ann"), author: id("bo") };
        let expected: &[Work] = if follows { &[back] } else { &[] };
        restrict(&*ledger, Restriction::Mute, "ann", "bo").await.expect("it is new");
        assert_eq!(work(unrestrict(&*ledger, Restriction::Mute, "ann", "bo").await), expected);
        restrict(&*ledger, Restriction::Hide, "bo", "ann").await.expect("it is new");
        assert_eq!(work(unrestrict(&*ledger, Restriction::Hide, "bo", "ann").await), expected);
    }
}

async fn relations_are_returned_in_the_order_of_pairs(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy"]).await;
    follow(&*ledger, &id("ann"), &id("bo")).await;
    restrict(&*ledger, Restriction::Mute, "ann", "bo").await.expect("it is new");
    restrict(&*ledger, Restriction::Hide, "bo", "ann").await.expect("it is new");
    let nothing = Relation::default();
    let mine = Relation { follows: true, muted: true, hidden: true, ..nothing };
    let theirs = Relation { followed: true, ..nothing };
    let pairs = [("ann", "bo"), ("bo", "ann"), ("ann", "nobody"), ("ann", "bo"), ("cy", "bo"), ("ann", "ann")];
    let pairs = pairs.map(|(reader, author)| (id(reader), id(author)));
    let found = ledger.relations(&pairs).await.unwrap();
    assert_eq!(found, [mine, theirs, nothing, mine, nothing, nothing]);
    let many: Vec<_> = (0..5_000).map(|n| (id(&format!("u{n}")), id("bo"))).chain([pairs[0].clone()]).collect();
    let found = ledger.relations(&many).await.unwrap();
    assert_eq!((found.len(), found[5_000], found[4_999]), (5_001, mine, nothing));
    assert!(ledger.relations(&[]).await.unwrap().is_empty());
}

async fn authors_with_restrictions_are_flagged(ledger: Any) {
    let people = ["hides", "muted", "blocks", "blocked", "mutes", "hidden", "plain", "lists", "listed"];
    users(&*ledger, &people).await;
    restrict(&*ledger, Restriction::Hide, "hides", "hidden").await.expect("it is new");
    restrict(&*ledger, Restriction::Mute, "mutes", "muted").await.expect("it is new");
    restrict(&*ledger, Restriction::Block, "blocks", "blocked").await.expect("it is new");
    restrict(&*ledger, Restriction::Listed, "lists", "listed").await.expect("it is new");
    let asked = ids(&[&people[..], &["hides", "nobody"]].concat());
    let found = async |asked: &[UserId]| {
        let found = ledger.restricted_authors(asked).await.unwrap();
        assert!(found.iter().all(|found| found.restricted && !found.locked), "{found:?}");
        let mut found: Vec<UserId> = found.into_iter().map(|found| found.author).collect();
        found.sort();
        found
    };
    assert_eq!(found(&asked).await, ids(&["blocked", "blocks", "hides", "listed", "muted"]));
    unrestrict(&*ledger, Restriction::Mute, "mutes", "muted").await.expect("it was there");
    assert!(found(&ids(&["muted"])).await.is_empty());
    assert!(found(&[]).await.is_empty());
}

async fn merged_timelines_omit_muted_and_hiding_users(ledger: Any) {
    users(&*ledger, &["me", "ann", "bo", "cy"]).await;
    for (number, author) in [(1, "me"), (2, "ann"), (3, "bo"), (4, "cy")] {
        publish(&*ledger, number, author).await;
        follow(&*ledger, &id("me"), &id(author)).await;
    }
    restrict(&*ledger, Restriction::Mute, "me", "ann").await.expect("it is new");
    restrict(&*ledger, Restriction::Hide, "bo", "me").await.expect("it is new");
    // Restrictions in the opposite direction change nothing.
    restrict(&*ledger, Restriction::Mute, "cy", "me").await.expect("it is new");
    restrict(&*ledger, Restriction::Hide, "me", "cy").await.expect("it is new");
    let read = async || timeline(&*ledger, &id("me"), PostId::MAX, 9).await;
    assert_eq!(read().await, [4, 1].map(PostId));
    unrestrict(&*ledger, Restriction::Mute, "me", "ann").await.expect("it was there");
    assert_eq!(read().await, [4, 2, 1].map(PostId));
}

async fn edits_move_posts_between_topics(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let edit = async |post| support::edit(&*ledger, &post).await;
    store(&*ledger, post(1, "ann", &["old", "both"])).await.unwrap();
    let mut edited = post(1, "ann", &["new", "both"]);
    edited.text = "other".into();
    edited.edited_at = Some(NOW + 9);
    let jobs = edit(edited.clone()).await;
    let (author, topics) = (id("ann"), vec!["old".into(), "both".into()]);
    let expected = Work::Edit { post: PostId(1), author, topics, visibility: Visibility::Public };
    assert_eq!(jobs.iter().map(|job| (&job.work, job.created_at)).collect::<Vec<_>>(), [(&expected, NOW + 9)]);
    assert_eq!(ledger.posts(&[PostId(1)]).await.unwrap(), [edited.clone()]);
    for (topic, here) in [("old", 0), ("new", 1), ("both", 1)] {
        assert_eq!(ledger.topic_posts(topic, PostId::MAX, 9).await.unwrap().len(), here, "{topic}");
    }
    edited.visibility = Visibility::Friends;
    let jobs: Vec<Work> = edit(edited.clone()).await.into_iter().map(|job| job.work).collect();
    let author = || id("ann");
    let change = Some(VisibilityChange { before: Visibility::Public, after: Visibility::Friends });
    let both = [
        Work::RevokeVisibility { post: PostId(1), author: author(), change: change.clone() },
        Work::GrantVisibility { post: PostId(1), author: author(), change },
    ];
    assert_eq!(jobs[1..], both, "others may see it");

    let foreign = feedline::model::Post { author: id("bo"), ..edited.clone() };
    assert!(edit(foreign).await.is_empty(), "not theirs");
    assert!(edit(post(2, "ann", &[])).await.is_empty(), "never was");
    let gone = delete(&*ledger, 1, "ann").await.expect("a job").work;
    assert!(matches!(gone, Work::Delete { visibility: Visibility::Friends, .. }), "{gone:?}");
    assert!(edit(edited).await.is_empty(), "deleted");
    assert!(ledger.topic_posts("new", PostId::MAX, 9).await.unwrap().is_empty());
}

async fn edits_compare_and_swap_the_version(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    let mut first = post(1, "ann", &["a"]);
    // The version is read correctly even if the post's text and data contain an `edited_at`.
    first.text = "\0 \"edited_at\":5}".into();
    first.data = serde_json::json!({ "edited_at": 7 }).as_object().cloned();
    store(&*ledger, first.clone()).await.unwrap();
    let edit = async |before: &feedline::model::Post, after: &feedline::model::Post| {
        ledger.edit_post(before, after, None, after.edited_at.unwrap_or(after.created_at)).await.expect("an answer")
    };
    let second = feedline::model::Post { visibility: Visibility::Followers, edited_at: Some(NOW + 5), ..first.clone() };
    let other = feedline::model::Post { edited_at: Some(NOW), ..first.clone() };
    assert_eq!(edit(&other, &second).await, EditOutcome::Conflict, "it was never edited");
    assert!(matches!(edit(&first, &second).await, EditOutcome::Edited(jobs) if jobs.len() == 3));
    let third = feedline::model::Post { text: "third".into(), edited_at: Some(NOW + 6), ..first.clone() };
    assert_eq!(edit(&first, &third).await, EditOutcome::Conflict, "made of a version that is replaced");
    assert_eq!(ledger.posts(&[PostId(1)]).await.unwrap(), std::slice::from_ref(&second), "nothing changed");
    assert_eq!(backlog(&*ledger).await.jobs, 4, "nor was a job made");
    let EditOutcome::Edited(jobs) = edit(&second, &third).await else { panic!("the version is right") };
    let before = &jobs.first().expect("a job").job.work;
    assert!(matches!(before, Work::Edit { visibility: Visibility::Followers, .. }), "{before:?}");
}

async fn profiles_count_visible_posts(ledger: Any) {
    let viewers = ["ann", "bo", "fan", "friend", "followed", "stranger", "hidden", "muted", "muting", "only_to"];
    users(&*ledger, &viewers).await;
    for (from, to) in [("fan", "ann"), ("friend", "ann"), ("ann", "friend"), ("ann", "followed"), ("only_to", "ann")] {
        follow(&*ledger, &id(from), &id(to)).await;
    }
    let visible =
        |number: u64, visibility: Visibility| feedline::model::Post { visibility, ..post(number, "ann", &[]) };
    let named = |number: u64, named: fn(Vec<UserId>) -> Visibility, who: &[&str]| visible(number, named(ids(who)));
    for one in [
        visible(1, Visibility::Public),
        visible(2, Visibility::Followers),
        visible(3, Visibility::Followers),
        visible(4, Visibility::Friends),
        named(5, Visibility::OnlyTo, &["bo", "fan"]),
        named(6, Visibility::OnlyTo, &["stranger"]),
        named(7, Visibility::NotTo, &["stranger", "fan"]),
        named(8, Visibility::NotTo, &["nobody"]),
        visible(9, Visibility::Friends),
        named(10, Visibility::OnlyTo, &["friend"]),
        // A user whose id equals the name of a visibility.
        named(11, Visibility::NotTo, &["only_to"]),
        // Posts of other authors are not counted.
        feedline::model::Post { author: id("bo"), ..visible(12, Visibility::Followers) },
    ] {
        store(&*ledger, one).await.unwrap();
    }
    delete(&*ledger, 9, "ann").await.expect("it was there");
    for (barrier, maker, target) in [
        (Restriction::Hide, "ann", "hidden"),
        (Restriction::Mute, "ann", "muted"),
        (Restriction::Mute, "muting", "ann"),
    ] {
        restrict(&*ledger, barrier, maker, target).await.expect("it is new");
    }
    let counted = async |viewer: &str| {
        let viewer = (!viewer.is_empty()).then(|| id(viewer));
        ledger.profile(&id("ann"), viewer.as_ref(), 0).await.unwrap().expect("ann").posts
    };
    for (viewer, posts) in [
        ("ann", 10),
        ("", 4),
        ("bo", 4),
        ("stranger", 3),
        ("fan", 6),
        ("friend", 8),
        ("followed", 4),
        ("only_to", 5),
        ("hidden", 0),
        ("muted", 4),
        ("muting", 4),
        ("nobody", 3),
    ] {
        assert_eq!(counted(viewer).await, posts, "for {viewer:?}");
    }
    // A block applies in both directions. An edited post counts with its current visibility.
    restrict(&*ledger, Restriction::Block, "ann", "bo").await.expect("it is new");
    restrict(&*ledger, Restriction::Block, "stranger", "ann").await.expect("it is new");
    assert_eq!((counted("bo").await, counted("stranger").await), (0, 0));
    let wider = feedline::model::Post { edited_at: Some(NOW), ..visible(4, Visibility::Public) };
    let narrower = feedline::model::Post { edited_at: Some(NOW), ..named(1, Visibility::OnlyTo, &["fan"]) };
    for edit in [wider, narrower] {
        assert!(!support::edit(&*ledger, &edit).await.is_empty());
    }
    assert_eq!((counted("").await, counted("fan").await, counted("friend").await), (4, 7, 7));
}
