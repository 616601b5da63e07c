//! Reports: the rules, and the comparison of their lists.

use serde_json::{Value, json};

use crate::check::{Verdict, pages, same};
use crate::model::{Model, User};
use crate::server::Server;

/// The reasons that a reporter chooses from.
pub(crate) const REASONS: [&str; 4] = ["spam", "abuse", "illegal", "other"];

/// What a moderator may have done about a report.
pub(crate) const ACTIONS: [&str; 3] = ["removed", "suspended", "none"];

/// What is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reported {
    User(User),
    Post(u64),
    /// A comment, and its post.
    Comment {
        id: u64,
        post: u64,
    },
}

impl Reported {
    fn member(self) -> (&'static str, Value) {
        match self {
            Self::User(user) => ("user", json!(user)),
            Self::Post(id) => ("post", json!(id)),
            Self::Comment { id, .. } => ("comment", json!(id)),
        }
    }
}

/// A report.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) by: User,
    pub(crate) target: Reported,
    pub(crate) reason: &'static str,
    /// What was done about it. `None`: it is open.
    pub(crate) action: Option<&'static str>,
}

impl Report {
    pub(crate) fn new(by: User, target: Reported, reason: &'static str) -> Self {
        Self { by, target, reason, action: None }
    }

    pub(crate) fn as_json(&self) -> Value {
        let (name, value) = self.target.member();
        json!({ name: value, "reason": self.reason })
    }
}

impl Model {
    /// The open report of what a report is about, by the same user.
    pub(crate) fn same_report(&self, report: &Report) -> Option<u64> {
        let is_same = |(_, it): &(&u64, &Report)| (it.by, it.target, it.action) == (report.by, report.target, None);
        self.reports.iter().find(is_same).map(|(id, _)| *id)
    }

    /// The status of the answer to a report: users report what they see, and nothing of their own.
    pub(crate) fn expected_report(&self, Report { by, target, .. }: &Report) -> u16 {
        let (is_seen, author) = match target {
            Reported::User(user) => (self.may_read_user(by, user), Some(*user)),
            Reported::Post(id) => (self.finds(by, *id), self.posts.get(id).map(|post| post.author)),
            Reported::Comment { id, post } => {
                let is_seen = self.finds_comment(by, *id) || (self.is_removed_own(by, *id) && self.finds(by, *post));
                (is_seen, self.comments.get(id).map(|comment| comment.author))
            }
        };
        match author {
            Some(author) if is_seen && author == *by => 400,
            Some(_) if is_seen => 201,
            _ => 404,
        }
    }
}

/// Compares the open and the closed reports.
pub(crate) async fn reports(node: &Server, model: &Model) -> Verdict {
    for is_open in [true, false] {
        let real = pages(node, "", &format!("/reports?open={is_open}"), 7).await?;
        let known = ["id", "reporter", "user", "post", "comment", "reason", "action"];
        let real: Vec<[&Value; 7]> = real.iter().map(|item| known.map(|name| &item[name])).collect();
        let expected = model.reports.iter().rev().filter(|(_, report)| report.action.is_none() == is_open);
        let expected: Vec<[Value; 7]> = expected.map(|(id, report)| as_shown(*id, report)).collect();
        same(&format!("reports, open: {is_open}"), &real, &expected.iter().map(|item| item.each_ref()).collect())?;
    }
    Ok(())
}

fn as_shown(id: u64, report: &Report) -> [Value; 7] {
    let (member, value) = report.target.member();
    let target = |name: &str| if name == member { value.clone() } else { Value::Null };
    let Report { by, reason, action, .. } = report;
    [json!(id), json!(by), target("user"), target("post"), target("comment"), json!(reason), json!(action)]
}
