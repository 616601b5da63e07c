//! Conformance tests of profiles, user search, suggestions and post alerts. Each case takes an empty ledger.

use std::sync::Arc;

use feedline::ledger::{Ledger, ProfileChange, SuggestionLimits, fold};
use feedline::model::{About, UserId};
use serde_json::{Map, Value, json};

use crate::support::{NOW, account, conformance, follow, id, users};

conformance! {
    profile_patches_keep_other_fields
    bios_and_data_are_changed_one_by_one
    users_are_found_by_prefix_of_id_or_name
    search_pages_hold_each_user_once
    search_finds_the_new_name_only
    ids_are_found_in_any_case_and_shown_as_first_written
    suggestions_are_ranked_and_exclude_followees
    suggestion_scans_are_bounded
    post_alerts_are_stored_once_and_bounded
}

type Any = Arc<dyn Ledger>;

async fn rename(ledger: &dyn Ledger, user: &str, name: &str) {
    let change = ProfileChange { name: Some(name.into()), ..ProfileChange::default() };
    ledger.update_user(&id(user), &change).await.unwrap().expect("a user");
}

/// All pages of this size, joined.
async fn found(ledger: &dyn Ledger, prefix: &str, limit: usize) -> Vec<String> {
    let mut all = Vec::new();
    let mut last: Option<feedline::ledger::UserMatch> = None;
    loop {
        let after = last.as_ref().map(|last| (last.term.as_str(), &last.user.id));
        let page = ledger.search_users(prefix, after, limit).await.unwrap();
        assert!(page.len() <= limit);
        let Some(end) = page.last() else { return all };
        last = Some(end.clone());
        all.extend(page.into_iter().map(|found| found.user.id.to_string()));
    }
}

async fn profile_patches_keep_other_fields(ledger: Any) {
    assert!(ledger.create_account(account("ann")).await.unwrap());
    let change = async |name: Option<&str>, avatar: Option<Option<&str>>| {
        let avatar = avatar.map(|avatar| avatar.map(Into::into));
        let change = ProfileChange { name: name.map(Into::into), avatar, ..ProfileChange::default() };
        let changed = ledger.update_user(&id("ann"), &change).await.unwrap().expect("ann").user;
        let read = ledger.users(&[id("ann")]).await.unwrap().remove(0);
        assert_eq!((&changed, changed.created_at), (&read, NOW), "the answer is what is kept");
        (changed.name, changed.avatar)
    };
    let (old, new, url) = ("Name of ann".to_owned(), "É \u{1F600}".to_owned(), "https://a.example/1".to_owned());
    assert_eq!(change(None, None).await, (old.clone(), None));
    assert_eq!(change(None, Some(Some(&url))).await, (old, Some(url.clone())));
    assert_eq!(change(Some(&new), None).await, (new.clone(), Some(url)));
    assert_eq!(change(None, Some(None)).await, (new, None));
    assert_eq!(ledger.update_user(&id("nobody"), &ProfileChange::default()).await.unwrap(), None);
}

async fn bios_and_data_are_changed_one_by_one(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let object = |value: Value| value.as_object().cloned().expect("an object");
    let (bio, data) = ("É \u{1F600}\n\"quoted\"".to_owned(), object(json!({ "a": { "b": ["\u{0}", 1.5, null] } })));
    let change = async |bio: Option<Option<&str>>, data: Option<Option<Map<String, Value>>>| {
        let bio = bio.map(|bio| bio.map(Into::into));
        let change = ProfileChange { bio, data, ..ProfileChange::default() };
        let changed = ledger.update_user(&id("ann"), &change).await.unwrap().expect("ann");
        let profile = ledger.profile(&id("ann"), Some(&id("bo")), 0).await.unwrap().expect("ann");
        assert_eq!((changed.user, &changed.about), (profile.user, &profile.about), "the answer is what is kept");
        (changed.about.bio, changed.about.data)
    };
    assert_eq!(change(None, None).await, (None, None));
    assert_eq!(change(Some(Some(&bio)), None).await, (Some(bio.clone()), None));
    assert_eq!(change(None, Some(Some(data.clone()))).await, (Some(bio.clone()), Some(data.clone())));
    assert_eq!(change(None, None).await, (Some(bio), Some(data.clone())));
    assert_eq!(change(Some(None), None).await, (None, Some(data)));
    assert_eq!(change(None, Some(Some(Map::new()))).await, (None, Some(Map::new())), "an empty object is data");
    assert_eq!(change(None, Some(None)).await, (None, None));
    change(Some(Some("back")), Some(Some(Map::new()))).await;
    let other = ledger.profile(&id("bo"), None, 0).await.unwrap().expect("bo");
    assert_eq!(other.about, About::default());
    // Nothing is left after an erasure, and nothing can be added.
    assert!(ledger.begin_erasure(&id("ann"), NOW).await.unwrap());
    let change = ProfileChange { bio: Some(Some("again".into())), ..ProfileChange::default() };
    assert_eq!(ledger.update_user(&id("ann"), &change).await.unwrap(), None);
}

