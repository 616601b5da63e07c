//! Questions of a session to the application's backend: see [`hooks`](crate::hooks).

use std::sync::Arc;

use super::actions::{Action, HookQuestion, HookSubject};
use super::client::{ClientIdentity, SessionContext};
use crate::gateway::channels::ResolvedChannel;
use crate::hooks::HookKind;
use crate::model::Channel;

/// The action that asks a question about a client. Its identity is not known yet when it connects.
pub(super) fn ask(context: &SessionContext, identity: Option<&ClientIdentity>, question: HookQuestion) -> Action {
    let subject = HookSubject {
        client: Arc::clone(&context.client),
        user: identity.and_then(|identity| identity.user.clone()),
        address: context.address,
        meta: identity.and_then(|identity| identity.meta.clone()),
        headers: context.headers.clone(),
    };
    Action::Ask(Box::new((subject, question)))
}

/// Whether the backend decides on a command of this kind, instead of the rights of the namespace. The limits that a
/// channel's name sets hold all the same.
pub(super) fn is_asked(
    context: &SessionContext,
    identity: &ClientIdentity,
    kind: HookKind,
    channel: &ResolvedChannel,
    subscribed: bool,
) -> bool {
    let Channel::App(app) = &channel.channel else { return false };
    let may_use = app.admits(identity.user.as_ref()) && (!app.is_private() || subscribed);
    may_use && context.options.hooks.asks_about(kind, app.namespace())
}
