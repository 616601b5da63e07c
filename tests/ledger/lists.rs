//! Lists: bounded, seen by their owner alone, paged, exported, erased and moved to another ledger.

use std::sync::Arc;

use feedline::ledger::{
    Ledger, ListChange, ListOutcome, ListStore as _, PersonalData, PostgresTransfer, RestrictionStore as _,
    SqliteTransfer, TransferReport, export_ledger, import_ledger,
};
use feedline::model::{List, ListId, ListMember, PostId, UserId};
use futures::future::join_all;
use serde_json::json;

use crate::support::{NOW, conformance, database, exported, id, open_at, open_in, postgres_options, sqlite, users};

conformance! {
    lists_are_stored_with_ascending_ids
    a_reserved_id_makes_one_list
    concurrent_creations_keep_the_bound
    changes_leave_other_members_as_they_are
    concurrent_changes_of_different_members_stay
    lists_of_others_are_neither_seen_nor_changed
    members_are_added_and_removed_once
    concurrent_additions_keep_the_bound
    users_are_paged_exactly
    topics_are_ordered_byte_by_byte
    lists_with_a_user_are_those_of_the_owner
    erasure_removes_lists_in_bounded_steps
    erasure_removes_the_user_from_lists_of_others
    lists_are_exported_in_pages
}

type Any = Arc<dyn Ledger>;

pub(crate) async fn create(ledger: &dyn Ledger, owner: &str, name: &str, exclusive: bool) -> List {
    ledger.create_list(&id(owner), name, exclusive, NOW, 99, None).await.expect("an answer").expect("below the bound")
}

pub(crate) fn user(text: &str) -> ListMember {
    ListMember::User(id(text))
}

pub(crate) fn topic(name: &str) -> ListMember {
    ListMember::Topic(name.to_owned())
}

/// Adds a member to a list of ann.
pub(crate) async fn add(ledger: &dyn Ledger, list: ListId, member: &ListMember) -> ListOutcome {
    ledger.add_to_list(&id("ann"), list, member, NOW, 999).await.expect("an answer")
}

/// Removes a member from a list of ann.
pub(crate) async fn remove(ledger: &dyn Ledger, list: ListId, member: &ListMember) -> Option<bool> {
    ledger.remove_from_list(&id("ann"), list, member).await.expect("an answer")
}

async fn of(ledger: &dyn Ledger, owner: &str) -> Vec<List> {
    let lists = ledger.lists(&id(owner)).await.expect("lists");
    for list in &lists {
        assert_eq!(ledger.list(&id(owner), list.id).await.expect("an answer").as_ref(), Some(list));
    }
    lists
}

/// The users of a list in their order.
async fn members(ledger: &dyn Ledger, list: ListId) -> Vec<String> {
    let users = ledger.list_users(list, None, 9_999).await.expect("users");
    users.into_iter().map(|(_, user)| user.id.to_string()).collect()
}

async fn lists_are_stored_with_ascending_ids(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    assert_eq!(of(&*ledger, "ann").await, []);
    let first = create(&*ledger, "ann", "東京 \"it's\" \\ {a,b} \u{1F600}", false).await;
    let expected = List { id: first.id, name: "東京 \"it's\" \\ {a,b} \u{1F600}".into(), ..first.clone() };
    assert_eq!(first, expected);
    assert_eq!((first.exclusive, first.users, first.topics, first.created_at), (false, 0, 0, NOW));
    let second = create(&*ledger, "bo", "NULL", true).await;
    let third = create(&*ledger, "ann", "same", true).await;
    assert!(first.id < second.id && second.id < third.id && third.exclusive, "{first:?} {second:?} {third:?}");
    assert_eq!(of(&*ledger, "ann").await, [first.clone(), third.clone()]);
    assert_eq!(of(&*ledger, "bo").await, [second]);
    for was_there in [true, false] {
        assert_eq!(ledger.delete_list(&id("ann"), third.id).await.expect("an answer"), was_there);
    }
    assert_eq!(of(&*ledger, "ann").await, [first]);
    let fourth = create(&*ledger, "ann", "same", true).await;
    assert!(fourth.id > third.id, "the number of a deleted list is not used again");
    // PostgreSQL has no NUL: it is replaced.
    let with_nul = create(&*ledger, "bo", "a\0b", false).await;
    assert!(["a\0b", "a\u{FFFD}b"].contains(&&*with_nul.name), "{with_nul:?}");
    assert_eq!(of(&*ledger, "bo").await[1], with_nul);
}