async fn users_are_found_by_prefix_of_id_or_name(ledger: Any) {
    users(&*ledger, &["ann_1", "anna", "bo", "cy", "a.n", "a_n", "a-n"]).await;
    rename(&*ledger, "bo", "ANNABEL Lee").await;
    rename(&*ledger, "cy", "ÉMILE 東京").await;
    assert_eq!(found(&*ledger, "ann", 9).await, ["ann_1", "anna", "bo"]);
    assert_eq!(found(&*ledger, "annabel l", 9).await, ["bo"]);
    assert_eq!(found(&*ledger, "lee", 9).await, ["bo"], "a later word");
    assert_eq!(found(&*ledger, "ee", 9).await, [""; 0], "the beginning of a word");
    assert_eq!(found(&*ledger, &fold("東"), 9).await, ["cy"]);
    rename(&*ledger, "bo", "Anna-Maria (ANNA) de la Cruz").await;
    for written in ["maria", "anna)", "la cruz", "de la", "bo"] {
        assert_eq!(found(&*ledger, written, 9).await, ["bo"], "{written}");
    }
    assert_eq!(found(&*ledger, "anna", 9).await, ["anna", "bo"], "each user once");
    assert_eq!(found(&*ledger, "lee", 9).await, [""; 0], "the former name");
    rename(&*ledger, "bo", "(Anna) Lee").await;
    for written in ["(anna", "anna)", "lee"] {
        assert_eq!(found(&*ledger, written, 9).await.last().map(String::as_str), Some("bo"), "{written}");
    }
    rename(&*ledger, "bo", "ANNABEL Lee").await;
    for written in ["ÉMILE 東", "emile", "E\u{301}mile 東京"] {
        assert_eq!(found(&*ledger, &fold(written), 9).await, ["cy"], "{written}");
    }
    assert_eq!(found(&*ledger, "a_", 9).await, ["a_n"], "no pattern");
    assert_eq!(found(&*ledger, "a%", 9).await, [""; 0]);
    assert_eq!(found(&*ledger, "ANN", 9).await, [""; 0], "folding the prefix is the caller's");
    assert!(ledger.search_users("\u{10FFFF}", None, 9).await.unwrap().is_empty());
    assert!(ledger.search_users("a", None, 0).await.unwrap().is_empty());
}

