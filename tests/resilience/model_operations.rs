//! The operations of the users in the model's random histories.

use serde_json::{Value, json};

use crate::api::attempt;
use crate::server::Server;

pub(crate) const USERS: [&str; 5] = ["ann", "bo", "cy", "dee", "eve"];

/// A write of a user.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    /// The author and the number of the post.
    Write(&'static str, usize),
    /// The author and the id of the post.
    Delete(&'static str, u64),
    Edge {
        reader: &'static str,
        author: &'static str,
        follows: bool,
    },
}

/// Operations are equal if they must not run concurrently, because the model could not predict the outcome.
impl PartialEq for Operation {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Write(_, one), Self::Write(_, other)) => one == other,
            (Self::Delete(_, one), Self::Delete(_, other)) => one == other,
            (Self::Edge { reader, author, .. }, Self::Edge { reader: other, author: of, .. }) => {
                (reader, author) == (other, of)
            }
            _ => false,
        }
    }
}

impl Operation {
    pub(crate) async fn ask(self, node: &Server) -> (u16, Value) {
        match self {
            Self::Write(author, number) => {
                attempt(node, author, "POST", "/posts", &json!({ "text": text(author, number) })).await
            }
            Self::Delete(author, id) => attempt(node, author, "DELETE", &format!("/posts/{id}"), &Value::Null).await,
            Self::Edge { reader, author, follows } => {
                let method = if follows { "PUT" } else { "DELETE" };
                attempt(node, reader, method, &format!("/users/{author}/follow"), &Value::Null).await
            }
        }
    }
}

pub(crate) fn text(author: &str, number: usize) -> String {
    format!("post {number} of {author}")
}

pub(crate) fn user(name: &str) -> &'static str {
    USERS.into_iter().find(|user| *user == name).expect("one of the users")
}