async fn concurrent_creations_keep_the_bound(ledger: Any) {
    for round in 0..5 {
        let owner = format!("u{round}");
        users(&*ledger, &[&owner]).await;
        let creations = (0..8).map(|n| {
            let (ledger, owner) = (ledger.clone(), id(&owner));
            tokio::spawn(async move { ledger.create_list(&owner, &format!("list {n}"), false, NOW, 3, None).await })
        });
        let made = join_all(creations).await;
        let made = made.into_iter().filter_map(|made| made.expect("no panic").expect("an answer"));
        let mut made: Vec<List> = made.collect();
        made.sort_by_key(|list| list.id);
        assert_eq!(made.len(), 3, "{made:?}");
        assert_eq!(of(&*ledger, &owner).await, made);
        let create =
            async |most| ledger.create_list(&id(&owner), "y", false, NOW, most, None).await.expect("an answer");
        assert_eq!(create(3).await, None);
        assert_eq!(create(0).await, None, "the bound may have been lowered");
        ledger.delete_list(&id(&owner), made[0].id).await.expect("an answer");
        assert!(create(3).await.is_some(), "deleted lists do not count");
    }
}

async fn a_reserved_id_makes_one_list(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    let make = async |most, reserved: u64| {
        let made = ledger.create_list(&id("ann"), "one", false, NOW, most, Some(PostId(reserved))).await;
        made.expect("an answer")
    };
    let first = make(1, 7).await.expect("below the bound");
    assert_eq!(add(&*ledger, first.id, &topic("a")).await, ListOutcome::Added);
    assert_eq!(make(1, 7).await, Some(List { topics: 1, ..first.clone() }), "also at the bound, as it is now");
    assert_eq!(make(1, 8).await, None);
    assert!(make(2, 8).await.is_some_and(|second| second.id > first.id));
    assert_eq!(of(&*ledger, "ann").await.len(), 2);
}

async fn update(ledger: &dyn Ledger, list: ListId, name: Option<&str>, exclusive: Option<bool>) -> Option<List> {
    let change = ListChange { name: name.map(str::to_owned), exclusive };
    ledger.update_list(&id("ann"), list, &change).await.expect("an answer")
}

async fn changes_leave_other_members_as_they_are(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let untouched = create(&*ledger, "ann", "other", false).await;
    let made = create(&*ledger, "ann", "before", false).await;
    for member in [user("bo"), topic("a"), topic("b")] {
        assert_eq!(add(&*ledger, made.id, &member).await, ListOutcome::Added);
    }
    let mut expected = List { users: 1, topics: 2, ..made };
    expected.name = "after".into();
    assert_eq!(update(&*ledger, expected.id, Some("after"), None).await.as_ref(), Some(&expected));
    expected.exclusive = true;
    assert_eq!(update(&*ledger, expected.id, None, Some(true)).await.as_ref(), Some(&expected));
    assert_eq!(update(&*ledger, expected.id, None, None).await.as_ref(), Some(&expected));
    let change = update(&*ledger, expected.id, Some("both"), Some(false)).await;
    assert_eq!(change, Some(List { name: "both".into(), exclusive: false, ..expected }));
    assert_eq!(of(&*ledger, "ann").await, [untouched, change.expect("the list")]);
}

