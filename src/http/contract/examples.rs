//! An example of each event, encoded by the types that the server pushes.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::model::{
    ClientEvent, Comment, CommentId, GoneReason, Millis, Notification, NotificationId, NotificationPosition,
    NotificationSubject, Person, Post, PostCounts, PostId, RevertReason, ShownPost, Tally, UserId,
};

/// When the first of them happened, in Unix milliseconds.
const TIME: Millis = 1_795_236_753_868;

const POST: PostId = PostId(2_699_932_278_243_328);
const REPOST: PostId = PostId(2_699_932_371_566_592);
const COMMENT: CommentId = CommentId(2_699_932_336_111_616);
const GROUP: NotificationId = NotificationId(5_301);
const POSITION: NotificationPosition = NotificationPosition(412);

/// An event of each kind, by the name of its schema.
pub(super) fn events() -> Option<BTreeMap<&'static str, Value>> {
    let ann = UserId::parse("ann")?;
    let bo = UserId::parse("bo")?;
    let ann_in_short = Person { id: ann.clone(), name: "Ann".into(), avatar: None };
    let post = post(bo.clone(), "Hello from Bo. #rust", None)?;
    let edited = self::post(bo.clone(), "Hello again. #rust", Some(TIME + 37_136))?;
    let comment = comment(ann.clone(), bo);
    let comment_edited = Comment { edited_at: Some(TIME + 21_004), ..comment.clone() };
    let people = BTreeMap::from([(ann.clone(), ann_in_short.clone())]);
    let notification = notification(ann_in_short.clone());
    let marked =
        ClientEvent::NotificationsRead { position: POSITION, id: Some(GROUP), seen: false, unread: 2, unseen: 1 };
    let events = [
        ("PostCreatedEvent", ClientEvent::Post { post: &post }),
        ("PostEditedEvent", ClientEvent::Edited { post: &edited }),
        ("PostGoneEvent", ClientEvent::PostGone { id: POST, reason: GoneReason::Deleted }),
        ("AuthorGoneEvent", ClientEvent::AuthorGone { author: &ann, reason: GoneReason::Hidden }),
        ("TimelineReadEvent", ClientEvent::Read { id: POST, unread: 3 }),
        ("CommentCreatedEvent", ClientEvent::Comment { comment: &comment, people: &people }),
        ("CommentEditedEvent", ClientEvent::CommentEdited { comment: &comment_edited, people: &people }),
        ("CommentGoneEvent", ClientEvent::CommentGone { comment: COMMENT, stays: false }),
        ("PostRepostedEvent", ClientEvent::Reposted { id: POST, repost: REPOST, by: &ann_in_short }),
        ("CountsEvent", ClientEvent::counts(POST, Tally { likes: 3, comments: 1, version: 4 })),
        ("NotificationUpdatedEvent", ClientEvent::Notification { notification: &notification }),
        ("NotificationGoneEvent", ClientEvent::NotificationGone { id: GROUP }),
        ("NotificationsReadEvent", marked),
        ("FiltersChangedEvent", ClientEvent::FiltersChanged {}),
        ("LikeSettledEvent", ClientEvent::LikeSettled { id: POST.0, liked: true, asks: 1, likes: 3, version: 4 }),
        ("LikeChangedEvent", ClientEvent::LikeChanged { id: POST.0, liked: true, likes: 3, version: 4 }),
        ("LikeRevertedEvent", ClientEvent::LikeReverted { id: POST.0, reason: RevertReason::Gone }),
    ];
    events.into_iter().map(|(name, event)| Some((name, serde_json::to_value(event).ok()?))).collect()
}

fn post(author: UserId, text: &str, edited_at: Option<Millis>) -> Option<Box<RawValue>> {
    let post = Post {
        text: text.into(),
        topics: vec!["rust".into()],
        created_at: TIME,
        edited_at,
        ..Post::blank(POST, author)
    };
    to_raw_value(&ShownPost {
        post,
        counts: PostCounts::default(),
        flags: None,
        repost: None,
        quote: None,
        filtered: Vec::new(),
        via: None,
    })
    .ok()
}

fn comment(author: UserId, mentioned: UserId) -> Comment {
    Comment {
        id: COMMENT,
        post: POST,
        reply_to: None,
        author: Some(author),
        text: Some(format!("Welcome, @{mentioned}")),
        mentions: vec![mentioned],
        created_at: TIME + 14_132,
        likes: 0,
        replies: 0,
        edited_at: None,
        liked: None,
        filtered: Vec::new(),
        removed: None,
    }
}

fn notification(person: Person) -> Notification {
    Notification {
        id: GROUP,
        position: POSITION,
        kind: "like".into(),
        content: None,
        object: Some(NotificationSubject::Post { id: POST }),
        comment: None,
        people: vec![person],
        count: 1,
        filtered: Vec::new(),
        created_at: TIME + 16_132,
        updated_at: TIME + 16_132,
        read: false,
        seen: false,
    }
}
