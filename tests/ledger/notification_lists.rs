//! The order of lists of notifications, and the cost of groups that grow.

use std::sync::Arc;

use feedline::ledger::{Ledger, MarkUpTo, NotificationEvent, NotificationMark, NotificationStore};
use feedline::model::{ContentId, NotificationKind, NotificationPosition, PostId};

use crate::support::{NOW, conformance, database, id, open_at, updates, users};

conformance! {
    lists_and_unread_groups_follow_the_last_events
}

type Any = Arc<dyn Ledger>;

fn like(post: u64, by: u64) -> NotificationEvent {
    NotificationEvent::new(NotificationKind::Like(ContentId::Post(PostId(post))), &id(&format!("u{by}")))
}

/// Groups that grow at the front keep their place there. Neither pages nor unread groups may differ from those by the
/// last event, wherever the mark is.
async fn lists_and_unread_groups_follow_the_last_events(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    let ann = id("ann");
    // Runs of likes of one post, then of others; marks in the middle of runs.
    let posts = [1, 1, 1, 2, 1, 1, 3, 3, 3, 2, 2, 1, 4, 4, 4, 4, 2, 3, 3, 1, 1, 1];
    for mark in 0..=posts.len() as u64 {
        for (by, post) in (0..).zip(posts) {
            ledger.notify(&ann, &[like(10 * mark + post, by)], NOW + by, 1_000).await.unwrap();
        }
        let all = ledger.notifications(&ann, None, 999).await.unwrap();
        let newest = all[0].seq;
        assert!(all.is_sorted_by(|one, next| one.seq > next.seq && one.place > next.place), "{all:?}");
        assert!(all.iter().all(|group| group.place <= group.seq));
        let mut paged = Vec::new();
        while let page = ledger.notifications(&ann, paged.last().map(|(place, _)| *place), 3).await.unwrap()
            && !page.is_empty()
        {
            paged.extend(page.iter().map(|group| (group.place, group.id)));
        }
        assert_eq!(paged, all.iter().map(|group| (group.place, group.id)).collect::<Vec<_>>());
        let upto = u64::try_from(newest).unwrap() - (posts.len() as u64 - mark);
        let upto = MarkUpTo::Position(NotificationPosition(upto));
        ledger.mark_notifications(&ann, upto, NotificationMark::Read, None).await.unwrap();
        let all = ledger.notifications(&ann, None, 999).await.unwrap();
        let unread: Vec<_> = all.into_iter().filter(|group| !group.read).collect();
        assert_eq!(ledger.unread_notifications(&ann, 999).await.unwrap(), unread, "the mark is at {mark}");
        ledger.mark_notifications(&ann, MarkUpTo::Everything, NotificationMark::Read, None).await.unwrap();
        assert!(ledger.unread_notifications(&ann, 999).await.unwrap().is_empty());
    }
}

/// An update that changes no indexed column leaves the indexes as they are (HOT).
#[tokio::test]
async fn a_group_that_grows_at_the_front_leaves_the_indexes_alone() {
    let (server, name) = database().await;
    let ledger = open_at(server, &name).await;
    users(&*ledger, &["ann"]).await;
    for by in 0..200 {
        ledger.notify(&id("ann"), &[like(1, by)], NOW, 1_000).await.unwrap();
    }
    ledger.close().await;
    let (updates, hot) = updates(server, &name, "notifications%", 199).await;
    assert!(hot * 100 >= updates * 95, "{hot} of {updates} updates");
}