async fn concurrent_changes_of_different_members_stay(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    for _ in 0..5 {
        let made = create(&*ledger, "ann", "before", false).await;
        let name = update(&*ledger, made.id, Some("after"), None);
        let exclusive = update(&*ledger, made.id, None, Some(true));
        let added = async { add(&*ledger, made.id, &topic("a")).await == ListOutcome::Added };
        let (name, exclusive, added) = tokio::join!(name, exclusive, added);
        assert!(name.is_some() && exclusive.is_some() && added);
        let expected = List { name: "after".into(), exclusive: true, topics: 1, ..made };
        assert_eq!(of(&*ledger, "ann").await.pop(), Some(expected));
    }
}

async fn lists_of_others_are_neither_seen_nor_changed(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy"]).await;
    let made = create(&*ledger, "ann", "mine", false).await;
    for member in [user("cy"), topic("a")] {
        assert_eq!(add(&*ledger, made.id, &member).await, ListOutcome::Added);
    }
    let change = ListChange { name: Some("theirs".into()), exclusive: Some(true) };
    let strange = ListId(made.id.0 + 1);
    for (owner, list) in [("bo", made.id), ("nobody", made.id), ("cy", made.id), ("ann", strange), ("bo", strange)] {
        let owner = id(owner);
        assert_eq!(ledger.list(&owner, list).await.expect("an answer"), None, "{owner} {list:?}");
        assert_eq!(ledger.update_list(&owner, list, &change).await.expect("an answer"), None, "{owner} {list:?}");
        assert!(!ledger.delete_list(&owner, list).await.expect("an answer"), "{owner} {list:?}");
        for member in [user("cy"), user("bo"), topic("a"), topic("b")] {
            let added = ledger.add_to_list(&owner, list, &member, NOW, 9).await.expect("an answer");
            assert_eq!(added, ListOutcome::NoList, "{owner} {list:?} {member:?}");
            let removed = ledger.remove_from_list(&owner, list, &member).await.expect("an answer");
            assert_eq!(removed, None, "{owner} {list:?} {member:?}");
        }
    }
    assert_eq!(of(&*ledger, "bo").await, []);
    assert_eq!(of(&*ledger, "ann").await, [List { users: 1, topics: 1, ..made }]);
}

async fn members_are_added_and_removed_once(ledger: Any) {
    use ListOutcome::{Added, Full, Unchanged};
    users(&*ledger, &["ann", "bo", "cy", "dee"]).await;
    let list = create(&*ledger, "ann", "list", false).await.id;
    let add = async |member: &ListMember, most| {
        ledger.add_to_list(&id("ann"), list, member, NOW, most).await.expect("an answer")
    };
    for [first, second, third] in [["bo", "cy", "dee"].map(user), ["a", "b", "c"].map(topic)] {
        assert_eq!(add(&first, 0).await, Full);
        for (member, outcome) in
            [(&first, Added), (&first, Unchanged), (&second, Added), (&third, Full), (&second, Unchanged)]
        {
            assert_eq!(add(member, 2).await, outcome, "{member:?}");
        }
        assert_eq!(add(&first, 1).await, Unchanged, "the bound may have been lowered");
        for had in [true, false] {
            assert_eq!(remove(&*ledger, list, &first).await, Some(had), "{first:?}");
        }
        assert_eq!(add(&third, 2).await, Added, "{third:?}");
    }
    assert_eq!(members(&*ledger, list).await, ["dee", "cy"]);
    assert_eq!(ledger.list_topics(list).await.expect("topics"), ["b", "c"]);
    let shown = of(&*ledger, "ann").await;
    assert_eq!((shown[0].users, shown[0].topics), (2, 2));
    // A user and a topic of the same name are two members.
    assert_eq!(add(&topic("dee"), 9).await, Added);
    assert_eq!(remove(&*ledger, list, &user("dee")).await, Some(true));
    assert_eq!(ledger.list_topics(list).await.expect("topics"), ["b", "c", "dee"]);
    // A deleted list has no members.
    assert!(ledger.delete_list(&id("ann"), list).await.expect("an answer"));
    assert!(members(&*ledger, list).await.is_empty());
    assert!(ledger.list_topics(list).await.expect("topics").is_empty());
    assert!(ledger.list_posts(list, PostId::MAX, 9).await.expect("posts").is_empty());
    assert_eq!(add(&user("bo"), 9).await, ListOutcome::NoList);
}

