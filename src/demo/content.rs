//! The people of the demonstration, and what they wrote. The text is `feed.json`.

use serde::Deserialize;

use crate::model::Visibility;

/// All of it.
#[derive(Deserialize)]
pub(super) struct Content {
    /// Ids, names and bios.
    pub(super) people: Vec<(String, String, String)>,
    /// The posts, newest first.
    pub(super) posts: Vec<DemoPost>,
    /// What people write while the demonstration runs.
    pub(super) live: LiveTexts,
}

/// Texts for a running demonstration, in any order.
#[derive(Deserialize)]
pub(super) struct LiveTexts {
    /// Pairs of an author and a text. The first person follows all of these authors.
    pub(super) posts: Vec<(String, String)>,
    /// Comments that fit every post.
    pub(super) comments: Vec<String>,
}

/// A post with its thread.
#[derive(Deserialize)]
pub(super) struct DemoPost {
    /// The id of its author.
    pub(super) by: String,
    /// Its age, in hours.
    pub(super) hours: f64,
    /// The text, with `#topics`.
    pub(super) text: String,
    /// The name of its picture in `web/demo/`, without `.svg`.
    #[serde(default)]
    pub(super) picture: Option<String>,
    /// The text alternative of the picture.
    #[serde(default)]
    pub(super) alt: Option<String>,
    /// The users that can see it.
    #[serde(default)]
    pub(super) visibility: Visibility,
    /// The ids of users who keep it as a favourite.
    #[serde(default)]
    pub(super) favourites: Vec<String>,
    /// The comments, oldest first.
    #[serde(default)]
    pub(super) comments: Vec<DemoComment>,
}

/// A comment with its replies.
#[derive(Deserialize)]
pub(super) struct DemoComment {
    /// The id of its author.
    pub(super) by: String,
    /// The text.
    pub(super) text: String,
    /// The replies, oldest first.
    #[serde(default)]
    pub(super) replies: Vec<DemoComment>,
}

impl Content {
    /// Parses the text in the binary.
    ///
    /// # Errors
    /// If it is not valid, which a test excludes.
    pub(super) fn load() -> serde_json::Result<Self> {
        serde_json::from_str(include_str!("feed.json"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::demo::seed::NOT_FOLLOWED;
    use crate::model::UserId;

    fn authors<'a>(comments: &'a [DemoComment], found: &mut Vec<&'a str>) {
        for comment in comments {
            found.push(&comment.by);
            authors(&comment.replies, found);
        }
    }

    #[test]
    fn content_is_consistent() {
        let content = Content::load().expect("valid JSON");
        let people: HashSet<&str> = content.people.iter().map(|(id, ..)| &**id).collect();
        assert_eq!(people.len(), content.people.len(), "ids are unique");
        assert!(people.iter().all(|id| UserId::parse(id).is_some()));
        for post in &content.posts {
            let mut wrote = vec![&*post.by];
            authors(&post.comments, &mut wrote);
            wrote.extend(post.favourites.iter().map(String::as_str));
            assert!(wrote.iter().all(|id| people.contains(id)), "{wrote:?}");
            if let Some(name) = &post.picture {
                let file = format!("{}/web/demo/{name}.svg", env!("CARGO_MANIFEST_DIR"));
                assert!(std::fs::exists(&file).expect("a readable folder"), "{file}");
            }
            assert_eq!(post.picture.is_some(), post.alt.is_some(), "pictures have a text alternative");
        }
        assert!(content.live.posts.iter().all(|(by, _)| people.contains(&**by) && !NOT_FOLLOWED.contains(&&**by)));
        assert!(content.posts.is_sorted_by(|newer, older| newer.hours <= older.hours));
    }
}
