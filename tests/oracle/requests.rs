//! The HTTP request of each user action.

use serde_json::{Value, json};

use crate::actions::Act;
use crate::comment_policy::CommentPolicy;
use crate::ends;
use crate::filters::{self, Filter, FilterChange};
use crate::model::{Edge, Mark, User, Visibility};
use crate::threads::REMOVAL_REASON;

/// The HTTP request of an action.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) user: User,
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) body: Value,
    /// The idempotency key, for writes that may be retried.
    pub(crate) key: Option<String>,
}

impl Act {
    pub(crate) fn call(&self, key: Option<String>) -> Call {
        let (method, path, body) = self.request();
        Call { user: self.by(), method, path, body, key }
    }

    fn request(&self) -> (&'static str, String, Value) {
        match self {
            Self::Publish(post) => {
                let mut body = json!({ "text": post.text });
                if let Some(topic) = post.topic {
                    body["topics"] = json!([topic]);
                }
                if post.visibility != Visibility::Public {
                    body["visibility"] = post.visibility.as_json();
                }
                if let Some(quoted) = post.quote {
                    body["quote"] = json!(quoted);
                }
                if post.comment_policy != CommentPolicy::Everyone {
                    body["comment_policy"] = json!(post.comment_policy.name());
                }
                ("POST", "/posts".into(), body)
            }
            Self::Edit { id, text, visibility, comment_policy, .. } => {
                let mut body = json!({ "text": text });
                if let Some(visibility) = visibility {
                    body["visibility"] = visibility.as_json();
                }
                if let Some(policy) = comment_policy {
                    body["comment_policy"] = json!(policy.name());
                }
                ("PATCH", format!("/posts/{id}"), body)
            }
            Self::Delete { id, .. } => ("DELETE", format!("/posts/{id}"), Value::Null),
            Self::Set { edge, to, on, .. } => {
                let what = match edge {
                    Edge::Follow => "follow",
                    Edge::Hide => "hide",
                    Edge::Mute => "mute",
                    Edge::Block => "block",
                    Edge::RepostsOff => "reposts/mute",
                };
                (set_or_end(*on), format!("/users/{to}/{what}"), Value::Null)
            }
            Self::Comment(comment) => {
                let mut body = json!({ "text": comment.text });
                if let Some(parent) = comment.reply_to {
                    body["reply_to"] = json!(parent);
                }
                ("POST", format!("/posts/{}/comments", comment.post), body)
            }
            Self::Uncomment { id, .. } => ("DELETE", format!("/comments/{id}"), Value::Null),
            Self::RemoveComment { id, on, .. } => {
                let body = if *on { json!({ "reason": REMOVAL_REASON }) } else { Value::Null };
                (set_or_end(*on), format!("/comments/{id}/removal"), body)
            }
            Self::Mark { mark, id, on, is_private, .. } => {
                let path = match mark {
                    Mark::Like => format!("/posts/{id}/like"),
                    Mark::Favourite => format!("/favourites/post/{id}"),
                    Mark::CommentLike => format!("/comments/{id}/like"),
                };
                let body = if *on && *is_private { json!({ "private": true }) } else { Value::Null };
                (set_or_end(*on), path, body)
            }
            Self::Lock { on, .. } => ("PATCH", "/users/me".into(), json!({ "locked": on })),
            Self::SetQuotable { quotable, .. } => ("PATCH", "/users/me".into(), json!({ "quotable": quotable.name() })),
            Self::Pin { posts, .. } => ("PATCH", "/users/me".into(), json!({ "pinned": posts })),
            Self::Answer { from, accepts, .. } => {
                (set_or_end(*accepts), format!("/users/me/requests/{from}"), Value::Null)
            }
            Self::RemoveFollower { from, .. } => ("DELETE", format!("/users/me/followers/{from}"), Value::Null),
            Self::Suspend { user, on } => {
                let body = if *on { json!({ "level": "suspended" }) } else { Value::Null };
                (set_or_end(*on), format!("/users/{user}/suspend"), body)
            }
            Self::Limit { user } => ("PUT", format!("/users/{user}/suspend"), json!({ "level": "limited" })),
            Self::Remove { id, on } => {
                let body = if *on { json!({ "reason": REMOVAL_REASON }) } else { Value::Null };
                (set_or_end(*on), format!("/posts/{id}/removal"), body)
            }
            Self::Repost { id, on, is_narrow, .. } => {
                let body = if *is_narrow { json!({ "visibility": "followers" }) } else { Value::Null };
                (set_or_end(*on), format!("/posts/{id}/repost"), body)
            }
            Self::Detach { id, .. } => ("DELETE", format!("/posts/{id}/quote"), Value::Null),
            Self::DetachAll { user, .. } => ("DELETE", format!("/quotes?user={user}"), Value::Null),
            Self::CreateFilter(filter) => {
                let Filter { words, hides, contexts, is_whole, .. } = filter;
                let mut body = json!({ "words": words, "in": filters::names(contexts) });
                body["action"] = json!(filters::action(*hides));
                // Whole words are the default.
                if !is_whole {
                    body["whole_word"] = json!(false);
                }
                ("POST", "/filters".into(), body)
            }
            Self::ChangeFilter { id, change, .. } => {
                let body = match change {
                    FilterChange::Words(words) => json!({ "words": words }),
                    FilterChange::Hides(hides) => json!({ "action": filters::action(*hides) }),
                    FilterChange::Contexts(contexts) => json!({ "in": filters::names(contexts) }),
                    FilterChange::Whole(is_whole) => json!({ "whole_word": is_whole }),
                    FilterChange::End => json!({ "until": ends::end() }),
                };
                ("PATCH", format!("/filters/{id}"), body)
            }
            Self::DeleteFilter { id, .. } => ("DELETE", format!("/filters/{id}"), Value::Null),
            Self::CreateList(list) => {
                ("POST", "/lists".into(), json!({ "name": list.name, "exclusive": list.is_exclusive }))
            }
            Self::SetExclusive { id, on, .. } => ("PATCH", format!("/lists/{id}"), json!({ "exclusive": on })),
            Self::RenameList { id, name, .. } => ("PATCH", format!("/lists/{id}"), json!({ "name": name })),
            Self::SetMember { id, member, on, .. } => {
                (set_or_end(*on), format!("/lists/{id}/{}", member.path()), Value::Null)
            }
            Self::DeleteList { id, .. } => ("DELETE", format!("/lists/{id}"), Value::Null),
            Self::FollowTopic { topic, on, .. } => (set_or_end(*on), format!("/topics/{topic}/follow"), Value::Null),
            Self::Notify(sent) => ("POST", "/notifications".into(), sent.as_json()),
            Self::Report(report) => ("POST", "/reports".into(), report.as_json()),
            Self::CloseReport { id, action } => ("PUT", format!("/reports/{id}"), json!({ "action": action })),
            Self::MuteBriefly { to, .. } => ("PUT", format!("/users/{to}/mute"), json!({ "until": ends::end() })),
            Self::SuspendBriefly { user } => {
                let body = json!({ "level": "suspended", "reason": "for a while", "until": ends::end() });
                ("PUT", format!("/users/{user}/suspend"), body)
            }
        }
    }
}

fn set_or_end(on: bool) -> &'static str {
    if on { "PUT" } else { "DELETE" }
}
