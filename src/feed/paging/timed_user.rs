//! The position in a list of users by time.

use super::PageCursor;
use crate::model::{Millis, UserId};

/// The last user of a page, and the time by which the list is ordered. `LIST` is the first letter of the cursor: lists
/// of different kinds do not accept each other's cursors.
#[derive(Clone)]
pub(crate) struct TimedUser<const LIST: char> {
    pub(crate) at: Millis,
    pub(crate) user: UserId,
}

impl<const LIST: char> PageCursor for TimedUser<LIST> {
    fn decode(text: &str) -> Option<Self> {
        let (at, user) = text.strip_prefix(LIST)?.split_once('-')?;
        Some(Self { at: at.parse().ok()?, user: UserId::parse(user)? })
    }

    fn encode(&self) -> String {
        format!("{LIST}{}-{}", self.at, self.user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_belong_to_one_kind_of_list() {
        let last = TimedUser::<'r'> { at: 7, user: UserId::parse("a-b").expect("an id") };
        assert_eq!(last.encode(), "r7-a-b");
        let decoded = TimedUser::<'r'>::decode("r7-a-b").expect("a cursor");
        assert_eq!((decoded.at, decoded.user), (last.at, last.user));
        assert!(TimedUser::<'l'>::decode("r7-a-b").is_none());
        assert!(["r7", "rx-a", "r7-", "7-a"].iter().all(|text| TimedUser::<'r'>::decode(text).is_none()));
    }
}