async fn concurrent_additions_keep_the_bound(ledger: Any) {
    let names: Vec<String> = (0..8).map(|n| format!("u{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    users(&*ledger, &["ann"]).await;
    users(&*ledger, &names).await;
    for round in 0..6 {
        let list = create(&*ledger, "ann", "list", round % 3 == 0).await.id;
        let additions = names.iter().map(|name| {
            let ledger = ledger.clone();
            let member = if round % 2 == 0 { user(name) } else { topic(name) };
            tokio::spawn(async move { ledger.add_to_list(&id("ann"), list, &member, NOW, 3).await })
        });
        let outcomes = join_all(additions).await;
        let outcomes: Vec<_> = outcomes.into_iter().map(|it| it.expect("no panic").expect("an answer")).collect();
        let count = |wanted| outcomes.iter().filter(|outcome| **outcome == wanted).count();
        assert_eq!((count(ListOutcome::Added), count(ListOutcome::Full)), (3, 5), "{outcomes:?}");
        let found = members(&*ledger, list).await.len() + ledger.list_topics(list).await.expect("topics").len();
        assert_eq!(found, 3, "in the ledger");
    }
}

async fn users_are_paged_exactly(ledger: Any) {
    let others = ["d", "a", "c", "b", "e"];
    users(&*ledger, &["ann", "late"]).await;
    users(&*ledger, &others).await;
    let list = create(&*ledger, "ann", "list", false).await.id;
    let other = create(&*ledger, "ann", "other", false).await.id;
    assert_eq!(add(&*ledger, other, &user("late")).await, ListOutcome::Added);
    let add_at = async |member: &str, at| {
        let added = ledger.add_to_list(&id("ann"), list, &user(member), at, 9).await;
        assert_eq!(added.expect("an answer"), ListOutcome::Added);
    };
    // All but two have the same time.
    for (n, other) in others.iter().enumerate() {
        add_at(other, NOW + u64::from(n == 1) - u64::from(n == 4)).await;
    }
    let page = async |after: Option<(u64, UserId)>, limit| {
        let after = after.as_ref().map(|(at, user)| (*at, user));
        ledger.list_users(list, after, limit).await.expect("a page")
    };
    for limit in [1, 2, 3, 9] {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let users = page(after.clone(), limit).await;
            assert!(users.len() <= limit);
            let Some((at, last)) = users.last() else { break };
            after = Some((*at, last.id.clone()));
            seen.extend(users.iter().map(|(at, user)| (at - (NOW - 1), user.id.to_string())));
            // A later member does not move the others.
            ledger.add_to_list(&id("ann"), list, &user("late"), NOW + 9, 9).await.expect("an answer");
        }
        let expected = [(2, "a"), (1, "d"), (1, "c"), (1, "b"), (0, "e")].map(|(at, name)| (at, name.to_owned()));
        assert_eq!(seen, expected, "{limit} a page");
        assert_eq!(remove(&*ledger, list, &user("late")).await, Some(true));
    }
    assert!(page(None, 0).await.is_empty());
    assert_eq!(page(None, 1).await[0].1, ledger.users(&[id("a")]).await.expect("users")[0], "the whole profile");
}

async fn topics_are_ordered_byte_by_byte(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    let list = create(&*ledger, "ann", "list", false).await.id;
    for name in ["é", "a", "東京", "Z", "a_", "b"] {
        assert_eq!(add(&*ledger, list, &topic(name)).await, ListOutcome::Added);
    }
    assert_eq!(ledger.list_topics(list).await.expect("topics"), ["Z", "a", "a_", "b", "é", "東京"]);
    assert!(ledger.list_topics(ListId(list.0 + 1)).await.expect("topics").is_empty());
}

async fn lists_with_a_user_are_those_of_the_owner(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy"]).await;
    let mut made = Vec::new();
    for (owner, name) in [("ann", "a"), ("bo", "b"), ("ann", "c"), ("ann", "d")] {
        made.push(create(&*ledger, owner, name, false).await);
    }
    for (owner, list) in [("ann", &made[0]), ("bo", &made[1]), ("ann", &made[3])] {
        ledger.add_to_list(&id(owner), list.id, &user("cy"), NOW, 9).await.expect("an answer");
    }
    add(&*ledger, made[2].id, &topic("cy")).await;
    let with = async |owner: &str, user: &str| {
        let lists = ledger.lists_with(&id(owner), &id(user)).await.expect("lists");
        lists.into_iter().map(|list| (list.name, list.users, list.topics)).collect::<Vec<_>>()
    };
    assert_eq!(with("ann", "cy").await, [("a".to_owned(), 1, 0), ("d".to_owned(), 1, 0)]);
    assert_eq!(with("bo", "cy").await, [("b".to_owned(), 1, 0)]);
    for (owner, user) in [("ann", "bo"), ("cy", "cy"), ("nobody", "cy"), ("ann", "nobody")] {
        assert_eq!(with(owner, user).await, [], "{owner} {user}");
    }
}

async fn erasure_removes_lists_in_bounded_steps(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy", "dee"]).await;
    let theirs = create(&*ledger, "bo", "theirs", false).await;
    ledger.add_to_list(&id("bo"), theirs.id, &user("cy"), NOW, 9).await.expect("an answer");
    for exclusive in [true, false] {
        let list = create(&*ledger, "ann", "mine", exclusive).await.id;
        for member in [user("bo"), user("cy"), user("dee"), topic("a")] {
            assert_eq!(add(&*ledger, list, &member).await, ListOutcome::Added);
        }
    }
    assert!(ledger.begin_erasure(&id("ann"), NOW).await.expect("an answer"));
    let mut steps = Vec::new();
    while let removed @ 1.. = ledger.erase_rest(&id("ann"), 3).await.expect("an answer") {
        let left: u64 = of(&*ledger, "ann").await.iter().map(|list| 1 + list.users + list.topics).sum();
        steps.push(removed);
        assert_eq!(left + steps.iter().sum::<usize>() as u64, 10, "members go before their lists");
    }
    assert_eq!(steps, [3, 3, 3, 1]);
    assert_eq!(of(&*ledger, "ann").await, []);
    assert_eq!(of(&*ledger, "bo").await, [List { users: 1, ..theirs }]);
}

async fn erasure_removes_the_user_from_lists_of_others(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy"]).await;
    let mut lists = Vec::new();
    for owner in ["ann", "bo", "bo"] {
        let list = create(&*ledger, owner, "list", true).await.id;
        for member in ["cy", "ann"] {
            ledger.add_to_list(&id(owner), list, &user(member), NOW, 9).await.expect("an answer");
            ledger.sync_exclusion(&id(owner), &id(member), NOW).await.expect("an answer");
        }
        lists.push(list);
    }
    assert!(ledger.begin_erasure(&id("cy"), NOW).await.expect("an answer"));
    // The export omits users that are being erased.
    let exported = exported(&*ledger, "ann", PersonalData::Lists, 9).await;
    assert_eq!(exported[0]["users"], json!(["Ann"]));
    while ledger.erase_rest(&id("cy"), 2).await.expect("an answer") > 0 {}
    for list in lists {
        assert_eq!(members(&*ledger, list).await, ["ann"]);
    }
    let pairs = [("ann", "cy"), ("bo", "cy"), ("bo", "ann")].map(|(reader, author)| (id(reader), id(author)));
    let relations = ledger.relations(&pairs).await.expect("relations");
    assert_eq!(relations.iter().map(|relation| relation.listed).collect::<Vec<_>>(), [false, false, true]);
}

async fn lists_are_exported_in_pages(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy", "dee"]).await;
    let mut expected = Vec::new();
    for n in 0..12 {
        create(&*ledger, "bo", "theirs", false).await;
        let list = create(&*ledger, "ann", &format!("\"{n}\" \u{1F600}"), n % 2 == 0).await;
        for (member, at) in [("bo", 2), ("cy", 1), ("dee", 3)].into_iter().take(n % 4) {
            ledger.add_to_list(&id("ann"), list.id, &user(member), at, 9).await.expect("an answer");
        }
        for name in ["b", "a"].into_iter().take(n % 3) {
            add(&*ledger, list.id, &topic(name)).await;
        }
        let users = [&[][..], &["Bo"], &["Bo", "Cy"], &["Dee", "Bo", "Cy"]][n % 4];
        let topics = [&[][..], &["b"], &["a", "b"]][n % 3];
        expected.push(json!({
            "id": list.id, "name": list.name, "exclusive": list.exclusive, "users": users, "topics": topics,
            "created_at": NOW,
        }));
    }
    for limit in [1, 5, 100] {
        assert_eq!(exported(&*ledger, "ann", PersonalData::Lists, limit).await, expected, "{limit} a page");
    }
    assert!(exported(&*ledger, "nobody", PersonalData::Lists, 9).await.is_empty());
}

#[tokio::test]
async fn lists_move_between_the_ledgers() {
    let (first, folder) = sqlite().await;
    users(&*first, &["ann", "bo", "cy"]).await;
    let list = create(&*first, "ann", "東京 \"it's\"", true).await;
    let second_list = create(&*first, "ann", "other", false).await;
    let last = create(&*first, "bo", "theirs", false).await;
    for member in [user("bo"), user("cy"), topic("東京")] {
        assert_eq!(add(&*first, list.id, &member).await, ListOutcome::Added);
    }
    first.sync_exclusion(&id("ann"), &id("cy"), NOW).await.expect("an answer").expect("a change");
    let lists = of(&*first, "ann").await;
    first.close().await;
    let mut file = Vec::new();
    let mut store = SqliteTransfer::reading(&folder.path().join("ledger.db")).expect("it opens");
    let report = export_ledger(&mut store, &mut file, NOW, |_| ()).await.expect("an export");
    let rows = |report: &TransferReport| ["lists", "list_users", "list_topics"].map(|table| report.rows[table]);
    assert_eq!(rows(&report), [(3, 3), (2, 2), (1, 1)]);

    let (server, name) = database().await;
    let options = postgres_options(server, &name);
    for new in [[3, 2, 1], [0, 0, 0]] {
        let mut store = PostgresTransfer::writing(&options).await.expect("it connects");
        let report = import_ledger(&mut store, &mut &file[..], |_| ()).await.expect("an import");
        assert_eq!(rows(&report).map(|(_, new)| new), new);
    }
    let second = open_at(server, &name).await;
    assert_eq!(of(&*second, "ann").await, lists);
    assert!(second.relations(&[(id("ann"), id("cy"))]).await.expect("relations")[0].listed);
    let later = create(&*second, "bo", "z", false).await;
    assert!(later.id > last.id, "numbers continue behind those of the imported rows");
    assert_eq!(remove(&*second, list.id, &user("cy")).await, Some(true));
    let synced = second.sync_exclusion(&id("ann"), &id("cy"), NOW).await.expect("an answer");
    assert_eq!(synced, Some((false, vec![])));
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
    assert_eq!(of(&*third, "ann").await, [List { users: 1, topics: 1, ..list.clone() }, second_list]);
    assert_eq!(members(&*third, list.id).await, ["bo"]);
    assert_eq!(third.list_topics(list.id).await.expect("topics"), ["東京"]);
    assert_eq!(of(&*third, "bo").await, [last, later.clone()]);
    assert!(create(&*third, "bo", "z", false).await.id > later.id);
    third.close().await;
}
