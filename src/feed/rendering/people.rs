//! Users by id, as replies include them beside the ids that refer to them.

use std::collections::{BTreeMap, HashSet};

use crate::feed::error::Result;
use crate::ledger::Ledger;
use crate::model::{Person, User, UserId};

/// The users with these ids, each once, in at most one ledger call.
///
/// # Errors
/// If the ledger cannot be read.
pub(crate) async fn load_people<'a>(
    ledger: &dyn Ledger,
    ids: impl Iterator<Item = &'a UserId> + Send,
) -> Result<BTreeMap<UserId, Person>> {
    let ids: Vec<UserId> = ids.collect::<HashSet<_>>().into_iter().cloned().collect();
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    Ok(by_id(ledger.users(&ids).await?))
}

/// Users by their ids.
pub(super) fn by_id(users: Vec<User>) -> BTreeMap<UserId, Person> {
    users.into_iter().map(|user| (user.id.clone(), Person::from(user))).collect()
}
