//! The tokens of a connection, where revocations find them. A token that was revoked between its check and its
//! registration is found here.

use std::sync::Arc;

use crate::auth::TokenIdentity;
use crate::feed::IdentityService;
use crate::gateway::registry::sockets::Registration;
use crate::gateway::session::{Session, disconnect_for};
use crate::protocol::Disconnect;

/// Registers the token of a refresh.
///
/// # Errors
/// The close code, if it was revoked.
pub(crate) fn renew_registration(
    registration: &mut Registration,
    session: &Session,
    identity: &IdentityService,
) -> Result<(), Disconnect> {
    if !registration.renew(session.token()) {
        return Ok(());
    }
    identity.check_revoked(registration.user(), registration.token()).map_err(disconnect_for)
}

/// Registers the tokens of subscriptions, if they changed. Returns the channels of those that were revoked.
pub(crate) fn note_subscription_tokens(
    registration: &Registration,
    session: &mut Session,
    identity: &IdentityService,
) -> Vec<Arc<str>> {
    let Some(tokens) = session.changed_subscription_tokens() else { return Vec::new() };
    registration.set_subscriptions(tokens.clone());
    let is_revoked = |token: &TokenIdentity| identity.check_revoked(registration.user(), Some(token)).is_err();
    tokens.into_iter().filter(|(_, token)| is_revoked(token)).map(|(channel, _)| channel).collect()
}
