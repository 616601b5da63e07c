//! Reports of users, posts and comments, which the application's moderators decide about.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CommentId, Millis, PostId, UserId};

/// The number of a report. Later reports have larger ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ReportId(pub u64);

/// The reported object: exactly one of the three.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReportTarget {
    /// A user.
    User(UserId),
    /// A post.
    Post(PostId),
    /// A comment.
    Comment(CommentId),
}

impl ReportTarget {
    /// Its kind in ledgers.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::User(_) => "user",
            Self::Post(_) => "post",
            Self::Comment(_) => "comment",
        }
    }

    /// Its id in ledgers.
    pub fn object(&self) -> String {
        match self {
            Self::User(user) => user.as_str().to_owned(),
            Self::Post(post) => post.to_string(),
            Self::Comment(comment) => comment.to_string(),
        }
    }

    /// A reported user as first written: stores have ids in lower case.
    #[must_use]
    pub fn spelled_as(self, about: &UserId) -> Self {
        if let Self::User(_) = self { Self::User(about.clone()) } else { self }
    }

    /// Parses a kind and an id from a ledger.
    pub fn parse(kind: &str, object: &str) -> Option<Self> {
        Some(match kind {
            "user" => Self::User(UserId::parse(object)?),
            "post" => Self::Post(PostId::parse(object)?),
            "comment" => Self::Comment(CommentId::parse(object)?),
            _ => return None,
        })
    }
}

macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "lowercase")]
        pub enum $name {
            $($(#[$of])* $variant),*
        }

        impl $name {
            /// Its name in ledgers.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text),*
                }
            }

            /// Parses a name from a ledger.
            pub fn parse(text: &str) -> Option<Self> {
                match text {
                    $($text => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

named! {
    /// Why something was reported.
    ReportReason {
        /// Unwanted advertising.
        Spam = "spam",
        /// Harassment, threats, hate.
        Abuse = "abuse",
        /// Against the law.
        Illegal = "illegal",
        /// Anything else.
        Other = "other",
    }
}

named! {
    /// What the moderators did about a report.
    ReportAction {
        /// The object was removed.
        Removed = "removed",
        /// The user was limited or suspended.
        Suspended = "suspended",
        /// Nothing.
        None = "none",
    }
}

/// The members of a report that name its object, for the contract: one of them is present.
#[expect(dead_code, reason = "it describes the JSON of a flattened ReportTarget")]
#[derive(JsonSchema)]
struct ReportedObject {
    /// The reported user.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<UserId>,
    /// The reported post.
    #[serde(skip_serializing_if = "Option::is_none")]
    post: Option<PostId>,
    /// The reported comment.
    #[serde(skip_serializing_if = "Option::is_none")]
    comment: Option<CommentId>,
}

/// A report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Report {
    /// Its number.
    pub id: ReportId,
    /// The user who reported.
    pub reporter: UserId,
    /// The reported object.
    #[serde(flatten)]
    #[schemars(with = "ReportedObject")]
    pub target: ReportTarget,
    /// The user who is reported: of a post or a comment, its author.
    pub about: UserId,
    /// Why it was reported.
    pub reason: ReportReason,
    /// What the reporter says about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// When it was reported, in Unix milliseconds.
    pub created_at: Millis,
    /// When it was closed, in Unix milliseconds; absent while it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Millis>,
    /// What was done about it; absent while it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<ReportAction>,
}