async fn search_pages_hold_each_user_once(ledger: Any) {
    let ids: Vec<String> = (0..9).map(|n| format!("x{n}")).collect();
    users(&*ledger, &ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
    // The name of x7 sorts before its id, the name of x1 sorts after its id, three users have the same name, and the
    // last word of the name of x8 is the name of x7.
    rename(&*ledger, "x7", "x").await;
    rename(&*ledger, "x1", "xz").await;
    for same in ["x2", "x3", "x4"] {
        rename(&*ledger, same, "X5 too").await;
    }
    rename(&*ledger, "x8", "no x").await;
    let expected = ["x7", "x8", "x0", "x1", "x2", "x3", "x4", "x5", "x6"];
    for limit in [1, 2, 3, 100] {
        assert_eq!(found(&*ledger, "x", limit).await, expected, "{limit} a page");
    }
    assert_eq!(found(&*ledger, "x5", 2).await, ["x5", "x2", "x3", "x4"]);
    assert_eq!(found(&*ledger, "no", 2).await, ["x8"]);
}

async fn search_finds_the_new_name_only(ledger: Any) {
    users(&*ledger, &["j.smith"]).await;
    assert_eq!(found(&*ledger, "smith", 9).await, [""; 0], "a name that nobody has given has no words");
    assert_eq!(found(&*ledger, "j.s", 9).await, ["j.smith"]);
    assert!(ledger.create_account(account("ann")).await.unwrap());
    assert_eq!(found(&*ledger, "name of", 9).await, ["ann"]);
    rename(&*ledger, "ann", "Queen").await;
    assert_eq!(found(&*ledger, "name of", 9).await, [""; 0]);
    assert_eq!(found(&*ledger, "queen", 9).await, ["ann"]);
    rename(&*ledger, "ann", "Ann").await;
    assert_eq!(found(&*ledger, "ann", 9).await, ["ann"]);
    let change = ProfileChange { avatar: Some(Some("https://a.example".into())), ..ProfileChange::default() };
    ledger.update_user(&id("ann"), &change).await.unwrap();
    assert_eq!(found(&*ledger, "ann", 9).await, ["ann"]);
}

async fn second(ledger: &dyn Ledger, reach: SuggestionLimits) -> Vec<(String, u64)> {
    let people = ledger.second_degree(&id("i"), reach).await.unwrap();
    people.into_iter().map(|(user, mutual)| (user.to_string(), mutual)).collect()
}

fn ranked(people: &[(&str, u64)]) -> Vec<(String, u64)> {
    people.iter().map(|(user, mutual)| ((*user).to_owned(), *mutual)).collect()
}

const FAR: SuggestionLimits = SuggestionLimits { followees: 100, each: 100, people: 100 };

async fn ids_are_found_in_any_case_and_shown_as_first_written(ledger: Any) {
    let written = |text: &str| UserId::parse(text).unwrap();
    for (first, later) in [("Kim", "KIM"), ("tIM", "tim"), ("lea", "Lea")] {
        for text in [first, later] {
            assert_eq!(ledger.ensure_user(&written(text), NOW).await.unwrap().id.shown(), first);
            assert_eq!(ledger.user_origin(&written(text)).await.unwrap().unwrap().id.shown(), first);
            let found = ledger.users(&[written(text)]).await.unwrap();
            let found: Vec<_> = found.iter().map(|user| (user.id.shown(), &*user.name)).collect();
            assert_eq!(found, [(first, first)], "{text}");
            assert_eq!(ledger.profile(&written(text), None, 0).await.unwrap().unwrap().user.id.shown(), first);
        }
    }
    let [author, reader] = ["Kim", "TIM"].map(written);
    follow(&*ledger, &reader, &author).await;
    let found = ledger.followers(&author, None, 9).await.unwrap().items;
    assert_eq!(found.iter().map(|user| user.id.shown()).collect::<Vec<_>>(), ["tIM"]);
}

async fn suggestions_are_ranked_and_exclude_followees(ledger: Any) {
    users(&*ledger, &["i", "a", "b", "c", "x", "y", "z", "-z", "far"]).await;
    assert!(second(&*ledger, FAR).await.is_empty());
    for followee in ["a", "b", "c"] {
        follow(&*ledger, &id("i"), &id(followee)).await;
        follow(&*ledger, &id(followee), &id("i")).await;
        follow(&*ledger, &id(followee), &id("y")).await;
    }
    for (from, to) in [("a", "b"), ("a", "z"), ("a", "-z"), ("b", "x"), ("c", "x"), ("y", "far"), ("far", "i")] {
        follow(&*ledger, &id(from), &id(to)).await;
    }
    assert_eq!(second(&*ledger, FAR).await, ranked(&[("y", 3), ("x", 2), ("-z", 1), ("z", 1)]));
    follow(&*ledger, &id("i"), &id("y")).await;
    assert_eq!(second(&*ledger, FAR).await, ranked(&[("x", 2), ("-z", 1), ("far", 1), ("z", 1)]));
}

async fn suggestion_scans_are_bounded(ledger: Any) {
    users(&*ledger, &["i", "old", "new", "o1", "n1", "n2", "n3"]).await;
    follow(&*ledger, &id("i"), &id("old")).await;
    follow(&*ledger, &id("i"), &id("new")).await;
    follow(&*ledger, &id("old"), &id("o1")).await;
    for followee in ["n1", "old", "n2", "n3"] {
        follow(&*ledger, &id("new"), &id(followee)).await;
    }
    let near = second(&*ledger, SuggestionLimits { followees: 1, each: 2, people: 9 }).await;
    assert_eq!(near, ranked(&[("n2", 1), ("n3", 1)]), "the latest of the latest");
    let near = second(&*ledger, SuggestionLimits { followees: 1, each: 9, people: 9 }).await;
    assert_eq!(near, ranked(&[("n1", 1), ("n2", 1), ("n3", 1)]), "old is followed, though not looked at");
    assert_eq!(second(&*ledger, SuggestionLimits { people: 2, ..FAR }).await, ranked(&[("n1", 1), ("n2", 1)]));
}

async fn post_alerts_are_stored_once_and_bounded(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy", "dee"]).await;
    let ask = async |author: &str| ledger.enable_post_alerts(&id("ann"), &id(author), NOW, 2).await.unwrap();
    let asked = async |author: &str| {
        let profile = ledger.profile(&id(author), Some(&id("ann")), 0).await.unwrap().unwrap();
        profile.edges.notify
    };
    assert!(!asked("bo").await);
    assert!(ask("bo").await && ask("cy").await && ask("bo").await);
    assert!(!ask("dee").await && !asked("dee").await, "one too many");
    assert!(asked("bo").await && asked("cy").await);
    assert!(!ledger.profile(&id("bo"), None, 0).await.unwrap().unwrap().edges.notify);
    assert!(!ledger.profile(&id("ann"), Some(&id("bo")), 0).await.unwrap().unwrap().edges.notify, "one way only");
    for _ in 0..2 {
        ledger.disable_post_alerts(&id("ann"), &id("bo")).await.unwrap();
    }
    assert!(!asked("bo").await && ask("dee").await);
}
