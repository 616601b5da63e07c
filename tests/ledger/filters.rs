//! Filters: bounded, changed member by member, read by owner, exported, erased and moved to another ledger.

use std::sync::Arc;

use feedline::ledger::{
    FilterChange, FilterStore as _, Ledger, PersonalData, PostgresTransfer, SqliteTransfer, export_ledger,
    import_ledger,
};
use feedline::model::{Filter, FilterAction, FilterContext, FilterId, PostId, UserId};
use futures::future::join_all;
use serde_json::json;

use crate::support::{
    NOW, conformance, database, exported, id, ids, open_at, open_in, postgres_options, sqlite, users,
};

conformance! {
    filters_are_stored_with_ascending_ids
    a_reserved_id_makes_one_filter
    concurrent_creations_keep_the_bound
    changes_leave_other_members_as_they_are
    concurrent_changes_of_different_members_stay
    filters_of_others_cannot_be_changed
    filters_are_listed_by_owner_in_one_round_trip
    words_may_hold_any_character
    erasure_removes_filters
    filters_are_exported_in_pages
}

type Any = Arc<dyn Ledger>;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A filter without an end. The ledger assigns its id.
fn filter(of: &[&str]) -> Filter {
    Filter {
        id: FilterId(77),
        words: words(of),
        action: FilterAction::Hide,
        contexts: vec![FilterContext::Home, FilterContext::Topics],
        whole_word: true,
        until: None,
        created_at: NOW,
    }
}

async fn create(ledger: &dyn Ledger, owner: &str, filter: &Filter) -> Filter {
    ledger.create_filter(&id(owner), filter, 99, None).await.expect("an answer").expect("below the bound")
}

async fn update(ledger: &dyn Ledger, owner: &str, number: FilterId, change: FilterChange) -> Option<Filter> {
    ledger.update_filter(&id(owner), number, &change).await.expect("an answer")
}

/// The filters of one user.
async fn of(ledger: &dyn Ledger, owner: &str) -> Vec<Filter> {
    let found = ledger.filters_of(&[id(owner)]).await.expect("filters");
    found.into_iter().map(|(_, filter)| filter).collect()
}

async fn filters_are_stored_with_ascending_ids(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    assert!(!ledger.has_filters().await.expect("an answer"));
    let first = create(&*ledger, "ann", &filter(&["spoiler", "season finale"])).await;
    assert!(ledger.has_filters().await.expect("an answer"));
    assert_eq!(first, Filter { id: first.id, ..filter(&["spoiler", "season finale"]) });
    let other = Filter {
        action: FilterAction::Warn,
        contexts: FilterContext::ALL.to_vec(),
        whole_word: false,
        until: Some(NOW + 9),
        created_at: NOW + 1,
        ..filter(&["#rust"])
    };
    let second = create(&*ledger, "bo", &other).await;
    assert_eq!(second, Filter { id: second.id, ..other });
    let third = create(&*ledger, "ann", &filter(&[])).await;
    assert!(first.id < second.id && second.id < third.id, "{first:?} {second:?} {third:?}");
    assert_eq!(of(&*ledger, "ann").await, [first.clone(), third.clone()]);
    assert_eq!(of(&*ledger, "bo").await, std::slice::from_ref(&second));
    for was_there in [true, false] {
        assert_eq!(ledger.delete_filter(&id("ann"), third.id).await.expect("an answer"), was_there);
    }
    assert_eq!(of(&*ledger, "ann").await, [first]);
    let fourth = create(&*ledger, "ann", &filter(&["x"])).await;
    assert!(fourth.id > third.id, "the number of a deleted filter is not used again");
}

async fn concurrent_creations_keep_the_bound(ledger: Any) {
    for round in 0..5 {
        let owner = format!("u{round}");
        users(&*ledger, &[&owner]).await;
        let creations = (0..8).map(|n| {
            let (ledger, owner) = (ledger.clone(), id(&owner));
            tokio::spawn(async move { ledger.create_filter(&owner, &filter(&[&format!("word {n}")]), 3, None).await })
        });
        let made = join_all(creations).await;
        let made = made.into_iter().filter_map(|made| made.expect("no panic").expect("an answer"));
        let mut made: Vec<Filter> = made.collect();
        made.sort_by_key(|filter| filter.id);
        assert_eq!(made.len(), 3, "{made:?}");
        assert_eq!(of(&*ledger, &owner).await, made);
        let create =
            async |most| ledger.create_filter(&id(&owner), &filter(&["y"]), most, None).await.expect("an answer");
        assert_eq!(create(3).await, None);
        assert_eq!(create(0).await, None, "the bound may have been lowered");
        ledger.delete_filter(&id(&owner), made[0].id).await.expect("an answer");
        assert!(create(3).await.is_some(), "deleted filters do not count");
    }
}

