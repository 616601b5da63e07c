//! Whose events consumers of the outlet receive in order.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::UserId;

/// The owner of an event: a user, or a channel of the application. Events of one owner are delivered in order. Its text
/// is the id of the user, or `#` and the name of the channel: no id contains a `#`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EventOwner(String);

impl EventOwner {
    /// A channel of the application.
    pub fn channel(name: &str) -> Self {
        Self(format!("#{name}"))
    }

    /// The owner with a text that a store returned.
    pub fn from_stored(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&UserId> for EventOwner {
    fn from(user: &UserId) -> Self {
        Self(user.as_str().to_owned())
    }
}

impl fmt::Display for EventOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_and_the_channel_with_the_same_name_are_two_owners() {
        let user = EventOwner::from(&UserId::parse("lobby").unwrap());
        let channel = EventOwner::channel("lobby");
        assert_eq!((user.as_str(), channel.as_str()), ("lobby", "#lobby"));
        assert_eq!(EventOwner::from_stored("#lobby"), channel);
    }
}
