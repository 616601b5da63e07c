//! The removal of posts and comments by the application's backend.

use super::{Comment, FormerPost, Millis, Post, Removal, UserId, Visibility};

impl Post {
    /// The removed post. It is stored like a post that names nobody in `only_to`, so it is in no list and no count but
    /// its author's. Its version grows, so that an edit that read the former post is refused.
    #[must_use]
    pub fn removed(&self, reason: Option<String>, now: Millis) -> Self {
        let former = FormerPost { visibility: self.visibility.clone(), edited_at: self.edited_at };
        Self {
            visibility: Visibility::OnlyTo(Vec::new()),
            edited_at: Some(self.edited_at.map_or(now, |last| now.max(last + 1))),
            removed: Some(Removal { reason, former: Some(former) }),
            ..self.clone()
        }
    }

    /// The post as it was before its removal; `None`: it is not removed.
    pub fn restored(&self) -> Option<Self> {
        let FormerPost { visibility, edited_at } = self.removed.as_ref()?.former.clone()?;
        Some(Self { visibility, edited_at, removed: None, ..self.clone() })
    }

    /// A removed post as its author sees it; `None`: it is not removed.
    pub fn shown_to_author(&self) -> Option<Self> {
        let removed = Some(Removal { reason: self.removed.as_ref()?.reason.clone(), former: None });
        Some(Self { removed, ..self.restored()? })
    }
}

/// A removed comment, with all that its row in the thread lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedComment {
    /// The comment as it was, with [`Comment::removed`].
    pub comment: Comment,
    /// Its author.
    pub author: UserId,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PostId;

    #[test]
    fn a_removed_post_comes_back_as_it_was() {
        let text = r#"{"id":7,"author":"ann","text":"a","topics":["t"],"visibility":{"not_to":["bo"]},"created_at":3}"#;
        let post: Post = serde_json::from_str(text).expect("a post");
        assert_eq!((post.id, post.restored()), (PostId(7), None));
        let removed = post.removed(Some("spam".into()), 9);
        assert_eq!((&removed.visibility, removed.edited_at), (&Visibility::OnlyTo(Vec::new()), Some(9)));
        let stored: Post = serde_json::from_str(&serde_json::to_string(&removed).expect("JSON")).expect("a post");
        assert_eq!(stored, removed);
        assert_eq!(serde_json::to_string(&stored.restored().expect("a post")).expect("JSON"), text);
        let shown = serde_json::to_string(&stored.shown_to_author().expect("a post")).expect("JSON");
        let open = text.strip_suffix('}').expect("an object");
        assert_eq!(shown, format!(r#"{open},"removed":{{"reason":"spam"}}}}"#));
    }
}