async fn a_reserved_id_makes_one_filter(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    let make = async |most, reserved: u64| {
        let new = filter(&["spoiler"]);
        ledger.create_filter(&id("ann"), &new, most, Some(PostId(reserved))).await.expect("an answer")
    };
    let first = make(1, 7).await.expect("below the bound");
    assert_eq!(make(1, 7).await.as_ref(), Some(&first), "also at the bound");
    assert_eq!(make(1, 8).await, None);
    assert!(make(2, 8).await.is_some_and(|second| second.id > first.id));
    assert_eq!(of(&*ledger, "ann").await.len(), 2);
}

async fn changes_leave_other_members_as_they_are(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    let untouched = create(&*ledger, "ann", &filter(&["other"])).await;
    let mut expected = create(&*ledger, "ann", &filter(&["spoiler"])).await;
    let number = expected.id;
    let change = FilterChange { until: Some(Some(NOW + 5)), ..FilterChange::default() };
    expected.until = Some(NOW + 5);
    assert_eq!(update(&*ledger, "ann", number, change).await.as_ref(), Some(&expected));
    let change = FilterChange { words: Some(words(&["a", "b c"])), ..FilterChange::default() };
    expected.words = words(&["a", "b c"]);
    assert_eq!(update(&*ledger, "ann", number, change).await.as_ref(), Some(&expected));
    let change = FilterChange { action: Some(FilterAction::Warn), ..FilterChange::default() };
    expected.action = FilterAction::Warn;
    assert_eq!(update(&*ledger, "ann", number, change).await.as_ref(), Some(&expected));
    let contexts = vec![FilterContext::Notifications, FilterContext::Lists, FilterContext::Comments];
    let change = FilterChange { contexts: Some(contexts.clone()), ..FilterChange::default() };
    expected.contexts = contexts;
    assert_eq!(update(&*ledger, "ann", number, change).await.as_ref(), Some(&expected));
    let change = FilterChange { whole_word: Some(false), ..FilterChange::default() };
    expected.whole_word = false;
    assert_eq!(update(&*ledger, "ann", number, change).await.as_ref(), Some(&expected));
    assert_eq!(update(&*ledger, "ann", number, FilterChange::default()).await.as_ref(), Some(&expected));
    let change = FilterChange { until: Some(None), ..FilterChange::default() };
    expected.until = None;
    assert_eq!(update(&*ledger, "ann", number, change).await.as_ref(), Some(&expected), "the end is removed");
    assert_eq!(of(&*ledger, "ann").await, [untouched, expected]);
}

async fn concurrent_changes_of_different_members_stay(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    for _ in 0..5 {
        let made = create(&*ledger, "ann", &filter(&["before"])).await;
        let changes = [
            FilterChange { words: Some(words(&["after"])), ..FilterChange::default() },
            FilterChange { action: Some(FilterAction::Warn), ..FilterChange::default() },
            FilterChange { contexts: Some(vec![FilterContext::Lists]), ..FilterChange::default() },
            FilterChange { whole_word: Some(false), ..FilterChange::default() },
            FilterChange { until: Some(Some(NOW + 1)), ..FilterChange::default() },
        ];
        let changes = changes.map(|change| update(&*ledger, "ann", made.id, change));
        assert!(join_all(changes).await.iter().all(Option::is_some));
        let expected = Filter {
            words: words(&["after"]),
            action: FilterAction::Warn,
            contexts: vec![FilterContext::Lists],
            whole_word: false,
            until: Some(NOW + 1),
            ..made
        };
        assert_eq!(of(&*ledger, "ann").await.pop(), Some(expected));
    }
}

