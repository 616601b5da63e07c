//! Conformance tests of revocations and of the origin of users. Each case takes an empty ledger.

use std::collections::HashMap;
use std::sync::Arc;

use feedline::ledger::{Ledger, Revocation, RevocationKind, SessionsEnd};
use feedline::model::UserOrigin;

use crate::support::{NOW, account, conformance, id, users};

conformance! {
    revocations_are_returned_in_order
    later_entries_replace_earlier_ones_of_a_subject
    blocks_and_invalidations_are_taken_back
    expired_entries_are_removed_and_numbers_continue
    tailing_readers_miss_no_entry
    ending_sessions_increments_the_generation
    one_of_two_concurrent_password_changes_wins
    the_origin_of_a_user_is_known
    concurrent_first_request_and_sign_up_agree_on_the_origin
}

type Any = Arc<dyn Ledger>;

fn entry(kind: RevocationKind, subject: &str, value: u64) -> Revocation {
    let expires_at = Some(NOW + 1_000);
    Revocation { kind, subject: subject.into(), owner: None, value, spared: None, at: NOW, expires_at }
}

async fn all(ledger: &dyn Ledger) -> Vec<Revocation> {
    let entries = ledger.revocations_after(0, 1_000).await.unwrap();
    assert!(entries.windows(2).all(|pair| pair[0].0 < pair[1].0), "in the order of their numbers");
    entries.into_iter().map(|(_, entry)| entry).collect()
}

async fn revocations_are_returned_in_order(ledger: Any) {
    assert!(all(&*ledger).await.is_empty());
    let token = Revocation { owner: Some(id("ann")), ..entry(RevocationKind::Token, "a token's jti, as it is é", 0) };
    let block = Revocation { expires_at: None, ..entry(RevocationKind::Block, "bo", 1) };
    let tokens = entry(RevocationKind::UserTokens, "ann", NOW / 1_000);
    let mut numbers = Vec::new();
    for revocation in [&token, &block, &tokens] {
        numbers.push(ledger.revoke(revocation).await.unwrap());
    }
    assert!(0 < numbers[0] && numbers[0] < numbers[1] && numbers[1] < numbers[2]);
    assert_eq!(all(&*ledger).await, [token.clone(), block.clone(), tokens.clone()]);
    assert_eq!(ledger.revocations_after(numbers[0], 1).await.unwrap(), [(numbers[1], block)]);
    assert_eq!(ledger.revocations_after(numbers[2], 9).await.unwrap(), []);
}

async fn later_entries_replace_earlier_ones_of_a_subject(ledger: Any) {
    let first = ledger.revoke(&entry(RevocationKind::UserTokens, "ann", 5)).await.unwrap();
    let other = ledger.revoke(&entry(RevocationKind::Token, "ann", 0)).await.unwrap();
    let again = ledger.revoke(&entry(RevocationKind::UserTokens, "ann", 7)).await.unwrap();
    assert!(first < other && other < again, "it moves to the end");
    let kept: Vec<u64> = ledger.revocations_after(0, 9).await.unwrap().iter().map(|(number, _)| *number).collect();
    assert_eq!(kept, [other, again]);
}

async fn blocks_and_invalidations_are_taken_back(ledger: Any) {
    // A lower value allows nothing that was forbidden; 0 takes an invalidation back.
    let lower = |kind| if kind == RevocationKind::UserTokens { 4 } else { 0 };
    let earlier = |kind| Revocation { expires_at: Some(NOW + 10), ..entry(kind, "ann", lower(kind)) };
    for kind in [RevocationKind::Token, RevocationKind::UserTokens, RevocationKind::Sessions] {
        let owner = Some(id("ann"));
        ledger.revoke(&Revocation { owner: owner.clone(), ..entry(kind, "ann", 9) }).await.unwrap();
        ledger.revoke(&earlier(kind)).await.unwrap();
        let kept = all(&*ledger).await.pop().expect("an entry");
        assert_eq!((kept.value, kept.expires_at, kept.owner), (9, Some(NOW + 1_000), owner), "{kind:?}");
    }
    ledger.revoke(&Revocation { expires_at: None, ..entry(RevocationKind::Block, "ann", 1) }).await.unwrap();
    ledger.revoke(&earlier(RevocationKind::Block)).await.unwrap();
    let kept = all(&*ledger).await.pop().expect("an entry");
    assert_eq!((kept.value, kept.expires_at), (0, Some(NOW + 10)));
    let back = Revocation { expires_at: Some(NOW + 20), ..entry(RevocationKind::UserTokens, "ann", 0) };
    ledger.revoke(&back).await.unwrap();
    let kept = all(&*ledger).await.pop().expect("an entry");
    assert_eq!((kept.value, kept.expires_at), (0, Some(NOW + 20)));
}

async fn expired_entries_are_removed_and_numbers_continue(ledger: Any) {
    let until = |subject: &str, expires_at| Revocation { expires_at, ..entry(RevocationKind::Token, subject, 0) };
    for (n, subject) in (1..).zip(["a", "b", "c"]) {
        ledger.revoke(&until(subject, Some(NOW + n))).await.unwrap();
    }
    let last = ledger.revoke(&until("for ever", None)).await.unwrap();
    assert_eq!(ledger.forget_revocations(NOW + 3, 1).await.unwrap(), 1);
    assert_eq!(ledger.forget_revocations(NOW + 3, 9).await.unwrap(), 1);
    assert_eq!(ledger.forget_revocations(NOW + 3, 9).await.unwrap(), 0);
    let subjects: Vec<String> = all(&*ledger).await.into_iter().map(|entry| entry.subject).collect();
    assert_eq!(subjects, ["c", "for ever"]);
    assert_eq!(ledger.forget_revocations(u64::MAX >> 1, 9).await.unwrap(), 1, "one has no end");
    assert!(ledger.revoke(&until("new", None)).await.unwrap() > last);
}

