//! Lists of what a user wrote or likes: who may read them.

use super::VisibilityPolicy;
use crate::feed::error::{FeedError, NO_USER, Result};
use crate::ledger::Ledger;
use crate::model::UserId;

/// Checks that a user exists and that the reader may see their profile.
///
/// # Errors
/// [`NO_USER`] if not; or the ledger cannot be read.
pub(crate) async fn check_profile(
    ledger: &dyn Ledger,
    visibility: &VisibilityPolicy,
    reader: Option<&UserId>,
    user: &UserId,
) -> Result<()> {
    let unknown = ledger.users(std::slice::from_ref(user)).await?.is_empty();
    if unknown || !visibility.can_see_profile(reader, user).await? {
        return Err(NO_USER);
    }
    Ok(())
}

/// Checks that the reader may read the lists of a user: what the user wrote, likes and follows, and the followers.
///
/// # Errors
/// As [`check_profile`]; [`FeedError::Locked`] if the account is locked and the reader does not follow it.
pub(crate) async fn check_lists(
    ledger: &dyn Ledger,
    visibility: &VisibilityPolicy,
    reader: Option<&UserId>,
    user: &UserId,
) -> Result<()> {
    check_profile(ledger, visibility, reader, user).await?;
    if visibility.is_open_to(reader, user).await? { Ok(()) } else { Err(FeedError::Locked) }
}

/// Whether the lists of a profile have content for the reader. They are empty if the user hides from the reader, or the
/// reader blocks them.
///
/// # Errors
/// As [`check_lists`].
pub(crate) async fn shows_content(
    ledger: &dyn Ledger,
    visibility: &VisibilityPolicy,
    reader: Option<&UserId>,
    user: &UserId,
) -> Result<bool> {
    check_lists(ledger, visibility, reader, user).await?;
    visibility.can_see_all(reader, std::iter::once(user)).await
}