async fn filters_of_others_cannot_be_changed(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let made = create(&*ledger, "ann", &filter(&["spoiler"])).await;
    let change = FilterChange { words: Some(words(&["theirs"])), until: Some(Some(1)), ..FilterChange::default() };
    assert_eq!(update(&*ledger, "bo", made.id, change.clone()).await, None);
    assert_eq!(update(&*ledger, "ann", FilterId(made.id.0 + 1), change.clone()).await, None, "there is no such filter");
    assert_eq!(update(&*ledger, "nobody", made.id, change).await, None);
    assert!(!ledger.delete_filter(&id("bo"), made.id).await.expect("an answer"));
    assert!(!ledger.delete_filter(&id("ann"), FilterId(made.id.0 + 1)).await.expect("an answer"));
    assert_eq!(of(&*ledger, "ann").await, [made]);
}

async fn filters_are_listed_by_owner_in_one_round_trip(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy"]).await;
    let mut made = Vec::new();
    for (owner, word) in [("bo", "a"), ("ann", "b"), ("bo", "c"), ("ann", "d")] {
        made.push(create(&*ledger, owner, &filter(&[word])).await);
    }
    let [a, b, c, d] = &made[..] else { panic!("{made:?}") };
    // Each owner as named in the call, in the order of the call, and once.
    let asked = ["cy", "aNN", "nobody", "BO", "ann"].map(|text| UserId::parse(text).expect("an id"));
    let before = ledger.round_trips();
    let found = ledger.filters_of(&asked).await.expect("filters");
    assert_eq!(ledger.round_trips() - before, 1);
    let shown: Vec<_> = found.iter().map(|(owner, filter)| (owner.shown(), filter)).collect();
    assert_eq!(shown, [("aNN", b), ("aNN", d), ("BO", a), ("BO", c)]);
    let many: Vec<UserId> = (0..5_000).map(|n| id(&format!("u{n}"))).chain(ids(&["bo"])).collect();
    let before = ledger.round_trips();
    let found = ledger.filters_of(&many).await.expect("filters");
    assert_eq!(ledger.round_trips() - before, 1);
    assert_eq!(found, [(id("bo"), a.clone()), (id("bo"), c.clone())]);
    assert!(ledger.filters_of(&[]).await.expect("filters").is_empty());
}

/// Words with characters that are special in SQL, in JSON or in arrays of PostgreSQL.
const STRANGE: [&str; 12] = [
    "it's",
    "\"quoted\"",
    "back\\slash \\u0041 \\",
    "{a,b}",
    "NULL",
    "null",
    "",
    "\u{1F600} \u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467}",
    "東京 자막 ネタバレ",
    "#ネタバレ",
    "a\nb\tc\u{7f}",
    "%_?1 $1",
];

async fn words_may_hold_any_character(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    let made = create(&*ledger, "ann", &filter(&STRANGE)).await;
    assert_eq!(made.words, STRANGE);
    assert_eq!(of(&*ledger, "ann").await, std::slice::from_ref(&made));
    let reversed: Vec<&str> = STRANGE.into_iter().rev().collect();
    let change = FilterChange { words: Some(words(&reversed)), ..FilterChange::default() };
    let changed = update(&*ledger, "ann", made.id, change).await.expect("the filter");
    assert_eq!(changed.words, reversed);
    assert_eq!(exported(&*ledger, "ann", PersonalData::Filters, 9).await[0]["words"], json!(reversed));
    // PostgreSQL has no NUL: it is replaced.
    let with_nul = create(&*ledger, "ann", &filter(&["a\0b"])).await;
    assert!(["a\0b", "a\u{FFFD}b"].contains(&&*with_nul.words[0]), "{with_nul:?}");
    let change = FilterChange { words: Some(words(&["\0", "c\0"])), ..FilterChange::default() };
    let with_nul = update(&*ledger, "ann", with_nul.id, change).await.expect("the filter");
    assert!([["\0", "c\0"], ["\u{FFFD}", "c\u{FFFD}"]].contains(&[&*with_nul.words[0], &*with_nul.words[1]]));
    assert_eq!(of(&*ledger, "ann").await, [changed, with_nul.clone()]);
    assert_eq!(exported(&*ledger, "ann", PersonalData::Filters, 9).await[1]["words"], json!(with_nul.words));
}