async fn tailing_readers_miss_no_entry(ledger: Any) {
    const EACH: u64 = 25;
    let writers: Vec<_> = (0..8_u64)
        .map(|writer| {
            let ledger = Arc::clone(&ledger);
            tokio::spawn(async move {
                for n in 0..EACH {
                    let kind = if n % 5 == 0 { RevocationKind::UserTokens } else { RevocationKind::Token };
                    let subject = if n % 5 == 0 { "everybody's".to_owned() } else { format!("{writer}-{n}") };
                    ledger.revoke(&entry(kind, &subject, n)).await.unwrap();
                }
            })
        })
        .collect();
    let (mut seen, mut at) = (HashMap::new(), 0);
    loop {
        let ended = writers.iter().all(tokio::task::JoinHandle::is_finished);
        for (number, entry) in ledger.revocations_after(at, 7).await.unwrap() {
            assert!(number > at);
            at = number;
            seen.insert(entry.subject, entry.value);
        }
        if ended && ledger.revocations_after(at, 1).await.unwrap().is_empty() {
            break;
        }
    }
    assert_eq!(seen.len() as u64, 8 * EACH * 4 / 5 + 1);
    assert_eq!(seen["everybody's"], 20);
}

fn end(spared: Option<&str>) -> SessionsEnd {
    SessionsEnd { spared: spared.map(str::to_owned), at: NOW, expires_at: NOW + 50 }
}

async fn ending_sessions_increments_the_generation(ledger: Any) {
    assert!(ledger.create_account(account("ann")).await.unwrap());
    users(&*ledger, &["bo"]).await;
    assert_eq!(ledger.end_sessions(&id("ann"), &end(None)).await.unwrap(), Some(1));
    // A password change based on an outdated generation is refused and spares no session.
    let password = account("ann").password;
    let late = ledger.change_password(&id("ann"), &password, 0, "$late", &end(Some("s0"))).await.unwrap();
    assert_eq!((late, &all(&*ledger).await[0].spared), (None, &None));
    let (old, new) = (account("ann").password, "$argon2id$new");
    assert_eq!(ledger.change_password(&id("ann"), &old, 1, new, &end(Some("s1"))).await.unwrap(), Some(2));
    let stored = ledger.account(&id("ann")).await.unwrap().expect("an account");
    assert_eq!((stored.password.as_str(), stored.generation), (new, 2));
    let written = Revocation {
        spared: Some("s1".into()),
        expires_at: Some(NOW + 50),
        ..entry(RevocationKind::Sessions, "ann", 2)
    };
    assert_eq!(all(&*ledger).await, [written]);
    for nobody in ["bo", "nobody"] {
        assert_eq!(ledger.end_sessions(&id(nobody), &end(None)).await.unwrap(), None);
        assert_eq!(ledger.change_password(&id(nobody), &old, 0, new, &end(None)).await.unwrap(), None);
    }
    assert_eq!(all(&*ledger).await.len(), 1);
}

async fn one_of_two_concurrent_password_changes_wins(ledger: Any) {
    assert!(ledger.create_account(account("ann")).await.unwrap());
    let (ann, old) = (id("ann"), account("ann").password);
    let change = async |new: &str, spared: &str| {
        ledger.change_password(&ann, &old, 0, new, &end(Some(spared))).await.unwrap().is_some()
    };
    let (one, other) = tokio::join!(change("$one", "s1"), change("$other", "s2"));
    assert!(one != other, "{one} {other}");
    let stored = ledger.account(&ann).await.unwrap().expect("an account");
    assert_eq!(stored.password, if one { "$one" } else { "$other" });
    assert_eq!(stored.generation, 1);
    assert_eq!(all(&*ledger).await[0].spared.as_deref(), Some(if one { "s1" } else { "s2" }));
}

async fn the_origin_of_a_user_is_known(ledger: Any) {
    assert!(ledger.create_account(account("ann")).await.unwrap());
    assert_eq!(ledger.ensure_user(&id("ann"), NOW).await.unwrap().origin, UserOrigin::Account);
    for _ in 0..2 {
        assert_eq!(ledger.ensure_user(&id("bo"), NOW).await.unwrap().origin, UserOrigin::Application);
    }
    assert!(!ledger.create_account(account("bo")).await.unwrap());
    let origin = async |user| ledger.user_origin(&id(user)).await.unwrap().map(|known| known.origin);
    assert_eq!(origin("ann").await, Some(UserOrigin::Account));
    assert_eq!(origin("bo").await, Some(UserOrigin::Application));
    assert_eq!(origin("nobody").await, None);
}

async fn concurrent_first_request_and_sign_up_agree_on_the_origin(ledger: Any) {
    for n in 0..40 {
        let name = format!("user{n}");
        let user = id(&name);
        let (signed_up, origin) = tokio::join!(ledger.create_account(account(&name)), ledger.ensure_user(&user, NOW));
        let expected = if signed_up.unwrap() { UserOrigin::Account } else { UserOrigin::Application };
        assert_eq!(origin.unwrap().origin, expected, "{name}");
        assert_eq!(ledger.user_origin(&user).await.unwrap().map(|known| known.origin), Some(expected));
    }
}
