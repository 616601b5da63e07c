//! Inboxes of lists.

use std::time::Duration;

use feedline::broker::{InboxOptions, InboxState};
use feedline::model::{Epoch, InboxId, ListId, PostId};

use crate::engine::{Engine, PATIENCE, ids, inbox_options};

/// Between two writes to an inbox that is about to expire.
const PAUSE: Duration = Duration::from_millis(5);

/// Opens an inbox that does not exist, and fills it. Returns its epoch.
async fn create(engine: &Engine, inbox: &InboxId, past: &[u64]) -> Epoch {
    let InboxState::Unfilled(epoch) = engine.broker.open_inbox(inbox).await.unwrap() else {
        panic!("the inbox is already filled");
    };
    let filled = engine.broker.fill_inbox(inbox, &epoch, &ids(past), PostId::ZERO, 0).await.unwrap();
    assert_eq!(filled.expect("the inbox exists").offset, past.len() as u64);
    epoch
}

pub(crate) async fn idle_inboxes_of_lists_expire(engine: Engine) {
    let idle = Duration::from_millis(300);
    let engine = engine.with_inboxes(InboxOptions { idle, ..inbox_options() }).await;
    let list = InboxId::List(ListId(1));
    let first = create(&engine, &list, &[1]).await;
    let expiry = async {
        for post in 2.. {
            if engine.broker.merge_inbox(&list, &ids(&[post]), PostId::ZERO).await.unwrap() == 0 {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(PATIENCE, expiry).await.expect("it expires in spite of regular writes");
    assert_eq!(engine.broker.read_inbox(&list).await.unwrap(), None);
    let second = create(&engine, &list, &[4, 5]).await;
    assert_ne!(second, first);
}