async fn erasure_removes_filters(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    for word in ["a", "b", "c", "d", "e"] {
        create(&*ledger, "ann", &filter(&[word])).await;
    }
    let other = create(&*ledger, "bo", &filter(&["a"])).await;
    assert!(ledger.begin_erasure(&id("ann"), NOW).await.expect("an answer"));
    assert_eq!(ledger.erase_rest(&id("ann"), 3).await.expect("an answer"), 3, "in bounded steps");
    assert_eq!(ledger.erase_rest(&id("ann"), 3).await.expect("an answer"), 2);
    assert_eq!(ledger.erase_rest(&id("ann"), 3).await.expect("an answer"), 0);
    assert_eq!(of(&*ledger, "ann").await, []);
    assert_eq!(of(&*ledger, "bo").await, std::slice::from_ref(&other));
    assert!(ledger.has_filters().await.expect("an answer"));
    assert!(ledger.delete_filter(&id("bo"), other.id).await.expect("an answer"));
    assert!(!ledger.has_filters().await.expect("an answer"));
}

async fn filters_are_exported_in_pages(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let mut made = Vec::new();
    for n in 0..12 {
        create(&*ledger, "bo", &filter(&["theirs"])).await;
        let until = (n % 2 == 0).then_some(NOW + n);
        made.push(create(&*ledger, "ann", &Filter { until, whole_word: n % 3 == 0, ..filter(&["a", "b"]) }).await);
    }
    for limit in [1, 5, 100] {
        let rows = exported(&*ledger, "ann", PersonalData::Filters, limit).await;
        assert_eq!(rows, made.iter().map(|filter| json!(filter)).collect::<Vec<_>>(), "{limit} a page");
    }
    let first = json!({
        "id": made[0].id, "words": ["a", "b"], "action": "hide", "in": ["home", "topics"], "whole_word": true,
        "until": NOW, "created_at": NOW,
    });
    assert_eq!(exported(&*ledger, "ann", PersonalData::Filters, 9).await[0], first);
    assert_eq!(exported(&*ledger, "ann", PersonalData::Filters, 9).await[1].get("until"), None, "no end");
    assert!(exported(&*ledger, "nobody", PersonalData::Filters, 9).await.is_empty());
}

#[tokio::test]
async fn filters_move_between_the_ledgers() {
    let (first, folder) = sqlite().await;
    users(&*first, &["ann", "bo"]).await;
    let mut made = vec![create(&*first, "ann", &filter(&STRANGE)).await];
    made.push(create(&*first, "ann", &Filter { until: Some(NOW + 9), whole_word: false, ..filter(&[]) }).await);
    made.push(create(&*first, "ann", &Filter { contexts: vec![], ..filter(&["x"]) }).await);
    // PostgreSQL has no NUL.
    let last = Filter { words: words(&["y\u{fffd}"]), ..create(&*first, "bo", &filter(&["y\0"])).await };
    first.close().await;
    let mut file = Vec::new();
    let mut store = SqliteTransfer::reading(&folder.path().join("ledger.db")).expect("it opens");
    let report = export_ledger(&mut store, &mut file, NOW, |_| ()).await.expect("an export");
    assert_eq!(report.rows["filters"], (4, 4));

    let (server, name) = database().await;
    let options = postgres_options(server, &name);
    for new in [4, 0] {
        let mut store = PostgresTransfer::writing(&options).await.expect("it connects");
        let report = import_ledger(&mut store, &mut &file[..], |_| ()).await.expect("an import");
        assert_eq!(report.rows["filters"], (4, new));
    }
    let second = open_at(server, &name).await;
    assert_eq!(of(&*second, "ann").await, made);
    let later = create(&*second, "bo", &filter(&["z"])).await;
    assert!(later.id > last.id, "numbers continue behind those of the imported rows");
    assert!(second.delete_filter(&id("ann"), made[0].id).await.expect("an answer"));
    second.close().await;

    let mut file = Vec::new();
    let mut store = PostgresTransfer::reading(&options).await.expect("it connects");
    export_ledger(&mut store, &mut file, NOW, |_| ()).await.expect("an export");
    let (third, folder) = sqlite().await;
    third.close().await;
    let mut store = SqliteTransfer::writing(&folder.path().join("ledger.db")).expect("it opens");
    import_ledger(&mut store, &mut &file[..], |_| ()).await.expect("an import");
    drop(store);
    let third = open_in(&folder).await;
    assert_eq!(of(&*third, "ann").await, made[1..]);
    assert_eq!(of(&*third, "bo").await, [last, later.clone()]);
    assert!(create(&*third, "bo", &filter(&["z"])).await.id > later.id);
    third.close().await;
}
