//! The texts of the posts and comments that pushes quote.

use std::collections::{HashMap, HashSet};

use crate::feed::content::PostCache;
use crate::feed::error::Result;
use crate::ledger::{Ledger, POST_KIND};
use crate::model::{Comment, CommentId, ContentId, Notification, NotificationSubject, PostId};

/// The object whose text a push quotes: the one that mentions its receiver, the one that is liked or reposted, the
/// post that quotes, or the post of an alert. Comments and replies quote their own text, and a follow has none.
pub(super) fn text_of(notification: &Notification) -> Option<ContentId> {
    matches!(&*notification.kind, "mention" | "like" | "repost" | "quote" | POST_KIND)
        .then(|| notification.object.map(content))
        .flatten()
}

/// The texts of objects that exist.
///
/// # Errors
/// If the ledger cannot be read.
pub(super) async fn load_texts(
    ledger: &dyn Ledger,
    posts: &PostCache,
    objects: impl Iterator<Item = ContentId> + Send,
) -> Result<HashMap<ContentId, String>> {
    let objects: HashSet<ContentId> = objects.collect();
    let mut of_posts: Vec<PostId> = Vec::new();
    let mut of_comments: Vec<CommentId> = Vec::new();
    for object in objects {
        match object {
            ContentId::Post(id) => of_posts.push(id),
            ContentId::Comment(id) => of_comments.push(id),
        }
    }
    let mut texts = HashMap::new();
    if !of_posts.is_empty() {
        let found = posts.get(of_posts).await?;
        texts.extend(found.into_iter().map(|(id, cached)| (ContentId::Post(id), cached.post.text.clone())));
    }
    if !of_comments.is_empty() {
        let found = ledger.comments(&of_comments).await?;
        let text = |comment: Comment| Some((ContentId::Comment(comment.id), comment.text?));
        texts.extend(found.into_iter().filter_map(text));
    }
    Ok(texts)
}

/// The object of a notification as content.
fn content(object: NotificationSubject) -> ContentId {
    match object {
        NotificationSubject::Post { id } => ContentId::Post(id),
        NotificationSubject::Comment { id, .. } => ContentId::Comment(id),
    }
}
